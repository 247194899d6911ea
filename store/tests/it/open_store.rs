//! An open store: when messages become readable and durable, who is told, and what closing means.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::faults_support;
use config::{BrokerRole, FlushDiskType, Live, MessageStoreConfig};
use store::record::batch;
use store::{
    All, AppendError, Appended, Arrival, Inner, NewMessage, ReadRequest, ReadResult, ReadStatus, Store, StoreOptions,
};

const LIMIT: Duration = Duration::from_secs(20);

fn config(dir: &Path) -> MessageStoreConfig {
    MessageStoreConfig {
        store_path_root_dir: dir.to_str().unwrap().to_owned(),
        mapped_file_size_commit_log: 1 << 20,
        max_hash_slot_num: 100,
        max_index_num: 400,
        ..MessageStoreConfig::default()
    }
}

fn open(config: MessageStoreConfig) -> Arc<Store> {
    open_with(config, None)
}

type OnArrival = Arc<dyn Fn(&Arrival<'_>) + Send + Sync>;

fn open_with(config: MessageStoreConfig, arrived: Option<OnArrival>) -> Arc<Store> {
    let store_host = SocketAddr::from(([127, 0, 0, 1], 10911));
    Store::open(StoreOptions { config: Arc::new(Live::new(config)), store_host, arrived, filter_bits: None }).unwrap()
}

fn message(body: &[u8]) -> NewMessage<'_> {
    faults_support::message(b"", body)
}

fn send(store: &Store, body: &[u8]) -> Result<Appended, AppendError> {
    store.append(&store.queue_or_create("T", 0), &message(body))
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn readable_after_dispatch_and_waiters_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let told = Arc::new(AtomicI64::new(-1));
    let arrived = {
        let told = Arc::clone(&told);
        Arc::new(move |arrival: &Arrival<'_>| told.store(arrival.max_offset, Ordering::SeqCst))
    };
    let store = open_with(config(dir.path()), Some(arrived));
    let queue = store.queue_or_create("T", 0);
    send(&store, b"one").unwrap();
    assert_eq!(queue.max_offset(), 0);
    store.dispatch();
    assert_eq!((queue.max_offset(), store.dispatched()), (1, store.wrote().get()));
    assert_eq!(told.load(Ordering::SeqCst), -1, "nobody waits");
    queue.waiters().fetch_add(1, Ordering::SeqCst);
    send(&store, b"two").unwrap();
    send(&store, b"three").unwrap();
    store.dispatch();
    assert_eq!(told.load(Ordering::SeqCst), 3);
    let mut result = ReadResult::default();
    store.read(&queue, &ReadRequest { offset: 1, max_messages: 10, max_bytes: 1 << 20 }, &All, &mut result);
    assert_eq!((result.status, result.next_offset, result.records.len()), (ReadStatus::Found, 3, 2));
}

/// Whoever finds another thread dispatching leaves its messages to that; a reader that asks then finds them all the same.
#[test]
fn a_reader_may_catch_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(dir.path()));
    send(&store, b"one").unwrap();
    let queue = store.queue("T", 0).unwrap();
    assert_eq!(queue.max_offset(), 0, "nobody has dispatched it");
    store.catch_up();
    assert_eq!(queue.max_offset(), 1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let mine = send(&store, b"more").unwrap();
                    store.dispatch();
                    store.catch_up();
                    assert!(store.dispatched() >= mine.end);
                }
            });
        }
    });
    assert_eq!(queue.max_offset(), 8001);
    store.close();
}

#[test]
fn a_batch_body_becomes_messages() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(dir.path()));
    let mut body = Vec::new();
    for text in [&b"first"[..], b"second"] {
        body.extend([0; 12]);
        body.extend(5i32.to_be_bytes());
        body.extend((text.len() as i32).to_be_bytes());
        body.extend(text);
        body.extend(0i16.to_be_bytes());
    }
    let mut inner: Vec<Inner<'_>> = Vec::new();
    batch::read(&body, &mut inner).unwrap();
    let queue = store.queue_or_create("T", 0);
    let mut each = Vec::new();
    let appended = store.append_batch(&queue, &message(&body), &inner, &mut |phys| each.push(phys)).unwrap();
    store.dispatch();
    assert_eq!((appended.queue_offset, each.len(), queue.max_offset()), (0, 2, 2));
    assert_eq!(each[0], appended.phys_offset);
    assert_eq!(store.store_time(&queue, 1), appended.store_timestamp);
}

#[test]
fn many_threads_send_and_everything_becomes_readable() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(dir.path()));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let queue = store.queue_or_create("T", thread % 2);
                for _ in 0..500 {
                    store.append(&queue, &message(&[7; 700])).unwrap();
                    store.dispatch();
                }
            });
        }
    });
    // Whoever was last to dispatch saw everything.
    wait_for("dispatch", || store.dispatched() == store.wrote().get());
    assert_eq!(store.queues_of("T").iter().map(|queue| queue.max_offset()).collect::<Vec<_>>(), [1000, 1000]);
}

#[test]
fn sync_flush_shows_messages_only_when_they_are_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let never = 3_600_000;
    let store = open(MessageStoreConfig {
        flush_disk_type: FlushDiskType::Sync,
        flush_interval_commit_log: never,
        flush_commit_log_thorough_interval: never,
        ..config(dir.path())
    });
    let queue = store.queue_or_create("T", 0);
    for count in 1..=20 {
        let appended = send(&store, b"x").unwrap();
        store.dispatch();
        assert_eq!(queue.max_offset(), count - 1);
        store.request_flush();
        assert!(store.flushed().wait(appended.end, LIMIT));
        // The flush thread dispatches.
        wait_for("dispatch after the flush", || queue.max_offset() == count);
    }
}

#[test]
fn closing_keeps_everything_that_was_taken() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(dir.path()));
    let taken = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // Not dispatched: closing does.
                while send(&store, &[1; 100]).is_ok() {
                    taken.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        wait_for("some messages", || taken.load(Ordering::SeqCst) > 1000);
        store.close();
    });
    assert!(matches!(send(&store, b"late"), Err(AppendError::NotWritable("closed"))));
    assert_eq!(store.health().refusal, Some("closed"));
    assert!(!dir.path().join("abort").exists());
    let taken = taken.into_inner();
    // Reads go on.
    assert_eq!(store.queue("T", 0).unwrap().max_offset(), taken);
    drop(store);
    let store = open(config(dir.path()));
    assert_eq!(store.queue("T", 0).unwrap().max_offset(), taken);
    assert_eq!(store.dispatched(), store.wrote().get());
}

#[test]
fn dropping_closes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(dir.path()));
    send(&store, b"x").unwrap();
    assert!(dir.path().join("abort").exists());
    drop(store);
    assert!(!dir.path().join("abort").exists());
    assert!(dir.path().join("abort.bak").exists());
}

#[test]
fn a_slave_and_too_large_messages_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(MessageStoreConfig { max_message_size: 1000, ..config(dir.path()) });
    assert!(matches!(send(&store, &[0; 1001]), Err(AppendError::TooLarge { .. })));
    send(&store, &[0; 1000]).unwrap();
    store.close();
    let slave = MessageStoreConfig { broker_role: BrokerRole::Slave, ..config(dir.path()) };
    drop(store);
    let store = open(slave);
    assert!(matches!(send(&store, b"x"), Err(AppendError::NotWritable(_))));
    assert!(!store.page_cache_busy());
}

#[test]
fn a_full_disk_refuses_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(dir.path()));
    assert!(!store.log().set_disk_full(true));
    assert!(matches!(send(&store, b"x"), Err(AppendError::NotWritable("the disk is full"))));
    assert!(store.health().disk_full);
    assert!(store.log().set_disk_full(false));
    send(&store, b"x").unwrap();
}

#[test]
fn queue_files_that_nobody_uses_are_unmapped() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(MessageStoreConfig { clean_resource_interval: 1000, ..config(dir.path()) });
    let queues = dir.path().join("consumequeue");
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains(queues.to_str().unwrap())).count()
    };
    for round in 1..=2 {
        send(&store, b"x").unwrap();
        store.dispatch();
        assert_eq!((mapped(), store.queue("T", 0).unwrap().max_offset()), (1, round));
        wait_for("nobody uses the file", || mapped() == 0);
    }
    let queue = store.queue("T", 0).unwrap();
    let mut result = ReadResult::default();
    store.read(&queue, &ReadRequest { offset: 0, max_messages: 10, max_bytes: 1 << 20 }, &All, &mut result);
    assert_eq!((result.status, result.records.len()), (ReadStatus::Found, 2));
}
