//! Brings a queue's compacted log in line with the log that it was made from.
//!
//! After a crash the last parts are compared with the log record by record, and cut at the first that is not the same:
//! neither a record that reached the device in part nor one that the log has lost may be served. Then what the log has and
//! the compacted log has not is added, so that it does not matter what was lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::layout::{Dirs, Sizes};
use super::load::DOUBTFUL;
use super::log::CompactionLog;
use super::part::Part;
use crate::commitlog::CommitLog;
use crate::error::StoreError;
use crate::failpoint::{self, Point};
use crate::queue::Queue;
use crate::queue::unit::Entry;
use crate::record::{PHYS_OFFSET, RecordView};
use crate::segment::SegmentSlice;

/// Where the records of a queue come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    /// The queue.
    pub(super) queue: &'a Queue,
    /// The log.
    pub(super) log: &'a CommitLog,
    /// Store timestamp (ms) of the last record that a crash left in the log; 0 when it left none.
    pub(super) last_timestamp: i64,
}

impl Source<'_> {
    /// The record at a queue offset, when the log still has it.
    fn record(&self, offset: i64) -> Option<SegmentSlice> {
        self.slice(&self.queue.entry(offset)?)
    }

    fn slice(&self, entry: &Entry) -> Option<SegmentSlice> {
        let size = usize::try_from(entry.unit.size).ok().filter(|size| *size > 0)?;
        self.log.slice(u64::try_from(entry.unit.phys).ok()?, size)
    }

    /// Whether the log can give everything from an offset on.
    fn covers(&self, offset: i64) -> bool {
        (self.queue.min_offset()..self.queue.max_offset()).contains(&offset)
    }

    /// Whether a unit has the record that it should have.
    fn agrees(&self, part: &Part, unit: &Entry) -> bool {
        let Some(bytes) = part.slice(unit) else { return false };
        let Ok(record) = RecordView::parse(&bytes) else { return false };
        let same_place = record.phys_offset() == unit.unit.phys && record.queue_offset() == unit.offset;
        let same_queue = record.topic_bytes() == self.queue.topic().as_bytes() && record.queue_id() == self.queue.id();
        if !same_place || !same_queue || record.size() != bytes.len() {
            return false;
        }
        match self.record(unit.offset) {
            Some(original) => {
                let around = [0..PHYS_OFFSET, PHYS_OFFSET + 8..original.len().max(bytes.len())];
                around.into_iter().all(|range| original.get(range.clone()) == bytes.get(range))
            }
            None => record.body_crc_fits() && !self.is_lost(unit),
        }
    }

    /// Whether the log had this record and lost it in a crash. One that it has let go of for its age is older than
    /// everything that the log has.
    fn is_lost(&self, unit: &Entry) -> bool {
        unit.offset >= self.queue.max_offset() && self.last_timestamp > 0 && unit.store_timestamp >= self.last_timestamp
    }
}

/// From where on the parts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Index of the part.
    at: usize,
    /// How many of its units stay.
    units: usize,
    /// Queue offset from which on the log gives everything again.
    pub(super) offset: i64,
}

/// Where the last parts, after a crash, do not agree with the log any more. `position` is up to where the queue has been
/// compacted: behind it no offset is missing.
pub(super) fn find_cut(parts: &[Arc<Part>], source: Source<'_>, position: i64) -> Option<Cut> {
    let from = parts.len().saturating_sub(DOUBTFUL);
    let mut last = from.checked_sub(1).and_then(|before| parts.get(before)?.last_offset());
    for (at, part) in parts.iter().enumerate().skip(from) {
        for index in 0..part.units() {
            let unit = part.unit(index)?;
            let expected = last.map_or(0, |last| last + 1);
            let missing = index == 0 && unit.offset > expected && unit.offset > position + 1;
            let agrees = source.agrees(part, &unit);
            if (missing || !agrees) && (source.covers(expected) || unit.offset >= source.queue.max_offset()) {
                return Some(Cut { at, units: index, offset: expected });
            }
            if !agrees {
                // The log has nothing better.
                tracing::error!(topic = source.queue.topic(), offset = unit.offset, "damaged in the compacted log");
            }
            last = Some(unit.offset);
        }
    }
    None
}

/// Cuts the parts. After a crash in between there is the same, or a later place to cut.
///
/// # Errors
/// The disk.
pub(super) fn cut(
    parts: &mut Vec<Arc<Part>>,
    (dirs, sizes): (&Dirs, Sizes),
    source: Source<'_>,
    cut: &Cut,
) -> Result<(), StoreError> {
    let queue = source.queue;
    let point = |point| failpoint::hit(point).map_err(|source| StoreError::Io { path: dirs.log.clone(), source });
    point(Point::CompactCut)?;
    for part in parts.drain(cut.at + 1..).rev() {
        part.delete();
    }
    point(Point::CompactCutPart)?;
    let Some(part) = parts.pop() else { return Ok(()) };
    let (base, units) = (part.base(), cut.units);
    tracing::warn!(topic = queue.topic(), queue = queue.id(), base, units, "the compacted log is cut behind a crash");
    if units == 0 {
        part.delete();
        return Ok(());
    }
    drop(part);
    parts.push(Part::cut(dirs, base, sizes, units)?);
    Ok(())
}

/// Adds what the log has and the compacted log has not; returns how many records. From then on no offset is given that the
/// compacted log has.
///
/// # Errors
/// The disk.
pub(super) fn catch_up(compacted: &CompactionLog, source: Source<'_>) -> Result<usize, StoreError> {
    let queue = source.queue;
    let mut at = compacted.next_offset().max(queue.min_offset());
    let mut added = 0;
    while at < queue.max_offset() {
        let Some(entries) = queue.entries(at) else { break };
        let before = at;
        for entry in entries {
            at = entry.next_offset();
            let Some(bytes) = source.slice(&entry) else { continue };
            let Ok(record) = RecordView::parse(&bytes) else { continue };
            failpoint::hit(Point::CompactCatchUp)
                .map_err(|source| StoreError::Io { path: compacted.dirs.log.clone(), source })?;
            added += usize::from(compacted.put(&record, entry.unit.tags_code)?);
        }
        if at == before {
            break;
        }
    }
    queue.next_offset().fetch_max(compacted.next_offset(), Ordering::Relaxed);
    Ok(added)
}
