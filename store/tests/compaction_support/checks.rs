//! What must hold of compacted logs, whatever happened to them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use store::Store;
use store::record::RecordView;

use super::{Message, all_of, message_of, page};
use crate::faults_support::Dir;

/// Bytes of a queue file and a log file: ten messages.
pub const CQ: usize = 506;
pub const LOG: usize = 5 * CQ;
pub const CONF: &str = "compactionCqMappedFileSize=506\ncompactionMappedFileSize=1\n\
    compactionThreadNum=1\ncompactionScheduleInternal=100000000\n";
pub fn next(store: &Store, topic: &str, id: i32) -> i64 {
    store.queue(topic, id).map_or(0, |queue| queue.max_offset())
}

/// What the log has of a queue.
pub fn logged(store: &Store, topic: &str, id: i32) -> Vec<Message> {
    let Some(queue) = store.queue(topic, id) else { return Vec::new() };
    let record = |offset| {
        let unit = queue.entry(offset).expect("a unit").unit;
        let record = store.record_at(unit.phys as u64).expect("a record");
        message_of(&RecordView::parse(&record).expect("a record"))
    };
    (0..queue.max_offset()).map(record).collect()
}

/// Those of the queues that the store has.
fn made<'a>(store: &Store, queues: &'a [(&'a str, i32)]) -> impl Iterator<Item = (&'a str, i32)> {
    let has = |(topic, id): &(&str, i32)| store.queue(topic, *id).is_some();
    queues.iter().copied().filter(has).collect::<Vec<_>>().into_iter()
}

/// What can be read is in the log, and of each key the last message can, unless it deleted the key and all is gone.
pub fn check_reads(what: &str, store: &Store, queues: &[(&str, i32)]) {
    for (topic, id) in made(store, queues) {
        let before = logged(store, topic, id);
        let found = all_of(store, topic, id);
        let after = logged(store, topic, id);
        for message in &found {
            assert!(after.contains(message), "{what}: {message:?} of {topic} {id} is not in the log");
        }
        let last: BTreeMap<&str, &Message> = before.iter().map(|message| (message.1.as_str(), message)).collect();
        for (key, last) in last {
            let of_key: Vec<_> = found.iter().filter(|message| message.1 == key).collect();
            let gone = after.iter().any(|message| message.1 == key && message.0 >= last.0 && message.2.is_empty());
            match of_key.last() {
                Some(found) => assert!(found.0 >= last.0, "{what}: {topic} {id} has {found:?}, not {last:?}"),
                None => assert!(gone, "{what}: {topic} {id}: {last:?} is lost"),
            }
        }
    }
}

/// Every offset leads to the first message at or behind it.
pub fn check_offsets(what: &str, store: &Store, queues: &[(&str, i32)]) {
    for (topic, id) in made(store, queues) {
        let found = all_of(store, topic, id);
        for offset in 0..next(store, topic, id) {
            let first = page(store, topic, id, offset).records.first().map(|record| {
                let record = RecordView::parse(record).unwrap();
                message_of(&record)
            });
            let expected = found.iter().find(|message| message.0 >= offset).cloned();
            assert_eq!(first, expected, "{what}: {topic} {id} from {offset}");
        }
    }
}

/// Names below a directory, with a slash behind those of directories.
pub fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap());
    let name = |entry: fs::DirEntry| {
        let slash = if entry.path().is_dir() { "/" } else { "" };
        format!("{}{slash}", entry.file_name().to_str().unwrap())
    };
    entries.map(name).collect()
}

/// The files of the two kinds are pairs, and nothing lies beside them.
pub fn check_names(what: &str, dir: &Dir, queues: &[(&str, i32)]) {
    let root = dir.path("compaction");
    for (topic, id) in queues {
        let [log, cq] =
            ["compactionLog", "compactionCq"].map(|kind| names(&root.join(kind).join(topic).join(id.to_string())));
        assert_eq!(log, cq, "{what}: {topic} {id}");
        let is_offset = |name: &String| name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
        assert!(log.iter().all(is_offset), "{what}: {topic} {id}: {log:?}");
    }
    let known = ["compactionLog/", "compactionCq/", "position-checkpoint", "position-checkpoint.bak"];
    let other: Vec<_> = names(&root).into_iter().filter(|name| !known.contains(&name.as_str())).collect();
    // What an interrupted save left is overwritten by the next one.
    assert!(other.iter().all(|name| name == "position-checkpoint.tmp"), "{what}: {other:?}");
}

/// Units stand for the records of the log file, one behind the other; behind the last a closed file says so, and else there
/// is nothing. What is in a part before the last is the only message of its key, and has a body.
pub fn check_parts(what: &str, dir: &Dir, queues: &[(&str, i32)]) {
    for (topic, id) in queues {
        let of_kind = |kind: &str| dir.path("compaction").join(kind).join(topic).join(id.to_string());
        let files: Vec<_> = names(&of_kind("compactionLog")).into_iter().collect();
        let mut offset = -1;
        let mut keys = BTreeSet::new();
        for (number, name) in files.iter().enumerate() {
            let is_last = number + 1 == files.len();
            let what = format!("{what}: {topic} {id} {name}");
            let (log, cq) = (read(&of_kind("compactionLog").join(name)), read(&of_kind("compactionCq").join(name)));
            assert_eq!((log.len(), cq.len()), (LOG, CQ), "{what}");
            let base: usize = name.parse().unwrap();
            assert_eq!(base % LOG, 0, "{what}");
            let mut at = 0;
            let mut units = cq.chunks(46);
            let behind = loop {
                let unit = units.next().unwrap_or(&[]);
                let number = |from: usize, len: usize| {
                    unit[from..from + len].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
                };
                if unit.is_empty() || unit[..8] == [0xff; 8] || number(8, 4) == 0 {
                    break unit;
                }
                let record = RecordView::parse(&log[at..]).unwrap_or_else(|error| panic!("{what} at {at}: {error}"));
                assert_eq!((number(0, 8), number(8, 4)), ((base + at) as u64, record.size() as u64), "{what}");
                assert_eq!(record.phys_offset(), (base + at) as i64, "{what}");
                assert_eq!(number(28, 8), record.queue_offset() as u64, "{what}");
                assert!(record.body_crc_fits() && record.queue_offset() > offset, "{what} at {at}");
                (at, offset) = (at + record.size(), record.queue_offset());
                if !is_last {
                    assert!(
                        !record.body().is_empty() && keys.insert(record.keys().unwrap().to_owned()),
                        "{what} at {at}"
                    );
                }
            };
            let closed = behind.first() == Some(&0xff);
            assert!(closed || behind.iter().all(|byte| *byte == 0), "{what}");
            assert!(units.all(|unit| unit.iter().all(|byte| *byte == 0)), "{what}: behind the last unit");
            let blank = [(LOG - at) as u32, 0xcbd4_3194].map(u32::to_be_bytes).concat();
            let rest = log[at..].strip_prefix(&blank[..]).unwrap_or(&log[at..]);
            assert!(rest.iter().all(|byte| *byte == 0), "{what}: behind the last record");
        }
    }
}

pub fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}
