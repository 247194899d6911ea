//! Values that Java derives from others when they are not set.

use std::path::PathBuf;

use crate::MessageStoreConfig;

impl MessageStoreConfig {
    /// Directory of the store.
    pub fn root_dir(&self) -> PathBuf {
        PathBuf::from(&self.store_path_root_dir)
    }

    /// Directory of the commit log: `storePathCommitLog`, or `commitlog` in the store's directory.
    pub fn commit_log_dir(&self) -> PathBuf {
        self.store_path_commit_log.as_ref().map_or_else(|| self.root_dir().join("commitlog"), PathBuf::from)
    }

    /// Percent of the disk above which old files are deleted at any hour: `diskMaxUsedSpaceRatio` within 10 and 95.
    pub fn disk_max_used_ratio(&self) -> i32 {
        self.disk_max_used_space_ratio.clamp(10, 95)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn paths_follow_the_root_unless_they_are_set() {
        let mut store = MessageStoreConfig { store_path_root_dir: "/data".into(), ..Default::default() };
        assert_eq!(store.commit_log_dir(), PathBuf::from("/data/commitlog"));
        store.store_path_commit_log = Some("/fast/log".into());
        assert_eq!(store.commit_log_dir(), PathBuf::from("/fast/log"));
        assert_eq!(store.get("storePathRootDir").as_deref(), Some("/data"));
    }

    #[test]
    fn odd_numbers_are_brought_into_range() {
        let mut store = MessageStoreConfig { disk_max_used_space_ratio: 3, ..Default::default() };
        assert_eq!(store.disk_max_used_ratio(), 10);
        for (given, kept) in [("-4", 0), ("0", 0), ("20912", 20912)] {
            assert_eq!(store.set("haListenPort", given), Ok(true));
            assert_eq!(store.ha_listen_port, kept);
        }
        for (given, kept) in [("-1", 100), ("150", 100), ("499", 200), ("500", 500), ("999", 500), ("5000", 1000)] {
            assert_eq!(store.set("timerPrecisionMs", given), Ok(true));
            assert_eq!(store.timer_precision_ms, kept);
        }
    }
}
