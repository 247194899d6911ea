//! Topics with batch consume queues, light queues, and delayed messages in queues with an extension.

use std::time::{Duration, Instant};

use crate::common::{LIMIT, Peer, TestBroker, batch, message, number, pull, records, set};
use config::BrokerSetup;
use remoting::{Command, RequestCode};
use store::record::{RecordView, sys_flag};

const RW: i32 = 6;

async fn create_batch_topic(peer: &mut Peer, name: &str) {
    let command = Command::request(RequestCode::UPDATE_AND_CREATE_TOPIC)
        .field("topic", name)
        .field("defaultTopic", "TBW102")
        .field("readQueueNums", 2)
        .field("writeQueueNums", 2)
        .field("perm", RW)
        .field("topicFilterType", "SINGLE_TAG")
        .field("topicSysFlag", 0)
        .field("order", false)
        .field("attributes", "+queue.type=BatchCQ");
    let answer = peer.call(command).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
}

/// Queue offset, sys flag and size of the body of each record.
fn shapes(body: &[u8]) -> Vec<(i64, i32, usize)> {
    let (mut rest, mut found) = (body, Vec::new());
    while !rest.is_empty() {
        let view = RecordView::parse(rest).unwrap();
        found.push((view.queue_offset(), view.sys_flag(), view.body().len()));
        rest = &rest[view.size()..];
    }
    found
}

const INNER: i32 = sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_stays_one_record_in_a_batch_topic() {
    let mut broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    create_batch_topic(&mut peer, "TB").await;
    peer.create_group("G1", "").await;
    let two = [("KEYS=a;", "one"), ("", "two!")];
    let body_len = batch("TB", 0, "", &two).body.len();
    let answer = peer.call(batch("TB", 0, "UNIQ_KEY=U1;WAIT=true;INNER_BASE=9;", &two)).await;
    assert_eq!((answer.code, number(&answer, "queueOffset")), (0, 0), "{:?}", answer.remark);
    assert_eq!((answer.get("batchUniqId"), answer.get("transactionId")), (Some("U1"), Some("U1")));
    assert_eq!(answer.get("msgId").map(str::len), Some(32));
    // Of a client that does not know such batches: single records. One message: one offset.
    let plain = peer.call(batch("TB", 0, "", &two)).await;
    assert_eq!((number(&plain, "queueOffset"), plain.get("batchUniqId")), (2, None));
    assert_eq!(plain.get("msgId").map(|ids| ids.split(',').count()), Some(2));
    let single = peer.put("TB", 0, "UNIQ_KEY=S;", "alone").await;
    assert_eq!((number(&single, "queueOffset"), single.get("batchUniqId")), (4, None));
    // A number that the request brings counts for nothing.
    let again = peer.call(batch("TB", 0, "UNIQ_KEY=U2;INNER_NUM=9;", &[("", "x"), ("", "y"), ("", "z")])).await;
    assert_eq!(number(&again, "queueOffset"), 5);
    assert_eq!(peer.max_offset("TB", 0).await, 8);

    let found = peer.call(pull("G1", "TB", 0, 0, "*")).await;
    assert_eq!((found.code, number(&found, "nextBeginOffset"), number(&found, "maxOffset")), (0, 8, 8));
    let sizes: Vec<_> = shapes(&found.body).into_iter().map(|(offset, flag, _)| (offset, flag)).collect();
    assert_eq!(sizes, [(0, INNER), (2, 0), (3, 0), (4, 0), (5, INNER)]);
    assert_eq!(shapes(&found.body)[0].2, body_len);
    let stored = records(&found.body);
    let property = |at: usize, name: &str| stored[at].property(name).map(str::to_owned);
    for (name, value) in [
        ("UNIQ_KEY", "U1"),
        ("INNER_NUM", "2"),
        ("INNER_BASE", "0"),
        ("CLUSTER", "C1"),
        ("MSG_REGION", "DefaultRegion"),
        ("TRACE_ON", "true"),
        ("WAIT", "true"),
    ] {
        assert_eq!(property(0, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!((property(4, "INNER_NUM").as_deref(), property(4, "INNER_BASE").as_deref()), (Some("3"), Some("5")));
    // From within a batch, and so many messages at most.
    let within = peer.call(set(pull("G1", "TB", 0, 6, "*"), "maxMsgNums", 1)).await;
    assert_eq!((shapes(&within.body)[0].0, number(&within, "nextBeginOffset")), (5, 8));
    let few = peer.call(set(pull("G1", "TB", 0, 0, "*"), "maxMsgNums", 3)).await;
    assert_eq!((shapes(&few.body).len(), number(&few, "nextBeginOffset")), (2, 3));
    // A consumer that waits gets the next batch, whole.
    let waiting = set(set(pull("G1", "TB", 0, 8, "*"), "sysFlag", 6), "suspendTimeoutMillis", 15_000);
    let mut waiter = broker.connect().await;
    let opaque = waiter.send(waiting).await;
    peer.call(batch("TB", 0, "UNIQ_KEY=U3;", &two)).await;
    let woken = waiter.answer(opaque).await;
    assert_eq!((woken.code, number(&woken, "nextBeginOffset"), shapes(&woken.body).len()), (0, 10, 1));

    broker.restart(|_| {}, |_| {}).await;
    let mut peer = broker.connect().await;
    let after = peer.call(batch("TB", 0, "UNIQ_KEY=U4;", &two)).await;
    assert_eq!(number(&after, "queueOffset"), 10);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_batch_topic_refuses() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    create_batch_topic(&mut peer, "TB").await;
    peer.create_topic("TS", 1, RW).await;
    let two = [("", "a"), ("", "b")];
    let mut broken = batch("TB", 0, "UNIQ_KEY=U;", &two);
    broken.body = broken.body.slice(..broken.body.len() - 3);
    assert_eq!(peer.call(broken).await.code, 1);
    // Sizes that do not say where the messages are: Java goes by them, its clients do not.
    let mut odd = batch("TB", 0, "UNIQ_KEY=U;", &two);
    let mut body = odd.body.to_vec();
    body[3] += 1;
    odd.body = body.into();
    assert_eq!(peer.call(odd).await.code, 1);
    assert_eq!(peer.call(batch("TB", 0, "UNIQ_KEY=U;DELAY=1;", &two)).await.code, 13);
    // A message that claims to be a batch: without the flag, in another topic, and with the flag.
    let claims = |topic, flag| set(message(topic, 0, "INNER_NUM=2;UNIQ_KEY=U;", "ab"), "sysFlag", flag);
    assert_eq!(peer.call(claims("TB", 0)).await.code, 13);
    assert_eq!(peer.call(claims("TS", INNER)).await.code, 13);
    assert_eq!((peer.max_offset("TB", 0).await, peer.max_offset("TS", 0).await), (0, 0));
    let taken = peer.call(claims("TB", INNER)).await;
    assert_eq!((taken.code, number(&taken, "queueOffset"), peer.max_offset("TB", 0).await), (0, 0, 2));
    let many = peer.call(set(message("TB", 0, "INNER_NUM=40000;", "ab"), "sysFlag", INNER)).await;
    assert_eq!((many.code, peer.max_offset("TB", 0).await), (13, 2));
    broker.stop().await;
}

fn light(setup: &mut BrokerSetup) {
    setup.store.enable_lmq = true;
    setup.store.enable_multi_dispatch = true;
}

fn offset_request(code: RequestCode, group: &str, topic: &str, queue_id: i32) -> Command {
    Command::request(code).field("consumerGroup", group).field("topic", topic).field("queueId", queue_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn light_queues_are_there_without_being_made() {
    let mut broker = TestBroker::with(light).await;
    let mut peer = broker.connect().await;
    peer.create_topic("T", 2, RW).await;
    let topics = broker.running().parts().topics.len();
    let groups = broker.running().parts().groups.names().len();
    for i in 0..6 {
        let names = if i % 2 == 0 { "%LMQ%a" } else { "%LMQ%b,%LMQ%a" };
        peer.put("T", i % 2, &format!("TAGS=t{};INNER_MULTI_DISPATCH={names};", i % 2), &format!("m{i}")).await;
    }
    let found = peer.call(pull("%LMQ%g", "%LMQ%a", 0, 0, "*")).await;
    assert_eq!((found.code, number(&found, "nextBeginOffset"), number(&found, "minOffset")), (0, 6, 0));
    let stored = records(&found.body);
    assert_eq!(stored.iter().map(|record| &*record.body).collect::<Vec<_>>(), ["m0", "m1", "m2", "m3", "m4", "m5"]);
    assert_eq!(stored[5].property("INNER_MULTI_QUEUE_OFFSET"), Some("2,5"));
    assert_eq!((&*stored[5].topic, stored[5].queue_offset), ("T", 2));
    let odd = peer.call(pull("%LMQ%g", "%LMQ%a", 0, 0, "t1")).await;
    assert_eq!(records(&odd.body).len(), 3);
    assert_eq!((peer.max_offset("%LMQ%b", 0).await, peer.max_offset("%LMQ%c", 0).await), (3, 0));
    // One queue; more are refused as with any topic.
    assert_eq!(peer.call(pull("%LMQ%g", "%LMQ%a", 1, 0, "*")).await.code, 29);
    // To a light queue itself.
    assert_eq!(number(&peer.put("%LMQ%b", 0, "", "direct").await, "queueOffset"), 3);
    // One that nobody has sent to is waited at.
    let waiting = set(set(pull("G", "%LMQ%new", 0, 0, "*"), "sysFlag", 6), "suspendTimeoutMillis", 15_000);
    let mut waiter = broker.connect().await;
    let opaque = waiter.send(waiting).await;
    let limit = Instant::now() + LIMIT;
    while broker.running().parts().puller.waiting() == 0 {
        assert!(Instant::now() < limit, "the pull does not wait");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    peer.put("T", 0, "INNER_MULTI_DISPATCH=%LMQ%new;", "late").await;
    assert_eq!(records(&waiter.answer(opaque).await.body)[0].body, "late");

    // Offsets of a light group and of another one.
    for (group, offset) in [("%LMQ%g", 4), ("G", 5)] {
        let commit = offset_request(RequestCode::UPDATE_CONSUMER_OFFSET, group, "%LMQ%a", 0);
        assert_eq!(peer.call(commit.field("commitOffset", offset)).await.code, 0);
    }
    assert_eq!(broker.running().parts().topics.len(), topics, "no topic was made");
    assert_eq!(broker.running().parts().groups.names().len(), groups + 1, "none but G");
    broker
        .restart(light, |dir| {
            let text = std::fs::read_to_string(dir.join("config/lmqConsumerOffset.json")).unwrap();
            assert!(text.contains("\"%LMQ%a@%LMQ%g\":4"), "{text}");
            assert!(!dir.join("config/consumerOffset.json").exists());
            let topics = std::fs::read_to_string(dir.join("config/topics.json")).unwrap();
            assert!(!topics.contains("%LMQ%"), "{topics}");
        })
        .await;
    let mut peer = broker.connect().await;
    for (group, offset) in [("%LMQ%g", 4), ("G", 5)] {
        let answer = peer.call(offset_request(RequestCode::QUERY_CONSUMER_OFFSET, group, "%LMQ%a", 0)).await;
        assert_eq!(number(&answer, "offset"), offset, "{group}");
    }
    assert_eq!(peer.max_offset("%LMQ%a", 0).await, 6);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn light_queues_are_limited_and_off_by_default() {
    let mut broker = TestBroker::with(|setup| {
        light(setup);
        setup.store.enable_lmq_quota = true;
        setup.store.max_lmq_consume_queue_num = 1;
    })
    .await;
    let mut peer = broker.connect().await;
    peer.put("T", 0, "INNER_MULTI_DISPATCH=%LMQ%a;", "m").await;
    let refused = peer.call(message("T", 0, "INNER_MULTI_DISPATCH=%LMQ%a,%LMQ%b;", "m")).await;
    assert_eq!(refused.code, 2017);
    assert_eq!(refused.remark.as_deref(), Some("[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded."));
    peer.put("T", 0, "INNER_MULTI_DISPATCH=%LMQ%a;", "m").await;
    assert_eq!((peer.max_offset("T", 0).await, peer.max_offset("%LMQ%a", 0).await), (2, 2));
    broker.restart(|_| {}, |_| {}).await;
    let mut peer = broker.connect().await;
    peer.put("T", 0, "INNER_MULTI_DISPATCH=%LMQ%a;", "m").await;
    assert_eq!((peer.max_offset("T", 0).await, peer.max_offset("%LMQ%a", 0).await), (3, 2));
    assert_eq!(peer.call(pull("G", "%LMQ%a", 0, 0, "*")).await.code, 17);
    broker.stop().await;
}

/// With an extension the delivery time is not in the queue's own entry, and without the extension in the record alone.
#[tokio::test(flavor = "multi_thread")]
async fn delayed_messages_in_extended_queues_are_on_time() {
    let extended = |setup: &mut BrokerSetup| {
        setup.store.enable_consume_queue_ext = true;
        setup.store.mapped_file_size_consume_queue_ext = 4096;
    };
    for lost in [false, true] {
        let mut broker = TestBroker::with(extended).await;
        let mut peer = broker.connect().await;
        peer.create_topic("T", 1, RW).await;
        let sent = Instant::now();
        peer.put("T", 0, "DELAY=2;", "late").await;
        if lost {
            broker.restart(extended, |dir| std::fs::remove_dir_all(dir.join("consumequeue_ext")).unwrap()).await;
            peer = broker.connect().await;
        }
        peer.wait_for_offset("T", 0, 1).await;
        let took = sent.elapsed();
        assert!(took >= Duration::from_millis(4_900), "lost: {lost}, delivered after {took:?}");
        let stored = records(&peer.call(pull("G", "T", 0, 0, "*")).await.body);
        assert_eq!(stored[0].body, "late");
        broker.stop().await;
    }
}
