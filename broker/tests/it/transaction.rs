//! Transactions: cases X-01, X-02 and X-04, what is stored, the questions to producers, restarts, and a store of Java's.

use std::path::Path;
use std::process::Command as Process;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::{LIMIT, Peer, TestBroker, message, number, pull, set};
use config::BrokerSetup;
use remoting::{Command, RequestCode};
use store::NewMessage;
use store::record::{MessageId, RecordView};

const RW: i32 = 6;
const HALF: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
const OP: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
const GIVEN_UP: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
const COMMIT: i32 = 8;
const ROLLBACK: i32 = 12;
/// Nothing asynchronous can be waited for when nothing must come.
const QUIET: Duration = Duration::from_millis(600);

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// Settings with quick questions.
fn quick(setup: &mut BrokerSetup) {
    setup.broker.transaction_check_interval = 100;
    setup.broker.transaction_time_out = 200;
    setup.broker.transaction_op_batch_interval = 50;
}

/// Where a first half went.
#[derive(Clone, Copy, Debug)]
struct Place {
    queue_offset: i64,
    phys_offset: i64,
}

/// A first half of group `PG`, born now.
fn half(topic: &str, queue_id: i32, properties: &str, body: &str) -> Command {
    let properties = format!("TRAN_MSG=true;PGROUP=PG;{properties}");
    set(set(message(topic, queue_id, &properties, body), "bornTimestamp", now()), "sysFlag", 4)
}

async fn prepare(peer: &mut Peer, topic: &str, queue_id: i32, properties: &str, body: &str) -> Place {
    let answer = peer.call(half(topic, queue_id, properties, body)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    assert_eq!(number(&answer, "queueId"), i64::from(queue_id));
    let id = MessageId::parse(answer.get("msgId").unwrap()).unwrap();
    Place { queue_offset: number(&answer, "queueOffset"), phys_offset: id.phys_offset as i64 }
}

fn end(place: Place, how: i32) -> Command {
    Command::request(RequestCode::END_TRANSACTION)
        .field("producerGroup", "PG")
        .field("tranStateTableOffset", place.queue_offset)
        .field("commitLogOffset", place.phys_offset)
        .field("commitOrRollback", how)
        .field("fromTransactionCheck", false)
        .field("msgId", "id")
}

async fn must_end(peer: &mut Peer, place: Place, how: i32) {
    let answer = peer.call(end(place, how)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
}

/// Joins the group `PG`.
async fn join(peer: &mut Peer, client_id: &str) {
    let body = format!(r#"{{"clientID":"{client_id}","consumerDataSet":[],"producerDataSet":[{{"groupName":"PG"}}]}}"#);
    assert_eq!(peer.call(Command::request(RequestCode::HEART_BEAT).body(body.into_bytes())).await.code, 0);
}

/// The next question to this producer.
async fn question(peer: &mut Peer, limit: Duration) -> Option<Command> {
    let question = peer.next(limit).await?;
    assert_eq!(question.code, RequestCode::CHECK_TRANSACTION_STATE.0, "{question:?}");
    assert!(question.flag & 2 != 0, "one-way");
    Some(question)
}

fn asked_for(question: &Command) -> Place {
    Place { queue_offset: number(question, "tranStateTableOffset"), phys_offset: number(question, "commitLogOffset") }
}

/// A record, as much of it as matters here.
#[derive(Clone, Debug)]
struct Record {
    body: String,
    sys_flag: i32,
    prepared: i64,
    store_timestamp: i64,
    properties: Vec<(String, String)>,
}

impl Record {
    fn of(view: &RecordView<'_>) -> Record {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Record {
            body: text(view.body()),
            sys_flag: view.sys_flag(),
            prepared: view.prepared_transaction_offset(),
            store_timestamp: view.store_timestamp(),
            properties: view.properties().map(|(name, value)| (text(name), text(value))).collect(),
        }
    }

    fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// All messages of a queue.
async fn read(peer: &mut Peer, topic: &str, queue_id: i32) -> Vec<Record> {
    let mut found = Vec::new();
    while found.len() < peer.max_offset(topic, queue_id).await as usize {
        let answer = peer.call(pull("Gread", topic, queue_id, found.len() as i64, "*")).await;
        let mut body = &answer.body[..];
        assert!(!body.is_empty(), "{answer:?}");
        while !body.is_empty() {
            let view = RecordView::parse(body).unwrap();
            found.push(Record::of(&view));
            body = &body[view.size()..];
        }
    }
    found
}

async fn bodies(peer: &mut Peer, topic: &str) -> Vec<String> {
    read(peer, topic, 0).await.into_iter().map(|record| record.body).collect()
}

/// Waits until something is true of the broker.
async fn until(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !is_true().await {
        assert!(Instant::now() < limit, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn position(broker: &TestBroker, topic: &str) -> Option<i64> {
    broker.running().parts().offsets.query("CID_RMQ_SYS_TRANS", topic, 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_of_a_transaction() {
    let broker = TestBroker::with(|setup| setup.broker.transaction_op_batch_interval = 50).await;
    let mut peer = broker.connect().await;
    peer.create_topic("TT", 3, RW).await;
    let place = prepare(&mut peer, "TT", 2, "UNIQ_KEY=U1;TAGS=a;KEYS=k;WAIT=true;own=mine;", "one").await;
    assert_eq!(peer.max_offset("TT", 2).await, 0);
    let halves = read(&mut peer, HALF, 0).await;
    let half = &halves[0];
    assert_eq!((half.sys_flag, half.prepared, half.body.as_str()), (0, 0, "one"));
    for (name, value) in [
        ("REAL_TOPIC", "TT"),
        ("REAL_QID", "2"),
        ("__transactionId__", "U1"),
        ("TRAN_MSG", "true"),
        ("PGROUP", "PG"),
        ("UNIQ_KEY", "U1"),
        ("own", "mine"),
    ] {
        assert_eq!(half.property(name), Some(value), "{name}");
    }

    must_end(&mut peer, place, COMMIT).await;
    let stored = read(&mut peer, "TT", 2).await;
    let committed = &stored[0];
    assert_eq!((committed.sys_flag, committed.prepared, committed.body.as_str()), (8, place.phys_offset, "one"));
    let mut expected = half.properties.clone();
    expected.retain(|(name, _)| name != "REAL_TOPIC" && name != "REAL_QID");
    assert_eq!(committed.properties, expected);
    // The tag is there for filters.
    assert_eq!(peer.call(pull("Gread", "TT", 2, 0, "a")).await.code, 0);

    let second = prepare(&mut peer, "TT", 0, "", "two").await;
    let answer = peer.call(end(second, ROLLBACK)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, Some("not set any response code")));
    peer.wait_for_offset(OP, 0, 1).await;
    until("both ends are noted", async || {
        read(&mut peer, OP, 0).await.iter().map(|op| op.body.len()).sum::<usize>() == 4
    })
    .await;
    let ops = read(&mut peer, OP, 0).await;
    assert_eq!(ops.iter().map(|op| op.body.as_str()).collect::<String>(), "0,1,");
    for op in ops {
        assert_eq!(op.properties, [("TAGS".to_owned(), "d".to_owned()), ("WAIT".to_owned(), "true".to_owned())]);
    }
    assert_eq!(peer.max_offset("TT", 0).await, 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn x_01_second_commit() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TT", 1, RW).await;
    let place = prepare(&mut peer, "TT", 0, "UNIQ_KEY=U;", "once").await;
    for how in [COMMIT, COMMIT, ROLLBACK, COMMIT] {
        assert_eq!(peer.call(end(place, how)).await.code, 0);
        let stored = read(&mut peer, "TT", 0).await;
        assert_eq!(stored.len(), 1);
        assert_eq!((stored[0].sys_flag, stored[0].prepared), (8, place.phys_offset));
        assert_eq!((stored[0].property("__transactionId__"), stored[0].property("UNIQ_KEY")), (Some("U"), Some("U")));
    }
    // A producer that changes its mind after a rollback gets its message.
    let place = prepare(&mut peer, "TT", 0, "", "after all").await;
    for how in [ROLLBACK, COMMIT, COMMIT] {
        assert_eq!(peer.call(end(place, how)).await.code, 0);
    }
    assert_eq!(bodies(&mut peer, "TT").await, ["once", "after all"]);
    let counts = broker.running().parts().transactions.snapshot();
    assert_eq!((counts.len(), counts[0].1.open()), (1, 0));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn x_02_end_request_checks() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TT", 1, RW).await;
    let ordinary = peer.put("TT", 0, "PGROUP=PG;REAL_TOPIC=TT;REAL_QID=0;", "ordinary").await;
    let ordinary = Place {
        queue_offset: 0,
        phys_offset: MessageId::parse(ordinary.get("msgId").unwrap()).unwrap().phys_offset as i64,
    };
    let place = prepare(&mut peer, "TT", 0, "", "half").await;
    let not_found = "Find prepared transaction message failed";
    for (request, remark) in [
        (set(end(place, COMMIT), "producerGroup", "other"), "The producer group wrong"),
        (
            set(end(place, COMMIT), "tranStateTableOffset", place.queue_offset + 99),
            "The transaction state table offset wrong",
        ),
        (set(end(place, COMMIT), "commitLogOffset", 1_000_000_000_000i64), not_found),
        (set(end(place, ROLLBACK), "commitLogOffset", -1), not_found),
        (set(end(place, COMMIT), "commitLogOffset", place.phys_offset + 1), not_found),
        (end(ordinary, COMMIT), not_found),
        (end(place, 5), "commitOrRollback field wrong"),
        (set(end(place, 5), "producerGroup", "other"), "commitOrRollback field wrong"),
    ] {
        let answer = peer.call(request).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (1, Some(remark)));
    }
    for from_check in [false, true] {
        let opaque = peer.send(set(end(place, 0), "fromTransactionCheck", from_check)).await;
        let other = peer.max_offset("TT", 0).await;
        assert_eq!(other, 1);
        assert!(peer.next(Duration::ZERO).await.is_none(), "no answer to {opaque}");
    }
    must_end(&mut peer, place, COMMIT).await;
    assert_eq!(bodies(&mut peer, "TT").await, ["ordinary", "half"]);
    // Without the fields that Java demands.
    let answer = peer.call(crate::common::without(end(place, COMMIT), "commitLogOffset")).await;
    assert_eq!(answer.code, 1);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn x_04_check_immunity_time() {
    let broker = TestBroker::with(|setup| {
        quick(setup);
        setup.broker.transaction_check_max = 3;
    })
    .await;
    let (mut peer, mut producer) = (broker.connect().await, broker.connect().await);
    join(&mut producer, "one").await;
    peer.create_topic("TT", 1, RW).await;
    let sent = Instant::now();
    prepare(&mut peer, "TT", 0, "CHECK_IMMUNITY_TIME_IN_SECONDS=2;UNIQ_KEY=U;", "immune").await;
    let mut copies = Vec::new();
    while let Some(question) = question(&mut producer, LIMIT.min(Duration::from_secs(4))).await {
        assert!(sent.elapsed() >= Duration::from_millis(1990), "{:?}", sent.elapsed());
        copies.push(asked_for(&question).queue_offset);
        if copies.len() == 3 {
            break;
        }
    }
    assert_eq!(copies.len(), 3);
    peer.wait_for_offset(GIVEN_UP, 0, 1).await;
    assert!(question(&mut producer, QUIET).await.is_none());
    let given_up = read(&mut peer, GIVEN_UP, 0).await;
    assert_eq!((given_up[0].property("TRANSACTION_CHECK_TIMES"), given_up[0].body.as_str()), (Some("3"), "immune"));
    assert_eq!(given_up[0].property("TRAN_PREPARED_QUEUE_OFFSET"), Some("0"));
    assert_eq!(broker.running().parts().transactions.snapshot()[0].1.open(), 0);
    broker.stop().await;
}

/// A half that is put back for its immunity is ended by the only offset that its producer knows.
#[tokio::test(flavor = "multi_thread")]
async fn an_immune_half_is_ended_by_its_first_offset() {
    let mut broker = TestBroker::with(quick).await;
    let mut peer = broker.connect().await;
    peer.create_topic("TT", 1, RW).await;
    let place = prepare(&mut peer, "TT", 0, "CHECK_IMMUNITY_TIME_IN_SECONDS=6;", "immune").await;
    peer.wait_for_offset(HALF, 0, 4).await;
    must_end(&mut peer, place, COMMIT).await;
    until("the copies are passed by", async || {
        position(&broker, HALF) == Some(broker.running().parts().store.queue(HALF, 0).unwrap().max_offset())
    })
    .await;
    drop(peer);
    // Also after a restart, which forgets what was moved.
    broker.restart(quick, |_| {}).await;
    let (mut peer, mut producer) = (broker.connect().await, broker.connect().await);
    join(&mut producer, "one").await;
    assert!(question(&mut producer, Duration::from_secs(7)).await.is_none());
    assert_eq!(bodies(&mut peer, "TT").await, ["immune"]);

    // Too late to end it unasked.
    let late = half("TT", 0, "CHECK_IMMUNITY_TIME_IN_SECONDS=1;", "late");
    let answer = peer.call(set(late, "bornTimestamp", now() - 1500)).await;
    let id = MessageId::parse(answer.get("msgId").unwrap()).unwrap();
    let place = Place { queue_offset: number(&answer, "queueOffset"), phys_offset: id.phys_offset as i64 };
    for how in [COMMIT, ROLLBACK] {
        let answer = peer.call(end(place, how)).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (604, Some("not set any response code")));
    }
    let asked = asked_for(&question(&mut producer, LIMIT).await.expect("a question"));
    let answer = peer.call(set(end(asked, COMMIT), "fromTransactionCheck", true)).await;
    assert_eq!(answer.code, 0);
    assert_eq!(bodies(&mut peer, "TT").await, ["immune", "late"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_is_asked_and_answers() {
    let broker = TestBroker::with(quick).await;
    let (mut peer, mut producer) = (broker.connect().await, broker.connect().await);
    join(&mut producer, "one").await;
    peer.create_topic("TT", 2, RW).await;
    let first = prepare(&mut peer, "TT", 1, "UNIQ_KEY=U;WAIT=true;TAGS=t;", "unknown").await;
    let asked = question(&mut producer, LIMIT).await.expect("a question");
    let place = asked_for(&asked);
    assert!(place.queue_offset > first.queue_offset && place.phys_offset > first.phys_offset);
    let field = |name: &str| asked.get(name).map(str::to_owned);
    assert_eq!((field("topic"), field("bname")), (Some(HALF.to_owned()), Some("bk1".to_owned())));
    assert_eq!((field("msgId"), field("transactionId")), (Some("U".to_owned()), Some("U".to_owned())));
    let id = MessageId::parse(asked.get("offsetMsgId").unwrap()).unwrap();
    assert_eq!(id.phys_offset as i64, place.phys_offset);
    let view = RecordView::parse(&asked.body).unwrap();
    assert_eq!((view.topic(), view.queue_id(), view.body()), ("TT", 1, &b"unknown"[..]));
    assert_eq!((view.queue_offset(), view.phys_offset()), (place.queue_offset, place.phys_offset));
    assert!(view.body_crc_fits());
    let record = Record::of(&view);
    assert_eq!((record.property("WAIT"), record.property("TRANSACTION_CHECK_TIMES")), (Some("false"), Some("1")));
    assert_eq!((record.property("REAL_TOPIC"), record.property("REAL_QID")), (Some("TT"), Some("1")));
    let halves = read(&mut peer, HALF, 0).await;
    let copy = &halves[place.queue_offset as usize];
    assert_eq!((copy.property("WAIT"), copy.property("TRANSACTION_CHECK_TIMES")), (Some("true"), Some("1")));

    // It does not know yet, and is asked again.
    producer.send(set(end(place, 0), "fromTransactionCheck", true)).await;
    let again = question(&mut producer, LIMIT).await.expect("another question");
    let view = RecordView::parse(&again.body).unwrap();
    assert_eq!(Record::of(&view).property("TRANSACTION_CHECK_TIMES"), Some("2"));
    let place = asked_for(&again);
    must_end(&mut peer, place, COMMIT).await;
    // What it says by an older offset changes nothing.
    must_end(&mut peer, first, COMMIT).await;
    must_end(&mut peer, first, ROLLBACK).await;
    let stored = read(&mut peer, "TT", 1).await;
    assert_eq!((stored.len(), stored[0].prepared), (1, place.phys_offset));
    assert_eq!(stored[0].property("TRANSACTION_CHECK_TIMES"), Some("2"));
    until("everything is looked at", async || {
        let store = &broker.running().parts().store;
        [HALF, OP].iter().all(|topic| position(&broker, topic) == store.queue(topic, 0).map(|queue| queue.max_offset()))
    })
    .await;
    assert!(question(&mut producer, QUIET).await.is_none());
    broker.stop().await;
}

/// A producer that takes longer than the first question ends its transaction once, whichever offset it uses.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_by_the_first_offset_ends_the_copies() {
    let broker = TestBroker::with(quick).await;
    let (mut peer, mut producer) = (broker.connect().await, broker.connect().await);
    join(&mut producer, "one").await;
    peer.create_topic("TT", 1, RW).await;
    let first = prepare(&mut peer, "TT", 0, "", "slow").await;
    let asked = asked_for(&question(&mut producer, LIMIT).await.expect("a question"));
    must_end(&mut peer, first, COMMIT).await;
    must_end(&mut peer, asked, COMMIT).await;
    until("nothing is open", async || {
        position(&broker, HALF) == Some(broker.running().parts().store.queue(HALF, 0).unwrap().max_offset())
    })
    .await;
    while question(&mut producer, QUIET).await.is_some() {}
    assert_eq!(bodies(&mut peer, "TT").await, ["slow"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_to_ask_gives_up_in_the_end_and_can_be_resumed() {
    let broker = TestBroker::with(|setup| {
        quick(setup);
        setup.broker.transaction_check_max = 2;
    })
    .await;
    let mut peer = broker.connect().await;
    peer.create_topic("TT", 1, RW).await;
    prepare(&mut peer, "TT", 0, "UNIQ_KEY=lost;", "lost").await;
    peer.wait_for_offset(GIVEN_UP, 0, 1).await;
    let answer = peer.call(pull("Gread", GIVEN_UP, 0, 0, "*")).await;
    let given_up = crate::common::records(&answer.body);
    assert_eq!(given_up[0].property("TRANSACTION_CHECK_TIMES"), Some("2"));
    assert_eq!((given_up[0].property("REAL_TOPIC"), given_up[0].topic.as_str()), (Some("TT"), GIVEN_UP));

    let resume = |id: String| Command::request(RequestCode::RESUME_CHECK_HALF_MESSAGE).field("msgId", id);
    let id = |offset: u64| MessageId { host: "127.0.0.1:1".parse().unwrap(), phys_offset: offset }.to_string();
    let threw = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC.";
    for bad in [String::new(), "xyz".to_owned(), id(1), id(1 << 50)] {
        let answer = peer.call(resume(bad)).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (1, Some(threw)));
    }
    let mut producer = broker.connect().await;
    join(&mut producer, "one").await;
    assert_eq!(peer.call(resume(id(given_up[0].phys_offset as u64))).await.code, 0);
    let asked = question(&mut producer, LIMIT).await.expect("a question");
    assert_eq!(Record::of(&RecordView::parse(&asked.body).unwrap()).property("TRANSACTION_CHECK_TIMES"), Some("1"));
    must_end(&mut peer, asked_for(&asked), COMMIT).await;
    assert_eq!(bodies(&mut peer, "TT").await, ["lost"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_live_producer_of_the_group_is_asked() {
    let broker = TestBroker::with(|setup| {
        quick(setup);
        setup.broker.transaction_check_max = 1000;
    })
    .await;
    let (mut peer, mut one, mut two) = (broker.connect().await, broker.connect().await, broker.connect().await);
    peer.create_topic("TT", 1, RW).await;
    join(&mut one, "one").await;
    join(&mut two, "two").await;
    prepare(&mut peer, "TT", 0, "", "m").await;
    assert!(question(&mut one, LIMIT).await.is_some());
    assert!(question(&mut two, LIMIT).await.is_some());
    drop(one);
    let asked = question(&mut two, LIMIT).await.expect("a question");
    assert!(question(&mut two, LIMIT).await.is_some(), "only one is left");
    must_end(&mut peer, asked_for(&asked), ROLLBACK).await;
    while question(&mut two, QUIET).await.is_some() {}
    assert_eq!(peer.max_offset("TT", 0).await, 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_transaction_waits_from_its_commit_on() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TT", 1, RW).await;
    let refused = peer.call(half("TT", 0, "DELAY=abc;", "m")).await;
    assert_eq!(refused.code, 1);
    let place = prepare(&mut peer, "TT", 0, "DELAY=1;TAGS=t;", "later").await;
    assert_eq!((place.queue_offset, peer.max_offset(HALF, 0).await), (0, 1));
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let committed = now();
    must_end(&mut peer, place, COMMIT).await;
    peer.wait_for_offset("TT", 0, 1).await;
    let stored = read(&mut peer, "TT", 0).await;
    assert!(stored[0].store_timestamp >= committed + 1000, "{} after {committed}", stored[0].store_timestamp);
    assert_eq!((stored[0].sys_flag, stored[0].body.as_str()), (8, "later"));

    // For a time of its own likewise.
    let refused = peer.call(half("TT", 0, "TIMER_DELAY_MS=abc;", "m")).await;
    assert_eq!(refused.code, 13);
    let place = prepare(&mut peer, "TT", 0, "TIMER_DELAY_MS=2000;", "timed").await;
    assert_eq!((place.queue_offset, peer.max_offset(HALF, 0).await), (1, 2));
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let committed = now();
    must_end(&mut peer, place, COMMIT).await;
    peer.wait_for_offset("TT", 0, 2).await;
    let stored = read(&mut peer, "TT", 0).await;
    assert!(stored[1].store_timestamp >= committed + 2000, "{} after {committed}", stored[1].store_timestamp);
    assert_eq!((stored[1].sys_flag, stored[1].body.as_str()), (8, "timed"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_transactions_survive_a_restart() {
    let slow = |setup: &mut BrokerSetup| setup.broker.transaction_check_interval = 600_000;
    let mut broker = TestBroker::with(slow).await;
    let mut peer = broker.connect().await;
    peer.create_topic("TT", 1, RW).await;
    for i in 0..30 {
        let place = prepare(&mut peer, "TT", 0, "", &format!("m{i}")).await;
        match i % 3 {
            0 => must_end(&mut peer, place, COMMIT).await,
            1 => must_end(&mut peer, place, ROLLBACK).await,
            _ => {}
        }
    }
    drop(peer);
    broker
        .restart(quick, |dir| {
            let counts = std::fs::read_to_string(dir.join("config/transactionMetrics")).unwrap();
            assert!(counts.contains("\"TT\":{\"count\":10,"), "{counts}");
        })
        .await;
    let mut producer = broker.connect().await;
    join(&mut producer, "one").await;
    let mut asked = Vec::new();
    while asked.len() < 10 {
        let question = question(&mut producer, LIMIT).await.expect("a question for each");
        let body = String::from_utf8(RecordView::parse(&question.body).unwrap().body().to_vec()).unwrap();
        if !asked.contains(&body) {
            must_end(&mut producer, asked_for(&question), COMMIT).await;
            asked.push(body);
        }
    }
    let expected: Vec<_> = (0..10).map(|i| format!("m{}", 3 * i + 2)).collect();
    assert_eq!(asked, expected);
    until("everything is looked at", async || {
        position(&broker, OP) == broker.running().parts().store.queue(OP, 0).map(|queue| queue.max_offset())
    })
    .await;
    assert_eq!(bodies(&mut producer, "TT").await.len(), 20);
    broker.restart(quick, |_| {}).await;
    let mut producer = broker.connect().await;
    join(&mut producer, "one").await;
    assert!(question(&mut producer, QUIET).await.is_none());
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_are_gathered() {
    let broker = TestBroker::with(|setup| {
        setup.broker.transaction_op_batch_interval = 600_000;
        setup.broker.transaction_op_msg_max_size = 100;
    })
    .await;
    let mut peer = broker.connect().await;
    peer.create_topic("TT", 1, RW).await;
    for i in 0..200 {
        let place = prepare(&mut peer, "TT", 0, "", "m").await;
        must_end(&mut peer, place, if i % 2 == 0 { COMMIT } else { ROLLBACK }).await;
    }
    let ops = read(&mut peer, OP, 0).await;
    let listed: String = ops.iter().map(|op| op.body.as_str()).collect();
    assert!(ops.iter().all(|op| (101..=104).contains(&op.body.len())), "{ops:?}");
    let expected: String = (0..200).map(|i| format!("{i},")).collect();
    assert!(expected.starts_with(&listed) && expected.len() - listed.len() <= 100, "{listed}");
    broker.stop().await;
}

/// Damage in the op topic ends nothing that is open, and hides nothing that is ended.
#[tokio::test(flavor = "multi_thread")]
async fn op_records_that_make_no_sense() {
    let mut broker = TestBroker::with(|setup| setup.broker.transaction_check_interval = 600_000).await;
    let mut peer = broker.connect().await;
    peer.create_topic("TT", 1, RW).await;
    let first = prepare(&mut peer, "TT", 0, "", "open").await;
    let second = prepare(&mut peer, "TT", 0, "", "committed").await;
    let write = |broker: &TestBroker, properties: &[u8], body: &[u8]| {
        let store = &broker.running().parts().store;
        let message = NewMessage {
            flag: 0,
            sys_flag: 0,
            born_timestamp: 0,
            born_host: "127.0.0.1:1".parse().unwrap(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            properties,
            body,
        };
        store.append(&store.queue_or_create(OP, 0), &message).unwrap();
        store.dispatch();
    };
    write(&broker, b"", b"0,1,");
    write(&broker, b"TAGS\x01x\x02", b"0,");
    write(&broker, b"TAGS\x01d\x02", b"\xff\xfe,,-5,two,99999999999999999999999,");
    // Halves that come later.
    write(&broker, b"TAGS\x01d\x02", b"2,3,4,5,6,7,8,9,");
    write(&broker, b"TAGS\x01d\x02", b"");
    must_end(&mut peer, second, COMMIT).await;
    drop(peer);
    broker.restart(quick, |_| {}).await;
    let mut producer = broker.connect().await;
    join(&mut producer, "one").await;
    let asked = question(&mut producer, LIMIT).await.expect("a question");
    assert_eq!(RecordView::parse(&asked.body).unwrap().body(), b"open");
    assert!(asked_for(&asked).queue_offset > first.queue_offset);
    must_end(&mut producer, asked_for(&asked), COMMIT).await;
    let third = prepare(&mut producer, "TT", 0, "", "later").await;
    assert!(third.queue_offset < 9);
    let mut next = question(&mut producer, LIMIT).await.expect("a question for the later one");
    while RecordView::parse(&next.body).unwrap().body() != b"later" {
        next = question(&mut producer, LIMIT).await.expect("a question for the later one");
    }
    must_end(&mut producer, asked_for(&next), ROLLBACK).await;
    until("nothing stays behind", async || {
        let store = &broker.running().parts().store;
        [HALF, OP].iter().all(|topic| position(&broker, topic) == store.queue(topic, 0).map(|queue| queue.max_offset()))
    })
    .await;
    assert_eq!(bodies(&mut producer, "TT").await, ["committed", "open"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_takes_no_transactions() {
    let broker = TestBroker::with(|setup| setup.broker.reject_transaction_message = true).await;
    let mut peer = broker.connect().await;
    peer.create_topic("TT", 1, RW).await;
    let answer = peer.call(half("TT", 0, "", "m")).await;
    let remark = "the broker[127.0.0.1] sending transaction message is forbidden";
    assert_eq!((answer.code, answer.remark.as_deref()), (16, Some(remark)));
    // A retry of an old client.
    let retried = set(half("TT", 0, "DELAY=1;", "m"), "reconsumeTimes", 1);
    assert_eq!(peer.call(set(retried, "sysFlag", 0)).await.code, 0);
    assert_eq!(peer.max_offset(HALF, 0).await, 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slave_ends_nothing() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("TT", 1, RW).await;
    let place = prepare(&mut peer, "TT", 0, "", "m").await;
    broker.running().parts().store_config.update(&[("brokerRole", "SLAVE")]).unwrap();
    let answer = peer.call(end(place, COMMIT)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (11, Some("not set any response code")));
    broker.running().parts().store_config.update(&[("brokerRole", "ASYNC_MASTER")]).unwrap();
    must_end(&mut peer, place, COMMIT).await;
    broker.stop().await;
}

fn unpack(dir: &Path) {
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat-tests/golden/stores");
    let unpacked = dir.join("unpacked");
    std::fs::create_dir(&unpacked).unwrap();
    let archive = stores.join("transaction.tar.gz");
    let status = Process::new("tar").arg("-C").arg(&unpacked).arg("-xzf").arg(archive).status().unwrap();
    assert!(status.success());
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path == unpacked {
            continue;
        }
        if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
    }
    for entry in std::fs::read_dir(unpacked.join("store")).unwrap() {
        let entry = entry.unwrap();
        std::fs::rename(entry.path(), dir.join(entry.file_name())).unwrap();
    }
    std::fs::remove_dir_all(unpacked).unwrap();
}

/// The recorded store of a Java broker: three transactions that nobody has asked for and three that have answered
/// "unknown" are open.
#[tokio::test(flavor = "multi_thread")]
async fn a_java_store_with_open_transactions() {
    let mut broker = TestBroker::start().await;
    let adjust = |setup: &mut BrokerSetup| {
        quick(setup);
        setup.broker.broker_name = "broker-a".into();
        setup.broker.broker_cluster_name = "DefaultCluster".into();
        setup.broker.transaction_check_max = 1000;
        setup.store.mapped_file_size_commit_log = 262_144;
        setup.store.mapped_file_size_consume_queue = 2000;
        setup.store.max_hash_slot_num = 100;
        setup.store.max_index_num = 400;
        // The recorded times are what they are.
        setup.store.file_reserved_time = 2_000_000;
    };
    broker.restart(adjust, |dir| unpack(&dir)).await;
    let mut peer = broker.connect().await;
    let before = read(&mut peer, "TopicTx", 3).await.len();
    let counts = broker.running().parts().transactions.snapshot();
    assert_eq!(
        counts.iter().map(|(topic, count)| (topic.as_str(), count.open())).collect::<Vec<_>>(),
        [("TopicTx", 6)]
    );
    let mut producer = broker.connect().await;
    let body = r#"{"clientID":"c","consumerDataSet":[],"producerDataSet":[{"groupName":"PG_tx"}]}"#;
    assert_eq!(producer.call(Command::request(RequestCode::HEART_BEAT).body(body)).await.code, 0);
    let mut asked: Vec<String> = Vec::new();
    while asked.len() < 6 {
        let question = question(&mut producer, LIMIT).await.expect("a question for each");
        let view = RecordView::parse(&question.body).unwrap();
        let keys = view.keys().unwrap().to_owned();
        if !asked.contains(&keys) {
            let how = if keys == "pending1" || keys == "unknown0" { COMMIT } else { ROLLBACK };
            let end = set(end(asked_for(&question), how), "producerGroup", "PG_tx");
            assert_eq!(producer.call(set(end, "fromTransactionCheck", true)).await.code, 0);
            asked.push(keys);
        }
    }
    asked.sort();
    assert_eq!(asked, ["pending0", "pending1", "pending2", "unknown0", "unknown1", "unknown2"]);
    let delivered = read(&mut peer, "TopicTx", 3).await;
    let keys: Vec<_> = delivered[before..].iter().map(|record| record.property("KEYS").unwrap()).collect();
    assert_eq!((keys.len(), keys.contains(&"pending1"), keys.contains(&"unknown0")), (2, true, true));
    until("everything is looked at", async || {
        let store = &broker.running().parts().store;
        [HALF, OP].iter().all(|topic| position(&broker, topic) == store.queue(topic, 0).map(|queue| queue.max_offset()))
    })
    .await;
    while question(&mut producer, QUIET).await.is_some() {}
    let counts = broker.running().parts().transactions.snapshot();
    assert_eq!(counts[0].1.open(), 0);
    broker.stop().await;
}
