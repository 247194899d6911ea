//! A connection of the replay: sends recorded frames, collects what the server sends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use remoting::frame::{Split, split};
use remoting::{Command, SerializeType};

/// A frame that the server sent, with the layout of its header.
#[derive(Clone, Debug)]
pub struct Received {
    /// The decoded frame.
    pub command: Command,
    /// JSON or ROCKETMQ.
    pub serialize: SerializeType,
}

/// An open connection. A thread of its own reads until the connection ends.
pub struct Wire {
    socket: TcpStream,
    incoming: Receiver<Received>,
    /// Received and not yet asked for.
    waiting: Vec<Received>,
}

impl Wire {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn connect(addr: &str) -> std::io::Result<Wire> {
        let socket = TcpStream::connect(addr)?;
        socket.set_nodelay(true)?;
        let mut reader = socket.try_clone()?;
        let (sender, incoming) = channel();
        std::thread::spawn(move || {
            let (mut bytes, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
            while let Ok(count @ 1..) = reader.read(&mut chunk) {
                bytes.extend_from_slice(&chunk[..count]);
                while let Ok(Split::Frame { total, header, serialize, body }) = split(&bytes, usize::MAX >> 1) {
                    let body = Bytes::copy_from_slice(body);
                    let Ok(command) = Command::decode(serialize, header, body) else { return };
                    if sender.send(Received { command, serialize }).is_err() {
                        return;
                    }
                    bytes.drain(..total);
                }
            }
        });
        Ok(Wire { socket, incoming, waiting: Vec::new() })
    }

    /// Sends a whole frame.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn send(&mut self, frame: &[u8]) -> std::io::Result<()> {
        self.socket.write_all(frame)
    }

    /// Takes the first frame that `wanted` takes, waiting for it up to the limit.
    pub fn take(&mut self, limit: Duration, wanted: impl Fn(&Command) -> bool) -> Option<Received> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(at) = self.waiting.iter().position(|received| wanted(&received.command)) {
                return Some(self.waiting.remove(at));
            }
            match self.incoming.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(received) => self.waiting.push(received),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Everything that came and was not asked for.
    pub fn rest(mut self) -> Vec<Received> {
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        self.waiting.extend(self.incoming.try_iter());
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        self.waiting
    }
}
