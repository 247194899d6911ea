//! What a send needs of its topic, found once and kept by the thread: no lock, no hash and no counter shared between
//! threads on the way of a message.
//!
//! An entry counts while the tables of topics and of static topics have not changed. A change makes all entries of all threads stale at once;
//! they are found again one by one.
//!
//! What the sends of a read batch add to the statistics is gathered here and added at the end of the batch: an addition
//! to a counter that all threads see costs as much as a tenth of the rest of a send.

use std::sync::Arc;

use store::{Queue, Store};

use crate::names::SystemTopics;
use crate::static_topics::Mapping;
use crate::stats::{Counter, Stats};
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
    /// Of a static topic.
    pub(super) mapping: Option<Arc<Mapping>>,
    name: String,
    owner: u64,
    generation: u64,
    queues: Vec<Option<Slot>>,
    stats: Arc<Stats>,
    /// Sent and not yet added to the statistics.
    messages: u64,
    bytes: u64,
    requests: u64,
}

/// A queue and what its sends are counted by.
#[derive(Debug)]
struct Slot {
    queue: Arc<Queue>,
    latency: Arc<Counter<2>>,
    /// Not yet added to the counter.
    requests: u64,
}

impl Target {
    fn new(
        topic: Arc<Topic>,
        name: &str,
        system: &SystemTopics,
        stats: Arc<Stats>,
        owner: u64,
        generation: u64,
    ) -> Target {
        let attribute = |key: &str, value: &str| topic.attributes.get(key).is_some_and(|set| set == value);
        Target {
            compacted: attribute("cleanup.policy", "COMPACTION"),
            batch_queues: is_batch(&topic),
            user: !system.contains(name),
            mapping: None,
            name: name.to_owned(),
            owner,
            generation,
            queues: Vec::new(),
            stats,
            messages: 0,
            bytes: 0,
            requests: 0,
            topic,
        }
    }

    /// The queue, and the counter of the time that its sends take. The id has been checked against the topic's number of
    /// queues.
    pub(super) fn queue(&mut self, store: &Store, id: i32) -> (&Queue, &Counter<2>) {
        let index = usize::try_from(id).unwrap_or(0);
        if index >= self.queues.len() {
            self.queues.resize_with(index + 1, || None);
        }
        // A topic that is deleted and made again while we look has another queue, and perhaps the same generation.
        let slot = &mut self.queues[index];
        if slot.as_ref().is_some_and(|slot| slot.queue.is_deleted()) {
            *slot = None;
        }
        let Slot { queue, latency, .. } = slot.get_or_insert_with(|| Slot {
            queue: store.queue_or_create(&self.name, id),
            latency: self.topic.stats.latency.of(id),
            requests: 0,
        });
        (queue, latency)
    }

    /// Notes what one request has put into a queue.
    pub(super) fn count(&mut self, id: i32, messages: u64, bytes: u64) {
        self.messages += messages;
        self.bytes += bytes;
        self.requests += 1;
        if let Some(Some(slot)) = self.queues.get_mut(usize::try_from(id).unwrap_or(0)) {
            slot.requests += 1;
        }
    }

    /// Adds what was noted to the statistics.
    fn flush(&mut self) {
        if self.requests == 0 {
            return;
        }
        let take = std::mem::take::<u64>;
        let (messages, bytes, requests) = (take(&mut self.messages), take(&mut self.bytes), take(&mut self.requests));
        self.stats.put_many(&self.topic.stats, messages, bytes, requests, self.user);
        for slot in self.queues.iter_mut().flatten().filter(|slot| slot.requests > 0) {
            slot.latency.add_to(1, take(&mut slot.requests));
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Whether the queues of a topic are batch consume queues.
pub(crate) fn is_batch(topic: &Topic) -> bool {
    topic.attributes.get("queue.type").is_some_and(|kind| kind == "BatchCQ")
}

/// The entries of one thread.
#[derive(Debug, Default)]
pub(super) struct Targets {
    entries: Vec<Target>,
    /// The entry found last.
    last: usize,
    /// The entry to replace next.
    hand: usize,
    /// Whether an entry was handed out since the last [`Targets::flush`].
    touched: bool,
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
        stats: &Arc<Stats>,
        owner: u64,
        generation: u64,
    ) -> usize {
        let target = Target::new(topic, name, system, stats.clone(), owner, generation);
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
        self.touched = true;
        &mut self.entries[at]
    }

    /// Adds what was noted to the statistics.
    pub(super) fn flush(&mut self) {
        if std::mem::take(&mut self.touched) {
            self.entries.iter_mut().for_each(Target::flush);
        }
    }
}
