//! Where the files of compaction topics lie, how long they are, and the unit that closes a queue file.
//!
//! ```text
//! compaction/
//!   position-checkpoint              up to where each queue has been compacted
//!   compactionLog/TOPIC/ID/BASE      whole records, as in the commitlog
//!   compactionLog/TOPIC/ID/compacting/      what a running compaction writes
//!   compactionCq/TOPIC/ID/BASE       a unit of 46 bytes for each record of the log file of the same name
//!   compactionCq/TOPIC/ID/compacting/
//! ```

use std::path::{Path, PathBuf};

use config::MessageStoreConfig;

use crate::queue::unit::BATCH_UNIT_LEN;

/// Directory below the store's root.
pub(super) const ROOT: &str = "compaction";
/// Sub-directory of a queue's directories in which a compaction makes its files. Java reads it at no start.
pub(super) const STAGING: &str = "compacting";

/// Bytes of the two kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// A file of records.
    pub(super) log: usize,
    /// A file of units.
    pub(super) cq: usize,
}

impl Sizes {
    /// From `compactionMappedFileSize` and `compactionCqMappedFileSize`. A queue file has whole units, and a log file the
    /// length of whole queue files, at least five: Java takes one's offsets modulo the other's length.
    pub(super) fn of(config: &MessageStoreConfig) -> Sizes {
        let bytes = |value: i32| usize::try_from(value).unwrap_or(0);
        // Two units: one, and the one that closes the file.
        let cq = (bytes(config.compaction_cq_mapped_file_size) / BATCH_UNIT_LEN).max(2) * BATCH_UNIT_LEN;
        let wanted = bytes(config.compaction_mapped_file_size);
        let (times, rest) = (wanted / cq, wanted % cq);
        let times = match times {
            0..5 => 5,
            _ if rest > 0 && rest < cq / 2 => times,
            _ => times + 1,
        };
        Sizes { log: times * cq, cq }
    }
}

/// The two directories of a queue.
#[derive(Clone, Debug)]
pub(super) struct Dirs {
    /// Of the records.
    pub(super) log: PathBuf,
    /// Of the units.
    pub(super) cq: PathBuf,
}

impl Dirs {
    /// Of a queue below the store's root.
    pub(super) fn of_queue(root: &Path, topic: &str, id: i32) -> Dirs {
        let id = id.to_string();
        let [log, cq] = of_kinds(root);
        Dirs { log: log.join(topic).join(&id), cq: cq.join(topic).join(&id) }
    }

    /// Where a compaction of this queue makes its files.
    pub(super) fn staging(&self) -> Dirs {
        Dirs { log: self.log.join(STAGING), cq: self.cq.join(STAGING) }
    }
}

/// The directories of all logs and all queues.
pub(super) fn of_kinds(root: &Path) -> [PathBuf; 2] {
    ["compactionLog", "compactionCq"].map(|kind| root.join(ROOT).join(kind))
}

/// The unit behind the last one of a closed queue file.
pub(super) const END_UNIT: [u8; BATCH_UNIT_LEN] = {
    let mut bytes = [0; BATCH_UNIT_LEN];
    let mut at = 0;
    while at < 8 {
        bytes[at] = 0xff;
        at += 1;
    }
    // Where a place in a compacted file would be noted: none.
    at = 38;
    while at < 42 {
        bytes[at] = 0xff;
        at += 1;
    }
    bytes
};

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(log: i32, cq: i32) -> Sizes {
        Sizes::of(&MessageStoreConfig {
            compaction_mapped_file_size: log,
            compaction_cq_mapped_file_size: cq,
            ..MessageStoreConfig::default()
        })
    }

    #[test]
    fn sizes_are_javas() {
        assert_eq!(Sizes::of(&MessageStoreConfig::default()), Sizes { log: 104_857_460, cq: 10_485_746 });
        // Too small a log, a remainder of half a queue file and more, none.
        assert_eq!(sizes(1, 100), Sizes { log: 460, cq: 92 });
        assert_eq!(sizes(920 + 45, 92), Sizes { log: 920, cq: 92 });
        assert_eq!(sizes(920 + 46, 92), Sizes { log: 1012, cq: 92 });
        assert_eq!(sizes(920, 92), Sizes { log: 1012, cq: 92 });
        assert_eq!(sizes(-5, -5), Sizes { log: 460, cq: 92 });
    }
}
