//! Unpacks a recorded store, opens it, and compares what is in it with its manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use config::{Config, Live, MessageStoreConfig};
use serde_json::Value;
use store::ctl::{self, Findings, StoreDir};
use store::record::RecordView;
use store::{All, Queue, ReadRequest, ReadResult, ReadStatus, RecordSlice, Store, StoreError, StoreOptions};

/// A recorded store in a temporary directory.
pub struct Golden {
    dir: tempfile::TempDir,
    /// The manifest.
    pub manifest: Value,
    conf: String,
}

/// Where a message is: topic, queue id, queue offset, physical offset, size.
pub type Place = (String, i32, i64, i64, usize);

fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat-tests/golden/stores")
}

fn manifest(name: &str) -> Value {
    serde_json::from_slice(&fs::read(golden_dir().join(format!("{name}.json"))).unwrap()).unwrap()
}

impl Golden {
    pub fn unpack(name: &str) -> Golden {
        let dir = tempfile::tempdir().unwrap();
        let archive = golden_dir().join(format!("{name}.tar.gz"));
        let status = Command::new("tar").arg("-C").arg(dir.path()).arg("-xzf").arg(archive).status().unwrap();
        assert!(status.success());
        let manifest = manifest(name);
        let conf = match manifest["broker_conf"].as_str() {
            Some(conf) => conf.to_owned(),
            None => self::manifest("unclean_sigkill")["broker_conf"].as_str().unwrap().to_owned(),
        };
        Golden { dir, manifest, conf }
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// The configuration, as a file.
    pub fn conf_file(&self) -> Option<PathBuf> {
        let path = self.dir.path().join("copy.conf");
        fs::write(&path, &self.conf).unwrap();
        Some(path)
    }

    fn options(&self) -> StoreOptions {
        let mut config = MessageStoreConfig::default();
        for line in self.conf.lines() {
            if let Some((key, value)) = line.split_once('=') {
                config.set(key, value).unwrap();
            }
        }
        config.store_path_root_dir = self.root().to_str().unwrap().to_owned();
        // The recorder's clock is ahead or behind by years: nothing may expire.
        config.file_reserved_time = 1_000_000;
        let host = "127.0.0.1:10711".parse().unwrap();
        StoreOptions { config: Arc::new(Live::new(config)), store_host: host, arrived: None, filter_bits: None }
    }

    pub fn try_open(&self) -> Result<Arc<Store>, StoreError> {
        Store::open(self.options())
    }

    /// Opens it with another configuration or other hooks.
    pub fn open_with(&self, change: impl FnOnce(&mut MessageStoreConfig, &mut StoreOptions)) -> Arc<Store> {
        let mut options = self.options();
        let mut config = MessageStoreConfig::clone(&options.config.load());
        change(&mut config, &mut options);
        Store::open(StoreOptions { config: Arc::new(Live::new(config)), ..options }).unwrap()
    }

    pub fn open(&self) -> Arc<Store> {
        self.try_open().unwrap()
    }

    /// How many entries of each kind the manifest has that the store answers for.
    pub fn counts(&self) -> String {
        let len = |value: &Value| value.as_array().map_or(0, Vec::len);
        let log = &self.manifest["commitlog"];
        format!(
            "{} messages, {} queues, {} records of the log ({} that no queue shows, {} blanks), {} files",
            len(&self.manifest["messages"]),
            len(&self.manifest["queues"]),
            log["records"],
            len(&log["records_not_in_messages"]),
            len(&log["blank_records"]),
            len(&self.manifest["files"])
        )
    }

    /// Fingerprints of every file below some directories of the store.
    pub fn fingerprint(&self, dirs: &[&str]) -> BTreeMap<PathBuf, u32> {
        let mut found = BTreeMap::new();
        let mut todo: Vec<PathBuf> = dirs.iter().map(|dir| self.root().join(dir)).filter(|dir| dir.exists()).collect();
        while let Some(path) = todo.pop() {
            if path.is_dir() {
                todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else {
                found.insert(path.clone(), fingerprint(&path));
            }
        }
        found
    }
}

/// Length and crc of a file. Pages of zeros do not count (the files are large and mostly holes), the places of the
/// others do.
fn fingerprint(path: &Path) -> u32 {
    use std::os::unix::fs::FileExt;
    const PAGE: usize = 4096;
    let file = fs::File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    let mut crc = crc32fast::Hasher::new();
    crc.update(&len.to_be_bytes());
    let mut page = [0; PAGE];
    let mut at = 0;
    while let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
        let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(data)).unwrap();
        at = data - data % PAGE as u64;
        while at < hole {
            let bytes = &mut page[..PAGE.min((len - at) as usize)];
            file.read_exact_at(bytes, at).unwrap();
            if bytes.iter().any(|byte| *byte != 0) {
                crc.update(&at.to_be_bytes());
                crc.update(bytes);
            }
            at += PAGE as u64;
        }
    }
    crc.finalize()
}

/// What `store-ctl check` says of the store's files.
pub fn check_files(golden: &Golden) -> (Findings, String) {
    let mut out = Vec::new();
    let found = ctl::check(&StoreDir::open(&golden.root(), golden.conf_file().as_deref()).unwrap(), &mut out).unwrap();
    (found, String::from_utf8(out).unwrap())
}

/// Every readable record of a queue, by reading it the way a pull does.
pub fn records(store: &Store, queue: &Queue) -> Vec<RecordSlice> {
    let mut result = empty_result();
    let mut offset = queue.min_offset();
    let mut records = Vec::new();
    while offset < queue.max_offset() {
        let request = ReadRequest { offset, max_messages: 32, max_bytes: i32::MAX };
        store.read(queue, &request, &All, &mut result);
        assert!(result.next_offset > offset, "{} {} {offset}: {:?}", queue.topic(), queue.id(), result.status);
        offset = result.next_offset;
        records.append(&mut result.records);
    }
    records
}

fn empty_result() -> ReadResult {
    ReadResult {
        status: ReadStatus::NoMessageInQueue,
        next_offset: 0,
        min_offset: 0,
        max_offset: 0,
        records: Vec::new(),
        bytes: 0,
        suggest_slave: false,
    }
}

/// Every readable message of the store.
pub fn places(store: &Store) -> Vec<Place> {
    let mut found = Vec::new();
    for topic in store.topics() {
        for queue in store.queues_of(&topic) {
            for record in records(store, &queue) {
                let view = RecordView::parse(&record).unwrap();
                assert_eq!((view.topic(), view.queue_id()), (queue.topic(), queue.id()));
                found.push((topic.to_string(), queue.id(), view.queue_offset(), view.phys_offset(), view.size()));
            }
        }
    }
    found.sort();
    found
}

/// The same from `reopened_by_java`.
pub fn places_by_java(manifest: &Value) -> Vec<Place> {
    let rows = manifest["reopened_by_java"]["messages_topic_queue_qoffset_phy_size"].as_array().unwrap();
    let mut found: Vec<Place> = rows
        .iter()
        .map(|row| {
            let number = |i: usize| row[i].as_i64().unwrap();
            (row[0].as_str().unwrap().to_owned(), number(1) as i32, number(2), number(3), number(4) as usize)
        })
        .collect();
    found.sort();
    found
}

/// Compares, and says only what differs. Messages of `more` topics may be there in addition.
pub fn check_places(found: &[Place], expected: &[Place], more: &[&str]) {
    let missing: Vec<_> = expected.iter().filter(|place| !found.contains(place)).collect();
    let additional: Vec<_> =
        found.iter().filter(|place| !expected.contains(place) && !more.contains(&&*place.0)).collect();
    assert!(missing.is_empty() && additional.is_empty(), "missing {missing:?}, additional {additional:?}");
}

/// Lowest and highest offsets of the queues that a manifest lists. What the log has beyond the manifest's messages (the
/// broker went on for a moment) is added.
pub fn check_queues(store: &Store, queues: &Value, later: &Value) {
    let queues = queues.as_array().unwrap();
    assert!(!queues.is_empty());
    let later = later.as_array().map_or(&[][..], |later| &later[..]);
    for row in queues {
        let topic = row["topic"].as_str().unwrap();
        let id = row["queueId"].as_i64().unwrap() as i32;
        let queue = store.queue_or_create(topic, id);
        let offsets = (queue.min_offset(), queue.max_offset(), records(store, &queue).len() as i64);
        let [min, max, readable] = ["min", "max", "readable"].map(|name| row[name].as_i64().unwrap());
        let later = later.iter().filter(|record| record["topic"] == topic && record["queueId"] == id).count() as i64;
        let expected = [min, max + later, readable + later];
        assert_eq!(offsets, expected.into(), "{topic} {id}");
    }
}

/// The files that were recorded are those of the manifest, with their sizes.
pub fn check_names(golden: &Golden) {
    let listed: BTreeMap<&str, u64> = golden.manifest["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file[0].as_str().unwrap(), file[1].as_u64().unwrap()))
        // The lock file is not in the archives.
        .filter(|(name, _)| name.starts_with("store/") && *name != "store/lock")
        .collect();
    let mut found = BTreeMap::new();
    let mut todo = vec![golden.root()];
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let name = path.strip_prefix(golden.dir.path()).unwrap().to_str().unwrap().to_owned();
            found.insert(name, fs::metadata(&path).unwrap().len());
        }
    }
    let found: BTreeMap<&str, u64> = found.iter().map(|(name, size)| (name.as_str(), *size)).collect();
    assert_eq!(found, listed);
}

/// The checkpoint's numbers.
pub fn check_checkpoint(golden: &Golden) {
    let checkpoint = store::checkpoint::Checkpoint::open(&golden.root().join("checkpoint")).unwrap();
    let found = [
        ("physicMsgTimestamp", &checkpoint.physic_msg_timestamp),
        ("logicsMsgTimestamp", &checkpoint.logics_msg_timestamp),
        ("indexMsgTimestamp", &checkpoint.index_msg_timestamp),
        ("masterFlushedOffset", &checkpoint.master_flushed_offset),
        ("confirmPhyOffset", &checkpoint.confirm_phys_offset),
        ("logicsPhysicalOffset", &checkpoint.logics_phys_offset),
    ];
    for (name, number) in found {
        assert_eq!(number.get(), golden.manifest["checkpoint"][name].as_i64().unwrap(), "{name}");
    }
}

/// The log record by record: there are as many as the manifest counts, each is one of its messages or of its later records,
/// and the blanks are where it says.
pub fn check_log(store: &Store, manifest: &Value) {
    let number = |row: &Value, name: &str| row[name].as_i64().unwrap();
    let log = &manifest["commitlog"];
    let place = |row: &Value| {
        let place = ["queueId", "queueOffset", "physicalOffset", "size", "sysFlag"].map(|name| number(row, name));
        (row["topic"].as_str().unwrap().to_owned(), row["magic"].as_str().unwrap().to_owned(), place)
    };
    let (messages, later) =
        (manifest["messages"].as_array().unwrap(), log["records_not_in_messages"].as_array().unwrap());
    let expected: BTreeSet<_> = messages.iter().chain(later).map(place).collect();
    let mut found = BTreeSet::new();
    let mut walk = store.log().walk(store.log_range().start);
    while let Some((phys, record)) = walk.next_record() {
        let place = [
            record.queue_id().into(),
            record.queue_offset(),
            phys as i64,
            record.size() as i64,
            record.sys_flag().into(),
        ];
        assert_eq!(record.phys_offset(), phys as i64);
        assert!(record.body_crc_fits());
        found.insert((record.topic().to_owned(), format!("{:08x}", record.version().magic()), place));
    }
    assert_eq!(found, expected);
    assert_eq!(found.len() as i64, number(log, "records"));
    let blanks = log["blank_records"].as_array().unwrap();
    for blank in blanks {
        let base: u64 = blank["file"].as_str().unwrap().parse().unwrap();
        let rest = store.log().rest_of_file(base + number(blank, "offset_in_file") as u64).unwrap();
        assert_eq!(i64::from(u32::from_be_bytes(rest[..4].try_into().unwrap())), number(blank, "size"));
        assert_eq!(rest[4..8], 0xcbd4_3194u32.to_be_bytes());
        let hex: String = rest[8..24].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, blank["bytes_8_to_24_hex"].as_str().unwrap());
    }
}

/// Every message of the manifest, with all of its fields, by queue offset, by physical offset and by its keys.
pub fn check_messages(store: &Store, manifest: &Value) {
    let messages = manifest["messages"].as_array().unwrap();
    assert!(!messages.is_empty());
    for message in messages {
        let text = |name: &str| message[name].as_str().unwrap_or_default();
        let number = |name: &str| message[name].as_i64().unwrap();
        let what = format!("{} {} {}", text("topic"), number("queueId"), number("queueOffset"));
        let queue = store.queue(text("topic"), number("queueId") as i32).unwrap();
        let mut result = empty_result();
        let request = ReadRequest { offset: number("queueOffset"), max_messages: 1, max_bytes: 1 };
        store.read(&queue, &request, &All, &mut result);
        assert_eq!((result.status, result.records.len()), (ReadStatus::Found, 1), "{what}");
        let record = &result.records[0];
        assert_eq!(**record, *store.record_at(number("physicalOffset") as u64).unwrap(), "{what}");
        let view = RecordView::parse(record).unwrap();
        let numbers = [
            ("queueId", view.queue_id().into()),
            ("queueOffset", view.queue_offset()),
            ("physicalOffset", view.phys_offset()),
            ("size", view.size() as i64),
            ("flag", view.flag().into()),
            ("sysFlag", view.sys_flag().into()),
            ("bodyCRC", view.body_crc().into()),
            ("bornTimestamp", view.born_timestamp()),
            ("storeTimestamp", view.store_timestamp()),
            ("reconsumeTimes", view.reconsume_times().into()),
            ("preparedTransactionOffset", view.prepared_transaction_offset()),
            ("storedBodyLen", view.body().len() as i64),
        ];
        for (name, found) in numbers {
            assert_eq!(found, number(name), "{what} {name}");
        }
        assert!(view.body_crc_fits(), "{what}");
        assert_eq!(view.topic(), text("topic"), "{what}");
        assert_eq!(format!("{:08x}", view.version().magic()), text("magic"), "{what}");
        assert_eq!(view.born_host().to_string(), text("bornHost"), "{what}");
        assert_eq!(view.store_host().to_string(), text("storeHost"), "{what}");
        assert_eq!(view.properties().get("TAGS"), message["tags"].as_str(), "{what}");
        assert_eq!(view.keys(), message["keys"].as_str(), "{what}");
        assert_eq!(view.uniq_key(), message["uniqKey"].as_str(), "{what}");
        let properties: BTreeMap<String, Value> = view
            .properties()
            .map(|(name, value)| {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                (text(name), Value::from(text(value)))
            })
            .collect();
        let expected: BTreeMap<String, Value> =
            message["properties"].as_object().unwrap().clone().into_iter().collect();
        assert_eq!(properties, expected, "{what}");
        check_body(&view, message, &what);
        assert_eq!(store.store_time(&queue, view.queue_offset()), view.store_timestamp(), "{what}");
        let keys = view.uniq_key().into_iter().chain(view.keys().unwrap_or_default().split(' '));
        for key in keys.filter(|key| !key.is_empty()) {
            let time = view.store_timestamp() - 1000..view.store_timestamp() + 1000;
            let found = store.query(view.topic(), key, 64, time);
            assert!(found.records.iter().any(|other| **other == **record), "{what}: {key} is not in the index");
        }
    }
}

fn check_body(view: &RecordView<'_>, message: &Value, what: &str) {
    use base64::Engine;
    const COMPRESSED: i32 = 1;
    const COMPRESSION_TYPE: i32 = 0b111 << 8;
    const ZLIB: i32 = 0b011 << 8;
    let body = match view.sys_flag() {
        flag if flag & COMPRESSED == 0 => view.body().to_vec(),
        flag if matches!(flag & COMPRESSION_TYPE, 0 | ZLIB) => {
            let mut body = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(view.body()), &mut body).unwrap();
            body
        }
        // lz4 and zstd: its length and its crc are compared.
        _ => return,
    };
    assert_eq!(body.len() as i64, message["bodyLen"].as_i64().unwrap(), "{what}");
    if let Some(expected) = message["body"].as_str() {
        assert_eq!(body, base64::engine::general_purpose::STANDARD.decode(expected).unwrap(), "{what}");
    }
}
