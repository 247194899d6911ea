//! The recorded wire sessions of the Java broker, played at the real binaries and compared frame by frame.
//!
//! What differs is in `replay-ledger.txt`, a reason a line. `REPLAY_REPORT=FILE` writes every difference to a file,
//! `REPLAY_AREAS=A,B` plays only those areas.

use std::path::{Path, PathBuf};

use compat_tests::harness::{BrokerOptions, Servers};
use compat_tests::replay::{Addresses, Ledger, Memory, Preparation, Target, Verdict, load_area, play};

/// Addresses of the recording.
const NAMESRV: &str = "127.0.0.1:9976";
const BROKER: &str = "127.0.0.1:10711";

/// The configuration of the recorded broker, as far as it bears on what clients see.
const RECORDED: &[(&str, &str)] = &[
    ("enablePropertyFilter", "true"),
    ("recallMessageEnable", "true"),
    ("transactionCheckInterval", "5000"),
    ("transactionTimeOut", "3000"),
    ("traceTopicEnable", "true"),
    ("mappedFileSizeCommitLog", "4194304"),
    ("mappedFileSizeConsumeQueue", "6000"),
    ("maxHashSlotNum", "1000"),
    ("maxIndexNum", "4000"),
];

#[derive(Default)]
struct Count {
    equal: u64,
    allowed: u64,
    different: Vec<String>,
}

fn golden(area: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/wire").join(area)
}

#[test]
fn recorded_sessions_are_answered_as_java_answers() {
    let ledger_text = include_str!("../replay-ledger.txt");
    let areas = [
        ("clients-5.5.0", "JSON"),
        ("clients-5.3.3", "JSON"),
        ("clients-4.9.8", "JSON"),
        ("clients-5.5.0-rocketmq-serialize", "JSON"),
        ("clients-5.5.0-json-to-rocketmq-server", "ROCKETMQ"),
        ("clients-5.5.0-rocketmq-both-sides", "ROCKETMQ"),
    ];
    let only = std::env::var("REPLAY_AREAS").unwrap_or_default();
    let areas: Vec<_> = areas.into_iter().filter(|(area, _)| only.is_empty() || only.split(',').any(|o| o == *area)).collect();
    // Nearly all of the time is the recorded servers' own waiting: the areas are played at once.
    let mut verdicts: Vec<(String, Verdict)> = std::thread::scope(|scope| {
        let threads: Vec<_> = areas.iter().map(|(area, layout)| scope.spawn(|| play_clients(area, layout))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a replay")).collect()
    });
    if only.is_empty() || only.contains("registration") {
        verdicts.extend(play_registration());
    }
    let ledger = Ledger::parse(ledger_text);
    let mut count = Count::default();
    for (place, verdict) in &verdicts {
        if verdict.differences.is_empty() {
            count.equal += 1;
            continue;
        }
        let unknown: Vec<_> =
            verdict.differences.iter().filter(|found| !ledger.allows(place, &verdict.request, &found.kind)).collect();
        if unknown.is_empty() {
            count.allowed += 1;
        }
        for found in unknown {
            count.different.push(format!("{place} {} {}  {}", verdict.request, found.kind, found.what));
        }
    }
    if let Ok(path) = std::env::var("REPLAY_REPORT") {
        std::fs::write(path, count.different.join("\n")).expect("the report");
    }
    println!("frames: {} equal, {} allowed, {} different", count.equal, count.allowed, count.different.len());
    assert!(count.equal > 1000, "the recording has thousands of frames");
    let shown: Vec<_> = count.different.iter().take(60).cloned().collect();
    assert!(count.different.is_empty(), "{} differences, the first:\n{}", count.different.len(), shown.join("\n"));
    assert!(ledger.unused().is_empty(), "lines of the ledger that allow nothing:\n{}", ledger.unused().join("\n"));
}

fn play_clients(area: &str, layout: &str) -> Vec<(String, Verdict)> {
    let mut verdicts = Vec::new();
    for sessions in load_area(&golden(area)) {
        // One client that lived for seven minutes beside the recording of mqadmin: its frames depend on those.
        if sessions.iter().any(|session| session.name == "alive") {
            continue;
        }
        let options = BrokerOptions::new("broker-a").serialize(layout).settings(RECORDED);
        let servers = Servers::start(&options);
        Preparation::of(&sessions).apply(&servers.broker());
        let target = target(&servers);
        let mut memory = Memory::default();
        for session in &sessions {
            let place = format!("{area}/{}", session.name);
            let played = play(session, &target, &mut memory);
            verdicts.extend(played.into_iter().map(|verdict| (place.clone(), verdict)));
        }
        servers.stop();
    }
    verdicts
}

fn target(servers: &Servers) -> Target {
    let pairs = vec![(NAMESRV.to_owned(), servers.namesrv()), (BROKER.to_owned(), servers.broker())];
    Target { namesrv: servers.namesrv(), broker: servers.broker(), addresses: Addresses { pairs } }
}

fn play_registration() -> Vec<(String, Verdict)> {
    let mut verdicts = Vec::new();
    for session in load_area(&golden("registration")).into_iter().flatten() {
        let layout = if session.name == "rocketmq_serialize" { "ROCKETMQ" } else { "JSON" };
        let servers = Servers::start_namesrv(layout, &[]);
        let target = Target { broker: String::new(), ..target(&servers) };
        let place = format!("registration/{}", session.name);
        let played = play(&session, &target, &mut Memory::default());
        verdicts.extend(played.into_iter().map(|verdict| (place.clone(), verdict)));
        servers.stop();
    }
    verdicts
}
