use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Five units a file.
fn options(root: &Path) -> TableOptions {
    TableOptions { root: root.to_owned(), file_size: 100, batch_file_size: 46 * 4, ext_file_size: 256, ext: false }
}

fn entry(offset: i64, phys: i64) -> Entry {
    Entry { unit: Unit { phys, size: 10, tags_code: offset }, offset, count: 1, store_timestamp: 0 }
}

fn put(queue: &Queue, offset: i64, phys: i64) -> Put {
    queue.append(&entry(offset, phys), false, None).unwrap()
}

fn phys_of(queue: &Queue) -> Vec<i64> {
    (queue.min_offset()..queue.max_offset()).map(|offset| queue.entry(offset).unwrap().unit.phys).collect()
}

fn file(root: &Path, base: i64) -> std::path::PathBuf {
    root.join(format!("consumequeue/T/0/{base:020}"))
}

#[test]
fn nothing_exists_before_the_first_entry() {
    let dir = tempfile::tempdir().unwrap();
    let table = QueueTable::load(&options(dir.path()), 0).unwrap();
    let queue = table.get_or_create("T", 0);
    assert!(Arc::ptr_eq(&queue, &table.get_or_create("T", 0)));
    assert_eq!((queue.min_offset(), queue.max_offset(), queue.max_phys()), (0, 0, -1));
    assert!(queue.entries(0).is_none() && queue.entry(0).is_none());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(table.get("T", 1).is_none());
}

#[test]
fn entries_go_over_files_and_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let table = QueueTable::empty(&options(dir.path()));
    let queue = table.get_or_create("T", 0);
    for i in 0..12 {
        assert_eq!(put(&queue, i, i * 10), Put::Written);
    }
    table.note_dirty(&queue);
    table.flush(0).unwrap();
    // One file holds five units: a read ends with its file.
    assert_eq!(queue.entries(3).unwrap().map(|entry| entry.offset).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(queue.entries(10).unwrap().count(), 2);
    assert!(queue.entries(12).is_none() && queue.entries(-1).is_none());
    assert_eq!(queue.roll(3), 5);
    let again = QueueTable::load(&options(dir.path()), 0).unwrap();
    let queue = again.get("T", 0).unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset(), queue.max_phys()), (0, 12, 120));
    assert_eq!(queue.next_offset().load(Ordering::Relaxed), 12);
    assert_eq!(queue.files.get().unwrap().mapped(), 0, "a restart maps no queue file");
    assert_eq!(phys_of(&queue), (0..12).map(|i| i * 10).collect::<Vec<_>>());
    assert!(queue.unmap_idle() > 0);
    assert_eq!(queue.unmap_idle(), 0);
    assert_eq!(put(&queue, 12, 120), Put::Written);
}

#[test]
fn known_records_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let queue = QueueTable::empty(&options(dir.path())).get_or_create("T", 0);
    put(&queue, 0, 0);
    put(&queue, 1, 10);
    // Behind the last record: by its place in the log. An offset that is taken: by its place in the queue.
    assert_eq!(put(&queue, 0, 0), Put::Known);
    assert_eq!(put(&queue, 0, 50), Put::Known);
    assert_eq!(put(&queue, 2, 50), Put::Written);
    assert_eq!(phys_of(&queue), [0, 10, 50]);
}

#[test]
fn a_queue_that_does_not_begin_at_0_is_filled_as_java_does() {
    let dir = tempfile::tempdir().unwrap();
    let queue = QueueTable::empty(&options(dir.path())).get_or_create("T", 0);
    put(&queue, 13, 700);
    assert_eq!((queue.min_offset(), queue.max_offset()), (13, 14));
    let bytes = fs::read(file(dir.path(), 200)).unwrap();
    let units: Vec<Unit> = bytes.as_chunks::<UNIT_LEN>().0.iter().map(Unit::decode).collect();
    let zero = Unit { phys: 0, size: 0, tags_code: 0 };
    assert_eq!(units, [Unit::FILLER, Unit::FILLER, Unit::FILLER, entry(13, 700).unit, zero]);
    // After a restart the fillers are not readable, even when the log begins at 0.
    let again = QueueTable::load(&options(dir.path()), 0).unwrap();
    again.correct_min(0).unwrap();
    let queue = again.get("T", 0).unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset(), queue.max_phys()), (13, 14, 710));
}

#[test]
fn missing_offsets_are_filled_so_that_units_stand_where_their_records_say() {
    let dir = tempfile::tempdir().unwrap();
    let queue = QueueTable::empty(&options(dir.path())).get_or_create("T", 0);
    put(&queue, 0, 0);
    put(&queue, 7, 100);
    assert_eq!((queue.max_offset(), queue.entry(7).unwrap().unit.phys), (8, 100));
    assert!(queue.entry(3).unwrap().unit.is_filler());
    // A number that only a damaged record can carry does not fill the disk.
    put(&queue, i64::MAX - 1, 200);
    assert_eq!((queue.max_offset(), queue.entry(8).unwrap().unit.phys), (9, 200));
}

#[test]
fn r_07_an_empty_last_file() {
    let dir = tempfile::tempdir().unwrap();
    let queue = QueueTable::empty(&options(dir.path())).get_or_create("T", 0);
    (0..5).for_each(|i| assert_eq!(put(&queue, i, i * 10), Put::Written));
    fs::write(file(dir.path(), 100), [0; 100]).unwrap();
    let table = QueueTable::load(&options(dir.path()), 0).unwrap();
    table.truncate_dirty(50).unwrap();
    table.correct_min(0).unwrap();
    let queue = table.get("T", 0).unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset()), (0, 5));
    assert_eq!(put(&queue, 5, 50), Put::Written);
    assert_eq!(queue.entry(5).unwrap().unit.phys, 50);
}

#[test]
fn odd_files() {
    let dir = tempfile::tempdir().unwrap();
    let queue = QueueTable::empty(&options(dir.path())).get_or_create("T", 0);
    (0..3).for_each(|i| assert_eq!(put(&queue, i, i * 10), Put::Written));
    // Zero length at the end: removed. Another length, or a name that is no offset: no start.
    fs::write(file(dir.path(), 100), []).unwrap();
    assert_eq!(QueueTable::load(&options(dir.path()), 0).unwrap().get("T", 0).unwrap().max_offset(), 3);
    assert!(!file(dir.path(), 100).exists());
    fs::write(file(dir.path(), 100), [0; 99]).unwrap();
    let error = QueueTable::load(&options(dir.path()), 0).unwrap_err().to_string();
    assert!(error.contains("00000000000000000100") && error.contains("99"), "{error}");
    fs::remove_file(file(dir.path(), 100)).unwrap();
    fs::write(dir.path().join("consumequeue/T/0/7"), [0; 100]).unwrap();
    assert!(QueueTable::load(&options(dir.path()), 0).is_err());
    fs::remove_file(dir.path().join("consumequeue/T/0/7")).unwrap();
    fs::create_dir_all(dir.path().join("consumequeue/T/lost+found")).unwrap();
    fs::create_dir_all(dir.path().join("consumequeue/T/0/sub")).unwrap();
    assert_eq!(QueueTable::load(&options(dir.path()), 0).unwrap().all().len(), 1);
}

/// What a start makes of the queues: topic, id, lowest and highest offset, end in the log.
fn found(table: &QueueTable) -> Vec<(String, i32, i64, i64, i64)> {
    let tell = |queue: &Arc<Queue>| {
        (queue.topic.to_string(), queue.id, queue.min_offset(), queue.max_offset(), queue.max_phys())
    };
    let mut found: Vec<_> = table.all().iter().map(tell).collect();
    found.sort();
    found
}

#[test]
fn known_files_are_found_as_listed_ones_are() {
    let dir = tempfile::tempdir().unwrap();
    let table = QueueTable::empty(&options(dir.path()));
    // Five units a file: no file, one, a full one, several, full ones.
    for (id, units) in [0, 1, 4, 5, 6, 10, 11].into_iter().enumerate() {
        let queue = table.get_or_create(["T", "Other"][id % 2], id as i32);
        (0..units).for_each(|i| assert_eq!(put(&queue, i, i * 10), Put::Written));
        table.note_dirty(&queue);
    }
    table.flush(0).unwrap();
    // One has lost its first file to the cleaner.
    assert_eq!(table.get("T", 6).unwrap().delete_expired(50).unwrap(), 1);
    fs::create_dir_all(dir.path().join("consumequeue/T/0")).unwrap();
    fs::create_dir_all(dir.path().join("consumequeue/T/sub")).unwrap();
    let known = table.fingerprint();
    let same = |known| {
        let (quick, listed) = (
            QueueTable::load(&options(dir.path()), known).unwrap(),
            QueueTable::load(&options(dir.path()), 0).unwrap(),
        );
        assert_eq!(found(&quick), found(&listed));
        assert_eq!((quick.fingerprint(), quick.files_missing()), (listed.fingerprint(), listed.files_missing()));
        (quick.fingerprint(), quick.files_missing())
    };
    assert_eq!(same(known), (known, false));
    assert_eq!(found(&QueueTable::load(&options(dir.path()), known).unwrap()), found(&table));

    let lost = |name: &str| {
        let (file, kept) = (dir.path().join("consumequeue").join(name), dir.path().join("kept"));
        fs::rename(&file, &kept).unwrap();
        assert_ne!(same(known).0, known, "{name}");
        fs::rename(&kept, &file).unwrap();
        assert_eq!(same(known), (known, false), "{name}");
    };
    let second = "00000000000000000100";
    for queue in ["Other/1", "T/2", "Other/3", "T/4", "Other/5", "T/6", "T", "Other"] {
        lost(queue);
    }
    for first in ["Other/1", "T/2", "Other/3", "T/4", "Other/5"] {
        lost(&format!("{first}/00000000000000000000"));
    }
    for later in ["T/4", "Other/5", "T/6"] {
        lost(&format!("{later}/{second}"));
    }
}

#[test]
fn a_file_that_nobody_knows_of_is_no_hindrance() {
    let dir = tempfile::tempdir().unwrap();
    let table = QueueTable::empty(&options(dir.path()));
    let queue = table.get_or_create("T", 0);
    (0..3).for_each(|i| assert_eq!(put(&queue, i, i * 10), Put::Written));
    // A power loss left the name of a second file, not that the first one was full.
    fs::write(file(dir.path(), 100), [7; 100]).unwrap();
    let again = QueueTable::load(&options(dir.path()), table.fingerprint()).unwrap();
    again.truncate_dirty(30).unwrap();
    let queue = again.get("T", 0).unwrap();
    assert_eq!(queue.max_offset(), 3);
    (3..7).for_each(|i| assert_eq!(put(&queue, i, i * 10), Put::Written));
    assert_eq!(phys_of(&queue), [0, 10, 20, 30, 40, 50, 60]);
    assert_eq!(fs::metadata(file(dir.path(), 100)).unwrap().len(), 100);
}

#[test]
fn truncation_follows_the_log() {
    for (end, expected) in
        [(1000, 12), (120, 12), (119, 12), (110, 11), (101, 11), (100, 10), (50, 5), (49, 5), (1, 1), (0, 0)]
    {
        let dir = tempfile::tempdir().unwrap();
        let table = QueueTable::empty(&options(dir.path()));
        let queue = table.get_or_create("T", 0);
        (0..12).for_each(|i| assert_eq!(put(&queue, i, i * 10), Put::Written));
        table.truncate_dirty(end).unwrap();
        assert_eq!(queue.max_offset(), expected, "{end}");
        assert_eq!(queue.next_offset().load(Ordering::Relaxed), expected);
        assert_eq!(phys_of(&queue), (0..expected).map(|i| i * 10).collect::<Vec<_>>());
        // Nothing of what was cut comes back.
        let again = QueueTable::load(&options(dir.path()), 0).unwrap().get("T", 0).unwrap();
        assert_eq!((again.max_offset(), again.max_phys()), (expected, if expected == 0 { -1 } else { expected * 10 }));
        assert_eq!(put(&again, expected, end as i64 + 10), Put::Written);
    }
}

#[test]
fn the_lowest_offset_follows_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let table = QueueTable::empty(&options(dir.path()));
    let queue = table.get_or_create("T", 0);
    (0..12).for_each(|i| assert_eq!(put(&queue, i, i * 10), Put::Written));
    table.correct_min(35).unwrap();
    assert_eq!(queue.min_offset(), 4);
    assert!(queue.entries(3).is_none());
    assert_eq!(table.delete_expired(51).unwrap(), 1);
    assert!(!file(dir.path(), 0).exists());
    assert_eq!(queue.min_offset(), 6);
    // The last file stays, and a queue without records keeps its position.
    assert_eq!(table.delete_expired(5000).unwrap(), 1);
    assert_eq!((queue.min_offset(), queue.max_offset()), (12, 12));
    let again = QueueTable::load(&options(dir.path()), 0).unwrap();
    again.correct_min(5000).unwrap();
    let queue = again.get("T", 0).unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset()), (12, 12));
    assert_eq!(put(&queue, 12, 6000), Put::Written);
    assert_eq!(phys_of(&queue), [6000]);
}

#[test]
fn s_01_search_by_time() {
    let dir = tempfile::tempdir().unwrap();
    let queue = QueueTable::empty(&options(dir.path())).get_or_create("T", 0);
    (0..5).for_each(|i| assert_eq!(put(&queue, i, i * 10), Put::Written));
    let (t1, t2) = (1000, 1005);
    let time_of = |unit: &Unit| if unit.phys < 30 { t1 } else { t2 };
    let search =
        |bound| [t1 - 1, t1, t1 + 1, t2 - 1, t2, t2 + 1].map(|time| queue.offset_by_time(time, bound, time_of));
    assert_eq!(search(Bound::Lower), [0, 0, 3, 3, 3, 5]);
    assert_eq!(search(Bound::Upper), [0, 2, 2, 2, 4, 4]);
    let empty = QueueTable::empty(&options(dir.path())).get_or_create("U", 0);
    assert_eq!(empty.offset_by_time(5, Bound::Lower, time_of), 0);
}

#[test]
fn batch_topics() {
    let dir = tempfile::tempdir().unwrap();
    let table = QueueTable::empty(&options(dir.path()));
    let queue = table.get_or_create("T", 0);
    let batch = |offset, count, phys| Entry {
        count,
        offset,
        unit: Unit { phys, size: 10, tags_code: 0 },
        store_timestamp: 1000 + phys,
    };
    let mut offset = 0;
    for (i, count) in [3, 4, 5, 6, 7, 8].into_iter().enumerate() {
        assert_eq!(queue.append(&batch(offset, count, i as i64 * 10), true, None).unwrap(), Put::Written);
        offset += i64::from(count);
    }
    assert_eq!(queue.append(&batch(0, 3, 0), true, None).unwrap(), Put::Known);
    assert_eq!(queue.append(&entry(40, 500), false, None).unwrap(), Put::Known, "the other kind");
    let check = |queue: &Queue| {
        assert_eq!((queue.min_offset(), queue.max_offset()), (0, 33));
        assert_eq!(queue.next_offset().load(Ordering::Relaxed), 33);
        for (offset, base) in [(0, 0), (2, 0), (3, 3), (6, 3), (7, 7), (17, 12), (18, 18), (32, 25)] {
            assert_eq!(queue.entry(offset).unwrap().offset, base, "{offset}");
        }
        assert!(queue.entry(33).is_none());
        assert_eq!(queue.offset_by_time(1011, Bound::Lower, |_| -1), 7);
        assert_eq!(queue.offset_by_time(1011, Bound::Upper, |_| -1), 3);
    };
    check(&queue);
    let again = QueueTable::load(&options(dir.path()), 0).unwrap();
    let queue = again.get("T", 0).unwrap();
    check(&queue);
    again.correct_min(15).unwrap();
    assert_eq!(queue.min_offset(), 7);
    again.truncate_dirty(40).unwrap();
    assert_eq!((queue.max_offset(), queue.max_phys()), (18, 40));
}

#[test]
fn a_deleted_topic_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let table = QueueTable::empty(&options(dir.path()));
    let old = table.get_or_create("T", 0);
    put(&old, 0, 0);
    table.note_dirty(&old);
    table.delete_topic("T").unwrap();
    assert!(old.is_deleted() && table.get("T", 0).is_none() && !dir.path().join("consumequeue/T").exists());
    assert_eq!(put(&old, 1, 10), Put::Known);
    table.flush(0).unwrap();
    assert!(!dir.path().join("consumequeue/T").exists());
    let fresh = table.get_or_create("T", 0);
    assert_eq!(put(&fresh, 0, 20), Put::Written);
    assert_eq!(phys_of(&fresh), [20]);
}

#[test]
fn a_topic_may_be_deleted_while_its_queues_are_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let table = QueueTable::empty(&options(dir.path()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for phys in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let queue = table.get_or_create("T", 0);
                if put(&queue, queue.max_offset(), phys) == Put::Written {
                    table.note_dirty(&queue);
                }
            }
        });
        for _ in 0..300 {
            if let Err(error) = table.delete_topic("T").and_then(|()| table.flush(0)) {
                stop.store(true, Ordering::Relaxed);
                panic!("{error}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    table.flush(0).unwrap();
}

#[test]
fn a_left_over_file_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let queue = QueueTable::empty(&options(dir.path())).get_or_create("T", 0);
    fs::create_dir_all(dir.path().join("consumequeue/T/0")).unwrap();
    fs::write(file(dir.path(), 0), [9; 100]).unwrap();
    assert_eq!(put(&queue, 0, 0), Put::Written);
    assert_eq!(fs::read(file(dir.path(), 0)).unwrap()[20..], [0; 80]);
}

/// Very many queues: a start maps none of their files, and looks at little of each.
#[test]
fn many_queues_are_loaded_without_mapping_them() {
    let dir = tempfile::tempdir().unwrap();
    let unit = entry(0, 0).unit.encode();
    for id in 0..2000 {
        let queue = dir.path().join(format!("consumequeue/T/{id}"));
        fs::create_dir_all(&queue).unwrap();
        let file = fs::File::create(queue.join("0".repeat(20))).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &unit, 0).unwrap();
        file.set_len(6_000_000).unwrap();
    }
    let options = TableOptions { file_size: 6_000_000, ..options(dir.path()) };
    let table = QueueTable::load(&options, 0).unwrap();
    table.truncate_dirty(10).unwrap();
    table.correct_min(0).unwrap();
    let queues = table.all();
    assert_eq!(queues.len(), 2000);
    assert!(queues.iter().all(|queue| queue.max_offset() == 1 && queue.files.get().unwrap().mapped() == 0));
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let here = dir.path().to_str().unwrap();
    assert_eq!(maps.lines().filter(|line| line.contains(here)).count(), 0);
}

#[test]
fn flush_waits_for_enough() {
    let dir = tempfile::tempdir().unwrap();
    let table = QueueTable::empty(&options(dir.path()));
    let queue = table.get_or_create("T", 0);
    put(&queue, 0, 0);
    table.note_dirty(&queue);
    table.flush(40).unwrap();
    assert_eq!((table.dirty.lock().len(), queue.flushed.load(Ordering::Relaxed)), (1, 0));
    put(&queue, 1, 10);
    table.note_dirty(&queue);
    table.flush(40).unwrap();
    assert_eq!((table.dirty.lock().len(), queue.flushed.load(Ordering::Relaxed)), (1, 2));
}

/// Of many queues with a little to flush none is looked at, until one has enough.
#[test]
fn only_queues_with_enough_are_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let table = QueueTable::empty(&options(dir.path()));
    let queues: Vec<_> = (0..50).map(|id| table.get_or_create("T", id)).collect();
    let flushed = || queues.iter().filter(|queue| queue.flushed.load(Ordering::Relaxed) > 0).count();
    let add = |queue: &Arc<Queue>, offset| {
        put(queue, offset, offset * 10);
        table.note_dirty(queue);
    };
    table.flush(40).unwrap();
    queues.iter().for_each(|queue| add(queue, 0));
    table.flush(40).unwrap();
    assert_eq!(flushed(), 0);
    (1..4).for_each(|offset| add(&queues[7], offset));
    table.flush(40).unwrap();
    assert_eq!((flushed(), queues[7].flushed.load(Ordering::Relaxed)), (1, 4));
    // What it gets then is new.
    add(&queues[7], 4);
    table.flush(40).unwrap();
    assert_eq!(queues[7].flushed.load(Ordering::Relaxed), 4);
    // Some have as much as is asked for now.
    table.flush(20).unwrap();
    assert_eq!((flushed(), queues[7].flushed.load(Ordering::Relaxed)), (50, 5));
    assert_eq!(table.dirty.lock().len(), 50);
    table.flush(0).unwrap();
    assert_eq!(table.dirty.lock().len(), 0);
}

proptest! {
    /// Against a list: appends, truncation, expiry and restarts in any order.
    #[test]
    fn model(operations in prop::collection::vec((0..5u8, 0..40u64), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let mut table = QueueTable::empty(&options(dir.path()));
        // Physical offsets of all units since 0, the lowest that is readable, and where the log begins and ends.
        let (mut units, mut min, mut log_min, mut log_end) = (Vec::<u64>::new(), 0usize, 0u64, 0u64);
        for (what, n) in operations {
            let queue = table.get_or_create("T", 0);
            match what {
                0 | 1 => for _ in 0..n % 9 {
                    prop_assert_eq!(put(&queue, units.len() as i64, log_end as i64), Put::Written);
                    units.push(log_end);
                    log_end += 10 + n;
                },
                2 => {
                    table = QueueTable::load(&options(dir.path()), 0).unwrap();
                    table.correct_min(log_min).unwrap();
                }
                3 => {
                    let end = log_end.saturating_sub(n * 2).max(log_min);
                    // What a crash leaves: the log ends earlier, at the end of a record.
                    let end = units.iter().map(|phys| phys + 10).filter(|&e| e <= end).max().unwrap_or(log_min).max(log_min);
                    let keep = units.iter().take_while(|&&phys| phys < end).count();
                    if keep > min {
                        table.truncate_dirty(end).unwrap();
                        units.truncate(keep);
                        log_end = end;
                    }
                }
                _ => {
                    log_min = log_end.min(log_min + n);
                    table.delete_expired(log_min).unwrap();
                }
            }
            min = units.iter().take_while(|&&phys| phys < log_min).count().max(min);
            let queue = table.get_or_create("T", 0);
            prop_assert_eq!((queue.min_offset(), queue.max_offset()), (min as i64, units.len() as i64));
            let expected: Vec<i64> = units[min..].iter().map(|&phys| phys as i64).collect();
            prop_assert_eq!(phys_of(&queue), expected);
        }
    }
}
