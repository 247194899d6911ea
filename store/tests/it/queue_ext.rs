//! The extension of consume queues: what Java wrote is read, what is written is Java's, and nothing depends on it.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::golden_support::{Golden, check_messages, check_queues};
use store::record::{RecordView, java_hash};
use store::{NewMessage, Queue, ReadFilter, ReadRequest, ReadResult, ReadStatus, Store};

const TOPIC: &str = "TopicSql";
const DERIVED: [&str; 2] = ["consumequeue", "consumequeue_ext"];

/// Wants one tag, and counts how it was asked.
#[derive(Default)]
struct Tag {
    code: i64,
    by_ext: AtomicUsize,
    without_ext: AtomicUsize,
}

impl Tag {
    fn new(tag: &str) -> Tag {
        Tag { code: java_hash(tag).into(), ..Tag::default() }
    }

    fn asked(&self) -> (usize, usize) {
        (self.by_ext.load(Ordering::Relaxed), self.without_ext.load(Ordering::Relaxed))
    }
}

impl ReadFilter for Tag {
    fn by_tags_code(&self, code: i64) -> bool {
        code == self.code
    }

    fn by_ext(&self, tags_code: i64, _: &[u8], store_timestamp: i64) -> bool {
        assert!(store_timestamp > 0);
        self.by_ext.fetch_add(1, Ordering::Relaxed);
        self.by_tags_code(tags_code)
    }

    fn without_ext(&self, record: &RecordView<'_>) -> bool {
        self.without_ext.fetch_add(1, Ordering::Relaxed);
        self.by_tags_code(record.tags_code())
    }
}

/// Notes the bits of every entry.
#[derive(Default)]
struct Bits(std::sync::Mutex<Vec<Vec<u8>>>);

impl ReadFilter for Bits {
    fn by_tags_code(&self, _: i64) -> bool {
        panic!("every entry has a part in the extension");
    }

    fn by_ext(&self, _: i64, bits: &[u8], _: i64) -> bool {
        self.0.lock().unwrap().push(bits.to_vec());
        true
    }
}

/// Offsets of the messages that a filter takes.
fn read(store: &Store, queue: &Queue, filter: &dyn ReadFilter) -> Vec<i64> {
    let mut result = ReadResult::default();
    let mut found = Vec::new();
    let mut offset = queue.min_offset();
    while offset < queue.max_offset() {
        store.read(queue, &ReadRequest { offset, max_messages: 32, max_bytes: i32::MAX }, filter, &mut result);
        assert!(matches!(result.status, ReadStatus::Found | ReadStatus::NoMatchedMessage), "{:?}", result.status);
        assert!(result.next_offset > offset);
        offset = result.next_offset;
        found.extend(result.records.iter().map(|record| RecordView::parse(record).unwrap().queue_offset()));
    }
    found
}

/// Offsets of the messages with a tag, by the manifest.
fn expected(golden: &Golden, id: i32, tag: &str) -> Vec<i64> {
    let messages = golden.manifest["messages"].as_array().unwrap().iter();
    let wanted = messages.filter(|row| row["topic"] == TOPIC && row["queueId"] == id && row["tags"] == tag);
    let mut offsets: Vec<i64> = wanted.map(|row| row["queueOffset"].as_i64().unwrap()).collect();
    offsets.sort_unstable();
    offsets
}

fn tags(golden: &Golden) -> Vec<String> {
    let messages = golden.manifest["messages"].as_array().unwrap().iter();
    let mut tags: Vec<String> = messages.filter_map(|row| row["tags"].as_str().map(str::to_owned)).collect();
    tags.sort();
    tags.dedup();
    tags
}

/// Filter bits by physical offset, from the store itself.
fn bits_by_record(golden: &Golden) -> HashMap<i64, Vec<u8>> {
    let store = golden.open();
    let mut found = HashMap::new();
    for queue in store.queues_of(TOPIC) {
        let bits = Bits::default();
        read(&store, &queue, &bits);
        for (offset, bits) in bits.0.into_inner().unwrap().into_iter().enumerate() {
            found.insert(queue.entry(offset as i64).unwrap().unit.phys, bits);
        }
    }
    found
}

fn append(store: &Store, queue: &Queue, tag: &str) -> i64 {
    let properties = format!("TAGS\x01{tag}\x02");
    let message = NewMessage {
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: "127.0.0.1:1".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        properties: properties.as_bytes(),
        body: b"fresh",
    };
    let offset = store.append(queue, &message).unwrap().queue_offset;
    store.dispatch();
    offset
}

fn ext_file(golden: &Golden, id: i32) -> PathBuf {
    golden.root().join(format!("consumequeue_ext/{TOPIC}/{id}/{:020}", 0))
}

#[test]
fn tags_are_found_through_the_extension() {
    let golden = Golden::unpack("sql_filter_ext");
    let store = golden.open();
    let tags = tags(&golden);
    assert!(tags.len() > 1);
    for (id, tag) in (0..4).flat_map(|id| tags.iter().map(move |tag| (id, tag))) {
        let queue = store.queue(TOPIC, id).unwrap();
        let filter = Tag::new(tag);
        assert_eq!(read(&store, &queue, &filter), expected(&golden, id, tag), "{id} {tag}");
        assert_eq!(filter.asked(), (queue.max_offset() as usize, 0));
    }
    // Bits were written for the messages that a filter was known for.
    let bits = bits_by_record(&golden_copy());
    assert!(bits.values().any(|bits| bits.len() == 14 && bits.iter().any(|byte| *byte != 0)), "{bits:?}");
}

fn golden_copy() -> Golden {
    Golden::unpack("sql_filter_ext")
}

/// Queues and extension are lost and made again, with the bits of the hook: the same bytes as Java's.
#[test]
fn what_is_made_again_is_what_java_wrote() {
    let golden = Golden::unpack("sql_filter_ext");
    let before = golden.fingerprint(&DERIVED);
    let bits = bits_by_record(&golden);
    for dir in DERIVED {
        fs::remove_dir_all(golden.root().join(dir)).unwrap();
    }
    let hook = Arc::new(move |record: &RecordView<'_>| bits.get(&record.phys_offset()).cloned());
    golden.open_with(|_, options| options.filter_bits = Some(hook)).close();
    assert_eq!(before, golden.fingerprint(&DERIVED));
}

#[test]
fn a_lost_or_damaged_extension_hides_nothing() {
    for damage in ["directory", "file", "bytes", "zeros"] {
        let golden = Golden::unpack("sql_filter_ext");
        match damage {
            "directory" => fs::remove_dir_all(golden.root().join("consumequeue_ext")).unwrap(),
            "file" => fs::write(ext_file(&golden, 0), b"").unwrap(),
            _ => {
                let len = fs::read(ext_file(&golden, 0)).unwrap().len();
                fs::write(ext_file(&golden, 0), vec![if damage == "bytes" { 0x55 } else { 0 }; len]).unwrap();
            }
        }
        let store = golden.open();
        check_queues(&store, &golden.manifest["queues"], &golden.manifest["commitlog"]["records_not_in_messages"]);
        check_messages(&store, &golden.manifest);
        let tags = tags(&golden);
        let queue = store.queue(TOPIC, 0).unwrap();
        let lost = queue.max_offset() as usize;
        for tag in &tags {
            let filter = Tag::new(tag);
            assert_eq!(read(&store, &queue, &filter), expected(&golden, 0, tag), "{damage} {tag}");
            assert_eq!(filter.asked(), (0, lost), "{damage}");
        }
        // New entries do not give the old ones another meaning, now and after a restart.
        let new = append(&store, &queue, "fresh");
        store.close();
        for _ in 0..2 {
            let store = golden.open();
            let queue = store.queue(TOPIC, 0).unwrap();
            let fresh = Tag::new("fresh");
            assert_eq!(read(&store, &queue, &fresh), [new], "{damage}");
            assert_eq!(fresh.asked(), (1, lost), "{damage}");
            let old = Tag::new(&tags[0]);
            assert_eq!(read(&store, &queue, &old), expected(&golden, 0, &tags[0]), "{damage}");
        }
    }
}

#[test]
fn switched_off_and_on_again() {
    let golden = Golden::unpack("sql_filter_ext");
    let tags = tags(&golden);
    let mut added = Vec::new();
    for on in [false, true, false] {
        let store = golden.open_with(|config, _| config.enable_consume_queue_ext = on);
        let queue = store.queue(TOPIC, 1).unwrap();
        let old = Tag::new(&tags[0]);
        assert_eq!(read(&store, &queue, &old), expected(&golden, 1, &tags[0]));
        added.push(append(&store, &queue, "fresh"));
        let fresh = Tag::new("fresh");
        assert_eq!(read(&store, &queue, &fresh), added);
        assert_eq!(fresh.asked().1, 0);
    }
    let store = golden.open();
    let (queue, all) = (store.queue(TOPIC, 1).unwrap(), Tag::new("fresh"));
    assert_eq!(read(&store, &queue, &all), added);
    assert_eq!(all.asked(), (queue.max_offset() as usize - 2, 0), "two were written without");
}

/// The log loses its end: the extension is cut with the queue, and the next entry takes the place of the lost one.
#[test]
fn cut_with_the_log() {
    let golden = Golden::unpack("sql_filter_ext");
    let store = golden.open();
    let queue = store.queue(TOPIC, 2).unwrap();
    let kept = queue.max_offset();
    let appended = append(&store, &queue, "lost");
    let phys = queue.entry(appended).unwrap().unit.phys as usize;
    let stranded = golden.root().join("abort");
    store.close();
    let log = golden.root().join(format!("commitlog/{:020}", 0));
    let mut bytes = fs::read(&log).unwrap();
    bytes[phys + 4] ^= 0xff;
    fs::write(&log, &bytes).unwrap();
    fs::write(stranded, b"").unwrap();
    let whole = fs::read(ext_file(&golden, 2)).unwrap();
    let store = golden.open();
    let queue = store.queue(TOPIC, 2).unwrap();
    assert_eq!(queue.max_offset(), kept);
    let cut = fs::read(ext_file(&golden, 2)).unwrap();
    let at = whole.len() - whole.iter().rev().take_while(|byte| **byte == 0).count();
    let end = cut.len() - cut.iter().rev().take_while(|byte| **byte == 0).count();
    assert!(end < at, "{end} {at}");
    assert_eq!(append(&store, &queue, "new"), kept);
    assert_eq!(read(&store, &queue, &Tag::new("new")), [kept]);
    assert_eq!(read(&store, &queue, &Tag::new("lost")), [0; 0]);
    store.close();
    let again = fs::read(ext_file(&golden, 2)).unwrap();
    assert_eq!(again.len() - again.iter().rev().take_while(|byte| **byte == 0).count(), at, "in the same place");
}

#[test]
fn files_go_with_the_queue() {
    let golden = Golden::unpack("sql_filter_ext");
    let small = |config: &mut config::MessageStoreConfig| {
        config.mapped_file_size_commit_log = 4096;
        config.mapped_file_size_consume_queue = 200;
        config.mapped_file_size_consume_queue_ext = 256;
        config.file_reserved_time = 0;
        config.delete_when = (0..24).map(|hour| format!("{hour:02}")).collect::<Vec<_>>().join(";");
        config.clean_resource_interval = 1000;
        config.delete_commit_log_files_interval = 0;
        config.delete_consume_queue_files_interval = 0;
    };
    for dir in ["commitlog", "consumequeue", "consumequeue_ext", "index", "checkpoint"] {
        let path = golden.root().join(dir);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    let store = golden.open_with(|config, _| small(config));
    let queue = store.queue_or_create("T", 0);
    for _ in 0..400 {
        append(&store, &queue, "a");
    }
    let dir = golden.root().join("consumequeue_ext/T/0");
    let first = || {
        let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names[0].to_str().unwrap().parse::<i64>().unwrap()
    };
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while first() == 0 {
        assert!(std::time::Instant::now() < limit, "no file of the extension was deleted");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let filter = Tag::new("a");
    assert_eq!(read(&store, &queue, &filter).last(), Some(&399));
    assert_eq!(filter.asked().1, 0, "what is readable kept its part of the extension");
    store.delete_topic("T");
    assert!(!dir.exists() && !golden.root().join("consumequeue_ext/T").exists());
}
