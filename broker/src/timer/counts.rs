//! How many messages of each topic wait: `config/timermetrics`.
//!
//! ```text
//! {"dataVersion":{..},"timingCount":{"topic":{"count":6,"timeStamp":1795972478159}}}
//! ```
//!
//! on one line. The numbers are for metrics only.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use remoting::body::fastjson;
use remoting::body::topic::DataVersion;
use serde::{Deserialize, Serialize};
use store::StoreError;

use crate::config_file::{ConfigFile, encode};
use crate::names;
use crate::stats::now_millis;

/// What is counted of one topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Messages that wait; less those that recall one.
    pub waiting: i64,
    /// When that changed (ms since the epoch).
    pub changed_at: i64,
    /// Messages taken since the start.
    pub taken: u64,
    /// Messages delivered or rolled since the start.
    pub delivered: u64,
}

/// The counters of all topics.
#[derive(Debug)]
pub struct Counts {
    file: ConfigFile,
    table: Mutex<Table>,
    unsaved: AtomicBool,
}

#[derive(Debug)]
struct Table {
    version: DataVersion,
    by_topic: HashMap<String, Count>,
}

/// The shape of the file and of the answer to GET_TIMER_METRICS.
#[derive(Clone, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct TimerCounts {
    /// Version of the table.
    pub data_version: DataVersion,
    /// By topic.
    pub timing_count: BTreeMap<String, TimerCount>,
}

/// What waits of one topic.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct TimerCount {
    /// Messages.
    pub count: i64,
    /// When that changed (ms since the epoch).
    pub time_stamp: i64,
}

impl Counts {
    /// Loads the counters from `dir` (`config/` of the store).
    ///
    /// # Errors
    /// The file and its backup are damaged.
    pub fn load(dir: &Path) -> Result<Counts, StoreError> {
        let file = ConfigFile::new(dir.join("timermetrics"));
        let shape = file
            .load(|text| fastjson::from_slice::<TimerCounts>(text).map_err(|error| error.to_string()))?
            .unwrap_or_else(|| TimerCounts { data_version: DataVersion::new(), ..TimerCounts::default() });
        let by_topic = shape.timing_count.into_iter().map(|(topic, count)| {
            (topic, Count { waiting: count.count, changed_at: count.time_stamp, ..Count::default() })
        });
        let table = Mutex::new(Table { version: shape.data_version, by_topic: by_topic.collect() });
        Ok(Counts { file, table, unsaved: AtomicBool::new(false) })
    }

    /// A message was taken.
    pub(super) fn taken(&self, topic: &str) {
        self.with(topic, |count| count.taken += 1);
    }

    /// A message was delivered, or rolled.
    pub(super) fn delivered(&self, topic: &str) {
        self.with(topic, |count| count.delivered += 1);
    }

    /// More or fewer messages wait.
    pub(super) fn add(&self, topic: &str, more: i64) {
        let mut table = self.table.lock();
        table.version = table.version.next(0);
        let now = table.version.timestamp;
        let count = table.entry(topic);
        count.waiting += more;
        count.changed_at = now;
        drop(table);
        self.unsaved.store(true, Ordering::Release);
    }

    fn with(&self, topic: &str, change: impl FnOnce(&mut Count)) {
        change(self.table.lock().entry(topic));
    }

    /// Sets what waits, as counted; topics that are not named have nothing.
    pub(super) fn correct(&self, counted: &HashMap<String, i64>) {
        let mut table = self.table.lock();
        let now = now_millis();
        for topic in counted.keys() {
            table.entry(topic);
        }
        let mut changed = false;
        for (topic, count) in &mut table.by_topic {
            let waiting = counted.get(topic).copied().unwrap_or(0);
            if count.waiting != waiting {
                tracing::info!(topic, from = count.waiting, to = waiting, "corrected the number of timed messages");
                (count.waiting, count.changed_at) = (waiting, now);
                changed = true;
            }
        }
        if changed {
            table.version = table.version.next(0);
            self.unsaved.store(true, Ordering::Release);
        }
    }

    /// Becomes a copy of the table of the master that this broker copies. Does nothing when the version is ours already.
    pub fn take_over(&self, of_master: &TimerCounts) {
        {
            let mut table = self.table.lock();
            if table.version == of_master.data_version {
                return;
            }
            table.version = of_master.data_version;
            for count in table.by_topic.values_mut() {
                count.waiting = 0;
            }
            for (topic, of_topic) in &of_master.timing_count {
                let count = table.entry(topic);
                (count.waiting, count.changed_at) = (of_topic.count, of_topic.time_stamp);
            }
            table.by_topic.retain(|topic, _| of_master.timing_count.contains_key(topic));
        }
        self.unsaved.store(true, Ordering::Release);
        self.persist();
    }

    /// Forgets a topic.
    pub fn remove(&self, topic: &str) {
        if self.table.lock().by_topic.remove(topic).is_some() {
            self.unsaved.store(true, Ordering::Release);
        }
    }

    /// Forgets the topics that `known` does not know, except those of the broker itself.
    pub fn retain(&self, known: impl Fn(&str) -> bool) {
        let mut table = self.table.lock();
        let before = table.by_topic.len();
        let own = |topic: &str| topic.starts_with(names::SYSTEM_PREFIX) || topic.starts_with(names::LMQ_PREFIX);
        table.by_topic.retain(|topic, _| own(topic) || known(topic));
        if table.by_topic.len() != before {
            self.unsaved.store(true, Ordering::Release);
        }
    }

    /// All topics, sorted.
    pub fn snapshot(&self) -> BTreeMap<String, Count> {
        self.table.lock().by_topic.iter().map(|(topic, count)| (topic.clone(), *count)).collect()
    }

    /// The file's text, which is the answer to GET_TIMER_METRICS as well.
    pub fn encode(&self) -> Vec<u8> {
        let table = self.table.lock();
        let timing_count = table
            .by_topic
            .iter()
            .map(|(topic, count)| (topic.clone(), TimerCount { count: count.waiting, time_stamp: count.changed_at }));
        encode(&TimerCounts { data_version: table.version, timing_count: timing_count.collect() }, false)
    }

    /// Writes the file when it is behind. A failure is logged; the next call tries again.
    pub(super) fn persist(&self) {
        if !self.unsaved.swap(false, Ordering::AcqRel) {
            return;
        }
        if let Err(error) = self.file.save(&self.encode()) {
            self.unsaved.store(true, Ordering::Release);
            tracing::error!(file = %self.file.path().display(), %error, "cannot save the number of timed messages");
        }
    }
}

impl Table {
    fn entry(&mut self, topic: &str) -> &mut Count {
        if !self.by_topic.contains_key(topic) {
            self.by_topic.insert(topic.to_owned(), Count::default());
        }
        // Just made when it was not there.
        self.by_topic.entry(topic.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a Java broker wrote it.
    const JAVA: &str = concat!(
        r#"{"dataVersion":{"counter":22,"stateVersion":0,"timestamp":1795972478159},"#,
        r#""timingCount":{"TopicTimer":{"count":6,"timeStamp":1795972478159}}}"#
    );

    #[test]
    fn reads_and_writes_javas_text() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("timermetrics"), JAVA).unwrap();
        let counts = Counts::load(dir.path()).unwrap();
        assert_eq!(String::from_utf8(counts.encode()).unwrap(), JAVA);
        counts.add("TopicTimer", -2);
        counts.add("T", 1);
        counts.taken("T");
        counts.persist();
        let again = Counts::load(dir.path()).unwrap();
        let waiting: Vec<_> = again.snapshot().into_iter().map(|(topic, count)| (topic, count.waiting)).collect();
        assert_eq!(waiting, [("T".to_owned(), 1), ("TopicTimer".to_owned(), 4)]);
        assert!(String::from_utf8(again.encode()).unwrap().contains("\"counter\":24"));
        again.correct(&HashMap::from([("U".to_owned(), 9)]));
        let waiting: Vec<_> = again.snapshot().into_values().map(|count| count.waiting).collect();
        assert_eq!(waiting, [0, 0, 9]);
        again.retain(|topic| topic == "U");
        again.remove("U");
        assert!(again.snapshot().is_empty());
    }
}
