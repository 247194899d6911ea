//! Java's mqadmin (5.5.0) against our servers, compared with what it printed against Java's.
//!
//! `golden/cli/*.txt` was recorded with a broker `broker-a` of `DefaultCluster` on 127.0.0.1:10711 and a name server on 127.0.0.1:9976. The test
//! brings the topics and groups that it asks about into the same state. Compared is every line except stack frames, with addresses
//! and times replaced.

use std::collections::BTreeSet;
use std::path::Path;

use compat_tests::harness::{Admin, BrokerOptions, Connection, Frame, Output, Servers, admin};

const SEND_MESSAGE: i32 = 10;
const UPDATE_CONSUMER_OFFSET: i32 = 15;
const HEART_BEAT: i32 = 34;
const GROUP: &str = "CG_cli";
const TOPIC: &str = "WireTopic";

fn golden(name: &str) -> Vec<Output> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/cli").join(format!("{name}.txt"));
    admin::parse(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// The recorded block whose command ends like this.
#[track_caller]
fn block(name: &str, end: &str) -> Output {
    let found = golden(name).into_iter().find(|output| output.command.ends_with(end));
    found.unwrap_or_else(|| panic!("no block {end} in {name}"))
}

/// The live servers' addresses, told as the recorded ones.
struct Names {
    namesrv: String,
    broker: String,
    id: String,
}

impl Names {
    fn of(servers: &Servers) -> Self {
        let broker = servers.broker();
        let port: u32 = broker.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        Self { namesrv: servers.namesrv(), broker, id: format!("7F000001{port:08X}") }
    }

    /// The words of a recorded command, with the live addresses, without `-n`.
    fn live(&self, command: &str) -> Vec<String> {
        let text = command.replace("127.0.0.1:10711", &self.broker).replace("7F000001000029D7", &self.id);
        let mut words: Vec<String> = Vec::new();
        for (index, part) in text.split('\'').enumerate() {
            if index % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        let at = words.iter().position(|word| word == "-n").expect("-n");
        words.drain(at..at + 2);
        words
    }

    /// Lines without what differs from run to run.
    fn plain(&self, text: &str) -> Vec<String> {
        let text = text.replace(&self.broker, "127.0.0.1:10711").replace(&self.namesrv, "127.0.0.1:9976");
        let text = text.replace(&self.id, "7F000001000029D7");
        let lines = text.lines().filter(|line| !line.starts_with("\tat ") && !line.starts_with("\t... "));
        let lines = lines.map(|line| without_times(line.trim_end()));
        let lines = lines.map(|line| if line.starts_with("Born Host:") { "Born Host:".to_owned() } else { line });
        // Empty lines at the end belong to the format of the recording.
        let mut lines: Vec<String> = lines.collect();
        lines.truncate(lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1));
        lines
    }
}

/// Replaces `2026-11-29 16:59:04,623` and `2026-11-29 16:59:04`; `N/A` and an empty column stay.
fn without_times(line: &str) -> String {
    let shape = b"dddd-dd-dd dd:dd:dd";
    let bytes = line.as_bytes();
    let mut out = String::new();
    let mut at = 0;
    while at < bytes.len() {
        let matches = bytes.len() - at >= shape.len()
            && shape.iter().zip(&bytes[at..]).all(|(s, b)| if *s == b'd' { b.is_ascii_digit() } else { s == b });
        if matches {
            out.push_str("TIME");
            at += shape.len();
            if bytes.get(at) == Some(&b',') {
                at += 4;
            }
        } else {
            let next = (at + 1..=bytes.len()).find(|end| line.is_char_boundary(*end)).unwrap_or(bytes.len());
            out.push_str(&line[at..next]);
            at = next;
        }
    }
    out
}

#[track_caller]
fn compare(names: &Names, recorded: &Output, live: &Output) {
    let command = &recorded.command;
    assert_eq!(names.plain(&live.stdout), names.plain(&recorded.stdout), "output of {command}\n{}", live.stderr);
    assert_eq!(names.plain(&live.stderr), names.plain(&recorded.stderr), "errors of {command}");
}

/// Runs recorded commands and compares all of their output.
#[track_caller]
fn run_and_compare(names: &Names, recorded: &[Output]) {
    for (recorded, live) in recorded.iter().zip(run(names, recorded)) {
        compare(names, recorded, &live);
    }
}

fn run(names: &Names, recorded: &[Output]) -> Vec<Output> {
    let commands: Vec<Vec<String>> = recorded.iter().map(|output| names.live(&output.command)).collect();
    let words: Vec<Vec<&str>> = commands.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let slices: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
    Admin::new(&names.namesrv).run(&slices)
}

fn servers() -> (Servers, Names) {
    let servers = Servers::start(&BrokerOptions::new("broker-a").set("traceTopicEnable", "true"));
    let names = Names::of(&servers);
    (servers, names)
}

fn create_topic(names: &Names) {
    let create: &[&str] = &["updateTopic", "-b", &names.broker, "-t", TOPIC, "-r", "4", "-w", "4"];
    let output = Admin::new(&names.namesrv).run(&[create]);
    assert!(output[0].stdout.contains("success"), "{output:?}");
}

/// Sends as the recorded producer did: one message into queue `queue`.
fn send(connection: &mut Connection, queue: i32, number: i32) {
    let key = format!("7F00000152214E0E2F2A93D6C709{number:04X}");
    let properties = format!(
        "KEYS\u{1}SK{number} SK\u{2}UNIQ_KEY\u{1}{key}\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}a\u{1}{number}\u{2}"
    );
    let request = Frame::request(SEND_MESSAGE)
        .field("producerGroup", "PG_cli")
        .field("topic", TOPIC)
        .field("defaultTopic", "TBW102")
        .field("defaultTopicQueueNums", 4)
        .field("queueId", queue)
        .field("sysFlag", 0)
        .field("bornTimestamp", 1_795_971_526_409_i64)
        .field("flag", 0)
        .field("properties", properties)
        .field("reconsumeTimes", 0)
        .field("unitMode", false)
        .field("batch", false)
        .body(format!("body {number}"));
    let answer = connection.call(&request);
    assert_eq!(answer.code, 0, "{answer:?}");
}

/// A consumer that comes, commits offset 2 of every queue, and goes.
fn consume_two_of_each(names: &Names) {
    let mut connection = Connection::open(&names.broker);
    let heartbeat = format!(
        r#"{{"clientID":"127.0.0.1@cli","consumerDataSet":[{{"groupName":"{GROUP}","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",
        "consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{{"classFilterMode":false,"topic":"{TOPIC}","subString":"*",
        "tagsSet":[],"codeSet":[],"subVersion":1,"expressionType":"TAG"}}],"unitMode":false}}],"producerDataSet":[]}}"#
    );
    let answer = connection.call(&Frame::request(HEART_BEAT).body(heartbeat));
    assert_eq!(answer.code, 0, "{answer:?}");
    for queue in 0..4 {
        let commit = Frame::request(UPDATE_CONSUMER_OFFSET)
            .field("consumerGroup", GROUP)
            .field("topic", TOPIC)
            .field("queueId", queue)
            .field("commitOffset", 2);
        let answer = connection.call(&commit);
        assert_eq!(answer.code, 0, "{answer:?}");
    }
}

#[test]
fn topics_are_created_and_shown() {
    let (servers, names) = servers();
    // Not played: a broker that nobody listens for (its text depends on the system), and the one without arguments (it ends the JVM).
    let updates: Vec<Output> = golden("updateTopic")
        .into_iter()
        .filter(|output| output.command.contains(" -t ") && !output.command.contains("10799"))
        .collect();
    assert_eq!(updates.len(), 9);
    run_and_compare(&names, &updates);
    create_topic(&names);
    run_and_compare(
        &names,
        &[
            block("topicRoute", "-t WireTopic"),
            block("topicRoute", "-t WireTopic -l"),
            block("topicRoute", "-t NoSuchTopic"),
            block("topicRoute", "-t CliOrder"),
            block("topicStatus", "-t CliTopic"),
            block("topicStatus", "-t NoSuchTopic"),
        ],
    );
    let mut connection = Connection::open(&names.broker);
    for (number, queue) in [0, 1, 2, 3, 0, 1, 2, 3, 0].into_iter().enumerate() {
        send(&mut connection, queue, number as i32);
    }
    run_and_compare(&names, &[block("topicStatus", "-t WireTopic")]);
    servers.stop();
}

#[test]
fn consumers_and_single_messages_are_shown() {
    let (servers, names) = servers();
    create_topic(&names);
    let mut connection = Connection::open(&names.broker);
    for (number, queue) in [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 3].into_iter().enumerate() {
        send(&mut connection, queue, number as i32);
    }
    consume_two_of_each(&names);
    run_and_compare(
        &names,
        &[
            golden("consumerProgress").into_iter().nth(4).expect("the fifth block"),
            block("consumerProgress", "-g CG_none"),
            block("queryMsgById", "-i 7F000001000029D700000000000FFFFF -t WireTopic"),
            block("queryMsgById", "-i zz -t WireTopic"),
        ],
    );
    // The recorded servers had two more groups: without their rows the answers are the same.
    let all = [
        golden("consumerProgress").into_iter().next().expect("the first block"),
        block("queryMsgById", "-i 7F000001000029D70000000000000000 -t WireTopic"),
    ];
    for (mut recorded, live) in all.iter().cloned().zip(run(&names, &all)) {
        let others = ["CG_alive", "CG_fail", "TOOLS_CONSUMER"];
        let kept: Vec<&str> =
            recorded.stdout.lines().filter(|line| !others.iter().any(|other| line.contains(other))).collect();
        recorded.stdout = kept.join("\n");
        compare(&names, &recorded, &live);
    }
    servers.stop();
}

fn create_groups(names: &Names, groups: &[&str]) {
    let words: Vec<Vec<&str>> =
        groups.iter().map(|group| vec!["updateSubGroup", "-b", names.broker.as_str(), "-g", *group]).collect();
    let commands: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
    for output in Admin::new(&names.namesrv).run(&commands) {
        assert!(output.stdout.contains("success"), "{output:?}");
    }
}

#[test]
fn consumers_are_moved() {
    let (servers, names) = servers();
    create_topic(&names);
    let mut connection = Connection::open(&names.broker);
    for (number, queue) in [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 3].into_iter().enumerate() {
        send(&mut connection, queue, number as i32);
    }
    consume_two_of_each(&names);
    create_groups(&names, &["CG_alive"]);
    let clones = golden("cloneGroupOffset");
    run_and_compare(&names, &clones[..2]);
    create_groups(&names, &["CG_clone"]);
    run_and_compare(&names, &clones[2..]);
    // The time of `-s now` is in the text of the third block.
    let resets = golden("resetOffsetByTime").into_iter().filter(|block| !block.command.contains("-s now -b"));
    run_and_compare(&names, &resets.collect::<Vec<_>>());
    run_and_compare(&names, &golden("skipAccumulatedMessage"));
    run_and_compare(&names, &[block("consumerStatus", "-g CG_none")]);
    servers.stop();
}

#[test]
fn the_cluster_and_its_topics_are_listed() {
    let (servers, names) = servers();
    create_topic(&names);
    let admin = Admin::new(&names.namesrv);
    let lists = admin.run(&[&["topicList"], &["topicList", "-c"], &["clusterList"], &["clusterList", "-m"]]);
    let user = ["Wire", "Cli", "%RETRY%", "%DLQ%"];
    let system = |text: &str| -> BTreeSet<String> {
        text.lines().filter(|line| !user.iter().any(|prefix| line.starts_with(prefix))).map(str::to_owned).collect()
    };
    assert_eq!(system(&lists[0].stdout), system(&golden("topicList")[0].stdout), "topics of the system");
    assert!(lists[0].stdout.lines().any(|line| line == TOPIC), "{}", lists[0].stdout);

    let row = lists[1].rows().into_iter().find(|row| row.get(1) == Some(&TOPIC)).map(|row| row.join(" "));
    assert_eq!(row.as_deref(), Some("DefaultCluster WireTopic"));
    assert_eq!(lists[1].stdout.lines().next(), golden("topicList")[1].stdout.lines().next(), "heading of topicList -c");

    for (live, recorded) in lists[2..].iter().zip(golden("clusterList")) {
        let (live_rows, recorded_rows) = (live.rows(), recorded.rows());
        assert_eq!(live_rows[0], recorded_rows[0], "heading of {}", live.command);
        assert_eq!(live_rows.len(), 2, "{}", live.stdout);
        assert_eq!(live_rows[1].len(), recorded_rows[1].len(), "columns of {}\n{}", live.command, live.stdout);
        assert_eq!(live_rows[1][..2], recorded_rows[1][..2], "cluster and broker");
    }
    let row = &lists[2].rows()[1];
    assert_eq!(row[2..5], ["0", names.broker.as_str(), "V5_5_0"], "id, address, version");
    assert_eq!(row.last(), Some(&"true"), "activated");
    run_and_compare(&names, &[block("clusterList", "-c NoSuchCluster")]);
    servers.stop();
}
