//! When compactions happen: each queue every `compactionScheduleInternal` and a random part of that, at most
//! `compactionThreadNum` at a time.
//!
//! The thread sleeps until one is due; without compaction topics for ever.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use config::MessageStoreConfig;

use super::run::Job;
use super::{Compaction, CompactionLog};

impl Compaction {
    /// Compacts until `stopped` says so; [`Compaction::wake`] makes it look.
    pub(crate) fn run(&self, stopped: &(dyn Fn() -> bool + Sync)) {
        while !stopped() {
            let due = self.all().iter().map(|log| log.due()).min();
            let timeout = due.map(|due| due.saturating_duration_since(Instant::now()));
            if timeout.is_none_or(|timeout| !timeout.is_zero()) {
                self.bell.wait(u64::MAX, timeout, || 0);
            }
            let now = Instant::now();
            let ready: Vec<_> = self.all().into_iter().filter(|log| log.due() <= now).collect();
            if !ready.is_empty() && !stopped() {
                self.compact(&ready, stopped);
            }
        }
    }

    /// Makes [`Compaction::run`] look whether it is to stop.
    pub(crate) fn wake(&self) {
        self.bell.ring();
    }

    /// Compacts all queues. For tests.
    #[cfg(feature = "failpoints")]
    pub(crate) fn compact_all(&self) {
        self.compact(&self.all(), &|| false);
    }

    /// Compacts these queues.
    pub(super) fn compact(&self, logs: &[Arc<CompactionLog>], stopped: &(dyn Fn() -> bool + Sync)) {
        let config = self.config.load_full();
        let threads = threads(&config);
        let map_bytes = usize::try_from(config.max_offset_map_size).unwrap_or(0) / threads;
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(log) = logs.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| !stopped()) {
                let begin = Instant::now();
                match (Job { positions: &self.positions, map_bytes, stopped: &stopped }).run(log) {
                    Ok(None) => {}
                    Ok(Some(done)) => tracing::info!(
                        topic = log.topic(),
                        queue = log.id(),
                        read = done.read,
                        kept = done.kept,
                        millis = begin.elapsed().as_millis(),
                        "compacted"
                    ),
                    Err(error) => {
                        tracing::error!(topic = log.topic(), queue = log.id(), %error, "not compacted, tried again later");
                    }
                }
                self.schedule(log);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(logs.len()) {
                // One that cannot be started leaves its work to the others.
                let _ = std::thread::Builder::new().name("store-compact".to_owned()).spawn_scoped(scope, work);
            }
            work();
        });
    }

    /// Sets when a queue is due next.
    pub(super) fn schedule(&self, log: &CompactionLog) {
        let interval = u64::try_from(self.config.load().compaction_schedule_internal).unwrap_or(0).max(1);
        let random = RandomState::new().hash_one(log.id());
        log.set_due(Instant::now() + Duration::from_millis(interval + 1000 + random % interval));
    }
}

/// Compactions at a time.
fn threads(config: &MessageStoreConfig) -> usize {
    let wanted = usize::try_from(config.compaction_thread_num).unwrap_or(0).max(1);
    std::thread::available_parallelism().map_or(1, usize::from).min(wanted)
}
