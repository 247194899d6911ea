//! The topics of this broker and their settings: `config/topics.json`.
//!
//! Readers take a shared lock for the time of one hash lookup and keep the [`Topic`] afterwards; a changed topic is a
//! new [`Topic`] with the same statistics. Invariant: when a change returns, it is on disk (a message is never
//! acknowledged for a topic that a crash would forget), and concurrent changes share one write of the file.

mod named;
mod readers;
mod seats;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use config::{BrokerConfig, Live, MessageStoreConfig};
use parking_lot::{Mutex, RwLock};
use remoting::body::fastjson;
use remoting::body::topic::{DataVersion, TopicConfig, TopicConfigTable};
use store::lmq::is_lmq;
use store::segment::ask_for_all;
use store::{Queue, Store, StoreError};
use thiserror::Error;

use crate::attributes::{self, AttributeError};
use crate::config_file::{ConfigFile, encode, off_worker};
use crate::names::{self, SystemTopics};
use crate::stats::TopicStats;

use self::named::Named;
pub(crate) use self::named::mark_of;
pub use readers::{Reader, Readers};
pub use remoting::body::topic::{PERM_INHERIT, PERM_READ, PERM_WRITE};
pub use seats::{Seat, Seats};

/// Queues of [`names::SCHEDULE_TOPIC`], one a delay level.
pub const SCHEDULE_QUEUES: i32 = 18;

/// A permission value in the form of logs and remarks: `RWX` with `-` for what is missing.
pub fn perm_text(perm: i32) -> String {
    let letter = |bit: i32, letter: char| if perm & bit != 0 { letter } else { '-' };
    [letter(PERM_READ, 'R'), letter(PERM_WRITE, 'W'), letter(PERM_INHERIT, 'X')].into_iter().collect()
}

/// A topic: its settings at one moment, and its counters.
#[derive(Debug)]
pub struct Topic {
    config: TopicConfig,
    /// Counters; they survive changes of the settings.
    pub stats: Arc<TopicStats>,
    /// What sends need of it.
    pub seats: Seats,
    /// What pulls need of it.
    pub readers: Readers,
}

impl Topic {
    fn new(config: TopicConfig, stats: Arc<TopicStats>, system: &SystemTopics) -> Topic {
        Topic { seats: Seats::new(&config, system), config, stats, readers: Readers::default() }
    }

    /// The settings.
    pub fn config(&self) -> &TopicConfig {
        &self.config
    }

    /// The seat of a queue, looked up the first time. `None` for an id that the settings do not allow, and when the queue was
    /// deleted below its topic.
    pub fn seat(&self, store: &Store, id: i32) -> Option<&Seat> {
        self.seats.get(&self.config, store, id)
    }

    /// The queue, made when it is not there.
    pub fn queue(&self, store: &Store, id: i32) -> Arc<Queue> {
        match self.seat(store, id) {
            Some(seat) => seat.queue.clone(),
            None => store.queue_or_create(&self.topic_name, id),
        }
    }
}

impl Deref for Topic {
    type Target = TopicConfig;
    fn deref(&self) -> &TopicConfig {
        &self.config
    }
}

/// Why a topic is not made on the fly.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The topic to inherit from does not exist.
    #[error("the default topic[{0}] does not exist")]
    NoDefault(String),
    /// The topic to inherit from does not allow it.
    #[error("the default topic[{topic}] has perm {perm}, which new topics cannot inherit")]
    NotInheritable {
        /// The default topic.
        topic: String,
        /// Its permission.
        perm: String,
    },
}

/// Called after topics were made or changed, with the topics: tells the name servers.
pub type Listener = dyn Fn(&[Arc<Topic>]) + Send + Sync;

/// Called with each topic that an administrator has set, before he has the answer: tells the store.
pub type SettingsListener = dyn Fn(&Topic) + Send + Sync;

/// All topics of the broker.
pub struct TopicTable {
    config: Arc<Live<BrokerConfig>>,
    /// Topics that the broker keeps for itself.
    pub system: Arc<SystemTopics>,
    topics: RwLock<Topics>,
    address: Arc<named::Address>,
    file: ConfigFile,
    /// The last change ([`Topics::changes`]) that is on disk.
    saved: Mutex<u64>,
    changes: AtomicU64,
    listener: OnceLock<Box<Listener>>,
    settings_listener: OnceLock<Box<SettingsListener>>,
    /// With `enableLmq` every topic of a light queue exists, without being in the table; their common counters.
    light: Option<Arc<TopicStats>>,
}

struct Topics {
    named: Named,
    version: DataVersion,
}

impl TopicTable {
    /// Makes the topics that every broker has, and loads the others from `dir` (`config/` of the store).
    ///
    /// # Errors
    /// The file and its backup are damaged.
    pub fn load(
        dir: &Path,
        config: Arc<Live<BrokerConfig>>,
        store: &MessageStoreConfig,
    ) -> Result<TopicTable, StoreError> {
        let file = ConfigFile::new(dir.join("topics.json"));
        let shape = file
            .load_or_refuse(|bytes| fastjson::from_slice::<TopicConfigTable>(bytes).map_err(|error| error.to_string()))?
            .unwrap_or_else(|| TopicConfigTable { data_version: DataVersion::new(), ..TopicConfigTable::default() });
        let system = Arc::new(SystemTopics::default());
        let mut named = Named::default();
        for topic in standing(&config.load(), store) {
            system.add(&topic.topic_name);
            insert(&mut named, topic, &system);
        }
        for (name, mut topic) in shape.topic_config_table {
            topic.topic_name = name;
            insert(&mut named, topic, &system);
        }
        Ok(TopicTable {
            config,
            system,
            address: named.address(),
            topics: RwLock::new(Topics { named, version: shape.data_version }),
            file,
            saved: Mutex::new(0),
            changes: AtomicU64::new(0),
            listener: OnceLock::new(),
            settings_listener: OnceLock::new(),
            light: store.enable_lmq.then(Arc::default),
        })
    }

    /// Sets who is told of changes; the first call counts.
    pub fn set_listener(&self, listener: Box<Listener>) {
        let _ = self.listener.set(listener);
    }

    /// Sets who is told what an administrator sets; the first call counts.
    pub fn set_settings_listener(&self, listener: Box<SettingsListener>) {
        let _ = self.settings_listener.set(listener);
    }

    /// The topic.
    pub fn get(&self, name: &str) -> Option<Arc<Topic>> {
        if let Some(light) = self.light(name) {
            return Some(light);
        }
        self.topics.read().named.get(name).cloned()
    }

    /// Asks for the memory that leads to the topic whose name has a hash ([`mark_of`]).
    pub(crate) fn ask_where(&self, mark: u64) {
        self.address.ask_for(mark);
    }

    /// Asks for the memory of that topic; false when there is none.
    pub(crate) fn ask_for(&self, mark: u64) -> bool {
        self.topics.read().named.marked(mark).map(|topic| ask_for_all(&**topic)).is_some()
    }

    /// A topic whose name has a hash; hardly ever it is another one than was meant.
    pub(crate) fn marked(&self, mark: u64) -> Option<Arc<Topic>> {
        self.topics.read().named.marked(mark).cloned()
    }

    /// Whether the topic exists.
    pub fn contains(&self, name: &str) -> bool {
        self.light.is_some() && is_lmq(name) || self.topics.read().named.get(name).is_some()
    }

    /// The settings of a light queue's topic: one queue, for reading and writing.
    fn light(&self, name: &str) -> Option<Arc<Topic>> {
        let stats = self.light.as_ref().filter(|_| is_lmq(name))?.clone();
        let config = TopicConfig::new(name, 1, PERM_READ | PERM_WRITE);
        Some(Arc::new(Topic::new(config, stats, &self.system)))
    }

    /// Whether the topic exists and is an ordered one.
    pub fn is_ordered(&self, name: &str) -> bool {
        self.topics.read().named.get(name).is_some_and(|topic| topic.order)
    }

    /// All topics, sorted by name.
    pub fn snapshot(&self) -> Vec<Arc<Topic>> {
        self.snapshot_with_version().0
    }

    /// All topics, sorted by name, and the version that they belong to.
    pub fn snapshot_with_version(&self) -> (Vec<Arc<Topic>>, DataVersion) {
        let topics = self.topics.read();
        let mut all: Vec<_> = topics.named.all().cloned().collect();
        let version = topics.version;
        drop(topics);
        all.sort_by(|a, b| a.topic_name.cmp(&b.topic_name));
        (all, version)
    }

    /// How many topics there are.
    pub fn len(&self) -> usize {
        self.topics.read().named.len()
    }

    /// Whether there are none; never, as system topics always exist.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts the changes of the table: what was found in it is true as long as this has not moved.
    pub fn generation(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// The version of the table; it moves with every change.
    pub fn data_version(&self) -> DataVersion {
        self.topics.read().version
    }

    /// The topic, made from `default_topic` when it does not exist: its permissions without the right to be inherited,
    /// and as many queues as the client asks for, at most those of the default topic.
    ///
    /// # Errors
    /// Nothing to inherit from, or automatic creation is off.
    pub fn create_for_send(
        &self,
        name: &str,
        default_topic: &str,
        client_queue_nums: i32,
        sys_flag: i32,
        remote: &dyn std::fmt::Display,
    ) -> Result<Arc<Topic>, CreateError> {
        let created = {
            let mut topics = self.topics.write();
            if let Some(topic) = topics.named.get(name) {
                return Ok(topic.clone());
            }
            let Some(default) = topics.named.get(default_topic) else {
                tracing::warn!(topic = name, default_topic, %remote, "cannot make the topic: no default topic");
                return Err(CreateError::NoDefault(default_topic.to_owned()));
            };
            let off = default_topic == names::AUTO_CREATE_TOPIC && !self.config.load().auto_create_topic_enable;
            if off || default.perm & PERM_INHERIT == 0 {
                let perm = if off { PERM_READ | PERM_WRITE } else { default.perm };
                tracing::warn!(topic = name, default_topic, perm, %remote, "cannot make the topic: not inheritable");
                return Err(CreateError::NotInheritable { topic: default_topic.to_owned(), perm: perm_text(perm) });
            }
            let queues = client_queue_nums.min(default.write_queue_nums).max(0);
            let mut topic = TopicConfig::new(name, queues, default.perm & !PERM_INHERIT);
            topic.topic_sys_flag = sys_flag;
            topic.topic_filter_type = default.topic_filter_type;
            self.put(&mut topics, topic)
        };
        tracing::info!(topic = name, default_topic, queues = created.write_queue_nums, %remote, "made a topic");
        self.changed(std::slice::from_ref(&created));
        Ok(created)
    }

    /// The topic, made with these settings when it does not exist: retry and dead letter topics. Of an existing one only
    /// the order is adjusted.
    pub fn create_for_send_back(&self, name: &str, queues: i32, perm: i32, order: bool, sys_flag: i32) -> Arc<Topic> {
        if let Some(topic) = self.get(name)
            && topic.order == order
        {
            return topic;
        }
        let changed = {
            let mut topics = self.topics.write();
            let mut topic = match topics.named.get(name) {
                Some(topic) if topic.order == order => return topic.clone(),
                Some(topic) => topic.config.clone(),
                None => {
                    let mut topic = TopicConfig::new(name, queues, perm);
                    topic.topic_sys_flag = sys_flag;
                    topic
                }
            };
            topic.order = order;
            self.put(&mut topics, topic)
        };
        tracing::info!(topic = name, queues = changed.write_queue_nums, order, "made or adjusted a topic");
        self.changed(std::slice::from_ref(&changed));
        changed
    }

    /// The topic, made as given when it does not exist (an existing one stays as it is).
    pub fn create_if_absent(&self, topic: TopicConfig) -> Arc<Topic> {
        let created = {
            let mut topics = self.topics.write();
            if let Some(topic) = topics.named.get(&topic.topic_name) {
                return topic.clone();
            }
            self.put(&mut topics, topic)
        };
        self.changed(std::slice::from_ref(&created));
        created
    }

    /// Makes or replaces topics as an administrator asks. Attributes of a request carry a sign, see
    /// [`attributes::alter`]. The name servers are told by the caller, who waits for them.
    ///
    /// # Errors
    /// An attribute that cannot be altered so; nothing is changed then.
    pub fn update(&self, requested: Vec<TopicConfig>) -> Result<Vec<Arc<Topic>>, AttributeError> {
        let changed = {
            let mut topics = self.topics.write();
            let mut ready = Vec::with_capacity(requested.len());
            for mut topic in requested {
                let current = topics.named.get(&topic.topic_name).map(|topic| topic.attributes.clone());
                let request = std::mem::take(&mut topic.attributes);
                if request.contains_key("+reserve.time") || request.contains_key("reserve.time") {
                    return Err(AttributeError::new("Update topic reserveTime not supported"));
                }
                topic.attributes = attributes::alter(attributes::TOPIC, current.as_ref(), &request)?;
                ready.push(topic);
            }
            ready.into_iter().map(|topic| self.put(&mut topics, topic)).collect::<Vec<_>>()
        };
        self.persist();
        for topic in &changed {
            tracing::info!(topic = topic.topic_name, settings = ?topic.config, "set a topic");
            if let Some(listener) = self.settings_listener.get() {
                listener(topic);
            }
        }
        Ok(changed)
    }

    /// Becomes a copy of the table of the master that this broker copies, and saves it: topics that the master does not know
    /// go. Does nothing when the version is ours already. Returns the topics that are gone.
    pub fn take_over(&self, of_master: BTreeMap<String, TopicConfig>, version: DataVersion) -> Vec<String> {
        let (changed, gone) = {
            let mut topics = self.topics.write();
            if topics.version == version {
                return Vec::new();
            }
            let names = topics.named.all().map(|topic| &topic.topic_name);
            let gone: Vec<_> = names.filter(|name| !of_master.contains_key(*name)).cloned().collect();
            gone.iter().for_each(|name| _ = topics.named.remove(name));
            let mut changed = Vec::new();
            for (name, mut topic) in of_master {
                topic.topic_name = name;
                let same = topics.named.get(&topic.topic_name).is_some_and(|known| known.config == topic);
                if !same && self.light(&topic.topic_name).is_none() {
                    changed.push(insert(&mut topics.named, topic, &self.system));
                }
            }
            topics.version = version;
            self.changes.fetch_add(1, Ordering::SeqCst);
            (changed, gone)
        };
        self.persist();
        tracing::info!(changed = changed.len(), gone = gone.len(), "took over the topics of the master");
        if let Some(listener) = self.settings_listener.get() {
            changed.iter().for_each(|topic| listener(topic));
        }
        gone
    }

    /// Marks the topics of the name server's order configuration as ordered.
    pub fn mark_ordered<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        let mut any = false;
        {
            let mut topics = self.topics.write();
            for name in names {
                let Some(topic) = topics.named.get(name).filter(|topic| !topic.order) else { continue };
                let mut ordered = topic.config.clone();
                ordered.order = true;
                insert(&mut topics.named, ordered, &self.system);
                any = true;
            }
            if any {
                topics.version = topics.version.next(0);
                self.changes.fetch_add(1, Ordering::SeqCst);
            }
        }
        if any {
            self.persist();
        }
    }

    /// Moves the version without a change of any topic: what is registered of all of them depends on the configuration.
    pub fn touch(&self) {
        let mut topics = self.topics.write();
        topics.version = topics.version.next(0);
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Forgets a topic; false when there was none.
    pub fn delete(&self, name: &str) -> bool {
        {
            let mut topics = self.topics.write();
            if !topics.named.remove(name) {
                return false;
            }
            topics.version = topics.version.next(0);
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
        tracing::info!(topic = name, "deleted a topic");
        self.persist();
        true
    }

    /// Writes the file when it is behind the table. A failure is logged; the next change or the stop tries again.
    pub fn persist(&self) {
        off_worker(|| {
            let mut saved = self.saved.lock();
            let changes = self.changes.load(Ordering::SeqCst);
            if *saved >= changes && self.file.path().exists() {
                return;
            }
            match self.file.save(&self.encode(true)) {
                Ok(()) => *saved = changes,
                Err(error) => tracing::error!(file = %self.file.path().display(), %error, "cannot save the topics"),
            }
        });
    }

    /// The table as `topics.json` has it, on one line or indented by tabs.
    pub fn encode(&self, pretty: bool) -> Vec<u8> {
        let (topics, data_version) = self.snapshot_with_version();
        let by_name = topics.iter().map(|topic| (topic.topic_name.clone(), topic.config.clone()));
        let shape = TopicConfigTable { data_version, topic_config_table: by_name.collect() };
        encode(&shape, pretty)
    }

    /// Counts the change while the lock is held, so that a save which starts later contains it.
    fn put(&self, topics: &mut Topics, topic: TopicConfig) -> Arc<Topic> {
        if let Some(light) = self.light(&topic.topic_name) {
            return light;
        }
        topics.version = topics.version.next(0);
        self.changes.fetch_add(1, Ordering::SeqCst);
        insert(&mut topics.named, topic, &self.system)
    }

    fn changed(&self, topics: &[Arc<Topic>]) {
        self.persist();
        if let Some(listener) = self.listener.get() {
            listener(topics);
        }
    }
}

fn insert(topics: &mut Named, config: TopicConfig, system: &SystemTopics) -> Arc<Topic> {
    let stats = topics.get(&config.topic_name).map(|topic| topic.stats.clone()).unwrap_or_default();
    let topic = Arc::new(Topic::new(config, stats, system));
    topics.put(topic.clone());
    topic
}

/// The topics that exist from the start.
fn standing(broker: &BrokerConfig, store: &MessageStoreConfig) -> Vec<TopicConfig> {
    const RW: i32 = PERM_READ | PERM_WRITE;
    let cluster = broker.broker_cluster_name.as_str();
    let open = |enabled: bool| if enabled { PERM_INHERIT | RW } else { PERM_INHERIT };
    let mut topics = vec![
        TopicConfig::new(names::SELF_TEST_TOPIC, 1, RW),
        TopicConfig::new(names::BENCHMARK_TOPIC, 1024, RW),
        TopicConfig::new(cluster, 16, open(broker.cluster_topic_enable)),
        TopicConfig::new(broker.broker_name.as_str(), 1, open(broker.broker_topic_enable)),
        TopicConfig::new(names::OFFSET_MOVED_TOPIC, 1, RW),
        TopicConfig::new(names::SCHEDULE_TOPIC, SCHEDULE_QUEUES, RW),
        TopicConfig::new(format!("{cluster}_REPLY_TOPIC"), 1, RW),
        TopicConfig::new(format!("rmq_sys_REVIVE_LOG_{cluster}"), broker.revive_queue_num, RW),
        TopicConfig::new(format!("{}{}", names::SYNC_MEMBER_PREFIX, broker.broker_name), 1, PERM_INHERIT),
        TopicConfig::new(names::HALF_TOPIC, 1, RW),
        TopicConfig::new(names::OP_HALF_TOPIC, 1, RW),
        TopicConfig::new(names::ROCKSDB_HALF_TOPIC, 1, RW),
        TopicConfig::new(names::ROCKSDB_OP_HALF_TOPIC, 1, RW),
    ];
    if broker.auto_create_topic_enable {
        topics.push(TopicConfig::new(names::AUTO_CREATE_TOPIC, broker.default_topic_queue_nums, PERM_INHERIT | RW));
    }
    if broker.trace_topic_enable {
        topics.push(TopicConfig::new(broker.msg_trace_topic_name.as_str(), 1, RW));
    }
    if store.timer_wheel_enable {
        topics.push(TopicConfig::new(names::TIMER_TOPIC, 1, RW));
    }
    topics
}

#[cfg(test)]
mod tests;
