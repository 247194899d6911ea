//! Reading a queue: which messages a pull gets, and where the next one begins.
//!
//! Statuses, next offsets and limits are those of Java's `getMessage`, because clients act on them. Takes no lock that
//! the append path takes, and allocates nothing but what the reused result grows by.

use std::sync::OnceLock;

use config::{BrokerRole, MessageStoreConfig};

use crate::commitlog::CommitLog;
use crate::queue::unit::Entry;
use crate::queue::{Queue, is_address};
use crate::record::RecordView;
use crate::store::{ReadFilter, ReadRequest, ReadResult, ReadStatus, RecordSlice};

/// No read returns more bytes than this, whatever it asks for.
pub(crate) const MAX_READ_BYTES: i64 = 128 << 20;
/// A read that asks for less gets so many.
pub(crate) const MIN_READ_BYTES: i64 = 100;

/// The configured limits of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadLimits {
    /// Bytes of queue units that one read looks through at most.
    pub(crate) filter_bytes: i64,
    /// Bytes and number of messages, when the data is taken to be in memory.
    pub(crate) in_memory: (i64, i64),
    /// The same, when it is taken to be on disk.
    pub(crate) on_disk: (i64, i64),
    /// Data this close to the end of the log (in bytes) is taken to be in memory.
    pub(crate) memory: i64,
    /// Queue files that one read goes through at most.
    pub(crate) files: i32,
    /// Whether the next offset of a reader outside of the queue is corrected.
    pub(crate) correct: bool,
}

impl ReadLimits {
    /// The limits of a configuration.
    pub(crate) fn of(config: &MessageStoreConfig) -> ReadLimits {
        let memory = total_memory() as f64 * (f64::from(config.access_message_in_memory_max_ratio) / 100.0);
        ReadLimits {
            filter_bytes: config.max_filter_message_size.into(),
            in_memory: (
                config.max_transfer_bytes_on_message_in_memory.into(),
                config.max_transfer_count_on_message_in_memory.into(),
            ),
            on_disk: (
                config.max_transfer_bytes_on_message_in_disk.into(),
                config.max_transfer_count_on_message_in_disk.into(),
            ),
            memory: memory as i64,
            files: config.travel_cq_file_num_when_get_message,
            correct: config.broker_role != BrokerRole::Slave || config.offset_check_in_slave,
        }
    }

    /// Whether a message must wait for the next read, given what the result has already.
    pub(crate) fn is_full(
        &self,
        entry: &Entry,
        request: &ReadRequest,
        max_bytes: i64,
        result: &ReadResult,
        messages: i64,
        in_memory: bool,
    ) -> bool {
        if result.bytes == 0 || messages == 0 {
            return false;
        }
        let bytes = result.bytes as i64 + i64::from(entry.unit.size);
        let (limit_bytes, limit_messages) = if in_memory { self.in_memory } else { self.on_disk };
        messages + i64::from(entry.count) > request.max_messages.into()
            || bytes > max_bytes
            || bytes > limit_bytes
            || messages > limit_messages - 1
    }
}

/// See [`crate::Store::read`].
pub(crate) fn read(
    queue: &Queue,
    log: &CommitLog,
    limits: &ReadLimits,
    request: &ReadRequest,
    filter: &dyn ReadFilter,
    result: &mut ReadResult,
) {
    let log_end = i64::try_from(log.wrote().get()).unwrap_or(i64::MAX);
    result.records.clear();
    result.bytes = 0;
    result.suggest_slave = false;
    result.min_offset = queue.min_offset();
    result.max_offset = queue.max_offset();
    let offset = request.offset;
    let corrected = |to: i64| if limits.correct { to } else { offset };
    let (status, next) = if result.max_offset == 0 {
        (ReadStatus::NoMessageInQueue, corrected(0))
    } else if offset < result.min_offset {
        (ReadStatus::OffsetTooSmall, corrected(result.min_offset))
    } else if offset == result.max_offset {
        (ReadStatus::OffsetOverflowOne, offset)
    } else if offset > result.max_offset {
        (ReadStatus::OffsetOverflowBadly, corrected(result.max_offset))
    } else {
        gather(queue, log, log_end, limits, request, filter, result)
    };
    result.status = status;
    result.next_offset = next;
}

/// Reads from an offset that the queue has. Returns how it ended and where to go on.
fn gather(
    queue: &Queue,
    log: &CommitLog,
    log_end: i64,
    limits: &ReadLimits,
    request: &ReadRequest,
    filter: &dyn ReadFilter,
    result: &mut ReadResult,
) -> (ReadStatus, i64) {
    let unit_len = queue.unit_len() as i64;
    let filter_bytes = limits.filter_bytes.max(i64::from(request.max_messages) * unit_len);
    let max_bytes = i64::from(request.max_bytes).clamp(MIN_READ_BYTES, MAX_READ_BYTES);
    let file_len = log.segments().segment_len() as i64;
    let mut status = ReadStatus::NoMatchedMessage;
    let mut next = request.offset;
    let mut last_phys = 0;
    let mut files = 0;
    // A record of a batch topic holds several.
    let mut messages = 0;
    let mut refused: Option<RecordSlice> = None;
    while result.bytes == 0 && next < result.max_offset && files < limits.files {
        files += 1;
        let Some(mut entries) = queue.entries(next) else {
            status = ReadStatus::OffsetFoundNull;
            if limits.correct {
                next = if queue.is_batch() { 0 } else { queue.roll(next) };
            }
            break;
        };
        // Nothing of a file of the log that was removed is looked for a second time.
        let mut log_from = i64::MIN;
        while let Some(entry) = entries.next() {
            if next >= result.max_offset {
                break;
            }
            let (phys, size) = (entry.unit.phys, entry.unit.size);
            let in_memory = log_end.saturating_sub(phys) <= limits.memory;
            if (entry.offset - request.offset).saturating_mul(unit_len) >= filter_bytes
                || limits.is_full(&entry, request, max_bytes, result, messages, in_memory)
                || result.bytes as i64 >= max_bytes
            {
                break;
            }
            last_phys = phys;
            next = entry.next_offset();
            if phys < log_from {
                continue;
            }
            // An entry whose part in the extension is lost: its record says the same.
            let lost = is_address(entry.unit.tags_code);
            let wanted = match entries.ext() {
                None => lost || filter.by_tags_code(entry.unit.tags_code),
                Some(ext) => filter.by_ext(ext.tags_code, &ext.bits, ext.store_timestamp),
            };
            if !wanted {
                if result.bytes == 0 {
                    status = ReadStatus::NoMatchedMessage;
                }
                continue;
            }
            // Most of what a filter refuses lies beside what it refused before: it is looked at where it lies.
            if !lost && refused.as_ref().and_then(|near| look(near, phys, size)).is_some_and(|it| !filter.by_record(it))
            {
                if result.bytes == 0 {
                    status = ReadStatus::NoMatchedMessage;
                }
                continue;
            }
            let Some(record) = slice(log, phys, size) else {
                if result.bytes == 0 {
                    status = ReadStatus::MessageWasRemoving;
                }
                log_from = phys.saturating_add(file_len - phys.rem_euclid(file_len));
                continue;
            };
            if lost && !without_ext(filter, &record) || !filter.by_record(&record) {
                if result.bytes == 0 {
                    status = ReadStatus::NoMatchedMessage;
                }
                refused = Some(record);
                continue;
            }
            messages += i64::from(entry.count);
            result.bytes += record.len();
            result.records.push(record);
            status = ReadStatus::Found;
            log_from = i64::MIN;
        }
    }
    result.suggest_slave = log_end.saturating_sub(last_phys) > limits.memory;
    (status, next)
}

#[cold]
fn without_ext(filter: &dyn ReadFilter, record: &[u8]) -> bool {
    RecordView::parse(record).map_or(true, |record| filter.without_ext(&record))
}

fn look(near: &RecordSlice, phys: i64, size: i32) -> Option<&[u8]> {
    near.look(u64::try_from(phys).ok()?, usize::try_from(size).ok().filter(|size| *size > 0)?)
}

fn slice(log: &CommitLog, phys: i64, size: i32) -> Option<RecordSlice> {
    let size = usize::try_from(size).ok().filter(|size| *size > 0)?;
    log.slice(u64::try_from(phys).ok()?, size)
}

/// Memory of the machine, or of the control group that the process is in, in bytes.
pub(crate) fn total_memory() -> u64 {
    static TOTAL: OnceLock<u64> = OnceLock::new();
    *TOTAL.get_or_init(|| {
        let info = rustix::system::sysinfo();
        let machine = (info.totalram as u64).saturating_mul(info.mem_unit.into());
        let group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
            .iter()
            .filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok())
            .min();
        group.map_or(machine, |group| group.min(machine))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dispatch::tests::{Rig, rig_with_queues};
    use crate::index::tags_code;
    use crate::store::All;

    const LIMITS: ReadLimits = ReadLimits {
        filter_bytes: 16_000,
        in_memory: (262_144, 32),
        on_disk: (65_536, 8),
        memory: i64::MAX,
        files: 1,
        correct: true,
    };

    struct Tag(&'static str);
    impl ReadFilter for Tag {
        fn by_tags_code(&self, code: i64) -> bool {
            code == tags_code(self.0.as_bytes())
        }
    }

    /// Refuses every second record by its content.
    struct OddOnly;
    impl ReadFilter for OddOnly {
        fn by_tags_code(&self, _: i64) -> bool {
            true
        }
        fn by_record(&self, record: &[u8]) -> bool {
            crate::record::RecordView::parse(record).unwrap().queue_offset() % 2 == 1
        }
    }

    fn filled(dir: &tempfile::TempDir, messages: usize, units: i32) -> (Rig, Arc<Queue>) {
        let rig = rig_with_queues(dir.path(), units);
        (0..messages).for_each(|_| assert!(rig.append("T1", 0, 0, &[("TAGS", "A")]) < u64::MAX));
        rig.drain();
        let queue = rig.queues.get_or_create("T1", 0);
        (rig, queue)
    }

    fn read_with(
        rig: &Rig,
        queue: &Queue,
        limits: &ReadLimits,
        request: ReadRequest,
        filter: &dyn ReadFilter,
    ) -> ReadResult {
        let mut result = ReadResult {
            status: ReadStatus::Found,
            next_offset: 7,
            min_offset: 7,
            max_offset: 7,
            records: rig.log.slice(0, 1).into_iter().collect(),
            bytes: 7,
            suggest_slave: true,
        };
        read(queue, &rig.log, limits, &request, filter, &mut result);
        assert_eq!(result.bytes, result.records.iter().map(|record| record.len()).sum::<usize>());
        result
    }

    fn at(offset: i64) -> ReadRequest {
        ReadRequest { offset, max_messages: 32, max_bytes: i32::MAX }
    }

    #[test]
    fn p_01_offsets_outside_of_the_queue() {
        let dir = tempfile::tempdir().unwrap();
        let (rig, queue) = filled(&dir, 5, 64);
        for (offset, status, next) in [
            (-1, ReadStatus::OffsetTooSmall, 0),
            (5, ReadStatus::OffsetOverflowOne, 5),
            (6, ReadStatus::OffsetOverflowBadly, 5),
            (100, ReadStatus::OffsetOverflowBadly, 5),
        ] {
            let result = read_with(&rig, &queue, &LIMITS, at(offset), &All);
            assert_eq!((result.status, result.next_offset), (status, next), "{offset}");
            assert_eq!((result.min_offset, result.max_offset, result.bytes), (0, 5, 0));
            let slave = ReadLimits { correct: false, ..LIMITS };
            assert_eq!(read_with(&rig, &queue, &slave, at(offset), &All).next_offset, offset);
        }
        let result = read_with(&rig, &queue, &LIMITS, at(2), &All);
        assert_eq!((result.status, result.next_offset, result.records.len()), (ReadStatus::Found, 5, 3));
        let empty = rig.queues.get_or_create("T1", 1);
        let result = read_with(&rig, &empty, &LIMITS, at(3), &All);
        assert_eq!((result.status, result.next_offset), (ReadStatus::NoMessageInQueue, 0));
    }

    #[test]
    fn p_07_a_filter_that_nothing_passes() {
        for (units, first) in [(300, 300), (300_000, 800)] {
            let dir = tempfile::tempdir().unwrap();
            let (rig, queue) = filled(&dir, 1000, units);
            let mut offset = 0;
            for expected in [first, 2 * first, 3 * first, 4 * first].map(|next| next.min(1000)) {
                if offset == 1000 {
                    break;
                }
                let result = read_with(&rig, &queue, &LIMITS, at(offset), &Tag("B"));
                assert_eq!((result.status, result.next_offset), (ReadStatus::NoMatchedMessage, expected));
                offset = expected;
            }
            let result = read_with(&rig, &queue, &LIMITS, at(1000), &Tag("B"));
            assert_eq!(result.status, ReadStatus::OffsetOverflowOne);
            // A request for many messages looks further than the limit.
            let many = ReadRequest { offset: 0, max_messages: 900, max_bytes: i32::MAX };
            let result = read_with(&rig, &queue, &LIMITS, many, &Tag("B"));
            assert_eq!(result.next_offset, 900.min(i64::from(units)));
            // Two files a read, when so configured.
            let two = ReadLimits { files: 2, filter_bytes: 1 << 20, ..LIMITS };
            assert_eq!(read_with(&rig, &queue, &two, at(0), &Tag("B")).next_offset, 1000.min(2 * i64::from(units)));
        }
    }

    #[test]
    fn limits_of_a_read() {
        let dir = tempfile::tempdir().unwrap();
        let (rig, queue) = filled(&dir, 100, 300_000);
        let size = rig.log.record_at(0).unwrap().len();
        let count = |limits: &ReadLimits, max_messages, max_bytes| {
            let request = ReadRequest { offset: 10, max_messages, max_bytes };
            let result = read_with(&rig, &queue, limits, request, &All);
            assert_eq!(result.next_offset, 10 + result.records.len() as i64);
            assert_eq!(result.status, ReadStatus::Found);
            result.records.len()
        };
        assert_eq!(count(&LIMITS, 32, i32::MAX), 32);
        assert_eq!(count(&LIMITS, 7, i32::MAX), 7);
        assert_eq!(count(&LIMITS, 90, i32::MAX), 32);
        assert_eq!(count(&LIMITS, 32, (size * 3) as i32), 3);
        assert_eq!(count(&LIMITS, 32, (size * 3 - 1) as i32), 2);
        // The first message comes whatever its size.
        assert_eq!(count(&LIMITS, 32, 0), 1);
        assert_eq!(count(&LIMITS, 0, i32::MAX), 1);
        assert_eq!(count(&ReadLimits { in_memory: ((size * 5) as i64, 32), ..LIMITS }, 32, i32::MAX), 5);
        let far = ReadLimits { memory: 0, ..LIMITS };
        assert_eq!(count(&far, 32, i32::MAX), 8);
        assert_eq!(count(&ReadLimits { on_disk: ((size * 2) as i64, 8), ..far }, 32, i32::MAX), 2);
        assert!(read_with(&rig, &queue, &far, at(10), &All).suggest_slave);
        assert!(!read_with(&rig, &queue, &LIMITS, at(10), &All).suggest_slave);
    }

    #[test]
    fn filters_by_record() {
        let dir = tempfile::tempdir().unwrap();
        let (rig, queue) = filled(&dir, 10, 64);
        let result = read_with(&rig, &queue, &LIMITS, at(0), &OddOnly);
        assert_eq!((result.status, result.records.len(), result.next_offset), (ReadStatus::Found, 5, 10));
    }

    #[test]
    fn removed_parts_of_the_log_are_stepped_over() {
        let dir = tempfile::tempdir().unwrap();
        // More than two log files.
        let (rig, queue) = filled(&dir, 400, 300_000);
        rig.log.segments().delete_before(16_384).unwrap();
        // The queue's lowest offset is not corrected yet.
        let kept = (0..400).find(|&i| queue.entry(i).unwrap().unit.phys >= 16_384).unwrap();
        let result = read_with(&rig, &queue, &LIMITS, at(0), &All);
        assert_eq!((result.status, result.records.len()), (ReadStatus::Found, 32));
        assert_eq!(result.next_offset, kept + 32);
        rig.log.segments().delete_before(u64::MAX).unwrap();
        let result = read_with(&rig, &queue, &LIMITS, at(0), &Tag("A"));
        assert!(result.next_offset > kept);
        let narrow = ReadLimits { filter_bytes: 40, ..LIMITS };
        let request = ReadRequest { max_messages: 2, ..at(0) };
        let result = read_with(&rig, &queue, &narrow, request, &All);
        assert_eq!((result.status, result.next_offset), (ReadStatus::MessageWasRemoving, 2));
    }

    #[test]
    fn a_missing_queue_file() {
        let dir = tempfile::tempdir().unwrap();
        let (rig, _) = filled(&dir, 20, 5);
        drop(rig);
        std::fs::remove_file(dir.path().join("consumequeue/T1/0/00000000000000000100")).unwrap();
        let rig = rig_with_queues(dir.path(), 5);
        let queue = rig.queues.get_or_create("T1", 0);
        // The queue ends there until recovery has made it again.
        let result = read_with(&rig, &queue, &LIMITS, at(6), &All);
        assert_eq!((result.status, result.next_offset), (ReadStatus::OffsetOverflowBadly, 5));
    }
}
