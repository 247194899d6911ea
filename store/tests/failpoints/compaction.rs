//! The same for compaction topics: the steps of appending to a compacted log, compacting it, replacing its files, bringing
//! it in line with the log at a start, and deleting it. Of each key the last message is there, every offset leads to its
//! message, the files are as Java wants them, and nothing that an interrupted step left stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use store::Store;
use store::failpoint::{self, Action, Plan, Point};
use store::record::RecordView;

use crate::compaction_support::{COMPACTED, Message, all_of, message_of, page, try_send};
use crate::faults_support::{Dir, open_at};
use crate::load_support::Random;
use crate::{env_number, plan_of_env, plans, seed};

/// Bytes of a queue file and a log file: ten messages.
const CQ: usize = 506;
const LOG: usize = 5 * CQ;
const CONF: &str = "compactionCqMappedFileSize=506\ncompactionMappedFileSize=1\n\
    compactionThreadNum=1\ncompactionScheduleInternal=100000000\n";
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

fn next(store: &Store, topic: &str, id: i32) -> i64 {
    store.queue(topic, id).map_or(0, |queue| queue.max_offset())
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

/// What the log has of a queue.
fn logged(store: &Store, topic: &str, id: i32) -> Vec<Message> {
    let Some(queue) = store.queue(topic, id) else { return Vec::new() };
    let record = |offset| {
        let unit = queue.entry(offset).expect("a unit").unit;
        let record = store.record_at(unit.phys as u64).expect("a record");
        message_of(&RecordView::parse(&record).expect("a record"))
    };
    (0..queue.max_offset()).map(record).collect()
}

/// What can be read is in the log, and of each key the last message can, unless it deleted the key and all is gone.
fn check_reads(what: &str, store: &Store) {
    for (topic, id) in QUEUES.into_iter().filter(|(topic, id)| store.queue(topic, *id).is_some()) {
        let before = logged(store, topic, id);
        let found = all_of(store, topic, id);
        let after = logged(store, topic, id);
        for message in &found {
            assert!(after.contains(message), "{what}: {message:?} of {topic} {id} is not in the log");
        }
        let last: BTreeMap<&str, &Message> = before.iter().map(|message| (message.1.as_str(), message)).collect();
        for (key, last) in last {
            let of_key: Vec<_> = found.iter().filter(|message| message.1 == key).collect();
            let gone = after.iter().any(|message| message.1 == key && message.0 >= last.0 && message.2.is_empty());
            match of_key.last() {
                Some(found) => assert!(found.0 >= last.0, "{what}: {topic} {id} has {found:?}, not {last:?}"),
                None => assert!(gone, "{what}: {topic} {id}: {last:?} is lost"),
            }
        }
    }
}

/// Every offset leads to the first message at or behind it.
fn check_offsets(what: &str, store: &Store) {
    for (topic, id) in QUEUES.into_iter().filter(|(topic, id)| store.queue(topic, *id).is_some()) {
        let found = all_of(store, topic, id);
        for offset in 0..next(store, topic, id) {
            let first = page(store, topic, id, offset).records.first().map(|record| {
                let record = RecordView::parse(record).unwrap();
                message_of(&record)
            });
            let expected = found.iter().find(|message| message.0 >= offset).cloned();
            assert_eq!(first, expected, "{what}: {topic} {id} from {offset}");
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
        check_reads(&format!("round {round}, before"), store);
        store.compact_now();
        check_reads(&format!("round {round}"), store);
    }
    store.compact_now();
    check_reads("at the end", store);
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

/// Names below a directory, with a slash behind those of directories.
fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap());
    let name = |entry: fs::DirEntry| {
        let slash = if entry.path().is_dir() { "/" } else { "" };
        format!("{}{slash}", entry.file_name().to_str().unwrap())
    };
    entries.map(name).collect()
}

/// The files of the two kinds are pairs, and nothing lies beside them.
fn check_names(what: &str, dir: &Dir) {
    let root = dir.path("compaction");
    for (topic, id) in QUEUES {
        let [log, cq] =
            ["compactionLog", "compactionCq"].map(|kind| names(&root.join(kind).join(topic).join(id.to_string())));
        assert_eq!(log, cq, "{what}: {topic} {id}");
        let is_offset = |name: &String| name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
        assert!(log.iter().all(is_offset), "{what}: {topic} {id}: {log:?}");
    }
    let known = ["compactionLog/", "compactionCq/", "position-checkpoint", "position-checkpoint.bak"];
    let other: Vec<_> = names(&root).into_iter().filter(|name| !known.contains(&name.as_str())).collect();
    // What an interrupted save left is overwritten by the next one.
    assert!(other.iter().all(|name| name == "position-checkpoint.tmp"), "{what}: {other:?}");
}

/// Units stand for the records of the log file, one behind the other; behind the last a closed file says so, and else there
/// is nothing. What is in a part before the last is the only message of its key, and has a body.
fn check_parts(what: &str, dir: &Dir) {
    for (topic, id) in QUEUES {
        let of_kind = |kind: &str| dir.path("compaction").join(kind).join(topic).join(id.to_string());
        let files: Vec<_> = names(&of_kind("compactionLog")).into_iter().collect();
        let mut offset = -1;
        let mut keys = BTreeSet::new();
        for (number, name) in files.iter().enumerate() {
            let is_last = number + 1 == files.len();
            let what = format!("{what}: {topic} {id} {name}");
            let (log, cq) = (read(&of_kind("compactionLog").join(name)), read(&of_kind("compactionCq").join(name)));
            assert_eq!((log.len(), cq.len()), (LOG, CQ), "{what}");
            let base: usize = name.parse().unwrap();
            assert_eq!(base % LOG, 0, "{what}");
            let mut at = 0;
            let mut units = cq.chunks(46);
            let behind = loop {
                let unit = units.next().unwrap_or(&[]);
                let number = |from: usize, len: usize| {
                    unit[from..from + len].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
                };
                if unit.is_empty() || unit[..8] == [0xff; 8] || number(8, 4) == 0 {
                    break unit;
                }
                let record = RecordView::parse(&log[at..]).unwrap_or_else(|error| panic!("{what} at {at}: {error}"));
                assert_eq!((number(0, 8), number(8, 4)), ((base + at) as u64, record.size() as u64), "{what}");
                assert_eq!(record.phys_offset(), (base + at) as i64, "{what}");
                assert_eq!(number(28, 8), record.queue_offset() as u64, "{what}");
                assert!(record.body_crc_fits() && record.queue_offset() > offset, "{what} at {at}");
                (at, offset) = (at + record.size(), record.queue_offset());
                if !is_last {
                    assert!(
                        !record.body().is_empty() && keys.insert(record.keys().unwrap().to_owned()),
                        "{what} at {at}"
                    );
                }
            };
            let closed = behind.first() == Some(&0xff);
            assert!(closed || behind.iter().all(|byte| *byte == 0), "{what}");
            assert!(units.all(|unit| unit.iter().all(|byte| *byte == 0)), "{what}: behind the last unit");
            let blank = [(LOG - at) as u32, 0xcbd4_3194].map(u32::to_be_bytes).concat();
            let rest = log[at..].strip_prefix(&blank[..]).unwrap_or(&log[at..]);
            assert!(rest.iter().all(|byte| *byte == 0), "{what}: behind the last record");
        }
    }
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
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
        check_reads(&what, &store);
        check_offsets(&what, &store);
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
            check_reads(&what, &store);
            check_offsets(&what, &store);
        }
        check_names(&what, dir);
        store.close();
        drop(store);
        check_parts(&what, dir);
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
