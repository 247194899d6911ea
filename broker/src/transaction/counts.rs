//! How many halves of each topic are open: `config/transactionMetrics`.
//!
//! ```text
//! {"dataVersion":{..},"transactionCount":{"topic":{"count":6,"timeStamp":1795972389380}}}
//! ```
//!
//! on one line. The numbers are for metrics only: a crash loses what was counted since the last save, as with Java.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::RwLock;
use remoting::body::fastjson;
use remoting::body::topic::DataVersion;
use serde::{Deserialize, Serialize};
use store::StoreError;

use crate::config_file::{ConfigFile, encode};
use crate::stats::now_millis;

/// What is counted of one topic.
#[derive(Debug, Default)]
pub struct Count {
    open: AtomicI64,
    changed_at: AtomicI64,
    committed: AtomicU64,
    rolled_back: AtomicU64,
}

impl Count {
    /// Halves that are neither ended nor given up.
    pub fn open(&self) -> i64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Commits since the start.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// Rollbacks since the start.
    pub fn rolled_back(&self) -> u64 {
        self.rolled_back.load(Ordering::Relaxed)
    }
}

/// The counters of all topics.
pub struct Counts {
    file: ConfigFile,
    by_topic: RwLock<HashMap<String, Arc<Count>>>,
    loaded: DataVersion,
    changes: AtomicI64,
    changed_at: AtomicI64,
    unsaved: AtomicBool,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Shape {
    data_version: DataVersion,
    transaction_count: BTreeMap<String, ShapeOfCount>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ShapeOfCount {
    count: i64,
    time_stamp: i64,
}

impl Counts {
    /// Loads the counters from `dir` (`config/` of the store).
    ///
    /// # Errors
    /// The file and its backup are damaged.
    pub fn load(dir: &Path) -> Result<Counts, StoreError> {
        let file = ConfigFile::new(dir.join("transactionMetrics"));
        let shape = file
            .load(|text| fastjson::from_slice::<Shape>(text).map_err(|error| error.to_string()))?
            .unwrap_or_else(|| Shape { data_version: DataVersion::new(), ..Shape::default() });
        let by_topic = shape.transaction_count.into_iter().map(|(topic, count)| {
            let (open, changed_at) = (AtomicI64::new(count.count), AtomicI64::new(count.time_stamp));
            (topic, Arc::new(Count { open, changed_at, ..Count::default() }))
        });
        Ok(Counts {
            by_topic: RwLock::new(by_topic.collect()),
            file,
            loaded: shape.data_version,
            changes: AtomicI64::new(0),
            changed_at: AtomicI64::new(shape.data_version.timestamp),
            unsaved: AtomicBool::new(false),
        })
    }

    /// A half was taken.
    pub fn opened(&self, topic: &str) {
        self.change(topic, |count| count.open.fetch_add(1, Ordering::Relaxed));
    }

    /// A half was given up.
    pub fn discarded(&self, topic: &str) {
        self.change(topic, |count| count.open.fetch_sub(1, Ordering::Relaxed));
    }

    /// A half was committed. `open`: for the first time.
    pub fn committed(&self, topic: &str, open: bool) {
        self.change(topic, |count| {
            count.committed.fetch_add(1, Ordering::Relaxed);
            count.open.fetch_sub(i64::from(open), Ordering::Relaxed)
        });
    }

    /// A half was rolled back.
    pub fn rolled_back(&self, topic: &str) {
        self.change(topic, |count| {
            count.rolled_back.fetch_add(1, Ordering::Relaxed);
            count.open.fetch_sub(1, Ordering::Relaxed)
        });
    }

    /// All topics.
    pub fn snapshot(&self) -> Vec<(String, Arc<Count>)> {
        self.by_topic.read().iter().map(|(topic, count)| (topic.clone(), count.clone())).collect()
    }

    /// Writes the file when it is behind. A failure is logged; the next call tries again.
    pub fn persist(&self) {
        if !self.unsaved.swap(false, Ordering::AcqRel) && self.file.path().exists() {
            return;
        }
        let shape = Shape {
            data_version: DataVersion {
                counter: self.loaded.counter.wrapping_add(self.changes.load(Ordering::Relaxed)),
                timestamp: self.changed_at.load(Ordering::Relaxed),
                ..self.loaded
            },
            transaction_count: self
                .snapshot()
                .into_iter()
                .map(|(topic, count)| {
                    let time_stamp = count.changed_at.load(Ordering::Relaxed);
                    (topic, ShapeOfCount { count: count.open(), time_stamp })
                })
                .collect(),
        };
        if let Err(error) = self.file.save(&encode(&shape, false)) {
            self.unsaved.store(true, Ordering::Release);
            tracing::error!(file = %self.file.path().display(), %error, "cannot save the counts of open transactions");
        }
    }

    fn change<T>(&self, topic: &str, change: impl FnOnce(&Count) -> T) {
        let now = now_millis();
        let note = |count: &Count| {
            count.changed_at.store(now, Ordering::Relaxed);
            change(count);
        };
        let known = self.by_topic.read();
        if let Some(count) = known.get(topic) {
            note(count);
        } else {
            drop(known);
            note(self.by_topic.write().entry(topic.to_owned()).or_default());
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.changed_at.store(now, Ordering::Relaxed);
        if !self.unsaved.load(Ordering::Relaxed) {
            self.unsaved.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_java_writes_it_and_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("transactionMetrics");
        let text = "{\"dataVersion\":{\"counter\":30,\"stateVersion\":0,\"timestamp\":1795972389380},\
                    \"transactionCount\":{\"TopicTx\":{\"count\":6,\"timeStamp\":1795972389380}}}";
        std::fs::write(&file, text).unwrap();
        let counts = Counts::load(dir.path()).unwrap();
        counts.persist();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "nothing changed");
        counts.opened("TopicTx");
        counts.committed("TopicTx", true);
        counts.rolled_back("TopicTx");
        counts.opened("New");
        counts.discarded("TopicTx");
        counts.persist();
        let again = Counts::load(dir.path()).unwrap();
        assert_eq!(again.loaded.counter, 35);
        let open: BTreeMap<_, _> = again.snapshot().into_iter().map(|(topic, count)| (topic, count.open())).collect();
        assert_eq!(open, BTreeMap::from([("New".to_owned(), 1), ("TopicTx".to_owned(), 4)]));
        assert_eq!(std::fs::read_to_string(dir.path().join("transactionMetrics.bak")).unwrap(), text);
    }

    #[test]
    fn an_empty_file_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        Counts::load(dir.path()).unwrap().persist();
        let text = std::fs::read_to_string(dir.path().join("transactionMetrics")).unwrap();
        assert!(text.ends_with("\"transactionCount\":{}}"), "{text}");
    }
}
