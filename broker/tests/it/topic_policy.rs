//! What attributes of topics ask of the store: compaction, and a time of their own for messages to be kept.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{LIMIT, Peer, Stored, TestBroker, batch, message, number, pull, records};
use config::BrokerSetup;
use remoting::{Command, RequestCode, ResponseCode};
use store::record::RecordView;

const HOUR: i64 = 3_600_000;

/// UPDATE_AND_CREATE_TOPIC with attributes and one queue.
async fn set_topic(peer: &mut Peer, name: &str, attributes: &str) -> Command {
    let command = Command::request(RequestCode::UPDATE_AND_CREATE_TOPIC)
        .field("topic", name)
        .field("defaultTopic", "TBW102")
        .field("readQueueNums", 1)
        .field("writeQueueNums", 1)
        .field("perm", 6)
        .field("topicFilterType", "SINGLE_TAG")
        .field("topicSysFlag", 0)
        .field("order", false)
        .field("attributes", attributes);
    peer.call(command).await
}

async fn must_set_topic(peer: &mut Peer, name: &str, attributes: &str) {
    let answer = set_topic(peer, name, attributes).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
}

/// Everything from offset 0 on, as a consumer reads it.
async fn read(peer: &mut Peer, topic: &str) -> Vec<Stored> {
    let mut found: Vec<Stored> = Vec::new();
    let mut offset = 0;
    loop {
        let answer = peer.call(pull("CG", topic, 0, offset, "*")).await;
        if answer.code != 0 {
            assert_eq!(answer.code, ResponseCode::PULL_NOT_FOUND.0, "{:?}", answer.remark);
            return found;
        }
        let page = records(&answer.body);
        let next = number(&answer, "nextBeginOffset");
        assert!(page.windows(2).all(|pair| pair[0].queue_offset < pair[1].queue_offset));
        assert!(page.first().is_some_and(|first| first.queue_offset >= offset));
        assert_eq!(page.last().unwrap().queue_offset + 1, next);
        found.extend(page);
        offset = next;
    }
}

fn small(setup: &mut BrokerSetup) {
    // Forty messages a file.
    setup.store.compaction_cq_mapped_file_size = 1886;
    setup.store.compaction_mapped_file_size = 1;
    setup.store.compaction_schedule_internal = 50;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_each_key_the_last_message_is_kept() {
    let mut broker = TestBroker::with(small).await;
    let mut peer = broker.connect().await;
    must_set_topic(&mut peer, "C", "+cleanup.policy=COMPACTION").await;
    let refused = peer.call(message("C", 0, "TAGS=a", "no keys")).await;
    assert_eq!(
        (refused.code, refused.remark.as_deref()),
        (ResponseCode::MESSAGE_ILLEGAL.0, Some("Required message key is missing"))
    );
    // Nothing is there yet.
    let answer = peer.call(pull("CG", "C", 0, 0, "*")).await;
    assert_eq!(answer.code, ResponseCode::PULL_NOT_FOUND.0);

    let mut last = BTreeMap::new();
    for number in 0..300 {
        let (key, body) = (format!("k{}", number % 9), format!("value {number}"));
        peer.put("C", 0, &format!("KEYS={key};TAGS=t{number};"), &body).await;
        last.insert(key, body);
    }
    // A message without body deletes its key; only in a batch can one come.
    let sent = peer.call(batch("C", 0, "", &[("KEYS=k3;", "")])).await;
    assert_eq!(sent.code, 0, "{:?}", sent.remark);
    last.remove("k3");
    for number in 0..50 {
        peer.put("C", 0, "KEYS=more;", &format!("more {number}")).await;
    }
    last.insert("more".to_owned(), "more 49".to_owned());

    let limit = Instant::now() + LIMIT;
    let kept = loop {
        let kept = read(&mut peer, "C").await;
        if kept.len() <= last.len() + 41 && kept.iter().all(|message| message.property("KEYS") != Some("k3")) {
            break kept;
        }
        assert!(Instant::now() < limit, "{} messages are left", kept.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let of_key = |messages: &[Stored]| -> BTreeMap<String, String> {
        messages.iter().map(|message| (message.property("KEYS").unwrap().to_owned(), message.body.clone())).collect()
    };
    assert_eq!(of_key(&kept), last);
    assert!(kept[0].queue_offset > 200, "{:?}", kept[0]);
    // The consume queue is as ever; a tag is not looked at.
    assert_eq!(peer.max_offset("C", 0).await, 351);
    let answer = peer.call(pull("CG", "C", 0, 0, "nothing-has-this-tag")).await;
    assert_eq!((answer.code, number(&answer, "minOffset")), (0, kept[0].queue_offset));
    let beyond = peer.call(pull("CG", "C", 0, 999, "*")).await;
    assert_eq!((beyond.code, number(&beyond, "nextBeginOffset")), (ResponseCode::PULL_OFFSET_MOVED.0, 351));

    broker.restart(small, |_| {}).await;
    let mut peer = broker.connect().await;
    assert_eq!(of_key(&read(&mut peer, "C").await), last);
    assert_eq!(number(&peer.put("C", 0, "KEYS=k3;", "again").await, "queueOffset"), 351);
    assert_eq!(read(&mut peer, "C").await.last().unwrap().body, "again");
    // Unchangeable, as in Java.
    assert_ne!(set_topic(&mut peer, "C", "+cleanup.policy=DELETE").await.code, 0);
    // Messages of a batch have keys of their own, or are not kept.
    let sent = peer.call(batch("C", 0, "", &[("KEYS=b1;", "1"), ("TAGS=x;", "2"), ("KEYS=b2;", "3")])).await;
    assert_eq!(sent.code, 0, "{:?}", sent.remark);
    let bodies: Vec<_> = read(&mut peer, "C").await.into_iter().map(|message| message.body).collect();
    assert_eq!(bodies[bodies.len() - 2..], ["1", "3"]);

    let delete = Command::request(RequestCode::DELETE_TOPIC_IN_BROKER).field("topic", "C");
    assert_eq!(peer.call(delete).await.code, 0);
    must_set_topic(&mut peer, "C", "").await;
    assert!(read(&mut peer, "C").await.is_empty());
    peer.put("C", 0, "", "no keys").await;
    assert_eq!(read(&mut peer, "C").await.len(), 1);
    broker.stop().await;
}

/// A consumer that waits at the end of a compacted queue gets the next message at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_pull_is_answered() {
    let broker = TestBroker::with(small).await;
    let mut peer = broker.connect().await;
    must_set_topic(&mut peer, "C", "+cleanup.policy=COMPACTION").await;
    peer.put("C", 0, "KEYS=k;", "first").await;
    let mut waiting = broker.connect().await;
    let command = pull("CG", "C", 0, 1, "*");
    let command = crate::common::set(crate::common::set(command, "sysFlag", 6), "suspendTimeoutMillis", 15_000);
    let opaque = waiting.send(command).await;
    assert!(waiting.next(Duration::from_millis(200)).await.is_none());
    peer.put("C", 0, "KEYS=k;", "second").await;
    let answer = waiting.answer(opaque).await;
    assert_eq!((answer.code, records(&answer.body)[0].body.as_str()), (0, "second"));
    broker.stop().await;
}

/// Makes the first messages of each queue look so many milliseconds older.
fn age(root: &Path, millis: i64, messages: i64) {
    for entry in fs::read_dir(root.join("commitlog")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        let mut at = 0;
        while let Ok(record) = RecordView::parse(&bytes[at..]) {
            if record.queue_offset() < messages {
                let old = record.store_timestamp() - millis;
                // Behind the fixed fields and an IPv4 born host.
                file.write_all_at(&old.to_be_bytes(), at as u64 + 56).unwrap();
            }
            at += record.size();
        }
    }
}

async fn min_offset(peer: &mut Peer, topic: &str) -> i64 {
    let command = Command::request(RequestCode::GET_MIN_OFFSET).field("topic", topic).field("queueId", 0);
    number(&peer.call(command).await, "offset")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_keeps_its_messages_for_its_own_time() {
    let mut broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    must_set_topic(&mut peer, "Short", "+retention.hours=5").await;
    must_set_topic(&mut peer, "Other", "").await;
    let mut ids = Vec::new();
    for number in 0..10 {
        let sent = peer.put("Short", 0, "KEYS=k;", &format!("{number}")).await;
        ids.push(sent.get("msgId").unwrap().to_owned());
        peer.put("Other", 0, "KEYS=k;", &format!("{number}")).await;
    }
    assert_eq!((min_offset(&mut peer, "Short").await, read(&mut peer, "Short").await.len()), (0, 10));
    for (value, remark) in [
        ("0", "value is not in range(1, 878400)"),
        ("x", "For input string: \"x\""),
        ("-3", "value is not in range(1, 878400)"),
    ] {
        let answer = set_topic(&mut peer, "Short", &format!("+retention.hours={value}")).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (ResponseCode::SYSTEM_ERROR.0, Some(remark)));
    }

    broker.restart(|_| {}, |root| age(&root, 6 * HOUR, 7)).await;
    let mut peer = broker.connect().await;
    assert_eq!([min_offset(&mut peer, "Short").await, min_offset(&mut peer, "Other").await], [7, 0]);
    let answer = peer.call(pull("CG", "Short", 0, 2, "*")).await;
    assert_eq!(
        (answer.code, number(&answer, "nextBeginOffset"), number(&answer, "minOffset")),
        (ResponseCode::PULL_OFFSET_MOVED.0, 7, 7)
    );
    let bodies = |messages: Vec<Stored>| messages.into_iter().map(|message| message.body).collect::<Vec<_>>();
    let answer = peer.call(pull("CG", "Short", 0, 7, "*")).await;
    assert_eq!(bodies(records(&answer.body)), ["7", "8", "9"]);
    assert_eq!(read(&mut peer, "Other").await.len(), 10);
    // The log has them still.
    let view = Command::request(RequestCode::QUERY_MESSAGE)
        .field("topic", "Short")
        .field("key", "k")
        .field("maxNum", 64)
        .field("beginTimestamp", 0)
        .field("endTimestamp", i64::MAX);
    assert_eq!(records(&peer.call(view).await.body).len(), 10);

    // A longer time and no time show what is there; a shorter one hides it.
    must_set_topic(&mut peer, "Short", "+retention.hours=7").await;
    assert_eq!(min_offset(&mut peer, "Short").await, 0);
    must_set_topic(&mut peer, "Short", "+retention.hours=6").await;
    assert_eq!(min_offset(&mut peer, "Short").await, 7);
    must_set_topic(&mut peer, "Short", "-retention.hours").await;
    assert_eq!((min_offset(&mut peer, "Short").await, read(&mut peer, "Short").await.len()), (0, 10));
    broker.stop().await;
}

/// Without a restart, by the cleaner.
#[tokio::test(flavor = "multi_thread")]
async fn the_cleaner_moves_the_lowest_offset() {
    let mut broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    must_set_topic(&mut peer, "Short", "+retention.hours=1").await;
    for number in 0..5 {
        peer.put("Short", 0, "", &format!("{number}")).await;
    }
    // Three seconds short of an hour.
    let quick = |setup: &mut BrokerSetup| setup.store.clean_resource_interval = 1000;
    broker.restart(quick, |root| age(&root, HOUR - 3000, 5)).await;
    let mut peer = broker.connect().await;
    let limit = Instant::now() + LIMIT;
    while min_offset(&mut peer, "Short").await != 5 {
        assert!(Instant::now() < limit, "the lowest offset stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(number(&peer.put("Short", 0, "", "new").await, "queueOffset"), 5);
    let answer = peer.call(pull("CG", "Short", 0, 5, "*")).await;
    assert_eq!(records(&answer.body).len(), 1);
    broker.stop().await;
}
