//! Sends: cases M-*, B-03, I-06.

use std::time::{Duration, Instant};

use crate::common::{TestBroker, batch, message, number, pull, records, set, without};
use config::FlushDiskType;
use remoting::{Command, RequestCode, SerializeType};
use store::record::RecordView;

const RW: i32 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn m_01_topic_name() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    let long = "x".repeat(128);
    for (name, remark) in [
        ("a b", "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("a/b", "contains illegal characters"),
        ("a.b", "contains illegal characters"),
        ("\u{4e2d}\u{6587}", "contains illegal characters"),
        (long.as_str(), "is longer than topic max length: 127"),
        ("", "The specified topic is blank."),
    ] {
        let answer = peer.call(message(name, 0, "", "m")).await;
        assert_eq!(answer.code, 29, "{name}");
        assert!(answer.remark.unwrap().contains(remark), "{name}");
        assert!(!broker.running().parts().topics.contains(name));
    }
    peer.put(&"x".repeat(127), 0, "", "m").await;
    let answer = peer.call(message("SCHEDULE_TOPIC_XXXX", 0, "", "m")).await;
    assert_eq!(answer.code, 16);
    assert_eq!(answer.remark.as_deref(), Some("Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden."));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m_03_queue_id() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T2", 2, RW).await;
    for id in [2, 99] {
        let answer = peer.call(message("T2", id, "", "m")).await;
        assert_eq!(answer.code, 29);
        let expected = format!(
            "request queueId[{id}] is illegal, TopicConfig [topicName=T2, readQueueNums=2, writeQueueNums=2, perm=RW-, \
             topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={{}}] Producer: {}",
            peer.local()
        );
        assert_eq!(answer.remark.as_deref(), Some(expected.as_str()));
        assert_eq!((answer.get("MSG_REGION"), answer.get("TRACE_ON")), (Some("DefaultRegion"), Some("true")));
    }
    let mut seen = [false; 2];
    for _ in 0..64 {
        let answer = peer.put("T2", -1, "", "m").await;
        seen[usize::try_from(number(&answer, "queueId")).unwrap()] = true;
    }
    assert_eq!(seen, [true, true]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m_05_property_string() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T2", 1, RW).await;
    for properties in ["A=1", "A=1;;B=2;;", "A;B=;C=x;", "UNIQ_KEY=mine;MSG_REGION=elsewhere;POP_CK=1 2 3;A=1"] {
        let answer = peer.put("T2", 0, properties, "m").await;
        assert_eq!((answer.get("MSG_REGION"), answer.get("TRACE_ON")), (Some("DefaultRegion"), Some("true")));
        assert_eq!(number(&answer, "queueId"), 0);
    }
    let stored = records(&peer.call(pull("G", "T2", 0, 0, "*")).await.body);
    let own = ["MSG_REGION", "TRACE_ON", "CLUSTER"];
    for (record, expected) in stored.iter().zip([
        vec![("A", "1")],
        vec![("A", "1"), ("B", "2")],
        vec![("C", "x")],
        vec![("A", "1"), ("UNIQ_KEY", "mine")],
    ]) {
        for (name, value) in own.into_iter().zip(["DefaultRegion", "true", "C1"]) {
            assert_eq!(record.property(name), Some(value));
        }
        let unique = record.property("UNIQ_KEY").unwrap();
        assert!(unique == "mine" || unique.len() == 32);
        let mut users: Vec<_> = record
            .properties
            .iter()
            .filter(|(name, value)| !own.contains(&name.as_str()) && (name != "UNIQ_KEY" || value == "mine"))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        users.sort_unstable();
        assert_eq!(users, expected);
    }
    assert_eq!(stored[0].born_host, peer.local());
    broker.stop().await;
}

/// What is found for several sends of a read before the first of them is handled changes no answer: to topics that are there,
/// that are made, that may not be sent to, and to queues that are not there.
#[tokio::test(flavor = "multi_thread")]
async fn one_read_with_sends_to_many_topics() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    for number in 0..200 {
        peer.create_topic(&format!("Many{number}"), 4, RW).await;
    }
    for round in 0..3 {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for number in 0..240 {
            let (topic, queue, code) = match number % 8 {
                5 => (format!("New{}", number / 8), 0, 0),
                6 => ("SCHEDULE_TOPIC_XXXX".to_owned(), 0, 16),
                7 => (format!("Many{}", number % 200), 4, 29),
                queue => (format!("Many{}", number % 200), queue % 4, 0),
            };
            let mut command = message(&topic, queue, "", "m");
            command.opaque = 1000 + number;
            command.encode(SerializeType::Json, &mut bytes);
            expected.push((topic, queue, code));
        }
        peer.send_raw(&bytes).await;
        for (opaque, (topic, queue, code)) in (1000..).zip(expected) {
            let answer = peer.answer(opaque).await;
            assert_eq!(answer.code, code, "{topic} {queue}: {:?}", answer.remark);
            if topic.starts_with("New") {
                assert_eq!(number(&answer, "queueOffset"), round, "{topic}");
            }
        }
    }
    let topics = &broker.running().parts().topics;
    let sent: u64 = topics.snapshot().iter().map(|topic| topic.stats.put.sum(0)).sum();
    assert_eq!(sent, 3 * 240 / 8 * 6);
    for queue in [0, 1, 2, 3] {
        peer.wait_for_offset("Many10", queue, i64::from(queue == 2) * 6).await;
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m_06_batch() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TB", 1, RW).await;
    peer.create_group("G1", "").await;
    let one = [("", "m")];
    let answer = peer.call(batch("%RETRY%G1", 0, "", &one)).await;
    assert_eq!(answer.code, 13);
    assert_eq!(answer.remark.as_deref(), Some("batch request does not support retry group %RETRY%G1"));
    let answer = peer.call(batch("TB", 0, "DELAY=3;", &one)).await;
    assert_eq!(answer.code, 13);
    let answer = peer.call(batch("TB", 0, "", &[("DELAY=3;", "late")])).await;
    assert_eq!((answer.code, peer.max_offset("TB", 0).await), (0, 1));
    let answer = peer.call(batch("TB", 0, "UNIQ_KEY=u;", &[("A=1;", "a"), ("B=2", "bb"), ("", "ccc")])).await;
    assert_eq!((answer.code, number(&answer, "queueOffset")), (0, 1));
    assert_eq!(answer.get("transactionId"), Some("u"));
    let stored = records(&peer.call(pull("G1", "TB", 0, 0, "*")).await.body);
    assert_eq!(stored[0].property("DELAY"), Some("3"));
    let ids: Vec<_> = answer.get("msgId").unwrap().split(',').map(str::to_owned).collect();
    assert_eq!(ids.len(), 3);
    for ((record, id), (body, offset)) in stored[1..].iter().zip(&ids).zip([("a", 1), ("bb", 2), ("ccc", 3)]) {
        assert_eq!((record.body.as_str(), record.queue_offset), (body, offset));
        assert_eq!(record.store_timestamp, stored[1].store_timestamp);
        assert!(id.ends_with(&format!("{:016X}", record.phys_offset)), "{id}");
    }
    assert_eq!((stored[1].property("A"), stored[2].property("B")), (Some("1"), Some("2")));
    // A body that is no row of messages.
    let mut broken = batch("TB", 0, "", &one);
    broken.body = broken.body.slice(..broken.body.len() - 1);
    assert_eq!(peer.call(broken).await.code, 1);
    assert_eq!(peer.max_offset("TB", 0).await, 4);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m_08_a_normal_message_names_its_cluster() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.put("TN", 0, "", "m").await;
    let stored = records(&peer.call(pull("G", "TN", 0, 0, "*")).await.body);
    assert_eq!(stored[0].property("CLUSTER"), Some("C1"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i_06_message_id_address() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TI", 1, RW).await;
    peer.put("TI", 0, "", "zero").await;
    let answer = peer.put("TI", 0, "", "one").await;
    let id = answer.get("msgId").unwrap().to_owned();
    let addr = broker.running().addr();
    assert_eq!((id.len(), &id[..16]), (32, format!("7F000001{:08X}", addr.port()).as_str()));
    let offset = i64::from_str_radix(&id[16..], 16).unwrap();
    let view = |offset: i64| Command::request(RequestCode::VIEW_MESSAGE_BY_ID).field("offset", offset);
    let answer = peer.call(view(offset)).await;
    let stored = records(&answer.body);
    assert_eq!((answer.code, stored[0].body.as_str(), stored[0].store_host), (0, "one", addr));
    for offset in [1_000_000_000, -1] {
        let answer = peer.call(view(offset)).await;
        assert_eq!(answer.code, 1);
        assert_eq!(answer.remark.unwrap(), format!("can not find message by the offset, {offset}"));
    }
    // Nothing stands in the middle of a record, nor where no number says.
    for garbage in ["abc", "", "99999999999999999999", &(offset + 7).to_string()] {
        let answer = peer.call(Command::request(RequestCode::VIEW_MESSAGE_BY_ID).field("offset", garbage)).await;
        assert_eq!(answer.code, 1, "{garbage}");
    }
    assert_eq!(peer.call(Command::request(RequestCode::VIEW_MESSAGE_BY_ID)).await.code, 1);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i_06_message_id_of_an_ipv6_address() {
    let broker = TestBroker::with(|setup| setup.broker.broker_ip1 = "fe80::1".into()).await;
    let mut peer = broker.connect().await;
    peer.create_topic("TI", 1, RW).await;
    let answer = peer.put("TI", 0, "", "six").await;
    let id = answer.get("msgId").unwrap();
    assert_eq!((id.len(), &id[..32]), (56, "FE800000000000000000000000000001"));
    let offset = i64::from_str_radix(&id[40..], 16).unwrap();
    let answer = peer.call(Command::request(RequestCode::VIEW_MESSAGE_BY_ID).field("offset", offset)).await;
    let view = RecordView::parse(&answer.body).unwrap();
    assert_eq!((view.body(), view.sys_flag() & 1 << 5), (&b"six"[..], 1 << 5));
    let stored = records(&answer.body);
    assert_eq!(stored[0].store_host.ip().to_string(), "fe80::1");
    let earliest = Command::request(RequestCode::GET_EARLIEST_MSG_STORETIME).field("topic", "TI").field("queueId", 0);
    assert_eq!(number(&peer.call(earliest).await, "timestamp"), stored[0].store_timestamp);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b_03_missing_and_wrong_fields() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    let max = |queue: Option<&str>| {
        let command = Command::request(RequestCode::GET_MAX_OFFSET).field("topic", "T");
        queue.into_iter().fold(command, |command, queue| command.field("queueId", queue))
    };
    let mut empty = message("T", 0, "", "m");
    empty.body = bytes::Bytes::new();
    for request in [
        Command::request(RequestCode::GET_MAX_OFFSET),
        max(None),
        max(Some("abc")),
        without(message("T", 0, "", "m"), "topic"),
        empty,
    ] {
        let answer = peer.call(request).await;
        assert_eq!(answer.code, 1);
        assert!(!answer.remark.unwrap().is_empty());
    }
    assert_eq!(peer.call(max(Some("0"))).await.code, 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_size() {
    let broker = TestBroker::with(|setup| setup.store.max_message_size = 2048).await;
    let mut peer = broker.connect().await;
    peer.create_topic("TS", 1, RW).await;
    let illegal = "the message is illegal, maybe msg body or properties length not matched. msg body length limit 2048B, \
                   msg properties length limit 32KB.";
    let answer = peer.call(message("TS", 0, "", &"x".repeat(3000))).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (13, Some(illegal)));
    let answer = peer.call(message("TS", 0, &format!("big={};", "y".repeat(33_000)), "m")).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (13, Some(illegal)));
    // The limit can be changed while the broker runs.
    broker.running().parts().store_config.update(&[("maxMessageSize", "4096")]).unwrap();
    peer.put("TS", 0, "", &"x".repeat(3000)).await;
    assert_eq!(peer.max_offset("TS", 0).await, 1);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_that_are_refused() {
    let broker = TestBroker::with(|setup| {
        setup.broker.auto_create_topic_enable = false;
        setup.broker.reject_transaction_message = true;
    })
    .await;
    let mut peer = broker.connect().await;
    let answer = peer.call(message("Tnone", 0, "", "m")).await;
    assert_eq!(answer.code, 17);
    assert!(answer.remark.unwrap().starts_with("topic[Tnone] not exist, apply first please!"));
    peer.create_topic("T", 1, RW).await;
    let answer = peer.call(message("T", 0, "TRAN_MSG=true;", "m")).await;
    assert_eq!(answer.code, 16);
    let answer = peer.call(message("T", 0, "TIMER_DELAY_SEC=400000;", "m")).await;
    assert_eq!(answer.code, 13);
    let answer = peer.call(message("T", 0, "INNER_NUM=3;", "m")).await;
    assert_eq!(answer.code, 13);
    let answer = peer.call(set(message("T", 0, "", "m"), "sysFlag", 1 << 7)).await;
    assert_eq!(answer.code, 13);
    assert_eq!(peer.max_offset("T", 0).await, 0);
    broker.running().parts().config.update(&[("startAcceptSendRequestTimeStamp", "9000000000000")]).unwrap();
    let answer = peer.call(message("T", 0, "", "m")).await;
    assert_eq!(answer.code, 1);
    assert!(answer.remark.unwrap().starts_with("broker unable to service, until "));
    broker.stop().await;
}

/// `brokerPermission` keeps consumers and retries away at once. Producers leave with the next route: only of an ordered topic, whose producers keep
/// to their queues, messages are refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_without_permission() {
    const READ: &str = "4";
    const WRITE: &str = "2";
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TP", 1, RW).await;
    let ordered = Command::request(RequestCode::UPDATE_AND_CREATE_TOPIC)
        .field("topic", "TO")
        .field("defaultTopic", "TBW102")
        .field("readQueueNums", 1)
        .field("writeQueueNums", 1)
        .field("perm", RW)
        .field("topicFilterType", "SINGLE_TAG")
        .field("topicSysFlag", 0)
        .field("order", true);
    assert_eq!(peer.call(ordered).await.code, 0);
    peer.create_group("GP", "").await;
    peer.put("TP", 0, "", "m").await;
    peer.put("TO", 0, "", "m").await;
    let send_back = Command::request(RequestCode::CONSUMER_SEND_MSG_BACK)
        .field("group", "GP")
        .field("offset", 0)
        .field("delayLevel", -1);
    let address = broker.running().parts().config.load().broker_ip1.clone();
    let sending = format!("the broker[{address}] sending message is forbidden");
    for (permission, refused) in [(READ, true), (WRITE, false)] {
        broker.running().parts().config.update(&[("brokerPermission", permission)]).unwrap();
        for request in [message("TO", 0, "", "m"), send_back.clone()] {
            let answer = peer.call(request).await;
            let expected = if refused { (16, Some(sending.as_str())) } else { (0, None) };
            assert_eq!((answer.code, answer.remark.as_deref()), expected, "{permission}");
        }
        peer.put("TP", 0, "", "m").await;
        let answer = peer.call(pull("GP", "TP", 0, 0, "*")).await;
        let pulling = format!("the broker[{address}] pulling message is forbidden");
        let expected = if refused { (0, None, Some("FOUND")) } else { (16, Some("1"), Some(pulling.as_str())) };
        assert_eq!((answer.code, answer.get("forbiddenType"), answer.remark.as_deref()), expected, "{permission}");
    }
    assert_eq!((peer.max_offset("TO", 0).await, peer.max_offset("%DLQ%GP", 0).await), (2, 1));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_flush_is_waited_for() {
    let broker = TestBroker::with(|setup| setup.store.flush_disk_type = FlushDiskType::Sync).await;
    let mut peer = broker.connect().await;
    peer.create_topic("TF", 1, RW).await;
    let mut opaques = Vec::new();
    for i in 0..50 {
        let properties = if i % 2 == 0 { "" } else { "WAIT=false;" };
        opaques.push(peer.send(message("TF", 0, properties, &format!("m{i}"))).await);
    }
    let store = broker.running().parts().store.clone();
    for (i, opaque) in opaques.into_iter().enumerate() {
        let answer = peer.answer(opaque).await;
        assert_eq!((answer.code, number(&answer, "queueOffset")), (0, i as i64));
        if i % 2 == 0 {
            let id = answer.get("msgId").unwrap();
            let at = u64::from_str_radix(&id[16..], 16).unwrap();
            assert!(store.flushed().get() > at, "answered before it was on disk");
        }
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_survive_a_restart() {
    let mut broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    for i in 0..100 {
        peer.put("TR", 0, "KEYS=k;", &format!("m{i}")).await;
    }
    drop(peer);
    broker.restart(|_| {}, |_| {}).await;
    let mut peer = broker.connect().await;
    let limit = Instant::now() + Duration::from_secs(20);
    let (mut offset, mut bodies) = (0, Vec::new());
    while bodies.len() < 100 {
        assert!(Instant::now() < limit);
        let answer = peer.call(pull("G", "TR", 0, offset, "*")).await;
        bodies.extend(records(&answer.body).into_iter().map(|record| record.body));
        offset = number(&answer, "nextBeginOffset");
    }
    let expected: Vec<_> = (0..100).map(|i| format!("m{i}")).collect();
    assert_eq!(bodies, expected);
    broker.stop().await;
}
