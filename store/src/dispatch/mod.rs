//! From the log to what is derived from it: consume queues, index, and the notice that a queue has something new.
//!
//! One path, `State::record`, for every record, whether it was just appended or is met again in recovery. Each sink
//! knows what it has already and passes over it, so a record may come twice, but records come in the order of the log.
//!
//! Threads: whoever appended calls [`Dispatcher::drain`]. One at a time works; the others leave a note and go, and the
//! worker looks at the note before it leaves. Nobody waits.
//! Crash: nothing here is on disk; recovery feeds the sinks again from where they may have ended.

mod anew;
mod delay;
mod handles;
mod index_feed;
mod light;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence};

use parking_lot::Mutex;

pub use delay::DelayLevels;

use self::handles::{Hints, Kept};
use self::index_feed::IndexFeed;
use crate::commitlog::CommitLog;
use crate::error::StoreError;
use crate::failpoint::{self, Point};
use crate::index::{Hashes, Index, IndexWriter, Keys, tags_code};
use crate::queue::unit::{Entry as QueueEntry, Unit};
use crate::queue::{ExtUnit, Put, Queue, QueueTable};
use crate::record::{Entry, MIN_RECORD, RecordError, RecordView, sys_flag};
use crate::store::{Arrival, FilterBits};

/// Topic of delayed messages; its tags codes are delivery times.
const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";

/// Called after a queue got something new, see [`crate::StoreOptions::arrived`].
pub type Arrived = Arc<dyn Fn(&Arrival<'_>) + Send + Sync>;

/// Feeds the sinks from the log.
pub struct Dispatcher {
    state: Mutex<State>,
    /// Somebody appended since the worker last looked.
    asked: AtomicBool,
    position: AtomicU64,
    /// The index lacks records that are dispatched.
    index_behind: AtomicBool,
    last_timestamp: AtomicI64,
    last_phys: AtomicI64,
    begun_anew: BegunAnew,
    hints: Hints,
}

/// Topics that have a queue which was made anew.
type BegunAnew = Arc<Mutex<BTreeSet<String>>>;

/// What one call of [`Dispatcher::drain`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Everything up to the given end is readable.
    Done,
    /// The budget is used up; call again.
    More,
    /// Another thread is at it and will go on to the end.
    Elsewhere,
}

/// What the worker has.
struct State {
    queues: Arc<QueueTable>,
    index: IndexFeed,
    arrived: Option<Arrived>,
    levels: DelayLevels,
    filter_bits: Option<FilterBits>,
    /// Records have entries in the light queues that they name.
    light: bool,
    /// The log is a copy, see [`anew`].
    copied: bool,
    begun_anew: BegunAnew,
    kept: Kept,
    /// Queues that got something, each once.
    touched: Vec<Arc<Queue>>,
}

impl Dispatcher {
    /// A dispatcher at the start of the log. Without `index` no keys are kept (`messageIndexEnable=false`).
    pub fn new(
        queues: Arc<QueueTable>,
        index: Option<Arc<Index>>,
        arrived: Option<Arrived>,
        levels: DelayLevels,
    ) -> Dispatcher {
        let begun_anew = BegunAnew::default();
        Dispatcher {
            state: Mutex::new(State {
                queues,
                index: IndexFeed::new(index.map(IndexWriter::new)),
                arrived,
                levels,
                filter_bits: None,
                light: false,
                copied: false,
                begun_anew: Arc::clone(&begun_anew),
                kept: Kept::new(),
                touched: Vec::new(),
            }),
            asked: AtomicBool::new(false),
            index_behind: AtomicBool::new(false),
            position: AtomicU64::new(0),
            last_timestamp: AtomicI64::new(0),
            last_phys: AtomicI64::new(0),
            begun_anew,
            hints: Hints::new(),
        }
    }

    /// Of a log that is a copy: whoever gives the offsets of queues is elsewhere.
    pub fn with_copied_log(mut self, copied: bool) -> Dispatcher {
        self.state.get_mut().copied = copied;
        self
    }

    /// With filter bits for the consume queue extension, see [`crate::StoreOptions::filter_bits`].
    pub fn with_filter_bits(mut self, filter_bits: Option<FilterBits>) -> Dispatcher {
        self.state.get_mut().filter_bits = filter_bits;
        self
    }

    /// With entries in light queues, see [`crate::lmq`].
    pub fn with_light_queues(mut self, light: bool) -> Dispatcher {
        self.state.get_mut().light = light;
        self
    }

    /// Everything in the log before this offset is readable.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// Whether the index lacks records that are dispatched, because it could not be written.
    pub fn index_behind(&self) -> bool {
        self.index_behind.load(Ordering::Relaxed)
    }

    /// Sets the position: recovery has fed everything before it.
    pub fn reset(&self, position: u64) {
        self.position.store(position, Ordering::Release);
    }

    /// Store timestamp (ms) and physical offset of the last record that went into a consume queue, for the checkpoint;
    /// zeros before there was one.
    pub fn last(&self) -> (i64, i64) {
        (self.last_timestamp.load(Ordering::Acquire), self.last_phys.load(Ordering::Acquire))
    }

    /// Feeds one record, in recovery. `phys` is where it stands.
    ///
    /// # Errors
    /// The disk.
    pub fn record(&self, phys: u64, record: &RecordView<'_>) -> Result<(), StoreError> {
        let written = self.state.lock().record(phys, record, true, None)?;
        self.note(written, phys, record);
        Ok(())
    }

    /// Feeds one record to the index alone, in recovery: the queues have it, or have forgotten it with its topic.
    pub fn index_record(&self, phys: u64, record: &RecordView<'_>) {
        self.state.lock().index.put(phys, record, &Hashes::of_record(record));
    }

    /// Says which queue a record is for that was just appended: the dispatch need not look for it then.
    #[inline]
    pub(crate) fn hint(&self, phys: u64, queue: &Queue) {
        self.hints.put(phys, queue);
    }

    /// Does something while nothing is fed. The caller must [`drain`](Dispatcher::drain) afterwards: whoever wanted to
    /// meanwhile has left.
    pub(crate) fn paused<R>(&self, work: impl FnOnce() -> R) -> R {
        let _state = self.state.lock();
        work()
    }

    /// Feeds what lies between the position and `end()`, the offset up to which records may be read now, at most
    /// `budget` bytes of it (but always one record). Reports arrivals, once a queue, before it returns.
    ///
    /// # Errors
    /// The disk: the record stays to be fed again.
    pub fn drain(&self, log: &CommitLog, end: impl Fn() -> u64, budget: u64) -> Result<Drained, StoreError> {
        self.asked.store(true, Ordering::SeqCst);
        let stop = self.position().saturating_add(budget.max(1));
        loop {
            let Some(mut state) = self.state.try_lock() else { return Ok(Drained::Elsewhere) };
            let mut result = Ok(());
            let mut used_up = state.index.is_behind() && state.index.catch_up(log, self.position());
            while result.is_ok() && !used_up && self.asked.swap(false, Ordering::SeqCst) {
                let end = end();
                result = self.feed(&mut state, log, end.min(stop), end);
                used_up = self.position() >= stop && self.position() < end;
            }
            self.index_behind.store(state.index.is_behind(), Ordering::Relaxed);
            let arrived = state.arrived.clone();
            let mut touched = std::mem::take(&mut state.touched);
            drop(state);
            if let Some(arrived) = arrived {
                report(&*arrived, &touched);
            }
            touched.clear();
            // The same memory next time, unless another thread is at work already.
            if let Some(mut state) = self.state.try_lock()
                && state.touched.capacity() == 0
            {
                state.touched = touched;
            }
            result?;
            if used_up {
                return Ok(Drained::More);
            }
            // Asked between the last look and the unlocking: nobody else would do it.
            if !self.asked.load(Ordering::SeqCst) {
                return Ok(Drained::Done);
            }
        }
    }

    /// Feeds records that begin before `stop` and end at or before `end`.
    fn feed(&self, state: &mut State, log: &CommitLog, stop: u64, end: u64) -> Result<(), StoreError> {
        self.hints.list_is(&state.kept);
        let mut at = self.position();
        while at < stop {
            let Some(segment) = log.segments().find(at) else {
                // Deleted before it was dispatched, or a file is missing: the next one that there is.
                let list = log.segments().snapshot();
                let Some(base) = list.iter().map(|segment| segment.base()).find(|base| *base > at) else { break };
                tracing::error!(from = at, to = base, "a part of the log is gone before it was dispatched");
                at = base;
                self.position.store(at, Ordering::Release);
                continue;
            };
            let bytes = segment.bytes();
            let until = ((end - segment.base()) as usize).min(bytes.len());
            while at < stop && at < segment.base() + until as u64 {
                let rest = &bytes[(at - segment.base()) as usize..until];
                at = match Entry::read(rest) {
                    Ok(Entry::Record(record)) => {
                        let written = state.record(at, &record, state.copied, self.hints.get(at))?;
                        self.note(written, at, &record);
                        at + record.size() as u64
                    }
                    Ok(Entry::Blank(_)) => segment.end(),
                    // The flushed end need not be the end of a record.
                    Err(RecordError::Truncated) if until < bytes.len() => return Ok(()),
                    // No room for a blank record's head at the end of a file.
                    Err(RecordError::Truncated) if until == segment.len() && rest.len() < 8 => segment.end(),
                    // Its length is plausible, its parts are not.
                    Err(RecordError::Size { total })
                        if total as usize >= MIN_RECORD && total as usize <= rest.len() =>
                    {
                        tracing::error!(at, total, "a record whose parts do not add up: passed over");
                        at + u64::from(total)
                    }
                    Err(error) => {
                        tracing::error!(at, %error, "no record stands here: the rest of what the file holds is passed over");
                        segment.base() + until as u64
                    }
                };
                self.position.store(at, Ordering::Release);
            }
        }
        Ok(())
    }

    fn note(&self, written: bool, phys: u64, record: &RecordView<'_>) {
        if written {
            self.last_timestamp.store(record.store_timestamp(), Ordering::Release);
            self.last_phys.store(phys as i64, Ordering::Release);
        }
    }
}

impl State {
    /// Feeds a record to the sinks. True when it is (now or already) in a consume queue. `follows`: its offset was given by
    /// somebody who may have made its queue anew.
    ///
    /// `place` is where the queue may be among those that are kept.
    fn record(
        &mut self,
        phys: u64,
        record: &RecordView<'_>,
        follows: bool,
        place: Option<usize>,
    ) -> Result<bool, StoreError> {
        failpoint::hit(Point::DispatchRecord).map_err(|source| StoreError::Io { path: Default::default(), source })?;
        let keys = Keys::of(record);
        let in_queue = is_in_queue(record);
        let tags_code = self.tags_code(record, &keys);
        let ext = (in_queue && self.queues.is_extended()).then(|| self.ext_unit(record, tags_code));
        if follows && in_queue && record.queue_offset() == 0 {
            self.begin_anew(record.topic(), record.queue_id(), phys)?;
        }
        let queue = self.kept.queue(&self.queues, record, place);
        // By the time that the queue has its entry, the memory may be there.
        let hashes = self.index.hashes(queue.key_prefix(), &keys);
        // First: what the queue shows can be read.
        if in_queue && let Some(compacted) = queue.compaction() {
            compacted.put(record, tags_code)?;
        }
        let batch = queue.takes_batches(record.sys_flag() & sys_flag::INNER_BATCH != 0);
        if in_queue
            && let Some(entry) = queue_entry(batch, phys, record, &keys, tags_code)
            && queue.append(&entry, batch, ext.as_ref())? == Put::Written
        {
            self.queues.note_dirty(queue);
            if self.arrived.is_some() && queue.list() {
                self.touched.push(Arc::clone(queue));
            }
        }
        failpoint::pass(Point::DispatchQueue);
        if self.light && in_queue {
            self.put_light(phys, record, tags_code, follows)?;
        }
        self.index.put(phys, record, &hashes);
        Ok(in_queue)
    }

    #[cold]
    fn ext_unit(&self, record: &RecordView<'_>, tags_code: i64) -> ExtUnit {
        let bits = self.filter_bits.as_ref().and_then(|bits| bits(record)).unwrap_or_default();
        ExtUnit { tags_code, store_timestamp: record.store_timestamp(), bits }
    }

    /// The hash of the tag; for a delayed message when it is due.
    fn tags_code(&self, record: &RecordView<'_>, keys: &Keys<'_>) -> i64 {
        if let Some(level) = keys.delay
            && record.topic_bytes() == SCHEDULE_TOPIC.as_bytes()
            && let Some(level) = number(level).and_then(|level| i32::try_from(level).ok())
            && let Some(due) = self.levels.due(level, record.store_timestamp())
        {
            return due;
        }
        keys.tags.map_or(0, tags_code)
    }
}

/// Whether a record is in a queue. Half messages and rollbacks are in the log only. (What waits for a commit is stored as an
/// ordinary message of a system topic.)
pub(crate) fn is_in_queue(record: &RecordView<'_>) -> bool {
    let transaction = record.sys_flag() & sys_flag::TRANSACTION;
    transaction == 0 || transaction == sys_flag::TRANSACTION_COMMIT
}

/// What stands for a record in its queue, which may be a batch topic's; `None` when it has no possible place.
fn queue_entry(batch: bool, phys: u64, record: &RecordView<'_>, keys: &Keys<'_>, tags_code: i64) -> Option<QueueEntry> {
    let unit = Unit { phys: phys as i64, size: record.size() as i32, tags_code };
    let mut entry = QueueEntry { unit, offset: record.queue_offset(), count: 1, store_timestamp: 0 };
    if batch {
        entry.store_timestamp = record.store_timestamp();
        // A message that was sent alone carries no numbers: it is one, at its own offset.
        if let (Some(base), Some(num)) = (keys.inner_base, keys.inner_num) {
            entry.offset = number(base).unwrap_or(-1);
            entry.count = number(num).and_then(|num| i16::try_from(num).ok()).unwrap_or(-1);
        }
    }
    if entry.offset < 0 || entry.count < 1 {
        tracing::warn!(phys, offset = entry.offset, count = entry.count, "no possible place in a queue: passed over");
        return None;
    }
    Some(entry)
}

/// Tells about queues that got something and have waiters. The dispatcher's lock is not held.
fn report(arrived: &(dyn Fn(&Arrival<'_>) + Send + Sync), touched: &[Arc<Queue>]) {
    for queue in touched {
        queue.unlist();
    }
    // Between making a message readable and looking for waiters; a waiter counts itself first and then looks again at
    // the highest offset. One of the two sees the other.
    fence(Ordering::SeqCst);
    for queue in touched {
        if queue.waiters().load(Ordering::SeqCst) > 0 {
            arrived(&Arrival { queue, max_offset: queue.max_offset() });
        }
    }
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
pub(crate) mod tests;
