//! The name server's tables: what brokers registered, and the routes made of it.
//!
//! Writers (registrations that change something, unregistrations, admin requests) are serialized by one mutex and publish immutable
//! values; readers take no lock that a writer holds for longer than one map insertion:
//! * [`brokers`]: one snapshot behind an `ArcSwap`,
//! * [`topics`]: a sharded map of immutable entries with their encoded answers,
//! * [`live`]: who was heard of when.
//!
//! An answer is cached in the topic's entry under the `epoch`, which counts what is not in the entry. A writer publishes
//! first and counts afterwards; a reader reads the count first: so a cached answer is never older than its epoch.
//!
//! A registration shows its broker before its topics, a removal takes the topics first: a reader in between sees
//! fewer topics, never a topic without a broker.

mod admin;
mod answer;
pub mod brokers;
pub mod live;
mod register;
#[cfg(test)]
mod tests;
pub mod topics;
mod unregister;
mod zone;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use remoting::body::topic_queue_mapping::TopicQueueMappingInfo;

pub use answer::RouteRules;
pub use register::{Refused, Registered, Registration};
pub use zone::in_zone;

use crate::kv::KvStore;
use brokers::Brokers;
use live::LiveTable;
use topics::Topics;

/// The mapping of one static topic by broker name.
type Mapping = BTreeMap<String, TopicQueueMappingInfo>;

/// All tables.
pub struct Routes {
    brokers: ArcSwap<Brokers>,
    topics: Topics,
    live: LiveTable,
    mappings: RwLock<HashMap<String, Arc<Mapping>>>,
    kv: Arc<KvStore>,
    epoch: AtomicU64,
    writer: Mutex<Members>,
    min_id_changed: Box<dyn Fn(MinIdChange) + Send + Sync>,
}

/// The topics of each broker name, for writers only: what to go through when a broker leaves.
#[derive(Default)]
struct Members(HashMap<String, HashSet<Arc<str>>>);

impl Members {
    fn add(&mut self, broker: &str, topic: Arc<str>) -> bool {
        match self.0.get_mut(broker) {
            Some(topics) => topics.insert(topic),
            None => self.0.entry(broker.to_owned()).or_default().insert(topic),
        }
    }

    fn remove(&mut self, broker: &str, topic: &str) {
        if let Some(topics) = self.0.get_mut(broker) {
            topics.remove(topic);
        }
    }

    fn of(&self, broker: &str) -> impl Iterator<Item = &Arc<str>> {
        self.0.get(broker).into_iter().flatten()
    }
}

/// The least broker id of a broker name changed: the members are to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinIdChange {
    /// The members' addresses by id after the change.
    pub addrs: BTreeMap<i64, String>,
    /// Who left.
    pub offline_addr: Option<String>,
    /// Where the new member serves slaves.
    pub ha_addr: Option<String>,
}

impl Routes {
    /// Empty tables. `min_id_changed` is called with a lock held: it must only pass the news on.
    pub fn new(kv: Arc<KvStore>, min_id_changed: impl Fn(MinIdChange) + Send + Sync + 'static) -> Routes {
        Routes {
            brokers: ArcSwap::default(),
            topics: Topics::default(),
            live: LiveTable::default(),
            mappings: RwLock::default(),
            kv,
            epoch: AtomicU64::new(0),
            writer: Mutex::default(),
            min_id_changed: Box::new(min_id_changed),
        }
    }

    /// All brokers now.
    pub fn brokers(&self) -> Arc<Brokers> {
        self.brokers.load_full()
    }

    /// All topics.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// Makes every cached answer be made anew: something that they depend on has changed.
    pub fn invalidate(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a writer is at work just now, so that another would have to wait.
    pub fn is_busy(&self) -> bool {
        self.writer.is_locked()
    }

    fn publish(&self, brokers: Brokers) {
        if !brokers.same(&self.brokers.load()) {
            self.brokers.store(Arc::new(brokers));
            self.invalidate();
        }
    }
}
