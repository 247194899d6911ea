//! How far each group has consumed each queue: `config/consumerOffset.json`, or with light queues (`enableLmq`) as in Java
//! `config/lmqConsumerOffset.json`.
//!
//! Three tables: what clients committed, how far they pulled, and offsets that an operator set and that the next pull of
//! the group takes. Invariant: a commit replaces whatever was there, also a higher offset. Readers and committers of
//! known queues share a read lock; only a new group or topic takes it exclusively.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use config::{BrokerConfig, Live};
use parking_lot::{Mutex, RwLock};
use remoting::body::fastjson;
use remoting::body::topic::DataVersion;
use serde::{Deserialize, Serialize};
use store::StoreError;
use store::lmq::{QUEUE_ID as LMQ_QUEUE, is_lmq};

use crate::config_file::{ConfigFile, encode};

/// Offsets of the queues of one topic for one group, by queue id.
pub type QueueOffsets = BTreeMap<i32, i64>;

/// How far a group has pulled the queues of a topic.
pub type Pulled = Mutex<QueueOffsets>;

/// The offset tables.
pub struct Offsets {
    config: Arc<Live<BrokerConfig>>,
    file: ConfigFile,
    committed: Table,
    pulled: Table,
    reset: Table,
    version: Mutex<DataVersion>,
    /// Commits since the start; every `consumerOffsetUpdateVersionStep`-th moves the data version.
    commits: AtomicU64,
    /// Counts groups and topics that were forgotten.
    gone: AtomicU64,
    /// Whether the file is behind the tables.
    changed: AtomicBool,
    /// A light group (`%LMQ%...`) has one offset a topic, whatever the queue id, in a table of its own in the file.
    light: bool,
}

/// The shape of the file and of the answer to GET_ALL_CONSUMER_OFFSET. Tables are keyed by `topic@group`.
#[derive(Clone, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct OffsetTables {
    /// Version of the committed table.
    pub data_version: DataVersion,
    /// The topics of each group: derived, and not read back.
    pub group_topic_map: BTreeMap<String, BTreeSet<String>>,
    /// Offsets of light groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lmq_offset_table: Option<BTreeMap<String, i64>>,
    /// Committed offsets.
    pub offset_table: BTreeMap<String, QueueOffsets>,
    /// How far groups have pulled.
    pub pull_offset_table: BTreeMap<String, QueueOffsets>,
}

impl Offsets {
    /// Loads the tables from `dir` (`config/` of the store). As in Java only committed offsets come back from the file.
    ///
    /// # Errors
    /// The file and its backup are damaged.
    pub fn load(dir: &Path, config: Arc<Live<BrokerConfig>>) -> Result<Offsets, StoreError> {
        let file = ConfigFile::new(dir.join("consumerOffset.json"));
        let shape = read(&file)?;
        Ok(Offsets::of(file, shape, config, false))
    }

    /// As [`Offsets::load`], with light groups. A broker that turns to light queues (`enableLmq`) goes on with the offsets
    /// that it had; Java forgets them.
    ///
    /// # Errors
    /// The file and its backup are damaged.
    pub fn load_light(dir: &Path, config: Arc<Live<BrokerConfig>>) -> Result<Offsets, StoreError> {
        let file = ConfigFile::new(dir.join("lmqConsumerOffset.json"));
        let shape = match read(&file)? {
            Some(shape) => Some(shape),
            None => read(&ConfigFile::new(dir.join("consumerOffset.json")))?,
        };
        Ok(Offsets::of(file, shape, config, true))
    }

    fn of(file: ConfigFile, shape: Option<OffsetTables>, config: Arc<Live<BrokerConfig>>, light: bool) -> Offsets {
        let shape =
            shape.unwrap_or_else(|| OffsetTables { data_version: DataVersion::new(), ..OffsetTables::default() });
        let committed = Table::default();
        for (key, queues) in shape.offset_table {
            if let Some((topic, group)) = key.split_once('@') {
                committed.replace(group, topic, queues);
            }
        }
        for (key, offset) in shape.lmq_offset_table.unwrap_or_default() {
            if let Some((topic, group)) = key.split_once('@') {
                committed.replace(group, topic, [(LMQ_QUEUE, offset)].into());
            }
        }
        Offsets {
            config,
            file,
            committed,
            pulled: Table::default(),
            reset: Table::default(),
            version: Mutex::new(shape.data_version),
            commits: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            light,
        }
    }

    fn is_light(&self, group: &str) -> bool {
        self.light && is_lmq(group)
    }

    /// The queue id under which a group's offset is kept.
    fn queue_of(&self, group: &str, queue_id: i32) -> i32 {
        if self.is_light(group) { LMQ_QUEUE } else { queue_id }
    }

    /// Stores the offset that a client has consumed up to. Nothing is clamped: moving back is allowed.
    pub fn commit(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        let before = self.committed.set(group, topic, self.queue_of(group, queue_id), offset);
        if before.is_some_and(|before| offset < before) {
            tracing::warn!(group, topic, queue_id, offset, before, "a consumer offset moved back");
        }
        if before != Some(offset) {
            self.changed.store(true, Ordering::Release);
        }
        let step = u64::try_from(self.config.load().consumer_offset_update_version_step).unwrap_or(0).max(1);
        if (self.commits.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(step) {
            {
                let mut version = self.version.lock();
                *version = version.next(0);
            }
            self.changed.store(true, Ordering::Release);
        }
    }

    /// Stores how far a group has pulled; `pulled` is from [`Offsets::pulled_of`].
    pub fn commit_pull(&self, pulled: &Pulled, queue_id: i32, offset: i64) {
        if pulled.lock().insert(queue_id, offset) != Some(offset) && !self.changed.load(Ordering::Acquire) {
            self.changed.store(true, Ordering::Release);
        }
    }

    /// Where it is stored how far a group has pulled the queues of a topic; the same as long as [`Offsets::generation`] is.
    pub fn pulled_of(&self, group: &str, topic: &str) -> Arc<Pulled> {
        self.pulled.of(group, topic)
    }

    /// Counts groups and topics that were forgotten.
    pub fn generation(&self) -> u64 {
        self.gone.load(Ordering::SeqCst)
    }

    /// The offset to consume from: one that an operator set (`useServerSideResetOffset`), else the committed one.
    pub fn query(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        if self.config.load().use_server_side_reset_offset
            && let Some(offset) = self.reset.get(group, topic, queue_id)
        {
            return Some(offset);
        }
        self.committed.get(group, topic, self.queue_of(group, queue_id))
    }

    /// How far a group has pulled; what it committed when it never pulled from here.
    pub fn query_pull(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.pulled.get(group, topic, queue_id).or_else(|| self.query(group, topic, queue_id))
    }

    /// Committed offsets of all queues of a topic; `None` when the group never committed any.
    pub fn queues(&self, group: &str, topic: &str) -> Option<QueueOffsets> {
        self.committed.queues(group, topic)
    }

    /// Topics that the group has committed offsets of, sorted.
    pub fn topics_of(&self, group: &str) -> Vec<String> {
        let mut topics: Vec<_> =
            self.committed.groups.read().get(group).map(|topics| topics.keys().cloned().collect()).unwrap_or_default();
        topics.sort();
        topics
    }

    /// Groups that have committed offsets of the topic, sorted.
    pub fn groups_of(&self, topic: &str) -> Vec<String> {
        let groups = self.committed.groups.read();
        let mut found: Vec<_> =
            groups.iter().filter(|(_, topics)| topics.contains_key(topic)).map(|(group, _)| group.clone()).collect();
        found.sort();
        found
    }

    /// Copies the committed offsets of a topic from one group to another.
    pub fn clone_group(&self, from: &str, to: &str, topic: &str) {
        if let Some(queues) = self.committed.queues(from, topic) {
            self.committed.replace(to, topic, queues);
            self.changed.store(true, Ordering::Release);
        }
    }

    /// Replaces the committed offsets of a topic by those of another broker or tool.
    pub fn replace(&self, group: &str, topic: &str, queues: QueueOffsets) {
        self.committed.replace(group, topic, queues);
        self.changed.store(true, Ordering::Release);
    }

    /// Takes over the committed offsets of the master that this broker copies, and saves them. What the master does not know
    /// stays.
    ///
    /// # Errors
    /// The disk; the next call tries again.
    pub fn take_over(&self, of_master: OffsetTables) -> Result<(), StoreError> {
        let light = of_master.lmq_offset_table.unwrap_or_default();
        let light = light.into_iter().map(|(key, offset)| (key, QueueOffsets::from([(LMQ_QUEUE, offset)])));
        let mut changed = false;
        for (key, queues) in of_master.offset_table.into_iter().chain(light) {
            let Some((topic, group)) = key.split_once('@') else { continue };
            if self.committed.queues(group, topic).as_ref() != Some(&queues) {
                self.committed.replace(group, topic, queues);
                changed = true;
            }
        }
        // Old brokers send none.
        if of_master.data_version != DataVersion::default() {
            let mut version = self.version.lock();
            changed |= *version != of_master.data_version;
            *version = of_master.data_version;
        }
        if !changed {
            return Ok(());
        }
        self.changed.store(true, Ordering::Release);
        crate::config_file::off_worker(|| self.persist())
    }

    /// Forgets a group.
    pub fn remove_group(&self, group: &str) {
        for table in [&self.committed, &self.pulled, &self.reset] {
            table.groups.write().remove(group);
        }
        self.gone.fetch_add(1, Ordering::SeqCst);
        self.changed.store(true, Ordering::Release);
    }

    /// Forgets a topic in every group.
    pub fn remove_topic(&self, topic: &str) {
        for table in [&self.committed, &self.pulled, &self.reset] {
            table.groups.write().retain(|_, topics| {
                topics.remove(topic);
                !topics.is_empty()
            });
        }
        self.gone.fetch_add(1, Ordering::SeqCst);
        self.changed.store(true, Ordering::Release);
    }

    /// Sets the offset that the group's next pull of a queue must take (server side reset), and commits it.
    /// Negative queue ids and offsets are ignored.
    pub fn assign_reset(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        if topic.is_empty() || group.is_empty() || queue_id < 0 || offset < 0 {
            tracing::warn!(group, topic, queue_id, offset, "not a valid offset to reset to");
            return;
        }
        self.reset.set(group, topic, queue_id, offset);
        self.committed.set(group, topic, self.queue_of(group, queue_id), offset);
        self.changed.store(true, Ordering::Release);
    }

    /// Whether a reset waits for the next pull of a queue.
    pub fn has_reset(&self, group: &str, topic: &str, queue_id: i32) -> bool {
        self.reset.get(group, topic, queue_id).is_some()
    }

    /// Takes a waiting reset: the pull that asked must answer with it.
    pub fn take_reset(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.reset.groups.read().get(group)?.get(topic)?.lock().remove(&queue_id)
    }

    /// The version of the committed table.
    pub fn data_version(&self) -> DataVersion {
        *self.version.lock()
    }

    /// All tables as `consumerOffset.json` has them, on one line (`pretty == false`) or indented by tabs.
    pub fn encode(&self, pretty: bool) -> Vec<u8> {
        let mut shape = OffsetTables {
            data_version: self.data_version(),
            group_topic_map: BTreeMap::new(),
            lmq_offset_table: None,
            offset_table: self.committed.by_key(),
            pull_offset_table: self.pulled.by_key(),
        };
        if self.light {
            let is_light = |key: &str| key.split_once('@').is_some_and(|(_, group)| is_lmq(group));
            let light = shape.offset_table.extract_if(.., |key, _| is_light(key));
            let one = light.filter_map(|(key, queues)| Some((key, *queues.get(&LMQ_QUEUE)?)));
            shape.lmq_offset_table = Some(one.collect());
        }
        for key in shape.offset_table.keys() {
            if let Some((topic, group)) = key.split_once('@') {
                shape.group_topic_map.entry(group.to_owned()).or_default().insert(topic.to_owned());
            }
        }
        encode(&shape, pretty)
    }

    /// Writes the file when it is behind the tables.
    ///
    /// # Errors
    /// What the system says; the next call tries again.
    pub fn persist(&self) -> Result<(), StoreError> {
        if !self.changed.swap(false, Ordering::AcqRel) && self.file.path().exists() {
            return Ok(());
        }
        self.file.save(&self.encode(true)).inspect_err(|_| self.changed.store(true, Ordering::Release))
    }
}

fn read(file: &ConfigFile) -> Result<Option<OffsetTables>, StoreError> {
    file.load(|bytes| fastjson::from_slice::<OffsetTables>(bytes).map_err(|error| error.to_string()))
}

/// Offsets of a group, by topic and queue id.
type ByTopic = HashMap<String, Arc<Mutex<QueueOffsets>>>;

/// Offsets by group, topic and queue id.
#[derive(Default)]
struct Table {
    groups: RwLock<HashMap<String, ByTopic>>,
}

impl Table {
    fn get(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.groups.read().get(group)?.get(topic)?.lock().get(&queue_id).copied()
    }

    fn queues(&self, group: &str, topic: &str) -> Option<QueueOffsets> {
        Some(self.groups.read().get(group)?.get(topic)?.lock().clone())
    }

    /// Returns what was there.
    fn set(&self, group: &str, topic: &str, queue_id: i32, offset: i64) -> Option<i64> {
        if let Some(queues) = self.groups.read().get(group).and_then(|topics| topics.get(topic)) {
            return queues.lock().insert(queue_id, offset);
        }
        self.of(group, topic).lock().insert(queue_id, offset)
    }

    fn of(&self, group: &str, topic: &str) -> Arc<Mutex<QueueOffsets>> {
        if let Some(queues) = self.groups.read().get(group).and_then(|topics| topics.get(topic)) {
            return queues.clone();
        }
        let mut groups = self.groups.write();
        groups.entry(group.to_owned()).or_default().entry(topic.to_owned()).or_default().clone()
    }

    fn replace(&self, group: &str, topic: &str, queues: QueueOffsets) {
        // In place: others hold it, see [`Offsets::pulled_of`].
        *self.of(group, topic).lock() = queues;
    }

    fn by_key(&self) -> BTreeMap<String, QueueOffsets> {
        let groups = self.groups.read();
        let pairs = groups.iter().flat_map(|(group, topics)| {
            topics.iter().map(move |(topic, queues)| (format!("{topic}@{group}"), queues.lock().clone()))
        });
        pairs.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(dir: &Path, config: BrokerConfig) -> Offsets {
        Offsets::load(dir, Arc::new(Live::new(config))).unwrap()
    }

    #[test]
    fn committed_offsets_survive_and_pulled_ones_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let first = offsets(dir.path(), BrokerConfig::default());
        first.commit("G", "T", 0, 500_000);
        first.commit("G", "T", 0, 1);
        first.commit("G", "T", 9, 7);
        first.commit_pull(&first.pulled_of("G", "T"), 0, 5);
        assert_eq!(
            (first.query("G", "T", 0), first.query_pull("G", "T", 0), first.query_pull("G", "T", 9)),
            (Some(1), Some(5), Some(7))
        );
        first.persist().unwrap();
        let second = offsets(dir.path(), BrokerConfig::default());
        assert_eq!(second.queues("G", "T"), Some([(0, 1), (9, 7)].into()));
        assert_eq!(second.query_pull("G", "T", 0), Some(1));
        assert_eq!((second.topics_of("G"), second.groups_of("T")), (vec!["T".to_owned()], vec!["G".to_owned()]));
    }

    #[test]
    fn the_file_is_only_written_when_something_changed() {
        let dir = tempfile::tempdir().unwrap();
        let table = offsets(dir.path(), BrokerConfig::default());
        table.commit("G", "T", 0, 1);
        table.persist().unwrap();
        let file = dir.path().join("consumerOffset.json");
        let written = || std::fs::metadata(&file).unwrap().modified().unwrap();
        let before = written();
        table.commit("G", "T", 0, 1);
        table.persist().unwrap();
        assert_eq!(written(), before);
        table.commit("G", "T", 0, 2);
        table.persist().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("\"T@G\":{\n\t\t\t0:2\n\t\t}")
                && text.contains("\"groupTopicMap\":{\n\t\t\"G\":[\n\t\t\t\"T\"\n\t\t]"),
            "{text}"
        );
    }

    #[test]
    fn light_groups_have_one_offset_a_topic() {
        let dir = tempfile::tempdir().unwrap();
        let config = || Arc::new(Live::new(BrokerConfig::default()));
        let before = Offsets::load(dir.path(), config()).unwrap();
        before.commit("G", "T", 3, 5);
        before.persist().unwrap();
        // What was committed before light queues were on is there.
        let table = Offsets::load_light(dir.path(), config()).unwrap();
        assert_eq!(table.query("G", "T", 3), Some(5));
        table.commit("%LMQ%g", "%LMQ%t", 7, 1);
        table.commit("%LMQ%g", "%LMQ%t", 0, 2);
        table.commit("G", "%LMQ%t", 0, 9);
        assert_eq!((table.query("%LMQ%g", "%LMQ%t", 7), table.query("%LMQ%g", "%LMQ%u", 0)), (Some(2), None));
        table.persist().unwrap();
        let text = std::fs::read_to_string(dir.path().join("lmqConsumerOffset.json")).unwrap();
        assert!(text.contains("\"lmqOffsetTable\":{\n\t\t\"%LMQ%t@%LMQ%g\":2\n\t}"), "{text}");
        assert!(!text.contains("\"%LMQ%g\":["), "{text}");
        let again = Offsets::load_light(dir.path(), config()).unwrap();
        assert_eq!(again.queues("%LMQ%g", "%LMQ%t"), Some([(0, 2)].into()));
        assert_eq!((again.query("G", "T", 3), again.query("G", "%LMQ%t", 0)), (Some(5), Some(9)));
        again.remove_group("%LMQ%g");
        assert_eq!(again.query("%LMQ%g", "%LMQ%t", 0), None);
        // The other file is as it was.
        assert_eq!(Offsets::load(dir.path(), config()).unwrap().query("G", "%LMQ%t", 0), None);
    }

    #[test]
    fn a_reset_is_taken_once_and_committed() {
        let dir = tempfile::tempdir().unwrap();
        let config = BrokerConfig { use_server_side_reset_offset: true, ..BrokerConfig::default() };
        let table = offsets(dir.path(), config);
        table.assign_reset("G", "T", -1, 5);
        table.assign_reset("G", "T", 0, 5);
        table.commit("G", "T", 0, 9);
        assert_eq!(table.query("G", "T", 0), Some(5));
        assert!(table.has_reset("G", "T", 0));
        assert_eq!((table.take_reset("G", "T", 0), table.take_reset("G", "T", 0)), (Some(5), None));
        assert_eq!((table.query("G", "T", 0), table.query("G", "T", -1)), (Some(9), None));
        table.clone_group("G", "H", "T");
        table.remove_group("G");
        assert_eq!((table.query("G", "T", 0), table.query("H", "T", 0)), (None, Some(9)));
        table.remove_topic("T");
        assert_eq!(table.queues("H", "T"), None);
    }
}
