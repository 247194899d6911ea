use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;

use super::*;
use crate::commitlog::{AppendLimits, NextOffset, Numbers};
use crate::index::{Geometry, KeyKind};
use crate::query::{self, KeyQuery};
use crate::queue::TableOptions;
use crate::record::properties::{self, name};
use crate::store::NewMessage;

const LEVELS: &str = "1s 5s 10s";

/// A log with its sinks, without the threads of a store.
pub(crate) struct Rig {
    pub(crate) log: Arc<CommitLog>,
    pub(crate) queues: Arc<QueueTable>,
    index: Arc<Index>,
    dispatcher: Dispatcher,
}

fn rig(log_dir: &Path, dir: &Path, arrived: Option<Arrived>) -> Rig {
    let log = Arc::new(CommitLog::load(log_dir.join("commitlog"), 16384).unwrap());
    rig_over(log, dir, arrived)
}

/// Log files of 16 KiB, queue files of so many units.
pub(crate) fn rig_with_queues(dir: &Path, units: i32) -> Rig {
    let log = Arc::new(CommitLog::load(dir.join("commitlog"), 16384).unwrap());
    rig_sized(log, dir, None, units)
}

fn rig_over(log: Arc<CommitLog>, dir: &Path, arrived: Option<Arrived>) -> Rig {
    rig_sized(log, dir, arrived, 64)
}

fn rig_sized(log: Arc<CommitLog>, dir: &Path, arrived: Option<Arrived>, units: i32) -> Rig {
    let (file_size, batch_file_size) = (20 * units, 46 * units);
    let options = TableOptions { root: dir.to_owned(), file_size, batch_file_size, ext_file_size: 4096, ext: false };
    let queues = Arc::new(QueueTable::load(&options, 0).unwrap());
    let index = Arc::new(Index::load(dir.join("index"), Geometry { slots: 31, capacity: 100 }, None).unwrap());
    let levels = DelayLevels::parse(LEVELS);
    let dispatcher = Dispatcher::new(Arc::clone(&queues), Some(Arc::clone(&index)), arrived, levels);
    Rig { log, queues, index, dispatcher }
}

impl Rig {
    pub(crate) fn append(&self, topic: &str, id: i32, sys_flag: i32, pairs: &[(&str, &str)]) -> u64 {
        let mut bytes = Vec::new();
        for (name, value) in pairs {
            properties::push(&mut bytes, name, value.as_bytes());
        }
        let host = "127.0.0.1:10911".parse().unwrap();
        let message = NewMessage {
            flag: 0,
            sys_flag,
            born_timestamp: 1,
            born_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            properties: &bytes,
            body: b"hello",
        };
        let queue = self.queues.get_or_create(topic, id);
        let next = NextOffset { topic, queue_id: id, next: queue.next_offset() };
        let limits = AppendLimits { max_body: 4 << 20, long_topics: true, crc_property: false, store_host: host };
        let inner = pairs.iter().find(|(name, _)| *name == name::INNER_NUM).map(|(_, number)| number.parse().unwrap());
        match inner {
            None => self.log.append(next, &message, &limits).unwrap().phys_offset,
            Some(_) => {
                self.log.append_numbered(next, &message, &Numbers { inner, also: &[] }, &limits).unwrap().phys_offset
            }
        }
    }

    pub(crate) fn drain(&self) -> Drained {
        self.dispatcher.drain(&self.log, || self.log.wrote().get(), u64::MAX).unwrap()
    }

    /// Other sinks for the same log.
    pub(crate) fn over_the_same_log(&self, dir: &Path) -> Rig {
        rig_over(Arc::clone(&self.log), dir, None)
    }

    pub(crate) fn with_copied_log(self) -> Rig {
        Rig { dispatcher: self.dispatcher.with_copied_log(true), ..self }
    }

    pub(crate) fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// Where the messages of a queue stand.
    pub(crate) fn offsets(&self, topic: &str, id: i32) -> Vec<i64> {
        let queue = self.queues.get(topic, id).unwrap();
        (queue.min_offset()..queue.max_offset()).map(|offset| queue.entry(offset).unwrap().unit.phys).collect()
    }

    fn find(&self, topic: &str, key: &str) -> usize {
        let query = KeyQuery { topic, key, kind: KeyKind::Key, max: 64, begin: 0, end: i64::MAX };
        query::by_key(&self.index, &self.log, &query).records.len()
    }
}

/// What an appender says of a record's queue is worth a look, no more.
#[test]
fn a_hint_need_not_be_true() {
    let dir = tempfile::tempdir().unwrap();
    let rig = rig(dir.path(), dir.path(), None);
    let mut stands: BTreeMap<(&str, i32), Vec<i64>> = BTreeMap::new();
    for (topic, id) in [("T", 0), ("T", 1), ("U", 0)] {
        stands.entry((topic, id)).or_default().push(rig.append(topic, id, 0, &[]) as i64);
    }
    rig.drain();
    let queue = |topic, id| rig.queues.get(topic, id).unwrap();
    let places = [("T", 0), ("T", 1), ("U", 0)].map(|(topic, id)| queue(topic, id).place().load(Ordering::Relaxed));
    assert_eq!(places, [1, 2, 3]);
    for (said, (topic, id)) in [(("T", 0), ("T", 0)), (("U", 0), ("T", 1)), (("T", 1), ("T", 0)), (("T", 0), ("U", 0))]
    {
        let phys = rig.append(topic, id, 0, &[]);
        rig.dispatcher.hint(phys, &queue(said.0, said.1));
        assert_eq!(
            rig.dispatcher.hints.get(phys),
            Some(queue(said.0, said.1).place().load(Ordering::Relaxed) as usize)
        );
        assert_eq!(rig.dispatcher.hints.get(phys + 64 * 4096), None);
        stands.entry((topic, id)).or_default().push(phys as i64);
    }
    // No place at all.
    let phys = rig.append("U", 0, 0, &[]);
    let (old, place) = (queue("T", 0), 999);
    old.place().store(place, Ordering::Relaxed);
    rig.dispatcher.hint(phys, &old);
    old.place().store(1, Ordering::Relaxed);
    stands.entry(("U", 0)).or_default().push(phys as i64);
    rig.drain();
    for ((topic, id), stands) in &stands {
        assert_eq!(rig.offsets(topic, *id), *stands, "{topic} {id}");
    }
    // Of a topic that was deleted and made again.
    rig.queues.delete_topic("T").unwrap();
    let phys = rig.append("T", 0, 0, &[]);
    rig.dispatcher.hint(phys, &old);
    rig.drain();
    assert_eq!(rig.offsets("T", 0), [phys as i64]);
    assert_eq!((old.place().load(Ordering::Relaxed), queue("T", 0).place().load(Ordering::Relaxed)), (0, 1));
}

#[test]
fn what_goes_where() {
    let dir = tempfile::tempdir().unwrap();
    let rig = rig(dir.path(), dir.path(), None);
    let plain = rig.append("T", 0, 0, &[("TAGS", "TagA"), ("UNIQ_KEY", "u1"), ("KEYS", "k1 k2  k3")]);
    rig.append("T", 0, sys_flag::TRANSACTION_PREPARED, &[("UNIQ_KEY", "half")]);
    rig.append("T", 0, sys_flag::TRANSACTION_ROLLBACK, &[("UNIQ_KEY", "back")]);
    let commit = rig.append("T", 0, sys_flag::TRANSACTION_COMMIT, &[("UNIQ_KEY", "done")]);
    assert_eq!(rig.drain(), Drained::Done);
    assert_eq!(rig.dispatcher.position(), rig.log.wrote().get());
    assert_eq!(rig.offsets("T", 0), [plain as i64, commit as i64]);
    assert_eq!(rig.queues.get("T", 0).unwrap().entry(0).unwrap().unit.tags_code, tags_code(b"TagA"));
    assert_eq!(rig.dispatcher.last().1, commit as i64);
    for (key, records) in [("u1", 1), ("k1", 1), ("k2", 1), ("k3", 1), ("k1 k2", 0), ("", 0), ("half", 1), ("back", 0)]
    {
        assert_eq!(rig.find("T", key), records, "{key}");
    }
    let tag = KeyQuery { topic: "T", key: "TagA", kind: KeyKind::Tag, max: 9, begin: 0, end: i64::MAX };
    assert_eq!(query::by_key(&rig.index, &rig.log, &tag).records.len(), 1);
}

#[test]
fn i_01_keys_with_the_same_hash() {
    let dir = tempfile::tempdir().unwrap();
    let rig = rig(dir.path(), dir.path(), None);
    let a = rig.append("TK", 0, 0, &[("KEYS", "Aa")]);
    // So many of the other key that a limit before the comparison would hide the one.
    (0..70).for_each(|_| assert!(rig.append("TK", 0, 0, &[("KEYS", "BB")]) > a));
    rig.drain();
    assert_eq!((rig.find("TK", "Aa"), rig.find("TK", "BB")), (1, 64));
}

#[test]
fn i_03_the_newest_up_to_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let rig = rig(dir.path(), dir.path(), None);
    let all: Vec<u64> = (0..70).map(|_| rig.append("T", 0, 0, &[("KEYS", "dup")])).collect();
    rig.drain();
    for max in [0, 1, 32, 64] {
        let query = KeyQuery { topic: "T", key: "dup", kind: KeyKind::Key, max, begin: 0, end: i64::MAX };
        let found = query::by_key(&rig.index, &rig.log, &query);
        let offsets: Vec<u64> = found.records.iter().map(|record| record.offset()).collect();
        assert_eq!(offsets, all[70 - max..]);
        let last = if max == 0 { 0 } else { all[69] as i64 };
        assert_eq!(found.last_update_phys_offset, last);
        assert_eq!(found.last_update_timestamp > 0, max > 0);
    }
}

#[test]
fn delayed_messages_carry_their_delivery_time() {
    let dir = tempfile::tempdir().unwrap();
    let rig = rig(dir.path(), dir.path(), None);
    rig.append(SCHEDULE_TOPIC, 1, 0, &[("DELAY", "2"), ("TAGS", "x")]);
    rig.append(SCHEDULE_TOPIC, 1, 0, &[("DELAY", "99")]);
    rig.append("T", 1, 0, &[("DELAY", "2")]);
    rig.drain();
    let time = |offset| {
        let entry = rig.queues.get(SCHEDULE_TOPIC, 1).unwrap().entry(offset).unwrap();
        let record = rig.log.record_at(entry.unit.phys as u64).unwrap();
        entry.unit.tags_code - RecordView::parse(&record).unwrap().store_timestamp()
    };
    assert_eq!((time(0), time(1)), (5000, 10_000));
    assert_eq!(rig.queues.get("T", 1).unwrap().entry(0).unwrap().unit.tags_code, 0);
}

#[test]
fn arrivals_are_told_once_a_queue_and_drain_and_only_to_waiters() {
    let dir = tempfile::tempdir().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let arrived: Arrived = {
        let told = Arc::clone(&told);
        Arc::new(move |arrival: &Arrival<'_>| told.lock().push((arrival.queue.topic().to_owned(), arrival.max_offset)))
    };
    let rig = rig(dir.path(), dir.path(), Some(arrived));
    rig.append("Silent", 0, 0, &[]);
    for _ in 0..3 {
        rig.append("A", 0, 0, &[]);
        rig.append("B", 0, 0, &[]);
    }
    for topic in ["A", "B"] {
        rig.queues.get_or_create(topic, 0).waiters().fetch_add(1, Ordering::SeqCst);
    }
    rig.drain();
    assert_eq!(*told.lock(), [("A".to_owned(), 3), ("B".to_owned(), 3)]);
    rig.append("A", 0, 0, &[]);
    rig.drain();
    assert_eq!(told.lock().last(), Some(&("A".to_owned(), 4)));
    assert_eq!(told.lock().len(), 3);
}

#[test]
fn a_budget_ends_a_drain_and_the_end_of_what_may_be_read_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let rig = rig(dir.path(), dir.path(), None);
    let offsets: Vec<u64> = (0..5).map(|_| rig.append("T", 0, 0, &[])).collect();
    // One byte short of the end of the second record.
    let end = offsets[2] - 1;
    assert_eq!(rig.dispatcher.drain(&rig.log, || end, u64::MAX).unwrap(), Drained::Done);
    assert_eq!((rig.dispatcher.position(), rig.offsets("T", 0).len()), (offsets[1], 1));
    assert_eq!(rig.dispatcher.drain(&rig.log, || rig.log.wrote().get(), 1).unwrap(), Drained::More);
    assert_eq!(rig.offsets("T", 0).len(), 2);
    assert_eq!(rig.drain(), Drained::Done);
    assert_eq!(rig.offsets("T", 0), offsets.iter().map(|&offset| offset as i64).collect::<Vec<_>>());
}

#[test]
fn many_threads_append_and_nothing_stays_behind() {
    let dir = tempfile::tempdir().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let arrived: Arrived = {
        let calls = Arc::clone(&calls);
        Arc::new(move |_: &Arrival<'_>| {
            calls.fetch_add(1, Ordering::SeqCst);
        })
    };
    let rig = rig(dir.path(), dir.path(), Some(arrived));
    rig.queues.get_or_create("T", 0).waiters().fetch_add(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let rig = &rig;
            scope.spawn(move || {
                for i in 0..500 {
                    rig.append("T", i % 2, 0, &[("KEYS", &format!("{thread}-{i}"))]);
                    rig.drain();
                }
            });
        }
    });
    // Whoever was last has seen everything: no further call is needed.
    assert_eq!(rig.dispatcher.position(), rig.log.wrote().get());
    assert_eq!((rig.offsets("T", 0).len(), rig.offsets("T", 1).len()), (1000, 1000));
    assert!(rig.offsets("T", 0).is_sorted());
    assert!(calls.load(Ordering::SeqCst) > 0);
}

#[test]
fn a_damaged_place_is_passed_over_once() {
    let dir = tempfile::tempdir().unwrap();
    let before = rig(dir.path(), dir.path(), None);
    before.append("T", 0, 0, &[]);
    let second = before.append("T", 0, 0, &[]);
    before.append("T", 0, 0, &[]);
    drop(before);
    let path = dir.path().join("commitlog").join("0".repeat(20));
    let mut bytes = fs::read(&path).unwrap();
    for (magic, readable) in [(0xdaa3_20a7u32, 2), (0x1234_5678, 1)] {
        // Parts that do not add up, with a plausible length; then no record at all.
        bytes[second as usize + 4..second as usize + 8].copy_from_slice(&magic.to_be_bytes());
        bytes[second as usize + 84..second as usize + 88].copy_from_slice(&[0, 0, 0, 3]);
        fs::write(&path, &bytes).unwrap();
        let other = tempfile::tempdir().unwrap();
        let rig = rig(dir.path(), other.path(), None);
        assert_eq!(rig.drain(), Drained::Done);
        assert_eq!(rig.dispatcher.position(), rig.log.wrote().get());
        // The third record says offset 2: what is missing before it is filled.
        let queue = rig.queues.get("T", 0).unwrap();
        let messages = (0..queue.max_offset()).filter(|&i| !queue.entry(i).unwrap().unit.is_filler()).count();
        assert_eq!(messages, readable);
    }
}

/// Every file under a directory, by relative name. Index files are named by the clock: their order stands for it.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(dir: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
        let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for (i, path) in paths.iter().enumerate() {
            let name = match prefix {
                "/index" => i.to_string(),
                _ => path.file_name().unwrap().to_str().unwrap().to_owned(),
            };
            let name = format!("{prefix}/{name}");
            if path.is_dir() {
                walk(path, &name, found);
            } else {
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(dir, "", &mut found);
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Live dispatch in groups of any size, and dispatch of the whole log into empty directories, and a second dispatch
    /// of a part: the same bytes.
    #[test]
    fn live_and_by_recovery(
        messages in prop::collection::vec((0..3u8, 0..3i32, 0..4u8, 0..6u8), 1..400),
        again_from in 0..400usize,
    ) {
        let (log_dir, live_dir, recovered_dir) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let live = rig(log_dir.path(), live_dir.path(), None);
        let mut offsets = Vec::new();
        for (topic, id, kind, group) in &messages {
            let flag = [0, 0, sys_flag::TRANSACTION_PREPARED, sys_flag::TRANSACTION_COMMIT][usize::from(*kind)];
            let unique = format!("7F0000010000{:08X}", offsets.len());
            let pairs = [("UNIQ_KEY", &*unique), ("KEYS", "a b"), ("TAGS", "TagA")];
            let topic = ["T", "%RETRY%group", "Thema-\u{4e3b}\u{9898}"][usize::from(*topic)];
            offsets.push(live.append(topic, *id, flag, &pairs[..usize::from(*kind)]));
            if *group == 0 {
                live.drain();
            }
        }
        live.drain();
        let recovered = rig_over(Arc::clone(&live.log), recovered_dir.path(), None);
        let mut walk = live.log.walk(0);
        while let Some((phys, record)) = walk.next_record() {
            recovered.dispatcher.record(phys, &record).unwrap();
        }
        let live_files = files(live_dir.path());
        prop_assert!(!live_files.is_empty());
        prop_assert_eq!(&live_files, &files(recovered_dir.path()));
        // A restart that feeds records again that are there: queues do not change. (The index gets the last record
        // twice, as in Java.)
        let restarted = rig_over(Arc::clone(&live.log), recovered_dir.path(), None);
        let mut walk = live.log.walk(offsets[again_from % offsets.len()]);
        while let Some((phys, record)) = walk.next_record() {
            restarted.dispatcher.record(phys, &record).unwrap();
        }
        let queue_files = |dir| files(dir).into_iter().filter(|(name, _)| name.starts_with("/consumequeue")).collect::<Vec<_>>();
        prop_assert_eq!(queue_files(live_dir.path()), queue_files(recovered_dir.path()));
        for queue in live.queues.all() {
            let other = restarted.queues.get(queue.topic(), queue.id()).map_or(0, |queue| queue.max_offset());
            prop_assert_eq!(queue.max_offset(), other);
        }
    }
}
