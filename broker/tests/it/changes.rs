//! What administrators change while clients work: cases.

use crate::common::client::json;
use crate::common::{Peer, TestBroker, message, number, pull, records};
use remoting::{Command, RequestCode};

async fn delete(peer: &mut Peer, topic: &str) -> i32 {
    peer.call(Command::request(RequestCode::DELETE_TOPIC_IN_BROKER).field("topic", topic)).await.code
}

fn by_key(topic: &str, key: &str) -> Command {
    Command::request(RequestCode::QUERY_MESSAGE)
        .field("topic", topic)
        .field("key", key)
        .field("maxNum", 32)
        .field("beginTimestamp", 0)
        .field("endTimestamp", i64::MAX)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_01_delete_and_recreate_a_topic() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TD", 1, 6).await;
    peer.create_group("GD", "").await;
    for _ in 0..5 {
        peer.put("TD", 0, "KEYS=kd", "old").await;
    }
    let commit = Command::request(RequestCode::UPDATE_CONSUMER_OFFSET)
        .field("consumerGroup", "GD")
        .field("topic", "TD")
        .field("queueId", 0)
        .field("commitOffset", 3);
    assert_eq!(peer.call(commit).await.code, 0);
    assert_eq!((delete(&mut peer, "TD").await, delete(&mut peer, "TD").await), (0, 0));
    assert_eq!(peer.call(pull("GD", "TD", 0, 3, "*")).await.code, 17);
    assert_eq!((delete(&mut peer, "").await, delete(&mut peer, "TBW102").await), (29, 29));

    peer.create_topic("TD", 1, 6).await;
    assert_eq!(number(&peer.put("TD", 0, "", "new").await, "queueOffset"), 0);
    let query = Command::request(RequestCode::QUERY_CONSUMER_OFFSET)
        .field("consumerGroup", "GD")
        .field("topic", "TD")
        .field("queueId", 0);
    assert_eq!(number(&peer.call(query).await, "offset"), 0);
    assert_eq!(peer.max_offset("TD", 0).await, 1);
    // What is in the log stays there.
    let found = records(&peer.call(by_key("TD", "kd")).await.body);
    assert_eq!(found.iter().map(|record| record.body.as_str()).collect::<Vec<_>>(), ["old"; 5]);
    broker.stop().await;
}

/// The broker's part; the name server's is in `namesrv/tests/cases.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn a_03_config_change_over_the_wire() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, 6).await;
    let update = |body: &str| Command::request(RequestCode::UPDATE_BROKER_CONFIG).body(body.as_bytes().to_vec());
    let mut versions = Vec::new();
    for (body, code) in [
        ("brokerConfigPath=/tmp/x", 16),
        ("maxMessageSize=9000\nrocketmqHome=/tmp/x", 16),
        ("maxMessageSize=2048", 0),
        // Java answers with success and keeps the old value, too.
        ("maxMessageSize=abc", 1),
    ] {
        let answer = peer.call(update(body)).await;
        assert_eq!(answer.code, code, "{body}");
        if code == 16 {
            assert_eq!(answer.remark.as_deref(), Some("Can not update config in black list."));
        }
        let answer = peer.call(Command::request(RequestCode::GET_BROKER_CONFIG)).await;
        let version: serde_json::Value = serde_json::from_str(answer.get("version").unwrap()).unwrap();
        versions.push(version["counter"].as_i64().unwrap());
        let lines = String::from_utf8(answer.body.to_vec()).unwrap();
        let size = lines.lines().find_map(|line| line.strip_prefix("maxMessageSize=")).unwrap();
        assert_eq!(size, if versions.len() < 3 { "4194304" } else { "2048" });
        assert!(!lines.contains("/tmp/x"));
    }
    assert_eq!(versions, [0, 0, 1, 1]);
    let answer = peer.call(message("T1", 0, "", &"x".repeat(3000))).await;
    assert_eq!(answer.code, 13);
    assert!(answer.remark.as_deref().unwrap().contains("2048B"), "{:?}", answer.remark);
    peer.put("T1", 0, "", &"x".repeat(1000)).await;
    let table = json(&peer.call(Command::request(RequestCode::GET_BROKER_RUNTIME_INFO)).await);
    assert_eq!(table["table"]["msgPutTotalTodayNow"], "1");
    broker.stop().await;
}
