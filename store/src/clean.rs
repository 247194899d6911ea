//! Removing what is old: files of the log by age and by the room on the disk, then what points before the log's start.
//!
//! A round each `cleanResourceInterval`, on the store's `clean` thread; see [`Cleaner::round`]. A file loses its name at
//! once, whoever reads it: readers hold the mapping, and the blocks are freed when the last of them lets go. Nothing can
//! hang, so `destroyMapedFileIntervalForcibly` and `redeleteHangedFileInterval` have nothing to do; a file that the system
//! does not let go is tried again in the next round.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use config::MessageStoreConfig;

use crate::commitlog::CommitLog;
use crate::disk::{self, Demand, Gauge, Use};
use crate::error::StoreError;
use crate::index::Index;
use crate::queue::{Queue, QueueTable};

/// A request to delete expired files counts for so many rounds, as in Java.
const ASKED_ROUNDS: u32 = 20;

/// What the cleaner remembers from round to round.
pub(crate) struct Cleaner {
    /// How full the disk is.
    pub(crate) gauge: Gauge,
    /// Rounds left in which expired files go at any hour.
    asked: AtomicU32,
    /// Queues and index hold nothing that points before this offset of the log.
    cleaned: AtomicU64,
    /// A queue could not be written, because there is no room.
    no_space: AtomicBool,
}

/// What a round works on.
pub(crate) struct Round<'a> {
    pub(crate) config: &'a MessageStoreConfig,
    pub(crate) log: &'a CommitLog,
    pub(crate) queues: &'a QueueTable,
    pub(crate) index: Option<&'a Index>,
    /// Up to where the log has been dispatched.
    pub(crate) dispatched: u64,
    /// Sleeps; false when the store closes.
    pub(crate) sleep: &'a dyn Fn(Duration) -> bool,
}

impl Default for Cleaner {
    fn default() -> Cleaner {
        Cleaner {
            gauge: Arc::new(disk::partition),
            asked: AtomicU32::new(0),
            cleaned: AtomicU64::new(0),
            no_space: AtomicBool::new(false),
        }
    }
}

impl Cleaner {
    /// In the next rounds expired files go at any hour.
    pub(crate) fn ask(&self) {
        self.asked.store(ASKED_ROUNDS, Ordering::Release);
    }

    /// Says whether the last try to write a queue failed for want of room. Returns what was said before.
    pub(crate) fn set_no_space(&self, no_space: bool) -> bool {
        self.no_space.swap(no_space, Ordering::AcqRel)
    }

    /// One round: looks at the disk, refuses appends or takes them again, deletes old files of the log, at most
    /// `deleteFileBatchMax` and never the last one; then, when the log starts later than before, what points before its
    /// start.
    ///
    /// # Errors
    /// A file could not be deleted; the next round tries again.
    pub(crate) fn round(&self, round: &Round<'_>) -> Result<(), StoreError> {
        let config = round.config;
        let used = self.look(round);
        let demand = Demand::of(config, used);
        let full = match demand.full {
            _ if self.no_space.load(Ordering::Acquire) => Some(true),
            full => full,
        };
        if let Some(full) = full
            && round.log.set_disk_full(full) != full
        {
            tracing::warn!(?used, full, "the disk level of the store has changed");
        }
        let asked = self.asked.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok();
        let hour = chrono::Timelike::hour(&chrono::Local::now());
        let pace = Pace::new(config.clean_resource_interval, round.sleep);
        if demand.delete || asked || disk::is_hour_to_delete(&config.delete_when, hour) {
            let at_once = demand.at_once && config.clean_file_forcibly_enable;
            let gone = delete_old(config, round.log, at_once, &pace)?;
            if gone > 0 {
                let start = round.log.range().start;
                tracing::info!(files = gone, at_once, asked, ?used, start, "old log files are deleted");
            } else if demand.delete {
                tracing::debug!(?used, "the disk is filling up, and no log file is old enough");
            }
        }
        self.follow(round, &pace)
    }

    fn look(&self, round: &Round<'_>) -> Use {
        let config = round.config;
        let log = (self.gauge)(round.log.segments().dir());
        let queues = (self.gauge)(&config.root_dir().join("consumequeue"));
        let share = (config.replicas_per_disk_partition > 1).then(|| {
            let ours = log.map_or(0, |log| log.bytes) as f64 / f64::from(config.replicas_per_disk_partition);
            if ours > 0.0 { own_bytes(round) as f64 / ours } else { 0.0 }
        });
        let used = |partition: Option<disk::Partition>| partition.map_or(-1.0, |partition| partition.used);
        Use { log: used(log), queues: used(queues), share }
    }

    /// Deletes files of queues and index that point before the log's start.
    fn follow(&self, round: &Round<'_>, pace: &Pace<'_>) -> Result<(), StoreError> {
        let start = round.log.range().start;
        if start <= self.cleaned.load(Ordering::Acquire) {
            return Ok(());
        }
        let min_phys = i64::try_from(start).unwrap_or(i64::MAX);
        let mut files = 0;
        let mut result = Ok(());
        for queue in round.queues.all().iter().filter(|queue| !queue.is_deleted()) {
            match queue.delete_expired(min_phys) {
                Ok(0) => {}
                Ok(gone) => {
                    files += gone;
                    if !pace.pause(round.config.delete_consume_queue_files_interval) {
                        return Ok(());
                    }
                }
                Err(_) if queue.is_deleted() => {}
                Err(error) => result = Err(error),
            }
        }
        let index_files = round.index.map_or(Ok(0), |index| index.delete_expired(start))?;
        if files + index_files > 0 {
            tracing::info!(files, index_files, start, "queue and index files from before the log are deleted");
        }
        result?;
        // A dispatch that is still before the start may add what points there.
        if round.dispatched >= start {
            self.cleaned.store(start, Ordering::Release);
        }
        Ok(())
    }
}

/// Whether everything in a queue points before the log's start. Not a queue with a message that waits for its dispatch.
pub(crate) fn is_dead(queue: &Queue, start: u64) -> bool {
    u64::try_from(queue.max_phys()).is_ok_and(|end| end <= start)
        && queue.next_offset().load(Ordering::Relaxed) <= queue.max_offset()
}

/// Pauses between deletions, so that a device is not swamped by many at a time.
struct Pace<'a> {
    sleep: &'a dyn Fn(Duration) -> bool,
    /// Pauses that are due later are left out: a round must not hold up the next look at the disk.
    until: Instant,
}

impl<'a> Pace<'a> {
    fn new(interval: i32, sleep: &'a dyn Fn(Duration) -> bool) -> Pace<'a> {
        Pace { sleep, until: Instant::now() + millis(interval) }
    }

    /// False when the store closes.
    fn pause(&self, interval: i32) -> bool {
        (self.sleep)(millis(interval).min(self.until.saturating_duration_since(Instant::now())))
    }
}

fn millis(value: i32) -> Duration {
    Duration::from_millis(u64::try_from(value).unwrap_or(0))
}

/// Deletes log files from the front that were last written `fileReservedTime` hours ago, or whatever their age. Returns how
/// many went.
fn delete_old(
    config: &MessageStoreConfig,
    log: &CommitLog,
    at_once: bool,
    pace: &Pace<'_>,
) -> Result<usize, StoreError> {
    let hours = u64::try_from(config.file_reserved_time).unwrap_or(0);
    let age = Duration::from_secs(hours * 3600);
    let most = usize::try_from(config.delete_file_batch_max).unwrap_or(0).max(1);
    let mut gone = 0;
    // One at a time: the pause must not keep the appender from a new file.
    while log.segments().delete_one(|segment| at_once || is_older(segment.path(), age))? {
        gone += 1;
        if gone >= most || !pace.pause(config.delete_commit_log_files_interval) {
            break;
        }
    }
    Ok(gone)
}

fn is_older(path: &Path, age: Duration) -> bool {
    let modified = std::fs::metadata(path).and_then(|meta| meta.modified());
    modified.is_ok_and(|modified| SystemTime::now().duration_since(modified).is_ok_and(|since| since >= age))
}

/// Bytes of all files of the log, the queues and the index.
fn own_bytes(round: &Round<'_>) -> u64 {
    let segments = round.log.segments();
    let log = segments.snapshot().len() as u64 * segments.segment_len() as u64;
    let queues: u64 = round.queues.all().iter().map(|queue| queue.bytes()).sum();
    let files = round.index.map(Index::files).unwrap_or_default();
    let index = files.iter().filter_map(|file| std::fs::metadata(file.path()).ok()).map(|meta| meta.len());
    log + queues + index.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_files_go_but_never_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let log = CommitLog::load(dir.path().join("commitlog"), 4096).unwrap();
        for base in 0..5 {
            log.segments().create(base * 4096).unwrap();
        }
        let config =
            MessageStoreConfig { file_reserved_time: 72, delete_file_batch_max: 2, ..MessageStoreConfig::default() };
        let paused = AtomicU32::new(0);
        let sleep = |time: Duration| {
            assert!(time <= Duration::from_millis(100));
            paused.fetch_add(1, Ordering::Relaxed);
            true
        };
        let delete = |at_once| delete_old(&config, &log, at_once, &Pace::new(10_000, &sleep)).unwrap();
        assert_eq!(delete(false), 0);
        let old = SystemTime::now() - Duration::from_secs(73 * 3600);
        let set_old = |base| {
            let file = std::fs::File::options().write(true).open(log.segments().path_of(base)).unwrap();
            file.set_modified(old).unwrap();
        };
        // One in the middle is not looked at before its turn.
        set_old(4096 * 2);
        assert_eq!(delete(false), 0);
        set_old(0);
        assert_eq!(delete(false), 1);
        assert_eq!(log.segments().snapshot().len(), 4);
        assert_eq!(delete(true), 2);
        assert_eq!(paused.load(Ordering::Relaxed), 2, "a pause between files");
        assert_eq!(delete(true), 1);
        assert_eq!(log.segments().first().unwrap().base(), 4 * 4096);
        assert_eq!(delete(true), 0);
    }

    #[test]
    fn pauses_end_with_the_round_and_with_the_store() {
        let sleep = |time: Duration| time.is_zero();
        assert!(Pace::new(0, &sleep).pause(100));
        assert!(Pace::new(10_000, &sleep).pause(0));
        assert!(Pace::new(10_000, &sleep).pause(-1));
        assert!(!Pace::new(10_000, &sleep).pause(100), "the sleeper says that the store closes");
    }
}
