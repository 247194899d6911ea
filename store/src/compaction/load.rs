//! Opening the directories of a queue.
//!
//! The records are the truth: a queue file that is missing, or may be of another log file, is made again from them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use super::layout::{Dirs, Sizes};
use super::part::Part;
use super::replace::{self, files};
use crate::abort::sync_dir;
use crate::error::StoreError;
use crate::failpoint::{self, Event, Point};
use crate::queue::unit::{BATCH_UNIT_LEN, Entry, Unit};
use crate::record::RecordView;
use crate::segment::{Segment, file_name, remove};

/// After a crash so many parts at the end are not believed.
pub(super) const DOUBTFUL: usize = 3;

/// What was found.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The parts, in order.
    pub(super) parts: Vec<Arc<Part>>,
    /// The position of a compaction that a crash had interrupted and that is finished now.
    pub(super) position: Option<i64>,
}

/// Opens what a queue's directories hold; nothing when there are none.
///
/// # Errors
/// A file of another length than the configuration says, or with a name that is no offset: Java does not start either.
/// Or the disk.
pub(super) fn load(dirs: &Dirs, sizes: Sizes, clean: bool) -> Result<Loaded, StoreError> {
    failpoint::hit(Point::CompactLoad).map_err(|source| io_error(&dirs.log, source))?;
    // An odd length is refused before anything is changed.
    check_sizes(&dirs.log, sizes.log)?;
    check_sizes(&dirs.cq, sizes.cq)?;
    let found = replace::recover(dirs)?;
    let logs = bases(&dirs.log)?;
    let queues = bases(&dirs.cq)?;
    for base in &logs {
        if found.distrust_queue_files || !queues.contains(base) {
            make_queue_file(dirs, *base, sizes)?;
        }
    }
    for base in queues.difference(&logs) {
        let path = dirs.cq.join(file_name(*base));
        tracing::error!(path = %path.display(), "a queue file without its log file is removed");
        remove(&path).map_err(|source| io_error(&path, source))?;
    }
    if found.position.is_none() {
        replace::clear_if_possible(dirs);
    }
    let doubtful = logs.len().saturating_sub(DOUBTFUL);
    let mut parts = Vec::with_capacity(logs.len());
    for (at, base) in logs.iter().enumerate() {
        parts.push(Part::open(dirs, *base, sizes, clean && at < doubtful)?);
    }
    for pair in parts.windows(2) {
        if pair[0].last_offset() >= pair[1].first_offset() && pair[1].units() > 0 {
            tracing::error!(dir = %dirs.log.display(), base = pair[1].base(), "queue offsets do not go up from file to file");
        }
    }
    Ok(Loaded { parts, position: found.position })
}

/// As Java: an empty last file is one that was being made; any other of a wrong length stops the start.
fn check_sizes(dir: &Path, len: usize) -> Result<(), StoreError> {
    let files = files(dir)?;
    for (at, path) in files.iter().enumerate() {
        let found = fs::metadata(path).map_err(|source| io_error(path, source))?.len();
        if found != len as u64 && !(found == 0 && at + 1 == files.len()) {
            return Err(StoreError::Corrupt {
                path: path.clone(),
                offset: found.min(len as u64),
                what: format!("the file has {found} bytes, the configuration says {len}"),
            });
        }
    }
    Ok(())
}

/// The offsets that the files of a directory are named by.
fn bases(dir: &Path) -> Result<BTreeSet<u64>, StoreError> {
    let mut bases = BTreeSet::new();
    for path in files(dir)? {
        if fs::metadata(&path).map_err(|source| io_error(&path, source))?.len() == 0 {
            tracing::warn!(path = %path.display(), "the last file is empty: removed");
            remove(&path).map_err(|source| io_error(&path, source))?;
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let base = name.and_then(|name| name.parse::<u64>().ok().filter(|base| file_name(*base) == name));
        match base.filter(|base| i64::try_from(*base).is_ok()) {
            Some(base) => bases.insert(base),
            None => {
                return Err(io_error(
                    &path,
                    io::Error::new(io::ErrorKind::InvalidData, "the file's name is no offset"),
                ));
            }
        };
    }
    Ok(bases)
}

/// Makes the queue file of a log file from its records. It gets its name when it is complete.
fn make_queue_file(dirs: &Dirs, base: u64, sizes: Sizes) -> Result<(), StoreError> {
    let name = file_name(base);
    let path = dirs.log.join(&name);
    let log = Segment::open(&path, sizes.log, sizes.log).map_err(|source| io_error(&path, source))?;
    let mut units = Vec::new();
    let (mut at, mut last) = (0, -1);
    while let Some(record) = log.bytes().get(at..).and_then(|rest| RecordView::parse(rest).ok()) {
        let phys = base as i64 + at as i64;
        let fits = record.phys_offset() == phys && record.queue_offset() > last && record.body_crc_fits();
        if !fits || units.len() + 2 * BATCH_UNIT_LEN > sizes.cq {
            break;
        }
        let unit = Unit { phys, size: record.size() as i32, tags_code: record.tags_code() };
        let (offset, store_timestamp) = (record.queue_offset(), record.store_timestamp());
        units.extend_from_slice(&Entry { unit, offset, count: 1, store_timestamp }.encode_batch());
        (at, last) = (at + record.size(), offset);
    }
    tracing::warn!(path = %path.display(), units = units.len() / BATCH_UNIT_LEN, "the queue file is made from the log file");
    let fresh = dirs.staging().cq;
    let write = || {
        failpoint::hit(Point::CompactQueueFile)?;
        fs::create_dir_all(&fresh)?;
        let fresh = fresh.join(format!("{name}.new"));
        let mut file = fs::File::create(&fresh)?;
        failpoint::tell(Event::Created(&fresh));
        file.write_all(&units)?;
        file.set_len(sizes.cq as u64)?;
        failpoint::tell(Event::Syncing(&file, 0, sizes.cq as u64));
        file.sync_all()?;
        failpoint::tell(Event::Synced(&file));
        failpoint::hit(Point::CompactQueueName)?;
        let place = dirs.cq.join(&name);
        fs::rename(&fresh, &place)?;
        failpoint::tell(Event::Renamed(&fresh, &place));
        sync_dir(&dirs.cq)
    };
    write().map_err(|source| io_error(&dirs.cq.join(&name), source))
}

fn io_error(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Scratch, record};
    use super::*;

    fn filled(scratch: &Scratch, count: i64) -> Dirs {
        let log = scratch.log("T", 0);
        for offset in 0..count {
            let bytes = record("T", "k", offset, b"body");
            let record = RecordView::parse(&bytes).unwrap();
            log.put(&record, record.tags_code()).unwrap();
        }
        log.dirs.clone()
    }

    fn units(scratch: &Scratch, dirs: &Dirs) -> Vec<usize> {
        load(dirs, scratch.sizes, false).unwrap().parts.iter().map(|part| part.units()).collect()
    }

    #[test]
    fn queue_files_are_made_again() {
        let scratch = Scratch::new();
        let dirs = filled(&scratch, 10);
        let before: Vec<_> = files(&dirs.cq).unwrap().iter().map(|path| fs::read(path).unwrap()).collect();
        fs::remove_dir_all(&dirs.cq).unwrap();
        assert_eq!(units(&scratch, &dirs), [4, 4, 2]);
        let after: Vec<_> = files(&dirs.cq).unwrap().iter().map(|path| fs::read(path).unwrap()).collect();
        // Without the units that close files.
        assert_eq!(after[2], before[2]);
        assert_eq!((after[0][..184].to_vec(), &after[0][184..]), (before[0][..184].to_vec(), &[0; 46][..]));
        assert!(!dirs.staging().cq.exists());
    }

    #[test]
    fn odd_files() {
        let scratch = Scratch::new();
        let dirs = filled(&scratch, 6);
        let len = scratch.sizes.log as u64;
        let next = file_name(2 * len);
        // Killed while a pair was being made.
        fs::write(dirs.log.join(&next), "").unwrap();
        assert_eq!(units(&scratch, &dirs), [4, 2]);
        assert!(!dirs.log.join(&next).exists());
        fs::write(dirs.log.join(&next), vec![0; len as usize]).unwrap();
        fs::write(dirs.cq.join(&next), "").unwrap();
        assert_eq!(units(&scratch, &dirs), [4, 2, 0]);
        // A queue file alone says nothing.
        fs::remove_file(dirs.log.join(&next)).unwrap();
        assert_eq!(units(&scratch, &dirs), [4, 2]);
        assert!(!dirs.cq.join(&next).exists());
        // Of another configuration.
        let other = Sizes { cq: scratch.sizes.cq + 46, ..scratch.sizes };
        assert!(load(&dirs, other, false).unwrap_err().to_string().contains("the configuration says"));
        fs::write(dirs.log.join("note"), vec![0; len as usize]).unwrap();
        assert!(load(&dirs, scratch.sizes, false).unwrap_err().to_string().contains("no offset"));
    }
}
