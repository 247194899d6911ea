//! Who of the brokers of our group has the least id: the one that does what only one of them does.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::identity::Identity;

/// The brokers that share our name, as far as we know them. Until we are told otherwise there is a master.
pub struct Members {
    own: i64,
    least: AtomicI64,
}

impl Members {
    /// Nothing is known yet.
    pub fn new(who: &Identity) -> Members {
        Members { own: who.id, least: AtomicI64::new(0) }
    }

    /// Our id; 0: we are the master.
    pub fn own_id(&self) -> i64 {
        self.own
    }

    /// The least id of those that are alive; 0: there is a master.
    pub fn least_id(&self) -> i64 {
        self.least.load(Ordering::SeqCst)
    }

    /// Notes what the least id is now; returns what it was before.
    pub fn set_least(&self, id: i64) -> i64 {
        self.least.swap(id, Ordering::SeqCst)
    }
}
