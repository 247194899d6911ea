//! Store directories that change hands: ours to Java and back, and a recorded one of Java's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use compat_tests::harness::{Broker, BrokerOptions, Connection, Frame, Namesrv, Scenarios, Scratch, Whose};
use serde_json::Value;

const GET_ALL_TOPIC_LIST: i32 = 206;

/// The topics that the scenarios made.
fn topics(namesrv: &Namesrv) -> BTreeSet<String> {
    let answer = Connection::open(&namesrv.address()).call(&Frame::request(GET_ALL_TOPIC_LIST));
    let list: Value = serde_json::from_slice(&answer.body).expect("a topic list");
    let names = list["topicList"].as_array().expect("names").iter().filter_map(Value::as_str);
    names.filter(|name| name.starts_with("T-") || *name == "Moved").map(str::to_owned).collect()
}

/// Every message of the topics, read by the Java client.
fn dump(namesrv: &Namesrv, topics: &BTreeSet<String>) -> Vec<String> {
    let scratch = Scratch::new();
    let file = scratch.join("dump");
    let list = topics.iter().cloned().collect::<Vec<_>>().join(",");
    Scenarios::new(&namesrv.address()).option("topics", list).option("file", file.display()).run("dump");
    std::fs::read_to_string(&file).expect("a dump").lines().map(str::to_owned).collect()
}

/// Small files: the store has several, and a roll in either's hands.
const SMALL: [(&str, &str); 2] = [("mappedFileSizeCommitLog", "1048576"), ("mappedFileSizeConsumeQueue", "20000")];
/// The sizes that a broker has without any setting.
const DEFAULT: [(&str, &str); 2] =
    [("mappedFileSizeCommitLog", "1073741824"), ("mappedFileSizeConsumeQueue", "6000000")];

/// Fills a store with `first`'s broker, opens it with `second`'s, goes on there, and returns to the first; `times` around.
fn hand_over(first: Whose, second: Whose, sizes: [(&str, &str); 2], times: usize) {
    let mut namesrv = Namesrv::start();
    let options = BrokerOptions::new("broker-a").whose(first).settings(&sizes);
    let mut broker = Broker::start(&options, &[&namesrv]);
    if second == Whose::Ours {
        let said = broker.start_beside(second);
        assert!(said.contains("in use by another process"), "{said}");
    }
    let scratch = Scratch::new();
    let part = Scenarios::new(&namesrv.address())
        .option("topic", "Moved")
        .option("group", "G-moved")
        .option("file", scratch.join("acks").display())
        .option("size", 600);
    Scenarios::new(&namesrv.address())
        .run("send-sync,send-batch,send-oneway,message-properties,message-compressed,query-key,order-send,retry-later,offset-restart");
    part.clone().option("prefix", "one").option("count", 2500).run("produce");
    part.clone().option("prefix", "one").option("exact", true).run("consume");
    let known = topics(&namesrv);
    assert!(known.len() >= 8, "{known:?}");
    let written = dump(&namesrv, &known);
    assert!(written.len() > 2600, "{} messages", written.len());
    broker.stop();

    broker.start_again_as(second, &[&namesrv]);
    assert_eq!(topics(&namesrv), known, "topics");
    assert_eq!(dump(&namesrv, &known), written, "messages");
    // Offsets of the group are there: only what is sent now comes. Queries and new topics work.
    part.clone().option("prefix", "two").option("count", 2500).run("produce");
    part.clone().option("prefix", "two").option("exact", true).run("consume");
    part.run("verify");
    Scenarios::new(&namesrv.address()).run("send-batch,query-key,query-id,query-time");
    let grown = dump(&namesrv, &known);
    broker.stop();

    broker.start_again_as(first, &[&namesrv]);
    assert_eq!(dump(&namesrv, &known), grown, "messages after the return");
    part.run("verify");
    part.clone().option("prefix", "three").option("count", 100).run("produce");
    part.clone().option("prefix", "three").option("exact", true).run("consume");
    for time in 1..times {
        for whose in [second, first] {
            broker.stop();
            broker.start_again_as(whose, &[&namesrv]);
            part.run("verify");
            part.clone().option("prefix", format!("{time}{whose:?}")).option("count", 50).run("produce");
        }
    }
    if times > 1 {
        part.run("verify");
        let last: BTreeSet<String> = dump(&namesrv, &known).into_iter().collect();
        assert!(grown.iter().all(|message| last.contains(message)), "messages after {times} times");
    }
    broker.stop();
    namesrv.stop();
}

#[test]
fn our_store_opens_in_java_and_comes_back() {
    hand_over(Whose::chosen(), Whose::Java, SMALL, 3);
}

#[test]
fn a_java_store_opens_here_and_goes_back() {
    hand_over(Whose::Java, Whose::chosen(), DEFAULT, 1);
}

/// Killed in one's hands, recovered in the other's.
fn crash_over(first: Whose, second: Whose) {
    let mut namesrv = Namesrv::start();
    let options = BrokerOptions::new("broker-a").whose(first).set("mappedFileSizeCommitLog", "1048576");
    let mut broker = Broker::start(&options, &[&namesrv]);
    let scratch = Scratch::new();
    let part = Scenarios::new(&namesrv.address())
        .option("topic", "Moved")
        .option("group", "G-moved")
        .option("file", scratch.join("acks").display())
        .option("size", 600);
    part.clone().option("prefix", "one").option("count", 3000).run("produce");
    broker.kill();
    broker.start_again_as(second, &[&namesrv]);
    part.run("verify");
    part.clone().option("prefix", "two").option("count", 500).run("produce");
    broker.kill();
    broker.start_again_as(first, &[&namesrv]);
    part.run("verify,consume");
    broker.stop();
    namesrv.stop();
}

#[test]
fn a_crash_of_ours_is_recovered_by_java_and_the_reverse() {
    crash_over(Whose::chosen(), Whose::Java);
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/stores").join(name)
}

/// Opens a recorded store and compares what the Java client reads with what its own broker showed after it was opened again.
fn recorded_store(name: &str) {
    let scratch = Scratch::new();
    let archive = golden(&format!("{name}.tar.gz"));
    let status =
        Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(scratch.path()).status().expect("tar runs");
    assert!(status.success(), "{}: {status}", archive.display());
    let text = std::fs::read_to_string(golden(&format!("{name}.json"))).expect("a manifest");
    let manifest: Value = serde_json::from_str(&text).expect("a manifest");
    let mut namesrv = Namesrv::start();
    let options = BrokerOptions::new("broker-a").store(&scratch.join("store")).settings(&[
        ("mappedFileSizeCommitLog", "262144"),
        ("mappedFileSizeConsumeQueue", "2000"),
        ("maxHashSlotNum", "100"),
        ("maxIndexNum", "400"),
        ("mappedFileSizeTimerLog", "5200"),
        // The recorded times are what they are: nothing may be cleaned up.
        ("fileReservedTime", "2000000"),
    ]);
    let mut broker = Broker::start(&options, &[&namesrv]);

    // Of a batch queue a message is the outer record here, while a client gets the inner ones.
    let configs = manifest["topic_configs"].as_object().expect("topics");
    let batch: BTreeSet<&str> = configs
        .iter()
        .filter(|(_, config)| config["attributes"].to_string().contains("BatchCQ"))
        .map(|(topic, _)| topic.as_str())
        .collect();
    let mut expected: BTreeMap<(String, i64, i64), String> = BTreeMap::new();
    let mut topics = BTreeSet::new();
    for message in manifest["messages"].as_array().expect("messages") {
        let topic = message["topic"].as_str().expect("a topic");
        // Topics of the system move on as soon as the broker runs.
        if batch.contains(topic) || !topic.starts_with("Topic") {
            continue;
        }
        topics.insert(topic.to_owned());
        let number = |key: &str| message[key].as_i64().expect("a number");
        let word = |key: &str| message[key].as_str().unwrap_or("null").replace('\n', " ");
        let line = [
            number("physicalOffset").to_string(),
            number("size").to_string(),
            word("uniqKey"),
            number("bornTimestamp").to_string(),
            number("storeTimestamp").to_string(),
            number("reconsumeTimes").to_string(),
            word("tags"),
            word("keys"),
            word("bodySha256"),
        ];
        expected.insert((topic.to_owned(), number("queueId"), number("queueOffset")), line.join("\t"));
    }
    assert!(expected.len() > 300, "{} messages", expected.len());
    let mut found = BTreeMap::new();
    for line in dump(&namesrv, &topics) {
        let fields: Vec<&str> = line.splitn(4, '\t').collect();
        let number = |at: usize| fields[at].parse::<i64>().expect("a number");
        found.insert((fields[0].to_owned(), number(1), number(2)), fields[3].to_owned());
    }
    for (place, line) in &expected {
        assert_eq!(found.get(place), Some(line), "{place:?}");
    }
    assert_eq!(found.len(), expected.len(), "messages");
    broker.stop();
    namesrv.stop();
}

#[test]
fn a_recorded_store_that_was_stopped_cleanly() {
    recorded_store("basic");
}

#[test]
fn a_recorded_store_that_was_killed() {
    recorded_store("unclean_sigkill");
}
