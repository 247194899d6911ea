//! A file whose bytes change in place: index, checkpoint, wheel.
//!
//! Every access is a relaxed atomic load or store of a 4-byte word, so a reader never sees a torn word, and reading
//! next to a writer is defined. Values wider than a word can be seen half old, half new: whoever needs more keeps a
//! copy in memory or orders the words itself. Integers are big-endian, as Java writes them.
//!
//! Positions and lengths must be multiples of 4; access outside the file panics, as with a slice.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::map::{self, FileMap};

/// See the module's text.
#[derive(Debug)]
pub struct Cells {
    map: FileMap,
}

// SAFETY: all access goes through `words`, which only allows atomic operations.
unsafe impl Send for Cells {}
// SAFETY: as above.
unsafe impl Sync for Cells {}

impl Cells {
    /// Makes the file with `len` zero bytes (a multiple of 4), blocks reserved.
    ///
    /// # Errors
    /// The file exists, or the disk is full.
    pub fn create(path: &Path, len: usize) -> io::Result<Cells> {
        Cells::checked(FileMap::create(path, len)?)
    }

    /// As [`Cells::create`], but blocks are reserved for the first `reserved` bytes only: for files that are large and
    /// filled slowly. [`Cells::reserve`] must come before a write behind them.
    ///
    /// # Errors
    /// The file exists, or the disk is full.
    pub fn create_reserved(path: &Path, len: usize, reserved: usize) -> io::Result<Cells> {
        Cells::checked(FileMap::create_reserved(path, len, reserved)?)
    }

    /// Reserves blocks for a range (cut to the file), so that writing there cannot meet a full disk.
    ///
    /// # Errors
    /// The disk is full.
    pub fn reserve(&self, range: Range<usize>) -> io::Result<()> {
        self.map.reserve_to(range.start, range.end)
    }

    /// Opens a file of exactly `len` bytes (a multiple of 4).
    ///
    /// # Errors
    /// No such file, or another size.
    pub fn open(path: &Path, len: usize) -> io::Result<Cells> {
        Cells::checked(FileMap::open(path, len)?)
    }

    fn checked(map: FileMap) -> io::Result<Cells> {
        if !map.len().is_multiple_of(4) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the length is no multiple of 4"));
        }
        // Access is here and there: with read-ahead, often megabytes, the first touch of a page would bring the whole file.
        map.advise_read_ahead(false);
        Ok(Cells { map })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.map.path()
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn words(&self) -> &[AtomicU32] {
        // SAFETY: the mapping is page-aligned, has `len()` bytes (a multiple of 4) and lives as long as `self`;
        // AtomicU32 has the layout of u32, any bytes are a valid one, and nothing accesses the mapping otherwise.
        unsafe { std::slice::from_raw_parts(self.map.pointer().cast::<AtomicU32>(), self.len() / 4) }
    }

    /// Where a position lies in memory, to ask for it.
    #[inline]
    pub(crate) fn address(&self, at: usize) -> usize {
        self.map.pointer() as usize + at
    }

    /// The 4-byte integer at a position.
    #[inline]
    pub fn load_u32(&self, at: usize) -> u32 {
        debug_assert_eq!(at % 4, 0);
        u32::from_be(self.words()[at / 4].load(Ordering::Relaxed))
    }

    /// Writes a 4-byte integer.
    #[inline]
    pub fn store_u32(&self, at: usize, value: u32) {
        debug_assert_eq!(at % 4, 0);
        self.words()[at / 4].store(value.to_be(), Ordering::Relaxed);
    }

    /// The 8-byte integer at a position (two words).
    #[inline]
    pub fn load_u64(&self, at: usize) -> u64 {
        u64::from(self.load_u32(at)) << 32 | u64::from(self.load_u32(at + 4))
    }

    /// Writes an 8-byte integer (two words).
    #[inline]
    pub fn store_u64(&self, at: usize, value: u64) {
        self.store_u32(at, (value >> 32) as u32);
        self.store_u32(at + 4, value as u32);
    }

    /// Copies bytes out.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        debug_assert_eq!((at % 4, out.len() % 4), (0, 0));
        let words = &self.words()[at / 4..];
        for (word, to) in words[..out.len() / 4].iter().zip(out.chunks_exact_mut(4)) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
    }

    /// Copies bytes in.
    pub fn put(&self, at: usize, bytes: &[u8]) {
        debug_assert_eq!((at % 4, bytes.len() % 4), (0, 0));
        let words = &self.words()[at / 4..];
        for (word, from) in words[..bytes.len() / 4].iter().zip(bytes.as_chunks::<4>().0) {
            word.store(u32::from_ne_bytes(*from), Ordering::Relaxed);
        }
    }

    /// Puts the pages of a range on the device and waits for it.
    ///
    /// # Errors
    /// The device failed.
    pub fn flush(&self, range: Range<usize>) -> io::Result<()> {
        self.map.flush(range.start, range.end)
    }

    /// Makes size and block map of a new file durable.
    ///
    /// # Errors
    /// The device failed.
    pub fn sync_all(&self) -> io::Result<()> {
        self.map.sync_all()
    }

    /// Whether the system reads ahead of accesses: for one that goes from front to back.
    pub fn advise_read_ahead(&self, on: bool) {
        self.map.advise_read_ahead(on);
    }

    /// Makes the pages of a range present. A hint.
    pub fn prefault(&self, range: Range<usize>) {
        self.map.prefault(range.start, range.end);
    }

    /// Removes the file's name at once; the mapping goes with `self`.
    ///
    /// # Errors
    /// The name could not be removed; a name that is gone already is none.
    pub fn delete(&self) -> io::Result<()> {
        map::remove(self.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_big_endian_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cells");
        let cells = Cells::create(&path, 4096).unwrap();
        cells.store_u32(4, 0x0102_0304);
        cells.store_u64(8, 0x1112_1314_1516_1718);
        cells.put(16, &[9, 8, 7, 6, 5, 4, 3, 2]);
        cells.flush(0..4096).unwrap();
        let file = std::fs::read(&path).unwrap();
        assert_eq!(file[4..8], [1, 2, 3, 4]);
        assert_eq!(file[8..16], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
        assert_eq!(file[16..24], [9, 8, 7, 6, 5, 4, 3, 2]);
        let mut out = [0; 8];
        cells.read(12, &mut out);
        assert_eq!(out, [0x15, 0x16, 0x17, 0x18, 9, 8, 7, 6]);
        assert_eq!((cells.load_u32(4), cells.load_u64(8)), (0x0102_0304, 0x1112_1314_1516_1718));
        assert!(Cells::create(&path, 4096).is_err());
        assert!(Cells::open(&path, 4092).is_err());
        assert_eq!(Cells::open(&path, 4096).unwrap().load_u32(4), 0x0102_0304);
    }

    #[test]
    #[should_panic]
    fn outside_panics() {
        let dir = tempfile::tempdir().unwrap();
        Cells::create(&dir.path().join("cells"), 64).unwrap().load_u32(64);
    }
}
