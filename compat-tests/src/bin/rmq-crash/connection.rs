//! A connection that keeps several requests in flight.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use remoting::frame::{self, Split};
use remoting::{Command, SerializeType};

const MAX_FRAME: usize = 64 << 20;

/// A connection to the broker.
pub struct Connection {
    socket: TcpStream,
    buffer: Vec<u8>,
    opaque: i32,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn open(address: &str) -> io::Result<Connection> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        // A broker that hangs must not hang the suite.
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Connection { socket, buffer: Vec::new(), opaque: 0 })
    }

    /// Sends all requests at once and hands over each answer with the number of its request, in the order of arrival.
    ///
    /// # Errors
    /// The connection broke; requests without an answer may have been carried out.
    pub fn call_all(&mut self, requests: Vec<Command>, mut each: impl FnMut(usize, Command)) -> io::Result<()> {
        let first = self.opaque;
        let count = requests.len();
        let mut bytes = Vec::new();
        for mut request in requests {
            request.opaque = self.opaque;
            self.opaque += 1;
            request.encode(SerializeType::Json, &mut bytes);
        }
        // When a part is written before the connection breaks, answers to it may be waiting: they are read first.
        let written = self.socket.write_all(&bytes);
        for _ in 0..count {
            let answer = self.answer()?;
            let number = usize::try_from(answer.opaque - first).map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
            each(number, answer);
        }
        written
    }

    /// One request and its answer.
    ///
    /// # Errors
    /// As [`Connection::call_all`].
    pub fn call(&mut self, request: Command) -> io::Result<Command> {
        let mut answer = None;
        self.call_all(vec![request], |_, command| answer = Some(command))?;
        answer.ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    fn answer(&mut self) -> io::Result<Command> {
        loop {
            let bad = |error: String| io::Error::new(ErrorKind::InvalidData, error);
            if let Split::Frame { total, header, serialize, body } =
                frame::split(&self.buffer, MAX_FRAME).map_err(|error| bad(error.to_string()))?
            {
                let answer = Command::decode(serialize, header, Bytes::copy_from_slice(body));
                let answer = answer.map_err(|error| bad(error.to_string()))?;
                self.buffer.drain(..total);
                if answer.is_response() {
                    return Ok(answer);
                }
                continue;
            }
            let mut bytes = [0; 64 << 10];
            match self.socket.read(&mut bytes)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => self.buffer.extend_from_slice(&bytes[..count]),
            }
        }
    }
}
