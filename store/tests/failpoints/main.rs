//! Every step of append, roll, flush, dispatch, persist, recovery and close is the last one of a process, or fails, under
//! load; then a new process recovers. Nothing acknowledged is lost, no offset is given twice, no queue has a gap, every
//! key leads to its message.
//!
//! The load runs in a process of its own, this program again. `FAILPOINT_ROUNDS=n` walks all points n times with both
//! flush modes; `FAILPOINT_SEED` and `FAILPOINT_ONLY` (the name of a point) repeat a case.

mod compaction;
#[path = "../compaction_support/mod.rs"]
mod compaction_support;
mod derived;
#[path = "../faults_support/mod.rs"]
mod faults_support;
#[path = "../load_support/mod.rs"]
mod load_support;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use faults_support::{Dir, Message, check, made, open_at};
use load_support::{Load, Random, Told, send_all, verify};
use store::Store;
use store::failpoint::{self, Action, Plan, Point};
use store::json_file::{JsonFile, Loaded};
use store::queue::limit_mapped_files;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
/// Everything is flushed often: each step comes up many times in a short load.
const QUICK: &str = "flushIntervalCommitLog=5\nflushCommitLogLeastPages=0\nflushIntervalConsumeQueue=15\n\
    flushConsumeQueueLeastPages=0\nflushConsumeQueueThoroughInterval=30\n";
const SYNC: &str = "flushDiskType=SYNC_FLUSH\n";
/// Index files that are made ahead.
const LARGE_INDEX: &str = "maxHashSlotNum=20000\nmaxIndexNum=100000\n";

/// More queues than may be mapped, flushed together at the end.
const WIDE: &str = "flushIntervalConsumeQueue=60000\n";

/// What kind of load there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Messages with hundreds of keys.
    LargeIndex,
    /// Hundreds of queues.
    Wide,
}

/// What the other process is to do, as text in its environment.
struct Case {
    plan: Option<Plan>,
    sync: bool,
    kind: Kind,
    seed: u64,
}

impl Case {
    fn name(&self) -> String {
        let plan = self.plan.map_or("nothing".to_owned(), |plan| {
            format!("{}: {:?} after {} for {}", plan.point.name(), plan.action, plan.after, plan.times)
        });
        format!("{plan}, {:?}, sync {}, seed {}", self.kind, self.sync, self.seed)
    }

    fn conf(&self) -> String {
        let kind = match self.kind {
            Kind::Plain => "",
            Kind::LargeIndex => LARGE_INDEX,
            Kind::Wide => WIDE,
        };
        format!("{QUICK}{}{kind}", if self.sync { SYNC } else { "" })
    }
}

/// Lines of the load and of the saves: in the page cache at once, so that the end of the process loses none.
fn lines_file(root: &Path) -> PathBuf {
    root.with_file_name("lines")
}

fn saved_file(root: &Path) -> PathBuf {
    root.join("config/saved.json")
}

/// The process that may end. Does nothing in the ordinary run of all tests.
#[test]
fn the_other_process() {
    let Ok(root) = std::env::var("FAILPOINT_ROOT") else { return };
    let root = Path::new(&root);
    let field = |name: &str| std::env::var(name).unwrap_or_default();
    failpoint::arm(plan_of_env());
    let file = OpenOptions::new().create(true).append(true).open(lines_file(root)).unwrap();
    let file = Mutex::new(file);
    let report = |line: &str| file.lock().unwrap().write_all(line.as_bytes()).unwrap();
    if let Ok(store) = open_at(root, &field("FAILPOINT_CONF")) {
        let stop = AtomicBool::new(false);
        let (large, wide) = (field("FAILPOINT_KIND") == "LargeIndex", field("FAILPOINT_KIND") == "Wide");
        if wide {
            limit_mapped_files(1);
        }
        let load = Load {
            name: "load",
            threads: 3,
            queues: if wide { 300 } else { 2 },
            count: if wide { 300 } else { 110 },
            more_keys: if large { 400 } else { 0 },
            padding: 0,
            sync: field("FAILPOINT_CONF").contains(SYNC),
            stop: &stop,
            report: &report,
        };
        std::thread::scope(|scope| {
            scope.spawn(|| save_all(&saved_file(root), &report));
            send_all(&store, &load, env_number("FAILPOINT_SEED").unwrap_or(0));
        });
        report(&format!("H {:?}\n", store.health()));
        afterwards(&store, &report);
        store.close();
    }
    for point in Point::ALL {
        report(&format!("C {} {}\n", point.name(), failpoint::hits(*point)));
    }
}

/// Saves texts one after the other: `S n` before, `T n` when it is on disk.
fn save_all(path: &Path, report: &dyn Fn(&str)) {
    let file = JsonFile::new(path);
    for number in 1..=8 {
        report(&format!("S {number}\n"));
        if file.save(&format!("{{\"number\":{number},\"pad\":\"{}\"}}", "x".repeat(3000))).is_ok() {
            report(&format!("T {number}\n"));
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// After a failed flush nothing is taken any more.
fn afterwards(store: &Store, report: &(dyn Fn(&str) + Sync)) {
    if store.health().flush_failed {
        let stop = AtomicBool::new(false);
        let load = Load {
            name: "late",
            threads: 1,
            queues: 1,
            count: 5,
            more_keys: 0,
            padding: 0,
            sync: false,
            stop: &stop,
            report,
        };
        send_all(store, &load, 1);
    }
}

/// What came of a case.
struct Outcome {
    ended: bool,
    told: Told,
    lines: String,
}

/// Runs a case on a copy of a store that was killed, and recovers.
fn run(case: &Case, base: &Dir, before: &[Message]) -> Outcome {
    let dir = base.copy().with(&case.conf());
    let what = case.name();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "the_other_process", "--nocapture"])
        .env("FAILPOINT_ROOT", dir.root())
        .env("FAILPOINT_CONF", dir.conf())
        .env("FAILPOINT_SEED", case.seed.to_string())
        .env("FAILPOINT_KIND", format!("{:?}", case.kind))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if let Some(plan) = &case.plan {
        plan_to_env(&mut command, plan);
    }
    let output = command.output().unwrap();
    let ended = output.status.signal() == Some(9);
    assert!(ended || output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    let lines = fs::read_to_string(lines_file(&dir.root())).unwrap();
    let load: String =
        lines.lines().filter(|line| ["A", "I", "F"].contains(&&line[..1])).map(|line| format!("{line}\n")).collect();
    check_saved(&what, &saved_file(&dir.root()), &lines);
    let store = dir.try_open().unwrap_or_else(|error| panic!("{what}: {error}"));
    let (told, found) = verify(&what, &store, &load, before);
    store.close();
    drop(store);
    assert_eq!(dir.complaints(), None, "{what}");
    if case.kind == Kind::Plain {
        // Two more lives that go on exactly behind.
        check(&what, &dir.with("flushDiskType=ASYNC_FLUSH\n"), &found, &[], &[]);
    }
    Outcome { ended, told, lines }
}

/// The file holds the last text that was on disk, or one that was being saved then.
fn check_saved(what: &str, path: &Path, lines: &str) {
    let numbers = |kind: &str| {
        lines.lines().filter_map(|line| line.strip_prefix(kind)?.trim().parse::<u64>().ok()).max().unwrap_or(0)
    };
    let (begun, done) = (numbers("S "), numbers("T "));
    let saved = match JsonFile::new(path).load().unwrap_or_else(|error| panic!("{what}: {error}")) {
        Loaded::Text { text, .. } => {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{what}: {text}"));
            value["number"].as_u64().unwrap()
        }
        Loaded::Missing => 0,
        Loaded::Damaged => panic!("{what}: a damaged file without a backup"),
    };
    assert!(done <= saved && saved <= begun, "{what}: saved {done} of {begun}, found {saved}");
}

fn hits(outcome: &Outcome, point: Point) -> u64 {
    let name = format!("C {} ", point.name());
    outcome.lines.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0)
}

fn env_number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Where the random choices begin.
fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    env_number("FAILPOINT_SEED").unwrap_or(now)
}

/// Hands a plan over to another process.
fn plan_to_env(command: &mut Command, plan: &Plan) {
    let error = if let Action::Fail(error) = plan.action { error } else { 0 };
    command
        .env("FAILPOINT_POINT", plan.point.name())
        .env("FAILPOINT_ERROR", error.to_string())
        .env("FAILPOINT_AFTER", plan.after.to_string())
        .env("FAILPOINT_TIMES", plan.times.to_string());
}

/// The plan that this process was handed.
fn plan_of_env() -> Option<Plan> {
    let name = std::env::var("FAILPOINT_POINT").ok()?;
    let number = |name: &str| env_number(name).unwrap_or(0);
    let action = match number("FAILPOINT_ERROR") {
        0 => Action::End,
        error => Action::Fail(error as i32),
    };
    let point = *Point::ALL.iter().find(|point| point.name() == name)?;
    Some(Plan { point, action, after: number("FAILPOINT_AFTER"), times: number("FAILPOINT_TIMES") })
}

/// Plans for a point that comes up `count` times.
fn plans(point: Point, count: u64, random: &mut Random) -> Vec<Plan> {
    let mut plans = vec![Plan { point, action: Action::End, after: random.below(count), times: 1 }];
    if point.can_fail() {
        let (error, times) = match random.below(4) {
            0 => (EIO, 1),
            1 => (EIO, u64::MAX),
            2 => (ENOSPC, 3),
            _ => (ENOSPC, u64::MAX),
        };
        plans.push(Plan { point, action: Action::Fail(error), after: random.below(count), times });
    }
    plans
}

#[test]
fn every_step_is_the_last_or_fails() {
    let seed = seed();
    let only = std::env::var("FAILPOINT_ONLY").ok();
    println!("FAILPOINT_SEED={seed}");
    let mut random = Random(seed);
    let (base, before) = made(false);
    // Without an index in the way of the large one.
    let large_base = base.copy();
    fs::remove_dir_all(large_base.path("index")).unwrap();

    // How often each step comes up when nothing fails.
    let loads = [
        (Kind::Plain, false),
        (Kind::Plain, true),
        // Slow enough that the next index file is made ahead.
        (Kind::LargeIndex, true),
        (Kind::Wide, false),
    ];
    let base_of = |kind| if kind == Kind::LargeIndex { &large_base } else { &base };
    let dry = loads.map(|(kind, sync)| run(&Case { plan: None, sync, kind, seed: 1 }, base_of(kind), &before));
    let counts: Vec<(Point, [u64; 4])> = Point::ALL
        .iter()
        .filter(|point| !point.is_of_compaction())
        .map(|&point| (point, std::array::from_fn(|load| hits(&dry[load], point))))
        .collect();
    let never: Vec<_> =
        counts.iter().filter(|(_, hits)| hits.iter().sum::<u64>() == 0).map(|(point, _)| point).collect();
    assert!(never.is_empty(), "no load reaches {never:?}");

    let mut cases = Vec::new();
    for round in 0..env_number("FAILPOINT_ROUNDS").unwrap_or(1).max(1) {
        for (at, (point, counts)) in counts.iter().enumerate() {
            if only.as_ref().is_some_and(|only| only != point.name()) {
                continue;
            }
            // The plain loads in turn, so that two rounds do both; the others where those do not come by.
            let turn = (at as u64 + round + seed) as usize % 2;
            let load = [turn, 1 - turn, 2, 3].into_iter().find(|load| counts[*load] > 0).expect("one reaches it");
            let (kind, sync) = loads[load];
            for plan in plans(*point, counts[load], &mut random) {
                cases.push(Case { plan: Some(plan), sync, kind, seed: random.next() });
            }
        }
    }
    let next = AtomicUsize::new(0);
    let totals = Mutex::new((0, Told::default()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from).min(4) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run(case, base_of(case.kind), &before);
                    check_outcome(case, &outcome);
                    let mut totals = totals.lock().unwrap();
                    totals.0 += usize::from(outcome.ended);
                    totals.1.acked += outcome.told.acked;
                    totals.1.failed += outcome.told.failed;
                    totals.1.unknown += outcome.told.unknown;
                    totals.1.unknown_stored += outcome.told.unknown_stored;
                }
            });
        }
    });
    let (ended, told) = totals.into_inner().unwrap();
    println!("{} cases, {ended} processes ended, {told:?}, lost 0", cases.len());
}

/// A failed sync of the log is final.
fn check_outcome(case: &Case, outcome: &Outcome) {
    let Some(Plan { point, action: Action::Fail(_), .. }) = case.plan else { return };
    let what = case.name();
    let flush = matches!(point, Point::FlushFile | Point::FlushDir | Point::FlushPages);
    let health = outcome.lines.lines().find(|line| line.starts_with("H ")).unwrap_or_default();
    if health.contains("flush_failed: true") {
        assert!(flush && health.contains("Some(\"a flush failed\")"), "{what}: {health}");
        assert!(!outcome.lines.contains("A late"), "{what}: acknowledged after a failed flush");
        assert!(outcome.lines.contains("F late"), "{what}: not refused after a failed flush");
    }
}

/// Saves over a damaged file, a missing one and a read-only directory keep the rules as well.
#[test]
fn a_save_that_fails_leaves_a_whole_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("saved.json");
    let file = JsonFile::new(&path);
    file.save("{\"number\":1}").unwrap();
    File::create(path.with_extension("json.tmp")).unwrap().write_all(b"half").unwrap();
    assert!(matches!(file.load().unwrap(), Loaded::Text { text, .. } if text == "{\"number\":1}"));
    file.save("{\"number\":2}").unwrap();
    assert!(matches!(file.load().unwrap(), Loaded::Text { text, .. } if text == "{\"number\":2}"));
}
