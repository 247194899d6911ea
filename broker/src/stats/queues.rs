//! Counters of single queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::counter::Counter;

/// Counters of some queues, by queue id; made as they are needed.
#[derive(Debug)]
pub struct QueueCounters<const N: usize>(RwLock<BTreeMap<i32, Arc<Counter<N>>>>);

impl<const N: usize> Default for QueueCounters<N> {
    fn default() -> Self {
        QueueCounters(RwLock::default())
    }
}

impl<const N: usize> QueueCounters<N> {
    /// The counter of a queue; made when it is not there. Better kept than asked for each time.
    pub fn of(&self, id: i32) -> Arc<Counter<N>> {
        if let Some(counter) = self.get(id) {
            return counter;
        }
        self.0.write().entry(id).or_default().clone()
    }

    /// The counter of a queue that has one.
    pub fn get(&self, id: i32) -> Option<Arc<Counter<N>>> {
        self.0.read().get(&id).cloned()
    }

    /// Adds to the counter of a queue.
    pub fn add(&self, id: i32, values: [u64; N]) {
        if let Some(counter) = self.0.read().get(&id) {
            return counter.add(values);
        }
        self.of(id).add(values);
    }

    /// Shows every counter.
    pub(super) fn each(&self, mut show: impl FnMut(&Counter<N>)) {
        self.0.read().values().for_each(|counter| show(counter));
    }
}
