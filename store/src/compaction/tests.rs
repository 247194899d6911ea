//! What the tests of this module share.

use std::sync::Arc;

use super::layout::{Dirs, Sizes};
use super::load;
use super::log::CompactionLog;
use crate::record::{NewRecord, Version, crc32, properties};

/// Looks like a unit and is none.
pub(super) const DIRTY: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 9, 0, 1];

/// A record of a topic's queue 0.
pub(super) fn record(topic: &str, keys: &str, offset: i64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    properties::push(&mut bytes, "KEYS", keys.as_bytes());
    properties::push(&mut bytes, "TAGS", b"TagA");
    let host = "127.0.0.1:10911".parse().unwrap();
    let record = NewRecord {
        version: Version::V1,
        body_crc: crc32(body),
        queue_id: 0,
        flag: 0,
        queue_offset: offset,
        phys_offset: 1_000_000 + offset,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_timestamp: 1000 + offset,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        topic,
        properties: &bytes,
        crc_property: false,
    };
    let mut out = vec![0; record.encoded_len()];
    record.encode(&mut out);
    out
}

/// A directory for compacted logs with few records a file.
pub(super) struct Scratch {
    pub(super) dir: tempfile::TempDir,
    pub(super) sizes: Sizes,
}

impl Scratch {
    pub(super) fn new() -> Scratch {
        Scratch::with_records(4)
    }

    pub(super) fn with_records(count: usize) -> Scratch {
        let cq = 46 * (count + 1);
        Scratch { dir: tempfile::tempdir().unwrap(), sizes: Sizes { log: cq * 20, cq } }
    }

    /// Opens a queue's log as after a crash.
    pub(super) fn log(&self, topic: &str, id: i32) -> Arc<CompactionLog> {
        let dirs = Dirs::of_queue(self.dir.path(), topic, id);
        let parts = load::load(&dirs, self.sizes, false).unwrap().parts;
        Arc::new(CompactionLog::new(topic, id, dirs, self.sizes, parts))
    }
}
