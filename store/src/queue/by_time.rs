//! Finding a queue offset by store time.

use std::sync::atomic::Ordering;

use super::Queue;
use super::unit::{Entry, Unit};

/// Which end of a run of messages with the searched time is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The first message that is not older: for the start of a range.
    Lower,
    /// The last message that is not younger: for the end of a range.
    Upper,
}

impl Queue {
    /// The queue offset for a time in ms, within the readable offsets. `time_of` gives the store time of a unit's
    /// record, or a negative number when the log has it no more.
    ///
    /// When every message is older, `Lower` is the maximum offset and `Upper` the last message; when every one is
    /// younger, both are the minimum offset. In a batch topic the offset is that of a batch, of the last one when all are
    /// older: as in Java the maximum is never the answer.
    pub(crate) fn offset_by_time(&self, time: i64, bound: Bound, time_of: impl Fn(&Unit) -> i64) -> i64 {
        let (min, max) = (self.min_offset(), self.max_offset());
        let (first, end) = (self.first.load(Ordering::Acquire), self.end.load(Ordering::Acquire));
        let time_of = |entry: &Entry| {
            if entry.store_timestamp > 0 { entry.store_timestamp } else { time_of(&entry.unit) }
        };
        let found = self.partition(first, end, |entry| match bound {
            Bound::Lower => time_of(entry) < time,
            Bound::Upper => time_of(entry) <= time,
        });
        // A failed read is the disk's: what cannot be read cannot be found.
        let Ok(found) = found else { return min };
        let index = match bound {
            Bound::Lower => found,
            Bound::Upper => found - 1,
        };
        let offset = match self.is_batch() {
            false => index,
            true => self.at_index(index.min(end - 1).max(first)).ok().flatten().map_or(min, |entry| entry.offset),
        };
        offset.min(max).max(min)
    }
}
