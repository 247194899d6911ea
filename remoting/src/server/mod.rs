//! The server half: listeners, connections, the table of handlers.

pub(crate) mod buffers;
pub(crate) mod conn;
pub mod handle;
mod lanes;
mod proxy;
pub mod router;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use handle::{CallError, ConnHandle, ReplyTo};
pub use router::{AnyHandler, Cx, Handler, Known, Lane, Outcome, Router};

use crate::command::SerializeType;
use crate::server::conn::Shared;
use crate::server::handle::{Clock, ConnShared};
use crate::server::lanes::Lanes;

/// How a server listens and what it allows.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address and port; port 0 picks a free one.
    pub listen: SocketAddr,
    /// The layout of the headers that we write (`rocketmq.serialize.type`).
    pub serialize: SerializeType,
    /// The largest frame in bytes, its length word included (`com.rocketmq.remoting.frameMaxLength`).
    pub max_frame: usize,
    /// A connection without a byte in either direction for so long is closed; zero: never.
    pub idle: Duration,
    /// Bytes of answers that may wait for one client before we stop reading from it.
    pub high_water: usize,
    /// SO_SNDBUF and SO_RCVBUF in bytes; 0 leaves the system's.
    pub send_buffer: usize,
    /// See [`ServerOptions::send_buffer`].
    pub receive_buffer: usize,
    /// Length of the accept queue.
    pub backlog: u32,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            listen: SocketAddr::from(([0, 0, 0, 0], 0)),
            serialize: SerializeType::Json,
            max_frame: 16 * 1024 * 1024,
            idle: Duration::from_secs(120),
            high_water: 4 * 1024 * 1024,
            send_buffer: 0,
            receive_buffer: 0,
            backlog: 1024,
        }
    }
}

/// How often the server looks for idle connections.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How long a stopping server waits for requests under way.
const DRAIN: Duration = Duration::from_secs(3);
/// A connection with so many times the high-water mark queued is closed: parked requests and pushes do not stop at it.
const QUEUE_LIMIT_FACTOR: usize = 16;

/// A bound server.
pub struct Server {
    listener: TcpListener,
    local: SocketAddr,
    options: ServerOptions,
    shared: Arc<Shared>,
    clock: Arc<Clock>,
    conns: Arc<Mutex<HashMap<u64, ConnHandle>>>,
}

impl Server {
    /// Binds the port. Nothing is accepted before [`Server::run`]. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// What the system says: address in use, no permission.
    pub fn bind(options: ServerOptions, router: Arc<Router>) -> std::io::Result<Server> {
        let socket = Socket::new(Domain::for_address(options.listen), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        if options.receive_buffer > 0 {
            socket.set_recv_buffer_size(options.receive_buffer)?;
        }
        if options.send_buffer > 0 {
            socket.set_send_buffer_size(options.send_buffer)?;
        }
        socket.bind(&options.listen.into())?;
        socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
        let listener = TcpListener::from_std(socket.into())?;
        let local = listener.local_addr()?;
        let shared =
            Shared { router, lanes: Lanes::new(), max_frame: options.max_frame, high_water: options.high_water };
        Ok(Server { listener, local, options, shared: Arc::new(shared), clock: Arc::default(), conns: Arc::default() })
    }

    /// Where the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Accepts and serves until `stop` is cancelled; then connections are drained (requests under way are answered) and
    /// closed.
    pub async fn run(self, stop: CancellationToken) {
        let tasks = TaskTracker::new();
        let mut housekeeping = tokio::time::interval(HOUSEKEEPING);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = housekeeping.tick() => self.close_idle(),
                accepted = self.listener.accept() => match accepted {
                    Ok((socket, peer)) => self.serve(socket, peer, &tasks),
                    Err(error) => {
                        // Out of descriptors, mostly: go on when some are free again, and do not spin meanwhile.
                        tracing::warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
        let local = self.local;
        let conns = self.conns.clone();
        // The port is free from here on.
        drop(self);
        tasks.close();
        conns.lock().values().for_each(|conn| conn.0.begin_drain());
        if tokio::time::timeout(DRAIN, tasks.wait()).await.is_err() {
            tracing::warn!(%local, "connections with unanswered requests are closed");
            conns.lock().values().for_each(ConnHandle::close);
            tasks.wait().await;
        }
    }

    fn serve(&self, socket: TcpStream, peer: SocketAddr, tasks: &TaskTracker) {
        let Ok(local) = socket.local_addr() else { return };
        if socket.set_nodelay(true).is_err() {
            return;
        }
        let (reader, writer) = socket.into_split();
        let limit = self.options.high_water.saturating_mul(QUEUE_LIMIT_FACTOR);
        let state = ConnShared::new(writer, peer, local, self.options.serialize, limit, self.clock.clone());
        let conn = ConnHandle(Arc::new(state));
        self.conns.lock().insert(conn.id(), conn.clone());
        let (shared, conns) = (self.shared.clone(), self.conns.clone());
        tasks.spawn(async move {
            let _listed = Listed { id: conn.id(), conns };
            conn::serve(reader, conn, shared, true).await;
        });
    }

    /// Closes connections on which nothing went in or out for the idle time.
    ///
    /// The clock counts whole seconds, so one second more is given: never early, at most two seconds late.
    fn close_idle(&self) {
        let now = self.clock.0.fetch_add(1, Ordering::Relaxed) + 1;
        let limit = self.options.idle.as_secs().saturating_add(1);
        if self.options.idle.is_zero() {
            return;
        }
        let conns = self.conns.lock();
        for conn in conns.values() {
            let quiet = now.saturating_sub(conn.0.active.load(Ordering::Relaxed));
            if u64::from(quiet) > limit {
                tracing::debug!(peer = %conn.peer(), "closing an idle connection");
                metrics::counter!("rocketmq_remoting_idle_closed_total").increment(1);
                conn.close();
            }
        }
    }
}

/// Takes a connection off the list when its task ends.
struct Listed {
    id: u64,
    conns: Arc<Mutex<HashMap<u64, ConnHandle>>>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.conns.lock().remove(&self.id);
    }
}

/// Lanes of their own, for a client's connections.
pub(crate) fn lanes() -> Lanes {
    Lanes::new()
}
