//! What sends need to know of a topic beside its settings, kept with it: whoever has found the topic has found this, too.
//! With very many topics every other look-up would be a walk through memory that no cache holds.

use std::sync::{Arc, OnceLock};

use remoting::body::topic::TopicConfig;
use smallvec::SmallVec;
use store::{Queue, Store};

use crate::names::{self, SystemTopics};
use crate::stats::{Counter, TopicStats};

/// See the module's text. Made anew with each change of the topic's settings.
#[derive(Debug)]
pub struct Seats {
    /// Whether clients may send to a topic of this name.
    pub sendable: bool,
    /// Whether messages count as traffic of users.
    pub user: bool,
    /// Whether every message needs keys (`cleanup.policy=COMPACTION`).
    pub compacted: bool,
    /// Whether the queues are batch consume queues (`queue.type=BatchCQ`).
    pub batch_queues: bool,
    /// A usual number of them without another walk.
    by_id: OnceLock<SmallVec<[OnceLock<Seat>; 4]>>,
}

/// A queue and what its sends are counted by.
#[derive(Debug)]
pub struct Seat {
    /// The queue.
    pub queue: Arc<Queue>,
    latency: OnceLock<Arc<Counter<2>>>,
}

impl Seat {
    /// The seat of a queue that is made when it is not there.
    pub fn find(store: &Store, topic: &str, id: i32) -> Seat {
        Seat { queue: store.queue_or_create(topic, id), latency: OnceLock::new() }
    }

    /// Milliseconds that sends took, and their number.
    pub fn latency(&self, stats: &TopicStats) -> &Counter<2> {
        self.latency.get_or_init(|| stats.latency.of(self.queue.id()))
    }
}

impl Seats {
    /// Of a topic with these settings. Nothing is looked up yet.
    pub(super) fn new(topic: &TopicConfig, system: &SystemTopics) -> Seats {
        let (name, attribute) = (&topic.topic_name, |key: &str| topic.attributes.get(key).map(String::as_str));
        Seats {
            sendable: names::check_topic(name).is_ok() && !names::is_send_forbidden(name),
            user: !system.contains(name),
            compacted: attribute("cleanup.policy") == Some("COMPACTION"),
            batch_queues: attribute("queue.type") == Some("BatchCQ"),
            by_id: OnceLock::new(),
        }
    }

    /// The seat of a queue, looked up the first time. `None` when the settings do not allow the id, and when the queue was
    /// deleted below its topic: then it is to be looked up each time.
    pub(super) fn get(&self, topic: &TopicConfig, store: &Store, id: i32) -> Option<&Seat> {
        let queues = || usize::try_from(topic.write_queue_nums.max(topic.read_queue_nums)).unwrap_or(0);
        let by_id = self.by_id.get_or_init(|| (0..queues()).map(|_| OnceLock::new()).collect());
        let seat = by_id.get(usize::try_from(id).ok()?)?.get_or_init(|| Seat::find(store, &topic.topic_name, id));
        (!seat.queue.is_deleted()).then_some(seat)
    }

    /// The seat of a queue that was looked up before.
    pub fn known(&self, id: i32) -> Option<&Seat> {
        self.by_id.get()?.get(usize::try_from(id).ok()?)?.get()
    }
}
