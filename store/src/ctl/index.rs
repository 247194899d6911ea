//! Index files, read as a whole.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{CtlError, list, read_error};
use crate::index::Geometry;

/// An index file's used part.
#[derive(Debug)]
pub(super) struct IndexDump {
    pub(super) path: PathBuf,
    pub(super) begin_timestamp: i64,
    pub(super) end_timestamp: i64,
    pub(super) begin_phys: i64,
    pub(super) end_phys: i64,
    pub(super) slot_count: i32,
    pub(super) count: i32,
    /// Entry 0 is never used.
    pub(super) entries: Vec<IndexEntry>,
    slots: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    pub(super) hash: i32,
    pub(super) phys: i64,
    pub(super) seconds: i32,
    pub(super) older: u32,
}

impl IndexDump {
    /// The files of a directory, oldest first.
    pub(super) fn all(dir: &Path, geometry: Geometry) -> Result<Vec<IndexDump>, CtlError> {
        list(dir)?.into_iter().filter(|path| path.is_file()).map(|path| IndexDump::read(path, geometry)).collect()
    }

    fn read(path: PathBuf, geometry: Geometry) -> Result<IndexDump, CtlError> {
        let error = |source| read_error(&path, source);
        let file = File::open(&path).map_err(error)?;
        let len = file.metadata().map_err(error)?.len();
        if len != geometry.file_len() as u64 {
            let what = format!(
                "{len} bytes, but with {} slots and {} entries it must have {} (give the broker's configuration with --conf)",
                geometry.slots,
                geometry.capacity,
                geometry.file_len()
            );
            return Err(CtlError::Bad { path, what });
        }
        let mut head = [0; 40];
        file.read_exact_at(&mut head, 0).map_err(error)?;
        let long = |at: usize| head[at..].first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
        let int = |at: usize| head[at..].first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes));
        let mut slots = vec![0; geometry.slots as usize * 4];
        file.read_exact_at(&mut slots, 40).map_err(error)?;
        let used = usize::try_from(int(36)).unwrap_or(0).min(geometry.capacity as usize);
        let mut entries = vec![0; used * 20];
        file.read_exact_at(&mut entries, 40 + slots.len() as u64).map_err(error)?;
        let entries = entries.as_chunks::<20>().0.iter().map(|bytes| {
            let word = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            IndexEntry {
                hash: word(0) as i32,
                phys: (i64::from(word(4)) << 32) | i64::from(word(8)),
                seconds: word(12) as i32,
                older: word(16),
            }
        });
        Ok(IndexDump {
            begin_timestamp: long(0),
            end_timestamp: long(8),
            begin_phys: long(16),
            end_phys: long(24),
            slot_count: int(32),
            count: int(36),
            entries: entries.collect(),
            slots: slots.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes)).collect(),
            path,
        })
    }

    /// What a query can find: hash and physical offset of every entry that a slot leads to.
    pub(super) fn reachable(&self, found: &mut HashSet<(i32, i64)>) {
        for (slot, newest) in self.slots.iter().enumerate() {
            let mut number = *newest;
            while let Some(entry) = self.entries.get(number as usize).filter(|_| number > 0) {
                if entry.hash as usize % self.slots.len() == slot {
                    found.insert((entry.hash, entry.phys));
                }
                if entry.older >= number {
                    break;
                }
                number = entry.older;
            }
        }
    }
}
