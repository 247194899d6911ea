//! Statistics as tools ask for them: VIEW_BROKER_STATS_DATA (315), GET_BROKER_CONSUME_STATS (317), QUERY_CONSUME_QUEUE (321).

use crate::common::client::json;
use crate::common::{Peer, TestBroker, pull};
use remoting::{Command, RequestCode};
use serde_json::{Value, json};

async fn figure(peer: &mut Peer, name: &str, key: &str) -> Command {
    peer.call(Command::request(RequestCode::VIEW_BROKER_STATS_DATA).field("statsName", name).field("statsKey", key))
        .await
}

/// Takes the samples that are due after an hour: those of all windows.
fn tick(broker: &TestBroker) {
    let parts = broker.running().parts();
    parts.stats.tick(3600, || parts.topics.snapshot().iter().map(|topic| topic.stats.clone()).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_of_topics_and_groups() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 4, 6).await;
    peer.create_group("G1", "").await;
    let answer = figure(&mut peer, "TOPIC_PUT_NUMS", "T1").await;
    assert_eq!(answer.code, 1);
    assert_eq!(answer.remark.as_deref(), Some("The stats <TOPIC_PUT_NUMS> <T1> not exist"));
    for _ in 0..6 {
        peer.put("T1", 2, "", "hello").await;
    }
    peer.put("T1", 3, "DELAY=3", "later").await;
    let answer = peer.call(pull("G1", "T1", 2, 0, "*")).await;
    assert_eq!(answer.code, 0);
    tick(&broker);
    let answer = figure(&mut peer, "TOPIC_PUT_NUMS", "T1").await;
    let window = |period: f64| json!({"avgpt": 1.0, "sum": 6, "tps": 6.0 / period});
    let (day, hour, minute) = (window(3600.0), window(600.0), window(10.0));
    assert_eq!(json(&answer), json!({"statsDay": day, "statsHour": hour, "statsMinute": minute}));
    for (name, key, sum) in [
        ("TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX", Some(1)),
        ("TOPIC_PUT_LATENCY", "2@T1", None),
        ("TOPIC_PUT_LATENCY", "3@SCHEDULE_TOPIC_XXXX", Some(0)),
        ("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@2", Some(1)),
        ("GROUP_GET_NUMS", "T1@G1", Some(6)),
        ("GROUP_GET_LATENCY", "2@T1@G1", None),
        ("BROKER_PUT_NUMS", "C1", Some(7)),
        ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "C1", Some(6)),
        ("BROKER_GET_NUMS", "C1", Some(6)),
        ("CHANNEL_ACTIVITY", "CONNECT", Some(1)),
    ] {
        let answer = figure(&mut peer, name, key).await;
        assert_eq!(answer.code, 0, "{name} {key}: {:?}", answer.remark);
        if let Some(sum) = sum {
            assert_eq!(json(&answer)["statsMinute"]["sum"], sum, "{name} {key}");
        }
    }
    // What is deleted is forgotten.
    let delete = Command::request(RequestCode::DELETE_TOPIC_IN_BROKER).field("topic", "T1");
    assert_eq!(peer.call(delete).await.code, 0);
    for (name, key) in [("TOPIC_PUT_NUMS", "T1"), ("TOPIC_PUT_LATENCY", "2@T1"), ("GROUP_GET_NUMS", "T1@G1")] {
        assert_eq!(figure(&mut peer, name, key).await.code, 1, "{name} {key}");
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_group_is_forgotten() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, 6).await;
    peer.create_group("G1", "").await;
    peer.put("T1", 0, "", "hello").await;
    assert_eq!(peer.call(pull("G1", "T1", 0, 0, "*")).await.code, 0);
    assert_eq!(figure(&mut peer, "GROUP_GET_NUMS", "T1@G1").await.code, 0);
    let delete = Command::request(RequestCode::DELETE_SUBSCRIPTIONGROUP).field("groupName", "G1");
    assert_eq!(peer.call(delete).await.code, 0);
    assert_eq!(figure(&mut peer, "GROUP_GET_NUMS", "T1@G1").await.code, 1);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_of_all_groups() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 2, 6).await;
    peer.create_group("G1", "").await;
    for _ in 0..3 {
        peer.put("T1", 1, "", "hello").await;
    }
    let commit = Command::request(RequestCode::UPDATE_CONSUMER_OFFSET)
        .field("consumerGroup", "G1")
        .field("topic", "T1")
        .field("queueId", 1)
        .field("commitOffset", 2);
    assert_eq!(peer.call(commit).await.code, 0);
    let all = Command::request(RequestCode::GET_BROKER_CONSUME_STATS).field("isOrder", false);
    let body = json(&peer.call(all).await);
    assert_eq!((&body["totalDiff"], &body["totalInflightDiff"]), (&json!(1), &json!(-2)));
    assert_eq!(body["brokerAddr"], broker.running().parts().identity.addr);
    let groups = body["consumeStatsList"].as_array().unwrap();
    let of = |name: &str| groups.iter().find_map(|group| group.get(name)).cloned().unwrap();
    assert_eq!(of("TOOLS_CONSUMER"), json!([]));
    let queues = of("G1")[0]["offsetTable"].as_object().unwrap().clone();
    assert_eq!(queues.len(), 2);
    let second: &Value = queues.iter().find(|(key, _)| key.contains("\"queueId\":1")).unwrap().1;
    assert_eq!((&second["brokerOffset"], &second["consumerOffset"]), (&json!(3), &json!(2)));
    assert!(second["lastTimestamp"].as_i64().unwrap() > 0);
    // Topics without order are left out.
    let ordered = Command::request(RequestCode::GET_BROKER_CONSUME_STATS).field("isOrder", true);
    assert_eq!(json(&peer.call(ordered).await)["totalDiff"], 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_queue() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, 6).await;
    for _ in 0..3 {
        peer.put("T1", 0, "TAGS=TagA", "hello").await;
    }
    let query = |queue: i32, index: i64, count: i32| {
        Command::request(RequestCode::QUERY_CONSUME_QUEUE)
            .field("topic", "T1")
            .field("queueId", queue)
            .field("index", index)
            .field("count", count)
    };
    let answer = peer.call(query(0, 1, 5).field("consumerGroup", "G1")).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, Some("not set any response code")));
    let body = json(&answer);
    assert_eq!((&body["minQueueIndex"], &body["maxQueueIndex"]), (&json!(0), &json!(3)));
    assert_eq!(body["filterData"], "G1@T1 is not online!");
    let entries = body["queueData"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!((&entries[0]["tagsCode"], &entries[0]["eval"]), (&json!(2_598_919), &json!(false)));
    assert_eq!(json(&peer.call(query(0, 0, 1)).await)["queueData"].as_array().unwrap().len(), 1);
    let answer = peer.call(query(0, 3, 5)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, Some("Index 3 of 0@T1 is not exist!")));
    let answer = peer.call(query(7, 0, 5)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("7@T1 is not exist!")));
    broker.stop().await;
}

/// Delayed messages count once, when they are delivered; what tools read does not count.
#[tokio::test(flavor = "multi_thread")]
async fn e_04_today_counters() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, 6).await;
    peer.create_group("G1", "").await;
    let today = async |peer: &mut Peer| {
        let table = json(&peer.call(Command::request(RequestCode::GET_BROKER_RUNTIME_INFO)).await)["table"].clone();
        let number = |key: &str| table[key].as_str().unwrap().parse::<i64>().unwrap();
        (number("msgPutTotalTodayNow"), number("msgGetTotalTodayNow"))
    };
    let (puts, gets) = today(&mut peer).await;
    for number in 0..12 {
        peer.put("T1", 0, if number % 4 == 0 { "DELAY=1" } else { "" }, "m").await;
    }
    let limit = std::time::Instant::now() + crate::common::LIMIT;
    while today(&mut peer).await.0 < puts + 12 {
        assert!(std::time::Instant::now() < limit, "a delayed message does not count");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    peer.wait_for_offset("T1", 0, 12).await;
    assert_eq!(today(&mut peer).await, (puts + 12, gets));
    assert_eq!(peer.call(pull("TOOLS_CONSUMER", "T1", 0, 0, "*")).await.code, 0);
    assert_eq!(peer.call(pull("G1", "T1", 0, 8, "*")).await.code, 0);
    assert_eq!(today(&mut peer).await, (puts + 12, gets + 4));
    broker.stop().await;
}
