//! Puts the log on disk: the `flush` thread.
//!
//! One sync serves everybody who waits ([`Flusher::flushed`]); it runs
//! - at once after [`Flusher::request`] (SYNC_FLUSH: group commit);
//! - when [`FLUSH_BYTES`] have gathered, so that the device is kept busy;
//! - at `flushIntervalCommitLog` after the first byte when `flushCommitLogLeastPages` have gathered, else at
//!   `flushCommitLogThoroughInterval`.
//!
//! While nothing is appended the thread sleeps without a time-out.
//!
//! A device that is slower than the appenders would let unflushed bytes grow until the kernel stops whoever dirties a page,
//! which is the holder of the append lock. So appenders are held back before they take the lock
//! ([`Flusher::hold_back`]), long before the kernel would do it.
//!
//! A failed sync is final: pages that could not be written may be marked clean, so a later success would prove
//! nothing. The log takes no more appends then; reads go on, and only a restart with its recovery clears it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use config::{Live, MessageStoreConfig};

use crate::abort::sync_parent;
use crate::checkpoint::Checkpoint;
use crate::commitlog::{CommitLog, now_millis};
use crate::failpoint::{self, Point};
use crate::read::total_memory;
use crate::watermark::Watermark;

/// So many unflushed bytes start a sync by themselves.
pub const FLUSH_BYTES: u64 = 16 << 20;
/// A sync takes at most so many bytes: whoever waits for the first of them need not wait for all.
const CHUNK: u64 = 32 << 20;
/// An append is held back for so long at a time.
const HOLD: Duration = Duration::from_millis(20);
/// Page size in `flushCommitLogLeastPages`.
const PAGE: u64 = 4096;

/// See the module's text.
#[derive(Debug)]
pub struct Flusher {
    log: Arc<CommitLog>,
    checkpoint: Arc<Checkpoint>,
    config: Arc<Live<MessageStoreConfig>>,
    flushed: Watermark,
    requested: AtomicU64,
    /// Appends are held back while more bytes than this are unflushed.
    hold_above: u64,
    /// Since when (ms since the epoch) they are; 0 while they are not.
    held_since: AtomicI64,
    /// Files that start below this are durable with size and name.
    files_durable: AtomicU64,
    stopped: AtomicBool,
    failed: AtomicBool,
}

impl Flusher {
    /// For a log that is on disk up to `flushed`.
    pub fn new(
        log: Arc<CommitLog>,
        flushed: u64,
        checkpoint: Arc<Checkpoint>,
        config: Arc<Live<MessageStoreConfig>>,
    ) -> Flusher {
        Flusher {
            log,
            checkpoint,
            config,
            flushed: Watermark::new(flushed),
            requested: AtomicU64::new(0),
            hold_above: unflushed_limit(),
            held_since: AtomicI64::new(0),
            // The last file may have been made just before the crash.
            files_durable: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    /// How far the log is on disk.
    pub fn flushed(&self) -> &Watermark {
        &self.flushed
    }

    /// Whether a sync has failed.
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Asks for a sync of everything written so far.
    pub fn request(&self) {
        let wrote = self.log.wrote().get();
        if self.requested.fetch_max(wrote, Ordering::SeqCst) < wrote && self.flushed.get() < wrote {
            self.log.flush_bell.ring();
        }
    }

    /// The `flush` thread; calls `flushed` after each sync. Returns after [`Flusher::stop`], with a last sync done.
    pub fn run(&self, flushed: impl Fn()) {
        let mut since = Instant::now();
        while !self.stopped.load(Ordering::SeqCst) && !self.failed() {
            if self.behind() == 0 {
                let next = self.flushed.get() + 1;
                self.log.flush_bell.wait(next, None, || self.log.wrote().get());
                since = Instant::now();
            }
            self.sleep_until_due(since);
            if self.due(since) {
                since = Instant::now();
                if self.flush() {
                    flushed();
                }
            }
        }
        // After a failure waiters run into their own time-outs.
        if self.flush() {
            flushed();
        }
    }

    /// Makes [`Flusher::run`] flush once more and return.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.log.flush_bell.ring();
    }

    /// Syncs everything written so far; false when a sync failed, now or before.
    pub fn flush(&self) -> bool {
        if self.failed() {
            return false;
        }
        // In this order: the record with that timestamp lies below `to`.
        let timestamp = self.log.last_timestamp();
        let to = self.log.wrote().get();
        match self.sync_to(to, timestamp) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, "the log could not be flushed: no more appends until a restart");
                self.failed.store(true, Ordering::Release);
                self.log.refuse("a flush failed");
                false
            }
        }
    }

    /// `timestamp` is that of a record below `to`, or 0.
    fn sync_to(&self, to: u64, timestamp: i64) -> io::Result<()> {
        loop {
            let from = self.flushed.get();
            if from >= to {
                return Ok(());
            }
            let now = to.min(from + CHUNK);
            self.sync(from, now)?;
            failpoint::pass(Point::FlushDone);
            if now == to {
                self.checkpoint.physic_msg_timestamp.raise(timestamp);
            }
            self.flushed.advance(now);
        }
    }

    /// Called before an append: while too much is unflushed it waits, not for long. The caller holds no lock.
    #[inline]
    pub fn hold_back(&self) {
        let unflushed = self.behind();
        if unflushed > self.hold_above || self.held_since.load(Ordering::Relaxed) != 0 {
            self.wait_for_device(unflushed);
        }
    }

    #[cold]
    fn wait_for_device(&self, unflushed: u64) {
        if unflushed <= self.hold_above || self.failed() {
            return self.held_since.store(0, Ordering::Relaxed);
        }
        let _ = self.held_since.compare_exchange(0, now_millis(), Ordering::Relaxed, Ordering::Relaxed);
        self.flushed.wait(self.flushed.get() + unflushed - self.hold_above, HOLD);
    }

    /// For how long (ms) appends have been held back without a break; `None` while they are not.
    pub fn held_for(&self) -> Option<i64> {
        match self.held_since.load(Ordering::Relaxed) {
            0 => None,
            // Nobody may have come by since then.
            _ if self.behind() <= self.hold_above => None,
            since => Some((now_millis() - since).max(0)),
        }
    }

    fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        for segment in self.log.segments().snapshot().iter() {
            if segment.end() <= from || segment.base() >= to {
                continue;
            }
            if segment.base() >= self.files_durable.load(Ordering::Relaxed) {
                failpoint::hit(Point::FlushFile).and_then(|()| segment.sync_all())?;
                failpoint::hit(Point::FlushDir).and_then(|()| sync_parent(segment.path()))?;
                self.files_durable.store(segment.base() + 1, Ordering::Relaxed);
            }
            failpoint::hit(Point::FlushPages)?;
            let start = from.saturating_sub(segment.base()) as usize;
            segment.flush(start..(to.min(segment.end()) - segment.base()) as usize)?;
        }
        Ok(())
    }

    fn behind(&self) -> u64 {
        self.log.wrote().get().saturating_sub(self.flushed.get())
    }

    /// Whether to sync now, when the oldest unflushed byte was written at `since`.
    fn due(&self, since: Instant) -> bool {
        let behind = self.behind();
        if behind == 0 {
            return false;
        }
        let limits = self.limits();
        self.requested.load(Ordering::SeqCst) > self.flushed.get()
            || behind >= FLUSH_BYTES
            || since.elapsed() >= limits.interval && behind >= limits.least
            || since.elapsed() >= limits.thorough
    }

    fn sleep_until_due(&self, since: Instant) {
        let flushed = self.flushed.get();
        let limits = self.limits();
        // Until the interval is over, then until there is enough or the thorough interval is over.
        let (bytes, until) = if since.elapsed() < limits.interval {
            (FLUSH_BYTES, limits.interval)
        } else {
            (limits.least.min(FLUSH_BYTES), limits.thorough)
        };
        let timeout = until.saturating_sub(since.elapsed());
        // The ring of `stop` may have ended an earlier sleep.
        let awake = self.requested.load(Ordering::SeqCst) > flushed || self.stopped.load(Ordering::SeqCst);
        if !awake && !timeout.is_zero() {
            self.log.flush_bell.wait(flushed + bytes, Some(timeout), || self.log.wrote().get());
        }
    }

    fn limits(&self) -> Limits {
        let config = self.config.load();
        let millis = |value: i32| Duration::from_millis(u64::try_from(value).unwrap_or(0));
        Limits {
            interval: millis(config.flush_interval_commit_log),
            thorough: millis(config.flush_commit_log_thorough_interval),
            least: (u64::try_from(config.flush_commit_log_least_pages).unwrap_or(0) * PAGE).max(1),
        }
    }
}

/// Half of what the kernel lets be dirty before it begins to write by itself: pages of queues and index are dirty as well, and
/// it holds writers back at more than twice that.
fn unflushed_limit() -> u64 {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let background = match number("/proc/sys/vm/dirty_background_bytes") {
        Some(bytes @ 1..) => bytes,
        _ => available_memory() / 100 * number("/proc/sys/vm/dirty_background_ratio").unwrap_or(10),
    };
    (background / 2).clamp(32 << 20, 1 << 30)
}

fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib * 1024).min(total_memory())
}

struct Limits {
    interval: Duration,
    thorough: Duration,
    /// Bytes, at least 1.
    least: u64,
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::AtomicI64;

    use super::*;
    use crate::commitlog::{AppendLimits, NextOffset};
    use crate::error::AppendError;
    use crate::types::{Appended, NewMessage};

    struct Setup {
        dir: tempfile::TempDir,
        log: Arc<CommitLog>,
        checkpoint: Arc<Checkpoint>,
        flusher: Flusher,
    }

    fn setup(config: MessageStoreConfig) -> Setup {
        setup_with(config, 4096)
    }

    fn setup_with(config: MessageStoreConfig, file: usize) -> Setup {
        let dir = tempfile::tempdir().unwrap();
        let log = Arc::new(CommitLog::load(dir.path().join("commitlog"), file).unwrap());
        let checkpoint = Arc::new(Checkpoint::open(&dir.path().join("checkpoint")).unwrap());
        let flusher = Flusher::new(Arc::clone(&log), 0, Arc::clone(&checkpoint), Arc::new(Live::new(config)));
        Setup { dir, log, checkpoint, flusher }
    }

    /// No sync comes by itself for an hour.
    fn never() -> MessageStoreConfig {
        let hour = 3_600_000;
        MessageStoreConfig {
            flush_interval_commit_log: hour,
            flush_commit_log_thorough_interval: hour,
            ..MessageStoreConfig::default()
        }
    }

    fn append(log: &CommitLog, len: usize) -> Result<Appended, AppendError> {
        let message = NewMessage {
            flag: 0,
            sys_flag: 0,
            born_timestamp: 0,
            born_host: SocketAddr::from(([127, 0, 0, 1], 1)),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            properties: b"",
            body: &vec![1; len],
        };
        let limits = AppendLimits {
            max_body: 4096,
            long_topics: true,
            crc_property: false,
            store_host: SocketAddr::from(([127, 0, 0, 1], 2)),
        };
        log.append(NextOffset { topic: "T", queue_id: 0, next: &AtomicI64::new(0) }, &message, &limits)
    }

    /// Runs the flush thread beside `body`.
    fn running(setup: &Setup, body: impl FnOnce()) {
        std::thread::scope(|scope| {
            scope.spawn(|| setup.flusher.run(|| ()));
            body();
            setup.flusher.stop();
        });
    }

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn a_request_syncs_across_files_at_once() {
        let setup = setup(never());
        running(&setup, || {
            for _ in 0..10 {
                let appended = append(&setup.log, 1500).unwrap();
                setup.flusher.request();
                assert!(setup.flusher.flushed().wait(appended.end, LIMIT));
                assert_eq!(setup.checkpoint.physic_msg_timestamp.get(), appended.store_timestamp);
            }
        });
        assert!(setup.log.segments().snapshot().len() > 3);
        assert_eq!(setup.flusher.flushed().get(), setup.log.wrote().get());
        drop(setup.dir);
    }

    #[test]
    fn waiters_share_a_sync() {
        let setup = setup(never());
        let syncs = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| setup.flusher.run(|| _ = syncs.fetch_add(1, Ordering::SeqCst)));
            let senders: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..50 {
                            let end = append(&setup.log, 10).unwrap().end;
                            setup.flusher.request();
                            assert!(setup.flusher.flushed().wait(end, LIMIT));
                        }
                    })
                })
                .collect();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            setup.flusher.stop();
        });
        assert!(syncs.load(Ordering::SeqCst) <= 200);
        assert_eq!(setup.flusher.flushed().get(), setup.log.wrote().get());
    }

    #[test]
    fn without_a_request_the_interval_counts() {
        let quick = MessageStoreConfig { flush_interval_commit_log: 5, flush_commit_log_least_pages: 0, ..never() };
        let setup = setup(quick);
        running(&setup, || {
            let end = append(&setup.log, 10).unwrap().end;
            assert!(setup.flusher.flushed().wait(end, LIMIT));
        });
    }

    #[test]
    fn a_little_waits_for_the_thorough_interval() {
        let setup = setup(MessageStoreConfig { flush_interval_commit_log: 1, ..never() });
        running(&setup, || {
            append(&setup.log, 10).unwrap();
            assert!(!setup.flusher.flushed().wait(1, Duration::from_millis(100)));
            // Four pages are enough.
            for _ in 0..8 {
                append(&setup.log, 3000).unwrap();
            }
            assert!(setup.flusher.flushed().wait(4 * PAGE, LIMIT));
        });
    }

    #[test]
    fn much_waits_for_no_interval() {
        let setup = setup_with(never(), 32 << 20);
        running(&setup, || {
            while setup.log.wrote().get() < FLUSH_BYTES {
                append(&setup.log, 4000).unwrap();
            }
            assert!(setup.flusher.flushed().wait(FLUSH_BYTES, LIMIT));
        });
    }

    #[test]
    fn stopping_flushes() {
        let setup = setup(never());
        running(&setup, || _ = append(&setup.log, 10).unwrap());
        assert_eq!(setup.flusher.flushed().get(), setup.log.wrote().get());
    }

    #[test]
    fn appends_are_held_back_while_the_device_is_behind() {
        let mut setup = setup(never());
        setup.flusher.hold_above = 8000;
        for _ in 0..4 {
            append(&setup.log, 1500).unwrap();
            setup.flusher.hold_back();
            assert_eq!(setup.flusher.held_for(), None);
        }
        (0..2).for_each(|_| _ = append(&setup.log, 1500).unwrap());
        let start = Instant::now();
        setup.flusher.hold_back();
        assert!(start.elapsed() >= HOLD && setup.flusher.held_for().is_some(), "nobody flushes");
        // As soon as enough is on the device it goes on.
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(setup.flusher.flush()));
            let start = Instant::now();
            while setup.flusher.held_for().is_some() {
                assert!(start.elapsed() < LIMIT);
                setup.flusher.hold_back();
            }
        });
    }

    #[test]
    fn a_failed_sync_is_final() {
        let setup = setup(never());
        let dir = setup.dir.path().join("commitlog");
        running(&setup, || {
            append(&setup.log, 10).unwrap();
            // The name of the new file cannot be made durable.
            std::fs::remove_dir_all(&dir).unwrap();
            setup.flusher.request();
            let start = Instant::now();
            while !setup.flusher.failed() {
                assert!(start.elapsed() < LIMIT);
                std::thread::yield_now();
            }
        });
        assert!(matches!(append(&setup.log, 10), Err(AppendError::NotWritable("a flush failed"))));
        // Even when the device works again.
        std::fs::create_dir(&dir).unwrap();
        assert!(!setup.flusher.flush());
        assert_eq!(setup.flusher.flushed().get(), 0);
        assert!(setup.log.record_at(0).is_some());
    }
}
