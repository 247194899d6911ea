//! The table of [`JraftConfig`].

use crate::config_keys;

config_keys! {
/// The controller's JRaft group.
pub struct JraftConfig {
    "jRaftElectionTimeoutMs" j_raft_election_timeout_ms: i32 = 1000, inert,
        "Milliseconds without a leader before an election.";
    "jRaftScanWaitTimeoutMs" j_raft_scan_wait_timeout_ms: i32 = 1000, inert,
        "Milliseconds that a look for silent brokers waits.";
    "jRaftSnapshotIntervalSecs" j_raft_snapshot_interval_secs: i32 = 3600, inert,
        "Seconds between snapshots.";
    "jRaftGroupId" j_raft_group_id: String = "jRaft-Controller".into(), inert,
        "Name of the group.";
    "jRaftServerId" j_raft_server_id: String = "localhost:9880".into(), inert,
        "Own address in the group.";
    "jRaftInitConf" j_raft_init_conf: String = "localhost:9880,localhost:9881,localhost:9882".into(), inert,
        "Addresses of all members, separated by commas.";
    "jRaftControllerRPCAddr" j_raft_controller_rpc_addr: String = "localhost:9770,localhost:9771,localhost:9772".into(), inert,
        "Addresses at which brokers reach the members, separated by commas.";
}}
