//! Compaction topics (`cleanup.policy=COMPACTION`): of each key the last message is kept, for ever.
//!
//! Every message goes into the commitlog and its consume queue as always, and a copy of its record into the *compacted
//! log* of its queue, from which alone it is read. From time to time the closed files of a compacted log are rewritten
//! without the messages that a later one of the same key replaces. Queue offsets stay what they were, so they have gaps.
//!
//! Files: `layout.rs`, a pair of them `part.rs`. A queue's log: `log.rs`. A compaction: `run.rs`, and how its files take
//! the place of the old ones `replace.rs`. After a start: `load.rs` and `settle.rs`. When: `schedule.rs`.
//!
//! A topic without the policy costs one load of a flag a message.

mod appender;
mod layout;
mod load;
mod log;
mod offset_map;
mod part;
mod position;
mod read;
mod replace;
mod run;
mod schedule;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::{Live, MessageStoreConfig};
use parking_lot::{Mutex, RwLock};

pub(crate) use self::log::CompactionLog;

use self::layout::{Dirs, Sizes};
use self::load::DOUBTFUL;
use self::part::Part;
use self::position::Positions;
use self::settle::Source;
use crate::bell::Bell;
use crate::commitlog::CommitLog;
use crate::error::StoreError;
use crate::failpoint::{self, Point};
use crate::queue::{Queue, QueueTable};
use crate::segment::remove_dir;

/// The compacted logs of a store.
#[derive(Debug)]
pub(crate) struct Compaction {
    root: PathBuf,
    sizes: Sizes,
    config: Arc<Live<MessageStoreConfig>>,
    log: Arc<CommitLog>,
    /// Whether the store was closed in order before.
    clean: bool,
    /// Store timestamp (ms) of the last record that the start found in the log; 0 without one.
    last_timestamp: i64,
    positions: Positions,
    /// After a crash, something could not be brought in line with the log.
    unsettled: AtomicBool,
    /// Topics with the policy.
    topics: RwLock<HashSet<String>>,
    /// By topic and queue.
    logs: Mutex<HashMap<String, Vec<Arc<CompactionLog>>>>,
    /// Wakes the thread that compacts.
    bell: Bell,
}

impl Compaction {
    /// Nothing is read but the positions; queues are opened as their topics are declared. `clean` says whether the store was
    /// closed in order before, `last_timestamp` what the last record of the log says (ms), 0 without one.
    pub(crate) fn new(
        config: Arc<Live<MessageStoreConfig>>,
        log: Arc<CommitLog>,
        clean: bool,
        last_timestamp: i64,
    ) -> Compaction {
        let now = config.load_full();
        let root = now.root_dir();
        let positions = Positions::load(&root);
        // Of topics whose deletion was interrupted.
        positions.keep(|topic, id| Dirs::of_queue(&root, topic, id).log.is_dir());
        Compaction {
            positions,
            sizes: Sizes::of(&now),
            root,
            config,
            log,
            clean,
            last_timestamp,
            unsettled: AtomicBool::new(false),
            topics: RwLock::default(),
            logs: Mutex::default(),
            bell: Bell::default(),
        }
    }

    /// Says that a topic has the policy: opens its compacted logs and adds what they miss. Nothing of the topic may be
    /// dispatched meanwhile.
    ///
    /// # Errors
    /// Files that do not fit the configuration, or the disk.
    pub(crate) fn declare(&self, topic: &str, queues: &QueueTable) -> Result<(), StoreError> {
        if !self.topics.write().insert(topic.to_owned()) {
            return Ok(());
        }
        // Queues whose messages are all gone from the log live on in the compacted log.
        let [log, _] = layout::of_kinds(&self.root);
        for id in ids(&log.join(topic)) {
            queues.get_or_create(topic, id);
        }
        let result = queues.of_topic(topic).iter().try_for_each(|queue| self.attach(queue));
        if result.is_err() {
            self.unsettled.fetch_or(!self.clean, Ordering::Relaxed);
        }
        result
    }

    /// Whether the next start must not take the files for those of a store that was closed in order.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.unsettled.load(Ordering::Relaxed)
    }

    /// Gives a queue that has just been made its compacted log, when its topic has one.
    pub(crate) fn made(&self, queue: &Queue) {
        if self.topics.read().contains(queue.topic())
            && let Err(error) = self.attach(queue)
        {
            tracing::error!(topic = queue.topic(), queue = queue.id(), %error, "no compacted log until the next start");
        }
    }

    fn attach(&self, queue: &Queue) -> Result<(), StoreError> {
        if queue.compaction().is_some() {
            return Ok(());
        }
        let (topic, id) = (queue.topic(), queue.id());
        let dirs = Dirs::of_queue(&self.root, topic, id);
        let source = Source { queue, log: &self.log, last_timestamp: self.last_timestamp };
        let mut loaded = load::load(&dirs, self.sizes, self.clean)?;
        if let Some(position) = loaded.position {
            self.positions.set(topic, id, position)?;
            failpoint::pass(Point::CompactNoted);
            replace::clear_if_possible(&dirs);
        }
        if loaded.parts.is_empty() {
            // Of a topic of this name that was deleted.
            self.positions.remove(topic, id)?;
        } else if !self.clean {
            self.settle(&mut loaded.parts, &dirs, source)?;
        }
        let log = Arc::new(CompactionLog::new(topic, id, dirs, self.sizes, loaded.parts));
        let added = settle::catch_up(&log, source).inspect_err(|_| {
            // Nobody puts on the device what was added.
            self.unsettled.store(true, Ordering::Relaxed);
        })?;
        if added > 0 {
            tracing::info!(topic, queue = id, added, "messages are added to the compacted log");
        }
        if queue.compacted_by(Arc::clone(&log)) {
            self.schedule(&log);
            self.logs.lock().entry(topic.to_owned()).or_default().push(log);
            self.bell.ring();
        }
        Ok(())
    }

    /// Cuts the parts of a queue where a crash left something else than the log has.
    fn settle(&self, parts: &mut Vec<Arc<Part>>, dirs: &Dirs, source: Source<'_>) -> Result<(), StoreError> {
        let (topic, id) = (source.queue.topic(), source.queue.id());
        let position = self.positions.get(topic, id);
        if let Some(cut) = settle::find_cut(parts, source, position) {
            // What comes again from the log is to be compacted again. First: not after a crash in between.
            if cut.offset <= position {
                self.positions.set(topic, id, cut.offset - 1)?;
            }
            settle::cut(parts, (dirs, self.sizes), source, &cut)?;
        }
        parts.iter().rev().take(DOUBTFUL).for_each(|part| part.distrust());
        Ok(())
    }

    /// Whether a topic has the policy.
    pub(crate) fn has(&self, topic: &str) -> bool {
        self.topics.read().contains(topic)
    }

    /// Removes the compacted log of a queue that is to be made anew.
    ///
    /// # Errors
    /// Not all files are gone.
    pub(crate) fn delete_queue(&self, topic: &str, id: i32) -> Result<(), StoreError> {
        let gone: Vec<_> = match self.logs.lock().get_mut(topic) {
            Some(logs) => logs.extract_if(.., |log| log.id() == id).collect(),
            None => return Ok(()),
        };
        gone.iter().try_for_each(|log| log.delete().and(self.positions.remove(topic, id)))
    }

    /// Forgets a topic and removes its files, of this life or an earlier one.
    ///
    /// # Errors
    /// Not all files are gone.
    pub(crate) fn delete_topic(&self, topic: &str) -> Result<(), StoreError> {
        self.topics.write().remove(topic);
        let logs = self.logs.lock().remove(topic).unwrap_or_default();
        let mut result = Ok(());
        for log in &logs {
            result = result.and(log.delete()).and(self.positions.remove(topic, log.id()));
        }
        if topic.is_empty() || topic.contains('/') || topic == ".." || topic == "." {
            return result;
        }
        let [log, cq] = layout::of_kinds(&self.root);
        for id in ids(&log.join(topic)) {
            result = result.and(self.positions.remove(topic, id));
        }
        for dir in [cq.join(topic), log.join(topic)] {
            result = result.and(remove_dir(&dir).map_err(|source| StoreError::Io { path: dir, source }));
        }
        result
    }

    /// Topics that have a directory for compacted logs, whatever their policy.
    pub(crate) fn topics_on_disk(&self) -> Vec<Arc<str>> {
        let entries = layout::of_kinds(&self.root).into_iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten();
        let dirs = entries.filter_map(Result::ok).filter(|entry| entry.path().is_dir());
        dirs.filter_map(|entry| Some(entry.file_name().to_str()?.into())).collect()
    }

    /// Puts what waits on the device, of logs that have at least `least` bytes of it.
    ///
    /// # Errors
    /// The device failed.
    pub(crate) fn flush(&self, least: usize) -> Result<(), StoreError> {
        self.all().iter().try_for_each(|log| log.flush(least))
    }

    fn all(&self) -> Vec<Arc<CompactionLog>> {
        self.logs.lock().values().flatten().cloned().collect()
    }
}

/// Queue ids that have a directory.
fn ids(dir: &std::path::Path) -> Vec<i32> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let of_dir =
        |entry: fs::DirEntry| entry.path().is_dir().then(|| entry.file_name().to_str()?.parse().ok()).flatten();
    entries.filter_map(of_dir).filter(|id| *id >= 0).collect()
}
