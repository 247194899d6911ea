//! Frames from templates, and the few things of an answer that a load generator looks at.

use memchr::memmem;
use remoting::{Command, RequestCode, SerializeType};
use tokio::io::AsyncReadExt;

/// The opaque in a template: ten digits that are overwritten in place.
const OPAQUE: i32 = 1_000_000_000;

/// A whole request frame in which opaque, queue id, offset and the head of the body are patched before each send.
pub struct Template {
    bytes: Vec<u8>,
    opaque: usize,
    body: usize,
}

impl Template {
    /// A frame of that request with JSON header.
    pub fn new(code: RequestCode, fields: &[(&str, String)], body: &[u8]) -> Template {
        let mut command = Command::request(code).body(body.to_vec());
        command.opaque = OPAQUE;
        for (name, value) in fields {
            command = command.field(name, value);
        }
        let mut bytes = Vec::new();
        command.encode(SerializeType::Json, &mut bytes);
        let opaque = after(&bytes, b"\"opaque\":");
        let body = bytes.len() - body.len();
        Template { bytes, opaque, body }
    }

    /// Where the value of a field begins; it must have a fixed number of digits.
    pub fn place(&self, name: &str) -> usize {
        after(&self.bytes, format!("\"{name}\":\"").as_bytes())
    }

    /// Where a text begins that occurs once.
    pub fn find(&self, text: &[u8]) -> usize {
        after(&self.bytes, text) - text.len()
    }

    /// Overwrites `digits` digits at a place.
    pub fn set(&mut self, place: usize, digits: usize, value: u64) {
        put(&mut self.bytes[place..place + digits], value);
    }

    /// Overwrites the first eight bytes of the body.
    pub fn stamp(&mut self, value: u64) {
        self.bytes[self.body..self.body + 8].copy_from_slice(&value.to_be_bytes());
    }

    /// Appends the frame as request number `n`.
    pub fn write(&mut self, n: u32, out: &mut Vec<u8>) {
        put(&mut self.bytes[self.opaque..self.opaque + 10], u64::from(OPAQUE as u32 + n));
        out.extend_from_slice(&self.bytes);
    }
}

fn after(bytes: &[u8], what: &[u8]) -> usize {
    memmem::find(bytes, what).expect("the template has it") + what.len()
}

fn put(digits: &mut [u8], mut value: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// An answer as it stands in the read buffer.
pub struct Answer<'a> {
    header: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

impl Answer<'_> {
    /// The response code.
    pub fn code(&self) -> i64 {
        number(self.header, b"\"code\":").unwrap_or(-1)
    }

    /// The number of the request that it answers.
    pub fn request(&self) -> u32 {
        (number(self.header, b"\"opaque\":").unwrap_or_default() - i64::from(OPAQUE)) as u32
    }

    /// A numeric header field.
    pub fn field(&self, name: &str) -> Option<i64> {
        number(self.header, format!("\"{name}\":\"").as_bytes())
    }

    /// The offset in the log, which ends a message id.
    pub fn log_offset(&self) -> Option<u64> {
        let at = memmem::find(self.header, b"\"msgId\":\"")? + b"\"msgId\":\"".len();
        let id = &self.header[at..];
        let id = &id[..memmem::find(id, b"\"")?];
        u64::from_str_radix(std::str::from_utf8(id.last_chunk::<16>()?).ok()?, 16).ok()
    }
}

fn number(text: &[u8], name: &[u8]) -> Option<i64> {
    let at = memmem::find(text, name)? + name.len();
    let negative = text.get(at) == Some(&b'-');
    let digits = text[at + usize::from(negative)..].iter().take_while(|c| c.is_ascii_digit());
    let value = digits.fold(0i64, |value, digit| value.wrapping_mul(10) + i64::from(digit - b'0'));
    Some(if negative { -value } else { value })
}

/// Splits what comes from a socket into answers.
pub struct Answers {
    buffer: Vec<u8>,
    used: usize,
}

impl Answers {
    /// Nothing read yet.
    pub fn new() -> Answers {
        Answers { buffer: Vec::with_capacity(1 << 20), used: 0 }
    }

    /// Reads once and hands every whole answer to `each`; returns how many there were.
    pub async fn read(
        &mut self,
        socket: &mut (impl AsyncReadExt + Unpin),
        mut each: impl FnMut(Answer<'_>),
    ) -> std::io::Result<usize> {
        self.buffer.drain(..self.used);
        self.used = 0;
        if socket.read_buf(&mut self.buffer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let mut count = 0;
        while let Some(&[a, b, c, d, _, e, f, g]) = self.buffer[self.used..].first_chunk::<8>() {
            let total = u32::from_be_bytes([a, b, c, d]) as usize + 4;
            let Some(frame) = self.buffer.get(self.used..self.used + total) else {
                self.buffer.reserve(total);
                break;
            };
            let (header, body) = frame[8..].split_at(u32::from_be_bytes([0, e, f, g]) as usize);
            each(Answer { header, body });
            self.used += total;
            count += 1;
        }
        Ok(count)
    }
}

/// Calls `each` with every record of a pull's body; returns how many there were.
pub fn records(mut body: &[u8], mut each: impl FnMut(&[u8])) -> u64 {
    let mut count = 0;
    while let Some(&size) = body.first_chunk::<4>() {
        let size = u32::from_be_bytes(size) as usize;
        let Some((record, rest)) = body.split_at_checked(size.max(4)) else { break };
        each(record);
        body = rest;
        count += 1;
    }
    count
}
