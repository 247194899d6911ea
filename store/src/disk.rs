//! The disk: how full it is, and what that asks for.
//!
//! As Java, by the partitions of the log and of the consume queues:
//! - above `diskSpaceWarningLevelRatio` appends are refused; they are taken again at `diskSpaceCleanForciblyRatio`;
//! - above `diskSpaceCleanForciblyRatio` the oldest files go, whatever their age (with `cleanFileForciblyEnable`);
//! - above `diskMaxUsedSpaceRatio` files older than `fileReservedTime` go at any hour, else in the hours of `deleteWhen`.

use std::path::Path;
use std::sync::Arc;

use config::MessageStoreConfig;

/// How large a partition is, and how full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partition {
    /// The used part, 0 to 1.
    pub used: f64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Tells of the partition that a path lies on; `None` when the system refuses.
pub type Gauge = Arc<dyn Fn(&Path) -> Option<Partition> + Send + Sync>;

/// The partition that a path lies on. Counted as `df` does: what only root may use counts as not there, and whole percents
/// are rounded up. `None` when the system refuses, or for a partition of no size.
pub fn partition(path: &Path) -> Option<Partition> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let used = u128::from(stat.f_blocks.saturating_sub(stat.f_bfree));
    let all = used + u128::from(stat.f_bavail);
    (all > 0).then(|| Partition {
        used: (used * 100).div_ceil(all) as f64 / 100.0,
        bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
    })
}

/// How much is used of what the store may use: parts of 1, below 0 when unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Use {
    /// Of the log's partition.
    pub(crate) log: f64,
    /// Of the consume queues' partition.
    pub(crate) queues: f64,
    /// Of the broker's own share of the partition, when it has one (`replicasPerDiskPartition` above 1).
    pub(crate) share: Option<f64>,
}

/// What a level of use asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Refuse appends; `None` leaves it as it is.
    pub(crate) full: Option<bool>,
    /// Delete files by age.
    pub(crate) delete: bool,
    /// Delete files of any age.
    pub(crate) at_once: bool,
}

impl Demand {
    /// By Java's rules.
    pub(crate) fn of(config: &MessageStoreConfig, used: Use) -> Demand {
        // Java's bounds on what can be configured.
        let warning = (f64::from(config.disk_space_warning_level_ratio) / 100.0).clamp(0.35, 0.90);
        let forcibly = (f64::from(config.disk_space_clean_forcibly_ratio) / 100.0).clamp(0.30, 0.85);
        let reclaim = f64::from(config.disk_max_used_ratio()) / 100.0;
        let full = match used.log {
            log if log > warning => Some(true),
            log if log > forcibly => None,
            _ => Some(used.queues > warning),
        };
        if used.log > forcibly || used.queues > forcibly {
            return Demand { full, delete: true, at_once: true };
        }
        match used.share {
            Some(share) => {
                let at_once = share > config.logical_disk_space_clean_forcibly_threshold;
                Demand { full, delete: at_once || share > reclaim, at_once }
            }
            None => {
                // Unknown counts as too much.
                let much = |used: f64| used < 0.0 || used > reclaim;
                Demand { full, delete: much(used.log) || much(used.queues), at_once: false }
            }
        }
    }
}

/// `deleteWhen`: hours of the day, such as `04` or `04;16`.
pub fn is_hour_to_delete(hours: &str, hour: u32) -> bool {
    hours.split(';').any(|text| text.trim().parse() == Ok(hour))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Demand = Demand { full: Some(false), delete: false, at_once: false };

    fn demand(config: &MessageStoreConfig, log: f64, queues: f64) -> Demand {
        Demand::of(config, Use { log, queues, share: None })
    }

    #[test]
    fn levels_of_the_log() {
        let config = MessageStoreConfig::default();
        assert_eq!(demand(&config, 0.75, 0.0), OK);
        assert_eq!(demand(&config, 0.76, 0.0), Demand { delete: true, ..OK });
        assert_eq!(demand(&config, 0.86, 0.0), Demand { full: None, delete: true, at_once: true });
        assert_eq!(demand(&config, 0.91, 0.0), Demand { full: Some(true), delete: true, at_once: true });
        assert_eq!(demand(&config, -1.0, 0.0), Demand { delete: true, ..OK });
        let config = MessageStoreConfig { disk_space_warning_level_ratio: 10, ..config };
        assert_eq!(demand(&config, 0.34, 0.0).full, Some(false));
        assert_eq!(demand(&config, 0.36, 0.0).full, Some(true));
    }

    #[test]
    fn levels_of_the_queues() {
        let config = MessageStoreConfig::default();
        assert_eq!(demand(&config, 0.5, 0.76), Demand { delete: true, ..OK });
        assert_eq!(demand(&config, 0.5, 0.86), Demand { delete: true, at_once: true, ..OK });
        assert_eq!(demand(&config, 0.5, 0.91), Demand { full: Some(true), delete: true, at_once: true });
        assert_eq!(demand(&config, 0.5, -1.0), Demand { delete: true, ..OK });
        // The log's partition decides first.
        assert_eq!(demand(&config, 0.86, 0.91), Demand { full: None, delete: true, at_once: true });
    }

    #[test]
    fn a_share_of_a_partition_counts_instead_of_the_partition() {
        let config = MessageStoreConfig::default();
        let of = |share| Demand::of(&config, Use { log: 0.8, queues: 0.8, share: Some(share) });
        assert_eq!(of(0.75), OK);
        assert_eq!(of(0.76), Demand { delete: true, ..OK });
        assert_eq!(of(0.81), Demand { delete: true, at_once: true, ..OK });
        let used = Use { log: 0.91, queues: 0.0, share: Some(0.1) };
        assert_eq!(Demand::of(&config, used), Demand { full: Some(true), delete: true, at_once: true });
    }

    #[test]
    fn hours() {
        assert!(is_hour_to_delete("04", 4));
        assert!(is_hour_to_delete("04;16", 16));
        assert!(!is_hour_to_delete("04;16", 5));
        assert!(!is_hour_to_delete("", 0));
    }

    #[test]
    fn a_partition_has_a_size() {
        let root = partition(Path::new("/")).unwrap();
        assert!((0.0..=1.0).contains(&root.used) && root.bytes > 0, "{root:?}");
        assert_eq!(partition(Path::new("/no/such/path")), None);
    }
}
