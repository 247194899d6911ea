//! Clients that go without a word: closed connections, and open ones that send no heartbeats.

use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::server::ConnHandle;

use super::{Consumers, Producers, QueueLocks};
use crate::filter::ConsumerFilters;

/// How long a producer may be silent (ms); for consumers it is `channelExpiredTimeout`.
const PRODUCER_TIMEOUT: i64 = 120_000;

/// Everybody who is connected.
#[derive(Clone)]
pub struct Clients {
    config: Arc<Live<BrokerConfig>>,
    /// Consumers by group.
    pub consumers: Arc<Consumers>,
    /// Producers by group.
    pub producers: Arc<Producers>,
    /// Queues that consumers hold.
    pub locks: Arc<QueueLocks>,
}

impl Clients {
    /// Nobody is connected.
    pub fn new(config: Arc<Live<BrokerConfig>>, filters: Arc<ConsumerFilters>) -> Clients {
        Clients {
            consumers: Arc::new(Consumers::new(config.clone(), filters)),
            producers: Arc::new(Producers::new(config.clone())),
            locks: Arc::default(),
            config,
        }
    }

    /// A connection is gone.
    pub fn closed(&self, conn: &ConnHandle) {
        self.producers.closed(conn);
        self.consumers.closed(conn);
    }

    /// Drops whoever sent no heartbeats for too long. A connection is closed when none of its groups is heard of any
    /// more; while one is, the others end on their own.
    pub fn scan(&self, now: i64) {
        let consumer_timeout = self.config.load().channel_expired_timeout;
        let mut silent = self.consumers.expire(now, consumer_timeout);
        silent.extend(self.producers.expire(now, PRODUCER_TIMEOUT));
        for conn in silent {
            if self.consumers.last_seen(&conn).is_none() && self.producers.last_seen(&conn).is_none() {
                conn.close();
            }
        }
        self.locks.sweep(now);
    }
}
