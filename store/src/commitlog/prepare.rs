//! The next file, made before it is needed, and pages made present in front of the writer.
//!
//! The store's `prepare` thread calls [`CommitLog::prepare`] in a loop. An append that finds no prepared file makes one
//! itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::CommitLog;
use crate::bell::Bell;
use crate::error::StoreError;
use crate::failpoint::{self, Point};
use crate::segment::Segment;

/// So much is made present in front of the write position at a time.
const AHEAD: u64 = 4 << 20;

#[derive(Debug, Default)]
pub(super) struct Prepared {
    slot: Mutex<Slot>,
    bell: Bell,
}

#[derive(Debug, Default)]
struct Slot {
    segment: Option<Arc<Segment>>,
    stopped: bool,
    /// Pages of the current file below this offset are present.
    present: u64,
    /// Files that start at or below this offset have been made, or could not be.
    tried: Option<u64>,
}

impl Prepared {
    /// Called by the appender after each append.
    #[inline]
    pub(super) fn passed(&self, offset: u64) {
        self.bell.passed(offset);
    }

    /// The file that starts at `base`: the prepared one, or one that `make` makes. The prepare thread does not make
    /// it at the same time.
    pub(super) fn take<E>(&self, base: u64, make: impl FnOnce() -> Result<Arc<Segment>, E>) -> Result<Arc<Segment>, E> {
        let mut slot = self.slot.lock();
        if let Some(segment) = slot.segment.take_if(|segment| segment.base() == base) {
            return Ok(segment);
        }
        let segment = make()?;
        slot.tried = Some(base);
        Ok(segment)
    }
}

impl CommitLog {
    /// The `prepare` thread: makes pages present in front of the writer, and the next file once the current one is
    /// three quarters full; sleeps until the writer comes near. Returns after [`CommitLog::stop_preparing`].
    pub fn prepare(&self) {
        // Nothing before the first append: an idle broker should not dirty pages.
        let opened_at = self.opened_at.load(Ordering::Relaxed);
        self.next.bell.wait(opened_at + 1, None, || self.wrote.get());
        while let Some(wake_at) = self.prepare_once() {
            self.next.bell.wait(wake_at, None, || self.wrote.get());
        }
    }

    /// Returns the offset at which there is something to do again; `None` when stopped.
    fn prepare_once(&self) -> Option<u64> {
        let wrote = self.wrote.get();
        let Some(current) = self.segments.last() else {
            // A log that never had a record: the wake was the stop, or the first file is about to appear.
            return (!self.next.slot.lock().stopped).then_some(wrote + 1);
        };
        let (base, end) = (current.base(), current.end());

        let mut slot = self.next.slot.lock();
        let from = slot.present.clamp(wrote.clamp(base, end), end);
        let to = (wrote + 2 * AHEAD).min(end);
        if from < to {
            slot.present = to;
            drop(slot);
            current.prefault((from - base) as usize..(to - base) as usize);
            slot = self.next.slot.lock();
        }
        if slot.stopped {
            return None;
        }
        let due = end - current.len() as u64 / 4;
        if wrote >= due && slot.tried < Some(end) {
            // Under the slot's lock, so that an append that needs the file waits for it instead of making it, too.
            slot.tried = Some(end);
            slot.segment = self.make_next(end);
        }
        let made = slot.tried >= Some(end);
        let more_pages = if to < end { to - AHEAD } else { end };
        let file = if made { end } else { due };
        // The end of the file is reached by the roll; what comes behind it is the next round's.
        Some(more_pages.min(file).max(wrote + 1))
    }

    fn make_next(&self, base: u64) -> Option<Arc<Segment>> {
        let path = self.segments.path_of(base);
        match Segment::create(&path, self.segments.segment_len()) {
            Ok(segment) => {
                failpoint::pass(Point::LogPrepared);
                segment.prefault(0..AHEAD as usize);
                Some(segment)
            }
            Err(error) => {
                // The append that needs the file meets the same error and answers it.
                tracing::warn!(path = %path.display(), %error, "the next commitlog file could not be made");
                None
            }
        }
    }

    /// Ends the `prepare` thread's loop and removes a file that was made but not needed. After
    /// [`CommitLog::refuse`], so that nobody rolls any more.
    ///
    /// # Errors
    /// The file could not be removed.
    pub fn stop_preparing(&self) -> Result<(), StoreError> {
        let unused = {
            let mut slot = self.next.slot.lock();
            slot.stopped = true;
            slot.segment.take()
        };
        self.next.bell.ring();
        match unused {
            Some(segment) => {
                segment.delete().map_err(|source| StoreError::Io { path: segment.path().to_owned(), source })
            }
            None => Ok(()),
        }
    }
}
