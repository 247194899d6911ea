//! Members of groups that come, go and die, and where new groups begin.

use std::time::Duration;

use compat_tests::harness::{BrokerOptions, ClientVersion, Connection, Frame, Scenarios, Servers, until};

const DELETE_EXPIRED_COMMITLOG: i32 = 329;

/// The figures are in the verdicts (`--nocapture`); the scenarios hold them against their limit.
fn rebalance(configured: impl Fn(Scenarios) -> Scenarios) {
    let servers = Servers::start(&BrokerOptions::new("broker-a"));
    configured(Scenarios::new(&servers.namesrv())).run("rebalance-join-leave,rebalance-crash");
    servers.stop();
}

/// A client of 5.5.0 shares out queues a second after its start, when its first regular heartbeat is under way: then it keeps the new version of
/// its subscription to itself, and no broker may serve its pulls before the next heartbeat. With a shorter pause the two do not meet.
#[test]
fn queues_move_at_once_with_the_5_5_0_client() {
    rebalance(|scenarios| scenarios.jvm("-Drocketmq.client.rebalance.minInterval=200"));
}

#[test]
fn queues_move_at_once_with_the_4_9_8_client() {
    rebalance(|scenarios| scenarios.version(ClientVersion::V4_9_8));
}

#[test]
fn locks_outlive_their_killed_owner_by_a_minute() {
    let servers = Servers::start(&BrokerOptions::new("broker-a"));
    Scenarios::new(&servers.namesrv()).run("rebalance-crash-orderly");
    servers.stop();
}

#[test]
fn where_new_groups_begin_when_the_first_messages_are_gone() {
    let options = BrokerOptions::new("broker-a").set("mappedFileSizeCommitLog", "1048576").set("fileReservedTime", "0");
    let servers = Servers::start(&options);
    for version in [ClientVersion::V5_5_0, ClientVersion::V4_9_8] {
        let running = Scenarios::new(&servers.namesrv()).version(version).start("from-where-deleted");
        until("the filled file", Duration::from_secs(90), || running.log().contains("FILLED"));
        let answer = Connection::open(&servers.broker()).call(&Frame::request(DELETE_EXPIRED_COMMITLOG));
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        let verdicts = running.finish();
        assert_eq!(verdicts.len(), 1);
    }
    servers.stop();
}
