//! The commitlog: one row of files of equal size that holds every message of the broker, in the order of arrival.
//!
//! Layout: records (see [`crate::record`]) one behind the other; a file ends in a blank record, since none spans two
//! files. Behind the last record the last file holds zeros.
//! Invariant: `[range().start, wrote())` never changes, except that whole files go from the front.
//! Threads: appends are serialized by one lock; readers never wait.
//! Crash: see [`recover`].

mod append;
mod copy;
mod numbered;
mod pool;
mod prepare;
mod read;
pub mod recover;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

pub(crate) use append::now_millis;
pub use append::{AppendLimits, Batch, NextOffset};
pub use copy::CopyError;
pub use numbered::Numbers;
pub use pool::CommitTimes;
pub use read::Walk;

use crate::bell::Bell;
use crate::error::StoreError;
use crate::segment::{Segment, SegmentSeq, SegmentSlice, SegmentWriter};
use crate::watermark::Watermark;

/// See the module's text.
#[derive(Debug)]
pub struct CommitLog {
    segments: SegmentSeq,
    wrote: Watermark,
    tail: Mutex<Tail>,
    /// When the holder of the append lock took it (ms since the epoch); 0 while it is free.
    locked_at: AtomicI64,
    /// The end before the first append.
    opened_at: AtomicU64,
    next: prepare::Prepared,
    /// Appends go through it when it is there.
    pool: Option<pool::Pool>,
    /// Store timestamp (ms) of some record below `wrote`, the last one when nobody appends.
    last_timestamp: AtomicI64,
    /// Wakes the flush thread.
    pub(crate) flush_bell: Bell,
    /// Set once: closing, a failed flush. The reason is for the caller's message.
    closed: AtomicBool,
    disk_full: AtomicBool,
    refusal: Mutex<Option<&'static str>>,
}

/// What the append lock guards.
#[derive(Debug, Default)]
struct Tail {
    writer: Option<SegmentWriter>,
}

impl CommitLog {
    /// Opens the files of a directory. Nothing is checked yet: the whole of every file counts as written until
    /// [`recover`] has found the end.
    ///
    /// # Errors
    /// As [`SegmentSeq::load`].
    pub fn load(dir: PathBuf, segment_len: usize) -> Result<CommitLog, StoreError> {
        let segments = SegmentSeq::load(dir, segment_len)?;
        let end = segments.last().map_or(0, |last| last.end());
        Ok(CommitLog {
            segments,
            wrote: Watermark::new(end),
            tail: Mutex::default(),
            locked_at: AtomicI64::new(0),
            opened_at: AtomicU64::new(end),
            next: prepare::Prepared::default(),
            pool: None,
            last_timestamp: AtomicI64::new(0),
            flush_bell: Bell::default(),
            closed: AtomicBool::new(false),
            disk_full: AtomicBool::new(false),
            refusal: Mutex::new(None),
        })
    }

    /// The readable bytes: start of the first file (or the end, without files) to the end of the last record.
    pub fn range(&self) -> Range<u64> {
        let end = self.wrote.get();
        self.segments.first().map_or(end, |first| first.base().min(end))..end
    }

    /// How far records are complete.
    pub fn wrote(&self) -> &Watermark {
        &self.wrote
    }

    /// Store timestamp (ms) of the last record appended since the start; 0 when there is none. Read before
    /// [`CommitLog::wrote`], it is that of a record below it.
    pub fn last_timestamp(&self) -> i64 {
        self.last_timestamp.load(Ordering::Acquire)
    }

    /// The files.
    pub fn segments(&self) -> &SegmentSeq {
        &self.segments
    }

    /// `len` bytes at an offset; `None` when they are not all written, deleted, or not in one file.
    pub fn slice(&self, offset: u64, len: usize) -> Option<SegmentSlice> {
        let segment = self.segments.find(offset)?;
        let start = (offset - segment.base()) as usize;
        segment.slice(start..start.checked_add(len)?)
    }

    /// What is left of the file at an offset, up to the end of the records; `None` at the end and outside.
    pub fn rest_of_file(&self, offset: u64) -> Option<SegmentSlice> {
        let segment = self.segments.find(offset)?;
        let start = (offset - segment.base()) as usize;
        segment.slice(start..segment.published()).filter(|slice| !slice.is_empty())
    }

    /// Sets the end: later bytes and files are removed. Before appends and readers begin.
    ///
    /// # Errors
    /// The disk.
    pub fn truncate(&self, end: u64) -> Result<(), StoreError> {
        self.segments.truncate(end)?;
        let end = self.segments.last().map_or(end, |last| end_of(&last));
        self.wrote.reset(end);
        self.opened_at.store(end, Ordering::Relaxed);
        if let Some(pool) = &self.pool {
            pool.reset(end);
        }
        Ok(())
    }
}

/// Where a segment's published bytes end in the log.
fn end_of(segment: &Segment) -> u64 {
    segment.base() + segment.published() as u64
}

#[cfg(test)]
mod tests;
