//! Compaction topics: a store that changes hands between our broker and Java's, and our broker killed while it compacts. And
//! the attribute of topics that Java does not know.

use std::path::Path;
use std::time::Duration;

use compat_tests::harness::{
    Admin, Broker, BrokerOptions, Connection, Frame, Namesrv, Scenarios, Scratch, Whose, until,
};

const UPDATE_AND_CREATE_TOPIC: i32 = 17;
const GET_ALL_TOPIC_CONFIG: i32 = 21;
const DELETE_TOPIC_IN_BROKER: i32 = 215;
const SEND_BATCH_MESSAGE: i32 = 320;

/// A hundred messages a file, and a compaction of each queue every second or two.
fn options(whose: Whose) -> BrokerOptions {
    BrokerOptions::new("broker-a").whose(whose).settings(&[
        ("mappedFileSizeCommitLog", "1048576"),
        ("mappedFileSizeConsumeQueue", "20000"),
        ("compactionCqMappedFileSize", "4600"),
        ("compactionMappedFileSize", "46000"),
        ("compactionScheduleInternal", "300"),
        ("compactionThreadNum", "2"),
    ])
}

fn create_topic(broker: &Broker, topic: &str) {
    let request = Frame::request(UPDATE_AND_CREATE_TOPIC)
        .field("topic", topic)
        .field("defaultTopic", "TBW102")
        .field("readQueueNums", 2)
        .field("writeQueueNums", 2)
        .field("perm", 6)
        .field("topicFilterType", "SINGLE_TAG")
        .field("topicSysFlag", 0)
        .field("order", false)
        .field("attributes", "+cleanup.policy=COMPACTION");
    let answer = Connection::open(&broker.address()).call(&request);
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
}

/// A message without body: clients refuse to send one alone, but not the broker to take it in a batch.
fn delete_key(broker: &Broker, topic: &str, queue: i32, key: &str, file: &Path) {
    let properties = format!("KEYS\u{1}{key}\u{2}");
    let mut body = Vec::new();
    body.extend_from_slice(&((4 * 5 + 2 + properties.len()) as u32).to_be_bytes());
    // Magic, crc, flag, length of the body.
    body.extend_from_slice(&[0; 16]);
    body.extend_from_slice(&(properties.len() as u16).to_be_bytes());
    body.extend_from_slice(properties.as_bytes());
    let request = Frame::request(SEND_BATCH_MESSAGE)
        .field("a", "PG")
        .field("b", topic)
        .field("c", "TBW102")
        .field("d", 4)
        .field("e", queue)
        .field("f", 0)
        .field("g", 1_700_000_000_000i64)
        .field("h", 0)
        .field("i", "")
        .field("m", true)
        .body(body);
    let answer = Connection::open(&broker.address()).call(&request);
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let offset = &answer.fields["queueOffset"];
    let mut lines = std::fs::read_to_string(file).expect("the file of what was sent");
    lines.push_str(&format!("{queue}\t{offset}\t{key}\t\n"));
    std::fs::write(file, lines).expect("the file of what was sent");
}

/// Of each key the last message stays, whoever has the store; a queue's last file may hold a hundred more.
fn compacted(first: Whose, second: Whose) {
    let mut namesrv = Namesrv::start();
    let mut broker = Broker::start(&options(first), &[&namesrv]);
    create_topic(&broker, "Compacted");
    let scratch = Scratch::new();
    let file = scratch.join("sent");
    let part = Scenarios::new(&namesrv.address()).option("topic", "Compacted").option("file", file.display());
    let read = part.clone().option("closed", 100);
    for (round, whose) in [first, second, first].into_iter().enumerate() {
        if round > 0 {
            // The third finds what a kill has left.
            if round < 2 {
                broker.stop()
            } else {
                broker.kill()
            }
            broker.start_again_as(whose, &[&namesrv]);
            part.run("compaction-read,compaction-consume");
        }
        part.clone().option("prefix", format!("round-{round}")).option("count", 1500).run("compaction-fill");
        if round == 1 {
            // Keys 18 and 19 of the queues 0 and 1 come again in the next round, these two do not.
            for (queue, key) in [(0, "gone-0"), (1, "gone-1")] {
                delete_key(&broker, "Compacted", queue, key, &file);
            }
        }
        // Java's, killed within a compaction, may not start again; ours must.
        read.run("compaction-read");
        until_quiet(&broker);
        part.run("compaction-read,compaction-consume");
    }
    broker.stop();
    namesrv.stop();
}

/// Waits until no compaction is at work.
fn until_quiet(broker: &Broker) {
    let staging =
        ["compactionLog", "compactionCq"].map(|kind| broker.store().join("compaction").join(kind).join("Compacted"));
    until("no compaction is at work", Duration::from_secs(30), || {
        staging.iter().all(|dir| (0..2).all(|id| !dir.join(id.to_string()).join("compacting").exists()))
    });
}

#[test]
fn compacted_by_us_then_by_java() {
    compacted(Whose::chosen(), Whose::Java);
}

#[test]
fn compacted_by_java_then_by_us() {
    compacted(Whose::Java, Whose::chosen());
}

/// Killed again and again while it takes messages and compacts: nothing wrong is read, and no last message is missing.
#[test]
fn killed_while_compacting() {
    let mut namesrv = Namesrv::start();
    let options = options(Whose::Ours).set("compactionScheduleInternal", "1");
    let mut broker = Broker::start(&options, &[&namesrv]);
    create_topic(&broker, "Compacted");
    let scratch = Scratch::new();
    let part =
        Scenarios::new(&namesrv.address()).option("topic", "Compacted").option("file", scratch.join("sent").display());
    for round in 0..4 {
        let prefix = format!("round-{round}");
        part.clone().option("prefix", prefix).option("count", 1200).option("keys", 300).run("compaction-fill");
        // The compactions of the two queues begin 1 s after their last ones: a kill every 200 ms later.
        std::thread::sleep(Duration::from_millis(400 + 200 * round));
        broker.kill();
        broker.start_again(&[&namesrv]);
        part.run("compaction-read");
    }
    part.clone().option("closed", 100).run("compaction-read,compaction-consume");
    let delete = Frame::request(DELETE_TOPIC_IN_BROKER).field("topic", "Compacted");
    assert_eq!(Connection::open(&broker.address()).call(&delete).code, 0);
    assert!(!broker.store().join("compaction/compactionLog/Compacted").exists());
    broker.stop();
    namesrv.stop();
}

/// Java keeps an attribute that it does not know, and its tools can set and remove it.
#[test]
fn the_retention_attribute_in_java_and_back() {
    let mut namesrv = Namesrv::start();
    let mut broker = Broker::start(&options(Whose::Ours), &[&namesrv]);
    let admin = Admin::new(&namesrv.address());
    let address = broker.address();
    let set = |attributes: &str| {
        let output = admin.run(&[&["updateTopic", "-b", &address, "-t", "Short", attributes]]);
        assert!(output[0].stdout.contains("success"), "{output:?}");
    };
    let known = |broker: &Broker| {
        let answer = Connection::open(&broker.address()).call(&Frame::request(GET_ALL_TOPIC_CONFIG));
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        String::from_utf8(answer.body).expect("a topic table").contains("\"retention.hours\":\"7\"")
    };
    set("--attributes=+retention.hours=7");
    assert!(known(&broker));
    let part = Scenarios::new(&namesrv.address()).option("topic", "Short").option("group", "G-short");
    let scratch = Scratch::new();
    let part = part.option("file", scratch.join("acks").display());
    part.clone().option("prefix", "one").option("count", 100).run("produce");
    broker.stop();
    broker.start_again_as(Whose::Java, &[&namesrv]);
    assert!(known(&broker));
    set("--attributes=+message.type=NORMAL");
    assert!(known(&broker));
    part.clone().option("prefix", "two").option("count", 100).run("produce");
    part.run("verify");
    broker.stop();
    broker.start_again_as(Whose::Ours, &[&namesrv]);
    assert!(known(&broker));
    part.run("verify");
    set("--attributes=-retention.hours");
    assert!(!known(&broker));
    broker.stop();
    namesrv.stop();
}
