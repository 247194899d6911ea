//! The disk: how full it is, and which old files go.
//!
//! Every ten seconds (`cleanResourceInterval`), as Java:
//! - above `diskSpaceWarningLevelRatio` appends are refused; they are taken again at `diskSpaceCleanForciblyRatio`;
//! - above `diskSpaceCleanForciblyRatio` the oldest files go, whatever their age (`cleanFileForciblyEnable`);
//! - above `diskMaxUsedSpaceRatio`, or in the hours of `deleteWhen`, files older than `fileReservedTime` go;
//! - at most `deleteFileBatchMax` files at a time, and never the last one.

use std::path::Path;
use std::time::{Duration, SystemTime};

use config::MessageStoreConfig;

use crate::commitlog::CommitLog;
use crate::error::StoreError;
use crate::index::Index;
use crate::queue::QueueTable;

/// What to do at a level of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    /// Refuse appends; `None` leaves it as it is.
    full: Option<bool>,
    /// Delete files by age.
    delete: bool,
    /// Delete files of any age.
    at_once: bool,
}

/// Looks at the disk and deletes what has to go.
///
/// # Errors
/// A file could not be deleted.
pub(crate) fn check(
    config: &MessageStoreConfig,
    log: &CommitLog,
    queues: &QueueTable,
    index: Option<&Index>,
) -> Result<(), StoreError> {
    let ratio = |path: &Path| used_ratio(path).unwrap_or(-1.0);
    let used = ratio(log.segments().dir()).max(ratio(&config.root_dir()));
    let level = level(config, used);
    if let Some(full) = level.full
        && log.set_disk_full(full) != full
    {
        tracing::warn!(used, full, "the disk level of the store has changed");
    }
    let hour = chrono::Timelike::hour(&chrono::Local::now());
    if level.delete || is_hour_to_delete(&config.delete_when, hour) {
        delete_old(config, log, level.at_once && config.clean_file_forcibly_enable)?;
    }
    let start = log.range().start;
    let gone = queues.delete_expired(start)?;
    let index_gone = index.map_or(Ok(0), |index| index.delete_expired(start))?;
    if gone + index_gone > 0 {
        tracing::info!(queue_files = gone, index_files = index_gone, "files that point before the log are deleted");
    }
    Ok(())
}

fn delete_old(config: &MessageStoreConfig, log: &CommitLog, at_once: bool) -> Result<(), StoreError> {
    let hours = u64::try_from(config.file_reserved_time).unwrap_or(0);
    let age = Duration::from_secs(hours * 3600);
    let most = usize::try_from(config.delete_file_batch_max).unwrap_or(0).max(1);
    let now = SystemTime::now();
    let mut count = 0;
    let gone = log.segments().delete_first(|segment| {
        let modified = std::fs::metadata(segment.path()).and_then(|meta| meta.modified());
        let old = modified.is_ok_and(|modified| now.duration_since(modified).is_ok_and(|since| since >= age));
        count += 1;
        count <= most && (at_once || old)
    })?;
    if gone > 0 {
        tracing::info!(files = gone, at_once, start = log.range().start, "old log files are deleted");
    }
    Ok(())
}

fn level(config: &MessageStoreConfig, used: f64) -> Level {
    // Java's bounds on what can be configured.
    let warning = (f64::from(config.disk_space_warning_level_ratio) / 100.0).clamp(0.35, 0.90);
    let forcibly = (f64::from(config.disk_space_clean_forcibly_ratio) / 100.0).clamp(0.30, 0.85);
    let reclaim = f64::from(config.disk_max_used_ratio()) / 100.0;
    if used > warning {
        Level { full: Some(true), delete: true, at_once: true }
    } else if used > forcibly {
        Level { full: None, delete: true, at_once: true }
    } else {
        // Below 0: unknown, which counts as too much, as in Java.
        Level { full: Some(false), delete: used < 0.0 || used > reclaim, at_once: false }
    }
}

/// `deleteWhen`: hours of the day, such as `04` or `04;16`.
fn is_hour_to_delete(hours: &str, hour: u32) -> bool {
    hours.split(';').any(|text| text.trim().parse() == Ok(hour))
}

/// The share of a partition that is used, counted as `df` does: what only root may use counts as not there, and whole
/// percents are rounded up.
/// `None` when the system refuses, or for a partition of no size.
pub fn used_ratio(path: &Path) -> Option<f64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let used = u128::from(stat.f_blocks.saturating_sub(stat.f_bfree));
    let all = used + u128::from(stat.f_bavail);
    (all > 0).then(|| (used * 100).div_ceil(all) as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        let config = MessageStoreConfig::default();
        let ok = Level { full: Some(false), delete: false, at_once: false };
        assert_eq!(level(&config, 0.75), ok);
        assert_eq!(level(&config, 0.76), Level { delete: true, ..ok });
        assert_eq!(level(&config, 0.86), Level { full: None, delete: true, at_once: true });
        assert_eq!(level(&config, 0.91), Level { full: Some(true), delete: true, at_once: true });
        assert_eq!(level(&config, -1.0), Level { delete: true, ..ok });
        let config = MessageStoreConfig { disk_space_warning_level_ratio: 10, ..config };
        assert_eq!(level(&config, 0.34), ok);
        assert_eq!(level(&config, 0.36).full, Some(true));
    }

    #[test]
    fn hours() {
        assert!(is_hour_to_delete("04", 4));
        assert!(is_hour_to_delete("04;16", 16));
        assert!(!is_hour_to_delete("04;16", 5));
        assert!(!is_hour_to_delete("", 0));
    }

    #[test]
    fn a_ratio_is_a_ratio() {
        let used = used_ratio(Path::new("/")).unwrap();
        assert!((0.0..=1.0).contains(&used), "{used}");
        assert_eq!(used_ratio(Path::new("/no/such/path")), None);
    }

    #[test]
    fn old_files_go_but_never_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let log = CommitLog::load(dir.path().join("commitlog"), 4096).unwrap();
        for base in 0..5 {
            log.segments().create(base * 4096).unwrap();
        }
        let config =
            MessageStoreConfig { file_reserved_time: 72, delete_file_batch_max: 2, ..MessageStoreConfig::default() };
        delete_old(&config, &log, false).unwrap();
        assert_eq!(log.segments().snapshot().len(), 5);
        let old = SystemTime::now() - Duration::from_secs(73 * 3600);
        let path = log.segments().path_of(0);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        delete_old(&config, &log, false).unwrap();
        assert_eq!(log.segments().snapshot().len(), 4);
        delete_old(&config, &log, true).unwrap();
        assert_eq!(log.segments().snapshot().len(), 2);
        delete_old(&config, &log, true).unwrap();
        assert_eq!(log.segments().snapshot().len(), 1);
    }
}
