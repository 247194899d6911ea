//! The end of an open store.

use std::io;
use std::sync::atomic::Ordering;

use super::Core;
use crate::error::StoreError;
use crate::failpoint::{self, Point};

impl Core {
    /// See [`crate::Store::close`].
    pub(crate) fn close(&self) {
        self.log.refuse("closed");
        // The lock is held to the end: a second caller returns when everything is done.
        let mut threads = self.threads.lock();
        let Some(lock) = self.lock.lock().take() else { return };
        self.stopped.store(true, Ordering::SeqCst);
        let prepared = self.log.stop_preparing();
        self.log.wake_committer();
        self.flusher.stop();
        for bell in [&self.reput, &self.queue_flush, &self.clean] {
            bell.ring();
        }
        if let Some(compaction) = &self.compaction {
            compaction.wake();
        }
        for thread in threads.0.drain(..) {
            // A panic was reported by the thread.
            let _ = thread.join();
        }
        let clean = prepared.and_then(|()| self.finish());
        match clean {
            Ok(()) => {}
            Err(error) => tracing::error!(%error, "not everything is on disk: the next start recovers"),
        }
        drop(lock);
    }

    /// Dispatches and flushes everything, and removes `abort`.
    fn finish(&self) -> Result<(), StoreError> {
        // Should the thread have ended before.
        self.log.commit();
        if !self.flusher.flush() {
            let source = io::Error::other("a flush of the log failed");
            return Err(StoreError::Io { path: self.log.segments().dir().to_owned(), source });
        }
        let point = |point| failpoint::hit(point).map_err(|source| StoreError::Io { path: self.root(), source });
        point(Point::CloseFlushed)?;
        self.drain_all()?;
        if self.dispatcher.index_behind() {
            let source = io::Error::other("the index could not be written");
            return Err(StoreError::Io { path: self.root().join("index"), source });
        }
        point(Point::CloseDispatched)?;
        self.index.as_ref().map_or(Ok(0), |index| index.flush_all())?;
        self.flush_derived()?;
        if self.compaction.as_ref().is_some_and(|compaction| compaction.is_unsettled()) {
            let source = io::Error::other("a compacted log could not be brought in line with the log");
            return Err(StoreError::Io { path: self.root().join("compaction"), source });
        }
        if self.derived_failed.load(Ordering::Relaxed) {
            let source = io::Error::other("queues or index could not be synced in this life");
            return Err(StoreError::Io { path: self.root(), source });
        }
        point(Point::CloseDerived)?;
        self.abort.remove()
    }
}
