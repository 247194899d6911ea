//! Messages for an arbitrary time: cases T-03, T-05 and T-06, refusals, recalls, restarts, and what tools ask.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::{LIMIT, Peer, Stored, TestBroker, batch, message, number, pull, records};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use remoting::{Command, RequestCode};

const RW: i32 = 6;
const TIMER: &str = "rmq_sys_wheel_timer";

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// A broker whose timer ticks ten times a second.
async fn fast() -> TestBroker {
    TestBroker::with(|setup| setup.store.timer_precision_ms = 100).await
}

async fn read(peer: &mut Peer, topic: &str) -> Vec<Stored> {
    records(&peer.call(pull("Gread", topic, 0, 0, "*")).await.body)
}

fn bodies(records: &[Stored]) -> Vec<&str> {
    records.iter().map(|record| record.body.as_str()).collect()
}

fn property(record: &Stored, name: &str) -> i64 {
    record.property(name).unwrap_or_else(|| panic!("no {name} in {record:?}")).parse().unwrap()
}

/// Waits until the timer has nothing left to take and nothing waits.
async fn wait_until_empty(broker: &TestBroker) {
    let timer = broker.running().parts().timer.clone().unwrap();
    let limit = Instant::now() + LIMIT;
    while timer.untaken() > 0 || timer.waiting() > 0 {
        assert!(Instant::now() < limit, "{} untaken, {} waiting", timer.untaken(), timer.waiting());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn wait_until_taken(broker: &TestBroker) {
    let timer = broker.running().parts().timer.clone().unwrap();
    let limit = Instant::now() + LIMIT;
    while timer.untaken() > 0 {
        assert!(Instant::now() < limit, "{} untaken", timer.untaken());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn recall(topic: &str, handle: &str) -> Command {
    Command::request(RequestCode::RECALL_MESSAGE)
        .field("producerGroup", "PG")
        .field("topic", topic)
        .field("recallHandle", handle)
}

#[tokio::test(flavor = "multi_thread")]
async fn t_03_messages_come_on_time() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("RT", 1, RW).await;
    // Not on a tick.
    let t = now() / 1000 * 1000 + 1371;
    let mut handles = Vec::new();
    for (after, key) in [(2000, "K1"), (4000, "K2")] {
        let due = t + after;
        let properties = format!("TIMER_DELIVER_MS={due};UNIQ_KEY={key};TAGS=t;");
        let answer = peer.put("RT", 0, &properties, key).await;
        assert_eq!((number(&answer, "queueId"), number(&answer, "queueOffset")), (0, handles.len() as i64));
        let handle = answer.get("recallHandle").unwrap().to_owned();
        let text = String::from_utf8(URL_SAFE.decode(&handle).unwrap()).unwrap();
        assert_eq!(text, format!("v1 RT bk1 {} {key}", due / 1000 * 1000 + 1));
        handles.push((due, handle));
    }
    assert_eq!(peer.max_offset(TIMER, 0).await, 2);
    peer.wait_for_offset("RT", 0, 2).await;
    let found = read(&mut peer, "RT").await;
    assert_eq!(bodies(&found), ["K1", "K2"]);
    for (record, (due, _)) in found.iter().zip(&handles) {
        let late = record.store_timestamp - due;
        assert!((0..2000).contains(&late), "{late} ms late");
        assert_eq!(property(record, "TIMER_OUT_MS"), due / 1000 * 1000);
        assert_eq!(property(record, "TIMER_DELIVER_MS"), *due);
        assert!(property(record, "TIMER_ENQUEUE_MS") <= t);
        assert!(property(record, "TIMER_DEQUEUE_MS") <= record.store_timestamp);
        assert_eq!((record.property("REAL_TOPIC"), record.property("REAL_QID")), (Some("RT"), Some("0")));
        assert_eq!(record.property("TAGS"), Some("t"));
    }
    wait_until_empty(&broker).await;
    assert_eq!(peer.max_offset("RT", 0).await, 2);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delays_by_seconds_and_milliseconds() {
    let broker = fast().await;
    let mut peer = broker.connect().await;
    peer.create_topic("RD", 1, RW).await;
    let sent = now();
    // Seconds before milliseconds before a time.
    peer.put("RD", 0, &format!("TIMER_DELAY_SEC=1;TIMER_DELAY_MS=50;TIMER_DELIVER_MS={sent};"), "seconds").await;
    peer.put("RD", 0, &format!("TIMER_DELAY_MS=350;TIMER_DELIVER_MS={sent};"), "millis").await;
    // A time that has passed, and an empty value, are none.
    let answer = peer.put("RD", 0, &format!("TIMER_DELIVER_MS={sent};"), "past").await;
    assert_eq!(answer.get("recallHandle"), None);
    peer.put("RD", 0, "TIMER_DELAY_MS=0;", "zero").await;
    peer.put("RD", 0, "TIMER_DELAY_SEC=;", "empty").await;
    peer.wait_for_offset("RD", 0, 5).await;
    let found = read(&mut peer, "RD").await;
    assert_eq!(bodies(&found), ["past", "zero", "empty", "millis", "seconds"]);
    for (at, after) in [(3, 350), (4, 1000)] {
        let late = found[at].store_timestamp - sent - after;
        assert!((0..1000).contains(&late), "{late} ms late");
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_level_goes_before_a_time() {
    let broker = fast().await;
    let mut peer = broker.connect().await;
    peer.create_topic("RL", 1, RW).await;
    let answer = peer.put("RL", 0, "DELAY=1;TIMER_DELAY_SEC=1000;", "level").await;
    assert_eq!(answer.get("recallHandle"), None);
    assert_eq!((peer.max_offset(TIMER, 0).await, peer.max_offset("SCHEDULE_TOPIC_XXXX", 0).await), (0, 1));
    peer.wait_for_offset("RL", 0, 1).await;
    let found = read(&mut peer, "RL").await;
    assert_eq!(found[0].property("TIMER_DELAY_SEC"), None);
    // Levels 0 and below are none.
    peer.put("RL", 0, "DELAY=0;TIMER_DELAY_MS=200;", "timed").await;
    assert_eq!(peer.max_offset(TIMER, 0).await, 1);
    peer.wait_for_offset("RL", 0, 2).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_kept_is_refused() {
    let broker = TestBroker::with(|setup| setup.store.timer_max_delay_sec = 100).await;
    let mut peer = broker.connect().await;
    peer.create_topic("RR", 1, RW).await;
    let far = now() + 101_000;
    for properties in [
        "TIMER_DELAY_SEC=102;",
        "TIMER_DELAY_MS=x;",
        "TIMER_DELAY_SEC=9223372036854775807;",
        &format!("TIMER_DELIVER_MS={far};"),
        // A recall for a time that has passed.
        "TIMER_DELIVER_MS=1000;TIMER_DEL_UNIQKEY=k;",
    ] {
        let answer = peer.call(message("RR", 0, properties, "m")).await;
        assert_eq!(answer.code, 13, "{properties}");
        assert_eq!(
            answer.remark.unwrap(),
            "timer message illegal, the delay time should not be bigger than the max delay 100000ms; or if set del msg, \
             the delay time should be bigger than the current time"
        );
    }
    let answer = peer.call(batch("RR", 0, "TIMER_DELAY_SEC=5;", &[("", "a")])).await;
    assert_eq!(answer.code, 13);
    // A time inside a batch says nothing, as in Java.
    assert_eq!(peer.call(batch("RR", 0, "", &[("TIMER_DELAY_SEC=50;", "a")])).await.code, 0);
    assert_eq!((peer.max_offset("RR", 0).await, peer.max_offset(TIMER, 0).await), (1, 0));
    broker.stop().await;

    let broker = TestBroker::with(|setup| setup.store.timer_wheel_enable = false).await;
    let mut peer = broker.connect().await;
    peer.create_topic("RR", 1, RW).await;
    for properties in ["TIMER_DELAY_SEC=1;", "TIMER_DELIVER_MS=1;", "TIMER_DELAY_MS=x;"] {
        let answer = peer.call(message("RR", 0, properties, "m")).await;
        assert_eq!(answer.code, 1);
        assert_eq!(answer.remark.unwrap(), "accurate timer message is not enabled, timerWheelEnable is false");
    }
    let answer = peer.call(Command::request(RequestCode::GET_TIMER_CHECK_POINT)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("The checkpoint is null")));
    let answer = peer.call(Command::request(RequestCode::GET_TIMER_METRICS)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("The timer message store is null")));
    let answer = peer.call(Command::request(RequestCode::SWITCH_TIMER_ENGINE).field("E_T", "F")).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (29, Some("broker timerWheelEnable is false")));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_slots_are_refused() {
    let broker = TestBroker::with(|setup| setup.store.timer_congest_num_each_slot = 1).await;
    let mut peer = broker.connect().await;
    peer.create_topic("RF", 1, RW).await;
    let properties = format!("TIMER_DELIVER_MS={};", now() + 60_000);
    for _ in 0..2 {
        peer.put("RF", 0, &properties, "m").await;
    }
    wait_until_taken(&broker).await;
    let answer = peer.call(message("RF", 0, &properties, "m")).await;
    assert_eq!(answer.code, 1);
    assert_eq!(
        answer.remark.unwrap(),
        "timer message is under flow control, max num limit is 2 or the current value is greater than 1 and less than 2, \
         trigger random flow control"
    );
    peer.put("RF", 0, &format!("TIMER_DELIVER_MS={};", now() + 65_000), "m").await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t_05_a_recall_is_forbidden_by_default() {
    let broker = fast().await;
    let mut peer = broker.connect().await;
    peer.create_topic("RC", 1, RW).await;
    peer.create_topic("RO", 1, RW).await;
    let answer = peer.put("RC", 0, "TIMER_DELAY_MS=700;UNIQ_KEY=K;", "m").await;
    let handle = answer.get("recallHandle").unwrap().to_owned();
    for (topic, handle) in [("RC", handle.as_str()), ("RC", "zzz"), ("RO", handle.as_str())] {
        let answer = peer.call(recall(topic, handle)).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (16, Some("recall failed, operation is forbidden")));
        assert_eq!(answer.get("MSG_REGION"), Some("DefaultRegion"));
    }
    peer.wait_for_offset("RC", 0, 1).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t_05_a_recall_takes_its_message_only() {
    let broker = TestBroker::with(|setup| {
        setup.broker.recall_message_enable = true;
        setup.store.timer_precision_ms = 100;
    })
    .await;
    let mut peer = broker.connect().await;
    peer.create_topic("RC", 1, RW).await;
    peer.create_topic("RO", 1, RW).await;
    let due = now() + 1500;
    let mut handles = Vec::new();
    for key in ["K1", "K2", "K3"] {
        let answer = peer.put("RC", 0, &format!("TIMER_DELIVER_MS={due};UNIQ_KEY={key};"), key).await;
        handles.push(answer.get("recallHandle").unwrap().to_owned());
    }
    let answer = peer.call(recall("RC", &handles[1])).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, Some("not set any response code")));
    assert_eq!((answer.get("msgId"), answer.get("MSG_REGION")), (Some("K2"), Some("DefaultRegion")));
    let encode = |text: String| URL_SAFE.encode(text);
    let failures = [
        (recall("NONE", &handles[0]), 17, "recall failed, the topic[NONE] not exist"),
        (recall("RC", "zzz"), 604, "recall handle is invalid"),
        (recall("RO", &handles[0]), 604, "recall failed, topic not match"),
        (recall("RC", &encode(format!("v1 RC other {due} K1"))), 604, "recall failed, broker service not available"),
        (recall("RC", &encode("v1 RC bk1 1000 K1".into())), 604, "recall failed, timestamp invalid"),
        (recall("RC", &encode("v1 RC bk1 x K1".into())), 604, "recall failed, timestamp invalid"),
        (recall("RC", &encode(format!("v1 RC bk1 {} K1", due + 259_200_000))), 604, "recall failed, timestamp invalid"),
    ];
    for (command, code, remark) in failures {
        let answer = peer.call(command).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (code, Some(remark)));
    }
    // The producer's own way: a message that deletes another one.
    peer.put("RC", 0, &format!("TIMER_DELIVER_MS={due};TIMER_DEL_UNIQKEY=K3;"), "delete").await;
    let stored = records(&peer.call(pull("Gread", TIMER, 0, 3, "*")).await.body);
    assert_eq!(bodies(&stored), ["0", "delete"]);
    assert_eq!(stored[0].property("TAGS"), Some("_RECALL_TAG_"));
    assert_eq!(stored[0].property("TIMER_DEL_UNIQKEY"), Some("K2"));
    assert_eq!((stored[0].property("UNIQ_KEY"), stored[0].property("PGROUP")), (Some("K2"), Some("PG")));
    wait_until_empty(&broker).await;
    assert_eq!(bodies(&read(&mut peer, "RC").await), ["K1"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recall_ends_with_its_permissions() {
    let broker = TestBroker::with(|setup| {
        setup.broker.recall_message_enable = true;
        setup.broker.allow_recall_when_broker_not_writeable = false;
        setup.broker.broker_permission = 4;
    })
    .await;
    let mut peer = broker.connect().await;
    let answer = peer.call(recall("RC", "zzz")).await;
    let remark = "recall failed, broker service not available";
    assert_eq!((answer.code, answer.remark.as_deref()), (14, Some(remark)));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_outlives_a_restart() {
    let mut broker = fast().await;
    let mut peer = broker.connect().await;
    peer.create_topic("RS", 1, RW).await;
    for (after, body) in [(100, "before"), (3000, "after"), (1_000_000, "far")] {
        peer.put("RS", 0, &format!("TIMER_DELAY_MS={after};"), body).await;
    }
    peer.wait_for_offset("RS", 0, 1).await;
    broker.restart(|setup| setup.store.timer_precision_ms = 100, |_| {}).await;
    let mut peer = broker.connect().await;
    assert_eq!(broker.running().parts().timer.as_ref().unwrap().waiting(), 2);
    peer.wait_for_offset("RS", 0, 2).await;
    assert_eq!(bodies(&read(&mut peer, "RS").await), ["before", "after"]);
    // Overdue when the broker comes back.
    peer.put("RS", 0, "TIMER_DELAY_MS=600;", "overdue").await;
    let due = Instant::now() + Duration::from_millis(800);
    broker
        .restart(
            |setup| setup.store.timer_precision_ms = 100,
            |_| std::thread::sleep(due.saturating_duration_since(Instant::now())),
        )
        .await;
    let mut peer = broker.connect().await;
    peer.wait_for_offset("RS", 0, 3).await;
    assert_eq!(bodies(&read(&mut peer, "RS").await), ["before", "after", "overdue"]);
    broker.stop().await;
}

/// A checkpoint that says more than there is, and records of messages that the log has lost.
#[tokio::test(flavor = "multi_thread")]
async fn t_06_a_checkpoint_beyond_the_topic() {
    let mut broker = fast().await;
    let mut peer = broker.connect().await;
    peer.create_topic("RK", 1, RW).await;
    for i in 0..10 {
        peer.put("RK", 0, "TIMER_DELAY_SEC=1;", &format!("m{i}")).await;
    }
    wait_until_taken(&broker).await;
    let adjust = |setup: &mut config::BrokerSetup| setup.store.timer_precision_ms = 100;
    broker
        .restart(adjust, |dir| {
            let path = dir.join("config/timercheck");
            let mut page = std::fs::read(&path).unwrap();
            page[16..24].copy_from_slice(&100i64.to_be_bytes());
            page[24..32].copy_from_slice(&100i64.to_be_bytes());
            std::fs::write(path, page).unwrap();
            // A record of a message far behind the end of the log.
            let path = dir.join("timerlog/00000000000000000000");
            let mut log = std::fs::read(&path).unwrap();
            let mut record = log[9 * 52..10 * 52].to_vec();
            record[28..36].copy_from_slice(&(1i64 << 40).to_be_bytes());
            record[4..12].copy_from_slice(&(9i64 * 52).to_be_bytes());
            log[10 * 52..11 * 52].copy_from_slice(&record);
            std::fs::write(path, log).unwrap();
        })
        .await;
    let mut peer = broker.connect().await;
    peer.put("RK", 0, "TIMER_DELAY_MS=1200;", "new").await;
    peer.wait_for_offset("RK", 0, 11).await;
    wait_until_empty(&broker).await;
    let mut found = read(&mut peer, "RK").await;
    found.sort_by(|a, b| a.body.cmp(&b.body));
    found.dedup_by(|a, b| a.body == b.body);
    assert_eq!((found.len(), peer.max_offset("RK", 0).await), (11, 11));
    broker
        .restart(adjust, |dir| {
            let page = std::fs::read(dir.join("config/timercheck")).unwrap();
            let word = |at: usize| i64::from_be_bytes(page[at..at + 8].try_into().unwrap());
            assert_eq!((word(16), word(24)), (11, 11));
        })
        .await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tools_ask() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("RI", 1, RW).await;
    let before = now();
    for _ in 0..3 {
        peer.put("RI", 0, "TIMER_DELAY_SEC=100;", "m").await;
    }
    wait_until_taken(&broker).await;
    let answer = peer.call(Command::request(RequestCode::GET_TIMER_METRICS)).await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(text.starts_with("{\"dataVersion\":{\"counter\":3,\"stateVersion\":0,\"timestamp\":"), "{text}");
    assert!(text.contains("\"timingCount\":{\"RI\":{\"count\":3,\"timeStamp\":"), "{text}");
    let answer = peer.call(Command::request(RequestCode::GET_TIMER_CHECK_POINT)).await;
    let word = |at: usize| i64::from_be_bytes(answer.body[at..at + 8].try_into().unwrap());
    assert_eq!(answer.body.len(), 56);
    assert!((before - 1000..=now()).contains(&word(0)), "{}", word(0));
    assert_eq!((word(8), word(16), word(24)), (156, 3, 3));
    assert!(word(48) >= 1);

    let answer = peer.call(Command::request(RequestCode::GET_BROKER_RUNTIME_INFO)).await;
    let info: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let table = &info["table"];
    assert_eq!((&table["timerCongestNum"], &table["timerOffsetBehind"]), (&"3".into(), &"0".into()));
    assert!(["0", "1"].contains(&table["timerReadBehind"].as_str().unwrap()));
    for key in ["timerEnqueueTps", "timerDequeueTps"] {
        table[key].as_str().unwrap().parse::<f64>().unwrap();
    }

    let engine = |kind: Option<&str>| {
        let command = Command::request(RequestCode::SWITCH_TIMER_ENGINE);
        kind.map_or(command.clone(), |kind| command.field("E_T", kind))
    };
    let answer = peer.call(engine(Some("F"))).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, Some("switch timer engine success")));
    let failures = [
        (Some("R"), "timerRocksDBEnable must be configured true when broker start"),
        (Some("x"), "param error"),
        (None, "param error, extFields is null"),
    ];
    for (kind, remark) in failures {
        let answer = peer.call(engine(kind)).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (29, Some(remark)));
    }
    // A topic that is deleted is not counted any more.
    let answer = peer.call(Command::request(RequestCode::DELETE_TOPIC_IN_BROKER).field("topic", "RI")).await;
    assert_eq!(answer.code, 0);
    assert!(broker.running().parts().timer.as_ref().unwrap().counts().snapshot().is_empty());
    broker.stop().await;
}

/// Written to the timer's topic by a client, as only the broker should.
#[tokio::test(flavor = "multi_thread")]
async fn strange_messages_do_not_stop_the_timer() {
    let broker = fast().await;
    let mut peer = broker.connect().await;
    peer.create_topic("RX", 1, RW).await;
    for properties in ["", "TIMER_OUT_MS=x;REAL_TOPIC=RX;REAL_QID=0;", "TIMER_OUT_MS=5;", "TIMER_DELAY_SEC=100;"] {
        peer.put(TIMER, 0, properties, "strange").await;
    }
    // To a queue that the topic did not have, and of the broker's own topics.
    peer.put(TIMER, 0, &format!("TIMER_OUT_MS={};REAL_TOPIC=rmq_sys_X;REAL_QID=5;", now() + 300), "system").await;
    peer.put("RX", 0, "TIMER_DELAY_MS=300;", "good").await;
    peer.wait_for_offset("RX", 0, 1).await;
    let limit = Instant::now() + LIMIT;
    let store = &broker.running().parts().store;
    while store.queue("rmq_sys_X", 5).is_none_or(|queue| queue.max_offset() < 1) {
        assert!(Instant::now() < limit, "the system's message does not come");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    broker.stop().await;
}
