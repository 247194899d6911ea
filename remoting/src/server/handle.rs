//! One connection as the rest of the process sees it: a way to answer, to push and to call, and who is at the other end.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::oneshot;

use crate::code::ResponseCode;
use crate::command::{Command, FLAG_ONEWAY, SerializeType};
use crate::header::WriteHeader;
use crate::reply::{self, Reply};

/// A connection; clones are the same connection. Usable from any thread, also after the connection is gone.
#[derive(Clone)]
pub struct ConnHandle(pub(crate) Arc<ConnShared>);

/// Why a call to a peer has no answer.
#[derive(Debug, Error)]
pub enum CallError {
    /// The connection is gone.
    #[error("the connection is closed")]
    Closed,
    /// No answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

impl ConnHandle {
    /// A number that no other connection of this process has had.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The TCP peer: the address that a message is stored with.
    pub fn peer(&self) -> SocketAddr {
        self.0.peer
    }

    /// The client behind a PROXY header, else the peer: for lists and judgements.
    pub fn client(&self) -> SocketAddr {
        self.0.proxied.get().copied().unwrap_or(self.0.peer)
    }

    /// Our end.
    pub fn local(&self) -> SocketAddr {
        self.0.local
    }

    /// Whether the connection can still carry anything.
    pub fn is_open(&self) -> bool {
        self.0.open.load(Ordering::Acquire)
    }

    /// Bytes that wait until the peer reads.
    pub fn queued(&self) -> usize {
        self.0.queued.load(Ordering::Acquire)
    }

    /// Sends a one-way request; lost silently when the connection is gone.
    pub fn push(&self, command: &Command) {
        let mut command = command.clone();
        command.opaque = self.0.next_opaque.fetch_add(1, Ordering::Relaxed);
        command.flag |= FLAG_ONEWAY;
        self.0.send_command(&command);
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// Connection gone, or no answer in time.
    pub async fn call(&self, mut command: Command, timeout: Duration) -> Result<Command, CallError> {
        let opaque = self.0.next_opaque.fetch_add(1, Ordering::Relaxed);
        command.opaque = opaque;
        let (answer, answered) = oneshot::channel();
        self.0.pending.lock().insert(opaque, answer);
        // Looked at after the insert: a close that misses the entry has set the flag before.
        if !self.is_open() {
            self.0.pending.lock().remove(&opaque);
            return Err(CallError::Closed);
        }
        self.0.send_command(&command);
        match tokio::time::timeout(timeout, answered).await {
            Ok(answered) => answered.map_err(|_| CallError::Closed),
            Err(_) => {
                self.0.pending.lock().remove(&opaque);
                Err(CallError::Timeout(timeout))
            }
        }
    }

    /// Closes the connection; what is already queued may be lost.
    pub fn close(&self) {
        self.0.close();
    }
}

/// The state of a connection that outlives its task.
pub(crate) struct ConnShared {
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    /// The client's address from a PROXY header, once there was one.
    pub(crate) proxied: OnceLock<SocketAddr>,
    /// The layout of what we write.
    pub(crate) serialize: SerializeType,
    /// Cleared once, by whoever closes; the connection's task sees it and ends.
    pub(crate) open: AtomicBool,
    /// Set when the server stops: the task ends as soon as nothing is under way.
    pub(crate) draining: AtomicBool,
    /// The server's coarse clock (seconds) when a byte last went in or out.
    pub(crate) active: AtomicU32,
    /// See [`Clock`].
    pub(crate) clock: Arc<Clock>,
    /// Requests of this connection that run elsewhere (blocking lane, later).
    pub(crate) elsewhere: AtomicUsize,
    /// Queued bytes, readable without the lock.
    pub(crate) queued: AtomicUsize,
    /// More queued bytes than this close the connection: its client does not read.
    pub(crate) queue_limit: usize,
    outbox: Mutex<Vec<u8>>,
    socket: OwnedWriteHalf,
    task: Mutex<Option<Waker>>,
    pending: Mutex<HashMap<i32, oneshot::Sender<Command>>>,
    next_opaque: AtomicI32,
}

/// Seconds since the server started, advanced by its housekeeping, so that a connection need not ask the system for
/// the time on every read.
#[derive(Debug, Default)]
pub(crate) struct Clock(pub(crate) AtomicU32);

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl ConnShared {
    pub(crate) fn new(
        socket: OwnedWriteHalf,
        peer: SocketAddr,
        local: SocketAddr,
        serialize: SerializeType,
        queue_limit: usize,
        clock: Arc<Clock>,
    ) -> ConnShared {
        ConnShared {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            peer,
            local,
            proxied: OnceLock::new(),
            serialize,
            open: AtomicBool::new(true),
            draining: AtomicBool::new(false),
            active: AtomicU32::new(clock.0.load(Ordering::Relaxed)),
            clock,
            elsewhere: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            queue_limit,
            outbox: Mutex::new(Vec::new()),
            socket,
            task: Mutex::new(None),
            pending: Mutex::new(HashMap::new()),
            next_opaque: AtomicI32::new(0),
        }
    }

    /// Notes that a byte went in or out.
    pub(crate) fn touch(&self) {
        self.active.store(self.clock.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Writes whole frames: straight to the socket when nothing is queued before them, so that an answer made on
    /// another thread needs no hop to the connection's task. The rest is queued for the task.
    pub(crate) fn send(&self, bytes: &[u8]) {
        if bytes.is_empty() || !self.open.load(Ordering::Acquire) {
            return;
        }
        self.touch();
        let mut outbox = self.outbox.lock();
        let mut rest = bytes;
        if outbox.is_empty() {
            match self.write_some(bytes) {
                Ok(written) => rest = &bytes[written..],
                Err(_) => {
                    drop(outbox);
                    return self.close();
                }
            }
        }
        if rest.is_empty() {
            return;
        }
        outbox.extend_from_slice(rest);
        let queued = outbox.len();
        self.queued.store(queued, Ordering::Release);
        drop(outbox);
        if queued > self.queue_limit {
            tracing::warn!(peer = %self.peer, queued, "closing a connection whose client does not read");
            metrics::counter!("rocketmq_remoting_unread_closed_total").increment(1);
            return self.close();
        }
        self.wake();
    }

    /// Writes what is queued as far as the socket takes it.
    pub(crate) fn write_queued(&self) {
        let mut outbox = self.outbox.lock();
        match self.write_some(&outbox) {
            Ok(written) => {
                outbox.drain(..written);
                if outbox.is_empty() {
                    // An idle connection holds no buffer.
                    *outbox = Vec::new();
                }
                self.queued.store(outbox.len(), Ordering::Release);
                if written > 0 {
                    self.touch();
                }
            }
            Err(_) => {
                drop(outbox);
                self.close();
            }
        }
    }

    /// Bytes that the socket took; 0 when it takes none now.
    fn write_some(&self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            match self.socket.try_write(&bytes[done..]) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    pub(crate) fn send_command(&self, command: &Command) {
        let mut frame = Vec::with_capacity(256 + command.body.len());
        command.encode(self.serialize, &mut frame);
        self.send(&frame);
    }

    /// Hands an answer from the peer to the call that waits for it; an unknown opaque is ignored.
    pub(crate) fn complete(&self, answer: Command) {
        if let Some(waiting) = self.pending.lock().remove(&answer.opaque) {
            // A caller that gave up meanwhile has dropped its end.
            let _ = waiting.send(answer);
        }
    }

    /// Marks the connection closed and wakes its task, which closes the socket.
    pub(crate) fn close(&self) {
        if self.open.swap(false, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// What the task does once at its end: every waiting call learns that there will be no answer.
    pub(crate) fn finish(&self) {
        self.open.store(false, Ordering::Release);
        self.pending.lock().clear();
        *self.outbox.lock() = Vec::new();
    }

    pub(crate) fn begin_drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.wake();
    }

    /// The socket, for readiness.
    pub(crate) fn stream(&self) -> &tokio::net::TcpStream {
        self.socket.as_ref()
    }

    /// Remembers the task to wake.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut task = self.task.lock();
        match &*task {
            Some(known) if known.will_wake(waker) => {}
            _ => *task = Some(waker.clone()),
        }
    }

    pub(crate) fn wake(&self) {
        let task = self.task.lock().clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// A request that is answered later, from any thread. Dropping it without an answer leaves the client to its time-out.
pub struct ReplyTo {
    pub(crate) conn: ConnHandle,
    pub(crate) opaque: i32,
    pub(crate) oneway: bool,
}

impl ReplyTo {
    /// The connection of the request.
    pub fn conn(&self) -> &ConnHandle {
        &self.conn
    }

    /// The request's opaque.
    pub fn opaque(&self) -> i32 {
        self.opaque
    }

    /// Answers. Writes to the socket at once where that does not block.
    pub fn send(self, reply: &Reply) {
        if self.oneway {
            return;
        }
        let mut frame = Vec::with_capacity(256 + reply.body.len());
        reply.encode(self.conn.0.serialize, self.opaque, &mut frame);
        self.conn.0.send(&frame);
    }

    /// Answers without owned values, as [`Cx::write_with`](super::router::Cx::write_with) does.
    pub fn send_with(
        self,
        code: ResponseCode,
        remark: Option<&str>,
        header: &dyn WriteHeader,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.oneway {
            return;
        }
        super::buffers::with_scratch(|frame| {
            reply::encode(frame, self.conn.0.serialize, self.opaque, code.0, remark, header, body);
            self.conn.0.send(frame);
        });
    }
}
