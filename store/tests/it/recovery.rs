//! What a restart finds after a clean stop, a kill, and damage. Named after the cases that they reproduce.
//!
//! A kill is a copy of the directory taken while the store is open: exactly what the page cache would leave.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::faults_support;
use config::{Live, MessageStoreConfig};
use store::record::RecordView;
use store::{All, Appended, ReadRequest, ReadResult, ReadStatus, Store, StoreError, StoreOptions};

const LOG_FILE: i32 = 64 * 1024;
const QUEUE_FILE: i32 = 2000;

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    /// What a SIGKILL at this moment leaves.
    fn killed(&self) -> Dir {
        let copy = Dir::new();
        copy_tree(self.0.path(), copy.0.path());
        copy
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn log_file(&self, base: u64) -> PathBuf {
        self.path(&format!("commitlog/{base:020}"))
    }

    fn try_open(&self) -> Result<Arc<Store>, StoreError> {
        let config = MessageStoreConfig {
            store_path_root_dir: self.0.path().to_str().unwrap().to_owned(),
            mapped_file_size_commit_log: LOG_FILE,
            mapped_file_size_consume_queue: QUEUE_FILE,
            max_hash_slot_num: 100,
            max_index_num: 400,
            ..MessageStoreConfig::default()
        };
        Store::open(StoreOptions {
            config: Arc::new(Live::new(config)),
            store_host: SocketAddr::from(([127, 0, 0, 1], 10911)),
            arrived: None,
            filter_bits: None,
        })
    }

    fn open(&self) -> Arc<Store> {
        self.try_open().unwrap()
    }
}

/// Copies like `cp -r --sparse=always`.
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A message whose record has exactly `size` bytes.
fn send_sized(store: &Store, topic: &str, key: &str, size: usize) -> Appended {
    let fixed = 91 + topic.len() + "KEYS".len() + key.len() + 2;
    let appended = faults_support::send(store, topic, 0, key, &vec![b'x'; size - fixed]);
    assert_eq!(appended.end - appended.phys_offset, size as u64);
    appended
}

fn send(store: &Store, topic: &str, key: &str) -> Appended {
    faults_support::send(store, topic, 0, key, format!("body of {key}").as_bytes())
}

/// The readable messages of a queue: (queue offset, physical offset, key).
fn read(store: &Store, topic: &str) -> Vec<(i64, u64, String)> {
    let Some(queue) = store.queue(topic, 0) else { return Vec::new() };
    let mut found = Vec::new();
    let mut offset = queue.min_offset();
    while offset < queue.max_offset() {
        let mut result = ReadResult::default();
        let request = ReadRequest { offset, max_messages: 32, max_bytes: 1 << 20 };
        store.read(&queue, &request, &All, &mut result);
        assert_eq!(result.status, ReadStatus::Found, "at {offset}");
        assert!(result.next_offset > offset);
        for slice in &result.records {
            let view = RecordView::parse(slice).unwrap();
            assert!(view.body_crc_fits());
            assert_eq!(view.topic(), topic);
            found.push((view.queue_offset(), view.phys_offset() as u64, view.keys().unwrap().to_owned()));
        }
        offset = result.next_offset;
    }
    found
}

fn found_by_key(store: &Store, topic: &str, key: &str) -> usize {
    store.query(topic, key, 10, 0..i64::MAX).records.len()
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn invert(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

fn offsets(messages: &[(i64, u64, String)]) -> Vec<i64> {
    messages.iter().map(|(offset, ..)| *offset).collect()
}

#[test]
fn clean_stop() {
    let dir = Dir::new();
    let store = dir.open();
    for i in 0..300 {
        send_sized(&store, "T", &format!("k{i}"), 1000);
    }
    assert!(dir.path("abort").exists());
    let before = read(&store, "T");
    let range = store.log_range();
    store.close();
    store.close();
    assert!(!dir.path("abort").exists());
    assert!(store.append(&store.queue_or_create("T", 0), &faults_support::message(b"", b"late")).is_err());
    drop(store);
    let store = dir.open();
    assert_eq!((read(&store, "T"), store.log_range()), (before, range));
    assert_eq!(store.flushed().get(), store.log_range().end);
    assert_eq!(send(&store, "T", "next").queue_offset, 300);
    assert_eq!(found_by_key(&store, "T", "k3"), 1);
}

#[test]
fn one_store_a_directory() {
    let dir = Dir::new();
    let store = dir.open();
    assert!(matches!(dir.try_open(), Err(StoreError::Locked { .. })));
    store.close();
    dir.open();
}

/// Takes the lock as Java's `FileChannel.tryLock` does, tells what came of it, and holds it until its input ends. Does nothing
/// in the ordinary run of all tests.
#[test]
fn the_process_with_the_lock() {
    let Ok(path) = std::env::var("STORE_LOCK") else { return };
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
    let taken = rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok();
    println!("\nlock {taken}");
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn one_store_a_directory_whoever_has_it() {
    let dir = Dir::new();
    dir.open().close();
    let other = || {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "recovery::the_process_with_the_lock", "--nocapture"])
            .env("STORE_LOCK", dir.path("lock"))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = lines.map_while(Result::ok).find(|line| line.starts_with("lock ")).unwrap();
        (process, said == "lock true")
    };
    let (mut process, taken) = other();
    assert!(taken);
    assert!(matches!(dir.try_open(), Err(StoreError::Locked { .. })));
    drop(process.stdin.take());
    process.wait().unwrap();
    let store = dir.open();
    let (mut process, taken) = other();
    assert!(!taken);
    drop(process.stdin.take());
    process.wait().unwrap();
    store.close();
}

#[test]
fn r_01_bad_crc_at_the_tail() {
    let dir = Dir::new();
    let store = dir.open();
    let sent: Vec<_> = (0..11).map(|i| send(&store, "T", &format!("k{i}"))).collect();
    let dir = dir.killed();
    invert(&dir.log_file(0), sent[10].phys_offset + 90);
    let store = dir.open();
    assert_eq!(store.queue("T", 0).unwrap().max_offset(), 10);
    assert_eq!(store.log_range().end, sent[10].phys_offset);
    assert_eq!(offsets(&read(&store, "T")), (0..10).collect::<Vec<_>>());
    let next = send(&store, "T", "new");
    assert_eq!((next.queue_offset, next.phys_offset), (10, sent[10].phys_offset));
    assert_eq!(read(&store, "T").last().unwrap().2, "new");
    assert_eq!(found_by_key(&store, "T", "k10"), 0);
    assert_eq!(found_by_key(&store, "T", "new"), 1);
}

#[test]
fn r_03_damage_in_the_middle() {
    let dir = Dir::new();
    let store = dir.open();
    for i in 0..10 {
        send_sized(&store, "T", &format!("k{i}"), 220);
    }
    let dir = dir.killed();
    invert(&dir.log_file(0), 5 * 220 + 90);
    let store = dir.open();
    assert_eq!((store.queue("T", 0).unwrap().max_offset(), store.log_range().end), (5, 1100));
    let next = send_sized(&store, "T", "new", 220);
    assert_eq!((next.queue_offset, next.phys_offset), (5, 1100));
    assert_eq!(read(&store, "T").last().unwrap(), &(5, 1100, "new".to_owned()));
    assert_eq!((found_by_key(&store, "T", "k8"), found_by_key(&store, "T", "k2")), (0, 1));
    // Old records of the same size follow in the file as it was: none may come back after the next kill.
    let dir = dir.killed();
    let store = dir.open();
    assert_eq!((store.queue("T", 0).unwrap().max_offset(), store.log_range().end), (6, 1320));
}

#[test]
fn r_04_illegal_record_head() {
    for (at, bytes) in
        [(4, [0xde, 0xad, 0xbe, 0xef]), (0, (-100i32).to_be_bytes()), (0, i32::MAX.to_be_bytes()), (0, [0; 4])]
    {
        let dir = Dir::new();
        let store = dir.open();
        let sent: Vec<_> = (0..4).map(|i| send(&store, "T", &format!("k{i}"))).collect();
        let dir = dir.killed();
        overwrite(&dir.log_file(0), sent[3].phys_offset + at, &bytes);
        let store = dir.open();
        assert_eq!(offsets(&read(&store, "T")), [0, 1, 2]);
        assert_eq!(send(&store, "T", "new").queue_offset, 3);
        assert_eq!(read(&store, "T").len(), 4);
    }
}

#[test]
fn r_05_sigkill() {
    let dir = Dir::new();
    let store = dir.open();
    for i in 0..10 {
        send(&store, "T", &format!("ka{i}"));
    }
    let (before, end) = (read(&store, "T"), store.log_range().end);
    let dir = dir.killed();
    assert!(dir.path("abort").exists());
    let store = dir.open();
    assert_eq!(read(&store, "T"), before);
    assert_eq!(found_by_key(&store, "T", "ka3"), 1);
    let next = send(&store, "T", "new");
    assert_eq!((next.queue_offset, next.phys_offset), (10, end));
}

/// Files of the index that were full are on disk and stay, the last one is made again from the log: no key is missing,
/// whatever the checkpoint says of the queues.
#[test]
fn r_05_every_key_after_a_kill() {
    for synced in [0, 900, 1000] {
        let dir = Dir::new();
        let store = dir.open();
        send(&store, "Gone", "gone");
        store.delete_topic("Gone");
        for i in 0..1000 {
            send_sized(&store, "T", &format!("k{i}"), 220);
            if i + 1 == synced {
                // Queues and checkpoint are safe up to here, the last file of the index is not.
                store.sync_all().unwrap();
            }
        }
        let dir = dir.killed();
        for life in 0..2 {
            let store = dir.open();
            let missing: Vec<_> = (0..1000).filter(|i| found_by_key(&store, "T", &format!("k{i}")) != 1).collect();
            assert!(missing.is_empty(), "synced {synced}, life {life}: {missing:?}");
            assert_eq!(read(&store, "T").len(), 1000 + life);
            // It is read again for the index, but the queues of a deleted topic do not come back with it.
            assert!(synced == 0 || store.queue("Gone", 0).is_none());
            assert!(life == 0 || found_by_key(&store, "T", "later0") == 1);
            send(&store, "T", &format!("later{life}"));
            assert_eq!(found_by_key(&store, "T", &format!("later{life}")), 1);
            store.close();
        }
    }
}

/// The index may be on disk when the end of the log is not.
#[test]
fn an_index_that_knows_more_than_the_log() {
    for clean in [true, false] {
        let dir = Dir::new();
        let store = dir.open();
        let sent: Vec<_> = (0..850).map(|i| send_sized(&store, "T", &format!("k{i}"), 220)).collect();
        store.close();
        drop(store);
        let cut = sent[820].phys_offset;
        invert(&dir.log_file(cut / LOG_FILE as u64 * LOG_FILE as u64), cut % LOG_FILE as u64 + 4);
        if !clean {
            fs::write(dir.path("abort"), "1").unwrap();
        }
        let store = dir.open();
        assert_eq!(read(&store, "T").len(), 820);
        let missing: Vec<_> = (0..820).filter(|i| found_by_key(&store, "T", &format!("k{i}")) != 1).collect();
        assert!(missing.is_empty(), "clean {clean}: {missing:?}");
        send(&store, "T", "new");
        assert_eq!(found_by_key(&store, "T", "new"), 1);
    }
}

/// RB: 130 messages in the first file; RC: 600 in all.
fn two_topics(dir: &Dir) -> Arc<Store> {
    let store = dir.open();
    for i in 0..600 {
        if i < 130 {
            send_sized(&store, "RB", &format!("b{i}"), 220);
        }
        send_sized(&store, "RC", &format!("c{i}"), 220);
    }
    assert!(store.log().segments().snapshot().len() >= 3);
    assert!(read(&store, "RB").last().unwrap().1 < LOG_FILE as u64);
    store
}

#[test]
fn r_06_lost_queue_files_after_a_clean_stop() {
    let dir = Dir::new();
    let store = two_topics(&dir);
    let before = (read(&store, "RB"), read(&store, "RC"));
    store.close();
    drop(store);
    fs::remove_dir_all(dir.path("consumequeue/RB")).unwrap();
    let store = dir.open();
    assert_eq!((read(&store, "RB"), read(&store, "RC")), before);
    assert_eq!(send(&store, "RB", "new").queue_offset, 130);
    assert_eq!(send(&store, "RC", "new").queue_offset, 600);
}

#[test]
fn r_06_lost_queue_files_after_a_kill() {
    for lost in ["consumequeue", "consumequeue/RB"] {
        let dir = Dir::new();
        let store = two_topics(&dir);
        let before = (read(&store, "RB"), read(&store, "RC"));
        store.sync_all().unwrap();
        let dir = dir.killed();
        fs::remove_dir_all(dir.path(lost)).unwrap();
        let store = dir.open();
        assert_eq!((read(&store, "RB"), read(&store, "RC")), before);
        assert_eq!(send(&store, "RB", "new").queue_offset, 130);
        assert_eq!(send(&store, "RC", "new").queue_offset, 600);
    }
}

#[test]
fn a_deleted_topic_does_not_come_back() {
    let dir = Dir::new();
    let store = two_topics(&dir);
    store.delete_topic("RB");
    store.close();
    drop(store);
    let store = dir.open();
    assert!(store.queue("RB", 0).is_none());
    assert_eq!(read(&store, "RC").len(), 600);
}

#[test]
fn r_07_empty_last_queue_file() {
    let dir = Dir::new();
    let store = dir.open();
    for i in 0..100 {
        send(&store, "T", &format!("k{i}"));
    }
    let before = read(&store, "T");
    store.close();
    drop(store);
    let path = dir.path(&format!("consumequeue/T/0/{:020}", QUEUE_FILE));
    fs::write(&path, vec![0; QUEUE_FILE as usize]).unwrap();
    let store = dir.open();
    assert_eq!(read(&store, "T"), before);
    assert_eq!(send(&store, "T", "new").queue_offset, 100);
    assert_eq!(read(&store, "T").len(), 101);
}

#[test]
fn r_09_log_file_length() {
    let dir = Dir::new();
    let store = dir.open();
    send(&store, "T", "k");
    let before = read(&store, "T");
    store.close();
    drop(store);
    // An empty file behind the last one: dropped.
    fs::write(dir.log_file(LOG_FILE as u64), "").unwrap();
    let store = dir.open();
    assert_eq!(read(&store, "T"), before);
    assert!(!dir.log_file(LOG_FILE as u64).exists());
    store.close();
    drop(store);
    // Ten bytes too many: refused, nothing changed.
    let mut bytes = fs::read(dir.log_file(0)).unwrap();
    bytes.extend([0; 10]);
    fs::write(dir.log_file(0), &bytes).unwrap();
    let checkpoint = fs::read(dir.path("checkpoint")).unwrap();
    let error = dir.try_open().unwrap_err().to_string();
    assert!(error.contains("commitlog/00000000000000000000"), "{error}");
    assert_eq!(fs::read(dir.log_file(0)).unwrap(), bytes);
    assert_eq!(fs::read(dir.path("checkpoint")).unwrap(), checkpoint);
    assert!(!dir.path("abort").exists());
}

#[test]
fn r_10_checkpoint_file() {
    for cut in [false, true] {
        let dir = Dir::new();
        let store = dir.open();
        send(&store, "T", "k0");
        send(&store, "T", "k1");
        let dir = if cut {
            let dir = dir.killed();
            fs::write(dir.path("checkpoint"), "").unwrap();
            dir
        } else {
            store.close();
            drop(store);
            fs::remove_file(dir.path("checkpoint")).unwrap();
            dir
        };
        let store = dir.open();
        assert_eq!(offsets(&read(&store, "T")), [0, 1]);
        store.close();
        assert_eq!(fs::metadata(dir.path("checkpoint")).unwrap().len(), 4096);
    }
}

#[test]
fn lost_log_files_take_the_queues_along() {
    let dir = Dir::new();
    let store = dir.open();
    send(&store, "T", "k0");
    store.close();
    drop(store);
    fs::remove_dir_all(dir.path("commitlog")).unwrap();
    let store = dir.open();
    assert_eq!(read(&store, "T"), []);
    let next = send(&store, "T", "new");
    assert_eq!((next.queue_offset, next.phys_offset), (0, 0));
    assert_eq!(read(&store, "T").len(), 1);
}

#[test]
fn a_kill_while_threads_append() {
    let dir = Dir::new();
    let store = dir.open();
    let mut copies = Vec::new();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let store = &store;
            scope.spawn(move || {
                for i in 0..300 {
                    send_sized(store, "T", &format!("{thread}-{i}"), 300 + i);
                }
            });
        }
        for _ in 0..5 {
            let seen = store.queue_or_create("T", 0).max_offset();
            copies.push((seen, dir.killed()));
        }
    });
    for (seen, dir) in copies {
        let store = dir.open();
        let messages = read(&store, "T");
        assert_eq!(offsets(&messages), (0..messages.len() as i64).collect::<Vec<_>>());
        // What was readable before the copy began was in the page cache.
        assert!(messages.len() as i64 >= seen, "{} of {seen}", messages.len());
        assert_eq!(send(&store, "T", "new").queue_offset, messages.len() as i64);
    }
}
