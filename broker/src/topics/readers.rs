//! What the pulls of a group note of a topic, kept with the topic: whoever has found the topic has found this, too. With very
//! many topics every other look-up would be a walk through memory that no cache holds.

use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use remoting::body::subscription_group::SubscriptionGroupConfig;
use smallvec::SmallVec;

use crate::offsets::{Offsets, Pulled};
use crate::stats::{ReadStats, Stats};

/// Groups that are kept; of more the oldest ones are found anew.
const KEPT: usize = 16;

/// What a group's pulls of a topic are noted in.
#[derive(Debug)]
pub struct Reader {
    /// Kept for its address: other settings are another group.
    group: Arc<SubscriptionGroupConfig>,
    /// Of both tables, before they were looked into.
    generation: u64,
    /// How far it has pulled.
    pub pulled: Arc<Pulled>,
    reading: OnceLock<Arc<ReadStats>>,
}

impl Reader {
    /// The counters, made when they are not there: a group that never got anything has none.
    pub fn reading(&self, find: impl FnOnce() -> Arc<ReadStats>) -> &ReadStats {
        self.reading.get_or_init(find)
    }
}

/// The groups that have pulled lately.
#[derive(Debug, Default)]
pub struct Readers(RwLock<SmallVec<[Arc<Reader>; 1]>>);

impl Readers {
    /// What a group's pulls are noted in. True as long as neither table has lost a group or a topic.
    pub fn of(
        &self,
        topic: &str,
        group: &Arc<SubscriptionGroupConfig>,
        offsets: &Offsets,
        stats: &Stats,
    ) -> Arc<Reader> {
        // Both only grow: the sum stays the same while neither has.
        let generation = offsets.generation().wrapping_add(stats.generation());
        let fits = |reader: &&Arc<Reader>| Arc::ptr_eq(&reader.group, group) && reader.generation == generation;
        if let Some(reader) = self.0.read().iter().find(fits) {
            return reader.clone();
        }
        let pulled = offsets.pulled_of(group.name(), topic);
        let reader = Arc::new(Reader { group: group.clone(), generation, pulled, reading: OnceLock::new() });
        let mut readers = self.0.write();
        readers.retain(|known| known.generation == generation && !Arc::ptr_eq(&known.group, group));
        if readers.len() == KEPT {
            readers.remove(0);
        }
        readers.push(reader.clone());
        reader
    }
}
