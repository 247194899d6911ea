//! What tools list and change many of at once, and what they ask a consumer through the broker.

use std::time::Duration;

use crate::common::client::json;
use crate::common::{LIMIT, Peer, TestBroker, message};
use remoting::{Command, RequestCode, SerializeType};
use serde_json::{Value, json};

async fn call(peer: &mut Peer, code: RequestCode, body: Value) -> Command {
    peer.call(Command::request(code).body(body.to_string().into_bytes())).await
}

/// A producer in group P1 and a consumer of T1 in group G1, both on the connection.
async fn join(peer: &mut Peer) {
    let body = json!({"clientID": "c1", "producerDataSet": [{"groupName": "P1"}], "consumerDataSet": [{
        "groupName": "G1", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "unitMode": false, "subscriptionDataSet": [{
            "topic": "T1", "subString": "TagA", "expressionType": "TAG", "subVersion": 7,
            "tagsSet": ["TagA"], "codeSet": [2_598_919], "classFilterMode": false}]}]});
    let mut heartbeat = Command::request(RequestCode::HEART_BEAT).body(body.to_string().into_bytes());
    // A client that old is asked for nothing.
    heartbeat.version = 513;
    assert_eq!(peer.call(heartbeat).await.code, 0);
}

/// Answers the broker's next request of a code.
async fn answer_one(peer: &mut Peer, code: RequestCode, body: &str) -> Command {
    loop {
        let command = peer.next(LIMIT).await.expect("a request of the broker");
        if command.is_response() || command.code != code.0 {
            continue;
        }
        let mut answer = Command::request(RequestCode(0)).body(body.as_bytes().to_vec());
        answer.opaque = command.opaque;
        answer.flag = 1;
        let mut bytes = Vec::new();
        answer.encode(SerializeType::Json, &mut bytes);
        peer.send_raw(&bytes).await;
        return command;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_topics_at_once() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    let topic = |name: &str, queues: i32| {
        json!({"topicName": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6, "order": false,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "attributes": {}})
    };
    let list = |topics: [Value; 2]| json!({"topicConfigList": topics});
    let code = RequestCode::UPDATE_AND_CREATE_TOPIC_LIST;
    assert_eq!(call(&mut peer, code, list([topic("L1", 1), topic("L2", 3)])).await.code, 0);
    let topics = &broker.running().parts().topics;
    assert_eq!(topics.get("L2").unwrap().read_queue_nums, 3);
    // One bad name refuses them all.
    let answer = call(&mut peer, code, list([topic("L3", 1), topic("bad name", 1)])).await;
    assert_eq!(answer.code, 29, "{:?}", answer.remark);
    assert!(!topics.contains("L3"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_groups_at_once() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    let code = RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST;
    let list = json!({"groupConfigList": [{"groupName": "L1"}, {"groupName": "L2", "retryMaxTimes": 3}]});
    assert_eq!(call(&mut peer, code, list).await.code, 0);
    let groups = &broker.running().parts().groups;
    assert_eq!((groups.get("L1").unwrap().retry_max_times, groups.get("L2").unwrap().retry_max_times), (16, 3));
    let bad = json!({"groupConfigList": [{"groupName": "L3"}, {"groupName": "bad name"}]});
    assert_eq!(call(&mut peer, code, bad).await.code, 29);
    assert!(!groups.contains("L3"));
    let bad = json!({"groupConfigList": [{"groupName": "L4", "attributes": {"+no.such": "1"}}]});
    let answer = call(&mut peer, code, bad).await;
    assert_eq!(
        (answer.code, answer.remark.as_deref()),
        (1, Some("java.lang.RuntimeException: unsupported key: no.such"))
    );
    broker.stop().await;
}

/// What a group was given is shown and kept, also what only clients look at.
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_a_group() {
    let mut broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    let settings = |attributes: Value, policy: Value| {
        json!({"attributes": attributes, "brokerId": 2, "consumeBroadcastEnable": false, "consumeEnable": true,
            "consumeFromMinEnable": false, "consumeMessageOrderly": true, "consumeTimeoutMinute": 3, "groupName": "GS",
            "groupRetryPolicy": policy, "groupSysFlag": 4, "notifyConsumerIdsChangedEnable": false, "retryMaxTimes": 7,
            "retryQueueNums": 2, "whichBrokerWhenConsumeSlowly": 5})
    };
    let customized = json!({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 2000, 3000]}});
    let exponential =
        json!({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 100, "max": 9000, "multiplier": 3}});
    async fn shown(peer: &mut Peer) -> Value {
        let ask = Command::request(RequestCode::GET_SUBSCRIPTIONGROUP_CONFIG).field("group", "GS");
        json(&peer.call(ask).await)
    }
    for (asked, policy, attributes) in [
        (json!({"+priority.factor": "5"}), &customized, json!({"priority.factor": "5"})),
        (json!({}), &exponential, json!({"priority.factor": "5"})),
        (json!({"-priority.factor": ""}), &exponential, json!({})),
        (json!({"+priority.factor": "7"}), &customized, json!({"priority.factor": "7"})),
    ] {
        let request = settings(asked, policy.clone());
        let answer = call(&mut peer, RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, request).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        assert_eq!(shown(&mut peer).await, settings(attributes, policy.clone()));
    }
    drop(peer);
    broker.restart(|_| {}, |_| {}).await;
    let mut peer = broker.connect().await;
    assert_eq!(shown(&mut peer).await, settings(json!({"priority.factor": "7"}), customized));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_times_and_subscriptions() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, 6).await;
    join(&mut peer).await;
    for _ in 0..3 {
        let mut send = message("T1", 0, "TAGS=TagA", "hello");
        send.code = RequestCode::SEND_MESSAGE_V2.0;
        send.fields = [
            ("producerGroup", "a"),
            ("topic", "b"),
            ("defaultTopic", "c"),
            ("defaultTopicQueueNums", "d"),
            ("queueId", "e"),
            ("sysFlag", "f"),
            ("bornTimestamp", "g"),
            ("flag", "h"),
            ("properties", "i"),
            ("reconsumeTimes", "j"),
        ]
        .into_iter()
        .filter_map(|(long, short)| Some((short.to_owned(), send.get(long)?.to_owned())))
        .collect();
        let answer = peer.call(send).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
    }
    let commit = Command::request(RequestCode::UPDATE_CONSUMER_OFFSET)
        .field("consumerGroup", "G1")
        .field("topic", "T1")
        .field("queueId", 0)
        .field("commitOffset", 2);
    assert_eq!(peer.call(commit).await.code, 0);

    let all = json(&peer.call(Command::request(RequestCode::GET_ALL_CONSUMER_OFFSET)).await);
    assert_eq!(all["offsetTable"]["T1@G1"], json!({"0": 2}));

    let span = Command::request(RequestCode::QUERY_CONSUME_TIME_SPAN).field("topic", "T1").field("group", "G1");
    let spans = json(&peer.call(span).await)["consumeTimeSpanSet"].clone();
    let span = &spans[0];
    let time = |name: &str| span[name].as_i64().unwrap();
    assert_eq!(spans.as_array().unwrap().len(), 1);
    let text = span["maxTimeStampStr"].as_str().unwrap();
    let parsed = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d#%H:%M:%S:%3f").unwrap();
    assert_eq!(parsed.and_local_timezone(chrono::Local).unwrap().timestamp_millis(), time("maxTimeStamp"));
    assert!(time("minTimeStamp") > 0 && time("minTimeStamp") <= time("consumeTimeStamp"));
    assert!(time("consumeTimeStamp") <= time("maxTimeStamp") && time("delayTime") >= 0);
    let none = Command::request(RequestCode::QUERY_CONSUME_TIME_SPAN).field("topic", "T9").field("group", "G1");
    assert_eq!(peer.call(none).await.code, 17);

    let wants = |topic: &str| {
        Command::request(RequestCode::QUERY_SUBSCRIPTION_BY_CONSUMER).field("group", "G1").field("topic", topic)
    };
    let answer = json(&peer.call(wants("T1")).await);
    assert_eq!((&answer["group"], &answer["topic"]), (&json!("G1"), &json!("T1")));
    assert_eq!(answer["subscriptionData"]["subString"], "TagA");
    assert!(json(&peer.call(wants("T9")).await).get("subscriptionData").is_none());

    let producers = json(&peer.call(Command::request(RequestCode::GET_ALL_PRODUCER_INFO)).await);
    assert_eq!(producers["data"]["P1"][0]["clientId"], "c1");

    let topics = json(&peer.call(Command::request(RequestCode::GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).await);
    let names = topics["topicList"].as_array().unwrap();
    for name in ["TBW102", "bk1", "C1", "SCHEDULE_TOPIC_XXXX"] {
        assert!(names.contains(&json!(name)), "{name} is not in {names:?}");
    }
    assert!(!names.contains(&json!("T1")));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_is_asked() {
    let broker = TestBroker::start().await;
    let (mut tool, mut consumer) = (broker.connect().await, broker.connect().await);
    tool.create_topic("T1", 1, 6).await;
    let id = tool.put("T1", 0, "TAGS=TagA", "hello").await.get("msgId").unwrap().to_owned();
    join(&mut consumer).await;

    let code = RequestCode::GET_CONSUMER_RUNNING_INFO;
    let asked = tool.send(Command::request(code).field("consumerGroup", "G1").field("clientId", "c1")).await;
    let request = answer_one(&mut consumer, code, r#"{"properties":{"a":"b"}}"#).await;
    assert_eq!((request.get("consumerGroup"), request.get("clientId")), (Some("G1"), Some("c1")));
    assert_eq!(json(&tool.answer(asked).await), json!({"properties": {"a": "b"}}));

    let code = RequestCode::CONSUME_MESSAGE_DIRECTLY;
    let direct = |client: &str| {
        Command::request(code)
            .field("consumerGroup", "G1")
            .field("clientId", client)
            .field("msgId", &id)
            .field("topic", "T1")
    };
    let asked = tool.send(direct("c1")).await;
    let request = answer_one(&mut consumer, code, r#"{"consumeResult":"CR_SUCCESS"}"#).await;
    let records = crate::common::records(&request.body);
    assert_eq!((records.len(), records[0].body.as_str()), (1, "hello"));
    assert_eq!(request.get("brokerName"), Some("bk1"));
    assert_eq!(json(&tool.answer(asked).await), json!({"consumeResult": "CR_SUCCESS"}));
    // Nobody of that name.
    assert_ne!(tool.call(direct("c9")).await.code, 0);
    assert!(consumer.next(Duration::from_millis(50)).await.is_none_or(|command| command.code != code.0));
    broker.stop().await;
}
