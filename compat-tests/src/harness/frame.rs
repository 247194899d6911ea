//! Single frames over a plain connection, written and read without our own codec.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Flag bit of a response.
pub const RESPONSE: i32 = 1;
/// Flag bit of a request that wants no answer.
pub const ONEWAY: i32 = 2;

/// One frame with a JSON header.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Request code, or the result in a response.
    pub code: i32,
    /// Number that ties a response to its request.
    pub opaque: i32,
    /// Bit 0 response, bit 1 one-way.
    pub flag: i32,
    /// Text of a response.
    pub remark: Option<String>,
    /// The header's own fields.
    pub fields: BTreeMap<String, String>,
    /// Everything after the header.
    pub body: Vec<u8>,
}

impl Frame {
    /// A request with a new opaque.
    pub fn request(code: i32) -> Self {
        static OPAQUE: AtomicI32 = AtomicI32::new(1);
        Self { code, opaque: OPAQUE.fetch_add(1, Ordering::Relaxed), ..Self::default() }
    }

    /// Adds a field.
    pub fn field(mut self, name: &str, value: impl ToString) -> Self {
        self.fields.insert(name.to_owned(), value.to_string());
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the flag bits.
    pub fn flag(mut self, flag: i32) -> Self {
        self.flag = flag;
        self
    }

    /// The bytes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let header = json!({
            "code": self.code, "language": "JAVA", "version": 515, "opaque": self.opaque, "flag": self.flag,
            "serializeTypeCurrentRPC": "JSON", "extFields": self.fields,
        });
        encode(header.to_string().as_bytes(), 0, &self.body)
    }

    fn decode(serialize: u8, header: &[u8], body: &[u8]) -> Self {
        let mut frame = if serialize == 0 { Self::from_json(header) } else { Self::from_binary(&mut &*header) };
        frame.body = body.to_vec();
        frame
    }

    fn from_json(header: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(header)
            .unwrap_or_else(|error| panic!("a header that is no JSON ({error}): {}", String::from_utf8_lossy(header)));
        let fields = value["extFields"].as_object().into_iter().flatten();
        let number = |name: &str| value[name].as_i64().unwrap_or_default() as i32;
        Self {
            code: number("code"),
            opaque: number("opaque"),
            flag: number("flag"),
            remark: value["remark"].as_str().map(str::to_owned),
            fields: fields.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect(),
            body: Vec::new(),
        }
    }

    /// code (2 bytes), language (1), version (2), opaque (4), flag (4), remark, then all fields behind their length; texts behind theirs.
    fn from_binary(header: &mut &[u8]) -> Self {
        let code = number(header, 2);
        header.split_off(..3).expect("language and version");
        let mut frame = Self { code, opaque: number(header, 4), flag: number(header, 4), ..Self::default() };
        frame.remark = Some(text(header, 4)).filter(|remark| !remark.is_empty());
        let length = number(header, 4);
        assert_eq!(length as usize, header.len(), "the length of the fields");
        while !header.is_empty() {
            let name = text(header, 2);
            frame.fields.insert(name, text(header, 4));
        }
        frame
    }
}

fn number(from: &mut &[u8], size: usize) -> i32 {
    let bytes = from.split_off(..size).expect("a number");
    bytes.iter().fold(0, |sum, byte| (sum << 8) | i32::from(*byte))
}

fn text(from: &mut &[u8], size: usize) -> String {
    let length = number(from, size) as usize;
    String::from_utf8_lossy(from.split_off(..length).expect("a text")).into_owned()
}

/// A frame out of any header bytes: `serialize` is the type byte in front of the header's length.
pub fn encode(header: &[u8], serialize: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(((4 + header.len() + body.len()) as u32).to_be_bytes());
    bytes.extend(((u32::from(serialize) << 24) | header.len() as u32).to_be_bytes());
    bytes.extend(header);
    bytes.extend(body);
    bytes
}

/// A plain connection to a server.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects.
    ///
    /// # Panics
    /// When nobody listens there.
    #[track_caller]
    pub fn open(address: &str) -> Self {
        Self::try_open(address).unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    /// Connects, if somebody listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn try_open(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Our end of the connection.
    pub fn local(&self) -> SocketAddr {
        self.stream.local_addr().expect("a local address")
    }

    /// Writes bytes as they are; a peer that has closed already is no error.
    pub fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends a request and waits for its answer; requests that the server makes meanwhile are dropped.
    ///
    /// # Panics
    /// When there is none within 10 s.
    #[track_caller]
    pub fn call(&mut self, request: &Frame) -> Frame {
        self.write(&request.encode());
        let end = Instant::now() + Duration::from_secs(10);
        while let Some(answer) = self.receive(end.saturating_duration_since(Instant::now())) {
            if answer.flag & RESPONSE == RESPONSE {
                assert_eq!(answer.opaque, request.opaque, "the answer belongs to another request: {answer:?}");
                return answer;
            }
        }
        panic!("no answer to {request:?}");
    }

    /// The next frame; nothing when the peer closes or `limit` passes.
    pub fn receive(&mut self, limit: Duration) -> Option<Frame> {
        let end = Instant::now() + limit;
        loop {
            if let Some(frame) = self.take() {
                return Some(frame);
            }
            if !self.fill(end) {
                return None;
            }
        }
    }

    /// Whether the peer closes within `limit`; what it sends before is dropped.
    pub fn closes_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while self.fill(end) {
            self.buffer.clear();
        }
        Instant::now() < end
    }

    /// Reads once; false when the peer has closed or `end` has come.
    fn fill(&mut self, end: Instant) -> bool {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        self.stream.set_read_timeout(Some(left)).expect("a time limit");
        let mut bytes = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => {
                    self.buffer.extend_from_slice(&bytes[..count]);
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The limit; the caller comes back and sees it.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
    }

    fn take(&mut self) -> Option<Frame> {
        let word = |at: usize| -> Option<usize> {
            let bytes: [u8; 4] = self.buffer.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_be_bytes(bytes) as usize)
        };
        let total = word(0)?;
        let header = word(4)? & 0x00FF_FFFF;
        if self.buffer.len() < 4 + total {
            return None;
        }
        let frame = Frame::decode(self.buffer[4], &self.buffer[8..8 + header], &self.buffer[8 + header..4 + total]);
        self.buffer.drain(..4 + total);
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_frame_is_read_back() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let mut connection = Connection::open(&address);
        let (mut peer, _) = listener.accept().expect("a connection");
        let sent = Frame::request(14).field("topic", "T").body(*b"body");
        let bytes = sent.encode();
        peer.write_all(&bytes[..9]).expect("a first part");
        assert!(connection.receive(Duration::from_millis(20)).is_none());
        peer.write_all(&bytes[9..]).expect("the rest");
        let read = connection.receive(Duration::from_secs(5)).expect("a frame");
        assert_eq!((read.code, read.opaque, read.body), (14, sent.opaque, b"body".to_vec()));
        assert_eq!(read.fields["topic"], "T");
        drop(peer);
        assert!(connection.closes_within(Duration::from_secs(5)));
    }
}
