//! Replication: a slave copies its master's log, byte by byte, over a connection of its own (`haListenPort`).
//!
//! [`wire`] has the bytes. [`feeder`] and [`follower`] decide, for one connection each: bytes and clock in, frames, reports
//! and reasons to close out; they know no socket. [`acks`] tells which slave has what, and wakes who waits for them.

pub mod acks;
mod client;
mod clock;
pub mod feeder;
mod flow;
pub mod follower;
mod server;
pub mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use config::{BrokerRole, Live, MessageStoreConfig};
use remoting::body::ha::{HaClientInfo, HaConnectionInfo, HaStatus};
use store::{Store, Watermark};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use acks::{Acks, is_near};
use server::Slaves;

/// A shorter `haMasterAddress` counts as none.
const SHORTEST_ADDRESS: usize = 6;

/// What replication works with.
pub struct HaParts {
    /// Store keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// The store.
    pub store: Arc<Store>,
}

/// A broker's part in replication, in whichever role.
pub struct Ha {
    parts: HaParts,
    slave: bool,
    /// How many brokers of the group are alive, as the name servers say.
    alive: AtomicI32,
    acks: Arc<Acks>,
    slaves: Arc<Slaves>,
    /// Where the master's replication port is, for a slave.
    master: watch::Sender<Option<String>>,
    /// `haMasterAddress` says where it is, not the name servers.
    fixed: bool,
    /// How the connection to it stands.
    client: parking_lot::Mutex<HaClientInfo>,
    /// It has been compared over that connection: this log is a part of the master's.
    in_line: AtomicBool,
}

impl Ha {
    /// A broker's part; nothing runs yet. The role is the one that the configuration says at this moment.
    pub fn new(parts: HaParts) -> Ha {
        let slave = parts.store_config.load().broker_role == BrokerRole::Slave;
        let acks = Arc::new(Acks::default());
        let slaves = Arc::new(Slaves::new(parts.store.source(), parts.store_config.clone(), acks.clone()));
        let config = parts.store_config.load_full();
        let fixed = config.ha_master_address.clone().filter(|address| address.len() >= SHORTEST_ADDRESS);
        Ha {
            slave,
            alive: AtomicI32::new(config.total_replicas),
            acks,
            slaves,
            fixed: fixed.is_some(),
            master: watch::Sender::new(fixed),
            client: Default::default(),
            in_line: AtomicBool::new(false),
            parts,
        }
    }

    /// Feeds slaves that connect to `listener` until `stop`.
    pub async fn serve(&self, listener: TcpListener, stop: CancellationToken) {
        self.slaves.clone().serve(listener, stop).await;
    }

    /// Copies the master's log until `stop`.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        client::follow(self, stop).await;
    }

    /// How many slaves are connected: without any, nobody need be told of growth.
    pub fn connected(&self) -> Arc<AtomicUsize> {
        self.slaves.connected()
    }

    /// Sends connected slaves what was appended; see [`store::Store::on_growth`].
    pub fn push(&self) {
        self.slaves.push();
    }

    /// Whether this is a slave, which copies another broker's log.
    pub fn is_slave(&self) -> bool {
        self.slave
    }

    /// Says where the master's replication port is (`haServerAddr` of a registration's answer), or that there is no master.
    /// A slave leaves the master that it copies from when this is another one. Without effect on a master, and on a slave
    /// whose `haMasterAddress` says where to copy from.
    pub fn set_master(&self, address: Option<String>) {
        if !self.fixed {
            self.change_master(address);
        }
    }

    /// As [`Ha::set_master`], also in place of `haMasterAddress`: another broker says so itself.
    pub fn change_master(&self, address: Option<String>) {
        self.master.send_if_modified(|now| {
            let other = *now != address;
            if other {
                tracing::info!(from = now.as_deref(), to = address.as_deref(), "the master's address for replication");
                *now = address;
            }
            other
        });
    }

    /// Where the master's replication port is, as far as is known.
    pub fn master(&self) -> Option<String> {
        self.master.borrow().clone()
    }

    /// Whether this is a slave whose log is known to be a part of that of the master which it is connected to.
    pub fn is_in_line(&self) -> bool {
        self.in_line.load(Ordering::Acquire)
    }

    /// How replication stands: the answer to GET_BROKER_HA_STATUS (907).
    pub fn state(&self) -> HaStatus {
        let end = self.parts.store.log_range().end;
        let offset = i64::try_from(end).unwrap_or(i64::MAX);
        if self.slave {
            let link = HaClientInfo {
                master_addr: self.master(),
                max_offset: offset,
                master_flush_offset: self.parts.store.master_flushed(),
                ..self.client.lock().clone()
            };
            return HaStatus { ha_client_runtime_info: link, ..HaStatus::default() };
        }
        let gap = i64::from(self.parts.store_config.load().ha_max_gap_not_in_sync);
        let slaves = self.acks.slaves();
        let of = |slave: &Arc<acks::Slave>| {
            let acked = slave.acked.load(Ordering::Relaxed);
            HaConnectionInfo {
                addr: slave.addr.to_string(),
                diff: offset - acked,
                in_sync: is_near(acked, end, gap),
                slave_ack_offset: acked,
                transfer_from_where: slave.next.load(Ordering::Relaxed),
                transferred_byte_in_second: slave.per_second.load(Ordering::Relaxed) as i64,
            }
        };
        let connections: Vec<_> = slaves.iter().map(of).collect();
        HaStatus {
            in_sync_slave_nums: connections.iter().filter(|connection| connection.in_sync).count() as i32,
            ha_connection_info: connections,
            master: true,
            master_commit_log_max_offset: offset,
            ..HaStatus::default()
        }
    }

    /// Says how many brokers of the group are alive, this one included; `totalReplicas` until then. Counts with
    /// `enableSlaveActingMaster` only.
    pub fn set_alive(&self, brokers: i32) {
        self.alive.store(brokers, Ordering::Relaxed);
    }

    /// How many brokers have the log but for `haMaxGapNotInSync` bytes, this one included; no more than are alive.
    pub fn in_sync_replicas(&self) -> i32 {
        let gap = i64::from(self.parts.store_config.load().ha_max_gap_not_in_sync);
        let slaves = self.acks.in_sync(self.parts.store.log_range().end, gap);
        i32::try_from(slaves).unwrap_or(i32::MAX).saturating_add(1).min(self.alive.load(Ordering::Relaxed))
    }

    /// Up to where `slaves` slaves have the log; `None` when nobody ever will say so.
    pub fn replicated(&self, slaves: usize) -> Option<&Watermark> {
        self.acks.by(slaves)
    }
}
