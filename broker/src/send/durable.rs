//! What an answer waits for: the disk (`SYNC_FLUSH`) and replicas (`SYNC_MASTER`).
//!
//! As in Java a master waits for `inSyncReplicas` brokers, itself included; 1, the default, is no wait. How many slaves are
//! connected is asked only with `enableSlaveActingMaster`: then a message that cannot reach as many as it needs is refused
//! before it is stored, and with `enableAutoInSyncReplicas` it needs only those that are there, but `minInSyncReplicas`.

use std::sync::Arc;
use std::time::Duration;

use config::{BrokerRole, FlushDiskType, MessageStoreConfig};
use remoting::ResponseCode;
use store::Store;

use super::{Refusal, Sender};
use crate::ha::Ha;

/// What is asked of a message before it counts as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// It is on disk.
    flush: bool,
    /// So many slaves have it.
    copies: usize,
}

impl Need {
    /// Nothing: it is in the log.
    pub const NOTHING: Need = Need { flush: false, copies: 0 };

    /// Whether the answer can go at once.
    #[inline]
    pub fn is_nothing(self) -> bool {
        self == Need::NOTHING
    }
}

/// Waits for a message.
pub struct Durable {
    store: Arc<Store>,
    ha: Arc<Ha>,
    end: u64,
    need: Need,
    flush_limit: Duration,
    copies_limit: Duration,
}

impl Sender {
    /// What is needed of the next message; `waits` is what its producer says (`WAIT`).
    ///
    /// # Errors
    /// Fewer replicas are there than it needs: it is not to be stored.
    #[inline]
    pub fn need(&self, waits: bool) -> Result<Need, Refusal> {
        let config = self.parts.store_config.load();
        if !waits {
            return Ok(Need::NOTHING);
        }
        let flush = config.flush_disk_type == FlushDiskType::Sync;
        let copies = if config.broker_role == BrokerRole::SyncMaster { self.copies(&config)? } else { 0 };
        Ok(Need { flush, copies })
    }

    fn copies(&self, config: &MessageStoreConfig) -> Result<usize, Refusal> {
        let mut wanted = config.in_sync_replicas;
        if self.parts.config.load().enable_slave_acting_master {
            let there = self.parts.ha.in_sync_replicas();
            if config.enable_auto_in_sync_replicas {
                wanted = wanted.min(there).max(config.min_in_sync_replicas);
            }
            if wanted > there {
                return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, "in-sync replicas not enough"));
            }
        }
        Ok(usize::try_from(wanted).unwrap_or(0).saturating_sub(1))
    }

    /// Asks for what a message needs that ends at `end` in the log; the answer waits for [`Durable::reached`].
    pub fn durable(&self, need: Need, end: u64) -> Durable {
        if need.flush {
            self.parts.store.request_flush();
        }
        let config = self.parts.store_config.load();
        let millis = |value: i32| Duration::from_millis(u64::try_from(value).unwrap_or(0));
        Durable {
            store: Arc::clone(&self.parts.store),
            ha: Arc::clone(&self.parts.ha),
            end,
            need,
            flush_limit: millis(config.sync_flush_timeout),
            copies_limit: millis(config.slave_timeout),
        }
    }
}

impl Durable {
    /// Waits; returns the code of the answer. Replicas that are late count for more than a disk that is.
    pub async fn reached(self) -> ResponseCode {
        let flushed = async {
            !self.need.flush
                || tokio::time::timeout(self.flush_limit, self.store.flushed().reached(self.end)).await.is_ok()
        };
        let copied = async {
            match self.ha.replicated(self.need.copies) {
                _ if self.need.copies == 0 => true,
                Some(mark) => tokio::time::timeout(self.copies_limit, mark.reached(self.end)).await.is_ok(),
                None => {
                    tokio::time::sleep(self.copies_limit).await;
                    false
                }
            }
        };
        match tokio::join!(flushed, copied) {
            (_, false) => ResponseCode::FLUSH_SLAVE_TIMEOUT,
            (false, true) => ResponseCode::FLUSH_DISK_TIMEOUT,
            (true, true) => ResponseCode::SUCCESS,
        }
    }
}
