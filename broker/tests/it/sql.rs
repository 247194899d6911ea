//! Filters by expression over the wire: case Q-02, subscriptions and their codes, the file, and the consume queue extension.

use std::path::Path;
use std::process::Command as Process;

use crate::common::client::{json, until};
use crate::common::{Peer, TestBroker, number, pull, records, set};
use config::BrokerSetup;
use remoting::{Command, RequestCode};
use serde_json::{Value, json};

const RW: i32 = 6;
/// A pull whose subscription is the group's.
const BY_HEARTBEAT: i32 = 0;

fn with_filters(setup: &mut BrokerSetup) {
    setup.broker.enable_property_filter = true;
}

fn heartbeat(group: &str, topic: &str, kind: &str, expression: &str, version: i64) -> Command {
    let body = json!({"clientID": "cid", "producerDataSet": [], "consumerDataSet": [{
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "unitMode": false, "subscriptionDataSet": [{
            "topic": topic, "subString": expression, "expressionType": kind, "subVersion": version,
            "tagsSet": [], "codeSet": [], "classFilterMode": false}]}]});
    Command::request(RequestCode::HEART_BEAT).body(body.to_string().into_bytes())
}

fn pull_as_subscribed(group: &str, topic: &str, offset: i64, version: i64) -> Command {
    let command = set(pull(group, topic, 0, offset, ""), "sysFlag", BY_HEARTBEAT);
    set(set(command, "subVersion", version), "expressionType", "SQL92")
}

fn pull_by(group: &str, topic: &str, offset: i64, expression: &str) -> Command {
    set(pull(group, topic, 0, offset, expression), "expressionType", "SQL92")
}

fn offsets(answer: &Command) -> Vec<i64> {
    records(&answer.body).into_iter().map(|record| record.queue_offset).collect()
}

fn failure(answer: &Command) -> (i32, &str) {
    (answer.code, answer.remark.as_deref().unwrap_or_default())
}

/// Topic TQ with the messages of the case.
async fn fill(peer: &mut Peer) {
    peer.create_topic("TQ", 1, RW).await;
    for properties in ["a=1", "a=5", "", "a=x", "a=7;TAGS=TagA"] {
        peer.put("TQ", 0, properties, "body").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn q_02_sql_filter() {
    let broker = TestBroker::with(with_filters).await;
    let mut peer = broker.connect().await;
    fill(&mut peer).await;
    for (version, (expression, expected)) in [
        ("a > 3", vec![1, 4]),
        ("a IS NULL", vec![2]),
        ("a IS NOT NULL AND a BETWEEN 0 AND 6", vec![0, 1]),
        ("TAGS = 'TagA'", vec![4]),
        ("TAGS in ('TagA','TagB') or a = 1", vec![0, 4]),
        ("a = 'x'", vec![3]),
        ("a <> 1", vec![1, 4]),
    ]
    .into_iter()
    .enumerate()
    {
        let version = version as i64 + 1;
        assert_eq!(peer.call(heartbeat("GQ", "TQ", "SQL92", expression, version)).await.code, 0);
        let answer = peer.call(pull_as_subscribed("GQ", "TQ", 0, version)).await;
        assert_eq!((offsets(&answer), number(&answer, "nextBeginOffset")), (expected.clone(), 5), "{expression}");
        let answer = peer.call(pull_by("GQ2", "TQ", 0, expression)).await;
        assert_eq!(offsets(&answer), expected, "{expression} in the request");
    }
    let answer = peer.call(pull_by("GQ2", "TQ", 0, "a = 99")).await;
    assert_eq!((failure(&answer), number(&answer, "nextBeginOffset")), ((20, "NO_MATCHED_MESSAGE"), 5));
    // Java lets everything through when the expression of a request cannot be compiled, or its language is unknown.
    assert_eq!(offsets(&peer.call(pull_by("GQ2", "TQ", 0, "a >>> 0")).await).len(), 5);
    let unknown = set(pull_by("GQ2", "TQ", 0, "a > 3"), "expressionType", "XPATH");
    assert_eq!(offsets(&peer.call(unknown).await).len(), 5);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_have_versions() {
    let broker = TestBroker::with(with_filters).await;
    let mut peer = broker.connect().await;
    fill(&mut peer).await;
    let none = peer.call(pull_as_subscribed("GV", "TQ", 0, 1)).await;
    assert_eq!(none.code, 24);
    peer.call(heartbeat("GV", "TQ", "SQL92", "a > 3", 10)).await;
    assert_eq!(offsets(&peer.call(pull_as_subscribed("GV", "TQ", 0, 10)).await), [1, 4]);
    let newer = peer.call(pull_as_subscribed("GV", "TQ", 0, 11)).await;
    assert_eq!(failure(&newer), (25, "the consumer's subscription not latest"));
    // An older version changes nothing.
    peer.call(heartbeat("GV", "TQ", "SQL92", "a = 1", 9)).await;
    assert_eq!(offsets(&peer.call(pull_as_subscribed("GV", "TQ", 0, 10)).await), [1, 4]);
    peer.call(heartbeat("GV", "TQ", "SQL92", "a = 1", 12)).await;
    assert_eq!(offsets(&peer.call(pull_as_subscribed("GV", "TQ", 0, 12)).await), [0]);
    // A bad expression takes the one before away.
    peer.call(heartbeat("GV", "TQ", "SQL92", "a >>> 0", 13)).await;
    let bad = peer.call(pull_as_subscribed("GV", "TQ", 0, 13)).await;
    let remark = "The broker's consumer filter data is not exist!Your expression may be wrong!";
    assert_eq!(failure(&bad), (27, remark));
    // From expression to tag and back.
    peer.call(heartbeat("GV", "TQ", "TAG", "*", 14)).await;
    assert_eq!(offsets(&peer.call(pull_as_subscribed("GV", "TQ", 0, 14)).await).len(), 5);
    peer.call(heartbeat("GV", "TQ", "SQL92", "a = 'x'", 15)).await;
    assert_eq!(offsets(&peer.call(pull_as_subscribed("GV", "TQ", 0, 15)).await), [3]);
    broker.stop().await;
}

/// The expression of a group that is known from before is older than its subscription, when the new one is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_not_the_latest() {
    let broker = TestBroker::with(with_filters).await;
    let mut peer = broker.connect().await;
    fill(&mut peer).await;
    peer.call(heartbeat("GL", "TQ", "SQL92", "a > 3", 10)).await;
    // Nothing is registered for an empty expression, but the subscription is taken.
    peer.call(heartbeat("GL", "TQ", "SQL92", "", 11)).await;
    let answer = peer.call(pull_as_subscribed("GL", "TQ", 0, 11)).await;
    assert_eq!(failure(&answer), (28, "the consumer's consumer filter data not latest"));
    broker.stop().await;
}

fn check(kind: &str, expression: &str) -> Command {
    let body = json!({"clientId": "cid", "group": "G", "subscriptionData": {
        "topic": "TQ", "subString": expression, "expressionType": kind, "subVersion": 1, "tagsSet": [], "codeSet": []}});
    Command::request(RequestCode::CHECK_CLIENT_CONFIG).body(body.to_string().into_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_are_checked() {
    let broker = TestBroker::with(with_filters).await;
    let mut peer = broker.connect().await;
    assert_eq!(peer.call(check("SQL92", "a > 3")).await.code, 0);
    assert_eq!(peer.call(check("TAG", "A || B")).await.code, 0);
    let answer = peer.call(check("SQL92", "a >>> 0")).await;
    let begin = "org.apache.rocketmq.filter.parser.ParseException: Encountered \" \">\" \"> \"\" at line 1, column 4.\n\
                 Was expecting one of:\n    \"NOT\" ...\n";
    assert_eq!(answer.code, 23);
    assert!(answer.remark.as_deref().unwrap().starts_with(begin), "{answer:?}");
    let answer = peer.call(check("XPATH", "a")).await;
    assert_eq!(answer.code, 23);
    assert!(answer.remark.unwrap().starts_with("Cannot invoke"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_property_filter_nothing_is_filtered_by_expression() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    fill(&mut peer).await;
    let refused = (1, "The broker does not support consumer to filter message by SQL92");
    assert_eq!(failure(&peer.call(check("SQL92", "a > 3")).await), refused);
    assert_eq!(failure(&peer.call(check("SQL92", ">")).await), refused);
    assert_eq!(failure(&peer.call(pull_by("G", "TQ", 0, "a > 3")).await), refused);
    peer.call(heartbeat("G", "TQ", "SQL92", "a > 3", 1)).await;
    assert_eq!(failure(&peer.call(pull_as_subscribed("G", "TQ", 0, 1)).await), refused);
    broker.stop().await;
}

/// A waiting pull is answered with what it wants, and with nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_pull_gets_what_matches() {
    let broker = TestBroker::with(with_filters).await;
    let (mut peer, mut sender) = (broker.connect().await, broker.connect().await);
    fill(&mut sender).await;
    peer.call(heartbeat("GW", "TQ", "SQL92", "a > 100", 1)).await;
    let waiting = set(set(pull_as_subscribed("GW", "TQ", 5, 1), "sysFlag", 2), "suspendTimeoutMillis", 15_000);
    let opaque = peer.send(waiting).await;
    until(|| broker.running().parts().puller.waiting() == 1).await;
    for a in [1, 100, 101] {
        sender.put("TQ", 0, &format!("a={a}"), "body").await;
    }
    let answer = peer.answer(opaque).await;
    assert_eq!((offsets(&answer), number(&answer, "nextBeginOffset")), (vec![7], 8));
    broker.stop().await;
}

/// With `filterSupportRetry`, a retried message is filtered by the expression for its first topic.
#[tokio::test(flavor = "multi_thread")]
async fn retries_are_filtered_when_asked_for() {
    for (support, expected) in [(true, vec![1, 2]), (false, vec![0, 1])] {
        let broker = TestBroker::with(|setup| {
            with_filters(setup);
            setup.broker.filter_support_retry = support;
        })
        .await;
        let mut peer = broker.connect().await;
        fill(&mut peer).await;
        peer.create_topic("%RETRY%GR", 1, RW).await;
        peer.call(heartbeat("GR", "TQ", "SQL92", "a > 3", 1)).await;
        for properties in ["a=1;RETRY_TOPIC=TQ", "a=5;RETRY_TOPIC=TQ", "a=9;RETRY_TOPIC=TOther"] {
            // Nobody may send there but the broker, which does the same with what comes back.
            peer.put("%RETRY%GR", 0, properties, "body").await;
        }
        let answer = peer.call(pull_by("GR", "%RETRY%GR", 0, "a < 6")).await;
        assert_eq!(offsets(&answer), expected, "filterSupportRetry={support}");
        broker.stop().await;
    }
}

fn saved(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("config/consumerFilter.json")).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_survive_a_restart_and_end() {
    let mut broker = TestBroker::with(with_filters).await;
    let mut peer = broker.connect().await;
    fill(&mut peer).await;
    peer.call(heartbeat("GS", "TQ", "SQL92", "a > 3", 10)).await;
    broker
        .restart(with_filters, |dir| {
            let file = saved(&dir);
            let filter = &file["filterDataByTopic"]["TQ"]["groupFilterData"]["GS"];
            assert_eq!(filter["expression"], "a > 3");
            assert_eq!((&filter["clientVersion"], &filter["expressionType"]), (&json!(10), &json!("SQL92")));
            assert_eq!(filter["bloomFilterData"]["bitNum"], 112);
        })
        .await;
    let filters = &broker.running().parts().filters;
    let found = filters.get("TQ", "GS").expect("the expression is known");
    assert!(found.is_dead() && found.compiled.is_some());
    // It lives again when its group comes back.
    let mut peer = broker.connect().await;
    peer.call(heartbeat("GS", "TQ", "SQL92", "a > 3", 10)).await;
    assert!(!filters.get("TQ", "GS").unwrap().is_dead());
    assert_eq!(filters.get("TQ", "GS").unwrap().born_time, found.born_time);
    // It dies with the group's last member, and with a subscription that has gone.
    peer.call(heartbeat("GS", "TOther", "SQL92", "a > 3", 10)).await;
    assert!(filters.get("TQ", "GS").unwrap().is_dead() && !filters.get("TOther", "GS").unwrap().is_dead());
    drop(peer);
    until(|| filters.get("TOther", "GS").is_some_and(|filter| filter.is_dead())).await;
    let clean_at_once = |setup: &mut BrokerSetup| {
        with_filters(setup);
        setup.broker.filter_data_clean_time_span = 0;
    };
    broker.restart(clean_at_once, |_| {}).await;
    broker.restart(with_filters, |dir| assert_eq!(saved(&dir), json!({"filterDataByTopic": {}}))).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_a_java_broker() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sql/consumerFilter.json");
    let java = std::fs::read_to_string(golden).unwrap();
    let keep = |setup: &mut BrokerSetup| {
        with_filters(setup);
        setup.broker.filter_data_clean_time_span = i64::MAX;
    };
    let mut broker = TestBroker::with(keep).await;
    broker.restart(keep, |dir| std::fs::write(dir.join("config/consumerFilter.json"), &java).unwrap()).await;
    let filters = &broker.running().parts().filters;
    let text = String::from_utf8(filters.encode(true)).unwrap();
    assert_eq!(text, java);
    let found = filters.get("TopicSql", "CG_sql1").unwrap();
    assert!(found.compiled.as_ref().unwrap().matches(b"color\x01red\x02n\x0112\x02"));
    // With a Bloom filter of another size, nothing of before is kept.
    let other = |setup: &mut BrokerSetup| {
        keep(setup);
        setup.broker.expect_consumer_num_use_filter = 64;
    };
    broker.restart(other, |_| {}).await;
    assert!(broker.running().parts().filters.get("TopicSql", "CG_sql1").is_none());
    broker.stop().await;
}

/// QUERY_CONSUME_QUEUE of that store, as the Java broker answered it.
async fn entries_with_filter_bits(peer: &mut Peer) {
    let query = |group: Option<&str>| {
        let mut query = Command::request(RequestCode::QUERY_CONSUME_QUEUE)
            .field("topic", "TopicSql")
            .field("queueId", 0)
            .field("index", 0)
            .field("count", 3);
        if let Some(group) = group {
            query = query.field("consumerGroup", group);
        }
        query
    };
    let empty = format!("{}\n{}\n", "0".repeat(48), "0".repeat(64));
    let entries = |third: bool| {
        json!([
            {"bitMap": empty, "eval": false, "physicOffset": 488, "physicSize": 438, "tagsCode": 2_598_920,
             "extendDataJson": r#"{"filterBitMap":[0,0,0,0,0,0,0,0,0,0,0,0,0,0],"msgStoreTime":1795973297539,"size":34,"tagsCode":2598920}"#},
            {"bitMap": empty, "eval": false, "physicOffset": 2230, "physicSize": 438, "tagsCode": 2_598_920,
             "extendDataJson": r#"{"filterBitMap":[0,0,0,0,0,0,0,0,0,0,0,0,0,0],"msgStoreTime":1795973297662,"size":34,"tagsCode":2598920}"#},
            {"bitMap": "010000000000000000000000000000000000000000000000\n0000001000000000000000000000000000100000000000000000000000000000\n",
             "eval": third, "physicOffset": 4022, "physicSize": 438, "tagsCode": 2_598_920,
             "extendDataJson": r#"{"filterBitMap":[0,0,0,32,0,0,0,2,0,0,0,0,0,64],"msgStoreTime":1795973297765,"size":34,"tagsCode":2598920}"#},
        ])
    };
    let plain = json(&peer.call(query(None)).await);
    assert_eq!((&plain["queueData"], plain.get("filterData")), (&entries(false), None));
    let filtered = json(&peer.call(query(Some("CG_sql2"))).await);
    assert_eq!(filtered["queueData"], entries(true));
    let filter = "{\n\t\"bloomFilterData\":{\n\t\t\"bitNum\":112,\n\t\t\"bitPos\":[110,29,57]\n\t},\n\t\"bornTime\":1795973290623,\n\t\
        \"clientVersion\":1795973290720,\n\t\"consumerGroup\":\"CG_sql2\",\n\t\"dead\":false,\n\t\"deadTime\":0,\n\t\
        \"expression\":\"color IS NOT NULL OR TAGS in ('TagA','TagC')\",\n\t\"expressionType\":\"SQL92\",\n\t\"topic\":\"TopicSql\"\n}";
    assert_eq!(filtered["filterData"], filter);
}

/// The consume queue extension of a Java broker says which messages a group wants; pulls of the same groups get just those.
#[tokio::test(flavor = "multi_thread")]
async fn the_store_of_a_java_broker_with_filter_bits() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat-tests/golden/stores");
    let archive = golden.join("sql_filter_ext.tar.gz");
    assert!(Process::new("tar").arg("-C").arg(dir.path()).arg("-xzf").arg(archive).status().unwrap().success());
    let truth: Value = serde_json::from_slice(&std::fs::read(golden.join("sql_filter_ext.json")).unwrap()).unwrap();
    let setup = crate::common::setup(&dir.path().join("store"), |setup| {
        with_filters(setup);
        setup.broker.broker_name = "broker-a".into();
        setup.broker.enable_calc_filter_bit_map = true;
        setup.broker.filter_data_clean_time_span = i64::MAX;
        setup.store.enable_consume_queue_ext = true;
        setup.store.mapped_file_size_consume_queue_ext = 4096;
        setup.store.mapped_file_size_commit_log = 262_144;
        setup.store.mapped_file_size_consume_queue = 2000;
        setup.store.max_hash_slot_num = 100;
        setup.store.max_index_num = 400;
        setup.store.file_reserved_time = 1_000_000;
    });
    let running = broker::start(setup).await.unwrap();
    let mut peer = Peer::connect(running.addr()).await;
    let wanted = |group: &str, message: &Value| {
        let properties = &message["properties"];
        let n = properties["n"].as_str().and_then(|n| n.parse::<i64>().ok());
        match group {
            "CG_sql1" => properties["color"] == "red" && n.is_some_and(|n| n > 10),
            "CG_sql2" => {
                properties["color"].is_string() || ["TagA", "TagC"].iter().any(|tag| properties["TAGS"] == *tag)
            }
            _ => n.is_some_and(|n| (20..=60).contains(&n)),
        }
    };
    for (group, expression, version) in [
        ("CG_sql1", "color = 'red' AND n > 10", 1_795_973_292_161),
        ("CG_sql2", "color IS NOT NULL OR TAGS in ('TagA','TagC')", 1_795_973_290_720),
        ("CG_sql3", "n between 20 and 60", 1_795_973_299_786),
    ] {
        peer.call(heartbeat(group, "TopicSql", "SQL92", expression, version)).await;
        let mut got = Vec::new();
        for queue in 0..4 {
            let mut next = 0;
            loop {
                let command = set(pull_as_subscribed(group, "TopicSql", next, version), "queueId", queue);
                let answer = peer.call(command).await;
                got.extend(records(&answer.body).iter().map(|record| (i64::from(queue), record.queue_offset)));
                if answer.code == 19 {
                    break;
                }
                assert!(answer.code == 0 || answer.code == 20, "{answer:?}");
                next = number(&answer, "nextBeginOffset");
            }
        }
        let messages = truth["messages"].as_array().unwrap().iter().filter(|message| wanted(group, message));
        let mut expected: Vec<_> = messages
            .map(|message| (message["queueId"].as_i64().unwrap(), message["queueOffset"].as_i64().unwrap()))
            .collect();
        expected.sort_unstable();
        assert_eq!(got, expected, "{group}");
        let count = match group {
            "CG_sql1" => 18,
            "CG_sql2" => 80,
            _ => expected.len(),
        };
        assert_eq!(expected.len(), count, "{group}: as the recorded consumer counted");
    }
    entries_with_filter_bits(&mut peer).await;
    running.stop().await;
}

/// Bits are computed as messages come, and a pull does not look at what they rule out.
#[tokio::test(flavor = "multi_thread")]
async fn filter_bits_of_new_messages() {
    let broker = TestBroker::with(|setup| {
        with_filters(setup);
        setup.broker.enable_calc_filter_bit_map = true;
        setup.store.enable_consume_queue_ext = true;
    })
    .await;
    let mut peer = broker.connect().await;
    peer.create_topic("TB", 1, RW).await;
    peer.call(heartbeat("GB1", "TB", "SQL92", "a > 3", 1)).await;
    // A message counts as older than the expression when it came in the same millisecond.
    let born = broker.running().parts().filters.get("TB", "GB1").unwrap().born_time;
    until(|| broker::stats::now_millis() > born).await;
    for a in 0..10 {
        peer.put("TB", 0, &format!("a={a}"), "body").await;
    }
    assert_eq!(offsets(&peer.call(pull_as_subscribed("GB1", "TB", 0, 1)).await), [4, 5, 6, 7, 8, 9]);
    // A group that comes later has no bits in those messages: they are looked at all the same.
    peer.call(heartbeat("GB2", "TB", "SQL92", "a < 2", 1)).await;
    assert_eq!(offsets(&peer.call(pull_as_subscribed("GB2", "TB", 0, 1)).await), [0, 1]);
    let files = broker.running().parts().store_config.load().store_path_root_dir.clone();
    assert!(Path::new(&files).join("consumequeue_ext/TB/0").is_dir());
    broker.stop().await;
}
