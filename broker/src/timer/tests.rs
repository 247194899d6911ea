//! The worker on a real store, with a clock that the test sets.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{BrokerConfig, Live, MessageStoreConfig};
use store::record::RecordView;
use store::record::properties::push;
use store::timer::Marks;
use store::{NewMessage, Queue, Store, StoreOptions};

use super::worker::{Turn, Worker};
use super::*;
use crate::stats::{Stats, now_millis};
use crate::topics::TopicTable;

const TOPIC: &str = "Timed";
const SECOND: i64 = 1000;

fn host() -> SocketAddr {
    "127.0.0.1:10911".parse().unwrap()
}

/// A timer on a store, and the time.
struct Bench {
    dir: PathBuf,
    timer: Timer,
    now: Cell<i64>,
}

impl Bench {
    fn open(dir: &Path, now: i64) -> Bench {
        Bench::with(dir, now, |_| {})
    }

    fn with(dir: &Path, now: i64, adjust: impl FnOnce(&mut MessageStoreConfig)) -> Bench {
        let mut config = MessageStoreConfig {
            store_path_root_dir: dir.to_str().unwrap().to_owned(),
            mapped_file_size_commit_log: 1 << 20,
            mapped_file_size_consume_queue: 20_000,
            mapped_file_size_timer_log: 5200,
            message_index_enable: false,
            ..MessageStoreConfig::default()
        };
        adjust(&mut config);
        let broker = Arc::new(Live::new(BrokerConfig::default()));
        let topics = Arc::new(TopicTable::load(&dir.join("config"), broker, &config).unwrap());
        let store_config = Arc::new(Live::new(config));
        let store = Store::open(StoreOptions {
            config: store_config.clone(),
            store_host: host(),
            arrived: None,
            filter_bits: None,
        })
        .unwrap();
        let parts =
            TimerParts { store_config, topics, store, stats: Arc::new(Stats::default()), exported: None, escape: None };
        let timer = Timer::load(&dir.join("config"), parts).unwrap();
        let bench = Bench { dir: dir.to_owned(), timer, now: Cell::new(now) };
        bench.save(false);
        bench
    }

    fn worker(&self) -> Worker<'_> {
        Worker::new(&self.timer, self.timer.found.lock().take().unwrap())
    }

    fn now(&self) -> i64 {
        self.now.get()
    }

    fn store(&self) -> &Store {
        &self.timer.parts.store
    }

    /// A message with a key that is due in some milliseconds.
    fn send(&self, key: &str, after: i64, more: &[(&str, &str)]) {
        let mut properties = Vec::new();
        push(&mut properties, "UNIQ_KEY", key.as_bytes());
        for (name, value) in more {
            push(&mut properties, name, value.as_bytes());
        }
        let due = self.timer.tick_before(self.now() + after);
        push(&mut properties, property::OUT_MS, due.to_string().as_bytes());
        push(&mut properties, property::REAL_TOPIC, TOPIC.as_bytes());
        push(&mut properties, property::REAL_QUEUE, b"0");
        self.append(&properties, key.as_bytes());
    }

    fn append(&self, properties: &[u8], body: &[u8]) {
        self.append_to(&self.timer.queue, properties, body);
    }

    fn append_to(&self, queue: &Queue, properties: &[u8], body: &[u8]) {
        let message = NewMessage {
            flag: 0,
            sys_flag: 0,
            born_timestamp: self.now(),
            born_host: host(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            properties,
            body,
        };
        self.store().append(queue, &message).unwrap();
        self.store().dispatch();
    }

    fn save(&self, stopped: bool) {
        self.timer.saver.write(&self.timer, stopped).unwrap();
    }

    /// Keys and properties of what was delivered.
    fn delivered(&self) -> Vec<(String, String)> {
        let queue = self.store().queue_or_create(TOPIC, 0);
        let entries = (0..queue.max_offset()).filter_map(|offset| queue.entry(offset));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace('\x01', "=").replace('\x02', ";");
        entries
            .map(|entry| {
                let record = self.store().record_at(entry.unit.phys as u64).unwrap();
                let view = RecordView::parse(&record).unwrap();
                (text(view.body()), text(view.property_bytes()))
            })
            .collect()
    }

    fn keys(&self) -> Vec<String> {
        self.delivered().into_iter().map(|(key, _)| key).collect()
    }

    /// A copy of the directory as a kill would leave it, and what opens it.
    fn killed(&self, name: &str) -> PathBuf {
        let to = self.dir.with_file_name(name);
        copy(&self.dir, &to);
        let _ = std::fs::remove_file(to.join("lock"));
        to
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// Turns until nothing is left to do; when the next thing is.
fn settle(worker: &mut Worker<'_>, now: i64) -> Option<i64> {
    loop {
        match worker.turn(now) {
            Turn::Busy => {}
            Turn::Idle(due) => return due,
            Turn::Failed => panic!("a turn failed"),
        }
    }
}

fn start() -> i64 {
    let now = now_millis();
    now - now % SECOND
}

#[test]
fn t_03_never_early_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(&dir.path().join("a"), start());
    let mut worker = bench.worker();
    for (key, after) in [("b", 4300), ("a", 2000), ("c", 4001), ("d", 5000), ("past", 1), ("e", 5001)] {
        bench.send(key, after, &[("TAGS", "t")]);
    }
    // Taken in the first tick: what is due in it waits for its end.
    assert_eq!(settle(&mut worker, bench.now() + 500), Some(bench.now() + 1000));
    assert_eq!((bench.keys(), bench.timer.waiting()), (vec![], 6));
    let at = |after: i64, worker: &mut Worker<'_>| {
        settle(worker, bench.now() + after);
        bench.keys().join("")
    };
    assert_eq!(at(999, &mut worker), "");
    assert_eq!(at(1000, &mut worker), "past");
    assert_eq!(at(1999, &mut worker), "past");
    assert_eq!(at(2000, &mut worker), "pasta");
    assert_eq!(at(4999, &mut worker), "pasta");
    assert_eq!(at(5000, &mut worker), "pastabcd");
    assert_eq!(at(5999, &mut worker), "pastabcd");
    assert_eq!(at(6000, &mut worker), "pastabcde");
    assert_eq!(at(60_000, &mut worker), "pastabcde");
    assert_eq!(bench.timer.waiting(), 0);
    let (_, properties) = bench.delivered().remove(1);
    let enqueued = format!("TIMER_ENQUEUE_MS={};", bench.now());
    let due = format!("TIMER_OUT_MS={};REAL_TOPIC=Timed;REAL_QID=0;", bench.now() + 1000);
    let dequeued = format!("TIMER_DEQUEUE_MS={};", bench.now() + 2000);
    assert_eq!(properties, format!("UNIQ_KEY=a;TAGS=t;{due}{enqueued}{dequeued}"));
}

fn marks(bench: &Bench, after: i64, queue_offset: i64) -> Marks {
    let read_time = bench.now() + after;
    let version = [0, bench.now(), 7];
    Marks { read_time, log_end: 9, queue_offset, master_queue_offset: queue_offset, version, ours: None }
}

#[test]
fn a_slave_keeps_up_with_its_master_and_goes_on_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(&dir.path().join("a"), start());
    bench.timer.set_delivering(false);
    let mut worker = bench.worker();
    for (key, after) in [("a", 2500), ("b", 4500), ("c", 6500), ("d", 8500)] {
        bench.send(key, after, &[]);
    }
    let late = bench.now() + 20_000;
    settle(&mut worker, late);
    assert_eq!((bench.keys(), bench.timer.waiting()), (vec![], 0), "the master has taken nothing yet");

    // It takes what the master has taken, and delivers nothing.
    assert!(bench.timer.follow(&marks(&bench, 0, 3), Some(bench.store().wrote().get())));
    settle(&mut worker, late);
    assert_eq!((bench.keys(), bench.timer.waiting()), (vec![], 3));
    let saved = Marks::decode(&bench.timer.checkpoint()).unwrap();
    assert_eq!((saved.read_time, saved.queue_offset, saved.master_queue_offset), (bench.now(), 3, 3));
    assert_eq!(saved.version, [0, bench.now(), 7]);

    // The master has delivered one; nothing of that is left here.
    assert!(bench.timer.follow(&marks(&bench, 3000, 4), Some(bench.store().wrote().get())));
    settle(&mut worker, late);
    assert_eq!((bench.keys(), bench.timer.waiting()), (vec![], 3));

    // It delivers another one, of which we know from the log only; then it is gone.
    let mut properties = Vec::new();
    let due = bench.timer.tick_before(bench.now() + 4500).to_string();
    for (name, value) in [("UNIQ_KEY", "b"), (property::OUT_MS, &due), (property::DEQUEUE_MS, "1")] {
        push(&mut properties, name, value.as_bytes());
    }
    bench.append_to(&bench.store().queue_or_create(TOPIC, 0), &properties, b"b");
    bench.timer.set_delivering(true);
    settle(&mut worker, bench.now() + 7000);
    assert_eq!(bench.keys(), ["b", "c"]);
    settle(&mut worker, late);
    assert_eq!((bench.keys().concat(), bench.timer.waiting()), ("bcd".to_owned(), 0));

    // And back: what comes now is the master's again.
    bench.timer.set_delivering(false);
    bench.send("e", 30_000, &[]);
    settle(&mut worker, late + 60_000);
    assert_eq!(bench.keys().concat(), "bcd");
}

#[test]
fn marks_that_cannot_be_a_masters() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(&dir.path().join("a"), start());
    assert!(!bench.timer.follow(&marks(&bench, 0, 0), None), "this one delivers");
    bench.timer.set_delivering(false);
    for bad in [
        Marks { read_time: 0, ..marks(&bench, 0, 0) },
        Marks { read_time: i64::MAX, ..marks(&bench, 0, 0) },
        Marks { queue_offset: -1, ..marks(&bench, 0, 0) },
    ] {
        assert!(!bench.timer.follow(&bad, None), "{bad:?}");
    }
}

#[test]
fn what_is_due_already_is_delivered_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(&dir.path().join("a"), start());
    let mut worker = bench.worker();
    bench.send("a", 3000, &[]);
    bench.send("recall", 3000, &[(property::DELETE_KEY, "a")]);
    settle(&mut worker, bench.now() + 3000);
    let delivered = bench.delivered();
    assert_eq!(delivered.len(), 1);
    assert!(delivered[0].1.contains("TIMER_ENQUEUE_MS=9223372036854775807;"), "{}", delivered[0].1);
    assert_eq!(bench.timer.waiting(), 0);
    assert!(bench.timer.counts().snapshot().values().all(|count| count.waiting == 0));
}

#[test]
fn messages_that_say_nothing_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(&dir.path().join("a"), start());
    let mut worker = bench.worker();
    bench.append(b"A\x01b\x02", b"no time");
    bench.append(b"TIMER_OUT_MS\x01x\x02REAL_TOPIC\x01T\x02", b"no number");
    let due = format!("TIMER_OUT_MS\x01{}\x02", bench.now() + 1000);
    bench.append(format!("{due}REAL_TOPIC\x01T\x02").as_bytes(), b"no queue");
    bench.append(format!("{due}REAL_QID\x011\x02").as_bytes(), b"no topic");
    bench.send("good", 1500, &[]);
    settle(&mut worker, bench.now() + 100);
    settle(&mut worker, bench.now() + 9000);
    assert_eq!(bench.keys(), ["good"]);
}

#[test]
fn far_messages_roll() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::with(&dir.path().join("a"), start(), |config| config.timer_roll_window_slot = 10);
    let mut worker = bench.worker();
    bench.send("near", 9500, &[]);
    bench.send("far", 35_500, &[]);
    bench.send("recalled", 25_500, &[]);
    bench.send("recall", 25_500, &[(property::DELETE_KEY, "recalled")]);
    for tick in 0..40 {
        settle(&mut worker, bench.now() + tick * SECOND);
        let expected = ["near", "far"].map(|key| (key, if key == "near" { 10 } else { 36 }));
        let expected: Vec<_> = expected.iter().filter(|(_, at)| tick >= *at).map(|(key, _)| *key).collect();
        assert_eq!(bench.keys(), expected, "after {tick} s");
    }
    let far = bench.delivered().remove(1).1;
    // 35.5 s with a window of 10: after ten, ten, and then half a window.
    assert!(far.contains("TIMER_ROLL_TIMES=3;"), "{far}");
    assert_eq!(bench.timer.waiting(), 0);
    let counts = bench.timer.counts().snapshot();
    assert_eq!(counts[TOPIC].waiting, 0);
}

#[test]
fn a_recall_takes_one_message_of_its_slot() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(&dir.path().join("a"), start());
    let mut worker = bench.worker();
    for key in ["a", "b", "c"] {
        bench.send(key, 3500, &[]);
    }
    settle(&mut worker, bench.now());
    // In the same slot, whatever comes first; in another one it finds nothing.
    bench.send("recall b", 3001, &[(property::DELETE_KEY, "b")]);
    bench.send("recall c", 2500, &[(property::DELETE_KEY, "c")]);
    settle(&mut worker, bench.now() + 10);
    assert_eq!((bench.timer.waiting(), bench.timer.counts().snapshot()[TOPIC].waiting), (1, 1));
    settle(&mut worker, bench.now() + 4000);
    assert_eq!(bench.keys(), ["a", "c"]);
    assert_eq!((bench.timer.waiting(), bench.timer.counts().snapshot()[TOPIC].waiting), (0, 0));
    drop(worker);
    bench.save(true);
}

#[test]
fn recalls_may_name_the_topic() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::with(&dir.path().join("a"), start(), |config| config.append_topic_for_timer_delete_key = true);
    let mut worker = bench.worker();
    bench.send("a", 3500, &[]);
    bench.send("b", 3500, &[]);
    bench.send("recall a", 3500, &[(property::DELETE_KEY, "a")]);
    bench.send("recall b", 3500, &[(property::DELETE_KEY, "Timed+b")]);
    settle(&mut worker, bench.now());
    settle(&mut worker, bench.now() + 4000);
    assert_eq!(bench.keys(), ["a"]);
}

#[test]
fn a_clock_that_is_set_back_brings_nothing_early_and_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(&dir.path().join("a"), start());
    let mut worker = bench.worker();
    bench.send("a", 2500, &[]);
    bench.send("b", 60_500, &[]);
    settle(&mut worker, bench.now());
    settle(&mut worker, bench.now() + 10_000);
    assert_eq!(bench.keys(), ["a"]);
    // An hour back: a new message for in two seconds comes then, not now.
    let before = bench.now.replace(bench.now() - 3_600_000);
    settle(&mut worker, bench.now());
    bench.send("c", 2500, &[]);
    assert_eq!(settle(&mut worker, bench.now()), Some(bench.now() + 3000));
    assert_eq!(bench.keys(), ["a"]);
    settle(&mut worker, bench.now() + 3000);
    assert_eq!(bench.keys(), ["a", "c"]);
    // Over the slots that were delivered before, also by a timer that is opened now, and up to the one that was not.
    settle(&mut worker, bench.now() + 4000);
    bench.save(false);
    let again = Bench::open(&bench.killed("b"), before);
    let mut other = again.worker();
    for (bench, worker) in [(&bench, &mut worker), (&again, &mut other)] {
        settle(worker, before + 60_999);
        assert_eq!(bench.keys(), ["a", "c"]);
        settle(worker, before + 61_000);
        assert_eq!(bench.keys(), ["a", "c", "b"]);
    }
}

/// 600 messages of one slot and some others; killed in the middle of the slot and opened again, as `change` leaves it.
fn killed_in_a_slot(change: impl Fn(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(&dir.path().join("a"), start());
    let mut worker = bench.worker();
    let mut sent: Vec<String> = (0..600).map(|i| format!("m{i}")).collect();
    for key in &sent {
        bench.send(key, 2500, &[]);
    }
    settle(&mut worker, bench.now());
    bench.send("later", 60_000, &[]);
    bench.send("early", 2500, &[]);
    sent.extend(["early".to_owned(), "later".to_owned()]);
    let now = bench.now() + 3000;
    assert_eq!(worker.turn(now), Turn::Busy);
    bench.save(false);
    assert_eq!(worker.turn(now), Turn::Busy);
    let known = bench.keys().len();
    assert!(known > 256 && known < 600, "{known}");
    let other = bench.killed("b");
    change(&other);
    let again = Bench::open(&other, bench.now());
    let mut worker = again.worker();
    settle(&mut worker, now);
    settle(&mut worker, bench.now() + 61_000);
    let mut keys = again.keys();
    let all = keys.len();
    keys.sort();
    keys.dedup();
    sent.sort();
    assert!(keys == sent, "{} of {} messages", keys.len(), sent.len());
    assert_eq!(all, sent.len(), "some came twice");
    assert!(again.timer.counts().snapshot().values().all(|count| count.waiting == 0));
    // Stopped in order, nothing is looked for.
    again.save(true);
    drop(worker);
    let third = again.killed("c");
    drop(again);
    let third = Bench::open(&third, bench.now());
    let mut worker = third.worker();
    settle(&mut worker, bench.now() + 62_000);
    assert_eq!(third.keys().len(), all);
}

#[test]
fn a_kill_within_a_slot_delivers_nothing_twice() {
    killed_in_a_slot(|_| {});
}

#[test]
fn a_kill_of_another_broker_is_looked_through_by_time() {
    killed_in_a_slot(|dir| {
        let path = dir.join("config/timercheck");
        let mut page = std::fs::read(&path).unwrap();
        page[56..].fill(0);
        std::fs::write(path, page).unwrap();
    });
}

#[test]
fn a_wheel_that_is_gone_is_made_from_the_log() {
    killed_in_a_slot(|dir| std::fs::remove_file(dir.join("timerwheel")).unwrap());
}

#[test]
fn a_log_that_is_gone_is_made_from_the_topic() {
    killed_in_a_slot(|dir| std::fs::remove_dir_all(dir.join("timerlog")).unwrap());
    killed_in_a_slot(|dir| {
        std::fs::remove_dir_all(dir.join("timerlog")).unwrap();
        std::fs::remove_file(dir.join("timerwheel")).unwrap();
    });
}

#[test]
fn rolled_messages_come_once_when_the_log_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let small = |config: &mut MessageStoreConfig| config.timer_roll_window_slot = 10;
    let bench = Bench::with(&dir.path().join("a"), start(), small);
    let mut worker = bench.worker();
    for (key, after) in [("a", 5000), ("far", 35_500), ("b", 20_500)] {
        bench.send(key, after, &[]);
    }
    for tick in 0..13 {
        settle(&mut worker, bench.now() + tick * SECOND);
    }
    bench.save(false);
    for tick in 13..16 {
        settle(&mut worker, bench.now() + tick * SECOND);
    }
    let other = bench.killed("b");
    std::fs::remove_dir_all(other.join("timerlog")).unwrap();
    let again = Bench::with(&other, bench.now(), small);
    let mut worker = again.worker();
    for tick in 16..40 {
        settle(&mut worker, bench.now() + tick * SECOND);
    }
    assert_eq!(again.keys(), ["a", "b", "far"]);
    assert_eq!(again.timer.waiting(), 0);
}

#[test]
fn taking_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(&dir.path().join("a"), start());
    let mut worker = bench.worker();
    bench.send("a", 1500, &[]);
    settle(&mut worker, bench.now());
    bench.timer.parts.store_config.update(&[("timerStopEnqueue", "true")]).unwrap();
    bench.send("b", 1500, &[]);
    settle(&mut worker, bench.now() + 3000);
    assert_eq!((bench.keys().join(""), bench.timer.untaken()), ("a".to_owned(), 1));
    bench.timer.parts.store_config.update(&[("timerStopEnqueue", "false")]).unwrap();
    settle(&mut worker, bench.now() + 3000);
    assert_eq!((bench.keys().join(""), bench.timer.untaken()), ("ab".to_owned(), 0));
}

#[test]
fn full_slots_refuse() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(&dir.path().join("a"), start());
    let mut worker = bench.worker();
    for i in 0..15 {
        bench.send(&format!("m{i}"), 5000, &[]);
    }
    settle(&mut worker, bench.now());
    let due = bench.timer.tick_before(bench.now() + 5000);
    let refuses = |most, random| bench.timer.refuses(due, most, || random);
    assert!(!refuses(i32::MAX, 0) && !refuses(15, 0) && !refuses(15, 999));
    // Between the limit and its double by chance, from it on always.
    assert!(refuses(7, 0) && refuses(1, 0));
    assert!(!refuses(10, 400) && refuses(10, 600));
    assert!(!bench.timer.refuses(due + 1000, 1, || 999));
}

#[test]
fn a_long_downtime_loses_nothing() {
    const DAY: i64 = 86_400_000;
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(&dir.path().join("a"), start());
    let mut worker = bench.worker();
    for (key, after) in [("a", 5000), ("b", DAY), ("c", 2 * DAY + 3_600_000)] {
        bench.send(key, after, &[]);
    }
    settle(&mut worker, bench.now());
    bench.save(true);
    for (name, days) in [("eight", 8), ("fourteen", 14), ("forty", 40)] {
        let again = Bench::open(&bench.killed(name), bench.now() + days * DAY);
        let mut worker = again.worker();
        again.send("new", 3000, &[]);
        settle(&mut worker, again.now());
        assert_eq!(again.keys(), ["a", "b", "c"], "{name}");
        settle(&mut worker, again.now() + 3000);
        assert_eq!(again.keys(), ["a", "b", "c", "new"], "{name}");
    }
}

/// Neither time nor messages are in memory: a timer of another precision reads the same log.
#[test]
fn the_precision_may_change() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::open(&dir.path().join("a"), start());
    let mut worker = bench.worker();
    bench.send("a", 2500, &[]);
    bench.send("b", 4500, &[]);
    settle(&mut worker, bench.now());
    bench.save(true);
    let fine = Bench::with(&bench.killed("b"), bench.now(), |config| config.timer_precision_ms = 100);
    let mut worker = fine.worker();
    assert_eq!(fine.timer.waiting(), 2);
    fine.send("c", 2250, &[]);
    settle(&mut worker, bench.now() + 1);
    let mut seen = Vec::new();
    for tenth in 0..60 {
        settle(&mut worker, bench.now() + tenth * 100);
        let keys = fine.keys();
        if keys.len() > seen.len() {
            seen = keys.clone();
            match keys.last().map(String::as_str) {
                Some("a") => assert_eq!(tenth, 21),
                Some("c") => assert_eq!(tenth, 23),
                _ => assert_eq!(tenth, 41),
            }
        }
    }
    assert_eq!(seen, ["a", "c", "b"]);
}
