//! The queues of every topic: an immutable entry each, in a sharded map.
//!
//! A reader shares a shard's lock for one look-up. A writer that changes a topic replaces its entry under the shared lock as
//! well; only topics that come or go take the lock alone, for one insertion or removal. Entries carry the encoded answers,
//! which go away with the entry when the topic changes.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use parking_lot::RwLock;
use remoting::body::route::QueueData;

const SHARDS: usize = 64;

/// A topic as it was registered.
pub struct Topic {
    /// The queues of each broker name, ascending by name; never empty.
    pub queues: Vec<QueueData>,
    /// The encoded route.
    pub(super) answers: ArcSwapOption<Answers>,
}

/// Everything besides the topic itself that an answer depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AnswerKey {
    /// Counts changes of brokers, mappings and order configuration.
    pub epoch: u64,
    /// `supportActingMaster`.
    pub acting_master: bool,
    /// `orderMessageEnable`.
    pub order: bool,
}

/// The answers to a route query, each made when it is first asked for; `None`: no route.
pub(super) struct Answers {
    pub key: AnswerKey,
    pub dialect: OnceLock<Option<Bytes>>,
    pub standard: OnceLock<Option<Bytes>>,
}

impl Topic {
    fn new(queues: Vec<QueueData>) -> Topic {
        Topic { queues, answers: ArcSwapOption::empty() }
    }

    /// The queues on one broker name.
    pub fn queue(&self, broker: &str) -> Option<&QueueData> {
        self.queues.iter().find(|queue| queue.broker_name == broker)
    }
}

/// All topics.
pub struct Topics {
    shards: Vec<RwLock<HashMap<Arc<str>, ArcSwap<Topic>>>>,
    hasher: RandomState,
}

impl Default for Topics {
    fn default() -> Self {
        Topics { shards: (0..SHARDS).map(|_| RwLock::default()).collect(), hasher: RandomState::new() }
    }
}

impl Topics {
    fn shard(&self, topic: &str) -> &RwLock<HashMap<Arc<str>, ArcSwap<Topic>>> {
        &self.shards[self.hasher.hash_one(topic) as usize % SHARDS]
    }

    /// The topic's entry.
    pub fn find(&self, topic: &str) -> Option<Arc<Topic>> {
        self.shard(topic).read().get(topic).map(ArcSwap::load_full)
    }

    /// Sets the queues of one broker name; returns the topic's shared name. Writers are serialized by the caller.
    pub fn put_queue(&self, topic: &str, queue: QueueData) -> Arc<str> {
        let shard = self.shard(topic);
        if let Some((name, entry)) = shard.read().get_key_value(topic) {
            let mut queues = entry.load().queues.clone();
            match queues.binary_search_by(|known| known.broker_name.cmp(&queue.broker_name)) {
                Ok(at) => queues[at] = queue,
                Err(at) => queues.insert(at, queue),
            }
            entry.store(Arc::new(Topic::new(queues)));
            return name.clone();
        }
        let name: Arc<str> = topic.into();
        shard.write().insert(name.clone(), ArcSwap::from_pointee(Topic::new(vec![queue])));
        name
    }

    /// Removes the queues of one broker name, and the topic with the last.
    pub fn remove_queue(&self, topic: &str, broker: &str) -> Option<QueueData> {
        let shard = self.shard(topic);
        let removed = {
            let shard = shard.read();
            let entry = shard.get(topic)?;
            let mut queues = entry.load().queues.clone();
            let at = queues.iter().position(|queue| queue.broker_name == broker)?;
            let removed = queues.remove(at);
            if !queues.is_empty() {
                entry.store(Arc::new(Topic::new(queues)));
                return Some(removed);
            }
            removed
        };
        shard.write().remove(topic);
        Some(removed)
    }

    /// Removes a topic.
    pub fn remove(&self, topic: &str) -> Option<Arc<Topic>> {
        self.shard(topic).write().remove(topic).map(ArcSwap::into_inner)
    }

    /// The names of the topics for which `condition` holds, sorted.
    pub fn names(&self, condition: impl Fn(&Topic) -> bool) -> Vec<String> {
        let mut names = Vec::new();
        for shard in &self.shards {
            let shard = shard.read();
            names.extend(shard.iter().filter(|(_, topic)| condition(&topic.load())).map(|(name, _)| name.to_string()));
        }
        names.sort_unstable();
        names
    }

    /// How many topics there are.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
