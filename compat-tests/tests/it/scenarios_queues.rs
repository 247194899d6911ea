//! Queues of other kinds: batch consume queues, light queues and the extension of consume queues. Each store is filled,
//! handed from our broker to Java's and back, once after a clean stop and once after a kill.

use compat_tests::harness::{Broker, BrokerOptions, Connection, Frame, Namesrv, Scenarios, Scratch, Whose};

const UPDATE_AND_CREATE_TOPIC: i32 = 17;

/// Small files: each of them rolls in either's hands.
fn options(whose: Whose) -> BrokerOptions {
    BrokerOptions::new("broker-a").whose(whose).settings(&[
        ("mappedFileSizeCommitLog", "262144"),
        ("mappedFileSizeConsumeQueue", "2000"),
        ("mapperFileSizeBatchConsumeQueue", "1840"),
    ])
}

fn create_topic(broker: &Broker, topic: &str, attributes: &str) {
    let request = Frame::request(UPDATE_AND_CREATE_TOPIC)
        .field("topic", topic)
        .field("defaultTopic", "TBW102")
        .field("readQueueNums", 4)
        .field("writeQueueNums", 4)
        .field("perm", 6)
        .field("topicFilterType", "SINGLE_TAG")
        .field("topicSysFlag", 0)
        .field("order", false)
        .field("attributes", attributes);
    let answer = Connection::open(&broker.address()).call(&request);
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
}

/// Hands a store from one to the other: `step` writes something new, and reads everything that was ever written.
fn hand_around(broker: &mut Broker, namesrv: &Namesrv, first: Whose, second: Whose, step: impl Fn(&str)) {
    step("one");
    broker.stop();
    broker.start_again_as(second, &[namesrv]);
    step("two");
    broker.stop();
    broker.start_again_as(first, &[namesrv]);
    step("three");
    broker.kill();
    broker.start_again_as(second, &[namesrv]);
    step("four");
    broker.kill();
    broker.start_again_as(first, &[namesrv]);
    step("five");
}

fn batch_queues(first: Whose, second: Whose) {
    let mut namesrv = Namesrv::start();
    let mut broker = Broker::start(&options(first), &[&namesrv]);
    create_topic(&broker, "Batches", "+queue.type=BatchCQ");
    let scratch = Scratch::new();
    let address = namesrv.address();
    let part = Scenarios::new(&address).option("topic", "Batches").option("file", scratch.join("sent").display());
    hand_around(&mut broker, &namesrv, first, second, |prefix| {
        // What is there first: then what is new.
        if prefix != "one" {
            part.run("batch-queue-read");
        }
        part.clone().option("prefix", prefix).run("batch-queue-fill");
        part.run("batch-queue-read");
        part.clone().option("group", format!("G-{prefix}")).run("batch-queue-consume");
    });
    broker.stop();
    namesrv.stop();
}

#[test]
fn batch_queues_of_ours_in_java_and_back() {
    batch_queues(Whose::chosen(), Whose::Java);
}

#[test]
fn batch_queues_of_java_here_and_back() {
    batch_queues(Whose::Java, Whose::chosen());
}

fn light_queues(first: Whose, second: Whose, extended: bool) {
    let mut namesrv = Namesrv::start();
    let mut options = options(first).set("enableLmq", "true").set("enableMultiDispatch", "true");
    if extended {
        options = options.set("enableConsumeQueueExt", "true").set("mappedFileSizeConsumeQueueExt", "4096");
    }
    let mut broker = Broker::start(&options, &[&namesrv]);
    let scratch = Scratch::new();
    let address = namesrv.address();
    let part = Scenarios::new(&address).option("topic", "Light").option("file", scratch.join("sent").display());
    let waited = Scenarios::new(&address).option("topic", "Waited");
    let steps = std::cell::Cell::new(0);
    hand_around(&mut broker, &namesrv, first, second, |prefix| {
        let step = steps.replace(steps.get() + 1);
        if step > 0 {
            part.run("light-queue-read");
        }
        part.clone().option("prefix", prefix).run("light-queue-fill");
        part.run("light-queue-read");
        waited.run("light-queue-wait");
        // A kill may lose the offsets of the last seconds, so only a clean stop before is looked at.
        let offsets = part.clone().option("offset", 10 + step);
        match step {
            1 | 2 => offsets.option("before", 9 + step).run("light-queue-offsets"),
            _ => offsets.run("light-queue-offsets"),
        };
    });
    broker.stop();
    namesrv.stop();
}

#[test]
fn light_queues_of_ours_in_java_and_back() {
    light_queues(Whose::chosen(), Whose::Java, false);
}

#[test]
fn light_queues_of_java_here_and_back() {
    light_queues(Whose::Java, Whose::chosen(), false);
}

/// The same with an extension to each queue: tags are found through it.
#[test]
fn extended_queues_of_ours_in_java_and_back() {
    light_queues(Whose::chosen(), Whose::Java, true);
}
