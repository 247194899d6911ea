//! All commands of Java's mqadmin (5.5.0) against our servers, compared with what they printed against Java's.
//!
//! `golden/mqadmin/commands.txt` says which, and how they are compared; the recorded outputs stand beside it.
//! `COMPAT_SERVER=java` runs them against the Java servers, with `MQADMIN_RECORD=1` the outputs are recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use compat_tests::harness::process::Process;
use compat_tests::harness::{
    BrokerOptions, Connection, Frame, Output, Scratch, Servers, Whose, admin, maven, ports, until,
};
use compat_tests::mqadmin::{Run, Table, counted, directory};

const SEND_MESSAGE: i32 = 10;
const UPDATE_CONSUMER_OFFSET: i32 = 15;
const UPDATE_AND_CREATE_TOPIC: i32 = 17;
const HEART_BEAT: i32 = 34;
const GET_ROUTEINFO_BY_TOPIC: i32 = 105;
const TOPIC: &str = "WireTopic";
const MESSAGES: i32 = 8;
/// All commands, and the programs around them, on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

const TOPICS: &str = r#"[
    {"topicName": "CliList1", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6},
    {"topicName": "CliList2", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
]"#;
const GROUPS: &str = r#"[{"groupName": "CliGList1"}, {"groupName": "CliGList2", "retryMaxTimes": 3}]"#;

/// Topics, messages and offsets that the commands ask about.
fn prepare(servers: &Servers) {
    let mut connection = Connection::open(&servers.broker());
    let mut call = |request: &Frame| {
        let answer = connection.call(request);
        assert_eq!(answer.code, 0, "{answer:?}");
    };
    for (topic, queues, perm) in [(TOPIC, 4, 6), ("WireRO", 1, 4), ("WireOrder", 4, 6)] {
        let create = Frame::request(UPDATE_AND_CREATE_TOPIC)
            .field("topic", topic)
            .field("defaultTopic", "TBW102")
            .field("readQueueNums", queues)
            .field("writeQueueNums", queues)
            .field("perm", perm)
            .field("topicFilterType", "SINGLE_TAG")
            .field("topicSysFlag", 0)
            .field("order", false);
        call(&create);
    }
    for number in 0..MESSAGES {
        let tag = if number % 2 == 0 { "TagA" } else { "TagB" };
        let key = format!("7F00000152214E0E2F2A93D6C709{number:04X}");
        let properties = format!(
            "KEYS\u{1}SK{number} SK\u{2}UNIQ_KEY\u{1}{key}\u{2}WAIT\u{1}true\u{2}TAGS\u{1}{tag}\u{2}a\u{1}{number}\u{2}"
        );
        let send = Frame::request(SEND_MESSAGE)
            .field("producerGroup", "PG_cli")
            .field("topic", TOPIC)
            .field("defaultTopic", "TBW102")
            .field("defaultTopicQueueNums", 4)
            .field("queueId", number % 4)
            .field("sysFlag", 0)
            .field("bornTimestamp", 1_795_971_526_409_i64)
            .field("flag", 0)
            .field("properties", properties)
            .field("reconsumeTimes", 0)
            .field("unitMode", false)
            .field("batch", false)
            .body(format!("sync {number}"));
        call(&send);
    }
    // Consumers that come and go: the groups get their retry topics.
    for group in ["CG_cli", "CG_alive"] {
        let heartbeat = format!(
            r#"{{"clientID":"127.0.0.1@cli","consumerDataSet":[{{"groupName":"{group}","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",
        "consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{{"classFilterMode":false,"topic":"{TOPIC}","subString":"*",
        "tagsSet":[],"codeSet":[],"subVersion":1,"expressionType":"TAG"}}],"unitMode":false}}],"producerDataSet":[]}}"#
        );
        call(&Frame::request(HEART_BEAT).body(heartbeat));
    }
    for queue in 0..4 {
        let commit = Frame::request(UPDATE_CONSUMER_OFFSET)
            .field("consumerGroup", "CG_cli")
            .field("topic", TOPIC)
            .field("queueId", queue)
            .field("commitOffset", 1);
        call(&commit);
    }
    // A consumer that does not find a topic looks again 20 s later.
    let mut namesrv = Connection::open(&servers.namesrv());
    for topic in [TOPIC, "WireOrder", "%RETRY%CG_alive"] {
        let query = Frame::request(GET_ROUTEINFO_BY_TOPIC).field("topic", topic);
        until(topic, Duration::from_secs(30), || namesrv.call(&query).code == 0);
    }
}

/// Runs lines in one Java process.
fn run(servers: &Servers, lines: &[String]) -> Vec<Output> {
    let scratch = Scratch::new();
    std::fs::write(scratch.join("topics.json"), TOPICS).expect("a file");
    std::fs::write(scratch.join("groups.json"), GROUPS).expect("a file");
    let script = scratch.join("commands");
    std::fs::write(&script, lines.join("\n")).expect("a script");
    let closed = format!("127.0.0.1:{}", ports::broker_port());
    let mut command = Command::new("java");
    command.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    command.arg(format!("-Duser.home={}", scratch.path().display()));
    command.args(["-cp", &maven::scenarios("5.5.0"), "compat.Mqadmin"]).arg(script);
    command.args([&servers.namesrv(), &servers.broker(), &closed, TOPIC, &MESSAGES.to_string()]);
    command.current_dir(scratch.path());
    let mut process = Process::start("mqadmin", command, &scratch.join("mqadmin.log"));
    let status = process.wait(LIMIT);
    let log = process.log();
    assert_eq!(status.code(), Some(0), "the exit code\n{log}");
    let outputs = admin::parse(&log);
    assert_eq!(outputs.len(), lines.len(), "outputs\n{log}");
    outputs
}

fn name(run: &Run) -> &str {
    run.command().unwrap_or("files")
}

fn record(runs: &[Run], outputs: &[Output]) {
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for (run, output) in runs.iter().zip(outputs) {
        let Output { command, stdout, stderr } = output;
        let block = format!("$ mqadmin {command}\n[stdout]\n{stdout}[stderr]\n{stderr}[end]\n\n");
        files.entry(name(run)).or_default().push_str(&block);
    }
    for (name, text) in files {
        std::fs::write(directory().join(format!("{name}.txt")), text.trim_end().to_owned() + "\n").expect("a file");
    }
}

/// Recorded outputs of a command, in order.
fn recorded(name: &str) -> Vec<Output> {
    let path = directory().join(format!("{name}.txt"));
    admin::parse(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

#[test]
fn all_commands() {
    let table = Table::load();
    let servers = Servers::start(&BrokerOptions::new("broker-a").set("traceTopicEnable", "true"));
    prepare(&servers);
    let lines: Vec<String> = table.runs.iter().map(Run::line).chain(["!help".to_owned()]).collect();
    let mut outputs = run(&servers, &lines);
    servers.stop();
    let help = outputs.pop().expect("the list of commands");
    if std::env::var_os("MQADMIN_RECORD").is_some() {
        assert_eq!(Whose::chosen(), Whose::Java, "only what Java says is recorded");
        return record(&table.runs, &outputs);
    }
    every_command_is_in_the_table(&table, &help);
    let mut golden: BTreeMap<&str, std::vec::IntoIter<Output>> = BTreeMap::new();
    let mut different = Vec::new();
    for (run, output) in table.runs.iter().zip(&outputs) {
        let expected = golden.entry(name(run)).or_insert_with(|| recorded(name(run)).into_iter()).next();
        let expected = expected.filter(|expected| expected.command == output.command);
        let expected = expected.unwrap_or_else(|| panic!("{} is not recorded", output.command));
        let (expected, found) = (counted(run.mode, &expected), counted(run.mode, output));
        if expected != found {
            let (expected, found) = (expected.join("\n  "), found.join("\n  "));
            different.push(format!("== {}\n- Java\n  {expected}\n- ours\n  {found}", output.command));
        }
    }
    assert!(different.is_empty(), "{} commands\n{}", different.len(), different.join("\n"));
}

fn every_command_is_in_the_table(table: &Table, help: &Output) {
    // `   updateTopic             Update or create topic.`
    let listed: BTreeSet<&str> = help
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let known: BTreeSet<&str> = table.claims.keys().map(String::as_str).collect();
    assert_eq!(listed, known, "the commands of mqadmin and those of the table\n{}", help.stdout);
    for (name, claim) in &table.claims {
        let compared = table.runs.iter().any(|run| run.command() == Some(name) && !run.mode.not);
        let local = claim.remark.starts_with("works on local files");
        assert!(compared || local || claim.status == "later", "{name} is never run");
    }
}

#[test]
fn the_page_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/mqadmin.md");
    let page = Table::load().page();
    if std::env::var_os("MQADMIN_PAGE").is_some() {
        std::fs::write(&path, &page).expect("the page");
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap_or_default(),
        page,
        "see the page's head for how to write it anew"
    );
}
