//! Consume queues: for each topic and queue id the list of its records, in files of fixed-length units.
//!
//! Derived from the log by [`crate::dispatch`], live and in recovery; what a queue holds can be made again from the log.
//! Layout of a unit: `unit.rs`. Files: `files.rs`. Recovery and truncation: `recover.rs`. The extension: `ext.rs`.

mod by_time;
mod entries;
mod ext;
pub mod files;
mod gathered;
mod listing;
mod mapped;
mod mark;
mod recover;
mod sync;
mod table;
pub mod unit;
mod unit_file;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

pub use by_time::Bound;
pub use entries::Entries;
pub use ext::ExtUnit;
pub(crate) use ext::is_address;
#[cfg(feature = "failpoints")]
pub use mapped::limit_mapped_files;
pub(crate) use mark::ByMark;
pub use mark::mark;
pub use table::{QueueTable, TableOptions};

use self::ext::QueueExt;
use self::files::{LastFile, Shape, UnitFiles};
use self::unit::{BATCH_UNIT_LEN, Entry, UNIT_LEN, Unit};
use crate::compaction::CompactionLog;
use crate::error::StoreError;
use crate::index::KeyHash;
use crate::segment::{LINE, ask_for};

/// Units that a gap in the offsets is filled with at most; a larger one can only come from a damaged record.
const GAP_LIMIT: i64 = 1 << 24;

/// Where the files of all queues are, and how long they are.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) simple_dir: PathBuf,
    pub(crate) simple: Shape,
    pub(crate) batch_dir: PathBuf,
    pub(crate) batch: Shape,
    pub(crate) ext_dir: PathBuf,
    /// It was there when the queues were loaded.
    pub(crate) ext_found: bool,
    pub(crate) ext: Shape,
    /// Entries get units in the extension.
    pub(crate) ext_enabled: bool,
    /// Stands for the set of files: the sum of their [`fingerprint`]s.
    pub(crate) present: AtomicU64,
    /// Files were found to be missing; the whole log is being dispatched again.
    pub(crate) lost: AtomicBool,
}

impl Places {
    /// Where the topics of a kind have their queues, and how the files of those are laid out.
    fn of(&self, batch: bool) -> (&Path, Shape) {
        match batch {
            false => (&self.simple_dir, self.simple),
            true => (&self.batch_dir, self.batch),
        }
    }
}

/// A hash of a file's name.
fn fingerprint(topic: &str, id: i32, base: i64) -> u64 {
    let name = topic.bytes().chain([0]).chain(id.to_le_bytes()).chain(base.to_le_bytes());
    // FNV-1a, with murmur's last steps, because it will be summed up.
    let hash =
        name.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

/// One topic's queue: its consume queue, and the next offset that the appender gives.
///
/// Looked up once and kept: a handle stays valid until the topic is deleted ([`Queue::is_deleted`]). No file exists
/// before the first entry.
///
/// Threads: entries are added under the queue's lock; readers take none. They see `max_offset` (Acquire) and never look
/// at units behind it.
#[derive(Debug)]
#[repr(C)]
pub struct Queue {
    // What a message touches, close together: of very many queues none is in a processor's cache when its turn comes.
    next: AtomicI64,
    /// Queue offset behind the last readable one. The same number as `end`, except in batch topics.
    max: AtomicI64,
    /// Unit index behind the last that is readable.
    end: AtomicI64,
    /// Units that are on the device. Changed with the writer's lock held.
    flushed: AtomicI64,
    waiters: AtomicUsize,
    /// Where in memory the last file is described, and where the next unit goes; neither need be true any more.
    ahead: [AtomicUsize; 2],
    /// Where the dispatch keeps its handle of this queue; 0 when it has none, or not there.
    place: AtomicU32,
    topic: Arc<str>,
    id: i32,
    /// Hash of `topic#`, with which the index keys of this topic begin.
    key_prefix: KeyHash,
    /// The topic was declared to be a batch topic.
    batch: bool,
    deleted: AtomicBool,
    dirty: AtomicBool,
    /// Among the queues that have enough to flush.
    ripe: AtomicBool,
    /// Among the dispatcher's queues to report.
    listed: AtomicBool,
    places: Arc<Places>,
    /// Of a compaction topic: what is read instead of this queue.
    compacted: OnceLock<Arc<CompactionLog>>,
    /// Set when the first entry shows whether this is the queue of a batch topic, or by what was found on disk.
    files: OnceLock<UnitFiles>,
    writer: Mutex<Writer>,
    /// Unit index of the first that is readable.
    first: AtomicI64,
    /// Its queue offset.
    min: AtomicI64,
    /// Offsets below are not readable, because the topic keeps its messages for a shorter time than the log.
    hidden: AtomicI64,
    /// The extension, when there is one.
    ext: OnceLock<Arc<QueueExt>>,
    /// What this queue has added to [`Places::present`].
    counted: AtomicU64,
}

/// What only the adding side knows.
#[derive(Debug)]
#[repr(C)]
struct Writer {
    /// End in the log of the last record that has a unit; -1 without one.
    max_phys: i64,
    /// The file that is being written.
    last: Option<LastFile>,
    /// The first unit, as it was found in its file.
    first: Option<Entry>,
    /// Something was found behind the end that is no unit of the queue.
    stale: bool,
    /// Where the queue ended before files were found to be missing: offsets below were given.
    floor: i64,
}

/// What adding a unit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// A unit was written.
    Written,
    /// The record has its unit already, or an older record has its offset.
    Known,
}

impl Queue {
    pub(crate) fn new(topic: Arc<str>, id: i32, places: Arc<Places>, batch: bool) -> Queue {
        let key_prefix = KeyHash::new().push(topic.as_bytes()).push(b"#");
        Queue {
            topic,
            id,
            places,
            batch,
            files: OnceLock::new(),
            ext: OnceLock::new(),
            first: AtomicI64::new(0),
            end: AtomicI64::new(0),
            min: AtomicI64::new(0),
            max: AtomicI64::new(0),
            next: AtomicI64::new(0),
            waiters: AtomicUsize::new(0),
            ahead: Default::default(),
            place: AtomicU32::new(0),
            deleted: AtomicBool::new(false),
            dirty: AtomicBool::new(false),
            ripe: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            flushed: AtomicI64::new(0),
            compacted: OnceLock::new(),
            hidden: AtomicI64::new(0),
            key_prefix,
            counted: AtomicU64::new(0),
            writer: Mutex::new(Writer { max_phys: -1, last: None, first: None, stale: false, floor: 0 }),
        }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The queue id.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Asks for the memory that the dispatch of a message will touch. Of very many queues it is in no cache, and by the time of the
    /// dispatch it is.
    #[inline]
    pub fn ask_for(&self) {
        let here = std::ptr::from_ref(self) as usize;
        (1..4).for_each(|line| ask_for(here + line * LINE));
        let [file, place] = self.ahead.each_ref().map(|address| address.load(Ordering::Relaxed));
        [file, file + LINE, place, self.topic.as_ptr() as usize].into_iter().for_each(ask_for);
    }

    /// Where the dispatch keeps its handle of this queue, counted from 1; 0 when that is not known.
    pub(crate) fn place(&self) -> &AtomicU32 {
        &self.place
    }

    /// Lowest readable queue offset.
    pub fn min_offset(&self) -> i64 {
        self.lowest().max(self.hidden.load(Ordering::Relaxed))
    }

    /// The lowest offset of a message that the log has, readable or not.
    pub(crate) fn lowest(&self) -> i64 {
        self.min.load(Ordering::Acquire)
    }

    /// Highest readable queue offset + 1: what the dispatch has made readable.
    pub fn max_offset(&self) -> i64 {
        self.max.load(Ordering::Acquire)
    }

    /// The next offset that the appender gives. Only the holder of the append lock changes it, and recovery.
    pub fn next_offset(&self) -> &AtomicI64 {
        &self.next
    }

    /// Pulls that are parked on this queue; the dispatcher reports arrivals only while it is above 0.
    pub fn waiters(&self) -> &AtomicUsize {
        &self.waiters
    }

    /// Makes the messages below an offset unreadable, whatever the log still has.
    pub(crate) fn hide_before(&self, offset: i64) {
        self.hidden.store(offset.min(self.max_offset()), Ordering::Relaxed);
    }

    /// The compacted log, when this is a compaction topic's queue.
    #[inline]
    pub(crate) fn compaction(&self) -> Option<&Arc<CompactionLog>> {
        self.compacted.get().filter(|log| !log.is_deleted())
    }

    /// Whether this is a compaction topic's queue: messages may be read that the log has no more.
    pub fn is_compacted(&self) -> bool {
        self.compaction().is_some()
    }

    /// Makes this a compaction topic's queue; false when it is one.
    pub(crate) fn compacted_by(&self, log: Arc<CompactionLog>) -> bool {
        self.compacted.set(log).is_ok()
    }

    /// Whether the topic was deleted after this handle was looked up.
    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Whether a record at `phys` with queue offset 0 is the first of a queue of the same name that was made anew.
    #[cold]
    pub(crate) fn is_before(&self, phys: u64) -> bool {
        let end = self.max_phys();
        // With files missing a queue may have lost its units: the offsets that they had are not forgotten then.
        let known = end >= 0 || !self.places.lost.load(Ordering::Relaxed);
        known && self.max_offset() > 0 && end <= i64::try_from(phys).unwrap_or(i64::MAX)
    }

    /// Whether there was never an entry, nor an append.
    pub(super) fn is_unused(&self) -> bool {
        self.next.load(Ordering::Relaxed) == 0 && self.files.get().is_none() && self.waiters.load(Ordering::SeqCst) == 0
    }

    /// Whether this is the queue of a batch topic: each unit may stand for a record with several messages.
    pub fn is_batch(&self) -> bool {
        self.files.get().map_or(self.batch, |files| files.shape().unit_len != UNIT_LEN)
    }

    /// Whether a record makes or finds this the queue of a batch topic; `inner_batch` is what its sys flag says.
    pub(crate) fn takes_batches(&self, inner_batch: bool) -> bool {
        if self.files.get().is_some() { self.is_batch() } else { self.batch || inner_batch }
    }

    /// Hash of `topic#`, the part that all index keys of the topic share.
    pub(crate) fn key_prefix(&self) -> KeyHash {
        self.key_prefix
    }

    /// Length of a unit in bytes.
    pub fn unit_len(&self) -> usize {
        self.files.get().map_or(if self.batch { BATCH_UNIT_LEN } else { UNIT_LEN }, |files| files.shape().unit_len)
    }

    /// First offset of the file behind the one that holds `offset`.
    pub(crate) fn roll(&self, offset: i64) -> i64 {
        let per_file = self.files.get().map_or(self.places.simple, UnitFiles::shape).per_file;
        offset.saturating_add(per_file - offset.rem_euclid(per_file))
    }

    /// End in the log of the last record that has a unit here; -1 without one.
    pub fn max_phys(&self) -> i64 {
        self.writer.lock().max_phys
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.get().map_or(0, UnitFiles::bytes) + self.ext.get().map_or(0, |ext| ext.bytes())
    }

    fn ext_dir(&self) -> PathBuf {
        self.places.ext_dir.join(&*self.topic).join(self.id.to_string())
    }

    fn files(&self, batch: bool) -> &UnitFiles {
        self.files.get_or_init(|| {
            let (dir, shape) = self.places.of(batch);
            UnitFiles::empty(dir.join(&*self.topic).join(self.id.to_string()), shape)
        })
    }

    /// Counts the files anew for [`Places::present`]. With the writer's lock held.
    #[cold]
    fn recount(&self) {
        let files = self.files.get().filter(|_| !self.is_deleted()).map(UnitFiles::snapshot).unwrap_or_default();
        let sum = |sum: u64, base| sum.wrapping_add(fingerprint(&self.topic, self.id, base));
        let now = files.iter().map(|file| file.base()).fold(0, sum);
        let before = self.counted.swap(now, Ordering::Relaxed);
        self.places.present.fetch_add(now.wrapping_sub(before), Ordering::Release);
    }

    /// Adds the unit of a record. Records come in the order of the log.
    ///
    /// A record that ends before the last one that has a unit is known. An offset that is taken is left alone. Offsets
    /// that nobody has written (the log lost them, or begins behind them) are filled, so that a unit always stands at
    /// the queue offset that its record says.
    ///
    /// With `ext` the unit points to the extension, which holds the tags code then. (Not in a batch topic.)
    ///
    /// # Errors
    /// The disk; the unit is not there, and the same record may be put again.
    pub(crate) fn append(&self, entry: &Entry, batch: bool, ext: Option<&ExtUnit>) -> Result<Put, StoreError> {
        let mut writer = self.writer.lock();
        if self.places.lost.load(Ordering::Relaxed) {
            self.begin_anew_before(entry, &mut writer)?;
        }
        if entry.unit.end() <= writer.max_phys || self.is_deleted() {
            return Ok(Put::Known);
        }
        let files = self.files(batch);
        if (files.shape().unit_len != UNIT_LEN) != batch {
            tracing::error!(
                topic = &*self.topic,
                queue = self.id,
                batch,
                "a record of the other kind of queue: passed over"
            );
            return Ok(Put::Known);
        }
        if batch {
            self.append_batch(&mut writer, files, entry)
        } else {
            self.append_simple(&mut writer, files, entry, ext)
        }
    }

    fn append_simple(
        &self,
        writer: &mut Writer,
        files: &UnitFiles,
        entry: &Entry,
        ext: Option<&ExtUnit>,
    ) -> Result<Put, StoreError> {
        let max = self.max.load(Ordering::Relaxed);
        let mut at = entry.offset;
        if at == max && at > 0 {
            // The usual case.
        } else if at != 0 && files.is_empty() {
            self.begin_at(files, at)?;
        } else if at < max {
            tracing::debug!(topic = &*self.topic, queue = self.id, offset = at, max, "queue offset is taken");
            return Ok(Put::Known);
        } else if at > max {
            tracing::warn!(
                topic = &*self.topic,
                queue = self.id,
                offset = at,
                expected = max,
                "queue offsets are missing"
            );
            if at - max <= GAP_LIMIT {
                fill(files, max, at)?;
            } else {
                at = max;
            }
        }
        let tags_code = ext.and_then(|ext| self.extend(ext)).unwrap_or(entry.unit.tags_code);
        let unit = Unit { tags_code, ..entry.unit }.encode();
        match writer.last.as_ref().and_then(|last| last.write(at, &unit)) {
            Some(next) => self.ahead[1].store(next?, Ordering::Relaxed),
            None => {
                let count = files.count();
                files.write(at, &unit)?;
                writer.last = files.last_for(at);
                self.ahead[0].store(writer.last.as_ref().map_or(0, LastFile::address), Ordering::Relaxed);
                if files.count() != count {
                    self.recount();
                }
            }
        }
        writer.max_phys = entry.unit.end();
        self.publish(at + 1, at + 1);
        Ok(Put::Written)
    }

    /// Adds a unit to the extension and returns its address. Without one the entry keeps its own tags code, as in Java: a
    /// message without filter bits is better than one that nobody can read.
    #[cold]
    fn extend(&self, unit: &ExtUnit) -> Option<i64> {
        let ext = self.ext.get_or_init(|| Arc::new(QueueExt::empty(self.ext_dir(), self.places.ext)));
        match ext.put(unit) {
            Ok(address) => address,
            Err(error) => {
                tracing::warn!(topic = &*self.topic, queue = self.id, %error, "the queue's extension cannot be written");
                None
            }
        }
    }

    /// The first entry of a queue that does not start at 0: the file is filled up to it.
    fn begin_at(&self, files: &UnitFiles, offset: i64) -> Result<(), StoreError> {
        fill(files, offset - offset % files.shape().per_file, offset)?;
        self.first.store(offset, Ordering::Relaxed);
        self.min.store(offset, Ordering::Release);
        Ok(())
    }

    fn append_batch(&self, writer: &mut Writer, files: &UnitFiles, entry: &Entry) -> Result<Put, StoreError> {
        let end = self.end.load(Ordering::Relaxed);
        if end > self.first.load(Ordering::Relaxed) && entry.offset < self.max.load(Ordering::Relaxed) {
            return Ok(Put::Known);
        }
        let count = files.snapshot().len();
        files.write(end, &entry.encode_batch())?;
        if files.snapshot().len() != count {
            self.recount();
        }
        if end == 0 {
            self.min.store(entry.offset, Ordering::Release);
        }
        writer.max_phys = entry.unit.end();
        self.publish(end + 1, entry.next_offset());
        Ok(Put::Written)
    }

    /// Makes everything below readable.
    fn publish(&self, end: i64, max: i64) {
        self.end.store(end, Ordering::Release);
        self.max.store(max, Ordering::Release);
        // On a slave and in recovery nobody else moves it.
        if self.next.load(Ordering::Relaxed) < max {
            self.next.fetch_max(max, Ordering::Relaxed);
        }
    }

    /// Marks the queue as having unflushed units; true when it had none.
    pub(crate) fn mark_dirty(&self) -> bool {
        !self.dirty.load(Ordering::Relaxed) && !self.dirty.swap(true, Ordering::AcqRel)
    }

    /// Marks the queue as one that has at least `least` bytes to flush; true when it has, and was not marked.
    pub(crate) fn mark_ripe(&self, least: usize) -> bool {
        let waiting = self.end.load(Ordering::Relaxed) - self.flushed.load(Ordering::Relaxed);
        waiting.max(0) as usize * UNIT_LEN >= least && !self.ripe.swap(true, Ordering::AcqRel)
    }

    /// Takes one of these marks away, before the flush: a unit that is added after it lists the queue again.
    pub(super) fn unmark(&self, dirty: bool) {
        let mark = if dirty { &self.dirty } else { &self.ripe };
        mark.store(false, Ordering::Release);
    }

    /// Marks the queue as being among those to report; true when it was not.
    pub(crate) fn list(&self) -> bool {
        !self.listed.load(Ordering::Relaxed) && !self.listed.swap(true, Ordering::AcqRel)
    }

    /// Takes that mark away, before the report.
    pub(crate) fn unlist(&self) {
        self.listed.store(false, Ordering::Release);
    }

    /// Puts the units on the device.
    ///
    /// # Errors
    /// The device failed.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        let Some(files) = self.files.get() else { return Ok(()) };
        let from = self.flushed.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Acquire);
        // First what the units point to.
        self.ext.get().map_or(Ok(()), |ext| ext.flush())?;
        files.flush(from.min(end), end)?;
        self.note_flushed(end);
        Ok(())
    }

    fn note_flushed(&self, end: i64) {
        let _writer = self.writer.lock();
        self.flushed.fetch_max(end, Ordering::AcqRel);
    }

    /// Writes what is gathered in memory into the files, for a sync of the whole file system. Returns up to where that puts
    /// units on the device, and whether names of files are new.
    ///
    /// # Errors
    /// The disk.
    pub(crate) fn begin_sync(&self) -> Result<(i64, bool), StoreError> {
        self.dirty.store(false, Ordering::Release);
        let end = self.end.load(Ordering::Acquire);
        self.ext.get().map_or(Ok(()), |ext| ext.flush())?;
        Ok((end, self.files.get().map_or(Ok(false), UnitFiles::spill)?))
    }

    /// The sync has succeeded, or not.
    pub(crate) fn end_sync(&self, (end, fresh): (i64, bool), done: bool) {
        match (done, self.files.get()) {
            (true, _) => self.note_flushed(end),
            (false, Some(files)) if fresh => files.distrust(),
            _ => {}
        }
    }

    /// Removes the files; entries that come later are passed over.
    pub(crate) fn delete(&self) -> Result<(), StoreError> {
        let mut writer = self.writer.lock();
        self.deleted.store(true, Ordering::Release);
        self.recount();
        writer.max_phys = -1;
        writer.last = None;
        let ext = self.ext.get().map_or(Ok(()), |ext| ext.delete_all());
        self.files.get().map_or(Ok(()), UnitFiles::delete_all).and(ext)
    }

    /// Unmaps files that were not used since the last call; returns how many stay mapped.
    pub(crate) fn unmap_idle(&self) -> usize {
        self.writer.lock().last = None;
        self.files.get().map_or(0, UnitFiles::unmap_idle) + self.ext.get().map_or(0, |ext| ext.unmap_idle())
    }
}

/// Fills a range of indexes with units that stand for nothing.
fn fill(files: &UnitFiles, from: i64, to: i64) -> Result<(), StoreError> {
    (from..to).try_for_each(|index| files.write(index, &Unit::FILLER.encode()))
}

#[cfg(test)]
mod tests;
