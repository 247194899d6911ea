//! Checks that log, consume queues and index say the same.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use super::{CtlError, StoreDir, log};
use crate::index::{Index, KeyKind};
use crate::json_file::{JsonFile, Loaded};
use crate::lmq;
use crate::record::properties::name;
use crate::record::{RecordError, RecordView, sys_flag};

/// How a check ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Things that do not fit; each was printed.
    pub errors: usize,
    /// Records that were read.
    pub records: usize,
    /// Units of consume queues that were compared.
    pub units: usize,
    /// Index entries that were compared.
    pub entries: usize,
    /// Records whose topic and queue have no files. They are errors unless the topic was deleted.
    pub without_queue: usize,
}

/// Where the units of a queue are.
struct Units {
    /// Physical offset and size, by queue offset.
    by_offset: HashMap<i64, (i64, i32)>,
}

/// Compares every record with its unit, every unit with its record, every key with the index, and every index entry
/// with a record. Prints what does not fit.
///
/// # Errors
/// A file that cannot be read, or the output.
pub fn check(store: &StoreDir, out: &mut dyn Write) -> Result<Findings, CtlError> {
    let mut found = Findings::default();
    let files = store.log_files()?;
    let mut units: HashMap<(String, i32), Units> = HashMap::new();
    for queue in store.queues()? {
        let mut by_offset = HashMap::new();
        queue.walk(|entry| {
            if !entry.unit.is_filler() {
                by_offset.insert(entry.offset, (entry.unit.phys, entry.unit.size));
            }
            Ok(())
        })?;
        units.insert((queue.topic, queue.id), Units { by_offset });
    }
    let mut reachable = HashSet::new();
    for file in store.index_files()? {
        file.reachable(&mut reachable);
        found.entries += file.entries.len().saturating_sub(1);
    }
    let with_index = !reachable.is_empty();
    // Without the list of topics none counts as deleted.
    let known_topics = match JsonFile::new(store.root().join("config/topics.json")).load() {
        Ok(Loaded::Text { text, .. }) => Some(text),
        _ => None,
    };
    let mut start = files.first().map_or(0, |file| file.base) as i64;
    let mut indexed = HashSet::new();
    let (end, stop) = log::walk(&files, |offset, record| {
        found.records += 1;
        let mut complain = |what: String| {
            found.errors += 1;
            writeln!(
                out,
                "record at {offset} ({} {} {}): {what}",
                record.topic(),
                record.queue_id(),
                record.queue_offset()
            )
        };
        if record.phys_offset() as u64 != offset {
            complain(format!("says that it stands at {}", record.phys_offset()))?;
        }
        if !record.body_crc_fits() {
            complain("the crc of the body does not fit".to_owned())?;
        }
        if in_queue(record) {
            match units.get_mut(&(record.topic().to_owned(), record.queue_id())) {
                None => {
                    found.without_queue += 1;
                    if known_topics.as_ref().is_none_or(|topics| topics.contains(&format!("\"{}\"", record.topic()))) {
                        complain("its queue has no files".to_owned())?;
                    }
                }
                Some(queue) => match queue.by_offset.remove(&record.queue_offset()) {
                    Some(unit) if unit == (offset as i64, record.size() as i32) => found.units += 1,
                    Some((phys, size)) => complain(format!("its unit points to {phys} with {size} bytes"))?,
                    None => complain("has no unit in its queue".to_owned())?,
                },
            }
        }
        for (name, place) in light_queues(record) {
            let here = (offset as i64, record.size() as i32);
            if let Some(queue) = units.get_mut(&(name.to_owned(), lmq::QUEUE_ID))
                && queue.by_offset.get(&place) == Some(&here)
            {
                queue.by_offset.remove(&place);
                found.units += 1;
            }
        }
        for key in keys(record) {
            indexed.insert((key, offset as i64));
            if with_index && !reachable.contains(&(key, offset as i64)) {
                complain(format!("a key with hash {key} is not in the index"))?;
            }
        }
        Ok(())
    })?;
    match stop {
        // Zeros: nothing was written there yet.
        None | Some(RecordError::Magic(0)) => {}
        Some(error) => writeln!(out, "the log ends at {end}: {error}")?,
    }
    if files.is_empty() {
        start = end as i64;
    }
    let last = files.last().map_or(start, |file| file.base as i64);
    let in_files = |phys: i64| {
        let holds = |file: &log::LogFile| {
            u64::try_from(phys).is_ok_and(|phys| (file.base..file.base + file.len).contains(&phys))
        };
        phys >= last || phys >= start && (files.is_empty() || files.iter().any(holds))
    };
    for pair in files.windows(2).filter(|pair| pair[0].base + pair[0].len != pair[1].base) {
        writeln!(out, "log files are missing between {} and {}", pair[0].path.display(), pair[1].path.display())?;
    }
    for ((topic, id), queue) in units {
        // Units of records that expired, or whose file is missing, are no fault.
        for (offset, (phys, size)) in queue.by_offset.into_iter().filter(|(_, (phys, _))| in_files(*phys)) {
            found.errors += 1;
            writeln!(out, "unit {topic} {id} {offset}: no such record at {phys} with {size} bytes")?;
        }
    }
    for (hash, phys) in reachable.difference(&indexed).filter(|(_, phys)| in_files(*phys)) {
        found.errors += 1;
        writeln!(out, "index entry with hash {hash}: no record with such a key at {phys}")?;
    }
    writeln!(
        out,
        "records={} units={} indexEntries={} recordsWithoutQueue={} errors={}",
        found.records, found.units, found.entries, found.without_queue, found.errors
    )?;
    Ok(found)
}

fn in_queue(record: &RecordView<'_>) -> bool {
    matches!(record.sys_flag() & sys_flag::TRANSACTION, 0 | sys_flag::TRANSACTION_COMMIT)
}

/// The light queues that a record names, with its offsets there. Whether it has entries depends on the configuration of
/// that time.
fn light_queues<'r>(record: &RecordView<'r>) -> impl Iterator<Item = (&'r str, i64)> {
    let list = |name| lmq::pieces(record.properties().get_bytes(name).unwrap_or_default());
    let pairs = list(name::INNER_MULTI_DISPATCH).zip(list(name::INNER_MULTI_QUEUE_OFFSET));
    pairs.filter_map(|(name, place)| Some((lmq::queue_of(name)?, std::str::from_utf8(place).ok()?.parse().ok()?)))
}

/// Hashes of the keys that the index must have.
fn keys(record: &RecordView<'_>) -> Vec<i32> {
    if record.sys_flag() & sys_flag::TRANSACTION == sys_flag::TRANSACTION_ROLLBACK {
        return Vec::new();
    }
    let tag = record.properties().get(name::TAGS);
    let keys = record.uniq_key().into_iter().chain(record.keys().unwrap_or_default().split(' '));
    keys.filter(|key| !key.is_empty())
        .map(|key| Index::hash(record.topic(), key, KeyKind::Key))
        .chain(tag.map(|tag| Index::hash(record.topic(), tag, KeyKind::Tag)))
        .collect()
}
