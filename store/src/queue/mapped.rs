//! Mapped queue files, of which a process may have so many.

use std::fs;
use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::segment::Cells;

/// How many queue files this process has mapped, and may have.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
static LIMIT: LazyLock<AtomicUsize> = LazyLock::new(|| AtomicUsize::new(limit()));

/// A quarter of the open files that the process may have, and an eighth of the mappings.
fn limit() -> usize {
    let maps = fs::read_to_string("/proc/sys/vm/max_map_count").ok().and_then(|text| text.trim().parse().ok());
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
    (maps.unwrap_or(65_530usize) / 8).min(files / 4)
}

/// Lets the process map so many queue files, whatever the system allows.
#[cfg(feature = "failpoints")]
pub fn limit_mapped_files(files: usize) {
    LIMIT.store(files, Ordering::Relaxed);
}

/// Whether so many files are mapped that others have to do without.
pub(super) fn is_short_of_mappings() -> bool {
    MAPPED.load(Ordering::Relaxed) >= LIMIT.load(Ordering::Relaxed) / 8 * 7
}

/// A mapped file, as long as somebody holds it.
#[derive(Debug)]
pub(super) struct Mapped(Cells);

impl Mapped {
    /// Maps a file unless the limit is reached.
    pub(super) fn open(open: impl FnOnce() -> io::Result<Cells>) -> io::Result<Option<Mapped>> {
        if MAPPED.fetch_add(1, Ordering::Relaxed) >= LIMIT.load(Ordering::Relaxed) {
            MAPPED.fetch_sub(1, Ordering::Relaxed);
            return Ok(None);
        }
        match open() {
            Ok(cells) => Ok(Some(Mapped(cells))),
            Err(error) => {
                MAPPED.fetch_sub(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// The file.
    #[inline]
    pub(super) fn cells(&self) -> &Cells {
        &self.0
    }

    /// Reads any range of bytes through the words that cover it.
    pub(super) fn read(&self, at: usize, out: &mut [u8]) {
        let cells = &self.0;
        if at.is_multiple_of(4) && out.len().is_multiple_of(4) {
            return cells.read(at, out);
        }
        for (i, byte) in out.iter_mut().enumerate() {
            let position = at + i;
            *byte = cells.load_u32(position & !3).to_be_bytes()[position & 3];
        }
    }

    /// Writes any range of bytes. The words at its ends are read and written back, which is safe with one writer a file.
    #[inline]
    pub(super) fn put(&self, at: usize, bytes: &[u8]) {
        let cells = &self.0;
        if at.is_multiple_of(4) && bytes.len().is_multiple_of(4) {
            return cells.put(at, bytes);
        }
        let from = at & !3;
        let to = (at + bytes.len()).next_multiple_of(4).min(cells.len());
        for word in (from..to).step_by(4) {
            let mut whole = cells.load_u32(word).to_be_bytes();
            for (i, byte) in whole.iter_mut().enumerate() {
                if let Some(new) = (word + i).checked_sub(at).and_then(|i| bytes.get(i)) {
                    *byte = *new;
                }
            }
            cells.store_u32(word, u32::from_be_bytes(whole));
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        MAPPED.fetch_sub(1, Ordering::Relaxed);
    }
}
