//! All queues of the store, by topic and id.

mod anew;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use super::ext::QueueExt;
use super::files::Shape;
use super::listing;
use super::sync;
use super::unit::{BATCH_UNIT_LEN, UNIT_LEN};
use super::{ByMark, Places, Queue, mark};
use crate::compaction::Compaction;
use crate::error::StoreError;
use crate::json_file::{JsonFile, Loaded};
use crate::lmq::is_lmq;
use crate::segment::file_name;

/// Where the queues are and how long their files are.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// The store's root directory (`storePathRootDir`).
    pub root: PathBuf,
    /// `mappedFileSizeConsumeQueue`, in bytes.
    pub file_size: i32,
    /// `mapperFileSizeBatchConsumeQueue`, in bytes.
    pub batch_file_size: i32,
    /// `mappedFileSizeConsumeQueueExt`, in bytes.
    pub ext_file_size: i32,
    /// `enableConsumeQueueExt`: entries get units in the extension. One that is there is read in any case.
    pub ext: bool,
}

/// The queues of the store. Look-ups take a shared lock for the length of two map look-ups; whoever needs a queue often
/// keeps its handle.
pub struct QueueTable {
    places: Arc<Places>,
    topics: RwLock<HashMap<Arc<str>, ById>>,
    /// Topics whose queues have batch units (`queue.type=BatchCQ`).
    batch_topics: RwLock<HashSet<String>>,
    /// Says the same of other topics.
    is_batch: OnceLock<IsBatch>,
    /// Compaction topics have their logs from here.
    compaction: OnceLock<Arc<Compaction>>,
    /// How many queues are light ones, see [`crate::lmq`].
    light: AtomicUsize,
    /// Queues with unflushed units.
    pub(super) dirty: Mutex<Vec<Arc<Queue>>>,
    /// Queues are being made anew from their records: their files are not what they will be.
    remaking: AtomicBool,
    /// Those of them that have many.
    ripe: Mutex<Vec<Arc<Queue>>>,
    /// How many bytes are many.
    least: AtomicUsize,
    /// Up to where [`QueueTable::unmap_idle`] has come.
    looked_at: Mutex<usize>,
}

/// Whether the queues of a topic have batch units.
type IsBatch = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// The queues of a topic.
#[derive(Debug, Default)]
struct ById(BTreeMap<i32, Arc<Queue>>);

/// A directory that holds the queues of a topic.
struct Found {
    topic: Arc<str>,
    dir: PathBuf,
    batch: bool,
}

impl QueueTable {
    /// A table without queues.
    pub fn empty(options: &TableOptions) -> QueueTable {
        let places = Places {
            simple_dir: options.root.join("consumequeue"),
            simple: Shape::new(UNIT_LEN, options.file_size),
            batch_dir: options.root.join("batchconsumequeue"),
            batch: Shape::new(BATCH_UNIT_LEN, options.batch_file_size),
            ext_dir: options.root.join("consumequeue_ext"),
            ext_found: options.root.join("consumequeue_ext").is_dir(),
            ext: QueueExt::shape(options.ext_file_size),
            ext_enabled: options.ext,
            present: AtomicU64::new(0),
            lost: AtomicBool::new(false),
        };
        QueueTable {
            places: Arc::new(places),
            topics: RwLock::default(),
            batch_topics: RwLock::default(),
            is_batch: OnceLock::new(),
            compaction: OnceLock::new(),
            light: AtomicUsize::new(0),
            dirty: Mutex::default(),
            remaking: AtomicBool::new(false),
            ripe: Mutex::default(),
            least: AtomicUsize::new(usize::MAX),
            looked_at: Mutex::default(),
        }
    }

    /// Loads every queue that has a directory. No file is mapped.
    ///
    /// `known` is the [`QueueTable::fingerprint`] of the files that are to be there, or 0. To list the directories of very
    /// many queues takes longer than to open the one file that nearly each of them has: the directories are listed only
    /// when the files that are found so are not the ones that are known.
    ///
    /// # Errors
    /// A file that does not fit the configuration, or the system's refusal.
    pub fn load(options: &TableOptions, known: u64) -> Result<QueueTable, StoreError> {
        if known != 0 {
            let table = QueueTable::load_by(options, false)?;
            if table.fingerprint() == known {
                return Ok(table);
            }
        }
        QueueTable::load_by(options, true)
    }

    fn load_by(options: &TableOptions, listed: bool) -> Result<QueueTable, StoreError> {
        let table = QueueTable::empty(options);
        let mut found = find(&table.places.simple_dir, false)?;
        found.extend(find(&table.places.batch_dir, true)?);
        let configured = configured_batch_topics(&options.root);
        let batch: HashSet<_> = found.iter().filter(|found| found.batch).map(|found| found.topic.to_string()).collect();
        for found in found.iter().filter(|found| !found.batch && batch.contains(&*found.topic)) {
            if configured.iter().any(|topic| **topic == *found.topic) {
                table.remove_simple(found)?;
            }
        }
        table.batch_topics.write().extend(batch.into_iter().chain(configured));
        let next = AtomicUsize::new(0);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(1 + found.len() / 64);
        // A topic at a time from a common list.
        let load = || -> Result<(), StoreError> {
            while let Some(found) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
                table.load_topic(found, listed)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (1..threads).map(|_| scope.spawn(load)).collect();
            let mut result = load();
            for worker in workers {
                result = result.and(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            result
        })?;
        Ok(table)
    }

    fn load_topic(&self, Found { topic, dir, batch }: &Found, listed: bool) -> Result<(), StoreError> {
        let mut loaded = Vec::new();
        let Some((opened, names)) = opened(dir)? else { return Ok(()) };
        let file_len = self.places.of(*batch).1.file_len() as u64;
        for id in names.iter().filter_map(|name| name.parse().ok()) {
            let first = match listed {
                true => None,
                false => listing::file(&opened, &format!("{id}/{}", file_name(0))),
            };
            let first = first.filter(|(_, len)| *len == file_len).map(|(file, _)| file);
            let queue = Queue::load(Arc::clone(topic), id, Arc::clone(&self.places), *batch, first)?;
            loaded.push((id, Arc::new(queue)));
        }
        if loaded.is_empty() {
            return Ok(());
        }
        let mut topics = self.topics.write();
        let queues = topics.entry(Arc::clone(topic)).or_default();
        for (id, queue) in loaded {
            if queues.0.insert(id, queue).is_none() {
                self.light.fetch_add(usize::from(is_lmq(topic)), Ordering::Relaxed);
            } else {
                tracing::error!(topic = &**topic, id, "the queue has files of both kinds: one kind is left alone");
            }
        }
        Ok(())
    }

    /// The queue when it exists.
    pub fn get(&self, topic: &str, id: i32) -> Option<Arc<Queue>> {
        self.topics.read().get(topic)?.0.get(&id).cloned()
    }

    /// The queue, made in memory when it does not exist.
    pub fn get_or_create(&self, topic: &str, id: i32) -> Arc<Queue> {
        if let Some(queue) = self.get(topic, id) {
            return queue;
        }
        let batch = self.batch_topics.read().contains(topic) || self.is_batch.get().is_some_and(|is| is(topic));
        let mut topics = self.topics.write();
        let topic = topics.get_key_value(topic).map_or_else(|| Arc::from(topic), |(topic, _)| Arc::clone(topic));
        let queues = topics.entry(Arc::clone(&topic)).or_default();
        Arc::clone(queues.0.entry(id).or_insert_with(|| {
            self.light.fetch_add(usize::from(is_lmq(&topic)), Ordering::Relaxed);
            let queue = Arc::new(Queue::new(topic, id, Arc::clone(&self.places), batch));
            if let Some(compaction) = self.compaction.get() {
                compaction.made(&queue);
            }
            queue
        }))
    }

    /// Sets where queues that are made from now on get their compacted logs from.
    pub(crate) fn set_compaction(&self, compaction: Arc<Compaction>) {
        let _ = self.compaction.set(compaction);
    }

    /// Says how to tell that the queues of a topic are to have batch units; asked when a queue is made. The first call
    /// counts.
    pub fn tell_batch_topics(&self, is_batch: IsBatch) {
        let _ = self.is_batch.set(is_batch);
    }

    /// How many light queues there are.
    pub fn light(&self) -> usize {
        self.light.load(Ordering::Relaxed)
    }

    /// Forgets light queues that nobody holds and that never got an entry: whoever looks at one that does not exist makes
    /// it. Returns how many went.
    pub fn forget_unused(&self) -> usize {
        if self.light() == 0 {
            return 0;
        }
        let mut gone = 0;
        self.topics.write().retain(|topic, queues| {
            if is_lmq(topic) {
                let before = queues.0.len();
                // With the table's lock nobody gets another handle.
                queues.0.retain(|_, queue| Arc::strong_count(queue) > 1 || !queue.is_unused());
                gone += before - queues.0.len();
            }
            !queues.0.is_empty()
        });
        self.light.fetch_sub(gone, Ordering::Relaxed);
        gone
    }

    /// The queues of a topic, by id.
    pub fn of_topic(&self, topic: &str) -> Vec<Arc<Queue>> {
        self.topics.read().get(topic).map(|queues| queues.0.values().cloned().collect()).unwrap_or_default()
    }

    /// All queues.
    pub fn all(&self) -> Vec<Arc<Queue>> {
        self.topics.read().values().flat_map(|queues| queues.0.values().cloned()).collect()
    }

    /// The topics that have queues.
    pub fn topics(&self) -> Vec<Arc<str>> {
        self.topics.read().keys().cloned().collect()
    }

    /// Forgets a topic and removes its files. Handles that are still held say [`Queue::is_deleted`].
    ///
    /// # Errors
    /// A file could not be removed; the topic is forgotten nevertheless, the other files are gone.
    pub fn delete_topic(&self, topic: &str) -> Result<(), StoreError> {
        self.batch_topics.write().remove(topic);
        // In the lock to the end: who makes a queue anew must not meet the old files, nor lose new ones to this.
        let mut topics = self.topics.write();
        let Some(queues) = topics.remove(topic) else { return Ok(()) };
        self.light.fetch_sub(if is_lmq(topic) { queues.0.len() } else { 0 }, Ordering::Relaxed);
        let mut result = Ok(());
        for queue in queues.0.values() {
            result = result.and(queue.delete());
        }
        self.remove_dirs(topic);
        result
    }

    /// Whether entries get units in the extension.
    pub(crate) fn is_extended(&self) -> bool {
        self.places.ext_enabled
    }

    /// Whether a queue was found to miss files.
    pub fn files_missing(&self) -> bool {
        self.places.lost.load(Ordering::Acquire)
    }

    /// Says that the whole log is going to be dispatched again (or no more), because files are missing: a queue that
    /// misses its first ones begins anew.
    pub fn set_files_missing(&self, missing: bool) {
        self.places.lost.store(missing, Ordering::Release);
    }

    /// A number that stands for the set of the queues' files; never 0. A store whose queues give another one than it had
    /// when it was last open has lost some.
    ///
    /// While queues are made anew from their records it is one that no set of files has.
    pub fn fingerprint(&self) -> u64 {
        if self.remaking.load(Ordering::Acquire) {
            return 1;
        }
        self.places.present.load(Ordering::Acquire) | 1 << 63
    }

    /// End in the log of the last record that has a unit anywhere; -1 without any. Also -1 when only batch topics have
    /// queues: then `consumequeue/` was lost, and what its queues held is still to be found in the log.
    pub fn max_phys(&self) -> i64 {
        let (mut simple, mut batch) = (-1, -1);
        for queue in self.topics.read().values().flat_map(|queues| queues.0.values()) {
            let max = if queue.is_batch() { &mut batch } else { &mut simple };
            *max = queue.max_phys().max(*max);
        }
        if simple == -1 { -1 } else { simple.max(batch) }
    }

    /// Does something with each queue, of which none is made or forgotten meanwhile: in recovery.
    fn each(&self, work: impl FnMut(&Arc<Queue>) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.topics.read().values().flat_map(|queues| queues.0.values()).try_for_each(work)
    }

    /// End in the log of the last record that has a unit, of each queue; of several with the same mark the least.
    pub(crate) fn ends(&self) -> ByMark<i64> {
        let mut ends = ByMark::default();
        for queue in self.topics.read().values().flat_map(|queues| queues.0.values()) {
            let max = queue.max_phys();
            ends.entry(mark(queue.topic().as_bytes(), queue.id()))
                .and_modify(|end: &mut i64| *end = max.min(*end))
                .or_insert(max);
        }
        ends
    }

    /// Cuts every queue at the new end of the log. In recovery, before there are readers and writers.
    ///
    /// # Errors
    /// The disk.
    pub fn truncate_dirty(&self, phys: u64) -> Result<(), StoreError> {
        self.each(|queue| queue.truncate_dirty(clamp(phys)))
    }

    /// Moves the lowest readable offsets to what a log that starts at `min_phys` still has.
    ///
    /// # Errors
    /// The disk.
    pub fn correct_min(&self, min_phys: u64) -> Result<(), StoreError> {
        self.each(|queue| queue.correct_min(clamp(min_phys)))
    }

    /// Deletes files that point before `min_phys` only, and corrects the lowest offsets. Returns how many files went.
    ///
    /// # Errors
    /// The disk.
    pub fn delete_expired(&self, min_phys: u64) -> Result<usize, StoreError> {
        self.all().iter().try_fold(0, |gone, queue| Ok(gone + queue.delete_expired(clamp(min_phys))?))
    }

    /// Forgets the queues that `doomed` says and removes their files. Returns how many went.
    ///
    /// # Errors
    /// A file could not be removed; the queues are forgotten nevertheless.
    pub fn delete_queues(&self, doomed: impl Fn(&Queue) -> bool) -> Result<usize, StoreError> {
        let mut gone = 0;
        let mut result = Ok(());
        for queue in self.all().into_iter().filter(|queue| doomed(queue)) {
            match self.delete_queue(&queue) {
                Ok(deleted) => gone += usize::from(deleted),
                Err(error) => result = Err(error),
            }
        }
        result.map(|()| gone)
    }

    /// Removes the directories of a topic when nothing is left in them.
    fn remove_dirs(&self, topic: &str) {
        for dir in [&self.places.simple_dir, &self.places.batch_dir, &self.places.ext_dir] {
            let _ = fs::remove_dir(dir.join(topic));
        }
    }

    /// Removes every queue: the log is empty.
    ///
    /// # Errors
    /// A file could not be removed.
    pub fn delete_all(&self) -> Result<(), StoreError> {
        self.topics().iter().try_for_each(|topic| self.delete_topic(topic))
    }

    /// After an unclean stop, before anything is added: removes what stands behind the ends of the queues.
    ///
    /// # Errors
    /// The disk.
    pub fn clear_behind(&self) -> Result<(), StoreError> {
        self.each(|queue| queue.clear_behind())
    }

    /// After a kill: units of records at or behind `phys` may be in memory only, and the next flush takes them as well.
    ///
    /// # Errors
    /// The disk.
    pub fn distrust(&self, phys: u64) -> Result<(), StoreError> {
        self.each(|queue| {
            if queue.distrust(clamp(phys))? {
                self.note_dirty(queue);
            }
            Ok(())
        })
    }

    /// After the log was dispatched again: offsets that were given, to records that the log has no more, are not given again.
    ///
    /// # Errors
    /// The disk.
    pub fn keep_floors(&self) -> Result<(), StoreError> {
        self.each(|queue| queue.keep_floor())
    }

    /// Notes that a queue has units to flush.
    pub(crate) fn note_dirty(&self, queue: &Arc<Queue>) {
        if queue.mark_dirty() {
            self.dirty.lock().push(Arc::clone(queue));
        }
        if queue.mark_ripe(self.least.load(Ordering::Relaxed)) {
            self.ripe.lock().push(Arc::clone(queue));
        }
    }

    /// How many queues have units to flush.
    pub(crate) fn unflushed(&self) -> usize {
        self.dirty.lock().len()
    }

    /// Puts the units of queues on the device that have at least `least` bytes waiting; 0 for all. Queues are noted to have
    /// many as they get them: of very many with a little each none is looked at.
    ///
    /// # Errors
    /// The device failed: its queue is tried again next time.
    pub fn flush(&self, least: usize) -> Result<(), StoreError> {
        let (all, list) = (least == 0, if least == 0 { &self.dirty } else { &self.ripe });
        if !all && self.least.swap(least, Ordering::Relaxed) != least {
            // Some may have as many already.
            self.dirty.lock().iter().filter(|queue| queue.mark_ripe(least)).for_each(|queue| {
                self.ripe.lock().push(Arc::clone(queue));
            });
        }
        let waiting = std::mem::take(&mut *list.lock());
        if all && waiting.len() >= MANY && sync::works() {
            return self.flush_together(waiting);
        }
        let mut result = Ok(());
        for queue in waiting.into_iter().filter(|queue| !queue.is_deleted()) {
            queue.unmark(all);
            match queue.flush() {
                Ok(()) => {}
                // Deleted meanwhile: its files are gone.
                Err(_) if queue.is_deleted() => {}
                Err(error) => {
                    self.note_dirty(&queue);
                    result = Err(error);
                }
            }
        }
        result
    }

    /// One sync of the file system instead of several for each queue.
    fn flush_together(&self, dirty: Vec<Arc<Queue>>) -> Result<(), StoreError> {
        let mut begun = Vec::with_capacity(dirty.len());
        let mut result = Ok(());
        for queue in dirty.into_iter().filter(|queue| !queue.is_deleted()) {
            match queue.begin_sync() {
                Ok(what) => begun.push((queue, what)),
                Err(_) if queue.is_deleted() => {}
                Err(error) => {
                    self.note_dirty(&queue);
                    result = Err(error);
                }
            }
        }
        let synced = sync::all(&[&self.places.simple_dir, &self.places.batch_dir]);
        for (queue, what) in begun {
            queue.end_sync(what, synced.is_ok());
            if synced.is_err() {
                self.note_dirty(&queue);
            }
        }
        result.and(synced)
    }

    /// Unmaps queue files that were not used since they were last looked at: those of a number of queues, the next ones with
    /// the next call. Returns how many of them stay mapped.
    pub fn unmap_idle(&self) -> usize {
        let mut passed = self.looked_at.lock();
        let some: Vec<_> = {
            let topics = self.topics.read();
            topics.values().flat_map(|queues| queues.0.values()).skip(*passed).take(LOOKED_AT).cloned().collect()
        };
        *passed = if some.len() < LOOKED_AT { 0 } else { *passed + LOOKED_AT };
        some.iter().map(|queue| queue.unmap_idle()).sum()
    }
}

impl std::fmt::Debug for QueueTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueTable").field("topics", &self.topics.read().len()).finish_non_exhaustive()
    }
}

/// So many queues are looked at for mappings that nobody uses. To look at a queue takes as long as a message.
const LOOKED_AT: usize = 32_768;
/// A flush of more queues than this is one sync of the file system.
const MANY: usize = 256;

/// Batch topics by the broker's own list, `config/topics.json`. When queue files are lost nothing else tells that an
/// ordinary message belongs to one.
fn configured_batch_topics(root: &Path) -> Vec<String> {
    let Ok(Loaded::Text { text, .. }) = JsonFile::new(root.join("config/topics.json")).load() else {
        return Vec::new();
    };
    if !text.contains("BatchCQ") {
        // With very many topics it takes long to read.
        return Vec::new();
    }
    let Ok(config) = serde_json::from_str::<serde_json::Value>(&text) else { return Vec::new() };
    let topics = config.get("topicConfigTable").and_then(|topics| topics.as_object());
    let is_batch = |topic: &serde_json::Value| {
        topic.pointer("/attributes/queue.type").and_then(|kind| kind.as_str()) == Some("BatchCQ")
    };
    topics.into_iter().flatten().filter(|(_, topic)| is_batch(topic)).map(|(name, _)| name.clone()).collect()
}

fn clamp(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// Lists `DIR/TOPIC`. What is not of this form is passed over, as Java does.
fn find(dir: &Path, batch: bool) -> Result<Vec<Found>, StoreError> {
    let mut found = Vec::new();
    for name in directories(dir)? {
        found.push(Found { dir: dir.join(&name), topic: name.into(), batch });
    }
    Ok(found)
}

/// The names of the directories in a directory; none when it is not there.
fn directories(dir: &Path) -> Result<Vec<String>, StoreError> {
    Ok(opened(dir)?.map(|(_, names)| names).unwrap_or_default())
}

/// A directory and the names of the directories in it; `None` when it is not there.
fn opened(dir: &Path) -> Result<Option<(OwnedFd, Vec<String>)>, StoreError> {
    let opened = listing::open_dir(dir).and_then(|opened| listing::directories(&opened).map(|names| (opened, names)));
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some).map_err(|source| StoreError::Io { path: dir.to_owned(), source }),
    }
}
