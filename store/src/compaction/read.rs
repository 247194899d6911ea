//! Reading a compacted queue: as [`crate::read`], from the compacted log, whose offsets have gaps.
//!
//! As in Java filters are not asked, an offset below the first message begins with that message, and a read ends with
//! its file.

use super::log::{CompactionLog, end_of};
use crate::queue::unit::Entry;
use crate::read::{MAX_READ_BYTES, MIN_READ_BYTES, ReadLimits};
use crate::record::RecordView;
use crate::segment::SegmentSlice;
use crate::store::{ReadRequest, ReadResult, ReadStatus};

impl CompactionLog {
    /// See [`crate::Store::read`].
    pub(crate) fn read(&self, limits: &ReadLimits, request: &ReadRequest, result: &mut ReadResult) {
        let parts = self.parts();
        let log_end = parts.last().map_or(0, |part| part.log_end() as i64);
        result.records.clear();
        result.bytes = 0;
        result.suggest_slave = false;
        result.min_offset = parts.first().and_then(|part| part.first_offset()).unwrap_or(-1);
        result.max_offset = end_of(&parts);
        let offset = request.offset;
        let corrected = |to: i64| if limits.correct { to } else { offset };
        let (status, next) = if result.max_offset == 0 {
            (ReadStatus::NoMessageInQueue, corrected(0))
        } else if offset == result.max_offset {
            (ReadStatus::OffsetOverflowOne, offset)
        } else if offset > result.max_offset {
            let to = if result.min_offset == 0 { 0 } else { result.max_offset };
            (ReadStatus::OffsetOverflowBadly, corrected(to))
        } else {
            let max_bytes = i64::from(request.max_bytes).clamp(MIN_READ_BYTES, MAX_READ_BYTES);
            let mut status = ReadStatus::NoMatchedMessage;
            let (mut next, mut last_phys, mut files) = (offset, 0, 0);
            while result.bytes == 0 && next < result.max_offset && files < limits.files {
                files += 1;
                let Some(part) = parts.iter().find(|part| part.last_offset().is_some_and(|last| last >= next)) else {
                    (status, next) = (ReadStatus::OffsetFoundNull, corrected(0));
                    break;
                };
                for unit in (part.lower_bound(next)..part.units()).map_while(|index| part.unit(index)) {
                    let in_memory = log_end.saturating_sub(unit.unit.phys) <= limits.memory;
                    let messages = result.records.len() as i64;
                    if limits.is_full(&unit, request, max_bytes, result, messages, in_memory)
                        || result.bytes as i64 >= max_bytes
                    {
                        break;
                    }
                    last_phys = unit.unit.phys;
                    next = unit.next_offset();
                    let Some(record) = part.slice(&unit).filter(|record| is_of(record, &unit)) else {
                        if result.bytes == 0 {
                            status = ReadStatus::MessageWasRemoving;
                        }
                        continue;
                    };
                    result.bytes += record.len();
                    result.records.push(record);
                    status = ReadStatus::Found;
                }
            }
            result.suggest_slave = log_end.saturating_sub(last_phys) > limits.memory;
            (status, next)
        };
        result.status = status;
        result.next_offset = next;
    }
}

/// Whether the record is the one that the unit means: what a failing device has left is not served.
fn is_of(record: &SegmentSlice, unit: &Entry) -> bool {
    RecordView::parse(record).is_ok_and(|view| view.queue_offset() == unit.offset && view.size() == record.len())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Scratch, record};
    use super::*;

    const LIMITS: ReadLimits = ReadLimits {
        filter_bytes: 16_000,
        in_memory: (262_144, 32),
        on_disk: (65_536, 8),
        memory: i64::MAX,
        files: 1,
        correct: true,
    };

    fn read(log: &CompactionLog, limits: &ReadLimits, offset: i64) -> (ReadStatus, Vec<i64>, i64) {
        let mut result = ReadResult { bytes: 7, next_offset: 99, ..ReadResult::default() };
        log.read(limits, &ReadRequest { offset, max_messages: 32, max_bytes: i32::MAX }, &mut result);
        let offset_of = |record: &SegmentSlice| RecordView::parse(record).unwrap().queue_offset();
        assert_eq!(result.bytes, result.records.iter().map(|record| record.len()).sum::<usize>());
        (result.status, result.records.iter().map(offset_of).collect(), result.next_offset)
    }

    #[test]
    fn statuses_and_next_offsets_as_in_java() {
        let scratch = Scratch::new();
        let log = scratch.log("T", 0);
        for offset in [0, 3] {
            assert_eq!(read(&log, &LIMITS, offset), (ReadStatus::NoMessageInQueue, vec![], 0));
        }
        let slave = ReadLimits { correct: false, ..LIMITS };
        assert_eq!(read(&log, &slave, 3), (ReadStatus::NoMessageInQueue, vec![], 3));
        let mut result = ReadResult::default();
        log.read(&LIMITS, &ReadRequest { offset: 0, max_messages: 1, max_bytes: 1 }, &mut result);
        assert_eq!((result.min_offset, result.max_offset), (-1, 0));

        for offset in [5, 6, 9, 20, 21, 30] {
            log.put(&RecordView::parse(&record("T", "k", offset, b"body")).unwrap(), 0).unwrap();
        }
        // Four records a file; a read ends with its file.
        for offset in [-1, 0, 5] {
            assert_eq!(read(&log, &LIMITS, offset), (ReadStatus::Found, vec![5, 6, 9, 20], 21));
        }
        assert_eq!(read(&log, &LIMITS, 7), (ReadStatus::Found, vec![9, 20], 21));
        assert_eq!(read(&log, &LIMITS, 10), (ReadStatus::Found, vec![20], 21));
        assert_eq!(read(&log, &LIMITS, 21), (ReadStatus::Found, vec![21, 30], 31));
        assert_eq!(read(&log, &LIMITS, 22), (ReadStatus::Found, vec![30], 31));
        assert_eq!(read(&log, &LIMITS, 31), (ReadStatus::OffsetOverflowOne, vec![], 31));
        assert_eq!(read(&log, &LIMITS, 32), (ReadStatus::OffsetOverflowBadly, vec![], 31));
        assert_eq!(read(&log, &slave, 32), (ReadStatus::OffsetOverflowBadly, vec![], 32));
        log.read(&LIMITS, &ReadRequest { offset: 0, max_messages: 2, max_bytes: i32::MAX }, &mut result);
        assert_eq!((result.min_offset, result.max_offset, result.records.len(), result.next_offset), (5, 31, 2, 7));

        // From the start when the first message is still there: Java's choice.
        let log = scratch.log("T", 1);
        log.put(&RecordView::parse(&record("T", "k", 0, b"body")).unwrap(), 0).unwrap();
        assert_eq!(read(&log, &LIMITS, 9), (ReadStatus::OffsetOverflowBadly, vec![], 0));
    }

    #[test]
    fn what_is_no_record_is_not_served() {
        let scratch = Scratch::new();
        let log = scratch.log("T", 0);
        for offset in 0..3 {
            log.put(&RecordView::parse(&record("T", "k", offset, b"body")).unwrap(), 0).unwrap();
        }
        log.flush(0).unwrap();
        let (dirs, size) = (log.dirs.clone(), log.parts()[0].unit(0).unwrap().unit.size as usize);
        drop(log);
        let path = dirs.log.join(crate::segment::file_name(0));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[size..2 * size].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        let log = scratch.log("T", 0);
        assert_eq!(read(&log, &LIMITS, 0), (ReadStatus::Found, vec![0, 2], 3));
        let one = ReadRequest { offset: 1, max_messages: 1, max_bytes: 1 };
        let mut result = ReadResult::default();
        log.read(&LIMITS, &one, &mut result);
        assert_eq!((result.status, result.records.len(), result.next_offset), (ReadStatus::Found, 1, 3));
    }
}
