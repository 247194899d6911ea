//! Flow control of groups that read cold data (`coldDataFlowControlEnable`).
//!
//! Messages far behind the end of the log must be read from the disk. Each group may read so many bytes of them within a
//! period, and all groups together; a group that has used up its share is put off. An administrator may give a group a
//! limit of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use config::{BrokerConfig, Live, MessageStoreConfig};
use parking_lot::RwLock;
use serde::Serialize;

use crate::names;

/// What is read counts for so long.
pub const PERIOD: Duration = Duration::from_secs(5);
/// A group that reads no cold data is shown for so long (ms).
const SHOWN_MILLIS: i64 = 60_000;

/// Limits, and what is read of them.
pub struct ColdControl {
    config: Arc<Live<BrokerConfig>>,
    store_config: Arc<Live<MessageStoreConfig>>,
    /// Limits of single groups, in bytes a period.
    limits: RwLock<BTreeMap<String, i64>>,
    groups: RwLock<HashMap<String, Arc<Share>>>,
    total: AtomicI64,
}

/// What one group has read.
#[derive(Debug)]
struct Share {
    bytes: AtomicI64,
    /// When it read cold data last (ms since the epoch).
    last: AtomicI64,
    first: i64,
}

/// The answer to GET_COLD_DATA_FLOW_CTR_INFO (2003): standard JSON in this order.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ColdInfo {
    runtime_table: BTreeMap<String, ShareInfo>,
    config_table: BTreeMap<String, i64>,
    cg_cold_read_threshold: i64,
    global_cold_read_threshold: i64,
    global_acc: i64,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShareInfo {
    cold_acc: i64,
    create_time_mills: i64,
    last_cold_read_time_mills: i64,
}

impl ColdControl {
    /// Nothing has been read.
    pub fn new(config: Arc<Live<BrokerConfig>>, store_config: Arc<Live<MessageStoreConfig>>) -> ColdControl {
        ColdControl {
            config,
            store_config,
            limits: RwLock::default(),
            groups: RwLock::default(),
            total: AtomicI64::new(0),
        }
    }

    /// Whether cold reads are limited at all.
    pub fn is_on(&self) -> bool {
        self.store_config.load().cold_data_flow_control_enable
    }

    /// Gives a group a limit of its own, in bytes a period.
    pub fn set_limit(&self, group: &str, bytes: i64) {
        self.limits.write().insert(group.to_owned(), bytes);
    }

    /// Takes a group's own limit away.
    pub fn remove_limit(&self, group: &str) {
        self.limits.write().remove(group);
    }

    /// Counts cold bytes that a group has read at `now` (ms since the epoch).
    pub fn count(&self, group: &str, bytes: i64, now: i64) {
        if bytes <= 0 || names::is_system_group(group) {
            return;
        }
        self.total.fetch_add(bytes, Ordering::Relaxed);
        let add = |share: &Share| {
            share.bytes.fetch_add(bytes, Ordering::Relaxed);
            share.last.store(now, Ordering::Relaxed);
        };
        if let Some(share) = self.groups.read().get(group) {
            return add(share);
        }
        let new = || Arc::new(Share { bytes: AtomicI64::new(0), last: AtomicI64::new(now), first: now });
        add(self.groups.write().entry(group.to_owned()).or_insert_with(new));
    }

    /// Whether a group has used up its share of this period.
    pub fn is_used_up(&self, group: &str) -> bool {
        if names::is_system_group(group) {
            return false;
        }
        let Some(share) = self.groups.read().get(group).cloned() else { return false };
        let config = self.config.load();
        let limit = self.limits.read().get(group).copied().unwrap_or(config.cg_cold_read_threshold);
        share.bytes.load(Ordering::Relaxed) >= limit
            || self.total.load(Ordering::Relaxed) >= config.global_cold_read_threshold
    }

    /// A period ends: nobody has read anything, and who reads no cold data is not shown any more.
    pub fn end_period(&self, now: i64) {
        self.groups.write().retain(|_, share| {
            share.bytes.store(0, Ordering::Relaxed);
            now < share.last.load(Ordering::Relaxed) + SHOWN_MILLIS
        });
        self.total.store(0, Ordering::Relaxed);
    }

    /// Limits and what is read of them.
    pub fn info(&self) -> ColdInfo {
        let config = self.config.load();
        let groups = self.groups.read();
        let runtime_table = groups.iter().map(|(group, share)| {
            let info = ShareInfo {
                cold_acc: share.bytes.load(Ordering::Relaxed),
                create_time_mills: share.first,
                last_cold_read_time_mills: share.last.load(Ordering::Relaxed),
            };
            (group.clone(), info)
        });
        ColdInfo {
            runtime_table: runtime_table.collect(),
            config_table: self.limits.read().clone(),
            cg_cold_read_threshold: config.cg_cold_read_threshold,
            global_cold_read_threshold: config.global_cold_read_threshold,
            global_acc: self.total.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> ColdControl {
        let config =
            BrokerConfig { cg_cold_read_threshold: 1000, global_cold_read_threshold: 5000, ..Default::default() };
        ColdControl::new(Arc::new(Live::new(config)), Arc::default())
    }

    #[test]
    fn a_group_has_a_share() {
        let cold = control();
        cold.count("G", 999, 0);
        assert!(!cold.is_used_up("G"));
        cold.count("G", 1, 0);
        assert!(cold.is_used_up("G") && !cold.is_used_up("H"));
        cold.set_limit("G", 2000);
        assert!(!cold.is_used_up("G"));
        cold.remove_limit("G");
        cold.end_period(1);
        assert!(!cold.is_used_up("G"));
        cold.count("TOOLS_CONSUMER", 9_000_000, 0);
        assert!(!cold.is_used_up("TOOLS_CONSUMER"));
        assert_eq!(cold.info().global_acc, 0);
    }

    #[test]
    fn all_groups_have_a_share() {
        let cold = control();
        for group in ["A", "B", "C", "D", "E", "F", "G"] {
            cold.count(group, 800, 0);
        }
        assert!(cold.is_used_up("A"));
    }

    #[test]
    fn what_is_shown() {
        let cold = control();
        cold.set_limit("H", 7);
        cold.count("G", 5, 60);
        let text = r#"{"runtimeTable":{"G":{"coldAcc":5,"createTimeMills":60,"lastColdReadTimeMills":60}},"configTable":{"H":7},"cgColdReadThreshold":1000,"globalColdReadThreshold":5000,"globalAcc":5}"#;
        assert_eq!(serde_json::to_string(&cold.info()).unwrap(), text);
        cold.end_period(60_059);
        assert_eq!(cold.info().runtime_table.len(), 1);
        cold.end_period(60_060);
        assert_eq!(cold.info().runtime_table.len(), 0);
    }
}
