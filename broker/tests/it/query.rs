//! Look-ups by key: cases I-*.

use crate::common::{Peer, TestBroker, records, without};
use remoting::{Command, RequestCode};

fn query(topic: &str, key: &str, max: i32) -> Command {
    Command::request(RequestCode::QUERY_MESSAGE)
        .field("topic", topic)
        .field("key", key)
        .field("maxNum", max)
        .field("beginTimestamp", 0)
        .field("endTimestamp", i64::MAX)
}

async fn bodies(peer: &mut Peer, command: Command) -> Vec<String> {
    let answer = peer.call(command).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    assert!(answer.get("indexLastUpdateTimestamp").is_some() && answer.get("indexLastUpdatePhyoffset").is_some());
    records(&answer.body).into_iter().map(|record| record.body).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn i_01_keys_with_equal_hashes() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TK", 1, 6).await;
    peer.put("TK", 0, "KEYS=Aa;", "Aa").await;
    peer.put("TK", 0, "KEYS=BB;", "BB").await;
    for key in ["Aa", "BB"] {
        assert!(bodies(&mut peer, query("TK", key, 32)).await.contains(&key.to_owned()));
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i_03_many_keys() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TK", 1, 6).await;
    peer.put("TK", 0, "KEYS=k1 k2  k3;", "keys").await;
    peer.put("TK", 0, "UNIQ_KEY=UK-1;", "unique").await;
    for i in 0..70 {
        peer.put("TK", 0, "KEYS=dup;", &format!("dup{i}")).await;
    }
    assert_eq!(bodies(&mut peer, query("TK", "k1", 32)).await, ["keys"]);
    assert_eq!(bodies(&mut peer, query("TK", "k3", 32)).await, ["keys"]);
    assert_eq!(bodies(&mut peer, query("TK", "UK-1", 32)).await, ["unique"]);
    let unique = query("TK", "UK-1", 1).field("_UNIQUE_KEY_QUERY", true);
    assert_eq!(bodies(&mut peer, unique).await, ["unique"]);
    for (key, max) in [("k1 k2", 32), ("", 32), ("dup", 0)] {
        let answer = peer.call(query("TK", key, max)).await;
        assert_eq!(answer.code, 22, "{key}");
        assert_eq!(answer.remark.as_deref(), Some("can not find message, maybe time range not correct"));
    }
    assert_eq!(bodies(&mut peer, query("TK", "dup", 100)).await.len(), 64);
    let newest: Vec<_> = (38..70).map(|i| format!("dup{i}")).collect();
    assert_eq!(bodies(&mut peer, query("TK", "dup", 32)).await, newest);
    assert_eq!(bodies(&mut peer, query("TK", "dup", 1)).await, ["dup69"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i_04_missing_fields() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.put("TK", 0, "KEYS=k;", "m").await;
    for field in ["beginTimestamp", "maxNum"] {
        let answer = peer.call(without(query("TK", "k", 32), field)).await;
        assert_eq!(answer.code, 1);
        assert!(answer.remark.unwrap().contains(field));
    }
    assert_eq!(bodies(&mut peer, query("TK", "k", 32)).await, ["m"]);
    broker.stop().await;
}
