//! Batch consume queues and light queues: what appends write, what reads give, and what a restart makes of both.

use std::path::Path;
use std::sync::Arc;

use config::{Live, MessageStoreConfig};
use store::ctl::{self, StoreDir};
use store::record::{Properties, RecordView, sys_flag};
use store::{All, AppendError, Appended, NewMessage, Queue, ReadRequest, ReadResult, ReadStatus, Store, StoreOptions};

fn config(dir: &Path) -> MessageStoreConfig {
    MessageStoreConfig {
        store_path_root_dir: dir.to_str().unwrap().to_owned(),
        mapped_file_size_commit_log: 65_536,
        mapped_file_size_consume_queue: 200,
        mapper_file_size_batch_consume_queue: 46 * 4,
        max_hash_slot_num: 100,
        max_index_num: 400,
        enable_lmq: true,
        enable_multi_dispatch: true,
        ..MessageStoreConfig::default()
    }
}

fn open(config: MessageStoreConfig) -> Arc<Store> {
    let store_host = "127.0.0.1:10911".parse().unwrap();
    Store::open(StoreOptions { config: Arc::new(Live::new(config)), store_host, arrived: None, filter_bits: None })
        .unwrap()
}

fn append(store: &Store, queue: &Queue, flag: i32, pairs: &[(&str, &str)]) -> Result<Appended, AppendError> {
    let mut properties = Vec::new();
    for (name, value) in pairs {
        store::record::properties::push(&mut properties, name, value.as_bytes());
    }
    let host = "127.0.0.1:1".parse().unwrap();
    let message = NewMessage {
        flag: 0,
        sys_flag: flag,
        born_timestamp: 1,
        born_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        properties: &properties,
        body: b"body",
    };
    let appended = store.append(queue, &message);
    store.dispatch();
    appended
}

fn batch(store: &Store, queue: &Queue, count: i16) -> i64 {
    let count = count.to_string();
    append(store, queue, sys_flag::INNER_BATCH, &[("UNIQ_KEY", "u"), ("INNER_NUM", &count)]).unwrap().queue_offset
}

fn read(store: &Store, queue: &Queue, offset: i64, max_messages: i32) -> ReadResult {
    let mut result = ReadResult::default();
    store.read(queue, &ReadRequest { offset, max_messages, max_bytes: i32::MAX }, &All, &mut result);
    result
}

/// Queue offsets of the records of a read, and where it goes on.
fn offsets(store: &Store, queue: &Queue, offset: i64, max_messages: i32) -> (Vec<i64>, i64) {
    let result = read(store, queue, offset, max_messages);
    assert_eq!(result.status, ReadStatus::Found, "{offset}");
    let records = result.records.iter().map(|record| RecordView::parse(record).unwrap().queue_offset());
    (records.collect(), result.next_offset)
}

/// Physical offsets of what a queue holds.
fn places(store: &Store, queue: &Queue) -> Vec<u64> {
    let mut found = Vec::new();
    let mut offset = queue.min_offset();
    while offset < queue.max_offset() {
        let result = read(store, queue, offset, 32);
        assert!(result.next_offset > offset, "{:?}", result.status);
        offset = result.next_offset;
        found.extend(result.records.iter().map(|record| record.offset()));
    }
    found
}

fn property(store: &Store, appended: &Appended, name: &str) -> Option<String> {
    let record = store.record_at(appended.phys_offset).unwrap();
    let view = RecordView::parse(&record).unwrap();
    assert!(view.properties().filter(|(found, _)| *found == name.as_bytes()).count() <= 1, "{name} twice");
    Properties::new(view.property_bytes()).get(name).map(str::to_owned)
}

fn check(dir: &Path) -> ctl::Findings {
    let conf = dir.join("copy.conf");
    std::fs::write(
        &conf,
        "mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=200\nmapperFileSizeBatchConsumeQueue=184\n\
         maxHashSlotNum=100\nmaxIndexNum=400\n",
    )
    .unwrap();
    let mut out = Vec::new();
    let found = ctl::check(&StoreDir::open(dir, Some(&conf)).unwrap(), &mut out).unwrap();
    assert_eq!(found.errors, 0, "{}", String::from_utf8_lossy(&out));
    found
}

#[test]
fn a_batch_is_one_record_with_many_offsets() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(dir.path()));
    store.tell_batch_topics(|topic| topic == "B");
    let queue = store.queue_or_create("B", 0);
    assert!(queue.is_batch());
    assert_eq!([batch(&store, &queue, 3), batch(&store, &queue, 4), batch(&store, &queue, 1)], [0, 3, 7]);
    let single = append(&store, &queue, 0, &[("KEYS", "k")]).unwrap();
    assert_eq!((single.queue_offset, property(&store, &single, "INNER_BASE")), (8, None));
    // A number from outside counts for nothing.
    let told = [("INNER_BASE", "77"), ("INNER_NUM", "5")];
    let last = append(&store, &queue, sys_flag::INNER_BATCH, &told).unwrap();
    assert_eq!((last.queue_offset, property(&store, &last, "INNER_BASE").as_deref()), (9, Some("9")));
    assert_eq!((queue.min_offset(), queue.max_offset()), (0, 14));

    // A read from within a batch begins with the whole batch.
    assert_eq!(offsets(&store, &queue, 0, 32), (vec![0, 3, 7, 8], 9), "a file");
    assert_eq!(offsets(&store, &queue, 0, 8), (vec![0, 3, 7], 8), "so many messages");
    assert_eq!(offsets(&store, &queue, 0, 7), (vec![0, 3], 7));
    assert_eq!(offsets(&store, &queue, 0, 6), (vec![0], 3));
    assert_eq!(offsets(&store, &queue, 5, 5), (vec![3, 7], 8));
    assert_eq!(offsets(&store, &queue, 6, 1), (vec![3], 7));
    assert_eq!(offsets(&store, &queue, 13, 1), (vec![9], 14));
    assert_eq!(read(&store, &queue, 14, 1).status, ReadStatus::OffsetOverflowOne);
    assert_eq!(read(&store, &queue, 15, 1).next_offset, 14);
    assert_eq!(store.store_time(&queue, 10), last.store_timestamp);
    assert_eq!([false, true].map(|upper| store.offset_by_time(&queue, last.store_timestamp + 1, upper)), [9, 9]);
    assert_eq!(store.offset_by_time(&queue, 0, false), 0);
    assert_eq!(store.query("B", "u", 9, 0..i64::MAX).records.len(), 3);
    store.close();
    assert_eq!(check(dir.path()).units, 5);

    let store = open(config(dir.path()));
    let queue = store.queue("B", 0).unwrap();
    assert_eq!((queue.max_offset(), batch(&store, &queue, 2)), (14, 14));
    assert_eq!(offsets(&store, &queue, 13, 32), (vec![9, 14], 16));
}

#[test]
fn what_is_no_batch_is_refused_and_uses_no_offset() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(dir.path()));
    let queue = store.queue_or_create("B", 0);
    for number in ["0", "-1", "32768", "x", " 1"] {
        let refused = append(&store, &queue, sys_flag::INNER_BATCH, &[("INNER_NUM", number)]);
        assert!(matches!(refused, Err(AppendError::NoBatch)), "{number}");
    }
    assert_eq!(batch(&store, &queue, i16::MAX), 0);
    // Without a number it is one message.
    let one = append(&store, &queue, sys_flag::INNER_BATCH, &[("KEYS", "k")]).unwrap();
    assert_eq!((one.queue_offset, property(&store, &one, "INNER_BASE").as_deref()), (32_767, Some("32767")));
    assert_eq!((batch(&store, &queue, 1), queue.max_offset()), (32_768, 32_769));
    let simple = store.queue_or_create("S", 0);
    append(&store, &simple, 0, &[]).unwrap();
    let refused = append(&store, &simple, sys_flag::INNER_BATCH, &[("INNER_NUM", "2")]);
    assert!(matches!(refused, Err(AppendError::NoBatch)));
    assert_eq!(simple.next_offset().load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn a_message_has_a_place_in_each_light_queue_that_it_names() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(dir.path()));
    let topic = store.queue_or_create("T", 3);
    let go = |names: &str| append(&store, &topic, 0, &[("WAIT", "true"), ("INNER_MULTI_DISPATCH", names)]).unwrap();
    let first = go("%LMQ%a");
    let second = go("%LMQ%a,%LMQ%b");
    // Twice the same: one place. Others: none.
    let third = go("%LMQ%b,%LMQ%b,other,%LMQ%x/y,%LMQ%a,,");
    let plain = append(&store, &topic, 0, &[("WAIT", "true")]).unwrap();
    let said = |appended| property(&store, appended, "INNER_MULTI_QUEUE_OFFSET");
    assert_eq!(
        [said(&first), said(&second), said(&third), said(&plain)],
        [Some("0".to_owned()), Some("1,0".to_owned()), Some("1,1,,,2".to_owned()), None]
    );
    assert_eq!((property(&store, &first, "WAIT"), property(&store, &plain, "WAIT")), (None, Some("true".to_owned())));
    let queue = |name: &str| store.queue(name, 0).unwrap();
    assert_eq!(places(&store, &queue("%LMQ%a")), [first.phys_offset, second.phys_offset, third.phys_offset]);
    assert_eq!(places(&store, &queue("%LMQ%b")), [second.phys_offset, third.phys_offset]);
    assert_eq!(places(&store, &topic).len(), 4);
    assert_eq!(store.light_queues_known(), 2);

    // Copies of a message, and halves of transactions, are nowhere else. What the property said before is not believed.
    for topic in ["%RETRY%g", "%DLQ%g", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x", "RMQ_SYS_TRANS_HALF_TOPIC"] {
        append(&store, &store.queue_or_create(topic, 0), 0, &[("INNER_MULTI_DISPATCH", "%LMQ%a")]).unwrap();
    }
    let copy = [("INNER_MULTI_DISPATCH", "%LMQ%a"), ("INNER_MULTI_QUEUE_OFFSET", "0")];
    append(&store, &store.queue_or_create("%DLQ%g", 0), 0, &copy).unwrap();
    assert_eq!(queue("%LMQ%a").max_offset(), 3);
    let again = append(&store, &topic, 0, &copy).unwrap();
    assert_eq!(said(&again).as_deref(), Some("3"));
    assert_eq!(queue("%LMQ%a").max_offset(), 4);
    // To a light queue itself.
    assert_eq!(append(&store, &queue("%LMQ%a"), 0, &[]).unwrap().queue_offset, 4);
    assert_eq!(go("%LMQ%a").queue_offset, 5);
    assert_eq!(places(&store, &queue("%LMQ%a")).len(), 6);
    store.close();
    check(dir.path());
}

#[test]
fn light_queues_after_a_kill_and_after_a_loss() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(dir.path()));
    let topic = store.queue_or_create("T", 0);
    for i in 0..60 {
        let names = format!("%LMQ%{},%LMQ%all", i % 3);
        append(&store, &topic, 0, &[("INNER_MULTI_DISPATCH", &names)]).unwrap();
    }
    let light = ["%LMQ%0", "%LMQ%1", "%LMQ%2", "%LMQ%all"];
    let before: Vec<_> = light.map(|name| places(&store, &store.queue(name, 0).unwrap())).into();
    store.close();
    for lost in ["nothing", "consumequeue/%LMQ%1", "consumequeue", "consumequeue/%LMQ%all/0/00000000000000000000"] {
        let path = dir.path().join(lost);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else if path.exists() {
            std::fs::remove_file(path).unwrap();
        }
        std::fs::write(dir.path().join("abort"), b"").unwrap();
        let store = open(config(dir.path()));
        for (name, before) in light.iter().zip(&before) {
            let queue = store.queue(name, 0).unwrap();
            assert_eq!((places(&store, &queue), queue.min_offset()), (before.clone(), 0), "{lost} {name}");
            assert_eq!(queue.next_offset().load(std::sync::atomic::Ordering::Relaxed), before.len() as i64);
        }
        store.close();
        check(dir.path());
    }
}

#[test]
fn light_queues_off() {
    let dir = tempfile::tempdir().unwrap();
    for (enable_lmq, enable_multi_dispatch) in [(false, false), (true, false), (false, true)] {
        let store = open(MessageStoreConfig { enable_lmq, enable_multi_dispatch, ..config(dir.path()) });
        let queue = store.queue_or_create("T", 0);
        let appended = append(&store, &queue, 0, &[("INNER_MULTI_DISPATCH", "%LMQ%a")]).unwrap();
        assert_eq!(property(&store, &appended, "INNER_MULTI_QUEUE_OFFSET").is_some(), enable_lmq);
        assert!(!dir.path().join("consumequeue/%LMQ%a").exists());
    }
}

#[test]
fn light_queues_have_a_limit_and_unused_ones_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(MessageStoreConfig {
        enable_lmq_quota: true,
        max_lmq_consume_queue_num: 2,
        clean_resource_interval: 1000,
        ..config(dir.path())
    });
    let topic = store.queue_or_create("T", 0);
    let go = |names: &str| append(&store, &topic, 0, &[("INNER_MULTI_DISPATCH", names)]);
    go("%LMQ%a").unwrap();
    go("%LMQ%b").unwrap();
    assert!(matches!(go("%LMQ%a,%LMQ%c"), Err(AppendError::TooManyQueues)));
    assert!(store.queue("%LMQ%c", 0).is_none());
    go("%LMQ%b,%LMQ%a").unwrap();
    assert_eq!((store.light_queues_known(), topic.max_offset()), (2, 3));
    // Readers make as many as they like; what is left alone goes, what is held or has messages stays.
    let held = store.queue_or_create("%LMQ%held", 0);
    let many: Vec<_> = (0..1000).map(|i| store.queue_or_create(&format!("%LMQ%{i}"), 0)).collect();
    assert_eq!(store.light_queues_known(), 1003);
    drop(many);
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while store.light_queues_known() > 3 {
        assert!(std::time::Instant::now() < limit, "{} are left", store.light_queues_known());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(Arc::ptr_eq(&held, &store.queue("%LMQ%held", 0).unwrap()));
    assert_eq!(store.queue("%LMQ%a", 0).unwrap().max_offset(), 2);
    store.delete_topic("%LMQ%a");
    assert_eq!(store.light_queues_known(), 2);
}

/// Many threads, the same light queues: every offset once, in the order of the log.
#[test]
fn light_offsets_are_given_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(dir.path()));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let queue = store.queue_or_create(&format!("T{thread}"), 0);
                for i in 0..200 {
                    let names = format!("%LMQ%{},%LMQ%all", i % 2);
                    append(store, &queue, 0, &[("INNER_MULTI_DISPATCH", &names)]).unwrap();
                }
            });
        }
    });
    store.dispatch();
    for (name, count) in [("%LMQ%0", 400), ("%LMQ%1", 400), ("%LMQ%all", 800)] {
        let queue = store.queue(name, 0).unwrap();
        let found = places(&store, &queue);
        assert!(found.len() == count && found.is_sorted(), "{name}: {}", found.len());
    }
    store.close();
    assert_eq!(check(dir.path()).units, 800 * 3);
}
