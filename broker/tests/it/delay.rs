//! Delays, retries and dead letters: cases T-01, T-02, Y-01, Y-03.

use std::time::Instant;

use crate::common::{Peer, Stored, TestBroker, message, number, pull, records, set};
use remoting::{Command, RequestCode};

const RW: i32 = 6;
const SCHEDULE: &str = "SCHEDULE_TOPIC_XXXX";

async fn read(peer: &mut Peer, topic: &str, offset: i64) -> Vec<Stored> {
    records(&peer.call(pull("Gread", topic, 0, offset, "*")).await.body)
}

fn send_back(group: &str, offset: i64, level: i32) -> Command {
    Command::request(RequestCode::CONSUMER_SEND_MSG_BACK)
        .field("group", group)
        .field("offset", offset)
        .field("delayLevel", level)
}

#[tokio::test(flavor = "multi_thread")]
async fn t_01_delay_level_bounds() {
    let broker = TestBroker::with(|setup| {
        // Far away levels, so that nothing is delivered meanwhile.
        setup.store.message_delay_level = ["1h"; 18].join(" ");
    })
    .await;
    let mut peer = broker.connect().await;
    peer.create_topic("RA", 1, RW).await;
    for level in ["1", "18", "19", "100", "-1", ""] {
        let answer = peer.put("RA", 0, &format!("DELAY={level};"), "m").await;
        assert_eq!(number(&answer, "queueId"), 0);
    }
    let answer = peer.call(message("RA", 0, "DELAY=abc;", "m")).await;
    assert_eq!(answer.code, 1);
    assert!(answer.remark.unwrap().contains("abc"));
    assert_eq!(peer.max_offset(SCHEDULE, 0).await, 1);
    assert_eq!(peer.max_offset(SCHEDULE, 17).await, 3);
    assert_eq!(peer.max_offset("RA", 0).await, 2);
    let stored = records(&peer.call(pull("Gread", SCHEDULE, 17, 0, "*")).await.body);
    for record in &stored {
        assert_eq!(record.property("DELAY"), Some("18"));
        assert_eq!((record.property("REAL_TOPIC"), record.property("REAL_QID")), (Some("RA"), Some("0")));
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_message_comes_on_time_and_in_order() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("RB", 1, RW).await;
    let sent = Instant::now();
    for i in 0..20 {
        peer.put("RB", 0, "DELAY=1;TAGS=t;", &format!("m{i}")).await;
    }
    peer.wait_for_offset("RB", 0, 20).await;
    assert!(sent.elapsed().as_millis() >= 1000);
    let stored = read(&mut peer, "RB", 0).await;
    let waiting = records(&peer.call(pull("Gread", SCHEDULE, 0, 0, "*")).await.body);
    for (i, record) in stored.iter().enumerate() {
        assert_eq!((record.body.as_str(), record.topic.as_str()), (format!("m{i}").as_str(), "RB"));
        assert!(record.store_timestamp >= waiting[i].store_timestamp + 1000);
        assert_eq!((record.property("DELAY"), record.property("REAL_TOPIC")), (Some("1"), Some("RB")));
    }
    // The tag works again: the schedule topic's entries carried times instead.
    let answer = peer.call(pull("Gread", "RB", 0, 0, "t")).await;
    assert_eq!(records(&answer.body).len(), 20);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_delivered_twice_by_a_restart() {
    let mut broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("RC", 1, RW).await;
    peer.put("RC", 0, "DELAY=1;", "before").await;
    peer.wait_for_offset("RC", 0, 1).await;
    peer.put("RC", 0, "DELAY=2;", "pending").await;
    drop(peer);
    broker
        .restart(
            |_| {},
            |dir| {
                let saved = std::fs::read_to_string(dir.join("config/delayOffset.json")).unwrap();
                assert!(saved.contains("1:1"), "{saved}");
            },
        )
        .await;
    let mut peer = broker.connect().await;
    peer.wait_for_offset("RC", 0, 2).await;
    let bodies: Vec<_> = read(&mut peer, "RC", 0).await.into_iter().map(|record| record.body).collect();
    assert_eq!(bodies, ["before", "pending"]);
    broker.stop().await;
}

/// What waits longer than its level does now is due at once, as after a clock that was set back; what waits less keeps its
/// time. Levels that are gone keep their messages, and go on when they are back.
#[tokio::test(flavor = "multi_thread")]
async fn changed_levels() {
    let levels =
        |text: &'static str| move |setup: &mut config::BrokerSetup| setup.store.message_delay_level = text.into();
    let mut broker = TestBroker::with(levels("1h 2s 1h 1s")).await;
    let mut peer = broker.connect().await;
    peer.create_topic("RE", 1, RW).await;
    peer.put("RE", 0, "DELAY=1;", "an hour").await;
    peer.put("RE", 0, "DELAY=3;", "an hour as well").await;
    broker.restart(levels("1s 1h"), |_| {}).await;
    let mut peer = broker.connect().await;
    peer.wait_for_offset("RE", 0, 1).await;
    // Above the highest level: the highest.
    peer.put("RE", 0, "DELAY=3;", "cut").await;
    assert_eq!((peer.max_offset(SCHEDULE, 1).await, peer.max_offset(SCHEDULE, 2).await), (1, 1));
    broker.restart(levels("1s 1s 1s"), |_| {}).await;
    let mut peer = broker.connect().await;
    peer.wait_for_offset("RE", 0, 3).await;
    let mut bodies: Vec<_> = read(&mut peer, "RE", 0).await.into_iter().map(|record| record.body).collect();
    bodies.sort();
    assert_eq!(bodies, ["an hour", "an hour as well", "cut"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t_02_delay_offset_out_of_range() {
    let mut broker = TestBroker::start().await;
    broker
        .restart(
            |_| {},
            |dir| {
                let file = dir.join("config/delayOffset.json");
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, "{\"offsetTable\":{1:500000}}").unwrap();
            },
        )
        .await;
    let mut peer = broker.connect().await;
    peer.create_topic("RB", 1, RW).await;
    peer.put("RB", 0, "DELAY=1;", "m").await;
    peer.wait_for_offset("RB", 0, 1).await;
    drop(peer);
    broker
        .restart(
            |_| {},
            |dir| {
                let saved = std::fs::read_to_string(dir.join("config/delayOffset.json")).unwrap();
                assert!(saved.contains("1:1") && !saved.contains("500000"), "{saved}");
            },
        )
        .await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn y_01_retry_and_dead_letter() {
    let broker = TestBroker::with(|setup| setup.store.message_delay_level = ["1s"; 18].join(" ")).await;
    let mut peer = broker.connect().await;
    peer.create_topic("RD", 1, RW).await;
    peer.create_group("GR", "").await;
    let answer = peer.put("RD", 0, "UNIQ_KEY=u1;TAGS=t;", "m").await;
    let first_id = answer.get("msgId").unwrap().to_owned();
    let answer = peer.call(send_back("GR", 0, 0)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    // Level 3 for the first retry.
    assert_eq!(peer.max_offset(SCHEDULE, 2).await, 1);
    peer.wait_for_offset("%RETRY%GR", 0, 1).await;
    let retry = read(&mut peer, "%RETRY%GR", 0).await.remove(0);
    assert_eq!((retry.reconsume_times, retry.property("DELAY")), (1, Some("3")));
    assert_eq!(retry.property("RETRY_TOPIC"), Some("RD"));
    assert_eq!(retry.property("ORIGIN_MESSAGE_ID"), Some(first_id.as_str()));

    let again = send_back("GR", retry.phys_offset, 0).field("maxReconsumeTimes", 1);
    assert_eq!(peer.call(again).await.code, 0);
    peer.wait_for_offset("%DLQ%GR", 0, 1).await;
    let levels: Vec<i64> = {
        let mut levels = Vec::new();
        for queue in 0..18 {
            levels.push(peer.max_offset(SCHEDULE, queue).await);
        }
        levels
    };
    assert_eq!(levels.iter().sum::<i64>(), 1);
    let dead = peer.call(pull("Gread", "%DLQ%GR", 0, 0, "*")).await;
    // A dead letter topic may be read only when an operator allows it.
    let dead = match dead.code {
        0 => records(&dead.body).remove(0),
        _ => panic!("{:?}", dead.remark),
    };
    assert_eq!((dead.reconsume_times, dead.property("DELAY")), (2, Some("0")));
    assert_eq!(dead.property("ORIGIN_MESSAGE_ID"), Some(first_id.as_str()));
    assert_eq!((dead.property("RETRY_TOPIC"), dead.property("UNIQ_KEY")), (Some("RD"), Some("u1")));
    broker.stop().await;
}

/// How often a message may come back is the group's business, but for a client that says how often.
#[tokio::test(flavor = "multi_thread")]
async fn who_says_how_often() {
    let broker = TestBroker::with(|setup| setup.store.message_delay_level = "1h".into()).await;
    let mut peer = broker.connect().await;
    peer.create_topic("RD", 1, RW).await;
    peer.put("RD", 0, "", "m").await;
    peer.create_group("G0", ",\"retryMaxTimes\":0").await;
    peer.create_group("G16", "").await;
    let older = |mut command: Command| {
        // V3_4_9 is the first whose word counts.
        command.version = 120;
        command
    };
    let mut expected = (0, 0);
    for (command, dead) in [
        (send_back("G0", 0, 0), true),
        (send_back("G0", 0, 0).field("maxReconsumeTimes", 1), false),
        (older(send_back("G0", 0, 0).field("maxReconsumeTimes", 1)), true),
        (send_back("G16", 0, 0), false),
        (send_back("G16", 0, 0).field("maxReconsumeTimes", 0), true),
        (send_back("G16", 0, 0).field("maxReconsumeTimes", -1), true),
    ] {
        assert_eq!(peer.call(command.clone()).await.code, 0);
        if dead {
            expected.0 += 1;
        } else {
            expected.1 += 1;
        }
        let letters = peer.max_offset("%DLQ%G0", 0).await + peer.max_offset("%DLQ%G16", 0).await;
        assert_eq!((letters, peer.max_offset(SCHEDULE, 0).await), expected, "{command:?}");
    }
    broker.stop().await;
}

/// A group may have several retry queues; retries are spread over them, dead letters have one queue.
#[tokio::test(flavor = "multi_thread")]
async fn several_retry_queues() {
    let broker = TestBroker::with(|setup| setup.store.message_delay_level = "1s".into()).await;
    let mut peer = broker.connect().await;
    peer.create_topic("RD", 1, RW).await;
    peer.create_group("GR", ",\"retryQueueNums\":3").await;
    peer.put("RD", 0, "", "m").await;
    for level in [1; 40].into_iter().chain([-1]) {
        assert_eq!(peer.call(send_back("GR", 0, level)).await.code, 0);
    }
    for (topic, queues) in [("%RETRY%GR", 3), ("%DLQ%GR", 1)] {
        let answer = peer.call(Command::request(RequestCode::GET_TOPIC_CONFIG).field("topic", topic)).await;
        let config: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let numbers = ["readQueueNums", "writeQueueNums", "perm"].map(|key| config[key].as_i64().unwrap());
        assert_eq!(numbers, [queues, queues, 6], "{topic}");
    }
    // At once, whatever the level.
    assert_eq!(peer.max_offset("%DLQ%GR", 0).await, 1);
    let limit = Instant::now() + crate::common::LIMIT;
    let mut ends = [0; 3];
    while ends.iter().sum::<i64>() < 40 {
        assert!(Instant::now() < limit, "{ends:?}");
        for (queue, end) in (0..).zip(&mut ends) {
            *end = peer.max_offset("%RETRY%GR", queue).await;
        }
    }
    // The chance that one of three stays empty is below one in ten million.
    assert!(ends.iter().all(|end| *end > 0), "{ends:?}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn send_backs_that_fail() {
    let broker = TestBroker::with(|setup| setup.broker.auto_create_subscription_group = false).await;
    let mut peer = broker.connect().await;
    peer.create_group("GR", "").await;
    let answer = peer.call(send_back("Gnone", 0, 0)).await;
    assert_eq!(answer.code, 26);
    let answer = peer.call(send_back("GR", 123_456_789, 0)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("look message by offset failed, 123456789")));
    peer.create_group("G0", ",\"retryQueueNums\":0").await;
    assert_eq!(peer.call(send_back("G0", 0, 0)).await.code, 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn y_03_ordered_consumer_gives_up() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_group("GR", ",\"retryMaxTimes\":2").await;
    let retry = |times: i32| set(message("%RETRY%GR", 0, "", &format!("r{times}")), "reconsumeTimes", times);
    for times in 1..=3 {
        assert_eq!(peer.call(retry(times)).await.code, 0);
    }
    for times in 1..=2 {
        let mut own = set(retry(times), "properties", crate::common::separated("DELAY=5;"));
        if times == 1 {
            own = set(own, "properties", "");
        }
        let answer = peer.call(own.field("maxReconsumeTimes", 1)).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
    }
    let bodies = |records: Vec<Stored>| records.into_iter().map(|record| record.body).collect::<Vec<_>>();
    assert_eq!(bodies(read(&mut peer, "%RETRY%GR", 0).await), ["r1", "r2", "r1"]);
    assert_eq!(bodies(read(&mut peer, "%DLQ%GR", 0).await), ["r3", "r2"]);
    assert_eq!(peer.max_offset(SCHEDULE, 4).await, 0);
    broker.stop().await;
}
