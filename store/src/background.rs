//! The store's parts, its threads, and its end.
//!
//! Threads: `commit` empties the store pool, when there is one, `flush` puts the log on disk, `reput` dispatches what appenders leave, `prepare` makes the next log file,
//! `flush-queues` puts what is derived from the log on disk and writes the checkpoint, `clean` watches the disk and lets
//! go of queue files that nobody uses, `compact` rewrites the logs of compaction topics. All sleep while there is nothing to do.

mod closing;
mod derived;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use config::FlushDiskType;
use parking_lot::Mutex;

use crate::abort::AbortFile;
use crate::bell::Bell;
use crate::checkpoint::Checkpoint;
use crate::clean::{self, Cleaner, Round};
use crate::commitlog::{CommitLog, CommitTimes, now_millis};
use crate::compaction::Compaction;
use crate::disk::Gauge;
use crate::dispatch::{Dispatcher, Drained};
use crate::error::StoreError;
use crate::flush::Flusher;
use crate::index::Index;
use crate::lock::StoreLock;
use crate::queue::{Queue, QueueTable};
use crate::retention::Retention;
use crate::types::{StoreOptions, TopicPolicy};

/// How long a reader waits for another thread that is dispatching.
const CATCH_UP: Duration = Duration::from_millis(20);
/// A caller of [`Core::dispatch`] feeds at most so many bytes of the log before it hands over.
const INLINE_BUDGET: u64 = 1 << 20;
/// The `reput` thread reports arrivals at least after so many bytes.
const REPUT_BUDGET: u64 = 4 << 20;
/// After so many failures in a row, a second apart, appends are refused: the queues cannot be written.
const DISPATCH_TRIES: u32 = 30;

/// Whether the store works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why appends are refused until a restart: closing, or something failed.
    pub refusal: Option<&'static str>,
    /// Appends are refused as long as the disk is above its warning level, or has no room for the consume queues.
    pub disk_full: bool,
    /// A sync of the log failed.
    pub flush_failed: bool,
}

impl Health {
    /// Why messages are refused now; `None` when they are taken.
    pub fn why_refused(&self) -> Option<&'static str> {
        self.refusal.or(self.disk_full.then_some("the disk is full"))
    }
}

/// Everything that an open store has. Shared by [`crate::Store`] and the threads.
pub(crate) struct Core {
    pub(crate) options: StoreOptions,
    pub(crate) log: Arc<CommitLog>,
    pub(crate) queues: Arc<QueueTable>,
    pub(crate) index: Option<Arc<Index>>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) flusher: Flusher,
    /// The logs of compaction topics, when they are enabled.
    compaction: Option<Arc<Compaction>>,
    /// Called when the log may have grown, see [`crate::Store::on_growth`].
    pub(crate) grown: OnceLock<Box<dyn Fn() + Send + Sync>>,
    retention: Retention,
    /// Recovery has fed queues that are not on the device yet.
    unnoted: bool,
    pub(crate) checkpoint: Arc<Checkpoint>,
    abort: AbortFile,
    lock: Mutex<Option<StoreLock>>,
    sync_flush: bool,
    /// Something that is derived from the log could not be synced. Later syncs say nothing about what was lost then: until
    /// the next start the checkpoint stays where it is, from where everything is made again.
    derived_failed: AtomicBool,
    stopped: AtomicBool,
    threads: Mutex<Threads>,
    reput: Bell,
    queue_flush: Bell,
    clean: Bell,
    cleaner: Cleaner,
}

/// The running threads.
#[derive(Debug, Default)]
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Core {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        options: StoreOptions,
        log: Arc<CommitLog>,
        queues: Arc<QueueTable>,
        index: Option<Arc<Index>>,
        dispatcher: Dispatcher,
        checkpoint: Arc<Checkpoint>,
        flusher: Flusher,
        abort: AbortFile,
        lock: StoreLock,
        threads: Threads,
    ) -> Core {
        let sync_flush = options.config.load().flush_disk_type == FlushDiskType::Sync;
        Core {
            options,
            log,
            queues,
            index,
            dispatcher,
            flusher,
            compaction: None,
            grown: OnceLock::new(),
            retention: Retention::default(),
            unnoted: false,
            checkpoint,
            abort,
            lock: Mutex::new(Some(lock)),
            sync_flush,
            derived_failed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            threads: Mutex::new(threads),
            reput: Bell::default(),
            queue_flush: Bell::default(),
            clean: Bell::default(),
            cleaner: Cleaner::default(),
        }
    }

    /// With another way to tell how full the disk is.
    pub(crate) fn with_gauge(mut self, gauge: Gauge) -> Core {
        self.cleaner.gauge = gauge;
        self
    }

    /// With queues to flush and note as soon as that is possible.
    pub(crate) fn with_unnoted(mut self, unnoted: bool) -> Core {
        self.unnoted = unnoted;
        self
    }

    /// With compaction topics.
    pub(crate) fn with_compaction(mut self, compaction: Option<Arc<Compaction>>) -> Core {
        if let Some(compaction) = &compaction {
            self.queues.set_compaction(Arc::clone(compaction));
        }
        self.compaction = compaction;
        self
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// The system has no thread left; those that were started end with [`Core::close`].
    pub(crate) fn start(core: &Arc<Core>) -> Result<(), StoreError> {
        type Body = fn(&Core);
        let bodies: [(&str, Body); 7] = [
            ("commit", Core::run_commit),
            ("flush", |core| core.flusher.run(|| core.flushed())),
            ("reput", Core::run_reput),
            ("prepare", |core| core.log.prepare()),
            ("flush-queues", Core::run_queue_flush),
            ("clean", Core::run_clean),
            ("compact", Core::run_compaction),
        ];
        core.note_files();
        let mut threads = core.threads.lock();
        for (name, body) in bodies {
            let this = Arc::clone(core);
            let run = move || {
                if catch_unwind(AssertUnwindSafe(|| body(&this))).is_err() {
                    tracing::error!(thread = name, "a thread of the store panicked: no more appends until a restart");
                    this.log.refuse("a thread of the store panicked");
                }
            };
            let thread = std::thread::Builder::new().name(format!("store-{name}")).spawn(run);
            threads.0.push(thread.map_err(|source| StoreError::Io { path: core.root(), source })?);
        }
        Ok(())
    }

    fn run_commit(&self) {
        let times = || {
            let config = self.options.config.load();
            let millis = |value: i32| Duration::from_millis(u64::try_from(value).unwrap_or(0));
            CommitTimes {
                interval: millis(config.commit_interval_commit_log),
                thorough: millis(config.commit_commit_log_thorough_interval),
                least_pages: u64::try_from(config.commit_commit_log_least_pages).unwrap_or(0),
            }
        };
        self.log.run_commits(times, || self.stopped(), || self.dispatch());
    }

    /// Whether messages are readable only once they are on disk.
    pub(crate) fn is_sync_flush(&self) -> bool {
        self.sync_flush
    }

    fn root(&self) -> std::path::PathBuf {
        self.options.config.load().root_dir()
    }

    /// Up to where records may be read.
    fn readable_end(&self) -> u64 {
        if self.sync_flush { self.flusher.flushed().get() } else { self.log.wrote().get() }
    }

    /// See [`crate::Store::dispatch`].
    pub(crate) fn dispatch(&self) {
        if let Some(grown) = self.grown.get() {
            grown();
        }
        match self.dispatcher.drain(&self.log, || self.readable_end(), INLINE_BUDGET) {
            Ok(Drained::Done | Drained::Elsewhere) => self.dispatched(),
            Ok(Drained::More) => self.reput.ring(),
            Err(error) => {
                tracing::error!(%error, "dispatch failed");
                self.reput.ring();
            }
        }
    }

    /// See [`crate::Store::catch_up`].
    #[inline]
    pub(crate) fn catch_up(&self) {
        let end = self.readable_end();
        if self.dispatcher.position() < end {
            self.wait_for_dispatch(end);
        }
    }

    #[cold]
    fn wait_for_dispatch(&self, end: u64) {
        let limit = Instant::now() + CATCH_UP;
        loop {
            self.dispatch();
            if self.dispatcher.position() >= end || Instant::now() >= limit {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    #[inline]
    fn dispatched(&self) {
        self.queue_flush.passed(self.dispatcher.position());
        self.note_changed_files();
    }

    #[inline]
    fn note_changed_files(&self) {
        if self.queues.fingerprint() != self.checkpoint.queue_files()
            || self.index_fingerprint() != self.checkpoint.index_files()
        {
            self.note_files();
        }
    }

    #[inline]
    fn index_fingerprint(&self) -> u64 {
        self.index.as_ref().map_or(0, |index| index.fingerprint())
    }

    /// Tells the checkpoint which files of queues and index there are.
    #[cold]
    fn note_files(&self) {
        if let Err(error) = self.checkpoint.write_fingerprints(self.queues.fingerprint(), self.index_fingerprint()) {
            tracing::warn!(%error, "the next start may have to look through the whole log");
        }
    }

    /// See [`crate::Store::delete_topic`].
    pub(crate) fn delete_topic(&self, topic: &str) {
        self.retention.forget(topic);
        let compacted = self.compaction.as_ref().map_or(Ok(()), |compaction| compaction.delete_topic(topic));
        if let Err(error) = compacted.and(self.queues.delete_topic(topic)) {
            tracing::error!(topic, %error, "the topic is forgotten, but not all of its files are gone");
        }
        self.note_files();
    }

    /// See [`crate::Store::set_queue_kind`].
    pub(crate) fn set_queue_kind(&self, topic: &str, batch: bool) -> Result<usize, StoreError> {
        self.queues.set_kind(topic, batch);
        if self.queues.of_topic(topic).iter().all(|queue| queue.is_batch() == batch) {
            return Ok(0);
        }
        // On the device before the first file: after a kill in between the whole log is dispatched again.
        self.queues.set_remaking(true);
        self.note_files();
        let result = self.checkpoint.flush().and_then(|()| self.dispatcher.remake(&self.log, topic, batch));
        self.queues.set_remaking(false);
        self.note_files();
        self.dispatch();
        result
    }

    /// See [`crate::Store::forget_queue`].
    pub(crate) fn forget_queue(&self, queue: &Queue, before: u64) -> Result<bool, StoreError> {
        let result = self.dispatcher.paused(|| match u64::try_from(queue.max_phys()) {
            Ok(end) if end > before => Ok(false),
            _ => self.queues.delete_queue(queue),
        });
        self.note_files();
        self.dispatch();
        result
    }

    /// See [`crate::Store::delete_expired_files`].
    pub(crate) fn delete_expired_files(&self) {
        self.cleaner.ask();
        self.clean.ring();
    }

    /// See [`crate::Store::delete_dead_queues`].
    pub(crate) fn delete_dead_queues(&self, keep: impl Fn(&str) -> bool) -> Result<usize, StoreError> {
        let start = self.log.range().start;
        let result = self.queues.delete_queues(|queue| {
            clean::is_dead(queue, start) && queue.compaction().is_none() && !keep(queue.topic())
        });
        self.note_files();
        result
    }

    /// On the flush thread, after a sync.
    fn flushed(&self) {
        if self.sync_flush {
            self.dispatch();
        }
    }

    fn run_reput(&self) {
        let mut failures = 0;
        while !self.stopped() {
            let timeout = (failures > 0).then_some(Duration::from_secs(1));
            self.reput.wait(u64::MAX, timeout, || 0);
            failures = match self.drain_all() {
                Ok(()) => {
                    if self.cleaner.set_no_space(false) {
                        // To take appends again as soon as the disk's level allows it.
                        self.clean.ring();
                    }
                    0
                }
                // Goes by itself when there is room again; no appends until then.
                Err(error) if error.is_no_space() => {
                    if !self.cleaner.set_no_space(true) {
                        tracing::error!(%error, "no room for the consume queues: appends are refused");
                        self.log.set_disk_full(true);
                        self.clean.ring();
                    }
                    failures.max(1)
                }
                Err(error) => {
                    tracing::error!(%error, failures, "dispatch failed");
                    if failures + 1 == DISPATCH_TRIES {
                        self.log.refuse("the consume queues cannot be written");
                    }
                    failures + 1
                }
            };
        }
    }

    fn drain_all(&self) -> Result<(), StoreError> {
        while let Drained::More = self.dispatcher.drain(&self.log, || self.readable_end(), REPUT_BUDGET)? {}
        self.dispatched();
        Ok(())
    }

    fn run_compaction(&self) {
        if let Some(compaction) = &self.compaction {
            compaction.run(&|| self.stopped());
        }
    }

    /// See [`crate::Store::compact_now`].
    #[cfg(feature = "failpoints")]
    pub(crate) fn compact_now(&self) {
        self.compaction.iter().for_each(|compaction| compaction.compact_all());
    }

    /// Topics that have compacted logs on disk.
    pub(crate) fn compacted_topics(&self) -> Vec<Arc<str>> {
        self.compaction.as_ref().map_or_else(Vec::new, |compaction| compaction.topics_on_disk())
    }

    /// See [`crate::Store::set_topic_policy`].
    pub(crate) fn set_topic_policy(&self, topic: &str, policy: TopicPolicy) -> Result<(), StoreError> {
        let Some(compaction) = self.compaction.as_ref().filter(|_| policy.compaction) else {
            if let Some(compaction) = self.compaction.as_ref().filter(|compaction| compaction.has(topic)) {
                // On a slave: deleted and made anew on the master, as one without the policy.
                compaction.delete_topic(topic)?;
            }
            self.retention.set(topic, policy.keep, &self.queues, &self.log, now_millis());
            return Ok(());
        };
        let result = self.dispatcher.paused(|| compaction.declare(topic, &self.queues));
        self.dispatch();
        result
    }

    fn run_clean(&self) {
        while !self.stopped() {
            let interval = u64::try_from(self.options.config.load().clean_resource_interval).unwrap_or(0).max(1000);
            let sleep = |time: Duration| self.pause_cleaning(time);
            let round = Round {
                config: &self.options.config.load_full(),
                log: &self.log,
                queues: &self.queues,
                index: self.index.as_deref(),
                dispatched: self.dispatcher.position(),
                sleep: &sleep,
            };
            if let Err(error) = self.cleaner.round(&round) {
                tracing::error!(%error, "old files could not be deleted");
            }
            self.retention.apply(&self.queues, &self.log, now_millis());
            self.note_changed_files();
            self.dispatched();
            if self.dispatcher.index_behind() {
                self.reput.ring();
            }
            // What nobody used for a round.
            self.queues.unmap_idle();
            self.queues.forget_unused();
            // A pause within the round may have taken the ring of the end.
            if self.stopped() {
                return;
            }
            self.clean.wait(u64::MAX, Some(Duration::from_millis(interval)), || 0);
        }
    }

    /// A pause of the cleaner within a round, which only the end of the store cuts short: whoever rings for something else
    /// gets another round after this one. False when the store closes.
    fn pause_cleaning(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut rung = false;
        while !self.stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                if rung {
                    self.clean.ring();
                }
                return true;
            }
            self.clean.wait(u64::MAX, Some(left), || 0);
            rung |= Instant::now() < until;
        }
        false
    }

    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// See [`crate::Store::health`].
    pub(crate) fn health(&self) -> Health {
        Health { refusal: self.log.refusal(), disk_full: self.log.disk_full(), flush_failed: self.flusher.failed() }
    }
}
