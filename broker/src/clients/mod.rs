//! Who is connected: producers and consumers by connection, and the queues that consumers hold.

mod consumers;
mod housekeeping;
mod locks;
mod producers;

use remoting::Language;
use remoting::server::ConnHandle;

pub use consumers::{Consumers, Found, Membership, Subscriptions};
pub use housekeeping::Clients;
pub use locks::QueueLocks;
pub use producers::Producers;

/// A client at the other end of a connection.
#[derive(Clone)]
pub struct Client {
    /// The connection: it, not the id, tells members of a group apart.
    pub conn: ConnHandle,
    /// The id that the client gave itself.
    pub id: String,
    /// Its language.
    pub language: Language,
    /// Its version, by Java's ordinal.
    pub version: i32,
}

/// A client in a group, and when it was last heard of there (ms since the epoch).
#[derive(Clone)]
pub struct Member {
    /// The client.
    pub client: Client,
    /// Its last heartbeat.
    pub seen: i64,
}

impl Member {
    /// Whether the last heartbeat is longer ago than `timeout` (ms).
    pub fn is_expired(&self, now: i64, timeout: i64) -> bool {
        now - self.seen > timeout
    }
}
