//! The recorded wire sessions of the Java broker, played at the real binaries and compared frame by frame.
//!
//! What differs is in `replay-ledger.txt`, a reason a line. `REPLAY_REPORT=FILE` writes every difference to a file,
//! `REPLAY_AREAS=A,B` plays only those areas.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use compat_tests::harness::{BrokerOptions, Servers, Whose};
use compat_tests::replay::compare::Difference;
use compat_tests::replay::order::put_in_order;
use compat_tests::replay::{
    Addresses, Arranger, Contents, Ledger, Memory, Preparation, Replay, Session, Surroundings, Target, Verdict,
    catch_up, levels, load_area,
};

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
    /// Frames by area: equal, allowed, different.
    areas: BTreeMap<String, [u64; 3]>,
}

fn golden(area: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/wire").join(area)
}

#[test]
fn recorded_sessions_are_answered_as_java_answers() {
    let ledger = Ledger::parse(include_str!("../../replay-ledger.txt"));
    let areas = [
        ("clients-5.5.0", "JSON"),
        ("clients-5.3.3", "JSON"),
        ("clients-4.9.8", "JSON"),
        ("clients-5.5.0-rocketmq-serialize", "JSON"),
        ("clients-5.5.0-json-to-rocketmq-server", "ROCKETMQ"),
        ("clients-5.5.0-rocketmq-both-sides", "ROCKETMQ"),
        ("mqadmin", "JSON"),
        ("admin-api-5.5.0", "JSON"),
    ];
    let only = std::env::var("REPLAY_AREAS").unwrap_or_default();
    // All groups are read: what one of them does not show of a queue, another of the same broker does.
    let contents: Vec<Contents> =
        areas.iter().flat_map(|(area, _)| load_area(&golden(area))).map(|g| Contents::of(&g)).collect();
    let wanted = |area: &str| only.is_empty() || only.split(',').any(|only| only == area);
    let groups: Vec<(&str, &str, Vec<Session>)> = areas
        .iter()
        .filter(|(area, _)| wanted(area))
        .flat_map(|(area, layout)| load_area(&golden(area)).into_iter().map(move |group| (*area, *layout, group)))
        // One client that lived for seven minutes beside the recording of mqadmin: its frames depend on those.
        .filter(|(.., group)| group.iter().all(|session| session.name != "alive"))
        .collect();
    // Nearly all of the time is the recorded servers' own waiting: the groups are played at once.
    let mut verdicts: Vec<(String, Verdict)> = std::thread::scope(|scope| {
        let play = |(area, layout, group)| {
            let (contents, ledger) = (&contents, &ledger);
            scope.spawn(move || play_clients(area, layout, group, contents, ledger))
        };
        let threads: Vec<_> = groups.into_iter().map(play).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a replay")).collect()
    });
    if wanted("registration") {
        verdicts.extend(play_registration(&ledger));
    }
    exchange_replies(&mut verdicts);
    let mut count = Count::default();
    for (place, verdict) in &verdicts {
        let area = place.split('/').next().unwrap_or_default();
        let [equal, allowed, different] = count.areas.entry(area.to_owned()).or_default();
        if verdict.differences.is_empty() {
            count.equal += 1;
            *equal += 1;
            continue;
        }
        let unknown: Vec<_> =
            verdict.differences.iter().filter(|found| !ledger.allows(place, &verdict.request, &found.kind)).collect();
        if unknown.is_empty() {
            count.allowed += 1;
            *allowed += 1;
        } else {
            *different += 1;
        }
        for found in unknown {
            count.different.push(format!("{place} {} {}  {}", verdict.request, found.kind, found.what));
        }
    }
    if let Ok(path) = std::env::var("REPLAY_REPORT") {
        std::fs::write(path, count.different.join("\n")).expect("the report");
    }
    for (area, [equal, allowed, different]) in &count.areas {
        println!("{area}: {equal} equal, {allowed} allowed, {different} different");
    }
    println!("frames: {} equal, {} allowed, {} different", count.equal, count.allowed, count.different.len());
    let whole = only.is_empty();
    assert!(!whole || count.equal > 2000, "the recording has thousands of frames");
    let shown: Vec<_> = count.different.iter().take(60).cloned().collect();
    assert!(count.different.is_empty(), "{} differences, the first:\n{}", count.different.len(), shown.join("\n"));
    let complete = whole && Whose::chosen() == Whose::Ours;
    assert!(
        !complete || ledger.unused().is_empty(),
        "lines of the ledger that allow nothing:\n{}",
        ledger.unused().join("\n")
    );
}

fn play_clients(
    area: &str,
    layout: &str,
    mut group: Vec<Session>,
    all: &[Contents],
    ledger: &Ledger,
) -> Vec<(String, Verdict)> {
    let mut contents = Contents::of(&group);
    for other in all {
        if contents.agrees(other) {
            contents.merge(other);
        }
    }
    group.iter_mut().for_each(put_in_order);
    let options = BrokerOptions::new("broker-a").serialize(layout).settings(RECORDED);
    let servers = Servers::start(&options);
    let broker = Arranger::new(&servers.broker());
    Preparation::of(&group).apply(&broker);
    let mut replay = Replay { target: target(&servers), ledger, memory: Memory::default(), surroundings: None };
    let mut verdicts = Vec::new();
    for session in &group {
        catch_up(&levels(session, &contents), &contents, &broker, &mut replay.memory);
        let place = format!("{area}/{}", session.name);
        verdicts.extend(replay.play(&place, session).into_iter().map(|verdict| (place.clone(), verdict)));
    }
    drop(broker);
    servers.stop();
    verdicts
}

fn target(servers: &Servers) -> Target {
    let pairs = vec![(NAMESRV.to_owned(), servers.namesrv()), (BROKER.to_owned(), servers.broker())];
    Target { namesrv: servers.namesrv(), broker: servers.broker(), addresses: Addresses { pairs } }
}

fn play_registration(ledger: &Ledger) -> Vec<(String, Verdict)> {
    let mut verdicts = Vec::new();
    for session in load_area(&golden("registration")).into_iter().flatten() {
        let layout = if session.name == "rocketmq_serialize" { "ROCKETMQ" } else { "JSON" };
        let servers = Servers::start_namesrv(layout, &[]);
        let addresses = Addresses { pairs: vec![(NAMESRV.to_owned(), servers.namesrv())] };
        let target = Target { namesrv: servers.namesrv(), broker: String::new(), addresses };
        let surroundings = Some(Surroundings::of(&session, &servers.namesrv()));
        let mut replay = Replay { target, ledger, memory: Memory::default(), surroundings };
        let place = format!("registration/{}", session.name);
        verdicts.extend(replay.play(&place, &session).into_iter().map(|verdict| (place.clone(), verdict)));
        drop(replay);
        servers.stop();
    }
    verdicts
}

/// A reply is stored when the client that asked has taken it. Of several that are under way at once the last may be the
/// first: their answers may have each other's offsets.
fn exchange_replies(verdicts: &mut [(String, Verdict)]) {
    let is_offset = |verdict: &Verdict| {
        verdict.request == "SEND_REPLY_MESSAGE_V2" && verdict.differences.iter().all(|d| d.kind == "field:queueOffset")
    };
    let mut offsets = BTreeMap::<String, [Vec<String>; 2]>::new();
    for (place, verdict) in verdicts.iter().filter(|(_, verdict)| is_offset(verdict)) {
        for difference in &verdict.differences {
            let [recorded, got] = offsets.entry(place.clone()).or_default();
            let (before, now) = difference.what.split_once(", got ").unwrap_or((&difference.what, ""));
            recorded.push(before.trim_start_matches("recorded ").to_owned());
            got.push(now.to_owned());
        }
    }
    for [recorded, got] in offsets.values_mut() {
        recorded.sort();
        got.sort();
    }
    let exchanged = |place: &String| offsets.get(place).is_some_and(|[recorded, got]| recorded == got);
    for (_, verdict) in verdicts.iter_mut().filter(|(place, verdict)| is_offset(verdict) && exchanged(place)) {
        verdict.differences.clear();
    }
}

#[test]
fn only_offsets_that_were_exchanged_are_equal() {
    let verdict = |request: &str, what: &str| {
        let difference = Difference { kind: "field:queueOffset".into(), what: what.into() };
        ("a/b".to_owned(), Verdict { request: request.into(), differences: vec![difference] })
    };
    let count = |verdicts: &mut [(String, Verdict)]| {
        exchange_replies(verdicts);
        verdicts.iter().filter(|(_, verdict)| !verdict.differences.is_empty()).count()
    };
    let (one, other) = (r#"recorded "2", got "3""#, r#"recorded "3", got "2""#);
    let reply = "SEND_REPLY_MESSAGE_V2";
    assert_eq!(count(&mut [verdict(reply, one), verdict(reply, other)]), 0);
    assert_eq!(count(&mut [verdict(reply, one), verdict(reply, one)]), 2);
    assert_eq!(count(&mut [verdict(reply, one)]), 1);
    assert_eq!(count(&mut [verdict("SEND_MESSAGE_V2", one), verdict("SEND_MESSAGE_V2", other)]), 2);
}
