//! Wheel, log and checkpoint against a model with a clock of its own: whatever happens between, every message is delivered
//! once and none early.

use std::collections::HashSet;
use std::path::Path;

use proptest::prelude::*;

use super::*;

const TICK: i64 = 1000;
/// Ticks that the wheel looks ahead, so that many messages roll.
const WINDOW: i32 = 12;
const START: i64 = 1_795_972_475_000;
const FILE_LEN: usize = 10 * RECORD_LEN;

/// A message of the timer's topic; a rolled one is a new message with the same id.
#[derive(Clone, Copy, Debug)]
struct Message {
    id: usize,
    due: i64,
    rolls: usize,
}

/// The topic: message `i` has queue offset `i` and lies at `100 * i` in the commitlog.
#[derive(Default)]
struct Topic(Vec<Message>);

impl Held for Topic {
    fn end(&self) -> u64 {
        100 * self.0.len() as u64
    }

    fn queue_offset(&self, phys: u64) -> Option<i64> {
        (phys < self.end()).then_some(phys as i64 / 100)
    }
}

/// What the broker does with the files, in short.
struct Bench {
    dir: tempfile::TempDir,
    files: Option<TimerFiles>,
    topic: Topic,
    now: i64,
    read_time: i64,
    queue_offset: i64,
    delivered: u64,
    /// Ids with the number of rolls, and when, in the order in which they came out: this part of the commitlog.
    out: Vec<(usize, usize, bool, i64)>,
    /// Those of `out` that the checkpoint does not know.
    repeated: Vec<(usize, usize, bool)>,
    /// Where `repeated` begins, until everything from before has been looked at.
    behind: Option<usize>,
    logged_from: u64,
    logged: HashSet<i64>,
    handled: i64,
}

impl Bench {
    fn new() -> Bench {
        let mut bench = Bench {
            dir: tempfile::tempdir().unwrap(),
            files: None,
            topic: Topic::default(),
            now: START,
            read_time: 0,
            queue_offset: 0,
            delivered: 0,
            out: Vec::new(),
            repeated: Vec::new(),
            behind: None,
            logged_from: 0,
            logged: HashSet::new(),
            handled: 0,
        };
        bench.open();
        bench
    }

    fn open(&mut self) {
        let options = TimerOptions {
            root: self.dir.path(),
            log_file_len: FILE_LEN,
            precision: TICK,
            snapshots: false,
            held: &self.topic,
        };
        let (files, found) = TimerFiles::open(&options).unwrap();
        let of_time = |time| self.out.iter().take_while(|(.., at)| *at < time).count();
        let places = [found.since.offset.map(|offset| offset as usize), found.since.time.map(of_time)];
        let behind = places.into_iter().flatten().min().unwrap_or(self.out.len());
        self.repeated = self.out[behind..].iter().map(|(id, rolls, roll, _)| (*id, *rolls, *roll)).collect();
        self.behind = Some(behind);
        self.files = Some(files);
        self.read_time = match found.marks.read_time {
            0 => self.now - self.now % TICK,
            time => time,
        };
        self.queue_offset = found.resume;
        self.delivered = found.delivered;
        self.logged = found.logged;
        self.handled = found.handled;
        self.logged_from = found.logged_from;
        self.save(false);
    }

    fn files(&self) -> &TimerFiles {
        self.files.as_ref().unwrap()
    }

    fn send(&mut self, ahead: i64) {
        let id = self.topic.0.len();
        self.topic.0.push(Message { id, due: self.now + ahead, rolls: 0 });
    }

    fn save(&mut self, stopped: bool) {
        let phys = self.behind.unwrap_or(self.out.len()) as u64;
        let stopped = stopped && self.behind.is_none();
        let logged_from = self.behind.map_or(self.files().log.end(), |_| self.logged_from);
        let ours = Ours { delivered: self.delivered, phys, handled: self.handled, logged_from, stopped };
        let marks = Marks {
            read_time: self.read_time,
            log_end: self.files().log.end() as i64,
            queue_offset: self.queue_offset,
            master_queue_offset: self.queue_offset,
            version: [0, self.now, 1],
            ours: Some(ours),
        };
        self.files().checkpoint.write(&marks).unwrap();
    }

    fn put(&mut self, message: Message, roll: bool) {
        let known = (message.id, message.rolls, roll);
        if let Some(at) = self.repeated.iter().position(|one| *one == known) {
            self.repeated.swap_remove(at);
            return;
        }
        assert!(roll || message.due <= self.now, "{message:?} early");
        self.out.push((message.id, message.rolls, roll, self.now));
        if roll {
            self.topic.0.push(Message { rolls: message.rolls + 1, ..message });
        }
    }

    /// Delivers at most `most` messages of slots that are over, and takes what the topic has.
    fn run(&mut self, most: usize) {
        let floor = self.now - self.now % TICK;
        let mut left = most;
        // What the log lost, before time goes on.
        while self.queue_offset < self.handled.min(self.topic.0.len() as i64) {
            if left == 0 {
                return;
            }
            left -= 1;
            self.take(self.topic.0[self.queue_offset as usize], floor);
            self.queue_offset += 1;
        }
        while let Some(slot) = self.files().wheel.next(self.read_time).filter(|slot| slot.time < floor) {
            if slot.time > self.read_time {
                (self.read_time, self.delivered) = (slot.time, 0);
            }
            let chain = self.files().chain(&slot);
            for position in chain.iter().skip(self.delivered as usize) {
                if left == 0 {
                    return;
                }
                left -= 1;
                let record = self.files().log.record(*position).unwrap();
                let message = self.topic.0[record.phys as usize / 100];
                self.put(message, record.rolls());
                self.delivered += 1;
            }
            self.files().wheel.done(slot.time);
            (self.read_time, self.delivered) = (slot.time + TICK, 0);
        }
        if self.read_time < floor {
            (self.read_time, self.delivered) = (floor, 0);
        }
        while let Some(message) = self.topic.0.get(self.queue_offset as usize).copied() {
            self.take(message, floor);
            self.queue_offset += 1;
        }
        self.behind = None;
        self.repeated.clear();
    }

    fn take(&mut self, message: Message, floor: i64) {
        let phys = 100 * self.queue_offset;
        // As the broker does: a message that is due at the end of a tick lies in that tick.
        let due = message.due - 1;
        let slot = self.files().wheel.floor(due);
        let superseded = self.topic.0.iter().any(|other| other.id == message.id && other.rolls > message.rolls);
        if self.logged.remove(&phys) || self.queue_offset < self.handled && (slot < self.read_time || superseded) {
            return;
        }
        // Rolled since the checkpoint: by now it may be near enough not to roll.
        if let Some(at) = self.repeated.iter().position(|one| *one == (message.id, message.rolls, true)) {
            self.repeated.swap_remove(at);
            return;
        }
        if slot < floor {
            return self.put(message, false);
        }
        let taken = Taken { due: slot, write_time: floor, phys, size: 100, deletes: false, topic_hash: 1 };
        self.files().take(&taken, WINDOW).unwrap();
    }

    fn pending(&self) -> i64 {
        self.files().wheel.total()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(i64),
    Run { ticks: i64, most: usize },
    Save,
    Stop,
    Kill,
    KillWithoutWheel,
    KillAndLoseRecords(usize),
    KillWithoutLog,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..40_000i64).prop_map(Step::Send),
        6 => (0..6i64, prop_oneof![Just(usize::MAX), 0..5usize]).prop_map(|(ticks, most)| Step::Run { ticks, most }),
        3 => Just(Step::Save),
        1 => Just(Step::Stop),
        2 => Just(Step::Kill),
        1 => Just(Step::KillWithoutWheel),
        1 => (1..20usize).prop_map(Step::KillAndLoseRecords),
        1 => Just(Step::KillWithoutLog),
    ]
}

/// Zeros where the last records of the log stand.
fn lose_records(dir: &Path, count: usize) {
    let mut files: Vec<_> = std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut left = count;
    for path in files.iter().rev() {
        let mut bytes = std::fs::read(path).unwrap();
        for at in (0..9).rev().map(|record| record * RECORD_LEN) {
            if left > 0 && bytes[at] == 0 && bytes[at + 3] == RECORD_LEN as u8 {
                bytes[at..].fill(0);
                left -= 1;
            }
        }
        std::fs::write(path, bytes).unwrap();
    }
}

/// Few, as each waits for the disk; `PROPTEST_CASES` asks for more.
fn cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { 40 };
    ProptestConfig { cases, ..default }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_message_comes_once_and_never_early(steps in proptest::collection::vec(step(), 1..80)) {
        let mut bench = Bench::new();
        let mut sent = 0;
        for step in steps {
            match step {
                Step::Send(ahead) => {
                    bench.send(ahead);
                    sent += 1;
                }
                Step::Run { ticks, most } => {
                    bench.now += ticks * TICK + 7;
                    bench.run(most);
                }
                Step::Save => bench.save(false),
                Step::Stop => {
                    bench.save(true);
                    bench.files = None;
                    bench.open();
                }
                Step::Kill | Step::KillWithoutWheel | Step::KillAndLoseRecords(_) | Step::KillWithoutLog => {
                    bench.files = None;
                    let root = bench.dir.path();
                    match step {
                        Step::KillWithoutWheel => std::fs::remove_file(root.join("timerwheel")).unwrap(),
                        Step::KillAndLoseRecords(count) => lose_records(&root.join("timerlog"), count),
                        Step::KillWithoutLog => drop(std::fs::remove_dir_all(root.join("timerlog"))),
                        _ => {}
                    }
                    bench.open();
                }
            }
        }
        for _ in 0..60 {
            bench.now += TICK;
            bench.run(usize::MAX);
        }
        let mut out: Vec<usize> = bench.out.iter().filter(|(_, _, roll, _)| !roll).map(|(id, ..)| *id).collect();
        out.sort();
        let known = out.len();
        out.dedup();
        prop_assert_eq!((known, out.len(), bench.pending()), (sent, sent, 0));
    }
}

/// A checkpoint before the first message, then a kill: the wheel says what is pending.
#[test]
fn a_store_without_a_checkpoint_keeps_what_is_pending() {
    let mut bench = Bench::new();
    for ahead in [2000, 3000, 4000, 500_000] {
        bench.send(ahead);
    }
    bench.run(usize::MAX);
    bench.files = None;
    std::fs::remove_file(bench.dir.path().join("config/timercheck")).unwrap();
    bench.open();
    assert_eq!((bench.pending(), bench.queue_offset), (4, 4));
    bench.now += 5000;
    bench.run(usize::MAX);
    assert_eq!(bench.out.iter().filter(|(_, _, roll, _)| !roll).count(), 3);
}

/// Case T-06: the commitlog was cut, and with it messages that the timer has taken.
#[test]
fn t_06_what_the_commitlog_lost_is_forgotten() {
    let mut bench = Bench::new();
    for _ in 0..100 {
        bench.send(30_000);
        bench.send(60_000);
    }
    bench.run(usize::MAX);
    bench.save(false);
    bench.files = None;
    bench.topic.0.truncate(120);
    bench.open();
    assert_eq!(
        (bench.pending(), bench.files().log.last_position()),
        (120, Some((119 / 9 * 520 + 119 % 9 * 52) as i64))
    );
    assert_eq!(bench.queue_offset, 120);
    bench.send(5000);
    for _ in 0..70 {
        bench.now += TICK;
        bench.run(usize::MAX);
    }
    let out: HashSet<_> = bench.out.iter().filter(|(_, _, roll, _)| !roll).map(|(id, ..)| *id).collect();
    assert_eq!(out.len(), 121);
}

#[test]
fn another_precision_makes_the_wheel_anew() {
    let mut bench = Bench::new();
    for ahead in [5_000, 7_000, 9_500] {
        bench.send(ahead);
    }
    bench.run(usize::MAX);
    bench.save(true);
    bench.files = None;
    let options = |precision| TimerOptions {
        root: bench.dir.path(),
        log_file_len: FILE_LEN,
        precision,
        snapshots: false,
        held: &bench.topic,
    };
    for precision in [100, 500, 200, 1000] {
        let (files, _) = TimerFiles::open(&options(precision)).unwrap();
        assert_eq!(files.wheel.total(), 3, "{precision}");
        assert_eq!(files.wheel.next(0).unwrap().time, START + 4000);
    }
}

#[test]
fn an_empty_wheel_is_not_believed() {
    let mut bench = Bench::new();
    for ahead in [5_000, 7_000, 9_500] {
        bench.send(ahead);
    }
    bench.run(usize::MAX);
    bench.save(true);
    bench.files = None;
    std::fs::write(bench.dir.path().join("timerwheel"), vec![0; WHEEL_LEN]).unwrap();
    bench.open();
    assert_eq!(bench.pending(), 3);
}

/// As a Java broker in snapshot mode leaves it: the wheel's file is old.
#[test]
fn the_newest_snapshot_counts_when_java_wrote_it() {
    let mut bench = Bench::new();
    for ahead in [5_000, 7_000] {
        bench.send(ahead);
    }
    bench.run(usize::MAX);
    let old = std::fs::read(bench.dir.path().join("timerwheel")).unwrap();
    for ahead in [9_000, 11_000] {
        bench.send(ahead);
    }
    bench.run(usize::MAX);
    bench.files().wheel.snapshot(bench.files().log.end()).unwrap();
    bench.send(13_000);
    bench.run(usize::MAX);
    bench.save(true);
    let log_end = bench.files().log.end();
    bench.files = None;
    let root = bench.dir.path().to_owned();
    std::fs::write(root.join("timerwheel"), old).unwrap();
    let mut page = std::fs::read(root.join("config/timercheck")).unwrap();
    page[4048..].fill(0);
    std::fs::write(root.join("config/timercheck"), page).unwrap();
    let (files, found) = TimerFiles::open(&TimerOptions {
        root: &root,
        log_file_len: FILE_LEN,
        precision: TICK,
        snapshots: true,
        held: &bench.topic,
    })
    .unwrap();
    assert_eq!((files.wheel.total(), files.log.end(), found.resume), (5, log_end, 5));
    assert_eq!(found.since, Since { offset: None, time: Some(found.marks.read_time) });
}
