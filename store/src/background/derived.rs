//! What is derived from the log on its way to the device: the `flush-queues` thread, and the checkpoint behind it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Core;
use crate::error::StoreError;

/// Page size in `flushConsumeQueueLeastPages`.
const PAGE: usize = 4096;

impl Core {
    /// Flushes queues that have enough each `flushIntervalConsumeQueue`, all of them each
    /// `flushConsumeQueueThoroughInterval`, and then the checkpoint.
    pub(super) fn run_queue_flush(&self) {
        let mut safe = self.dispatcher.position();
        let mut thorough = Instant::now();
        let mut unnoted = self.unnoted;
        while !self.stopped() {
            if self.dispatcher.position() <= safe && !unnoted {
                self.queue_flush.wait(safe + 1, None, || self.dispatcher.position());
            }
            if self.stopped() {
                return;
            }
            let config = self.options.config.load_full();
            let millis = |value: i32| Duration::from_millis(u64::try_from(value).unwrap_or(0).max(10));
            self.queue_flush.wait(u64::MAX, Some(millis(config.flush_interval_consume_queue)), || 0);
            if self.stopped() {
                return;
            }
            let all = unnoted || thorough.elapsed() >= millis(config.flush_consume_queue_thorough_interval);
            let least = usize::try_from(config.flush_consume_queue_least_pages).unwrap_or(0) * PAGE;
            let position = self.dispatcher.position();
            let done = if all { self.flush_derived() } else { self.flush_some(least) };
            match done {
                Ok(()) if all => (safe, thorough, unnoted) = (position, Instant::now(), false),
                Ok(()) => {}
                // What is derived can be made again from the log; the checkpoint does not move.
                Err(error) => tracing::error!(%error, "consume queues or index could not be flushed"),
            }
        }
    }

    fn flush_some(&self, least: usize) -> Result<(), StoreError> {
        let done = self
            .queues
            .flush(least)
            .and_then(|()| self.flush_compacted(least))
            .and_then(|()| self.index.as_ref().map_or(Ok(0), |index| index.flush_full()));
        // Without room for what is to be written nothing was begun. A sync never says that, see `of_sync`.
        if let Err(error) = &done
            && !error.is_no_space()
            && !self.derived_failed.swap(true, Ordering::Relaxed)
        {
            tracing::error!(%error, "the checkpoint stays until the next start, which makes queues and index again from there");
        }
        self.note_indexed(done?)
    }

    fn flush_compacted(&self, least: usize) -> Result<(), StoreError> {
        self.compaction.as_ref().map_or(Ok(()), |compaction| compaction.flush(least))
    }

    fn note_indexed(&self, timestamp: i64) -> Result<(), StoreError> {
        let failed = self.derived_failed.load(Ordering::Relaxed);
        if !failed && timestamp > self.checkpoint.index_msg_timestamp.get() {
            self.checkpoint.index_msg_timestamp.set(timestamp);
            self.checkpoint.flush()?;
        }
        Ok(())
    }

    /// See [`crate::Store::sync_all`].
    pub(crate) fn flush_derived(&self) -> Result<(), StoreError> {
        let (timestamp, phys) = self.dispatcher.last();
        self.flush_some(0)?;
        // The checkpoint must not say more of the log than the disk has.
        if timestamp > 0 && self.flusher.flush() && !self.derived_failed.load(Ordering::Relaxed) {
            self.checkpoint.logics_msg_timestamp.raise(timestamp);
            self.checkpoint.logics_phys_offset.raise(phys);
        }
        self.checkpoint.flush()
    }
}
