//! What makes a broker with `brokerRole=SLAVE` right apart from the log, which [`crate::ha`] copies: the tables that are not in
//! the log, and who of a group does what only one of them does.

mod escape;
mod fetch;
mod members;
mod queues;
mod succession;
mod sync;
mod tally;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use escape::{Escape, EscapeError};
pub use fetch::{Fetch, HaInfo, SyncError};
pub use members::Members;
pub use succession::{LeastChanged, Succession, SuccessionParts};
pub use sync::{MetadataSync, SyncParts};
pub use tally::Tally;

use crate::ha::Ha;
use crate::namesrv_link::MasterInfo;

/// What a slave does with what it hears of its master.
pub struct Slave {
    /// Copies the master's tables.
    pub sync: Arc<MetadataSync>,
    ha: Arc<Ha>,
    /// Where the log will be copied from.
    log_from: Mutex<Option<String>>,
}

impl Slave {
    /// A slave that knows no master yet.
    pub fn new(sync: Arc<MetadataSync>, ha: Arc<Ha>) -> Slave {
        Slave { sync, ha, log_from: Mutex::new(None) }
    }

    /// A name server has said where the master is. One that knows none does not part us from the log of a master that we
    /// copy: that may only have lost its connection to the name server.
    pub fn registered(&self, master: &MasterInfo) {
        if master.ha_addr.is_some() {
            self.log_from.lock().clone_from(&master.ha_addr);
        }
        self.sync.set_master(master.addr.as_deref());
        if self.ha.master().is_some() || master.addr.is_none() {
            self.copy_log();
        }
    }

    /// The master is there, and reached for replication at `ha_addr` when that is known.
    pub fn master_is_back(&self, addr: &str, ha_addr: Option<String>) {
        self.sync.set_master(Some(addr));
        if ha_addr.is_some() {
            *self.log_from.lock() = ha_addr;
            self.copy_log();
        }
    }

    /// The master is gone: nothing is copied until one is there.
    pub fn master_is_gone(&self) {
        *self.log_from.lock() = None;
        self.sync.set_master(None);
        self.ha.set_master(None);
    }

    /// Copies until `stop`. The log is copied after the topics, since messages of a topic with batch queues or a clean-up
    /// policy go elsewhere than others; but it does not wait for topics that cannot be had.
    pub async fn run(&self, stop: CancellationToken) {
        self.sync.run(stop, || self.copy_log()).await;
    }

    fn copy_log(&self) {
        let from = self.log_from.lock().clone();
        if from.is_some() {
            self.ha.set_master(from);
        }
    }
}
