//! The mappings of all static topics: `config/topicQueueMapping.json`.
//!
//! Readers take no lock. Invariant: when a change returns, it is on disk, unless the disk refuses.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use remoting::body::fastjson;
use remoting::body::topic::DataVersion;
use remoting::body::topic_queue_mapping::{TopicQueueMappingDetail, TopicQueueMappingInfo};
use serde::{Deserialize, Serialize};
use store::StoreError;

use super::mapping::Mapping;
use super::rules::{self, MappingError};
use crate::config_file::{ConfigFile, encode, off_worker};

/// The static topics of this broker.
pub struct StaticTopics {
    file: ConfigFile,
    /// Whether there is any.
    any: AtomicBool,
    table: ArcSwap<Table>,
    generation: AtomicU64,
    /// Held by whoever changes the table, until it is on disk.
    writing: Mutex<()>,
}

#[derive(Clone)]
struct Table {
    by_topic: HashMap<String, Arc<Mapping>>,
    version: DataVersion,
    /// While the table is being changed: the version that it gets, when that is not the next one.
    copied: Option<DataVersion>,
}

/// The file's shape.
#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Shape {
    data_version: DataVersion,
    topic_queue_mapping_info_map: BTreeMap<String, TopicQueueMappingDetail>,
}

impl StaticTopics {
    /// Loads the table from `dir` (`config/` of the store).
    ///
    /// # Errors
    /// The file and its backup are damaged: without its mapping a static topic would show wrong offsets.
    pub fn load(dir: &Path) -> Result<StaticTopics, StoreError> {
        let file = ConfigFile::new(dir.join("topicQueueMapping.json"));
        let shape = file
            .load_or_refuse(|bytes| fastjson::from_slice::<Shape>(bytes).map_err(|error| error.to_string()))?
            .unwrap_or_else(|| Shape { data_version: DataVersion::new(), ..Shape::default() });
        let mappings = shape.topic_queue_mapping_info_map.into_iter();
        let by_topic: HashMap<_, _> = mappings.map(|(topic, detail)| (topic, Arc::new(Mapping::new(detail)))).collect();
        Ok(StaticTopics {
            file,
            any: AtomicBool::new(!by_topic.is_empty()),
            table: ArcSwap::from_pointee(Table { by_topic, version: shape.data_version, copied: None }),
            generation: AtomicU64::new(0),
            writing: Mutex::new(()),
        })
    }

    /// The mapping of a topic that a request is about. `logical`: its field `lo`; a request that says false is about the
    /// broker's own queues.
    pub fn find(&self, topic: &str, logical: Option<bool>) -> Option<Arc<Mapping>> {
        if !self.any.load(Ordering::Acquire) || logical == Some(false) {
            return None;
        }
        self.get(topic)
    }

    /// The mapping of a topic.
    pub fn get(&self, topic: &str) -> Option<Arc<Mapping>> {
        self.table.load().by_topic.get(topic).cloned()
    }

    /// Counts the changes of the table.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// All mappings, by topic, and the version that they belong to.
    pub fn snapshot(&self) -> (BTreeMap<String, Arc<Mapping>>, DataVersion) {
        let table = self.table.load();
        (table.by_topic.iter().map(|(topic, mapping)| (topic.clone(), mapping.clone())).collect(), table.version)
    }

    /// What routes show, of all topics.
    pub fn infos(&self) -> BTreeMap<String, TopicQueueMappingInfo> {
        let table = self.table.load();
        table.by_topic.iter().map(|(topic, mapping)| (topic.clone(), mapping.info())).collect()
    }

    /// Takes the mapping that a tool sets. `force`: whatever was there.
    ///
    /// # Errors
    /// See [`MappingError`]; nothing is changed then.
    pub fn set(&self, detail: TopicQueueMappingDetail, force: bool) -> Result<(), MappingError> {
        let topic = detail.topic.clone().ok_or(MappingError::NoTopic)?;
        detail.hosted_queues.values().try_for_each(|items| rules::check_items(items))?;
        self.change(|table| {
            let detail = match table.by_topic.get(&topic) {
                Some(old) => rules::succeed(old.detail(), detail, force)?,
                None => detail,
            };
            tracing::info!(topic, force, mapping = ?detail, "set a mapping");
            table.by_topic.insert(topic, Arc::new(Mapping::new(detail)));
            Ok(true)
        })
        .map(|_| ())
    }

    /// Puts a mapping in the place of the one that it was made from; false when that has changed meanwhile.
    pub(super) fn replace(&self, from: &Arc<Mapping>, detail: TopicQueueMappingDetail) -> bool {
        self.change(|table| {
            let current = table.by_topic.get_mut(from.topic()).filter(|current| Arc::ptr_eq(current, from));
            Ok(current.map(|current| *current = Arc::new(Mapping::new(detail))).is_some())
        })
        .unwrap_or(false)
    }

    /// Forgets a topic; false when it was no static one.
    pub fn delete(&self, topic: &str) -> bool {
        self.change(|table| Ok(table.by_topic.remove(topic).is_some())).unwrap_or(false)
    }

    /// Becomes a copy of the table of the master that this broker copies, and saves it. Does nothing when the version is ours
    /// already.
    pub fn take_over(&self, of_master: BTreeMap<String, TopicQueueMappingDetail>, version: DataVersion) {
        // Always fine: nothing is checked.
        let _ = self.change(|table| {
            if table.version == version {
                return Ok(false);
            }
            let mappings = of_master.into_iter().map(|(topic, detail)| (topic, Arc::new(Mapping::new(detail))));
            table.by_topic = mappings.collect();
            table.copied = Some(version);
            Ok(true)
        });
    }

    /// Changes the table and saves it, when `edit` says that it did.
    fn change(&self, edit: impl FnOnce(&mut Table) -> Result<bool, MappingError>) -> Result<bool, MappingError> {
        let writing = self.writing.lock();
        let mut table = Table::clone(&self.table.load());
        if !edit(&mut table)? {
            return Ok(false);
        }
        table.version = table.copied.take().unwrap_or_else(|| table.version.next(0));
        self.any.store(!table.by_topic.is_empty(), Ordering::Release);
        let text = encode_table(&table, true);
        self.table.store(Arc::new(table));
        self.generation.fetch_add(1, Ordering::SeqCst);
        off_worker(|| {
            if let Err(error) = self.file.save(&text) {
                tracing::error!(file = %self.file.path().display(), %error, "cannot save the static topics");
            }
        });
        drop(writing);
        Ok(true)
    }
}

fn encode_table(table: &Table, pretty: bool) -> Vec<u8> {
    let mappings = table.by_topic.iter().map(|(topic, mapping)| (topic.clone(), mapping.detail().clone()));
    encode(&Shape { data_version: table.version, topic_queue_mapping_info_map: mappings.collect() }, pretty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::static_topics::items::item;

    fn detail(topic: &str, epoch: i64) -> TopicQueueMappingDetail {
        TopicQueueMappingDetail {
            bname: Some("a".into()),
            topic: Some(topic.into()),
            epoch,
            total_queues: 1,
            hosted_queues: [(0, vec![item(0, "a", 0, 0)])].into(),
            ..TopicQueueMappingDetail::default()
        }
    }

    #[test]
    fn changes_outlive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let table = StaticTopics::load(dir.path()).unwrap();
        assert!(table.find("T", None).is_none() && !table.delete("T"));
        assert!(!dir.path().join("topicQueueMapping.json").exists());
        table.set(detail("T", 5), false).unwrap();
        table.set(detail("U", 5), false).unwrap();
        assert_eq!(table.generation(), 2);
        assert_eq!(table.set(detail("T", 4), false), Err(MappingError::Epoch { new: 4, old: 5 }));
        assert_eq!(table.set(TopicQueueMappingDetail::default(), false), Err(MappingError::NoTopic));
        assert!(table.find("T", None).is_some() && table.find("T", Some(true)).is_some());
        assert!(table.find("T", Some(false)).is_none() && table.find("X", None).is_none());
        let again = StaticTopics::load(dir.path()).unwrap();
        assert_eq!(again.get("T").unwrap().detail(), &detail("T", 5));
        assert_eq!(again.snapshot().1, table.snapshot().1);
        let known = again.get("T").unwrap();
        assert!(again.replace(&known, detail("T", 6)) && !again.replace(&known, detail("T", 7)));
        assert!(again.delete("T") && again.delete("U") && again.find("T", None).is_none());
        // The backup is what was there before the last change.
        std::fs::remove_file(dir.path().join("topicQueueMapping.json")).unwrap();
        assert_eq!(StaticTopics::load(dir.path()).unwrap().infos().into_keys().collect::<Vec<_>>(), ["U"]);
    }

    /// Written by a Java 5.5.0 broker after `updateStaticTopic -t CliStatic -qn 2`.
    #[test]
    fn the_file_of_a_java_broker() {
        let java = include_str!("testdata/topicQueueMapping.json");
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("topicQueueMapping.json"), java).unwrap();
        let table = StaticTopics::load(dir.path()).unwrap();
        assert_eq!(table.find("CliStatic", None).unwrap().info().curr_id_map, [(0, 0), (1, 1)].into());
        assert_eq!(String::from_utf8(encode_table(&table.table.load(), true)).unwrap(), java);
    }

    #[test]
    fn a_damaged_file_is_not_taken_for_no_mapping() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("topicQueueMapping.json"), "{\"topicQueueMappingInfoMap\":{").unwrap();
        assert!(StaticTopics::load(dir.path()).is_err());
    }
}
