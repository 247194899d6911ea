//! The answer to GET_BROKER_HA_STATUS (907).

use serde::{Deserialize, Serialize};

/// How replication stands, as seen from one broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HaStatus {
    /// A slave's view of its connection to the master.
    pub ha_client_runtime_info: HaClientInfo,
    /// A master's view of its slaves.
    pub ha_connection_info: Vec<HaConnectionInfo>,
    /// Slaves that are not behind.
    pub in_sync_slave_nums: i32,
    /// Whether the broker is the master.
    pub master: bool,
    /// End of the master's log.
    pub master_commit_log_max_offset: i64,
}

/// A slave's connection to its master.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HaClientInfo {
    /// When something came (ms since the epoch).
    pub last_read_timestamp: i64,
    /// When something was sent (ms since the epoch).
    pub last_write_timestamp: i64,
    /// The master.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_addr: Option<String>,
    /// What the master has on disk.
    pub master_flush_offset: i64,
    /// What the slave has.
    pub max_offset: i64,
    /// Bytes that came in the last second.
    pub transferred_byte_in_second: i64,
}

/// A master's connection to one slave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HaConnectionInfo {
    /// The slave.
    pub addr: String,
    /// Bytes that it is behind.
    pub diff: i64,
    /// Whether it counts as not behind.
    pub in_sync: bool,
    /// What it has acknowledged.
    pub slave_ack_offset: i64,
    /// What is sent next.
    pub transfer_from_where: i64,
    /// Bytes that were sent in the last second.
    pub transferred_byte_in_second: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::fastjson;

    #[test]
    fn a_master_alone() {
        let text = r#"{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,"maxOffset":0,"transferredByteInSecond":0},"haConnectionInfo":[],"inSyncSlaveNums":0,"master":true,"masterCommitLogMaxOffset":2205}"#;
        let status = HaStatus { master: true, master_commit_log_max_offset: 2205, ..HaStatus::default() };
        assert_eq!(String::from_utf8(fastjson::to_vec(&status).unwrap()).unwrap(), text);
    }
}
