//! Calls to other servers: name servers, a master, brokers. One connection an address, opened when needed.
//!
//! A connection of ours is served by the same task as one that we accepted: the peer's answers complete calls, and its
//! requests go to the router.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::command::{Command, SerializeType};
use crate::server::conn::{self, Shared};
use crate::server::handle::{CallError, Clock, ConnHandle, ConnShared};
use crate::server::{Router, ServerOptions};

/// Why a call to a server has no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No connection to the address.
    #[error("cannot connect to {addr}: {source}")]
    Connect {
        /// The address as given.
        addr: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The connection broke while we waited.
    #[error("the connection to {0} broke")]
    Broken(String),
    /// No answer in time.
    #[error("no answer from {addr} within {after:?}")]
    Timeout {
        /// The address as given.
        addr: String,
        /// The limit.
        after: Duration,
    },
}

/// A client of any number of servers. Clones share connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    serialize: SerializeType,
    clock: Arc<Clock>,
    /// One slot an address.
    slots: Mutex<HashMap<String, Slot>>,
}

/// A connection, or the promise of one: the lock is held while it is being made, so that callers share it.
type Slot = Arc<tokio::sync::Mutex<Option<ConnHandle>>>;

/// Closes the slot's connection. One that is being made just now is left to its caller.
fn close_slot(slot: &Slot) {
    if let Some(conn) = slot.try_lock().ok().and_then(|mut slot| slot.take()) {
        conn.close();
    }
}

impl Client {
    /// A client; `router` answers what servers ask of us (name server: 905).
    pub fn new(router: Option<Arc<Router>>) -> Client {
        Client::with_serialize(router, SerializeType::Json)
    }

    /// A client that writes its headers in the given layout.
    pub fn with_serialize(router: Option<Arc<Router>>, serialize: SerializeType) -> Client {
        let defaults = ServerOptions::default();
        let shared = Shared {
            router: router.unwrap_or_default(),
            lanes: crate::server::lanes(),
            max_frame: defaults.max_frame,
            high_water: defaults.high_water,
        };
        let (shared, clock) = (Arc::new(shared), Arc::default());
        Client { inner: Arc::new(Inner { shared, serialize, clock, slots: Mutex::default() }) }
    }

    /// Sends a request to `addr` (`host:port`) and waits for the answer, whatever its code.
    ///
    /// # Errors
    /// No connection, a broken one, or no answer within `timeout` (which covers the connect).
    pub async fn call(&self, addr: &str, command: Command, timeout: Duration) -> Result<Command, ClientError> {
        let deadline = Instant::now() + timeout;
        let conn = self.connection(addr, timeout).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        conn.call(command, left).await.map_err(|error| match error {
            CallError::Closed => ClientError::Broken(addr.to_owned()),
            CallError::Timeout(_) => ClientError::Timeout { addr: addr.to_owned(), after: timeout },
        })
    }

    /// Sends a one-way request.
    ///
    /// # Errors
    /// No connection within `timeout`.
    pub async fn oneway(&self, addr: &str, command: Command, timeout: Duration) -> Result<(), ClientError> {
        self.connection(addr, timeout).await?.push(&command);
        Ok(())
    }

    /// Closes all connections; a later call opens new ones.
    pub fn close(&self) {
        self.inner.slots.lock().values().for_each(close_slot);
    }

    async fn connection(&self, addr: &str, timeout: Duration) -> Result<ConnHandle, ClientError> {
        let slot = self.inner.slots.lock().entry(addr.to_owned()).or_default().clone();
        let connect = async {
            let mut slot = slot.lock().await;
            if let Some(conn) = slot.as_ref().filter(|conn| conn.is_open()) {
                return Ok(conn.clone());
            }
            let conn = self.open(addr).await?;
            *slot = Some(conn.clone());
            Ok(conn)
        };
        let connected = tokio::time::timeout(timeout, connect).await;
        match connected {
            Ok(connected) => connected.map_err(|source| ClientError::Connect { addr: addr.to_owned(), source }),
            Err(_) => Err(ClientError::Timeout { addr: addr.to_owned(), after: timeout }),
        }
    }

    async fn open(&self, addr: &str) -> std::io::Result<ConnHandle> {
        let socket = TcpStream::connect(addr).await?;
        socket.set_nodelay(true)?;
        let (peer, local) = (socket.peer_addr()?, socket.local_addr()?);
        let (reader, writer) = socket.into_split();
        let inner = &self.inner;
        let state = ConnShared::new(writer, peer, local, inner.serialize, usize::MAX, inner.clock.clone());
        let conn = ConnHandle(Arc::new(state));
        tokio::spawn(conn::serve(reader, conn.clone(), inner.shared.clone(), false));
        Ok(conn)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.slots.get_mut().values().for_each(close_slot);
    }
}
