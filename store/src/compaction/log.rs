//! The compacted log of one queue: a row of parts, appended to at the end and replaced from the front.
//!
//! Threads: records are put under the writer's lock, in the order of their queue offsets; readers take a snapshot of the
//! row and no lock. A compaction works on the parts before the last, which nobody changes, and puts its own in their
//! place under the writer's lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};

use super::appender::{Appender, Place};
use super::layout::{Dirs, Sizes};
use super::part::Part;
use super::replace::Plan;
use crate::error::StoreError;
use crate::failpoint::{self, Point};
use crate::record::RecordView;
use crate::segment::remove_dir;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct CompactionLog {
    topic: String,
    id: i32,
    pub(super) dirs: Dirs,
    pub(super) sizes: Sizes,
    parts: ArcSwap<Vec<Arc<Part>>>,
    writer: Mutex<Writer>,
    deleted: AtomicBool,
    /// Held by a compaction; what the last one could not finish.
    pending: Mutex<Option<Plan>>,
    /// When the next compaction is due.
    due: Mutex<Instant>,
}

#[derive(Debug)]
struct Writer {
    appender: Appender,
    /// Queue offset behind the last record.
    next: i64,
}

impl CompactionLog {
    /// Over the parts that were found in a queue's directories.
    pub(super) fn new(topic: &str, id: i32, dirs: Dirs, sizes: Sizes, parts: Vec<Arc<Part>>) -> CompactionLog {
        let appender = Appender::new(dirs.clone(), sizes, parts.last());
        let next = end_of(&parts);
        CompactionLog {
            topic: topic.to_owned(),
            id,
            dirs,
            sizes,
            parts: ArcSwap::from_pointee(parts),
            writer: Mutex::new(Writer { appender, next }),
            deleted: AtomicBool::new(false),
            pending: Mutex::new(None),
            due: Mutex::new(Instant::now()),
        }
    }

    /// The topic.
    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    /// The queue id.
    pub(super) fn id(&self) -> i32 {
        self.id
    }

    /// The parts as they are now, in order.
    pub(super) fn parts(&self) -> Arc<Vec<Arc<Part>>> {
        self.parts.load_full()
    }

    /// Queue offset behind the last record; 0 without one.
    pub(super) fn next_offset(&self) -> i64 {
        self.writer.lock().next
    }

    /// Whether the topic was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Adds a record, unless it is known already. True when it was added. A record without keys is left out, as in Java:
    /// no compaction could tell what it replaces.
    ///
    /// # Errors
    /// The disk; the same record may be put again.
    pub(crate) fn put(&self, record: &RecordView<'_>, tags_code: i64) -> Result<bool, StoreError> {
        let offset = record.queue_offset();
        let mut writer = self.writer.lock();
        if offset < writer.next || self.is_deleted() {
            return Ok(false);
        }
        if key(record).is_none() {
            tracing::warn!(topic = self.topic, queue = self.id, offset, "no keys: not in the compacted log");
            return Ok(false);
        }
        match writer.appender.append(record, tags_code)? {
            Place::Last => {}
            Place::New(part) => self.push(part),
            Place::TooLarge => {
                tracing::error!(
                    topic = self.topic,
                    queue = self.id,
                    offset,
                    "larger than a file: not in the compacted log"
                );
                return Ok(false);
            }
        }
        writer.next = offset + 1;
        failpoint::pass(Point::CompactPut);
        Ok(true)
    }

    /// Puts a part at the end of the row. After a power failure only the last few parts are looked through: those before
    /// must be on the device.
    #[cold]
    fn push(&self, part: Arc<Part>) {
        let mut list = Vec::clone(&self.parts.load());
        list.push(part);
        for part in list.iter().rev().skip(2).take_while(|part| !part.is_flushed()) {
            if let Err(error) = part.flush() {
                tracing::error!(topic = self.topic, queue = self.id, %error, "a compacted log could not be flushed");
            }
        }
        self.parts.store(Arc::new(list));
    }

    /// Puts parts in the place of those that begin at `old`.
    pub(super) fn replace(&self, old: &[u64], parts: Vec<Arc<Part>>) {
        let _writer = self.writer.lock();
        let mut list = parts;
        list.extend(self.parts.load().iter().filter(|part| !old.contains(&part.base())).cloned());
        self.parts.store(Arc::new(list));
    }

    /// The right to compact, and what the last compaction could not finish.
    pub(super) fn pending(&self) -> MutexGuard<'_, Option<Plan>> {
        self.pending.lock()
    }

    /// When the next compaction is due.
    pub(super) fn due(&self) -> Instant {
        *self.due.lock()
    }

    /// Sets when the next compaction is due.
    pub(super) fn set_due(&self, due: Instant) {
        *self.due.lock() = due;
    }

    /// Puts what waits on the device when it is at least `least` bytes.
    ///
    /// # Errors
    /// The device failed; tried again next time.
    pub(super) fn flush(&self, least: usize) -> Result<(), StoreError> {
        let parts = self.parts();
        for part in parts.iter().filter(|part| !part.is_flushed() && part.unflushed() >= least) {
            match part.flush() {
                Err(_) if self.is_deleted() => return Ok(()),
                result => result?,
            }
        }
        Ok(())
    }

    /// Takes nothing any more, lets go of the files and removes them. Waits for a compaction to give up.
    ///
    /// # Errors
    /// Not all files are gone.
    pub(super) fn delete(&self) -> Result<(), StoreError> {
        self.deleted.store(true, Ordering::Release);
        let mut pending = self.pending.lock();
        *pending = None;
        let _writer = self.writer.lock();
        self.parts.store(Arc::default());
        // The queue files first: Java refuses a log file without one.
        for (point, dir) in [(Point::CompactDelete, &self.dirs.cq), (Point::CompactDeleteHalf, &self.dirs.log)] {
            let removed = failpoint::hit(point).and_then(|()| remove_dir(dir));
            removed.map_err(|source| StoreError::Io { path: dir.clone(), source })?;
        }
        Ok(())
    }
}

/// Queue offset behind the last record of a row; 0 without one.
pub(super) fn end_of(parts: &[Arc<Part>]) -> i64 {
    parts.iter().rev().find_map(|part| part.last_offset()).map_or(0, |last| last + 1)
}

/// What a record replaces and is replaced by: all its keys as one text. `None` without one.
pub(super) fn key<'a>(record: &RecordView<'a>) -> Option<&'a str> {
    record.keys().filter(|keys| !keys.chars().all(is_blank))
}

/// What Java counts as white space: not the spaces that must not break a line.
fn is_blank(character: char) -> bool {
    match character {
        '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{85}' => false,
        '\u{1c}'..='\u{1f}' => true,
        other => other.is_whitespace(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Scratch, record};
    use super::*;

    fn put(log: &CompactionLog, offset: i64, key: &str) -> bool {
        log.put(&RecordView::parse(&record("T", key, offset, b"body")).unwrap(), 0).unwrap()
    }

    fn offsets(log: &CompactionLog) -> Vec<Vec<i64>> {
        let of_part = |part: &Arc<Part>| (0..part.units()).map(|at| part.unit(at).unwrap().offset).collect();
        log.parts().iter().map(of_part).collect()
    }

    #[test]
    fn known_and_keyless_records_are_left_out() {
        let scratch = Scratch::new();
        let log = scratch.log("T", 0);
        assert_eq!(log.next_offset(), 0);
        assert!(put(&log, 3, "k"));
        assert!(!put(&log, 3, "k") && !put(&log, 2, "k") && !put(&log, 4, "") && !put(&log, 4, " \u{1f}\t"));
        assert!(put(&log, 4, "\u{a0}"));
        assert_eq!((offsets(&log), log.next_offset()), (vec![vec![3, 4]], 5));
        log.delete().unwrap();
        assert!(!put(&log, 5, "k") && !log.dirs.log.exists() && !log.dirs.cq.exists());
    }

    #[test]
    fn rolls_and_goes_on_after_a_reopening() {
        let scratch = Scratch::new();
        let log = scratch.log("T", 0);
        (0..11).for_each(|offset| assert!(put(&log, offset, "k")));
        // Five units a file, the last of which closes it.
        assert_eq!(offsets(&log), [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9, 10]]);
        let bases: Vec<u64> = log.parts().iter().map(|part| part.base()).collect();
        let len = scratch.sizes.log as u64;
        assert_eq!(bases, [0, len, 2 * len]);
        assert!(log.parts()[0].is_flushed() && !log.parts()[1].is_flushed());
        log.flush(usize::MAX).unwrap();
        assert!(!log.parts()[1].is_flushed());
        log.flush(0).unwrap();
        assert!(log.parts().iter().all(|part| part.is_flushed()));
        drop(log);
        let log = scratch.log("T", 0);
        assert_eq!(log.next_offset(), 11);
        (9..14).for_each(|offset| assert_eq!(put(&log, offset, "k"), offset > 10));
        assert_eq!(offsets(&log)[2..], [vec![8, 9, 10, 11], vec![12, 13]]);
    }

    #[test]
    fn what_no_file_can_take_is_passed_over() {
        let scratch = Scratch::new();
        let log = scratch.log("T", 0);
        let large = record("T", "k", 0, &vec![1; scratch.sizes.log]);
        assert!(!log.put(&RecordView::parse(&large).unwrap(), 0).unwrap());
        assert!(put(&log, 1, "k"));
    }
}
