//! Stores that a Java broker left: everything in them must be there, and opening them must not change them.

use std::collections::BTreeMap;

use crate::golden_support::{
    Golden, check_checkpoint, check_files, check_log, check_messages, check_names, check_places, check_queues, places,
    places_by_java, records,
};
use store::{NewMessage, Store};

/// What an open and close of a cleanly stopped store must leave as it is.
const DATA: [&str; 5] = ["commitlog", "consumequeue", "consumequeue_ext", "batchconsumequeue", "index"];

/// Every message and offset of the manifest; then the same again in a second life; not a byte of the data changes.
fn opens_whole_and_unchanged(name: &str) {
    let golden = Golden::unpack(name);
    check_names(&golden);
    check_checkpoint(&golden);
    let before = golden.fingerprint(&DATA);
    let (found, said) = check_files(&golden);
    assert!(found.errors == 0 && found.records > 0 && found.units > 0 && found.entries > 0, "{said}");
    for life in 0..2 {
        let store = golden.open();
        check_queues(&store, &golden.manifest["queues"], &golden.manifest["commitlog"]["records_not_in_messages"]);
        check_messages(&store, &golden.manifest);
        check_log(&store, &golden.manifest);
        assert_eq!(store.log_range().end as i64, golden.manifest["commitlog"]["end_of_data"].as_i64().unwrap());
        if life == 0 {
            println!("{name}: {}", golden.counts());
        }
        store.close();
        assert_eq!(before, golden.fingerprint(&DATA));
    }
}

#[test]
fn basic() {
    opens_whole_and_unchanged("basic");
}

#[test]
fn default_size() {
    opens_whole_and_unchanged("default_size");
}

#[test]
fn retry_delay_timer() {
    opens_whole_and_unchanged("retry_delay_timer");
}

#[test]
fn transaction() {
    opens_whole_and_unchanged("transaction");
}

#[test]
fn pop() {
    opens_whole_and_unchanged("pop");
}

#[test]
fn pop_long_names() {
    opens_whole_and_unchanged("pop_long_names");
}

/// Check points and acknowledgements of pop, as often as Java had written them: first into the timer's topic, then into the
/// revive topic. The manifests list those that were there at the dump; the others are among the log's later records.
#[test]
fn pop_records() {
    for (name, points, acks) in [("pop", 48, 93), ("pop_long_names", 9, 14)] {
        let golden = Golden::unpack(name);
        let store = golden.open();
        let mut found: BTreeMap<(String, String), i64> = BTreeMap::new();
        let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for topic in ["rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_DefaultCluster"] {
            for record in store.queues_of(topic).iter().flat_map(|queue| records(&store, queue)) {
                let view = store::record::RecordView::parse(&record).unwrap();
                let body: serde_json::Value = serde_json::from_slice(view.body()).unwrap();
                let tag = view.properties().get("TAGS").unwrap().to_owned();
                // Whose message it is about, and which: offsets of a check point, the one of an acknowledgement.
                assert!(["bn", "c", "t", "pt", "q", "so"].iter().all(|field| !body[*field].is_null()), "{body}");
                assert!(!body[if tag == "ck" { "d" } else { "ao" }].is_null(), "{body}");
                assert_eq!(view.properties().get("REAL_TOPIC"), Some("rmq_sys_REVIVE_LOG_DefaultCluster"));
                keys.entry(topic.to_owned()).or_default().push(view.uniq_key().unwrap().to_owned());
                *found.entry((topic.to_owned(), tag)).or_default() += 1;
            }
        }
        let expected = ["rmq_sys_REVIVE_LOG_DefaultCluster", "rmq_sys_wheel_timer"]
            .map(|topic| [((topic.to_owned(), "ack".to_owned()), acks), ((topic.to_owned(), "ck".to_owned()), points)]);
        assert_eq!(found, expected.concat().into_iter().collect());
        keys.values_mut().for_each(|keys| keys.sort());
        assert_eq!(keys["rmq_sys_wheel_timer"], keys["rmq_sys_REVIVE_LOG_DefaultCluster"], "{name}");
        println!("{name}: {found:?}");
    }
}

#[test]
fn sql_filter_ext() {
    opens_whole_and_unchanged("sql_filter_ext");
}

#[test]
fn unclean_sigkill() {
    let golden = Golden::unpack("unclean_sigkill");
    check_names(&golden);
    check_checkpoint(&golden);
    println!("unclean_sigkill: {}", golden.counts());
    for _ in 0..2 {
        let store = golden.open();
        check_queues(&store, &golden.manifest["queues"], &golden.manifest["commitlog"]["records_not_in_messages"]);
        check_messages(&store, &golden.manifest);
        check_places(&places(&store), &places_by_java(&golden.manifest), &[]);
        check_log(&store, &golden.manifest);
        store.close();
        let (found, said) = check_files(&golden);
        assert_eq!(found.errors, 0, "{said}");
    }
}

/// A topic that was deleted. Its records are still in the log, so its queues come back when they are all made again; a
/// Java broker has them back on disk as well, but no longer lists the topic.
const DELETED_TOPIC: &str = "TopicGone";

/// What Java shows after it opened the same files.
fn opens_as_in_java(name: &str, more: &[&str]) -> (Golden, std::sync::Arc<Store>) {
    let golden = Golden::unpack(name);
    let store = golden.open();
    check_places(&places(&store), &places_by_java(&golden.manifest), more);
    check_queues(&store, &golden.manifest["reopened_by_java"]["queues"], &serde_json::Value::Null);
    (golden, store)
}

/// A new message goes to the end of the log and of its queue, and only it is there.
fn takes_a_message(store: &Store, topic: &str, id: i32) {
    let queue = store.queue(topic, id).unwrap();
    let (max, end) = (queue.max_offset(), store.log_range().end);
    let host = "127.0.0.1:1".parse().unwrap();
    let key = format!("fresh{max}");
    let properties = format!("KEYS\x01{key}\x02");
    let message = NewMessage {
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        properties: properties.as_bytes(),
        body: b"fresh",
    };
    let appended = store.append(&queue, &message).unwrap();
    assert_eq!(appended.queue_offset, max);
    store.dispatch();
    assert_eq!(queue.max_offset(), max + 1);
    let record = &crate::golden_support::records(store, &queue)[(max - queue.min_offset()) as usize];
    assert_eq!(record.offset(), appended.phys_offset);
    assert!(appended.phys_offset >= end);
    assert_eq!(store.query(topic, &key, 9, 0..i64::MAX).records.len(), 1);
}

#[test]
fn damaged_last_records_are_dropped() {
    for name in ["torn_tail", "zero_tail", "bad_crc", "bad_magic", "bad_size"] {
        let (golden, store) = opens_as_in_java(&format!("unclean_{name}"), &[]);
        takes_a_message(&store, "Topic1", 0);
        store.close();
        let store = golden.open();
        let queue = store.queue("Topic1", 0).unwrap();
        assert_eq!(
            crate::golden_support::records(&store, &queue).len() as i64,
            queue.max_offset() - queue.min_offset()
        );
        takes_a_message(&store, "Topic1", 0);
    }
}

#[test]
fn a_log_file_of_a_wrong_length_stops_the_start() {
    let golden = Golden::unpack("unclean_truncated_file");
    let before = golden.fingerprint(&DATA);
    let error = golden.try_open().unwrap_err().to_string();
    assert!(error.contains("commitlog"), "{error}");
    assert_eq!(before, golden.fingerprint(&DATA));
}

#[test]
fn queues_and_index_are_made_again_after_a_clean_stop() {
    let (golden, store) = opens_as_in_java("clean_no_cq", &[DELETED_TOPIC]);
    check_messages(&store, &Golden::unpack("basic").manifest);
    takes_a_message(&store, "Topic16", 3);
    store.close();
    let (found, said) = check_files(&golden);
    assert_eq!(found.errors, 0, "{said}");
}

/// What is made again is what Java had written, to the byte. Index files have other names: their order is compared.
#[test]
fn queues_and_index_are_made_again_as_java_made_them() {
    let made = Golden::unpack("clean_no_cq");
    let (found, _) = check_files(&made);
    assert!(found.errors > 0 && found.units == 0, "the check notices that the queues are gone");
    made.open().close();
    let java = Golden::unpack("basic");
    for dir in ["consumequeue", "batchconsumequeue", "index"] {
        let files = |golden: &Golden| {
            let files = golden.fingerprint(&[dir]).into_iter();
            let files = files.filter(|(path, _)| !path.to_string_lossy().contains(DELETED_TOPIC));
            let name = |path: std::path::PathBuf| path.strip_prefix(golden.root()).unwrap().to_owned();
            files.map(|(path, crc)| ((dir != "index").then(|| name(path)), crc)).collect::<Vec<_>>()
        };
        assert_eq!(files(&made), files(&java), "{dir}");
    }
}

#[test]
fn queues_and_index_are_made_again_after_a_kill() {
    let (_golden, store) = opens_as_in_java("unclean_no_cq_no_checkpoint", &[DELETED_TOPIC]);
    check_messages(&store, &Golden::unpack("unclean_sigkill").manifest);
}

/// Here Java starts at the last file that its checkpoint covers, and most messages stay invisible. All of them must be
/// there instead.
#[test]
fn lost_queues_come_back_whole_although_there_is_a_checkpoint() {
    let golden = Golden::unpack("unclean_no_cq");
    let store = golden.open();
    let whole = Golden::unpack("unclean_sigkill");
    check_messages(&store, &whole.manifest);
    check_places(&places(&store), &places_by_java(&whole.manifest), &[DELETED_TOPIC]);
}
