//! Cleaning and disk pressure as clients and tools see them: cases D-*, codes 306, 316, 329.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{LIMIT, Peer, TestBroker, message, number, pull, records, set};
use remoting::{Command, RequestCode};

const RW: i32 = 6;

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Makes the first files of the log look four days old.
fn age(root: &Path, files: usize) -> Vec<PathBuf> {
    let log = root.join("commitlog");
    let paths: Vec<_> = names(&log).into_iter().take(files).map(|name| log.join(name)).collect();
    for path in &paths {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(4 * 24 * 3600)).unwrap();
    }
    paths
}

async fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < limit, "waited too long: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn ask(peer: &mut Peer, code: RequestCode) {
    let answer = peer.call(Command::request(code)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, None));
}

async fn min_offset(peer: &mut Peer, topic: &str) -> i64 {
    let command = Command::request(RequestCode::GET_MIN_OFFSET).field("topic", topic).field("queueId", 0);
    number(&peer.call(command).await, "offset")
}

async fn wait_for_min_offset(peer: &mut Peer, topic: &str, offset: i64) {
    let limit = Instant::now() + LIMIT;
    while min_offset(peer, topic).await != offset {
        assert!(Instant::now() < limit, "the lowest offset of {topic} does not become {offset}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Code, remark, next, min, max.
fn page(answer: &Command) -> (i32, &str, i64, i64, i64) {
    (
        answer.code,
        answer.remark.as_deref().unwrap_or_default(),
        number(answer, "nextBeginOffset"),
        number(answer, "minOffset"),
        number(answer, "maxOffset"),
    )
}

async fn cleaning_broker(dir: &tempfile::TempDir, log_file: i32) -> TestBroker {
    let root = dir.path().join("store").to_str().unwrap().to_owned();
    TestBroker::with(|setup| {
        setup.store.store_path_root_dir = root;
        setup.store.mapped_file_size_commit_log = log_file;
        setup.store.max_transfer_bytes_on_message_in_memory = 64 << 20;
        setup.store.clean_resource_interval = 1000;
        setup.store.delete_when = String::new();
        setup.store.disk_max_used_space_ratio = 95;
        setup.store.clean_file_forcibly_enable = false;
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn d_01_min_offset_of_an_emptied_queue() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let broker = cleaning_broker(&dir, 102_400).await;
    let mut peer = broker.connect().await;
    peer.create_topic("DG", 1, RW).await;
    peer.create_topic("FILL", 1, RW).await;
    peer.create_group("GP", "").await;
    for i in 0..6 {
        peer.put("DG", 0, "", &format!("m{i}")).await;
    }
    while names(&root.join("commitlog")).len() < 4 {
        peer.put("FILL", 0, "", &"x".repeat(20_000)).await;
    }
    assert_eq!(min_offset(&mut peer, "DG").await, 0);
    let gone = age(&root, 2);
    ask(&mut peer, RequestCode::DELETE_EXPIRED_COMMITLOG).await;
    wait_for("two files to go", || gone.iter().all(|path| !path.exists())).await;
    wait_for_min_offset(&mut peer, "DG", 6).await;
    assert_eq!(peer.max_offset("DG", 0).await, 6);
    let answer = peer.call(pull("GP", "DG", 0, 0, "*")).await;
    assert_eq!(page(&answer), (21, "OFFSET_TOO_SMALL", 6, 6, 6));
    assert_eq!(peer.call(pull("GP", "DG", 0, 6, "*")).await.code, 19);
    let query = Command::request(RequestCode::QUERY_CONSUMER_OFFSET)
        .field("consumerGroup", "NEW")
        .field("topic", "DG")
        .field("queueId", 0);
    assert_eq!(peer.call(query).await.code, 22);

    let answer = peer.put("DG", 0, "", "m6").await;
    assert_eq!(number(&answer, "queueOffset"), 6);
    let answer = peer.call(pull("GP", "DG", 0, 0, "*")).await;
    assert_eq!(page(&answer), (21, "OFFSET_TOO_SMALL", 6, 6, 7));
    let answer = peer.call(pull("GP", "DG", 0, 6, "*")).await;
    assert_eq!(records(&answer.body)[0].body, "m6");
    drop(peer);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d_02_deletion_while_read() {
    const BODY: usize = 1_000_000;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let broker = cleaning_broker(&dir, 16 << 20).await;
    let mut peer = broker.connect().await;
    peer.create_topic("T", 1, RW).await;
    peer.create_group("GP", "").await;
    let body = |i: i64| char::from(b'a' + (i % 26) as u8).to_string().repeat(BODY);
    let mut sent = 0;
    while sent < 20 {
        peer.put("T", 0, "", &body(sent)).await;
        sent += 1;
    }
    // More than the sockets hold: the answer stays under way until the client reads it.
    let mut reader = Peer::connect_slow(broker.running().addr()).await;
    let request = reader.send(set(pull("GP", "T", 0, 0, "*"), "maxMsgNums", 15)).await;
    reader.wait_readable().await;
    let gone = age(&root, 1);
    ask(&mut peer, RequestCode::DELETE_EXPIRED_COMMITLOG).await;
    wait_for("the file to go", || !gone[0].exists()).await;
    let first = records(&reader.answer(request).await.body);
    assert_eq!(first.len(), 15);
    for (i, record) in (0..).zip(&first) {
        assert_eq!((record.queue_offset, record.body == body(i)), (i, true));
    }
    // The lowest offset is the first record of the first file that is left.
    let start = names(&root.join("commitlog"))[0].parse::<i64>().unwrap();
    assert_eq!(start, 16 << 20);
    let limit = Instant::now() + LIMIT;
    while min_offset(&mut peer, "T").await == 0 {
        assert!(Instant::now() < limit, "the lowest offset stays");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let min = min_offset(&mut peer, "T").await;
    let answer = peer.call(pull("GP", "T", 0, min, "*")).await;
    let rest = records(&answer.body);
    assert_eq!((rest[0].phys_offset, rest.len() as i64), (start, sent - min));
    // Nobody has the file open any more.
    let open = || fs::read_to_string("/proc/self/maps").unwrap().contains(gone[0].to_str().unwrap());
    wait_for("the file to be let go", || !open()).await;
    drop((peer, reader));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_without_messages_and_topics_without_settings_are_cleaned() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let mut broker = cleaning_broker(&dir, 102_400).await;
    let mut peer = broker.connect().await;
    for topic in ["DEAD", "LIVE", "LOST"] {
        peer.create_topic(topic, 1, RW).await;
        peer.put(topic, 0, "", "old").await;
    }
    // A delayed message: the schedule topic's queue belongs to the system.
    peer.put("LIVE", 0, "DELAY=18", "later").await;
    while names(&root.join("commitlog")).len() < 3 {
        peer.put("LIVE", 0, "", &"x".repeat(20_000)).await;
    }
    ask(&mut peer, RequestCode::CLEAN_EXPIRED_CONSUMEQUEUE).await;
    ask(&mut peer, RequestCode::CLEAN_UNUSED_TOPIC).await;
    // Java 5.5.0 has the number, and nobody who does it.
    let answer = peer.call(Command::request(RequestCode::TRIGGER_DELETE_FILES)).await;
    assert_eq!((answer.code, answer.remark.unwrap()), (3, " request type 27 not supported".to_owned()));
    let queues = root.join("consumequeue");
    assert_eq!(names(&queues), ["DEAD", "LIVE", "LOST", "SCHEDULE_TOPIC_XXXX"], "nothing to do yet");

    // The settings of a topic are lost; the store still has its queue.
    drop(peer);
    let topics = root.join("config/topics.json");
    let again = root.to_str().unwrap().to_owned();
    let lose = |path: &Path| {
        let mut table: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        table["topicConfigTable"].as_object_mut().unwrap().remove("LOST").unwrap();
        fs::write(path, table.to_string()).unwrap();
    };
    // What a deletion that failed has left of a compaction topic.
    let left = root.join("compaction/compactionLog/LEFT");
    fs::create_dir_all(left.join("0")).unwrap();
    broker
        .restart(
            |setup| {
                setup.store.store_path_root_dir = again;
                setup.store.mapped_file_size_commit_log = 102_400;
                setup.store.clean_resource_interval = 1000;
                setup.store.delete_when = String::new();
                setup.store.clean_file_forcibly_enable = false;
            },
            |_| lose(&topics),
        )
        .await;
    let mut peer = broker.connect().await;
    ask(&mut peer, RequestCode::CLEAN_UNUSED_TOPIC).await;
    assert_eq!(names(&queues), ["DEAD", "LIVE", "SCHEDULE_TOPIC_XXXX"]);
    assert!(!left.exists());

    let gone = age(&root, 1);
    ask(&mut peer, RequestCode::DELETE_EXPIRED_COMMITLOG).await;
    wait_for("a file to go", || !gone[0].exists()).await;
    wait_for_min_offset(&mut peer, "DEAD", 1).await;
    ask(&mut peer, RequestCode::CLEAN_EXPIRED_CONSUMEQUEUE).await;
    assert_eq!(names(&queues), ["LIVE", "SCHEDULE_TOPIC_XXXX"]);
    // As in Java the queue begins anew.
    assert_eq!(number(&peer.put("DEAD", 0, "", "new").await, "queueOffset"), 0);
    drop(peer);
    broker.stop().await;
}

/// A small file system, gone with the value; `None` when the system does not let us mount.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<SmallDisk> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(dir.path());
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk(dir));
        }
        eprintln!("skipped: a tmpfs cannot be mounted here (needs root)");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_sends_and_heals() {
    let Some(disk) = SmallDisk::mount("size=16m") else { return };
    let filler = disk.0.path().join("filler");
    fs::write(&filler, vec![1; 6 << 20]).unwrap();
    let root = disk.0.path().join("store").to_str().unwrap().to_owned();
    let broker = TestBroker::with(|setup| {
        setup.store.store_path_root_dir = root;
        setup.store.mapped_file_size_commit_log = 1 << 20;
        setup.store.clean_resource_interval = 1000;
        setup.store.clean_file_forcibly_enable = false;
    })
    .await;
    let mut peer = broker.connect().await;
    peer.create_topic("T", 1, RW).await;
    peer.create_group("GP", "").await;
    let body = "x".repeat(100_000);
    let limit = Instant::now() + LIMIT;
    let refused = loop {
        assert!(Instant::now() < limit, "the disk does not get full");
        let answer = peer.call(message("T", 0, "", &body)).await;
        match answer.code {
            0 => {}
            14 => break answer,
            // Quicker than the next look at the disk.
            _ => {
                let remark = "create mapped file failed, server is busy or broken.";
                assert_eq!((answer.code, answer.remark.as_deref()), (1, Some(remark)));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    let remark = refused.remark.unwrap();
    let head = "service not available now. It may be caused by one of the following reasons: the broker's disk is full [CL:  0.9";
    assert!(remark.starts_with(head), "{remark}");
    assert!(remark.ends_with("], messages are put to the slave, message store has been shut down, etc."), "{remark}");
    let max = peer.max_offset("T", 0).await;
    assert!(max > 60, "{max}");
    let answer = peer.call(pull("GP", "T", 0, max - 1, "*")).await;
    assert_eq!(records(&answer.body)[0].body, body, "reads go on");
    fs::remove_file(filler).unwrap();
    let limit = Instant::now() + LIMIT;
    let taken = loop {
        assert!(Instant::now() < limit, "no room again");
        let answer = peer.call(message("T", 0, "", "again")).await;
        match answer.code {
            0 => break answer,
            code => assert_eq!(code, 14),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(number(&taken, "queueOffset"), max);
    drop(peer);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_cannot_keep_up_is_told_to_producers() {
    // Every append that another one meets counts as held up.
    let broker = TestBroker::with(|setup| setup.store.os_page_cache_busy_time_out_mills = -1).await;
    let mut peer = broker.connect().await;
    peer.create_topic("T", 4, RW).await;
    let addr = broker.running().addr();
    let senders: Vec<_> = (0..4)
        .map(|queue| {
            tokio::spawn(async move {
                let mut peer = Peer::connect(addr).await;
                let body = "x".repeat(1_000_000);
                let limit = Instant::now() + LIMIT;
                let mut taken = 0;
                while Instant::now() < limit {
                    let answer = peer.call(message("T", queue, "", &body)).await;
                    match answer.code {
                        0 => taken += 1,
                        _ => return (taken, answer.code, answer.remark.unwrap_or_default()),
                    }
                    if taken > 400 {
                        break;
                    }
                }
                (taken, 0, String::new())
            })
        })
        .collect();
    let mut taken = 0;
    let mut refused = 0;
    for sender in senders {
        let (count, code, remark) = sender.await.unwrap();
        taken += count;
        if code != 0 {
            let expected = "[REJECTREQUEST]system busy, start flow control for a while";
            assert_eq!((code, remark.as_str()), (2, expected));
            refused += 1;
        }
    }
    assert!(refused > 0 && taken > 0, "{refused} {taken}");
    // Nobody appends now.
    peer.put("T", 0, "", "alone").await;
    drop(peer);
    broker.stop().await;
}
