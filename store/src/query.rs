//! Looking for messages by key, and by store time.

use std::ops::ControlFlow;

use crate::commitlog::CommitLog;
use crate::index::{Index, KeyKind, Keys};
use crate::queue::unit::Unit;
use crate::queue::{Bound, Queue};
use crate::record::RecordView;
use crate::store::{QueryResult, RecordSlice};

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyQuery<'a> {
    pub(crate) topic: &'a str,
    pub(crate) key: &'a str,
    pub(crate) kind: KeyKind,
    /// At most so many records; the newest ones.
    pub(crate) max: usize,
    /// Store time in ms, both ends included. The index keeps seconds, so up to a second more on either side is found.
    pub(crate) begin: i64,
    pub(crate) end: i64,
}

/// The records that have the key, in the order of the log. The index only knows hashes, so the records themselves
/// decide; a record that the log has no more is not found.
pub(crate) fn by_key(index: &Index, log: &CommitLog, query: &KeyQuery<'_>) -> QueryResult {
    let hash = Index::hash(query.topic, query.key, query.kind);
    let mut found: Vec<(i64, RecordSlice)> = Vec::new();
    if query.max > 0 {
        index.visit(hash, query.begin, query.end, |phys| {
            // A crash can leave a record in the index twice, one entry behind the other.
            if found.iter().all(|(other, _)| *other != phys)
                && let Some(record) = u64::try_from(phys).ok().and_then(|phys| log.record_at(phys))
                && has_key(&record, query)
            {
                found.push((phys, record));
            }
            if found.len() < query.max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }
    if found.is_empty() {
        return QueryResult::default();
    }
    found.sort_by_key(|(phys, _)| *phys);
    let files = index.files();
    QueryResult {
        records: found.into_iter().map(|(_, record)| record).collect(),
        last_update_timestamp: files.last().map_or(0, |file| file.end_timestamp()),
        last_update_phys_offset: files.last().map_or(0, |file| file.end_phys()),
    }
}

fn has_key(record: &[u8], query: &KeyQuery<'_>) -> bool {
    let Ok(record) = RecordView::parse(record) else { return false };
    if record.topic_bytes() != query.topic.as_bytes() {
        return false;
    }
    let keys = Keys::of(&record);
    let wanted = query.key.as_bytes();
    match query.kind {
        KeyKind::Tag => keys.tags == Some(wanted),
        KeyKind::Key => {
            keys.unique == Some(wanted)
                || (!wanted.is_empty()
                    && keys.keys.is_some_and(|keys| keys.split(|byte| *byte == b' ').any(|key| key == wanted)))
        }
    }
}

/// The queue offset for a store time, see [`crate::Store::offset_by_time`].
pub(crate) fn offset_by_time(queue: &Queue, log: &CommitLog, timestamp: i64, upper: bool) -> i64 {
    let bound = if upper { Bound::Upper } else { Bound::Lower };
    queue.offset_by_time(timestamp, bound, |unit| unit_time(log, unit))
}

/// Store time (ms) of the message at a queue offset, or -1.
pub(crate) fn store_time(queue: &Queue, log: &CommitLog, offset: i64) -> i64 {
    queue.entry(offset).map_or(-1, |entry| unit_time(log, &entry.unit))
}

fn unit_time(log: &CommitLog, unit: &Unit) -> i64 {
    if unit.is_filler() {
        return -1;
    }
    let record = u64::try_from(unit.phys).ok().and_then(|phys| log.record_at(phys));
    record.and_then(|record| RecordView::parse(&record).ok().map(|view| view.store_timestamp())).unwrap_or(-1)
}
