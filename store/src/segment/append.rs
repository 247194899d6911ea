//! A file that is written once, front to back.
//!
//! Layout: whatever the writer puts there; `[0, published)` is final, the rest is zero.
//! Invariant: bytes below `published` never change, and `published` never goes down.
//! Threads: one [`SegmentWriter`] at a time (enforced), any number of readers. The writer stores `published` with
//! Release after the bytes, readers load it with Acquire before they form a slice.
//! Crash: after a restart the owner decides how much is valid and opens the file with that as `published`.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::map::FileMap;
use super::seq::offset_of;
use super::slice::SegmentSlice;

/// See the module's text.
#[derive(Debug)]
pub struct Segment {
    map: FileMap,
    base: u64,
    published: AtomicUsize,
    written: AtomicBool,
}

// SAFETY: the raw pointer inside the map is only used by `bytes` (shared slices of the part that never changes again)
// and by the one `SegmentWriter` (exclusive slices of the part that nobody else can see).
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes the file with `len` zero bytes, blocks reserved, nothing published. Its name must be its start offset.
    ///
    /// # Errors
    /// The file exists, has no offset for a name, or the disk is full.
    pub fn create(path: &Path, len: usize) -> io::Result<Arc<Segment>> {
        let base = offset_of(path)?;
        Ok(Segment::over(FileMap::create(path, len)?, base, 0))
    }

    /// Opens a file of exactly `len` bytes, the first `published` of them final.
    ///
    /// # Errors
    /// No such file, another size, or a name that is no offset.
    pub fn open(path: &Path, len: usize, published: usize) -> io::Result<Arc<Segment>> {
        let base = offset_of(path)?;
        Ok(Segment::over(FileMap::open(path, len)?, base, published.min(len)))
    }

    fn over(map: FileMap, base: u64, published: usize) -> Arc<Segment> {
        let published = AtomicUsize::new(published);
        Arc::new(Segment { map, base, published, written: AtomicBool::new(false) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.map.path()
    }

    /// Offset of the first byte in the row of segments: the file's name.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Size of the file in bytes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether nothing is published.
    pub fn is_empty(&self) -> bool {
        self.published() == 0
    }

    /// First offset behind the file.
    pub fn end(&self) -> u64 {
        self.base + self.len() as u64
    }

    /// How many bytes are final.
    pub fn published(&self) -> usize {
        self.published.load(Ordering::Acquire)
    }

    /// The final bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len()` bytes and lives as long as `self`; `published <= len()`; bytes below
        // `published` are initialised (a file) and never written again while `self` lives, and the Acquire load pairs
        // with the writer's Release store.
        unsafe { std::slice::from_raw_parts(self.map.pointer(), self.published()) }
    }

    /// A range of the final bytes that keeps the file mapped; `None` when it reaches beyond them.
    pub fn slice(self: &Arc<Self>, range: Range<usize>) -> Option<SegmentSlice> {
        (range.start <= range.end && range.end <= self.published())
            .then(|| SegmentSlice::new(Arc::clone(self), range.start, range.end - range.start))
    }

    /// The one writer; `None` while there is another.
    pub fn writer(self: &Arc<Self>) -> Option<SegmentWriter> {
        (!self.written.swap(true, Ordering::Acquire))
            .then(|| SegmentWriter { at: self.published(), segment: Arc::clone(self) })
    }

    /// Puts the pages of a range on the device and waits for it.
    ///
    /// # Errors
    /// The device failed; what the pages hold can no longer be trusted to reach it.
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

    /// Makes the pages of a range present, so that the writer does not fault on them. A hint.
    pub fn prefault(&self, range: Range<usize>) {
        self.map.prefault(range.start, range.end);
    }

    /// Removes the file's name at once; the mapping goes when the last holder drops it.
    ///
    /// # Errors
    /// The name could not be removed; a name that is gone already is none.
    pub fn delete(&self) -> io::Result<()> {
        match std::fs::remove_file(self.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Turns everything behind the published bytes into zeros with blocks reserved (a file that Java made is sparse). For recovery:
    /// fails while there is a writer.
    ///
    /// # Errors
    /// The disk is full or failed, or the segment has a writer.
    pub fn clear_rest(self: &Arc<Self>) -> io::Result<()> {
        let Some(writer) = self.writer() else {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the segment is being written"));
        };
        self.map.zero_from(writer.at)
    }
}

/// The right to append to a segment. Dropping it lets another take over.
#[derive(Debug)]
pub struct SegmentWriter {
    segment: Arc<Segment>,
    at: usize,
}

impl SegmentWriter {
    /// The segment that it writes.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Where the next byte goes.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes left.
    pub fn room(&self) -> usize {
        self.segment.len() - self.at
    }

    /// Lets `fill` write `len` bytes behind the last and publishes them.
    ///
    /// The slice holds zeros, or what an earlier `fill` that panicked left.
    ///
    /// # Errors
    /// No room in the file; nothing is written then.
    #[inline]
    pub fn append<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> io::Result<R> {
        if len > self.room() {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "no room in the file"));
        }
        // SAFETY: `[at, at + len)` lies inside the mapping (checked above). It is not published, so no shared slice
        // covers it, and `self` is the only writer of the segment and is borrowed exclusively.
        let free = unsafe { std::slice::from_raw_parts_mut(self.segment.map.pointer().add(self.at), len) };
        let result = fill(free);
        self.at += len;
        self.segment.published.store(self.at, Ordering::Release);
        Ok(result)
    }

    /// Publishes all that is left, as it is (zeros): the file is full.
    pub fn seal(&mut self) {
        self.at = self.segment.len();
        self.segment.published.store(self.at, Ordering::Release);
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        self.segment.written.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(len: usize) -> (tempfile::TempDir, Arc<Segment>) {
        let dir = tempfile::tempdir().unwrap();
        let segment = Segment::create(&dir.path().join("00000000000000001000"), len).unwrap();
        (dir, segment)
    }

    #[test]
    fn published_bytes_are_what_was_written() {
        let (_dir, segment) = segment(64);
        assert_eq!((segment.base(), segment.len(), segment.end()), (1000, 64, 1064));
        let mut writer = segment.writer().unwrap();
        assert!(segment.writer().is_none());
        writer.append(3, |free| free.copy_from_slice(b"abc")).unwrap();
        assert!(writer.append(62, |_| ()).is_err());
        assert_eq!(segment.bytes(), b"abc");
        assert_eq!(&*segment.slice(1..3).unwrap(), b"bc");
        assert!(segment.slice(1..4).is_none());
        drop(writer);
        let mut writer = segment.writer().unwrap();
        assert_eq!(writer.position(), 3);
        writer.seal();
        assert_eq!(segment.published(), 64);
        assert_eq!(segment.bytes()[3..], [0; 61]);
    }

    #[test]
    fn slices_outlive_deletion() {
        let (_dir, segment) = segment(4096);
        segment.writer().unwrap().append(5, |free| free.copy_from_slice(b"hello")).unwrap();
        let slice = segment.slice(0..5).unwrap();
        segment.delete().unwrap();
        segment.delete().unwrap();
        assert!(!segment.path().exists());
        drop(segment);
        assert_eq!(&*slice, b"hello");
    }

    #[test]
    fn reopened_with_less_and_cleared() {
        let (_dir, segment) = segment(8192);
        segment.writer().unwrap().append(6000, |free| free.fill(7)).unwrap();
        segment.flush(0..6000).unwrap();
        segment.sync_all().unwrap();
        let path = segment.path().to_owned();
        drop(segment);
        assert!(Segment::open(&path, 4096, 0).is_err());
        let segment = Segment::open(&path, 8192, 10).unwrap();
        segment.clear_rest().unwrap();
        let mut writer = segment.writer().unwrap();
        assert!(segment.clear_rest().is_err());
        writer.seal();
        assert_eq!(segment.bytes()[..10], [7; 10]);
        assert!(segment.bytes()[10..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_writer_publishes_to_readers_on_other_threads() {
        let (_dir, segment) = segment(1 << 16);
        let reader = Arc::clone(&segment);
        let thread = std::thread::spawn(move || {
            loop {
                let bytes = reader.bytes();
                for (i, word) in bytes.chunks_exact(4).enumerate() {
                    assert_eq!(word, (i as u32 + 1).to_be_bytes());
                }
                if bytes.len() == reader.len() {
                    return;
                }
            }
        });
        let mut writer = segment.writer().unwrap();
        for i in 0..(1u32 << 14) {
            writer.append(4, |free| free.copy_from_slice(&(i + 1).to_be_bytes())).unwrap();
        }
        thread.join().unwrap();
    }
}
