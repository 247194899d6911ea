//! Pulls and consumer offsets: cases P-*, Q-01, S-01.

use std::time::{Duration, Instant};

use crate::common::{LIMIT, Peer, TestBroker, batch, number, pull, records, set};
use remoting::{Command, RequestCode};

const RW: i32 = 6;

/// Code, remark, next, min, max.
fn page(answer: &Command) -> (i32, &str, i64, i64, i64) {
    (
        answer.code,
        answer.remark.as_deref().unwrap_or_default(),
        number(answer, "nextBeginOffset"),
        number(answer, "minOffset"),
        number(answer, "maxOffset"),
    )
}

async fn query_offset(peer: &mut Peer, group: &str, topic: &str, zero: Option<bool>) -> Command {
    let mut command = Command::request(RequestCode::QUERY_CONSUMER_OFFSET)
        .field("consumerGroup", group)
        .field("topic", topic)
        .field("queueId", 0);
    if let Some(zero) = zero {
        command = command.field("setZeroIfNotFound", zero);
    }
    peer.call(command).await
}

fn update_offset(group: &str, topic: &str, queue_id: i32, offset: Option<i64>) -> Command {
    let command = Command::request(RequestCode::UPDATE_CONSUMER_OFFSET)
        .field("consumerGroup", group)
        .field("topic", topic)
        .field("queueId", queue_id);
    match offset {
        Some(offset) => command.field("commitOffset", offset),
        None => command,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p_01_pull_status() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, RW).await;
    peer.create_group("GP", "").await;
    // An empty queue first: only its beginning can be waited for.
    let answer = peer.call(pull("GP", "T1", 0, 0, "*")).await;
    assert_eq!(page(&answer), (19, "NO_MESSAGE_IN_QUEUE", 0, 0, 0));
    let answer = peer.call(pull("GP", "T1", 0, 3, "*")).await;
    assert_eq!(page(&answer), (21, "NO_MESSAGE_IN_QUEUE", 0, 0, 0));
    for i in 0..5 {
        peer.put("T1", 0, "", &format!("m{i}")).await;
    }
    for (offset, code, remark, next) in [
        (-1, 21, "OFFSET_TOO_SMALL", 0),
        (5, 19, "OFFSET_OVERFLOW_ONE", 5),
        (6, 21, "OFFSET_OVERFLOW_BADLY", 5),
        (100, 21, "OFFSET_OVERFLOW_BADLY", 5),
    ] {
        let answer = peer.call(pull("GP", "T1", 0, offset, "*")).await;
        assert_eq!(page(&answer), (code, remark, next, 0, 5), "{offset}");
        assert_eq!(answer.get("suggestWhichBrokerId"), Some("0"));
        assert!(answer.body.is_empty());
    }
    let answer = peer.call(pull("GP", "T1", 0, 1, "*")).await;
    assert_eq!(page(&answer), (0, "FOUND", 5, 0, 5));
    let bodies: Vec<_> = records(&answer.body).into_iter().map(|record| record.body).collect();
    assert_eq!(bodies, ["m1", "m2", "m3", "m4"]);
    let answer = peer.call(set(pull("GP", "T1", 0, 1, "*"), "maxMsgNums", 2)).await;
    assert_eq!((records(&answer.body).len(), number(&answer, "nextBeginOffset")), (2, 3));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pulls_that_may_not_be_served() {
    let broker = TestBroker::with(|setup| setup.broker.auto_create_subscription_group = false).await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, RW).await;
    peer.create_group("GP", "").await;
    peer.create_group("GD", ",\"consumeEnable\":false").await;
    let answer = peer.call(pull("Gnone", "T1", 0, 0, "*")).await;
    assert_eq!(answer.code, 26);
    let answer = peer.call(pull("GD", "T1", 0, 0, "*")).await;
    assert_eq!((answer.code, answer.get("forbiddenType")), (16, Some("2")));
    let answer = peer.call(pull("GP", "Tnone", 0, 0, "*")).await;
    assert_eq!(answer.code, 17);
    assert!(answer.remark.unwrap().starts_with("topic[Tnone] not exist, apply first please!"));
    let answer = peer.call(pull("GP", "T1", 7, 0, "*")).await;
    assert_eq!(answer.code, 29);
    let expected =
        format!("queueId[7] is illegal, topic:[T1] topicConfig.readQueueNums:[1] consumer:[/{}]", peer.local());
    assert_eq!(answer.remark.unwrap(), expected);
    let answer = peer.call(pull("GP", "T1", 0, 0, "||")).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (23, Some("parse the consumer's subscription failed")));
    let answer = peer.call(set(pull("GP", "T1", 0, 0, "a > 3"), "expressionType", "SQL92")).await;
    assert_eq!(answer.code, 1);
    assert_eq!(answer.remark.as_deref(), Some("The broker does not support consumer to filter message by SQL92"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p_03_consumer_offset_query() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, RW).await;
    peer.put("T1", 0, "", "first").await;
    let answer = query_offset(&mut peer, "Gnew", "T1", None).await;
    assert_eq!((answer.code, answer.get("offset")), (0, Some("0")));
    let answer = query_offset(&mut peer, "Gnew", "T1", Some(false)).await;
    assert_eq!((answer.code, answer.get("offset")), (22, None));
    assert!(answer.remark.unwrap().contains("do not set to zero"));
    let answer = query_offset(&mut peer, "Gnew", "Tnone", None).await;
    assert_eq!((answer.code, answer.get("offset")), (22, None));
    assert!(answer.remark.unwrap().ends_with("maybe this group consumer boot first"));
    broker.stop().await;
}

/// Also case D-01, with the files removed while the broker is down.
#[tokio::test(flavor = "multi_thread")]
async fn p_03_queues_that_begin_above_zero() {
    let small = |setup: &mut config::BrokerSetup| setup.store.mapped_file_size_commit_log = 102_400;
    let mut broker = TestBroker::with(small).await;
    let mut peer = broker.connect().await;
    for topic in ["DG", "T2"] {
        peer.create_topic(topic, 1, RW).await;
    }
    for i in 0..6 {
        peer.put("DG", 0, "", &format!("old{i}")).await;
    }
    let body = "x".repeat(10_000);
    for _ in 0..40 {
        peer.put("T2", 0, "", &body).await;
    }
    drop(peer);
    let remove = |dir: std::path::PathBuf| {
        let mut files: Vec<_> =
            std::fs::read_dir(dir.join("commitlog")).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        assert!(files.len() > 3);
        files[..2].iter().for_each(|file| std::fs::remove_file(file).unwrap());
    };
    broker.restart(small, remove).await;
    let mut peer = broker.connect().await;
    for topic in ["DG", "T2"] {
        let answer = query_offset(&mut peer, "Gnew", topic, None).await;
        assert_eq!((answer.code, answer.get("offset")), (22, None), "{topic}");
        assert_eq!(
            answer.remark.as_deref(),
            Some("Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"),
            "{topic}"
        );
    }
    // DG has lost everything, T2 its beginning.
    let answer = peer.call(pull("GP", "DG", 0, 0, "*")).await;
    assert_eq!(page(&answer), (21, "OFFSET_TOO_SMALL", 6, 6, 6));
    let answer = peer.call(pull("GP", "DG", 0, 6, "*")).await;
    assert_eq!(page(&answer), (19, "OFFSET_OVERFLOW_ONE", 6, 6, 6));
    let answer = peer.call(pull("GP", "T2", 0, 0, "*")).await;
    let (code, remark, next, min, max) = page(&answer);
    assert_eq!((code, remark, next, max), (21, "OFFSET_TOO_SMALL", min, 40));
    assert!(min > 0 && min < 40, "{min}");
    let answer = peer.call(pull("GP", "T2", 0, min, "*")).await;
    assert_eq!((answer.code, records(&answer.body)[0].queue_offset), (0, min));

    let sent = peer.put("DG", 0, "", "new").await;
    assert_eq!(number(&sent, "queueOffset"), 6);
    let answer = peer.call(pull("GP", "DG", 0, 0, "*")).await;
    assert_eq!(page(&answer), (21, "OFFSET_TOO_SMALL", 6, 6, 7));
    let answer = peer.call(pull("GP", "DG", 0, 6, "*")).await;
    assert_eq!((page(&answer), records(&answer.body)[0].body.as_str()), ((0, "FOUND", 7, 6, 7), "new"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_may_not_consume() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, RW).await;
    peer.put("T1", 0, "", "m").await;
    let heartbeat = async |peer: &mut Peer, group: &str, model: &str| {
        let body = format!(
            r#"{{"clientID":"c","consumerDataSet":[{{"groupName":"{group}","consumeType":"CONSUME_PASSIVELY","messageModel":"{model}","subscriptionDataSet":[{{"topic":"T1","subString":"*","subVersion":1}}]}}],"producerDataSet":[]}}"#
        );
        let answer = peer.call(Command::request(RequestCode::HEART_BEAT).body(body.into_bytes())).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
    };
    // The subscription is that of the heartbeat.
    let ask = |group: &str| set(set(pull(group, "T1", 0, 0, "*"), "sysFlag", 0), "subVersion", 1);
    let judged = |answer: Command| {
        (answer.code, answer.get("forbiddenType").map(str::to_owned), answer.remark.unwrap_or_default())
    };
    let by = |kind: &str, remark: &str| (16, Some(kind.to_owned()), remark.to_owned());

    peer.create_group("GX", ",\"consumeEnable\":false").await;
    heartbeat(&mut peer, "GX", "CLUSTERING").await;
    let expected = by("2", "subscription group no permission, GX");
    assert_eq!(judged(peer.call(ask("GX")).await), expected);
    // At once when it is changed, either way.
    peer.create_group("GX", "").await;
    assert_eq!(peer.call(ask("GX")).await.code, 0);
    peer.create_group("GX", ",\"consumeEnable\":false").await;
    assert_eq!(judged(peer.call(ask("GX")).await), expected);

    peer.create_group("GB", ",\"consumeBroadcastEnable\":false").await;
    heartbeat(&mut peer, "GB", "BROADCASTING").await;
    let expected = by("4", "the consumer group[GB] can not consume by broadcast way");
    assert_eq!(judged(peer.call(ask("GB")).await), expected);
    // What Java looks at is the heartbeat's way: a subscription in the request passes.
    assert_eq!(peer.call(pull("GB", "T1", 0, 0, "*")).await.code, 0);
    peer.create_group("GB2", ",\"consumeBroadcastEnable\":false").await;
    heartbeat(&mut peer, "GB2", "CLUSTERING").await;
    assert_eq!(peer.call(ask("GB2")).await.code, 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p_05_pull_subscription_check() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, RW).await;
    peer.create_topic("T2", 1, RW).await;
    peer.create_group("GSV", "").await;
    peer.put("T1", 0, "", "m").await;
    let heartbeat = r#"{"clientID":"c1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"GSV","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":100,"tagsSet":[],"topic":"T1"}],"unitMode":false}],"producerDataSet":[]}"#;
    let answer = peer.call(Command::request(RequestCode::HEART_BEAT).body(heartbeat.as_bytes().to_vec())).await;
    assert_eq!(answer.code, 0);
    let ask = |group: &str, topic: &str, version: i64| {
        set(set(pull(group, topic, 0, 0, "*"), "sysFlag", 0), "subVersion", version)
    };
    let answer = peer.call(ask("Gsilent", "T1", 0)).await;
    assert_eq!(answer.code, 24);
    assert!(answer.remark.unwrap().starts_with("the consumer's group info not exist"));
    for version in [100, 99] {
        let answer = peer.call(ask("GSV", "T1", version)).await;
        assert_eq!((answer.code, records(&answer.body).len()), (0, 1), "{version}");
    }
    let answer = peer.call(ask("GSV", "T1", 101)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (25, Some("the consumer's subscription not latest")));
    assert!(answer.fields.is_empty());
    let answer = peer.call(ask("GSV", "T2", 100)).await;
    assert_eq!(answer.code, 24);
    assert!(answer.remark.unwrap().starts_with("the consumer's subscription not exist"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p_06_consumer_offset_update() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, RW).await;
    peer.create_group("GP", "").await;
    for (command, code) in [
        (update_offset("GP", "Nope", 0, Some(1)), 17),
        (update_offset("Gunknown", "T1", 0, Some(1)), 26),
        (update_offset("GP", "T1", 0, None), 29),
        (update_offset("GP", "T1", 9, Some(1)), 0),
    ] {
        let answer = peer.call(command).await;
        assert_eq!(answer.code, code, "{:?}", answer.remark);
    }
    for offset in [500_000, 1] {
        assert_eq!(peer.call(update_offset("GP", "T1", 0, Some(offset))).await.code, 0);
        let answer = query_offset(&mut peer, "GP", "T1", None).await;
        assert_eq!((answer.code, number(&answer, "offset")), (0, offset));
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_come_with_a_pull() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, RW).await;
    peer.put("T1", 0, "", "m").await;
    let ask = set(set(pull("GP", "T1", 0, 0, "*"), "sysFlag", 5), "commitOffset", 42);
    assert_eq!(peer.call(ask).await.code, 0);
    assert_eq!(number(&query_offset(&mut peer, "GP", "T1", None).await, "offset"), 42);
    broker.stop().await;
}

async fn filtered(queue_file: i32, expected: &[i64]) {
    let broker = TestBroker::with(|setup| setup.store.mapped_file_size_consume_queue = queue_file).await;
    let mut peer = broker.connect().await;
    peer.create_topic("TF", 1, RW).await;
    let inner = vec![("TAGS=A;", "x"); 100];
    for _ in 0..10 {
        assert_eq!(peer.call(batch("TF", 0, "", &inner)).await.code, 0);
    }
    let mut offset = 0;
    for next in expected {
        let answer = peer.call(pull("GF", "TF", 0, offset, "B")).await;
        assert_eq!(page(&answer), (20, "NO_MATCHED_MESSAGE", *next, 0, 1000));
        assert!(answer.body.is_empty());
        offset = *next;
    }
    let answer = peer.call(pull("GF", "TF", 0, 1000, "B")).await;
    assert_eq!(answer.code, 19);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p_07_filtered_pull() {
    filtered(6_000, &[300, 600, 900, 1000]).await;
    filtered(6_000_000, &[800, 1000]).await;
}

/// A pull that waits.
fn waiting(group: &str, topic: &str, offset: i64, millis: i64) -> Command {
    set(set(pull(group, topic, 0, offset, "*"), "sysFlag", 6), "suspendTimeoutMillis", millis)
}

#[tokio::test(flavor = "multi_thread")]
async fn p_08_long_polling() {
    let broker = TestBroker::start().await;
    let (mut consumer, mut producer) = (broker.connect().await, broker.connect().await);
    producer.create_topic("TL", 1, RW).await;
    let start = Instant::now();
    let opaque = consumer.send(waiting("GL", "TL", 0, 3000)).await;
    let answer = consumer.answer(opaque).await;
    assert_eq!(page(&answer), (19, "NO_MESSAGE_IN_QUEUE", 0, 0, 0));
    assert!(start.elapsed() >= Duration::from_secs(3) && start.elapsed() < Duration::from_secs(9));
    assert_eq!(broker.running().parts().puller.waiting(), 0);

    let opaque = consumer.send(waiting("GL", "TL", 0, 15_000)).await;
    wait_for_waiters(&broker, 1).await;
    let sent = Instant::now();
    producer.put("TL", 0, "TAGS=x;", "hello").await;
    let answer = consumer.answer(opaque).await;
    assert!(sent.elapsed() < Duration::from_secs(1));
    assert_eq!(page(&answer), (0, "FOUND", 1, 0, 1));
    assert_eq!(records(&answer.body)[0].body, "hello");
    assert!(consumer.next(Duration::from_millis(700)).await.is_none(), "a second answer");
    broker.stop().await;
}

async fn wait_for_waiters(broker: &TestBroker, count: usize) {
    let limit = Instant::now() + LIMIT;
    while broker.running().parts().puller.waiting() != count {
        assert!(Instant::now() < limit);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_with_a_filter_waits_for_its_tag() {
    let broker = TestBroker::start().await;
    let (mut consumer, mut producer) = (broker.connect().await, broker.connect().await);
    producer.create_topic("TW", 1, RW).await;
    let ask = |millis: i64| set(waiting("GW", "TW", 0, millis), "subscription", "Aa || c");
    let opaque = consumer.send(ask(15_000)).await;
    wait_for_waiters(&broker, 1).await;
    let inner = vec![("TAGS=no;", "x"); 900];
    assert_eq!(producer.call(batch("TW", 0, "", &inner)).await.code, 0);
    assert!(consumer.next(Duration::from_millis(300)).await.is_none());
    producer.put("TW", 0, "TAGS=BB;", "same hash").await;
    let answer = consumer.answer(opaque).await;
    assert_eq!((answer.code, number(&answer, "nextBeginOffset")), (0, 901));
    assert_eq!(records(&answer.body)[0].body, "same hash");

    // Nothing matches until the time is up: the answer is that of a pull without waiting.
    let opaque = consumer.send(set(set(ask(500), "queueOffset", 901), "subscription", "zz")).await;
    wait_for_waiters(&broker, 1).await;
    producer.put("TW", 0, "TAGS=no;", "y").await;
    let answer = consumer.answer(opaque).await;
    assert_eq!(page(&answer), (20, "NO_MATCHED_MESSAGE", 902, 0, 902));
    broker.stop().await;
}

/// A client judges an answer by the tags that it asked with. When the group has others by then it must ask again, or it would drop what it
/// wants now.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_with_tags_of_before_asks_again() {
    let broker = TestBroker::start().await;
    let (mut consumer, mut producer) = (broker.connect().await, broker.connect().await);
    producer.create_topic("TW", 1, RW).await;
    producer.create_group("GW", "").await;
    let subscribe = async |consumer: &mut Peer, tag: &str, code: i32, version: i64| {
        let body = format!(
            r#"{{"clientID":"c1","consumerDataSet":[{{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"GW","messageModel":"CLUSTERING","subscriptionDataSet":[{{"classFilterMode":false,"codeSet":[{code}],"expressionType":"TAG","subString":"{tag}","subVersion":{version},"tagsSet":["{tag}"],"topic":"TW"}}],"unitMode":false}}],"producerDataSet":[]}}"#
        );
        assert_eq!(consumer.call(Command::request(RequestCode::HEART_BEAT).body(body.into_bytes())).await.code, 0);
    };
    let ask = |offset: i64, version: i64, millis: i64| {
        set(set(waiting("GW", "TW", offset, millis), "sysFlag", 2), "subVersion", version)
    };
    subscribe(&mut consumer, "A", 65, 100).await;
    let waits = consumer.send(ask(0, 100, 15_000)).await;
    wait_for_waiters(&broker, 1).await;
    subscribe(&mut consumer, "B", 66, 101).await;
    producer.put("TW", 0, "TAGS=B;", "wanted now").await;
    let answer = consumer.answer(waits).await;
    assert_eq!(page(&answer), (20, "NO_MATCHED_MESSAGE", 0, 0, 1));
    let answer = consumer.call(ask(0, 101, 15_000)).await;
    assert_eq!((answer.code, records(&answer.body)[0].body.as_str()), (0, "wanted now"));

    // The same when its time is up, and not when only the version is another one.
    let waits = consumer.send(ask(1, 101, 1_000)).await;
    wait_for_waiters(&broker, 1).await;
    subscribe(&mut consumer, "A", 65, 102).await;
    assert_eq!(page(&consumer.answer(waits).await), (20, "NO_MATCHED_MESSAGE", 1, 0, 1));
    let waits = consumer.send(ask(1, 102, 15_000)).await;
    wait_for_waiters(&broker, 1).await;
    subscribe(&mut consumer, "A", 65, 103).await;
    producer.put("TW", 0, "TAGS=A;", "at once").await;
    assert_eq!(page(&consumer.answer(waits).await), (0, "FOUND", 2, 0, 2));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_a_closed_connection_go() {
    let broker = TestBroker::start().await;
    let mut producer = broker.connect().await;
    producer.create_topic("TC", 1, RW).await;
    let mut consumer = broker.connect().await;
    consumer.send(waiting("GC", "TC", 0, 600_000)).await;
    wait_for_waiters(&broker, 1).await;
    drop(consumer);
    let limit = Instant::now() + LIMIT;
    // It is dropped when it is met: here by the next message.
    while broker.running().parts().puller.waiting() > 0 {
        assert!(Instant::now() < limit);
        producer.put("TC", 0, "", "m").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_consumers_miss_nothing() {
    const MESSAGES: i64 = 400;
    let broker = TestBroker::start().await;
    let mut producer = broker.connect().await;
    producer.create_topic("TM", 1, RW).await;
    let mut consumers = Vec::new();
    for i in 0..6 {
        let mut peer = broker.connect().await;
        consumers.push(tokio::spawn(async move {
            let (mut offset, mut seen) = (0, 0);
            while offset < MESSAGES {
                let answer = peer.call(waiting(&format!("G{i}"), "TM", offset, 10_000)).await;
                assert_eq!(answer.code, 0, "{:?}", answer.remark);
                for record in records(&answer.body) {
                    assert_eq!(record.queue_offset, seen);
                    seen += 1;
                }
                offset = number(&answer, "nextBeginOffset");
            }
            seen
        }));
    }
    for i in 0..MESSAGES {
        producer.put("TM", 0, "", &format!("m{i}")).await;
    }
    for consumer in consumers {
        let seen = tokio::time::timeout(LIMIT, consumer).await.unwrap().unwrap();
        assert_eq!(seen, MESSAGES);
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn short_polling() {
    let broker = TestBroker::with(|setup| {
        setup.broker.long_polling_enable = false;
        setup.broker.short_polling_time_mills = 300;
    })
    .await;
    let mut peer = broker.connect().await;
    peer.create_topic("TS", 1, RW).await;
    let start = Instant::now();
    let answer = peer.call(waiting("GS", "TS", 0, 15_000)).await;
    assert_eq!(answer.code, 19);
    assert!(start.elapsed() >= Duration::from_millis(300) && start.elapsed() < Duration::from_secs(10));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p_10_offset_admin_reads() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, RW).await;
    for (topic, queue_id) in [("Tunk", 0), ("T1", 9)] {
        let ask = |code| Command::request(code).field("topic", topic).field("queueId", queue_id);
        for code in [RequestCode::GET_MAX_OFFSET, RequestCode::GET_MIN_OFFSET] {
            let answer = peer.call(ask(code)).await;
            assert_eq!((answer.code, answer.get("offset")), (0, Some("0")));
        }
        let answer = peer.call(ask(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP).field("timestamp", 1)).await;
        assert_eq!((answer.code, answer.get("offset")), (0, Some("0")));
        let answer = peer.call(ask(RequestCode::GET_EARLIEST_MSG_STORETIME)).await;
        assert_eq!((answer.code, answer.get("timestamp")), (0, Some("-1")));
    }
    let answer = peer.call(Command::request(RequestCode::GET_ALL_TOPIC_CONFIG)).await;
    assert!(!String::from_utf8_lossy(&answer.body).contains("Tunk"));
    assert!(broker.running().parts().store.queue("Tunk", 0).is_none());
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_01_search_by_timestamp() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TT", 1, RW).await;
    assert_eq!(peer.call(batch("TT", 0, "", &[("", "a"), ("", "b"), ("", "c")])).await.code, 0);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(peer.call(batch("TT", 0, "", &[("", "d"), ("", "e")])).await.code, 0);
    let stored = records(&peer.call(pull("GT", "TT", 0, 0, "*")).await.body);
    let (t1, t2) = (stored[0].store_timestamp, stored[3].store_timestamp);
    assert!(stored[2].store_timestamp == t1 && stored[4].store_timestamp == t2 && t2 > t1 + 1);
    for (boundary, expected) in [("LOWER", [0, 0, 3, 3, 3, 5]), ("UPPER", [0, 2, 2, 2, 4, 4])] {
        for (time, expected) in [t1 - 1, t1, t1 + 1, t2 - 1, t2, t2 + 1].into_iter().zip(expected) {
            let command = Command::request(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP)
                .field("topic", "TT")
                .field("queueId", 0)
                .field("timestamp", time)
                .field("boundaryType", boundary);
            assert_eq!(number(&peer.call(command).await, "offset"), expected, "{boundary} {}", time - t1);
        }
    }
    let command = Command::request(RequestCode::GET_EARLIEST_MSG_STORETIME).field("topic", "TT").field("queueId", 0);
    assert_eq!(number(&peer.call(command).await, "timestamp"), t1);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn q_01_tag_filter() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TTC", 1, RW).await;
    for (properties, body) in [("TAGS=Aa;", "Aa"), ("TAGS=BB;", "BB"), ("", "none")] {
        peer.put("TTC", 0, properties, body).await;
    }
    for expression in ["Aa", "a || Aa"] {
        let answer = peer.call(pull("GQ", "TTC", 0, 0, expression)).await;
        let bodies: Vec<_> = records(&answer.body).into_iter().map(|record| record.body).collect();
        assert_eq!(bodies, ["Aa", "BB"], "{expression}");
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn z_01_a_reset_offset_is_given_once() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TZ", 1, RW).await;
    peer.create_group("GZ", "").await;
    for _ in 0..10 {
        peer.put("TZ", 0, "", "m").await;
    }
    assert_eq!(peer.call(update_offset("GZ", "TZ", 0, Some(8))).await.code, 0);
    broker.running().parts().offsets.assign_reset("GZ", "TZ", 0, 0);
    // The running consumer cannot write its old position back before it has been told.
    let answer = peer.call(update_offset("GZ", "TZ", 0, Some(8))).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, Some("Offset has been previously reset")));
    let answer = peer.call(pull("GZ", "TZ", 0, 8, "*")).await;
    assert_eq!(page(&answer), (21, "OFFSET_RESET", 0, 0, 10));
    let answer = peer.call(pull("GZ", "TZ", 0, 8, "*")).await;
    assert_eq!(page(&answer), (0, "FOUND", 10, 0, 10));
    assert_eq!(number(&query_offset(&mut peer, "GZ", "TZ", None).await, "offset"), 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m_07_topic_permission() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("Tro", 1, 4).await;
    peer.create_topic("Two", 1, 2).await;
    peer.put("Tro", 0, "", "m").await;
    let answer = peer.call(pull("G", "Two", 0, 0, "*")).await;
    assert_eq!((answer.code, answer.get("forbiddenType")), (16, Some("3")));
    assert_eq!(answer.remark.as_deref(), Some("the topic[Two] pulling message is forbidden"));
    broker.stop().await;
}
