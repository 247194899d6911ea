//! Buffers between the writer of a row of segments and the files: what is appended is gathered in locked memory, and put
//! into the files later, in one go.
//!
//! Invariant: parts are handed over in the order of the row and copied in that order, so what is published has no holes.
//! Threads: the one [`super::SegmentWriter`] fills a buffer and hands it over; anybody may call [`Stage::commit`], one at a
//! time copies.
//! Crash: what is in a buffer is gone.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::MmapMut;
use parking_lot::Mutex;

use super::append::Segment;

/// Memory that is not swapped out.
#[derive(Debug)]
pub(super) struct Buffer(MmapMut);

impl Buffer {
    fn new(len: usize) -> io::Result<Buffer> {
        let memory = MmapMut::map_anon(len)?;
        if let Err(error) = memory.lock() {
            tracing::warn!(%error, len, "a buffer of the store pool could not be locked in memory");
        }
        Ok(Buffer(memory))
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// A filled buffer.
struct Part {
    segment: Arc<Segment>,
    /// Where it goes.
    at: usize,
    buffer: Buffer,
    len: usize,
}

/// What waits to be copied.
enum Waiting {
    Part(Part),
    /// The rest of a segment is published as it is.
    Seal(Arc<Segment>),
}

/// See the module's text.
pub struct Stage {
    buffer_len: usize,
    free: Mutex<Vec<Buffer>>,
    /// Length of that list.
    remaining: AtomicUsize,
    waiting: Mutex<VecDeque<Waiting>>,
    committing: Mutex<()>,
}

impl Stage {
    /// A stage with so many buffers of a length, at least one.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn new(buffers: usize, buffer_len: usize) -> io::Result<Arc<Stage>> {
        let free = (0..buffers.max(1)).map(|_| Buffer::new(buffer_len)).collect::<io::Result<Vec<_>>>()?;
        Ok(Arc::new(Stage {
            buffer_len,
            remaining: AtomicUsize::new(free.len()),
            free: Mutex::new(free),
            waiting: Mutex::default(),
            committing: Mutex::default(),
        }))
    }

    /// Bytes of a buffer.
    pub fn buffer_len(&self) -> usize {
        self.buffer_len
    }

    /// Buffers that nobody fills and that hold nothing.
    pub fn remaining(&self) -> usize {
        self.remaining.load(Ordering::Relaxed)
    }

    /// An empty buffer; when there is none, what waits is copied first.
    pub(super) fn take(&self) -> Buffer {
        loop {
            let mut free = self.free.lock();
            if let Some(buffer) = free.pop() {
                self.remaining.store(free.len(), Ordering::Relaxed);
                return buffer;
            }
            drop(free);
            // The writer has handed over its own, so all others are waiting or being copied.
            self.commit();
        }
    }

    fn give_back(&self, buffer: Buffer) {
        let mut free = self.free.lock();
        free.push(buffer);
        self.remaining.store(free.len(), Ordering::Relaxed);
    }

    /// By the writer of that segment only, in order.
    pub(super) fn hand_over(&self, segment: &Arc<Segment>, at: usize, buffer: Buffer, len: usize) {
        let part = Part { segment: Arc::clone(segment), at, buffer, len };
        self.waiting.lock().push_back(Waiting::Part(part));
    }

    /// By the writer of that segment only, after everything else of it.
    pub(super) fn seal(&self, segment: &Arc<Segment>) {
        self.waiting.lock().push_back(Waiting::Seal(Arc::clone(segment)));
    }

    /// Copies everything that was handed over into the segments and publishes it.
    pub fn commit(&self) {
        let _one_at_a_time = self.committing.lock();
        loop {
            let next = self.waiting.lock().pop_front();
            match next {
                None => return,
                Some(Waiting::Seal(segment)) => segment.publish_rest(),
                Some(Waiting::Part(Part { segment, at, mut buffer, len })) => {
                    segment.publish(at, &buffer.bytes()[..len]);
                    self.give_back(buffer);
                }
            }
        }
    }
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("buffer_len", &self.buffer_len).field("remaining", &self.remaining()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(dir: &std::path::Path, base: u64) -> Arc<Segment> {
        Segment::create(&dir.join(format!("{base:020}")), 4096).unwrap()
    }

    #[test]
    fn what_is_staged_is_published_by_a_commit() {
        let dir = tempfile::tempdir().unwrap();
        let stage = Stage::new(2, 100).unwrap();
        let segment = segment(dir.path(), 0);
        let mut writer = segment.writer().unwrap().staged(Some(&stage));
        writer.append(30, |free| free.fill(1)).unwrap();
        writer.append(30, |free| free.fill(2)).unwrap();
        assert_eq!((segment.published(), writer.position(), stage.remaining()), (0, 60, 1));
        // What was not handed over stays.
        stage.commit();
        assert_eq!(segment.published(), 0);
        writer.hand_over();
        stage.commit();
        assert_eq!((segment.published(), stage.remaining()), (60, 2));
        // Across buffers, and more than there are.
        for i in 0..12 {
            writer.append(30, |free| free.fill(10 + i)).unwrap();
        }
        assert!(segment.published() > 60);
        // Longer than a buffer: straight into the file.
        writer.append(500, |free| free.fill(9)).unwrap();
        assert_eq!(segment.published(), 60 + 360 + 500);
        writer.append(1, |free| free.fill(7)).unwrap();
        writer.seal();
        assert_eq!(segment.published(), 920);
        stage.commit();
        assert_eq!(segment.published(), 4096);
        assert_eq!((segment.bytes()[59], segment.bytes()[60], segment.bytes()[419]), (2, 10, 21));
        assert_eq!(segment.bytes()[420..920], [9; 500]);
        assert_eq!(segment.bytes()[920..922], [7, 0]);
    }

    #[test]
    fn a_writer_that_goes_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let stage = Stage::new(1, 100).unwrap();
        let segment = segment(dir.path(), 0);
        let mut writer = segment.writer().unwrap().staged(Some(&stage));
        writer.append(5, |free| free.fill(1)).unwrap();
        drop(writer);
        assert_eq!((segment.published(), stage.remaining()), (5, 1));
        assert_eq!(segment.writer().unwrap().position(), 5);
    }

    #[test]
    fn commits_beside_the_writer() {
        let dir = tempfile::tempdir().unwrap();
        let stage = Stage::new(3, 64).unwrap();
        let segment = segment(dir.path(), 0);
        let mut writer = segment.writer().unwrap().staged(Some(&stage));
        std::thread::scope(|scope| {
            let committer = scope.spawn(|| {
                while segment.published() < 4000 {
                    stage.commit();
                }
            });
            for i in 0..1000u32 {
                writer.append(4, |free| free.copy_from_slice(&(i + 1).to_be_bytes())).unwrap();
            }
            writer.hand_over();
            committer.join().unwrap();
        });
        for (i, word) in segment.bytes().chunks_exact(4).enumerate() {
            assert_eq!(word, (i as u32 + 1).to_be_bytes());
        }
    }
}
