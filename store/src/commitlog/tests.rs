use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use proptest::prelude::*;

use super::recover::Checks;
use super::*;
use crate::error::AppendError;
use crate::progress::Progress;
use crate::record::{BLANK_MAGIC, MIN_RECORD, RecordError, RecordView, sys_flag};
use crate::store::{Appended, Inner, NewMessage};

const FILE: usize = 4096;
const CHECKS: Checks = Checks { crc: true, crc_property: false, torn: false };

fn limits() -> AppendLimits {
    AppendLimits {
        max_body: 3000,
        long_topics: true,
        crc_property: false,
        store_host: SocketAddr::from(([127, 0, 0, 1], 10911)),
    }
}

fn message(body: &[u8]) -> NewMessage<'_> {
    NewMessage {
        flag: 7,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: SocketAddr::from(([10, 0, 0, 1], 4000)),
        reconsume_times: 0,
        prepared_transaction_offset: 5,
        properties: b"TAGS\x01a\x02",
        body,
    }
}

fn append(log: &CommitLog, next: &AtomicI64, body: &[u8]) -> Result<Appended, AppendError> {
    log.append(NextOffset { topic: "T", queue_id: 2, next }, &message(body), &limits())
}

fn batch(log: &CommitLog, next: &AtomicI64, bodies: &[&[u8]]) -> (Result<Appended, AppendError>, Vec<u64>) {
    let inner: Vec<_> = bodies.iter().map(|body| Inner { flag: 1, properties: b"", body }).collect();
    let mut each = Vec::new();
    let batch = Batch { common: &message(b""), inner: &inner };
    let queue = NextOffset { topic: "T", queue_id: 2, next };
    (log.append_batch(queue, &batch, &limits(), &mut |phys| each.push(phys)), each)
}

/// Opens and recovers.
fn open(dir: &Path) -> CommitLog {
    let log = CommitLog::load(dir.join("commitlog"), FILE).unwrap();
    let end = log.find_end(log.file_to_recover_from(|_, _| false, CHECKS), CHECKS, Progress::new("", 0, 0));
    log.truncate(end.offset).unwrap();
    log
}

fn bodies(log: &CommitLog) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    let mut walk = log.walk(0);
    while let Some((phys, view)) = walk.next_record() {
        assert_eq!(view.phys_offset() as u64, phys);
        found.push((phys, view.body().to_vec()));
    }
    assert_eq!(walk.error(), None);
    found
}

#[test]
fn appended_records_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    assert_eq!(log.range(), 0..0);
    let next = AtomicI64::new(41);
    let first = append(&log, &next, b"one").unwrap();
    let second = append(&log, &next, b"").unwrap();
    assert_eq!((first.phys_offset, first.queue_offset, second.queue_offset), (0, 41, 42));
    assert_eq!((first.end, second.end), (second.phys_offset, log.wrote().get()));
    let slice = log.record_at(first.phys_offset).unwrap();
    let view = RecordView::parse(&slice).unwrap();
    assert_eq!((view.topic(), view.queue_id(), view.flag(), view.body()), ("T", 2, 7, &b"one"[..]));
    assert_eq!((view.store_timestamp(), view.prepared_transaction_offset()), (first.store_timestamp, 5));
    assert!(view.body_crc_fits());
    assert!(log.record_at(1).is_none());
    assert!(log.record_at(log.wrote().get()).is_none());
    assert_eq!(bodies(&log).len(), 2);
}

#[test]
fn half_messages_use_no_queue_offset() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let next = AtomicI64::new(3);
    for (kind, offset) in [
        (sys_flag::TRANSACTION_PREPARED, 0),
        (sys_flag::TRANSACTION_ROLLBACK, 0),
        (sys_flag::TRANSACTION_COMMIT, 3),
        (0, 4),
    ] {
        let message = NewMessage { sys_flag: kind, ..message(b"x") };
        let appended = log.append(NextOffset { topic: "T", queue_id: 0, next: &next }, &message, &limits()).unwrap();
        assert_eq!(appended.queue_offset, offset);
    }
}

#[test]
fn a_blank_record_closes_each_file() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let next = AtomicI64::new(0);
    let body = [b'x'; 1500];
    let offsets: Vec<_> = (0..5).map(|_| append(&log, &next, &body).unwrap().phys_offset).collect();
    assert_eq!(offsets[2], FILE as u64);
    assert_eq!(offsets[4], 2 * FILE as u64);
    let first = log.segments().first().unwrap();
    let blank = &first.bytes()[offsets[1] as usize * 2..];
    assert_eq!(blank[..4], (blank.len() as u32).to_be_bytes());
    assert_eq!(blank[4..8], BLANK_MAGIC.to_be_bytes());
    assert!(blank[8..].iter().all(|&byte| byte == 0));
    assert_eq!(bodies(&log).len(), 5);
    // A record may leave exactly the blank record's 8 bytes, no fewer.
    for (missing, rolls) in [(8, false), (7, true)] {
        let dir = tempfile::tempdir().unwrap();
        let log = open(dir.path());
        let used = append(&log, &next, &[0; 2900]).unwrap().end as usize;
        let len = FILE - used - missing;
        let appended = append(&log, &next, &vec![0; len - (MIN_RECORD + 1 + 7)]).unwrap();
        assert_eq!((appended.phys_offset >= FILE as u64, (appended.end - appended.phys_offset) as usize), (rolls, len));
    }
}

#[test]
fn limits_are_checked_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let next = AtomicI64::new(0);
    assert!(matches!(append(&log, &next, &[0; 3001]), Err(AppendError::TooLarge { size: 3001, limit: 3000 })));
    let long = vec![b'a'; 32_768];
    let wide = NewMessage { properties: &long, ..message(b"") };
    let queue = NextOffset { topic: "T", queue_id: 0, next: &next };
    assert!(matches!(log.append(queue, &wide, &limits()), Err(AppendError::PropertiesTooLong(32_768))));
    // Fits every limit but not a file.
    let wide = NewMessage { properties: &long[..4000], ..message(b"") };
    assert!(matches!(log.append(queue, &wide, &limits()), Err(AppendError::TooLarge { limit: FILE, .. })));
    let topic = "t".repeat(40_000);
    let queue = NextOffset { topic: &topic, ..queue };
    assert!(matches!(log.append(queue, &message(b""), &limits()), Err(AppendError::TopicTooLong(_))));
    assert!(matches!(batch(&log, &next, &[]).0, Err(AppendError::TooLarge { .. })));
    assert!(matches!(batch(&log, &next, &[&[0; 2500], &[0; 2500]]).0, Err(AppendError::TooLarge { limit: FILE, .. })));
    log.refuse("test");
    log.refuse("later");
    assert!(matches!(append(&log, &next, b""), Err(AppendError::NotWritable("test"))));
    assert_eq!((log.range(), next.load(Ordering::Relaxed)), (0..0, 0));
}

#[test]
fn a_batch_is_consecutive_and_in_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let next = AtomicI64::new(10);
    append(&log, &next, &[0; 2000]).unwrap();
    let (appended, each) = batch(&log, &next, &[&[1; 900], &[2; 900], &[3; 900]]);
    let appended = appended.unwrap();
    assert_eq!((appended.queue_offset, appended.phys_offset), (11, FILE as u64));
    assert_eq!((next.load(Ordering::Relaxed), appended.end), (14, log.wrote().get()));
    assert_eq!(each, bodies(&log)[1..].iter().map(|(phys, _)| *phys).collect::<Vec<_>>());
    for (i, phys) in each.iter().enumerate() {
        let slice = log.record_at(*phys).unwrap();
        let view = RecordView::parse(&slice).unwrap();
        assert_eq!((view.queue_offset(), view.store_timestamp()), (11 + i as i64, appended.store_timestamp));
        assert_eq!((view.flag(), view.prepared_transaction_offset()), (1, 0));
    }
}

#[test]
fn the_next_file_is_made_ahead_and_an_unused_one_removed() {
    let dir = tempfile::tempdir().unwrap();
    let log = Arc::new(open(dir.path()));
    let thread = {
        let log = Arc::clone(&log);
        std::thread::spawn(move || log.prepare())
    };
    let next = AtomicI64::new(0);
    let path = log.segments().path_of(FILE as u64);
    append(&log, &next, &[0; 2500]).unwrap();
    assert!(!path.exists());
    append(&log, &next, &[0; 1000]).unwrap();
    wait_for(|| path.exists());
    append(&log, &next, &[0; 1000]).unwrap();
    assert_eq!(log.wrote().get() / FILE as u64, 1);
    append(&log, &next, &[0; 2600]).unwrap();
    let path = log.segments().path_of(2 * FILE as u64);
    wait_for(|| path.exists());
    log.refuse("over");
    log.stop_preparing().unwrap();
    thread.join().unwrap();
    assert!(!path.exists());
    assert_eq!(bodies(&log).len(), 4);
}

fn wait_for(condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed().as_secs() < 20, "waited too long");
        std::thread::yield_now();
    }
}

#[test]
fn threads_append_without_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let next = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (log, next) = (&log, &next);
            scope.spawn(move || {
                for i in 0..200 {
                    append(log, next, &vec![thread; i % 50]).unwrap();
                }
            });
        }
        // A reader meanwhile sees whole records only.
        let mut walk = log.walk(0);
        let mut seen = 0;
        while seen < 800 {
            while let Some((_, view)) = walk.next_record() {
                assert!(view.body_crc_fits());
                assert_eq!(view.queue_offset(), seen);
                seen += 1;
            }
            assert_eq!(walk.error(), None);
            std::thread::yield_now();
        }
    });
}

#[test]
fn recovery_starts_where_told_and_stops_at_the_first_damage() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let next = AtomicI64::new(0);
    for _ in 0..8 {
        append(&log, &next, &[9; 1500]).unwrap();
    }
    let record = bodies(&log)[1].0;
    drop(log);
    let log = CommitLog::load(dir.path().join("commitlog"), FILE).unwrap();
    let file = FILE as u64;
    assert_eq!(log.file_to_recover_from(|phys, _| phys <= 2 * file, CHECKS), 2 * file);
    assert_eq!(log.file_to_recover_from(|phys, _| phys < 2 * file, CHECKS), file);
    assert_eq!(log.file_to_recover_from(|_, _| false, CHECKS), 0);
    let end = log.find_end(2 * file, CHECKS, Progress::new("", 0, 0));
    assert_eq!(
        (end.offset, end.last_record, end.reason),
        (3 * file + 2 * record, Some(3 * file + record), Some(RecordError::Magic(0)))
    );
    // A damaged body in the second file.
    let path = log.segments().path_of(file);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"!", record + 200).unwrap();
    let end = log.find_end(0, CHECKS, Progress::new("", 0, 0));
    assert_eq!((end.offset, end.reason), (file + record, Some(RecordError::Crc)));
    let end = log.find_end(0, Checks { crc: false, ..CHECKS }, Progress::new("", 0, 0));
    assert_eq!(end.reason, Some(RecordError::Magic(0)));
    log.truncate(file + record).unwrap();
    assert_eq!((bodies(&log).len(), log.range()), (3, 0..file + record));
    assert!(!log.segments().path_of(2 * file).exists());
}

/// What happens to a log.
#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Batch(Vec<usize>),
    Reopen,
    /// A crash that leaves this many of the last bytes wrong, in a way.
    TearTail(u64, Damage),
    DeleteFirst,
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Zeros,
    Noise(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let damage = prop_oneof![Just(Damage::Zeros), any::<u8>().prop_map(Damage::Noise)];
    let step = prop_oneof![
        6 => (0usize..2500).prop_map(Step::Append),
        2 => prop::collection::vec(0usize..900, 1..4).prop_map(Step::Batch),
        1 => Just(Step::Reopen),
        1 => (1u64..400, damage).prop_map(|(len, damage)| Step::TearTail(len, damage)),
        1 => Just(Step::DeleteFirst),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn the_log_is_a_list_of_records(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let mut log = open(dir.path());
        let next = AtomicI64::new(0);
        let mut model: Vec<(u64, Vec<u8>)> = Vec::new();
        for (number, step) in (0u8..).zip(steps) {
            match step {
                Step::Append(len) => {
                    let body = vec![number; len];
                    let appended = append(&log, &next, &body).unwrap();
                    prop_assert!(appended.phys_offset >= model.last().map_or(0, |(phys, _)| phys + 1));
                    model.push((appended.phys_offset, body));
                }
                Step::Batch(lens) => {
                    let list: Vec<_> = lens.iter().map(|len| vec![number; *len]).collect();
                    let (appended, each) = batch(&log, &next, &list.iter().map(|body| &body[..]).collect::<Vec<_>>());
                    prop_assert!(appended.is_ok());
                    model.extend(each.into_iter().zip(list));
                }
                Step::Reopen => {
                    let before = log.range();
                    drop(log);
                    log = open(dir.path());
                    prop_assert_eq!(log.range(), before);
                }
                Step::TearTail(len, damage) => {
                    let range = log.range();
                    let Some(last) = log.segments().last() else { continue };
                    let from = range.end.saturating_sub(len).max(last.base());
                    let bytes = match damage {
                        Damage::Zeros => vec![0; (range.end - from) as usize],
                        Damage::Noise(byte) => vec![byte | 1; (range.end - from) as usize],
                    };
                    let path = last.path().to_owned();
                    drop((last, log));
                    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                    file.write_all_at(&bytes, from % FILE as u64).unwrap();
                    log = open(dir.path());
                    // Records that ended before the damage are all there; of the damaged ones only those that the
                    // damage happened to leave as they were.
                    let kept = bodies(&log).len();
                    prop_assert!(log.range().end <= range.end);
                    prop_assert!(model.iter().skip(kept).all(|(phys, body)| phys + (MIN_RECORD + 8 + body.len()) as u64 > from));
                    model.truncate(kept);
                    // Nothing of the old may be behind the end.
                    if let Some(last) = log.segments().last() {
                        let file = std::fs::read(last.path()).unwrap();
                        prop_assert!(file[last.published()..].iter().all(|&byte| byte == 0));
                    }
                }
                Step::DeleteFirst => {
                    log.segments().delete_before(log.range().start + FILE as u64).unwrap();
                    let start = log.range().start;
                    model.retain(|(phys, _)| *phys >= start);
                }
            }
            prop_assert_eq!(bodies(&log), model.clone());
        }
    }
}
