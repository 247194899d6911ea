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

use super::map::{self, FileMap};
use super::seq::offset_of;
use super::slice::SegmentSlice;
use super::stage::{Buffer, Stage};
use crate::failpoint::{self, Point};

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
        failpoint::hit(Point::LogCreate)?;
        Ok(Segment::over(FileMap::create(path, len)?, base, 0))
    }

    /// As [`Segment::create`], but without blocks: [`Segment::reserve`] must come before each write. For rows of many files
    /// that fill slowly.
    ///
    /// # Errors
    /// As [`Segment::create`].
    pub fn create_sparse(path: &Path, len: usize) -> io::Result<Arc<Segment>> {
        let base = offset_of(path)?;
        Ok(Segment::over(FileMap::create_reserved(path, len, 0)?, base, 0))
    }

    /// Reserves blocks for a range (cut to the file), so that writing there cannot meet a full disk.
    ///
    /// # Errors
    /// The disk is full.
    pub fn reserve(&self, range: Range<usize>) -> io::Result<()> {
        self.map.reserve_to(range.start, range.end)
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
        (!self.written.swap(true, Ordering::Acquire)).then(|| SegmentWriter {
            at: self.published(),
            segment: Arc::clone(self),
            staging: None,
        })
    }

    /// Copies bytes in behind the published ones and publishes them. By a [`Stage`] for the writer of this segment, which
    /// does not write into the file itself meanwhile; one at a time.
    pub(super) fn publish(&self, at: usize, bytes: &[u8]) {
        assert!(at == self.published() && bytes.len() <= self.len() - at);
        // SAFETY: the range lies inside the mapping and is not published (checked above), so no shared slice covers it.
        // A staged writer fills buffers, never the mapping, until everything that it has handed over is published; and
        // the stage lets one thread at a time come here.
        let free = unsafe { std::slice::from_raw_parts_mut(self.map.pointer().add(at), bytes.len()) };
        free.copy_from_slice(bytes);
        self.published.store(at + bytes.len(), Ordering::Release);
    }

    /// Publishes all that is left, as it is. As [`Segment::publish`].
    pub(super) fn publish_rest(&self) {
        self.published.store(self.len(), Ordering::Release);
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

    /// Reads the pages of a range in and waits for the device, so that whoever looks at them next does not. A hint.
    pub fn read_in(&self, range: Range<usize>) {
        self.map.read_in(range.start, range.end);
    }

    /// Tells the system whether to read ahead where the file is read. A hint.
    pub fn advise_read_ahead(&self, on: bool) {
        self.map.advise_read_ahead(on);
    }

    /// Removes the file's name at once; the mapping goes when the last holder drops it.
    ///
    /// # Errors
    /// The name could not be removed; a name that is gone already is none.
    pub fn delete(&self) -> io::Result<()> {
        map::remove(self.path())
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
    staging: Option<Staging>,
}

/// The buffer that is being filled; its first byte goes `len` bytes before the writer's position.
#[derive(Debug)]
struct Staging {
    stage: Arc<Stage>,
    buffer: Option<Buffer>,
    len: usize,
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

    /// The same, in the row of segments.
    pub fn end(&self) -> u64 {
        self.segment.base() + self.at as u64
    }

    /// From now on what is appended goes into buffers of that stage first.
    pub fn staged(mut self, stage: Option<&Arc<Stage>>) -> SegmentWriter {
        self.staging = stage.map(|stage| Staging { stage: Arc::clone(stage), buffer: None, len: 0 });
        self
    }

    /// Hands over what is in the buffer: the next [`Stage::commit`] publishes it. Without a stage nothing waits.
    pub fn hand_over(&mut self) {
        if let Some(staging) = &mut self.staging
            && let Some(buffer) = staging.buffer.take()
        {
            let len = std::mem::take(&mut staging.len);
            staging.stage.hand_over(&self.segment, self.at - len, buffer, len);
        }
    }

    #[cold]
    fn append_staged<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        if self.staging.as_ref().is_some_and(|staging| staging.len + len > staging.stage.buffer_len()) {
            self.hand_over();
        }
        let Some(staging) = &mut self.staging else { return fill(&mut []) };
        if len > staging.stage.buffer_len() {
            staging.stage.commit();
            let mut bytes = vec![0; len];
            let result = fill(&mut bytes);
            self.segment.publish(self.at, &bytes);
            self.at += len;
            return result;
        }
        let buffer = staging.buffer.get_or_insert_with(|| staging.stage.take());
        let result = fill(&mut buffer.bytes()[staging.len..staging.len + len]);
        staging.len += len;
        self.at += len;
        result
    }

    /// Bytes left.
    pub fn room(&self) -> usize {
        self.segment.len() - self.at
    }

    /// Lets `fill` write `len` bytes behind the last and publishes them; with a stage they are published later.
    ///
    /// The slice holds anything: `fill` writes all of it.
    ///
    /// # Errors
    /// No room in the file; nothing is written then.
    #[inline]
    pub fn append<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> io::Result<R> {
        if len > self.room() {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "no room in the file"));
        }
        if self.staging.is_some() {
            return Ok(self.append_staged(len, fill));
        }
        // SAFETY: `[at, at + len)` lies inside the mapping (checked above). It is not published, so no shared slice
        // covers it, and `self` is the only writer of the segment and is borrowed exclusively.
        let free = unsafe { std::slice::from_raw_parts_mut(self.segment.map.pointer().add(self.at), len) };
        failpoint::hit(Point::AppendRecord)?;
        let result = fill(free);
        failpoint::end_with(Point::AppendHalf, || free[len / 2..].fill(0));
        failpoint::pass(Point::AppendBytes);
        self.at += len;
        self.segment.published.store(self.at, Ordering::Release);
        Ok(result)
    }

    /// Publishes all that is left, as it is (zeros): the file is full.
    pub fn seal(&mut self) {
        self.hand_over();
        self.at = self.segment.len();
        if let Some(staging) = &self.staging {
            return staging.stage.seal(&self.segment);
        }
        self.segment.published.store(self.at, Ordering::Release);
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        // Before another writer may come.
        self.hand_over();
        if let Some(staging) = &self.staging {
            staging.stage.commit();
        }
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
