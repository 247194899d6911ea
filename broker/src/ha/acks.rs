//! Which slave has how much of the log, and who waits for how many of them.
//!
//! A message counts as replicated `n` times once `n` connected slaves had reported its end, whether they are still connected
//! or not. As a report above the end of the log never comes here, and a waiter waits for what was just appended, what was
//! true of the log before never counts for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use store::Watermark;

/// So many slaves are told apart; nobody waits for more.
const MOST: usize = 16;

/// What a master knows of a connected slave. Written by its connection, read by whoever wants to know.
#[derive(Debug)]
pub struct Slave {
    /// Its end of the connection.
    pub addr: SocketAddr,
    /// How far it says to have the log; -1 before its first report.
    pub acked: AtomicI64,
    /// How far that counts, see [`super::feeder`].
    pub confirmed: AtomicU64,
    /// Where the next frame begins; -1 before its first report.
    pub next: AtomicI64,
    /// Bytes that went to it in the last second.
    pub per_second: AtomicU64,
}

impl Slave {
    /// A slave that has just connected.
    pub fn new(addr: SocketAddr) -> Slave {
        Slave {
            addr,
            acked: AtomicI64::new(-1),
            confirmed: AtomicU64::new(0),
            next: AtomicI64::new(-1),
            per_second: AtomicU64::new(0),
        }
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Acks {
    slaves: Mutex<Vec<Arc<Slave>>>,
    /// At index `n`: up to where `n + 1` slaves have had the log.
    reached: [Watermark; MOST],
}

impl Acks {
    /// The slaves that are connected now.
    pub fn slaves(&self) -> Vec<Arc<Slave>> {
        self.slaves.lock().clone()
    }

    /// A slave has connected.
    pub fn joined(&self, slave: Arc<Slave>) {
        self.slaves.lock().push(slave);
    }

    /// A connection has ended.
    pub fn left(&self, slave: &Arc<Slave>) {
        self.slaves.lock().retain(|other| !Arc::ptr_eq(other, slave));
    }

    /// A slave has reported positions within the log: what it says to have, and what counts of that.
    pub fn reported(&self, slave: &Slave, acked: i64, confirmed: u64) {
        slave.acked.store(acked, Ordering::Relaxed);
        if slave.confirmed.swap(confirmed, Ordering::Relaxed) == confirmed {
            return;
        }
        let slaves = self.slaves.lock();
        if let [_] = slaves[..] {
            drop(slaves);
            return self.reached[0].advance(confirmed);
        }
        let mut positions: Vec<_> = slaves.iter().map(|slave| slave.confirmed.load(Ordering::Relaxed)).collect();
        drop(slaves);
        positions.sort_unstable_by(|a, b| b.cmp(a));
        for (mark, position) in self.reached.iter().zip(positions) {
            mark.advance(position);
        }
    }

    /// Up to where `slaves` slaves have had the log; `None` for none, and for more than are told apart: that many there
    /// will never be.
    pub fn by(&self, slaves: usize) -> Option<&Watermark> {
        self.reached.get(slaves.checked_sub(1)?)
    }

    /// How many slaves are less than `gap` bytes behind `end`.
    pub fn in_sync(&self, end: u64, gap: i64) -> usize {
        let near = |slave: &&Arc<Slave>| is_near(slave.acked.load(Ordering::Relaxed), end, gap);
        self.slaves.lock().iter().filter(near).count()
    }
}

/// Whether a slave that has the log up to `acked` counts as not behind (`haMaxGapNotInSync`).
pub fn is_near(acked: i64, end: u64, gap: i64) -> bool {
    i64::try_from(end).unwrap_or(i64::MAX).saturating_sub(acked) < gap
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slave(acks: &Acks) -> Arc<Slave> {
        let slave = Arc::new(Slave::new(SocketAddr::from(([127, 0, 0, 1], 1))));
        acks.joined(slave.clone());
        slave
    }

    fn by(acks: &Acks) -> Vec<u64> {
        (1..=3).map(|slaves| acks.by(slaves).unwrap().get()).collect()
    }

    #[test]
    fn each_slave_counts_once() {
        let acks = Acks::default();
        let (a, b) = (slave(&acks), slave(&acks));
        acks.reported(&a, 100, 100);
        assert_eq!(by(&acks), [100, 0, 0]);
        acks.reported(&a, 200, 200);
        acks.reported(&b, 150, 150);
        assert_eq!(by(&acks), [200, 150, 0]);
        // A slave that was set up anew: what was replicated was replicated.
        acks.left(&a);
        let c = slave(&acks);
        acks.reported(&c, 10, 10);
        assert_eq!(by(&acks), [200, 150, 0]);
        acks.reported(&b, 300, 300);
        acks.reported(&c, 250, 250);
        assert_eq!(by(&acks), [300, 250, 0]);
        acks.reported(&c, -1, 0);
        assert_eq!(by(&acks), [300, 250, 0]);
        assert!(acks.by(0).is_none() && acks.by(MOST + 1).is_none());
    }

    #[test]
    fn not_behind_is_less_than_the_gap() {
        let acks = Acks::default();
        let (a, b) = (slave(&acks), slave(&acks));
        acks.reported(&a, 901, 901);
        acks.reported(&b, 900, 900);
        assert_eq!(acks.in_sync(1000, 100), 1);
        assert_eq!(acks.in_sync(1000, 101), 2);
        assert_eq!(acks.in_sync(50, 0), 2);
    }
}
