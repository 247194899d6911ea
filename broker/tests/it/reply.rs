//! Request and reply: case M-08, and the way of a reply to the client that asked.

use std::time::Duration;

use crate::common::{LIMIT, Peer, TestBroker, message, number, pull, records, separated, set};
use remoting::command::{FLAG_ONEWAY, FLAG_RESPONSE};
use remoting::{Command, RequestCode, SerializeType};

const REPLY_TOPIC: &str = "C1_REPLY_TOPIC";
const PUSH: i32 = RequestCode::PUSH_REPLY_MESSAGE_TO_CLIENT.0;

/// SEND_REPLY_MESSAGE.
fn reply(properties: &str, body: &str) -> Command {
    Command { code: RequestCode::SEND_REPLY_MESSAGE.0, ..message(REPLY_TOPIC, 0, properties, body) }
}

/// SEND_REPLY_MESSAGE_V2, as clients send it.
fn reply_v2(properties: &str, body: &str) -> Command {
    Command::request(RequestCode::SEND_REPLY_MESSAGE_V2)
        .field("a", "PG_replier")
        .field("b", REPLY_TOPIC)
        .field("c", "TBW102")
        .field("d", 4)
        .field("e", 0)
        .field("f", 1)
        .field("g", 1_795_971_707_097i64)
        .field("h", 7)
        .field("i", separated(properties))
        .field("j", 0)
        .field("k", false)
        .field("m", false)
        .field("n", "bk1")
        .body(body.as_bytes().to_vec())
}

/// A heartbeat of a producer, which the client sends before its first request.
async fn join(peer: &mut Peer, client_id: &str) {
    let body = format!(r#"{{"clientID":"{client_id}","consumerDataSet":[],"producerDataSet":[{{"groupName":"PG"}}]}}"#);
    assert_eq!(peer.call(Command::request(RequestCode::HEART_BEAT).body(body.into_bytes())).await.code, 0);
}

/// Waits for a pushed reply and answers it with a code.
async fn confirm(peer: &mut Peer, code: i32) -> Command {
    let pushed = peer.next(LIMIT).await.expect("a pushed reply");
    assert_eq!((pushed.code, pushed.flag), (PUSH, 0));
    let answer = Command { code, flag: FLAG_RESPONSE, opaque: pushed.opaque, ..Command::request(RequestCode(0)) };
    let mut bytes = Vec::new();
    answer.encode(SerializeType::Json, &mut bytes);
    peer.send_raw(&bytes).await;
    pushed
}

/// Entries of a property string, sorted.
fn entries(properties: &str) -> Vec<(&str, &str)> {
    let mut entries: Vec<_> =
        properties.split_terminator('\x02').map(|entry| entry.split_once('\x01').unwrap()).collect();
    entries.sort_unstable();
    entries
}

#[tokio::test(flavor = "multi_thread")]
async fn m_08_request_and_reply() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, 6).await;
    peer.create_group("GP", "").await;
    peer.put("T1", 0, "", "a question").await;
    let found = records(&peer.call(pull("GP", "T1", 0, 0, "*")).await.body);
    assert_eq!(found[0].property("CLUSTER"), Some("C1"));

    for (offset, request) in
        [reply("REPLY_TO_CLIENT=nobody@1", "an answer"), reply_v2("REPLY_TO_CLIENT=nobody@1", "an answer")]
            .into_iter()
            .enumerate()
    {
        let answer = peer.call(request).await;
        assert_eq!(answer.code, 1);
        assert_eq!(answer.remark.as_deref(), Some("push reply message fail, channel of <nobody@1> not found."));
        assert_eq!(answer.get("msgId").map(str::len), Some(32));
        assert_eq!((number(&answer, "queueOffset"), number(&answer, "queueId")), (offset as i64, 0));
        assert_eq!((answer.get("MSG_REGION"), answer.get("TRACE_ON")), (Some("DefaultRegion"), Some("true")));
        assert_eq!(answer.get("transactionId"), None);
    }
    let stored = records(&peer.call(pull("GP", REPLY_TOPIC, 0, 0, "*")).await.body);
    assert_eq!(stored.len(), 2);
    assert_eq!((stored[0].body.as_str(), stored[0].property("REPLY_TO_CLIENT")), ("an answer", Some("nobody@1")));
    assert_eq!((stored[0].property("CLUSTER"), stored[0].property("UNIQ_KEY")), (None, None));

    let answer = peer.call(reply("", "an answer")).await;
    assert_eq!(answer.remark.as_deref(), Some("reply message properties[REPLY_TO_CLIENT] is null"));
    assert_eq!((answer.code, number(&answer, "queueOffset")), (1, 2));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_reaches_the_client_that_asked() {
    let broker = TestBroker::start().await;
    let (mut requester, mut replier) = (broker.connect().await, broker.connect().await);
    join(&mut requester, "127.0.0.1@requester").await;
    let properties = "MSG_TYPE=reply;REPLY_TO_CLIENT=127.0.0.1@requester;UNIQ_KEY=7F00;TTL=8000;CORRELATION_ID=c1";
    let opaque = replier.send(reply_v2(properties, "reply to ask")).await;
    let pushed = confirm(&mut requester, 0).await;

    let local = replier.local().to_string();
    let stored_at = broker.running().parts().identity.addr.clone();
    let expected = [
        ("producerGroup", "PG_replier"),
        ("topic", REPLY_TOPIC),
        ("defaultTopic", "TBW102"),
        ("defaultTopicQueueNums", "4"),
        ("queueId", "0"),
        ("sysFlag", "1"),
        ("bornTimestamp", "1795971707097"),
        ("flag", "7"),
        ("reconsumeTimes", "0"),
        ("unitMode", "false"),
        ("bornHost", local.as_str()),
        ("storeHost", stored_at.as_str()),
    ];
    for (name, value) in expected {
        assert_eq!(pushed.get(name), Some(value), "{name}");
    }
    // And the two that vary.
    assert_eq!(pushed.fields.len(), expected.len() + 2);
    assert!(number(&pushed, "storeTimestamp") > 1_700_000_000_000);
    assert_eq!(pushed.body, "reply to ask");
    let properties = pushed.get("properties").unwrap();
    let mut found = entries(properties);
    let time = found.iter().position(|(name, _)| *name == "PUSH_REPLY_TIME").map(|at| found.remove(at).1).unwrap();
    assert!(time.parse::<i64>().unwrap() > 1_700_000_000_000);
    assert_eq!(
        found,
        [
            ("CORRELATION_ID", "c1"),
            ("MSG_REGION", "DefaultRegion"),
            ("MSG_TYPE", "reply"),
            ("REPLY_TO_CLIENT", "127.0.0.1@requester"),
            ("TRACE_ON", "true"),
            ("TTL", "8000"),
            ("UNIQ_KEY", "7F00"),
        ]
    );
    assert!(properties.ends_with('\x02'));

    let answer = replier.answer(opaque).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, None));
    assert_eq!(answer.get("msgId").map(str::len), Some(32));
    assert_eq!((number(&answer, "queueId"), number(&answer, "queueOffset")), (0, 0));
    let stored = records(&replier.call(pull("GP", REPLY_TOPIC, 0, 0, "*")).await.body);
    assert_eq!((stored[0].body.as_str(), stored[0].born_host), ("reply to ask", replier.local()));
    // The time is for the client alone.
    assert_eq!((stored[0].property("PUSH_REPLY_TIME"), stored[0].property("TTL")), (None, Some("8000")));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_that_are_not_stored() {
    let broker = TestBroker::with(|setup| setup.broker.store_reply_message_enable = false).await;
    let (mut requester, mut replier) = (broker.connect().await, broker.connect().await);
    join(&mut requester, "asks").await;
    let opaque = replier.send(reply("REPLY_TO_CLIENT=asks", "yes")).await;
    assert_eq!(confirm(&mut requester, 0).await.body, "yes");
    let answer = replier.answer(opaque).await;
    assert_eq!((answer.code, answer.get("msgId"), number(&answer, "queueOffset")), (0, Some("0"), 0));

    // The client refuses.
    let opaque = replier.send(reply("REPLY_TO_CLIENT=asks", "no")).await;
    confirm(&mut requester, 1).await;
    let answer = replier.answer(opaque).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("push reply message to asksfail.")));
    assert_eq!((answer.get("msgId"), answer.get("MSG_REGION")), (None, Some("DefaultRegion")));

    // The client goes while it is asked.
    let opaque = replier.send(reply("REPLY_TO_CLIENT=asks", "late")).await;
    assert_eq!(requester.next(LIMIT).await.unwrap().code, PUSH);
    drop(requester);
    let answer = replier.answer(opaque).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("push reply message to asksfail.")));
    // And is not known any more.
    let answer = replier.call(reply("REPLY_TO_CLIENT=asks", "later")).await;
    assert_eq!(answer.remark.as_deref(), Some("push reply message fail, channel of <asks> not found."));
    assert_eq!(replier.max_offset(REPLY_TOPIC, 0).await, 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_are_checked_as_messages_are() {
    let broker = TestBroker::with(|setup| setup.broker.auto_create_topic_enable = false).await;
    let (mut requester, mut replier) = (broker.connect().await, broker.connect().await);
    join(&mut requester, "asks").await;
    let to = "REPLY_TO_CLIENT=asks";
    for (request, code) in [
        (set(reply(to, "m"), "topic", "a/b"), 29),
        (set(reply(to, "m"), "topic", "SCHEDULE_TOPIC_XXXX"), 16),
        (set(reply(to, "m"), "topic", "Tnone"), 17),
        (set(reply(to, "m"), "queueId", 1), 29),
        (reply(to, ""), 1),
    ] {
        let answer = replier.call(request).await;
        assert_eq!((answer.code, answer.get("msgId")), (code, None), "{:?}", answer.remark);
        assert_eq!(answer.get("MSG_REGION"), Some("DefaultRegion"));
    }
    // None of them was handed over, but a one-way one is; nobody answers it.
    let oneway = Command { flag: FLAG_ONEWAY, ..set(reply(to, "one-way"), "queueId", -1) };
    let opaque = replier.send(oneway).await;
    let pushed = confirm(&mut requester, 0).await;
    assert_eq!((&pushed.body[..], pushed.get("queueId")), (&b"one-way"[..], Some("-1")));
    replier.wait_for_offset(REPLY_TOPIC, 0, 1).await;
    while let Some(frame) = replier.next(Duration::ZERO).await {
        assert_ne!(frame.opaque, opaque);
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_reply_waits_for_the_disk() {
    let broker = TestBroker::with(|setup| setup.store.flush_disk_type = config::FlushDiskType::Sync).await;
    let mut peer = broker.connect().await;
    let answer = peer.call(reply("REPLY_TO_CLIENT=nobody", "m")).await;
    assert_eq!((answer.code, number(&answer, "queueOffset")), (1, 0));
    let store = &broker.running().parts().store;
    assert_eq!(store.flushed().get(), store.wrote().get());
    broker.stop().await;
}
