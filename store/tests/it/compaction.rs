//! Compaction topics in a store: what is read, what stays after restarts, kills and lost pages, and what a deletion leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::compaction_support::{COMPACTED, Message, all_of, page, try_send};
use crate::faults_support::Dir;
use store::Store;

const LIMIT: Duration = Duration::from_secs(60);
/// Forty records a file, of the log files the shortest.
const CONF: &str = "compactionCqMappedFileSize=1886\ncompactionMappedFileSize=1\n";
/// Compactions do not happen by themselves.
const NEVER: &str = "compactionScheduleInternal=100000000\n";
const SOON: &str = "compactionScheduleInternal=50\ncompactionThreadNum=2\n";

fn dir(more: &str) -> Dir {
    Dir::new().with(CONF).with(more)
}

fn send_to(store: &Store, topic: &str, id: i32, key: &str, body: &str) -> i64 {
    try_send(store, topic, id, key, body).unwrap()
}

/// Sends `count` messages with few keys; the bodies are numbered through.
fn send(store: &Store, count: usize, keys: usize) -> Vec<Message> {
    let mut sent = Vec::new();
    for _ in 0..count {
        let next = store.queue("C", 0).map_or(0, |queue| queue.max_offset());
        let (key, body) = (format!("key{}", next as usize % keys), format!("body {next}"));
        sent.push((send_to(store, "C", 0, &key, &body), key, body));
    }
    sent
}

fn all(store: &Store, topic: &str) -> Vec<Message> {
    all_of(store, topic, 0)
}

/// The last message of each key, in order.
fn last_of_each(sent: &[Message]) -> Vec<Message> {
    let last: BTreeMap<&str, &Message> = sent.iter().map(|message| (message.1.as_str(), message)).collect();
    let mut kept: Vec<Message> = last.into_values().cloned().collect();
    kept.sort();
    kept
}

fn open(dir: &Dir) -> std::sync::Arc<Store> {
    let store = dir.open();
    store.set_topic_policy("C", COMPACTED).unwrap();
    store
}

/// The files of a directory below `compaction/`, by name.
fn files(dir: &Dir, name: &str) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(dir.path("compaction").join(name)).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
}

/// Waits until the closed files hold nothing that is replaced.
fn wait_for_compaction(store: &Store, sent: &[Message]) {
    let start = Instant::now();
    let last = last_of_each(sent);
    // What the last file holds stays; a file has at most forty.
    while all(store, "C").len() > last.len() + 40 {
        assert!(start.elapsed() < LIMIT, "{} messages are left", all(store, "C").len());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_last_value_of_each_key_stays_through_restarts() {
    let dir = dir(SOON);
    let mut sent = Vec::new();
    for round in 0..3 {
        let store = open(&dir);
        if round > 0 {
            assert!(all(&store, "C").len() >= 7);
        }
        sent.extend(send(&store, 500, 7));
        wait_for_compaction(&store, &sent);
        let now = all(&store, "C");
        for message in last_of_each(&sent) {
            assert!(now.contains(&message), "{message:?}");
        }
        assert!(now.iter().all(|message| sent.contains(message)));
        assert_eq!(page(&store, "C", 0, 0).max_offset, sent.len() as i64);
        // An ordinary topic beside it has everything.
        send_to(&store, "Plain", 0, "key", "x");
        assert_eq!(all(&store, "Plain").len(), round + 1);
        store.close();
        drop(store);
        let store = open(&dir);
        assert_eq!(all(&store, "C").last(), sent.last());
        store.close();
    }
    let text = fs::read_to_string(dir.path("compaction/position-checkpoint")).unwrap();
    assert!(text.contains("\t\t\"C_0\":"), "{text}");
}

#[test]
fn without_enable_compaction_it_is_an_ordinary_topic() {
    let dir = dir("enableCompaction=false\n");
    let store = open(&dir);
    let sent = send(&store, 100, 7);
    assert_eq!(all(&store, "C"), sent);
    assert!(!dir.path("compaction/compactionLog").exists());
    store.close();
    drop(store);
    // Switched on later: what the log has is added.
    let dir = dir.with("enableCompaction=true\n").with(NEVER);
    let store = open(&dir);
    assert_eq!(all(&store, "C"), sent);
    assert_eq!(files(&dir, "compactionLog/C/0").len(), 3);
    store.close();
}

#[test]
fn messages_without_keys_are_not_in_it() {
    let dir = dir(NEVER);
    let store = open(&dir);
    send_to(&store, "C", 0, "a", "1");
    send_to(&store, "C", 0, "", "2");
    send_to(&store, "C", 0, "b", "3");
    let found: Vec<i64> = all(&store, "C").iter().map(|message| message.0).collect();
    assert_eq!(found, [0, 2]);
    store.close();
}

#[test]
fn a_topic_that_is_declared_late_is_filled_from_the_log() {
    let dir = dir(NEVER);
    let store = dir.open();
    let sent = send(&store, 300, 7);
    store.set_topic_policy("C", COMPACTED).unwrap();
    assert_eq!(all(&store, "C"), sent);
    let more = send(&store, 50, 7);
    assert_eq!(all(&store, "C"), [sent, more].concat());
    store.close();
}

#[test]
fn a_kill_loses_nothing() {
    let dir = dir(NEVER);
    let store = open(&dir);
    let sent = send(&store, 250, 7);
    let killed = dir.copy();
    store.close();
    let store = open(&killed);
    assert_eq!(all(&store, "C"), sent);
    let more = send(&store, 30, 7);
    assert_eq!(all(&store, "C"), [sent, more].concat());
    store.close();
}

/// Pages that a power failure left unwritten, in each of the doubtful files.
#[test]
fn lost_pages_are_made_again_from_the_log() {
    let dir = dir(NEVER);
    let store = open(&dir);
    let sent = send(&store, 250, 7);
    let killed = dir.copy();
    store.close();
    let logs: Vec<_> = files(&killed, "compactionLog/C/0").into_iter().collect();
    assert_eq!(logs.len(), 7);
    let queues: Vec<_> = files(&killed, "compactionCq/C/0").into_iter().collect();
    for (number, from_the_end) in [(0, 1), (1, 2), (2, 3)] {
        for (kind, path) in [("log", &logs[7 - from_the_end]), ("cq", &queues[7 - from_the_end])] {
            let len = fs::metadata(path).unwrap().len();
            for (from, to) in [(0, len), (0, 460), (300, 700), (460, len), (920, 966)] {
                let case = killed.copy();
                let path = case.path(path.strip_prefix(killed.root()).unwrap().to_str().unwrap());
                let mut bytes = fs::read(&path).unwrap();
                bytes[from as usize..to.min(len) as usize].fill(0);
                fs::write(&path, bytes).unwrap();
                let store = open(&case);
                assert!(all(&store, "C") == sent, "{kind} {number}: {from}..{to}");
                let more = send(&store, 3, 7);
                assert_eq!(all(&store, "C")[250..], more[..]);
                store.close();
            }
        }
    }
    // Files that are gone.
    for name in ["compactionLog/C/0", "compactionCq/C/0", "compactionLog", "compactionCq", ""] {
        let case = killed.copy();
        fs::remove_dir_all(case.path("compaction").join(name)).unwrap();
        let store = open(&case);
        assert!(all(&store, "C") == sent, "{name}");
        store.close();
    }
}

/// What the log has lost must not come back, and its offsets are given again.
#[test]
fn what_the_log_has_lost_is_not_served() {
    let dir = dir(NEVER);
    let store = open(&dir);
    let mut sent = send(&store, 200, 7);
    let lost_from = store.queue("C", 0).unwrap().entry(180).unwrap().unit.phys as u64;
    let killed = dir.copy();
    store.close();
    let files = fs::read_dir(killed.path("commitlog")).unwrap();
    for path in files.map(|entry| entry.unwrap().path()) {
        let base: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let from = lost_from.saturating_sub(base).min(bytes.len() as u64) as usize;
        bytes[from..].fill(0);
        fs::write(&path, bytes).unwrap();
    }
    let store = open(&killed);
    sent.truncate(180);
    assert_eq!(all(&store, "C"), sent);
    let new = (send_to(&store, "C", 0, "other", "after"), "other".to_owned(), "after".to_owned());
    assert_eq!(new.0, 180);
    sent.push(new);
    assert_eq!(all(&store, "C"), sent);
    store.close();
}

/// Old files of the log go; the compacted log stays, and no offset is given twice.
#[test]
fn the_compacted_log_outlives_the_log() {
    let dir = dir(NEVER);
    let store = open(&dir);
    let sent = send(&store, 100, 7);
    store.close();
    drop(store);
    for name in ["commitlog", "consumequeue", "index"] {
        fs::remove_dir_all(dir.path(name)).unwrap();
    }
    fs::remove_file(dir.path("checkpoint")).unwrap();
    for clean in [true, false] {
        let case = dir.copy();
        if !clean {
            fs::write(case.path("abort"), "1").unwrap();
        }
        let store = open(&case);
        assert_eq!(all(&store, "C"), sent);
        // No message is in the queue; it must not be forgotten all the same.
        assert_eq!(store.delete_dead_queues(|_| false).unwrap(), 0);
        let more = (send_to(&store, "C", 0, "other", "after"), "other".to_owned(), "after".to_owned());
        assert_eq!(more.0, 100);
        assert_eq!(all(&store, "C"), [sent.clone(), vec![more]].concat());
        store.close();
    }
}

#[test]
fn a_deleted_topic_leaves_nothing() {
    let dir = dir(SOON);
    let store = open(&dir);
    let sent = send(&store, 500, 7);
    wait_for_compaction(&store, &sent);
    store.delete_topic("C");
    for kind in ["compactionLog", "compactionCq"] {
        assert!(!dir.path("compaction").join(kind).join("C").exists());
    }
    assert!(!fs::read_to_string(dir.path("compaction/position-checkpoint")).unwrap().contains("C_0"));
    // Of the same name, and ordinary now.
    let again = send(&store, 100, 7);
    assert_eq!(all(&store, "C"), again);
    store.delete_topic("C");
    store.set_topic_policy("C", COMPACTED).unwrap();
    let again = send(&store, 20, 7);
    assert_eq!((again[0].0, all(&store, "C")), (0, again));
    store.close();
    drop(store);
    // Deleted while nobody had it open: by a broker that does not know the policy.
    let store = dir.open();
    store.delete_topic("C");
    assert!(!dir.path("compaction/compactionLog/C").exists());
    store.close();
}

#[test]
fn files_of_another_configuration_are_refused() {
    let dir = dir(NEVER);
    let store = open(&dir);
    send(&store, 100, 7);
    store.close();
    drop(store);
    let dir = dir.with("compactionCqMappedFileSize=920\n");
    for killed in [false, true] {
        if killed {
            fs::write(dir.path("abort"), "1").unwrap();
        }
        let store = dir.open();
        let error = store.set_topic_policy("C", COMPACTED).unwrap_err().to_string();
        assert!(error.contains("the configuration says"), "{error}");
        store.close();
        // Nobody has looked at what the kill left.
        assert_eq!(dir.path("abort").exists(), killed);
    }
}

/// Readers, a writer and compactions at the same time: no reader sees an offset go back, or misses the last value of a
/// key that it read from the start.
#[test]
fn readers_and_compactions_at_the_same_time() {
    let dir = dir("compactionScheduleInternal=1\n");
    let store = open(&dir);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        let Some(queue) = store.queue("C", 0) else { continue };
                        let until = queue.max_offset();
                        let found = all(&store, "C");
                        let keys: BTreeSet<_> = found.iter().map(|message| message.1.as_str()).collect();
                        if until >= 7 {
                            assert_eq!(keys.len(), 7);
                        }
                    }
                })
            })
            .collect();
        let start = Instant::now();
        let mut sent = Vec::new();
        while start.elapsed() < Duration::from_secs(5) {
            sent.extend(send(&store, 50, 7));
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
        wait_for_compaction(&store, &sent);
    });
    store.close();
}
