//! Cleaning: old files of the log, what points before the log, and a disk that fills up.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::faults_support::message;
use config::{Live, MessageStoreConfig};
use store::record::RecordView;
use store::{All, AppendError, Appended, Partition, ReadRequest, ReadResult, ReadStatus, Store, StoreOptions};

const LIMIT: Duration = Duration::from_secs(20);
const LOG_FILE: usize = 64 * 1024;
/// Twenty messages of this body fill a file of the log.
const BODY: usize = 3000;

fn config(dir: &Path) -> MessageStoreConfig {
    MessageStoreConfig {
        store_path_root_dir: dir.to_str().unwrap().to_owned(),
        mapped_file_size_commit_log: LOG_FILE as i32,
        // Ten units.
        mapped_file_size_consume_queue: 200,
        max_hash_slot_num: 10,
        max_index_num: 20,
        clean_resource_interval: 1000,
        delete_commit_log_files_interval: 1,
        delete_consume_queue_files_interval: 1,
        // No hour of a day.
        delete_when: String::new(),
        ..MessageStoreConfig::default()
    }
}

fn options(config: MessageStoreConfig) -> StoreOptions {
    let store_host = SocketAddr::from(([127, 0, 0, 1], 10911));
    StoreOptions { config: Arc::new(Live::new(config)), store_host, arrived: None, filter_bits: None }
}

/// A disk that is as full as the test says.
struct Disk {
    percent: AtomicU32,
    /// How often the store has looked.
    looks: AtomicU32,
}

impl Disk {
    fn at(percent: u32) -> Arc<Disk> {
        Arc::new(Disk { percent: AtomicU32::new(percent), looks: AtomicU32::new(0) })
    }

    fn set(&self, percent: u32) {
        self.percent.store(percent, Ordering::SeqCst);
    }

    /// Waits until the store has seen the level and acted on it.
    fn wait_for_rounds(&self) {
        let before = self.looks.load(Ordering::SeqCst);
        // Two looks a round; the second round begins when the first is done.
        wait_for("two rounds", || self.looks.load(Ordering::SeqCst) >= before + 5);
    }
}

fn open_at(config: MessageStoreConfig, disk: &Arc<Disk>) -> Arc<Store> {
    let disk = Arc::clone(disk);
    let gauge = move |_: &Path| {
        disk.looks.fetch_add(1, Ordering::SeqCst);
        let used = f64::from(disk.percent.load(Ordering::SeqCst)) / 100.0;
        Some(Partition { used, bytes: 16 * LOG_FILE as u64 })
    };
    Store::open_with_gauge(options(config), Arc::new(gauge)).unwrap()
}

fn send_to(store: &Store, topic: &str, body: &[u8]) -> Result<Appended, AppendError> {
    let message = message(b"KEYS\x01k\x02", body);
    let sent = store.append(&store.queue_or_create(topic, 0), &message);
    store.dispatch();
    sent
}

/// Sends until the log has so many files; returns how many messages that took.
fn fill(store: &Store, topic: &str, files: usize) -> i64 {
    let mut sent = 0;
    while store.log().segments().snapshot().len() < files {
        send_to(store, topic, &[b'x'; BODY]).unwrap();
        sent += 1;
    }
    sent
}

fn read(store: &Store, topic: &str, offset: i64) -> ReadResult {
    let mut result = ReadResult::default();
    let request = ReadRequest { offset, max_messages: 32, max_bytes: i32::MAX };
    store.read(&store.queue(topic, 0).unwrap(), &request, &All, &mut result);
    result
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes the first files of the log look old.
fn age(store: &Store, files: usize) {
    for segment in store.log().segments().snapshot().iter().take(files) {
        let file = File::options().write(true).open(segment.path()).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(73 * 3600)).unwrap();
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn base_of(store: &Store) -> u64 {
    store.log_range().start
}

#[test]
fn expired_files_go_when_asked_and_queues_and_index_follow() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::at(10);
    let store = open_at(config(dir.path()), &disk);
    fill(&store, "T", 5);
    let index_files = names(&dir.path().join("index")).len();
    let queue_files = names(&dir.path().join("consumequeue/T/0")).len();
    assert!(index_files > 3 && queue_files > 3, "{index_files} {queue_files}");
    store.delete_expired_files();
    disk.wait_for_rounds();
    assert_eq!(base_of(&store), 0, "not old enough");
    age(&store, 2);
    wait_for("two files to go", || base_of(&store) == 2 * LOG_FILE as u64);
    assert_eq!(names(&dir.path().join("commitlog"))[0], format!("{:020}", 2 * LOG_FILE));
    let queue = store.queue("T", 0).unwrap();
    wait_for("the queue to follow", || queue.min_offset() > 0);
    let first = queue.min_offset();
    assert!(store.log().record_at(2 * LOG_FILE as u64).is_some());
    wait_for("queue files to go", || names(&dir.path().join("consumequeue/T/0")).len() < queue_files);
    wait_for("index files to go", || names(&dir.path().join("index")).len() < index_files);
    let result = read(&store, "T", 0);
    assert_eq!((result.status, result.next_offset), (ReadStatus::OffsetTooSmall, first));
    let result = read(&store, "T", first);
    let view = RecordView::parse(&result.records[0]).unwrap();
    assert_eq!((view.queue_offset(), view.phys_offset()), (first, 2 * LOG_FILE as i64));
    // The same after a restart.
    let max = queue.max_offset();
    store.close();
    drop((result, queue, store));
    let store = open_at(config(dir.path()), &Disk::at(10));
    let queue = store.queue("T", 0).unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset()), (first, max));
    assert_eq!(read(&store, "T", first).status, ReadStatus::Found);
}

#[test]
fn closing_does_not_wait_for_a_pause() {
    let dir = tempfile::tempdir().unwrap();
    let config = MessageStoreConfig {
        clean_resource_interval: 600_000,
        delete_commit_log_files_interval: 600_000,
        ..config(dir.path())
    };
    let store = open_at(config, &Disk::at(10));
    fill(&store, "T", 4);
    age(&store, 2);
    store.delete_expired_files();
    wait_for("the first file to go", || base_of(&store) == LOG_FILE as u64);
    let start = Instant::now();
    store.close();
    assert!(start.elapsed() < LIMIT);
    assert_eq!(base_of(&store), LOG_FILE as u64, "the second was not due yet");
}

#[test]
fn the_hours_of_delete_when() {
    let dir = tempfile::tempdir().unwrap();
    let every_hour: Vec<String> = (0..24).map(|hour| hour.to_string()).collect();
    let config = MessageStoreConfig { delete_when: every_hour.join(";"), ..config(dir.path()) };
    let store = open_at(config, &Disk::at(10));
    fill(&store, "T", 3);
    age(&store, 1);
    wait_for("the old file to go", || base_of(&store) == LOG_FILE as u64);
    assert_eq!(store.log().segments().snapshot().len(), 2);
}

#[test]
fn a_disk_that_fills_up_deletes_by_age_then_at_once_then_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::at(75);
    let store = open_at(MessageStoreConfig { delete_file_batch_max: 2, ..config(dir.path()) }, &disk);
    fill(&store, "T", 6);
    age(&store, 1);
    disk.set(76);
    wait_for("the expired file to go", || base_of(&store) == LOG_FILE as u64);
    // Held from now on, over all that is deleted.
    let queue = store.queue("T", 0).unwrap();
    wait_for("the queue to follow", || queue.min_offset() > 0);
    let held = read(&store, "T", queue.min_offset());
    let bytes: Vec<Vec<u8>> = held.records.iter().map(|record| record.to_vec()).collect();
    assert!(!bytes.is_empty());
    disk.set(86);
    wait_for("all but the last file to go", || store.log().segments().snapshot().len() == 1);
    assert!(!store.health().disk_full);
    send_to(&store, "T", b"still taken").unwrap();
    disk.set(91);
    wait_for("the refusal", || store.health().disk_full);
    assert!(matches!(send_to(&store, "T", b"x"), Err(AppendError::NotWritable("the disk is full"))));
    let last = queue.max_offset() - 1;
    assert_eq!(read(&store, "T", last).records.len(), 1, "reads go on");
    // In between it stays as it is; at the lower level appends are taken again.
    disk.set(86);
    disk.wait_for_rounds();
    assert!(store.health().disk_full);
    disk.set(85);
    wait_for("room again", || send_to(&store, "T", b"y").is_ok());
    assert_eq!(queue.max_offset(), last + 2, "no offset was used by what was refused");
    for (record, bytes) in held.records.iter().zip(&bytes) {
        assert_eq!(&**record, &bytes[..], "a reader keeps what it has");
        RecordView::parse(record).unwrap();
    }
}

#[test]
fn clean_file_forcibly_can_be_turned_off() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::at(10);
    let store = open_at(MessageStoreConfig { clean_file_forcibly_enable: false, ..config(dir.path()) }, &disk);
    fill(&store, "T", 3);
    age(&store, 1);
    disk.set(95);
    wait_for("the refusal", || store.health().disk_full);
    wait_for("the expired file to go", || base_of(&store) == LOG_FILE as u64);
    assert_eq!(store.log().segments().snapshot().len(), 2, "the others are not old");
}

#[test]
fn a_share_of_a_disk() {
    let dir = tempfile::tempdir().unwrap();
    // A fourth of the partition is four files of the log.
    let config = MessageStoreConfig { replicas_per_disk_partition: 4, delete_file_batch_max: 1, ..config(dir.path()) };
    let disk = Disk::at(80);
    let store = open_at(config, &disk);
    fill(&store, "T", 5);
    wait_for("the share to be kept", || store.log().segments().snapshot().len() <= 3);
    disk.wait_for_rounds();
    assert_eq!(store.log().segments().snapshot().len(), 3, "not more than needed");
}

#[test]
fn d_01_min_offset_of_an_emptied_queue() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_at(config(dir.path()), &Disk::at(10));
    for _ in 0..6 {
        send_to(&store, "DG", b"quiet").unwrap();
    }
    fill(&store, "T", 4);
    let queue = store.queue("DG", 0).unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset()), (0, 6));
    age(&store, 2);
    store.delete_expired_files();
    wait_for("the queue to be empty", || queue.min_offset() == 6);
    assert_eq!(queue.max_offset(), 6);
    let result = read(&store, "DG", 0);
    assert_eq!((result.status, result.next_offset), (ReadStatus::OffsetTooSmall, 6));
    assert_eq!(read(&store, "DG", 6).status, ReadStatus::OffsetOverflowOne);
    store.close();
    drop((result, queue, store));
    let store = open_at(config(dir.path()), &Disk::at(10));
    assert_eq!(send_to(&store, "DG", b"new").unwrap().queue_offset, 6);
    let queue = store.queue("DG", 0).unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset()), (6, 7));
    assert_eq!(read(&store, "DG", 6).records.len(), 1);
}

#[test]
fn d_02_deletion_while_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_at(config(dir.path()), &Disk::at(10));
    let sent = fill(&store, "T", 3);
    let held = read(&store, "T", 0);
    let path = store.log().segments().path_of(0);
    age(&store, 1);
    // Readers all the time, from both sides of the border.
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let limit = Instant::now() + LIMIT;
            let mut seen = 0;
            while seen < 20 {
                assert!(Instant::now() < limit, "the file does not go");
                let result = read(&store, "T", 0);
                for record in &result.records {
                    let view = RecordView::parse(record).unwrap();
                    assert_eq!((view.topic(), view.body()), ("T", &[b'x'; BODY][..]));
                }
                seen += usize::from(result.status == ReadStatus::OffsetTooSmall);
            }
        });
        store.delete_expired_files();
        reader.join().unwrap();
    });
    assert!(!path.exists());
    let queue = store.queue("T", 0).unwrap();
    assert_eq!(base_of(&store), LOG_FILE as u64);
    let first = read(&store, "T", queue.min_offset());
    assert_eq!(RecordView::parse(&first.records[0]).unwrap().phys_offset(), LOG_FILE as i64);
    assert_eq!(queue.max_offset(), sent);
    // What was held is whole; the mapping goes with its last holder.
    for (offset, record) in (0..).zip(&held.records) {
        let view = RecordView::parse(record).unwrap();
        assert_eq!((view.queue_offset(), view.body()), (offset, &[b'x'; BODY][..]));
    }
    let mapped = || fs::read_to_string("/proc/self/maps").unwrap().contains(path.to_str().unwrap());
    assert!(mapped());
    drop(held);
    assert!(!mapped());
}

#[test]
fn queues_whose_messages_are_all_gone() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_at(config(dir.path()), &Disk::at(10));
    for topic in ["DEAD", "KEPT"] {
        (0..3).for_each(|_| _ = send_to(&store, topic, b"old").unwrap());
    }
    fill(&store, "T", 3);
    assert_eq!(store.delete_dead_queues(|_| false).unwrap(), 0);
    age(&store, 1);
    store.delete_expired_files();
    wait_for("the file to go", || base_of(&store) > 0);
    let old = store.queue("DEAD", 0).unwrap();
    // In memory only, without a message.
    store.queue_or_create("FRESH", 0);
    assert_eq!(store.delete_dead_queues(|topic| topic == "KEPT").unwrap(), 1);
    assert!(old.is_deleted() && store.queue("DEAD", 0).is_none());
    assert_eq!(names(&dir.path().join("consumequeue")), ["KEPT", "T"]);
    assert!(store.queue("KEPT", 0).is_some() && store.queue("T", 0).is_some() && store.queue("FRESH", 0).is_some());
    assert_eq!(send_to(&store, "DEAD", b"anew").unwrap().queue_offset, 0);
    assert_eq!(read(&store, "DEAD", 0).records.len(), 1);
    store.close();
    drop((old, store));
    let store = open_at(config(dir.path()), &Disk::at(10));
    assert_eq!(store.queue("DEAD", 0).unwrap().max_offset(), 1);
    assert_eq!(store.queue("KEPT", 0).unwrap().min_offset(), 3);
}

/// A small file system of its own, gone with the value.
struct SmallDisk {
    path: PathBuf,
    _parent: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` when the system does not let us mount; the test says so and ends.
    fn mount(megabytes: u32) -> Option<SmallDisk> {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("disk");
        fs::create_dir(&path).unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk { path, _parent: parent });
        }
        eprintln!("skipped: a tmpfs cannot be mounted here (needs root)");
        None
    }

    /// Takes room that does not belong to the store; returns the file.
    fn take(&self, bytes: usize) -> PathBuf {
        let path = self.path.join("filler");
        fs::write(&path, vec![1; bytes]).unwrap();
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a failed test may still have it open.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

#[test]
fn a_real_disk_is_filled_and_heals() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let filler = disk.take(6 << 20);
    let config = MessageStoreConfig {
        mapped_file_size_commit_log: 1 << 20,
        clean_file_forcibly_enable: false,
        ..config(&disk.path.join("store"))
    };
    let store = Store::open(options(config)).unwrap();
    let mut sent = 0;
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < LIMIT, "the disk does not get full");
        match send_to(&store, "T", &[b'x'; 100_000]) {
            Ok(appended) => {
                assert_eq!(appended.queue_offset, sent);
                sent += 1;
            }
            Err(AppendError::NotWritable("the disk is full")) => break,
            // Quicker than the next look at the disk.
            Err(AppendError::NoSpace(_)) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent > 60, "{sent}");
    assert!(store.health().disk_full && store.health().refusal.is_none());
    assert_eq!(read(&store, "T", 0).status, ReadStatus::Found, "reads go on");
    assert_eq!(read(&store, "T", sent - 1).records.len(), 1);
    fs::remove_file(filler).unwrap();
    wait_for("room again", || send_to(&store, "T", b"again").is_ok());
    assert_eq!(store.queue("T", 0).unwrap().max_offset(), sent + 1);
    assert!(!store.health().disk_full);
    let again = read(&store, "T", sent);
    assert_eq!(RecordView::parse(&again.records[0]).unwrap().body(), b"again");
}

#[test]
fn queues_without_room_refuse_appends_until_there_is_some() {
    let Some(disk) = SmallDisk::mount(2) else { return };
    let logs = tempfile::tempdir().unwrap();
    // The log is elsewhere and has room; the disk of the queues is said to have some, too.
    let config = MessageStoreConfig {
        store_path_commit_log: Some(logs.path().to_str().unwrap().to_owned()),
        message_index_enable: false,
        ..config(&disk.path)
    };
    let store = open_at(config, &Disk::at(10));
    let filler = disk.path.join("filler");
    let mut room = File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut room, &[1; 4096]).is_ok() {}
    send_to(&store, "T", b"first").unwrap();
    wait_for("the refusal", || send_to(&store, "T", b"x").is_err());
    assert!(store.health().disk_full && store.health().refusal.is_none());
    drop(room);
    fs::remove_file(filler).unwrap();
    wait_for("room again", || send_to(&store, "T", b"last").is_ok());
    let queue = store.queue("T", 0).unwrap();
    wait_for("everything to be readable", || queue.max_offset() == queue.next_offset().load(Ordering::SeqCst));
    let result = read(&store, "T", 0);
    assert_eq!(RecordView::parse(&result.records[0]).unwrap().body(), b"first");
    let result = read(&store, "T", queue.max_offset() - 1);
    assert_eq!(RecordView::parse(&result.records[0]).unwrap().body(), b"last");
}
