//! Stores to be damaged, what was in them, and what must hold when they are opened again.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Config, Live, MessageStoreConfig};
use store::ctl::{self, StoreDir};
use store::record::{RecordView, properties};
use store::{All, Appended, NewMessage, Queue, ReadRequest, ReadResult, Store, StoreError, StoreOptions};

pub const LOG_FILE: u64 = 64 * 1024;
pub const QUEUE_FILE: u64 = 2000;
const CONF: &str =
    "mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=2000\nmaxHashSlotNum=100\nmaxIndexNum=400\n";

/// A directory with a store and the configuration that fits it.
pub struct Dir {
    dir: tempfile::TempDir,
    conf: String,
}

impl Dir {
    /// Small files, so that a few hundred messages fill several of each kind.
    pub fn new() -> Dir {
        Dir { dir: tempfile::tempdir().unwrap(), conf: CONF.to_owned() }
    }

    /// A recorded store of a Java broker.
    pub fn golden(name: &str) -> Dir {
        let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat-tests/golden/stores");
        let dir = tempfile::tempdir().unwrap();
        let archive = stores.join(format!("{name}.tar.gz"));
        let unpacked =
            std::process::Command::new("tar").arg("-C").arg(dir.path()).arg("-xzf").arg(archive).status().unwrap();
        assert!(unpacked.success());
        let manifest: serde_json::Value =
            serde_json::from_slice(&fs::read(stores.join(format!("{name}.json"))).unwrap()).unwrap();
        Dir { dir, conf: manifest["broker_conf"].as_str().unwrap().to_owned() }
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub fn log_file(&self, base: u64) -> PathBuf {
        self.path(&format!("commitlog/{base:020}"))
    }

    pub fn queue_file(&self, topic: &str, id: i32, file: u64) -> PathBuf {
        self.path(&format!("consumequeue/{topic}/{id}/{:020}", file * QUEUE_FILE))
    }

    /// A copy as it is now: of an open store that gets no messages, what a SIGKILL about this moment leaves.
    pub fn copy(&self) -> Dir {
        let copy = Dir { dir: tempfile::tempdir().unwrap(), conf: self.conf.clone() };
        // The copy takes its time. A checkpoint that is newer than the files would say that they have what they have not.
        let checkpoint = fs::read(self.path("checkpoint"));
        let status = std::process::Command::new("cp")
            .args(["-r", "--sparse=always"])
            .arg(self.root())
            .arg(copy.root())
            .status()
            .unwrap();
        assert!(status.success());
        if let Ok(checkpoint) = checkpoint {
            fs::write(copy.path("checkpoint"), checkpoint).unwrap();
        }
        copy
    }

    pub fn try_open(&self) -> Result<Arc<Store>, StoreError> {
        open_at(&self.root(), &self.conf)
    }

    /// Adds lines to the configuration.
    pub fn with(mut self, lines: &str) -> Dir {
        self.conf.push_str(lines);
        self
    }

    /// Fills the empty directory with files by their names in the store.
    pub fn holding(self, files: &BTreeMap<PathBuf, Image>) -> Dir {
        for (name, image) in files {
            let path = self.root().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = File::create(path).unwrap();
            file.set_len(image.len).unwrap();
            for (at, bytes) in &image.parts {
                let end = (at + bytes.len() as u64).min(image.len);
                file.write_all_at(&bytes[..end.saturating_sub(*at) as usize], *at).unwrap();
            }
        }
        self
    }

    pub fn conf(&self) -> &str {
        &self.conf
    }

    pub fn open(&self) -> Arc<Store> {
        self.try_open().unwrap()
    }

    /// What `store-ctl check` has to complain about; the store must be closed.
    pub fn complaints(&self) -> Option<String> {
        let conf = self.dir.path().join("check.conf");
        fs::write(&conf, &self.conf).unwrap();
        let mut out = Vec::new();
        let found = ctl::check(&StoreDir::open(&self.root(), Some(&conf)).unwrap(), &mut out).unwrap();
        (found.errors > 0).then(|| String::from_utf8(out).unwrap())
    }

    /// Names and contents of all files, to see whether anything changed.
    pub fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut todo = vec![self.root()];
        while let Some(path) = todo.pop() {
            if path.is_dir() {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if !path.ends_with("lock") {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
        found
    }
}

/// What is in a file: parts by their place, zeros between.
#[derive(Clone, Debug, Default)]
pub struct Image {
    pub len: u64,
    pub parts: BTreeMap<u64, Vec<u8>>,
}

/// Opens the store in a directory.
pub fn open_at(root: &Path, conf: &str) -> Result<Arc<Store>, StoreError> {
    let mut config = MessageStoreConfig::default();
    for (key, value) in conf.lines().filter_map(|line| line.split_once('=')) {
        config.set(key, value).unwrap();
    }
    config.store_path_root_dir = root.to_str().unwrap().to_owned();
    // Recorded long ago: nothing may expire.
    config.file_reserved_time = 1_000_000;
    let store_host = SocketAddr::from(([127, 0, 0, 1], 10911));
    Store::open(StoreOptions { config: Arc::new(Live::new(config)), store_host, arrived: None, filter_bits: None })
}

/// A message of the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    pub phys: u64,
    pub size: u64,
    pub topic: String,
    pub id: i32,
    pub offset: i64,
    pub keys: Vec<String>,
}

impl Message {
    pub fn end(&self) -> u64 {
        self.phys + self.size
    }
}

/// Every readable message, in the order of the log.
pub fn messages(store: &Store) -> Vec<Message> {
    let mut found = Vec::new();
    for topic in store.topics() {
        for queue in store.queues_of(&topic) {
            found.extend(messages_of(store, &queue));
        }
    }
    found.sort();
    found
}

/// The readable messages of a queue, by offset.
pub fn messages_of(store: &Store, queue: &Queue) -> Vec<Message> {
    let mut found = Vec::new();
    let mut offset = queue.min_offset();
    while offset < queue.max_offset() {
        let mut result = ReadResult::default();
        store.read(queue, &ReadRequest { offset, max_messages: 32, max_bytes: 1 << 20 }, &All, &mut result);
        assert!(result.next_offset > offset, "a read that stands still at {offset}: {:?}", result.status);
        for slice in &result.records {
            let view = RecordView::parse(slice).unwrap();
            assert!(view.body_crc_fits());
            assert_eq!((view.topic(), view.queue_id()), (queue.topic(), queue.id()));
            let keys = view.uniq_key().into_iter().chain(view.keys().unwrap_or_default().split(' '));
            found.push(Message {
                phys: view.phys_offset() as u64,
                size: view.size() as u64,
                topic: queue.topic().to_owned(),
                id: queue.id(),
                offset: view.queue_offset(),
                keys: keys.filter(|key| !key.is_empty()).map(str::to_owned).collect(),
            });
        }
        offset = result.next_offset;
    }
    found
}

/// A message as any other, but for its properties and its body.
pub fn message<'a>(properties: &'a [u8], body: &'a [u8]) -> NewMessage<'a> {
    NewMessage {
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: SocketAddr::from(([127, 0, 0, 1], 4000)),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        properties,
        body,
    }
}

/// Appends a message with a key to a queue and makes it readable.
pub fn send(store: &Store, topic: &str, id: i32, key: &str, body: &[u8]) -> Appended {
    let mut props = Vec::new();
    properties::push(&mut props, "KEYS", key.as_bytes());
    let message = message(&props, body);
    let appended = store.append(&store.queue_or_create(topic, id), &message).unwrap();
    store.dispatch();
    appended
}

/// A store of ours with several files of every kind: topic `Quiet` in the first log file only, `Busy` with two queues in
/// all of them.
pub fn made(clean: bool) -> (Dir, Vec<Message>) {
    let dir = Dir::new();
    let store = dir.open();
    for i in 0..380 {
        if i < 130 {
            send(&store, "Quiet", 0, &format!("q{i}"), &[b'q'; 100]);
        }
        send(&store, "Busy", i % 2, &format!("b{i}"), &[b'b'; 300]);
    }
    assert!(store.log().segments().snapshot().len() >= 3);
    let known = messages(&store);
    assert_eq!(known.len(), 510);
    store.sync_all().unwrap();
    if !clean {
        // More than the checkpoint knows of.
        send(&store, "Busy", 0, "late", b"late");
        let known = messages(&store);
        return (dir.copy(), known);
    }
    store.close();
    (dir, known)
}

/// What must hold of a store whose whole records are `whole`: all are readable at their offsets and found by their
/// keys, nothing else is, new messages go on exactly behind, twice, and all files fit together.
///
/// `next` says the next offset of queues where it does not follow from `whole`.
pub fn check(what: &str, dir: &Dir, whole: &[Message], gone: &[Message], next: &[(&str, i32, i64)]) {
    let mut whole = whole.to_vec();
    let mut queues: BTreeMap<(String, i32), i64> = BTreeMap::new();
    for message in whole.iter().chain(gone) {
        queues.entry((message.topic.clone(), message.id)).or_insert(0);
    }
    for message in &whole {
        queues.insert((message.topic.clone(), message.id), message.offset + 1);
    }
    for (topic, id, offset) in next {
        queues.insert(((*topic).to_owned(), *id), *offset);
    }
    for life in 0..2 {
        let store = dir.try_open().unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = messages(&store);
        let difference = |a: &[Message], b: &[Message]| {
            let b: BTreeSet<_> = b.iter().collect();
            a.iter().filter(|message| !b.contains(message)).take(5).cloned().collect::<Vec<_>>()
        };
        let (missing, more) = (difference(&whole, &found), difference(&found, &whole));
        assert!(missing.is_empty() && more.is_empty(), "{what}, life {life}: missing {missing:?}, more {more:?}");
        // What the first life found the second one will: it only adds.
        for message in whole.iter().filter(|_| life == 0) {
            for key in &message.keys {
                let records = store.query(&message.topic, key, 64, 0..i64::MAX).records;
                let hit = records.iter().any(|record| record.offset() == message.phys);
                assert!(hit, "{what}, life {life}: {key} of {message:?} is not found");
            }
        }
        for message in gone {
            for key in &message.keys {
                let records = store.query(&message.topic, key, 64, 0..i64::MAX).records;
                let known: BTreeSet<_> = whole.iter().map(|message| message.phys).collect();
                assert!(
                    records.iter().all(|record| known.contains(&record.offset())),
                    "{what}: {key} of {message:?}, which is lost, is found"
                );
            }
        }
        for ((topic, id), next) in &mut queues {
            let end = store.log_range().end;
            let key = format!("fresh-{topic}-{id}-{next}");
            let appended = send(&store, topic, *id, &key, b"fresh");
            assert_eq!(appended.queue_offset, *next, "{what}, life {life}: next offset of {topic} {id}");
            // Exactly at the end, or at the start of the next file when it does not fit.
            assert!(
                appended.phys_offset == end || appended.phys_offset - end < 4096,
                "{what}: the log goes on at {} instead of {end}",
                appended.phys_offset
            );
            *next += 1;
            whole.push(Message {
                phys: appended.phys_offset,
                size: appended.end - appended.phys_offset,
                topic: topic.clone(),
                id: *id,
                offset: appended.queue_offset,
                keys: vec![key],
            });
        }
        assert_eq!(messages(&store), whole, "{what}, life {life}: after the new messages");
        store.close();
        drop(store);
        assert_eq!(dir.complaints(), None, "{what}, life {life}");
    }
}

pub fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

/// Zeros from `at` to the end.
pub fn zero(path: &Path, at: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let len = file.metadata().unwrap().len();
    file.set_len(at).unwrap();
    file.set_len(len).unwrap();
}

pub fn invert(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}
