//! Compares two stores by what is in them: records, units, index entries, checkpoint. How far files are filled with
//! zeros, and by what time index files are named, does not matter.

use std::collections::BTreeMap;
use std::io::Write;

use super::index::IndexEntry;
use super::{CtlError, StoreDir, log};
use crate::queue::unit::Entry;

/// At most so many differences of a kind are printed.
const SHOWN: usize = 20;

/// Prints the differences; returns how many there are.
///
/// # Errors
/// A file that cannot be read, or the output.
pub fn diff(a: &StoreDir, b: &StoreDir, out: &mut dyn Write) -> Result<usize, CtlError> {
    let records = compare(out, "record", records(a)?, records(b)?)?;
    let units = compare(out, "unit", units(a)?, units(b)?)?;
    let entries = compare(out, "index entry", entries(a)?, entries(b)?)?;
    let checkpoint = compare(out, "checkpoint", checkpoint(a)?, checkpoint(b)?)?;
    writeln!(out, "differences: records={records} units={units} index={entries} checkpoint={checkpoint}")?;
    Ok(records + units + entries + checkpoint)
}

fn compare<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    out: &mut dyn Write,
    what: &str,
    a: BTreeMap<K, V>,
    mut b: BTreeMap<K, V>,
) -> Result<usize, CtlError> {
    let mut differences = 0;
    let mut say = |text: String| {
        differences += 1;
        if differences <= SHOWN { writeln!(out, "{text}") } else { Ok(()) }
    };
    for (key, left) in a {
        match b.remove(&key) {
            Some(right) if right == left => {}
            Some(right) => say(format!("{what} {key:?}: {left:?} | {right:?}"))?,
            None => say(format!("{what} {key:?}: {left:?} | -"))?,
        }
    }
    for (key, right) in b {
        say(format!("{what} {key:?}: - | {right:?}"))?;
    }
    if differences > SHOWN {
        writeln!(out, "{what}: {} more", differences - SHOWN)?;
    }
    Ok(differences)
}

/// Topic, queue, queue offset, size and a crc of the bytes, by offset.
type Record = (String, i32, i64, usize, u32);

fn records(store: &StoreDir) -> Result<BTreeMap<u64, Record>, CtlError> {
    let mut found = BTreeMap::new();
    let (end, _) = log::walk(&store.log_files()?, |offset, record| {
        let crc = crc32fast::hash(record.bytes());
        let value = (record.topic().to_owned(), record.queue_id(), record.queue_offset(), record.size(), crc);
        found.insert(offset, value);
        Ok(())
    })?;
    found.insert(end, ("end of the log".to_owned(), 0, 0, 0, 0));
    Ok(found)
}

fn units(store: &StoreDir) -> Result<BTreeMap<(String, i32, i64), Entry>, CtlError> {
    let mut found = BTreeMap::new();
    for queue in store.queues()? {
        queue.walk(|entry| {
            found.insert((queue.topic.clone(), queue.id, entry.offset), *entry);
            Ok(())
        })?;
    }
    Ok(found)
}

fn entries(store: &StoreDir) -> Result<BTreeMap<(usize, usize), IndexEntry>, CtlError> {
    let files = store.index_files()?;
    let numbered = files.iter().enumerate().flat_map(|(file, index)| {
        index.entries.iter().enumerate().skip(1).map(move |(number, entry)| ((file, number), *entry))
    });
    Ok(numbered.collect())
}

fn checkpoint(store: &StoreDir) -> Result<BTreeMap<&'static str, i64>, CtlError> {
    Ok(store.checkpoint()?.into_iter().collect())
}
