//! `transientStorePoolEnable`: messages are gathered in locked memory and put into the files by the `commit` thread.
//!
//! As in Java a message is readable, and can be flushed, once it is committed; [`CommitLog::wrote`] moves by commits then.
//! A process that is killed loses what was not committed, although it was acknowledged: who switches the pool on wants
//! even append times more.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::CommitLog;
use crate::bell::Bell;
use crate::segment::Stage;
use crate::store::Appended;

/// Longest buffer. Java's are as long as a file of the log; all that they need to hold is what comes between two commits.
const BUFFER_LEN: usize = 16 << 20;
/// Page size in `commitCommitLogLeastPages`.
const PAGE: u64 = 4096;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) stage: Arc<Stage>,
    /// How far records are appended, and the store timestamp (ms) of one below.
    appended: AtomicU64,
    timestamp: AtomicI64,
    bell: Bell,
}

/// When to commit.
#[derive(Clone, Copy, Debug)]
pub struct CommitTimes {
    /// `commitIntervalCommitLog`.
    pub interval: Duration,
    /// `commitCommitLogThoroughInterval`: after it fewer than the least pages are committed as well.
    pub thorough: Duration,
    /// `commitCommitLogLeastPages`.
    pub least_pages: u64,
}

impl Pool {
    /// The log was cut, before the first append.
    pub(super) fn reset(&self, end: u64) {
        self.appended.store(end, Ordering::SeqCst);
    }
}

impl CommitLog {
    /// From now on appends go through a pool of so many buffers. Before the first append.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn use_pool(&mut self, buffers: usize) -> io::Result<()> {
        let stage = Stage::new(buffers, BUFFER_LEN.min(self.segments.segment_len()))?;
        let appended = AtomicU64::new(self.wrote.get());
        self.pool = Some(Pool { stage, appended, timestamp: AtomicI64::new(0), bell: Bell::default() });
        Ok(())
    }

    /// Buffers of the pool that are free; `None` without a pool.
    pub fn pool_remaining(&self) -> Option<usize> {
        self.pool.as_ref().map(|pool| pool.stage.remaining())
    }

    /// Bytes that are appended and not yet committed; 0 without a pool.
    pub fn uncommitted(&self) -> u64 {
        self.pool.as_ref().map_or(0, |pool| pool.appended.load(Ordering::Acquire).saturating_sub(self.wrote.get()))
    }

    /// In place of [`CommitLog::published`].
    #[cold]
    pub(super) fn pooled(&self, pool: &Pool, appended: &Appended) {
        pool.timestamp.store(appended.store_timestamp, Ordering::Release);
        pool.appended.fetch_max(appended.end, Ordering::SeqCst);
        pool.bell.passed(appended.end);
    }

    /// Puts everything that is appended into the files and publishes it. False when there was nothing.
    pub fn commit(&self) -> bool {
        let Some(pool) = self.pool.as_ref().filter(|_| self.uncommitted() > 0) else { return false };
        let mut tail = self.tail.lock();
        // Of a record that is in a buffer by now.
        let timestamp = pool.timestamp.load(Ordering::Acquire);
        let end = tail.writer.as_mut().map_or(0, |writer| {
            writer.hand_over();
            writer.end()
        });
        drop(tail);
        pool.stage.commit();
        self.wrote.advance(end);
        self.last_timestamp.store(timestamp, Ordering::Release);
        self.next.passed(end);
        self.flush_bell.passed(end);
        true
    }

    /// The `commit` thread; calls `committed` after each commit. Returns, with everything committed, once `stopped` says so
    /// and [`CommitLog::wake_committer`] was called.
    pub fn run_commits(&self, times: impl Fn() -> CommitTimes, stopped: impl Fn() -> bool, committed: impl Fn()) {
        let Some(pool) = &self.pool else { return };
        let appended = || pool.appended.load(Ordering::SeqCst);
        let mut last = Instant::now();
        while !stopped() {
            if self.uncommitted() == 0 {
                pool.bell.wait(self.wrote.get() + 1, None, appended);
                last = Instant::now();
                continue;
            }
            let times = times();
            // At the interval, or when buffers run short.
            let full = self.wrote.get() + pool.stage.buffer_len() as u64;
            pool.bell.wait(full, Some(times.interval.max(Duration::from_millis(1))), appended);
            let waiting = self.uncommitted();
            let enough = waiting >= (times.least_pages * PAGE).max(1) || last.elapsed() >= times.thorough;
            if enough && self.commit() {
                last = Instant::now();
                committed();
            }
        }
        if self.commit() {
            committed();
        }
    }

    /// Makes the `commit` thread look whether it is to stop.
    pub fn wake_committer(&self) {
        if let Some(pool) = &self.pool {
            pool.bell.ring();
        }
    }
}
