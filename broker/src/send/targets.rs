//! What a send needs of its topic, found once and kept by the thread: no lock, no hash and no counter shared between
//! threads on the way of a message.
//!
//! An entry counts while the topic table has not changed. A change makes all entries of all threads stale at once;
//! they are found again one by one.

use std::sync::Arc;

use store::{Queue, Store};

use crate::names::SystemTopics;
use crate::topics::Topic;

/// Entries a thread keeps. A producer connection writes to few topics at a time.
const KEPT: usize = 16;

/// A topic that may be sent to.
#[derive(Debug)]
pub(super) struct Target {
    /// The settings.
    pub(super) topic: Arc<Topic>,
    /// Whether every message needs keys (`cleanup.policy=COMPACTION`).
    pub(super) compacted: bool,
    /// Whether the queues are batch consume queues (`queue.type=BatchCQ`).
    pub(super) batch_queues: bool,
    /// Whether messages count as traffic of users.
    pub(super) user: bool,
    name: String,
    owner: u64,
    generation: u64,
    queues: Vec<Option<Arc<Queue>>>,
}

impl Target {
    fn new(topic: Arc<Topic>, name: &str, system: &SystemTopics, owner: u64, generation: u64) -> Target {
        let attribute = |key: &str, value: &str| topic.attributes.get(key).is_some_and(|set| set == value);
        Target {
            compacted: attribute("cleanup.policy", "COMPACTION"),
            batch_queues: attribute("queue.type", "BatchCQ"),
            user: !system.contains(name),
            name: name.to_owned(),
            owner,
            generation,
            queues: Vec::new(),
            topic,
        }
    }

    /// The queue. The id has been checked against the topic's number of queues.
    pub(super) fn queue(&mut self, store: &Store, id: i32) -> &Queue {
        let index = usize::try_from(id).unwrap_or(0);
        if index >= self.queues.len() {
            self.queues.resize_with(index + 1, || None);
        }
        // A topic that is deleted and made again while we look has another queue, and perhaps the same generation.
        let slot = &mut self.queues[index];
        if slot.as_ref().is_some_and(|queue| queue.is_deleted()) {
            *slot = None;
        }
        slot.get_or_insert_with(|| store.queue_or_create(&self.name, id))
    }
}

/// The entries of one thread.
#[derive(Debug, Default)]
pub(super) struct Targets {
    entries: Vec<Target>,
    /// The entry found last.
    last: usize,
    /// The entry to replace next.
    hand: usize,
}

impl Targets {
    /// The entry of a topic, when it is still true. `owner` tells the brokers of a process apart.
    pub(super) fn find(&mut self, owner: u64, generation: u64, name: &str) -> Option<usize> {
        let fits = |entry: &Target| entry.name == name && entry.generation == generation && entry.owner == owner;
        if self.entries.get(self.last).is_some_and(fits) {
            return Some(self.last);
        }
        self.last = self.entries.iter().position(fits)?;
        Some(self.last)
    }

    /// Adds an entry; `generation` was read before the topic was.
    pub(super) fn add(
        &mut self,
        topic: Arc<Topic>,
        name: &str,
        system: &SystemTopics,
        owner: u64,
        generation: u64,
    ) -> usize {
        let target = Target::new(topic, name, system, owner, generation);
        let same = self.entries.iter().position(|entry| entry.owner == owner && entry.name == name);
        let at = match same {
            Some(at) => at,
            None if self.entries.len() < KEPT => self.entries.len(),
            None => {
                self.hand = (self.hand + 1) % KEPT;
                self.hand
            }
        };
        if at == self.entries.len() {
            self.entries.push(target);
        } else {
            self.entries[at] = target;
        }
        self.last = at;
        at
    }

    /// The entry at a position that [`Targets::find`] or [`Targets::add`] gave.
    pub(super) fn get(&mut self, at: usize) -> &mut Target {
        &mut self.entries[at]
    }
}
