//! The same for compaction topics: the steps of appending to a compacted log, compacting it, replacing its files, bringing
//! it in line with the log at a start, and deleting it. Of each key the last message is there, every offset leads to its
//! message, the files are as Java wants them, and nothing that an interrupted step left stays.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use store::Store;
use store::failpoint::{self, Action, Plan, Point};
use store::record::RecordView;

use crate::compaction_support::checks::{
    CONF, check_names, check_offsets, check_parts, check_reads, logged, names, next, read,
};
use crate::compaction_support::{COMPACTED, Message, try_send};
use crate::faults_support::{Dir, open_at};
use crate::load_support::Random;
use crate::{env_number, plan_of_env, plans, seed};

const KEYS: i64 = 7;
const TOPIC: &str = "C";
/// Has no key twice, and is deleted.
const GONE: &str = "Gone";
const QUEUES: [(&str, i32); 3] = [(TOPIC, 0), (TOPIC, 1), (GONE, 0)];

/// Steps that other files have, too.
const SHARED: [Point; 9] = [
    Point::FileSize,
    Point::FileReserve,
    Point::AppendHalf,
    Point::JsonWrite,
    Point::JsonHalf,
    Point::JsonSync,
    Point::JsonBackup,
    Point::JsonReplace,
    Point::JsonDir,
];

fn declare(store: &Store) -> Result<(), store::StoreError> {
    [TOPIC, GONE].into_iter().try_for_each(|topic| store.set_topic_policy(topic, COMPACTED))
}

/// Sends `count` messages to a queue. Every ninth deletes its key.
fn send(store: &Store, topic: &str, id: i32, count: usize, report: &dyn Fn(&str)) {
    for _ in 0..count {
        let number = next(store, topic, id);
        let key = if topic == GONE { format!("only{number}") } else { format!("key{}", number % KEYS) };
        let body = if topic != GONE && number % 9 == 4 { String::new() } else { format!("body-{number}") };
        if let Ok(offset) = try_send(store, topic, id, &key, &body) {
            report(&format!("A {topic} {id} {offset} {key} {body}\n"));
        }
    }
}

/// The process that may end. Does nothing in the ordinary run of all tests.
#[test]
fn the_other_process_that_compacts() {
    let Ok(root) = std::env::var("COMPACTION_ROOT") else { return };
    let root = Path::new(&root);
    failpoint::arm(plan_of_env());
    let file = OpenOptions::new().create(true).append(true).open(lines_file(root)).unwrap();
    let report = |line: &str| (&file).write_all(line.as_bytes()).unwrap();
    if let Ok(store) = open_at(root, &std::env::var("FAILPOINT_CONF").unwrap()) {
        if declare(&store).is_ok() {
            work(&store, &report);
        }
        store.close();
    }
    for point in Point::ALL {
        report(&format!("C {} {}\n", point.name(), failpoint::hits(*point)));
    }
}

fn work(store: &Store, report: &dyn Fn(&str)) {
    store.compact_now();
    for round in 0..3 {
        QUEUES[..2].iter().for_each(|(topic, id)| send(store, topic, *id, 14, report));
        // Tried again by whoever comes next.
        let _ = store.sync_all();
        check_reads(&format!("round {round}, before"), store, &QUEUES);
        store.compact_now();
        check_reads(&format!("round {round}"), store, &QUEUES);
    }
    store.compact_now();
    check_reads("at the end", store, &QUEUES);
    store.delete_topic(GONE);
    report("G\n");
}

fn lines_file(root: &Path) -> PathBuf {
    root.with_file_name("lines")
}

struct Case {
    plan: Option<Plan>,
    broken: bool,
}

impl Case {
    fn name(&self) -> String {
        let plan = self.plan.map_or("nothing".to_owned(), |plan| {
            format!("{}: {:?} after {} for {}", plan.point.name(), plan.action, plan.after, plan.times)
        });
        format!("{plan}, broken {}", self.broken)
    }
}

/// Lets the other process live in a directory; whether it was ended, and its lines.
fn live(what: &str, dir: &Dir, plan: Option<Plan>) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "compaction::the_other_process_that_compacts", "--nocapture"])
        .env("COMPACTION_ROOT", dir.root())
        .env("FAILPOINT_CONF", dir.conf())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if let Some(plan) = plan {
        crate::plan_to_env(&mut command, &plan);
    }
    let output = command.output().unwrap();
    let ended = output.status.signal() == Some(9);
    assert!(ended || output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    (ended, fs::read_to_string(lines_file(&dir.root())).unwrap_or_default())
}

/// Holds a store that the other process left against its lines and what was there before.
fn check_store(what: &str, dir: &Dir, lines: &str, before: &BTreeMap<(&str, i32), Vec<Message>>) {
    let mut known = before.clone();
    for line in lines.lines().filter_map(|line| line.strip_prefix("A ")) {
        let [topic, id, offset, key, body] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let queue = QUEUES.iter().find(|queue| queue.0 == topic && queue.1.to_string() == id).unwrap();
        known.get_mut(queue).unwrap().push((offset.parse().unwrap(), key.to_owned(), body.to_owned()));
    }
    let was_deleted = lines.lines().any(|line| line == "G");
    for life in 0..2 {
        let what = format!("{what}, life {life}");
        let store = dir.try_open().unwrap_or_else(|error| panic!("{what}: {error}"));
        // A broker knows of no settings of a topic that it has deleted.
        store.set_topic_policy(TOPIC, COMPACTED).unwrap_or_else(|error| panic!("{what}: {error}"));
        if !was_deleted && life == 0 {
            store.set_topic_policy(GONE, COMPACTED).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        let queues = if was_deleted || life > 0 { &QUEUES[..2] } else { &QUEUES };
        for (topic, id) in queues {
            let found = logged(&store, topic, *id);
            for message in &known[&(*topic, *id)] {
                assert_eq!(found.get(message.0 as usize), Some(message), "{what}: {topic} {id} is lost");
            }
        }
        check_reads(&what, &store, &QUEUES);
        check_offsets(&what, &store, &QUEUES);
        if life == 0 {
            QUEUES[..2].iter().for_each(|(topic, id)| {
                let offset = next(&store, topic, *id);
                send(&store, topic, *id, 12, &|_| {});
                assert_eq!(next(&store, topic, *id), offset + 12, "{what}");
                known.insert((topic, *id), logged(&store, topic, *id));
            });
            // Recovery may have made its queue again from the log.
            for topic in store.topics_with_files().iter().filter(|topic| ***topic == *GONE) {
                store.delete_topic(topic);
            }
            store.compact_now();
            check_reads(&what, &store, &QUEUES);
            check_offsets(&what, &store, &QUEUES);
        }
        check_names(&what, dir, &QUEUES);
        store.close();
        drop(store);
        check_parts(&what, dir, &QUEUES);
        let gone = |kind: &str| !dir.path("compaction").join(kind).join(GONE).exists();
        assert!(gone("compactionLog") && gone("compactionCq"), "{what}");
        let positions = fs::read_to_string(dir.path("compaction/position-checkpoint")).unwrap();
        assert!(positions.contains("C_0") && !positions.contains("Gone_"), "{what}: {positions}");
        // The log still has records of the deleted topic.
        let complaints = dir.complaints().unwrap_or_default();
        let others: Vec<_> = complaints.lines().filter(|line| !line.contains("(Gone 0 ")).collect();
        let sum = format!(" errors={}", complaints.lines().count() - others.len());
        assert!(complaints.is_empty() || others.len() == 1 && others[0].ends_with(&sum), "{what}: {others:?}");
    }
}

/// A store that was killed: one compaction, and another file to compact in each queue.
fn made() -> (Dir, BTreeMap<(&'static str, i32), Vec<Message>>) {
    let dir = Dir::new().with(CONF);
    let store = dir.open();
    declare(&store).unwrap();
    for count in [25, 12] {
        store.compact_now();
        QUEUES[..2].iter().for_each(|(topic, id)| send(&store, topic, *id, count, &|_| {}));
    }
    send(&store, GONE, 0, 12, &|_| {});
    let known = QUEUES.map(|(topic, id)| ((topic, id), logged(&store, topic, id))).into();
    (dir.copy(), known)
}

/// The same, killed again while files were replaced; and power failed, too: a queue file of one queue is gone, and in the
/// other a compacted message is not whole.
fn broken(base: &Dir) -> Dir {
    let dir = base.copy();
    let plan = Plan { point: Point::CompactPlanned, action: Action::End, after: 0, times: 1 };
    assert!(live("a base", &dir, Some(plan)).0);
    fs::remove_file(lines_file(&dir.root())).unwrap();
    let path = |kind: &str, id: &str| dir.path("compaction").join(kind).join(TOPIC).join(id);
    let staged = ["0", "1"].map(|id| path("compactionLog", id).join("compacting/replace.json").exists());
    let (with_plan, other) = if staged[0] { ("0", "1") } else { ("1", "0") };
    assert_eq!(staged.iter().filter(|staged| **staged).count(), 1);
    let last = names(&path("compactionCq", with_plan)).into_iter().rfind(|name| !name.ends_with('/')).unwrap();
    fs::remove_file(path("compactionCq", with_plan).join(last)).unwrap();
    let first = names(&path("compactionLog", other)).into_iter().next().unwrap();
    let first = path("compactionLog", other).join(first);
    let mut bytes = read(&first);
    let len = RecordView::parse(&bytes).unwrap().size();
    bytes[len + len / 2..2 * len].fill(0);
    File::create(&first).unwrap().write_all(&bytes).unwrap();
    dir
}

fn hits(lines: &str, point: Point) -> u64 {
    let name = format!("C {} ", point.name());
    lines.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0)
}

#[test]
fn every_step_of_a_compacted_log_is_the_last_or_fails() {
    let seed = seed();
    println!("FAILPOINT_SEED={seed}");
    let only = std::env::var("FAILPOINT_ONLY").ok();
    let mut random = Random(seed);
    let (plain, before) = made();
    let broken = broken(&plain);
    let bases = [&plain, &broken];
    let run = |case: &Case| {
        let what = case.name();
        let dir = bases[usize::from(case.broken)].copy();
        let (ended, lines) = live(&what, &dir, case.plan);
        check_store(&what, &dir, &lines, &before);
        (ended, lines)
    };
    let dry = [false, true].map(|broken| run(&Case { plan: None, broken }).1);
    let mut cases = Vec::new();
    let points = Point::ALL.iter().filter(|point| point.is_of_compaction() || SHARED.contains(point));
    for (at, point) in points.enumerate() {
        let counts = [0, 1].map(|base| hits(&dry[base], *point));
        assert!(counts.iter().any(|count| *count > 0), "no store reaches {point:?}");
        if only.as_ref().is_some_and(|only| only != point.name()) {
            continue;
        }
        for round in 0..env_number("FAILPOINT_ROUNDS").unwrap_or(1).max(1) {
            let turn = (at as u64 + round + seed) as usize % 2;
            let base = if counts[turn] > 0 { turn } else { 1 - turn };
            let plans = plans(*point, counts[base], &mut random);
            cases.extend(plans.into_iter().map(|plan| Case { plan: Some(plan), broken: base == 1 }));
        }
    }
    let (place, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        // They wait for the device most of the time.
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(case) = cases.get(place.fetch_add(1, Ordering::Relaxed)) {
                    ended.fetch_add(usize::from(run(case).0), Ordering::Relaxed);
                }
            });
        }
    });
    println!("{} cases, {} processes ended, lost 0", cases.len(), ended.into_inner());
}
