//! Messages for an arbitrary time: over restarts, kills and changes of the broker, and in recorded stores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use compat_tests::harness::{
    Broker, BrokerOptions, ClientVersion, Connection, Frame, Namesrv, Scenarios, Scratch, Servers, Whose, until,
};
use serde_json::Value;

const GET_MAX_OFFSET: i32 = 30;
const GET_BROKER_RUNTIME_INFO: i32 = 28;
const TOPIC: &str = "Timers";

/// Scenario parts on one topic and one file of acks.
struct Story {
    namesrv: Namesrv,
    scratch: Scratch,
}

impl Story {
    fn new() -> Story {
        Story { namesrv: Namesrv::start(), scratch: Scratch::new() }
    }

    fn part(&self) -> Scenarios {
        Scenarios::new(&self.namesrv.address())
            .option("topic", TOPIC)
            .option("file", self.scratch.join("acks").display())
    }

    fn broker(&self, whose: Whose) -> Broker {
        // Small files: the timer log has several.
        let options = BrokerOptions::new("broker-a")
            .whose(whose)
            .set("mappedFileSizeTimerLog", "20800")
            .set("mappedFileSizeCommitLog", "1048576");
        Broker::start(&options, &[&self.namesrv])
    }
}

/// Messages in all queues of a topic.
fn count(broker: &Broker, topic: &str) -> i64 {
    let mut connection = Connection::open(&broker.address());
    let mut end = |queue: i32| {
        let request = Frame::request(GET_MAX_OFFSET).field("topic", topic).field("queueId", queue);
        connection.call(&request).fields.get("offset").and_then(|offset| offset.parse::<i64>().ok()).unwrap_or(0)
    };
    (0..8).map(&mut end).sum()
}

/// A number of GET_BROKER_RUNTIME_INFO.
fn runtime(broker: &Broker, key: &str) -> i64 {
    let answer = Connection::open(&broker.address()).call(&Frame::request(GET_BROKER_RUNTIME_INFO));
    let info: Value = serde_json::from_slice(&answer.body).expect("a table");
    info["table"][key].as_str().expect("a value").parse().expect("a number")
}

#[test]
fn clients_of_all_versions() {
    let servers = Servers::start(&BrokerOptions::new("broker-a"));
    for version in [ClientVersion::V5_5_0, ClientVersion::V5_3_3, ClientVersion::V4_9_8] {
        Scenarios::new(&servers.namesrv()).version(version).run("timer-deliver,timer-refused,timer-delete");
    }
    servers.stop();
}

#[test]
fn recalls() {
    let servers = Servers::start(&BrokerOptions::new("broker-a").set("recallMessageEnable", "true"));
    Scenarios::new(&servers.namesrv()).run("timer-recall");
    servers.stop();
    let servers = Servers::start(&BrokerOptions::new("broker-a"));
    Scenarios::new(&servers.namesrv()).run("timer-recall-forbidden");
    servers.stop();
}

#[test]
fn what_waits_survives_a_restart() {
    let mut story = Story::new();
    let mut broker = story.broker(Whose::chosen());
    story.part().option("count", 600).option("after", 6000).option("spread", 4000).run("timer-produce");
    broker.stop();
    broker.start_again(&[&story.namesrv]);
    story.part().option("exact", true).run("timer-verify");
    broker.stop();
    story.namesrv.stop();
}

/// Killed while it delivers, twice. A Java broker delivers those of the last second again, ours none.
#[test]
fn a_kill_loses_nothing_and_repeats_nothing() {
    let mut story = Story::new();
    let mut broker = story.broker(Whose::chosen());
    story.part().option("count", 3000).option("after", 6000).option("spread", 6000).run("timer-produce");
    for part in [500, 1800] {
        until("some delivered messages", Duration::from_secs(60), || count(&broker, TOPIC) >= part);
        broker.kill();
        broker.start_again(&[&story.namesrv]);
    }
    let exact = Whose::chosen() != Whose::Java;
    story.part().option("exact", exact).run("timer-verify");
    broker.stop();
    story.namesrv.stop();
}

/// Fifty thousand: killed while all wait, and while it delivers. What is counted is in the program.
#[test]
fn a_kill_with_many_waiting_loses_none_and_none_is_early() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rmq-bench"));
    command.args(["timer-crash", "--pending", "50000", "--ahead", "12", "--spread", "10"]);
    if Whose::chosen() == Whose::Java {
        command.arg("--java");
    }
    let output = command.output().expect("rmq-bench runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert!(output.status.success() && text.contains("\"lost\":0"), "{text}");
}

/// Taken by one, delivered by the other, and the other way round.
fn hand_over(first: Whose, second: Whose) {
    let mut story = Story::new();
    let mut broker = story.broker(first);
    let one = story.part().option("prefix", "one").option("count", 300);
    one.option("after", 20_000).option("spread", 8000).run("timer-produce");
    until("the messages to be taken", Duration::from_secs(20), || runtime(&broker, "timerOffsetBehind") == 0);
    assert!(runtime(&broker, "timerCongestNum") > 0, "nothing waits any more");
    broker.stop();
    broker.start_again_as(second, &[&story.namesrv]);
    let two = story.part().option("prefix", "two").option("count", 300);
    two.option("after", 20_000).option("spread", 8000).run("timer-produce");
    until("some delivered messages", Duration::from_secs(60), || count(&broker, TOPIC) >= 100);
    broker.stop();
    broker.start_again_as(first, &[&story.namesrv]);
    story.part().option("exact", true).run("timer-verify");
    broker.stop();
    story.namesrv.stop();
}

#[test]
fn ours_waits_in_java_and_comes_back() {
    hand_over(Whose::chosen(), Whose::Java);
}

#[test]
fn javas_waits_here_and_goes_back() {
    hand_over(Whose::Java, Whose::chosen());
}

/// Killed in one's hands while it delivers; the other goes on.
fn crash_over(first: Whose, second: Whose, exact: bool) {
    let mut story = Story::new();
    let mut broker = story.broker(first);
    story.part().option("count", 2000).option("after", 8000).option("spread", 8000).run("timer-produce");
    until("some delivered messages", Duration::from_secs(60), || count(&broker, TOPIC) >= 400);
    broker.kill();
    broker.start_again_as(second, &[&story.namesrv]);
    story.part().option("exact", exact).run("timer-verify");
    broker.stop();
    story.namesrv.stop();
}

#[test]
fn a_kill_of_javas_is_recovered_here() {
    crash_over(Whose::Java, Whose::chosen(), Whose::chosen() != Whose::Java);
}

#[test]
fn a_kill_of_ours_is_recovered_by_java() {
    crash_over(Whose::chosen(), Whose::Java, false);
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/stores").join(name)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    i64::try_from(since.as_millis()).expect("a number")
}

/// Opens a recorded store in which timers were pending: those whose time has come by now are delivered, with their bodies,
/// and the others are counted.
fn recorded_store(name: &str, topic: &str, settings: &[(&str, &str)]) {
    let scratch = Scratch::new();
    let archive = golden(&format!("{name}.tar.gz"));
    let status =
        Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(scratch.path()).status().expect("tar runs");
    assert!(status.success(), "{}: {status}", archive.display());
    let text = std::fs::read_to_string(golden(&format!("{name}.json"))).expect("a manifest");
    let manifest: Value = serde_json::from_str(&text).expect("a manifest");
    let messages = manifest["messages"].as_array().expect("messages");
    let word = |message: &Value, key: &str| message[key].as_str().unwrap_or_default().to_owned();
    let of_topic = |name: &'static str| messages.iter().filter(move |message| message["topic"] == *name);
    let known: Vec<String> =
        messages.iter().filter(|message| message["topic"] == *topic).map(|message| word(message, "uniqKey")).collect();
    let recalled: Vec<&str> = of_topic("rmq_sys_wheel_timer")
        .filter_map(|message| message["properties"]["TIMER_DEL_UNIQKEY"].as_str())
        .collect();
    // Key, time and body of what waits.
    let mut pending: BTreeMap<String, (i64, String)> = BTreeMap::new();
    for message in of_topic("rmq_sys_wheel_timer") {
        let key = word(message, "uniqKey");
        if !known.contains(&key) && !recalled.contains(&key.as_str()) {
            let due = message["properties"]["TIMER_OUT_MS"].as_str().and_then(|due| due.parse().ok()).expect("a time");
            pending.insert(key, (due, word(message, "bodySha256")));
        }
    }
    assert!(pending.len() >= 2, "{pending:?}");

    let mut namesrv = Namesrv::start();
    let options = BrokerOptions::new("broker-a")
        .store(&scratch.join("store"))
        .settings(settings)
        .set("fileReservedTime", "2000000");
    let mut broker = Broker::start(&options, &[&namesrv]);
    // A minute on either side nobody knows.
    let overdue: Vec<_> = pending.iter().filter(|(_, (due, _))| due + 60_000 < now()).collect();
    let waiting = pending.values().filter(|(due, _)| due - 60_000 > now()).count();
    let expected = (known.len() + overdue.len()) as i64;
    until("what is overdue", Duration::from_secs(60), || count(&broker, topic) >= expected);
    if overdue.len() + waiting == pending.len() {
        until("the count of what waits", Duration::from_secs(30), || {
            runtime(&broker, "timerOffsetBehind") == 0 && runtime(&broker, "timerCongestNum") == waiting as i64
        });
        assert_eq!(count(&broker, topic), expected);
    }
    let dump = scratch.join("dump");
    Scenarios::new(&namesrv.address()).option("topics", topic).option("file", dump.display()).run("dump");
    let found = std::fs::read_to_string(&dump).expect("a dump");
    for (key, (_, body)) in overdue {
        let times = found.lines().filter(|line| line.contains(key.as_str()) && line.contains(body.as_str())).count();
        assert_eq!(times, 1, "{key}");
    }
    broker.stop();
    namesrv.stop();
}

#[test]
fn a_recorded_store_with_timers() {
    let small = [
        ("mappedFileSizeCommitLog", "262144"),
        ("mappedFileSizeConsumeQueue", "2000"),
        ("maxHashSlotNum", "100"),
        ("maxIndexNum", "400"),
        ("mappedFileSizeTimerLog", "5200"),
    ];
    recorded_store("retry_delay_timer", "TopicTimer", &small);
}

#[test]
fn a_recorded_store_of_default_sizes() {
    let default = [
        ("mappedFileSizeCommitLog", "1073741824"),
        ("mappedFileSizeConsumeQueue", "6000000"),
        ("maxHashSlotNum", "5000000"),
        ("maxIndexNum", "20000000"),
    ];
    recorded_store("default_size", "TopicDefTimer", &default);
}
