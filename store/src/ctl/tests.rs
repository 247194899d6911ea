use std::fs;

use super::*;
use crate::dispatch::tests::rig_with_queues;

/// A small store with its index sizes in a broker.conf, made by the dispatcher.
fn store(messages: usize) -> (tempfile::TempDir, StoreDir) {
    let dir = tempfile::tempdir().unwrap();
    let rig = rig_with_queues(dir.path(), 64);
    for i in 0..messages {
        rig.append("T", (i % 2) as i32, 0, &[("KEYS", &format!("k{i}")), ("TAGS", "A")]);
    }
    rig.drain();
    fs::write(dir.path().join("broker.conf"), "maxHashSlotNum=31\nmaxIndexNum=100\n").unwrap();
    fs::write(dir.path().join("checkpoint"), [0; 4096]).unwrap();
    fs::create_dir(dir.path().join("config")).unwrap();
    fs::write(dir.path().join("config/topics.json"), "{\"topicConfigTable\":{\"T\":{}}}").unwrap();
    let opened = StoreDir::open(dir.path(), None).unwrap();
    (dir, opened)
}

fn checked(store: &StoreDir) -> (Findings, String) {
    let mut out = Vec::new();
    let found = check(store, &mut out).unwrap();
    (found, String::from_utf8(out).unwrap())
}

fn dumped(store: &StoreDir, what: Option<What>, filter: &DumpFilter) -> Result<String, CtlError> {
    let mut out = Vec::new();
    dump(store, what, filter, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn queue_file(dir: &Path) -> PathBuf {
    dir.join("consumequeue/T/0").join("0".repeat(20))
}

#[test]
fn a_sound_store() {
    let (_dir, store) = store(10);
    let (found, said) = checked(&store);
    assert_eq!(found, Findings { errors: 0, records: 10, units: 10, entries: 20, without_queue: 0 }, "{said}");
    let all = dumped(&store, None, &DumpFilter::default()).unwrap();
    let lines = |prefix: &str| all.lines().filter(|line| line.starts_with(prefix)).count();
    assert_eq!((lines("record "), lines("unit "), lines("entry "), lines("checkpoint ")), (10, 10, 20, 6));
    assert!(all.contains("KEYS=\"k3\"") && all.contains("topicConfigTable"));
    let filter = DumpFilter { topic: Some("T".to_owned()), queue: Some(1) };
    let some = dumped(&store, Some(What::CommitLog), &filter).unwrap();
    assert_eq!(some.lines().filter(|line| line.starts_with("record ")).count(), 5);
}

#[test]
fn what_does_not_fit_is_found() {
    let (dir, store) = store(10);
    // A unit that points elsewhere.
    let path = queue_file(dir.path());
    let sound = fs::read(&path).unwrap();
    let mut bytes = sound.clone();
    bytes[27] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (found, said) = checked(&store);
    assert_eq!(found.errors, 1, "{said}");
    assert!(said.contains("its unit points to"), "{said}");
    // The last unit is missing.
    bytes = sound.clone();
    bytes[80..].fill(0);
    fs::write(&path, &bytes).unwrap();
    assert!(checked(&store).1.contains("has no unit in its queue"));
    // A unit too many.
    bytes = sound.clone();
    bytes[100..120].copy_from_slice(&sound[80..100]);
    bytes[107] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert!(checked(&store).1.contains("no such record"));
    // All of a queue, once by accident and once with its topic.
    fs::remove_dir_all(dir.path().join("consumequeue/T")).unwrap();
    let (found, _) = checked(&store);
    assert_eq!((found.errors, found.without_queue), (10, 10));
    fs::write(dir.path().join("config/topics.json"), "{\"topicConfigTable\":{}}").unwrap();
    let (found, _) = checked(&store);
    assert_eq!((found.errors, found.without_queue), (0, 10));
}

#[test]
fn a_key_that_is_not_in_the_index_is_found() {
    let (dir, store) = store(10);
    let path = list(&dir.path().join("index")).unwrap().remove(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes[40 + 31 * 4 + 20] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (found, said) = checked(&store);
    assert!(found.errors >= 1 && said.contains("is not in the index"), "{said}");
}

#[test]
fn differences() {
    let (dir, a) = store(10);
    // No record of the second store has the time of one of the first.
    let millis = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let made = millis();
    while millis() <= made {}
    let (other_dir, b) = store(10);
    let compare = |a: &StoreDir, b: &StoreDir| {
        let mut out = Vec::new();
        let differences = diff(a, b, &mut out).unwrap();
        (differences, String::from_utf8(out).unwrap())
    };
    // The same records, but stored at another time.
    let (differences, said) = compare(&a, &b);
    assert_eq!(differences, 10, "{said}");
    assert_eq!(compare(&a, &a).0, 0);
    // A longer file with zeros behind is the same.
    let path = queue_file(other_dir.path());
    let copy = dir.path().join("consumequeue/T/0").join("0".repeat(20));
    fs::copy(&copy, &path).unwrap();
    fs::write(other_dir.path().join("checkpoint"), [1; 4096]).unwrap();
    let (_, said) = compare(&a, &b);
    assert!(said.contains("units=0 index=0 checkpoint=6"), "{said}");
}

#[test]
fn bad_files_say_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(StoreDir::open(dir.path(), None), Err(CtlError::NoStore(_))));
    let (dir, _) = store(3);
    let store = |conf: &str| {
        fs::write(dir.path().join("broker.conf"), conf).unwrap();
        StoreDir::open(dir.path(), None)
    };
    let text = |result: Result<String, CtlError>| result.unwrap_err().to_string();
    assert!(store("maxIndexNum=many\n").unwrap_err().to_string().contains("maxIndexNum"));
    let wrong = store("maxIndexNum=101\nmaxHashSlotNum=31\n").unwrap();
    assert!(text(dumped(&wrong, Some(What::Index), &DumpFilter::default())).contains("--conf"));
    let store = store("maxIndexNum=100\nmaxHashSlotNum=31\n").unwrap();
    fs::write(dir.path().join("checkpoint"), "short").unwrap();
    assert!(text(dumped(&store, Some(What::Checkpoint), &DumpFilter::default())).contains("5 bytes"));
    fs::write(dir.path().join("commitlog/lost"), "x").unwrap();
    assert!(text(dumped(&store, Some(What::CommitLog), &DumpFilter::default())).contains("no offset"));
    fs::remove_file(dir.path().join("commitlog/lost")).unwrap();
    // A log file that is cut, one with nonsense, and an empty one: the rest is still shown.
    let log = dir.path().join("commitlog").join("0".repeat(20));
    let bytes = fs::read(&log).unwrap();
    for cut in [0, 3, 100, 300] {
        fs::write(&log, &bytes[..cut]).unwrap();
        let said = dumped(&store, Some(What::CommitLog), &DumpFilter::default()).unwrap();
        assert!(said.contains("log end="), "{said}");
    }
    fs::write(&log, [0xff; 1000]).unwrap();
    dumped(&store, Some(What::CommitLog), &DumpFilter::default()).unwrap();
    fs::write(queue_file(dir.path()), [1; 33]).unwrap();
    assert!(text(dumped(&store, Some(What::ConsumeQueue), &DumpFilter::default())).contains("units of 20"));
}

#[test]
fn parts_by_name() {
    assert_eq!("index".parse(), Ok(What::Index));
    assert!("queue".parse::<What>().is_err());
}
