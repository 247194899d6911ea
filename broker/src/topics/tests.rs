use super::*;

fn table(dir: &Path, config: BrokerConfig) -> TopicTable {
    TopicTable::load(dir, Arc::new(Live::new(config)), &MessageStoreConfig::default()).unwrap()
}

/// What a fresh Java broker with traces registers.
#[test]
fn the_topics_of_a_fresh_broker() {
    let dir = tempfile::tempdir().unwrap();
    let config = BrokerConfig { broker_name: "broker-a".into(), trace_topic_enable: true, ..Default::default() };
    let topics = table(dir.path(), config);
    let found: Vec<_> = topics
        .snapshot()
        .iter()
        .map(|topic| {
            assert_eq!(topic.read_queue_nums, topic.write_queue_nums);
            assert!(topics.system.contains(&topic.topic_name), "{}", topic.topic_name);
            (topic.topic_name.clone(), topic.perm, topic.write_queue_nums)
        })
        .collect();
    let expected = [
        ("BenchmarkTest", 6, 1024),
        ("DefaultCluster", 7, 16),
        ("DefaultCluster_REPLY_TOPIC", 6, 1),
        ("OFFSET_MOVED_EVENT", 6, 1),
        ("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", 6, 1),
        ("RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", 6, 1),
        ("RMQ_SYS_TRACE_TOPIC", 6, 1),
        ("RMQ_SYS_TRANS_HALF_TOPIC", 6, 1),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 6, 1),
        ("SCHEDULE_TOPIC_XXXX", 6, 18),
        ("SELF_TEST_TOPIC", 6, 1),
        ("TBW102", 7, 8),
        ("broker-a", 7, 1),
        ("rmq_sys_REVIVE_LOG_DefaultCluster", 6, 8),
        ("rmq_sys_SYNC_BROKER_MEMBER_broker-a", 1, 1),
        ("rmq_sys_wheel_timer", 6, 1),
    ];
    assert_eq!(found, expected.map(|(name, perm, queues)| (name.to_owned(), perm, queues)));
    assert_eq!(topics.data_version().counter, 0);
}

#[test]
fn inheritance() {
    let dir = tempfile::tempdir().unwrap();
    let topics = table(dir.path(), BrokerConfig::default());
    let make = |name: &str, default: &str, queues: i32| topics.create_for_send(name, default, queues, 0, &"peer");
    let few = make("Few", "TBW102", 4).unwrap();
    assert_eq!((few.perm, few.read_queue_nums, few.write_queue_nums), (6, 4, 4));
    assert_eq!(make("Many", "TBW102", 99).unwrap().write_queue_nums, 8);
    assert_eq!(make("Negative", "TBW102", -1).unwrap().write_queue_nums, 0);
    assert_eq!(make("X", "Nope", 4).unwrap_err(), CreateError::NoDefault("Nope".into()));
    assert!(matches!(make("X", "Few", 4), Err(CreateError::NotInheritable { .. })));
    assert!(!topics.contains("X"));
    // The file was written with each topic: a crash now forgets none of them.
    assert!(table(dir.path(), BrokerConfig::default()).contains("Negative"));
}

#[test]
fn nothing_is_made_from_a_left_over_default_topic() {
    let dir = tempfile::tempdir().unwrap();
    table(dir.path(), BrokerConfig::default()).create_for_send("T", "TBW102", 4, 0, &"peer").unwrap();
    let config = BrokerConfig { auto_create_topic_enable: false, ..BrokerConfig::default() };
    let topics = table(dir.path(), config);
    assert!(topics.contains("TBW102") && topics.create_for_send("T2", "TBW102", 4, 0, &"peer").is_err());
}

#[test]
fn changes_keep_counters_and_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let topics = table(dir.path(), BrokerConfig::default());
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = told.clone();
    topics.set_listener(Box::new(move |changed| {
        sink.lock().extend(changed.iter().map(|topic| topic.topic_name.clone()));
    }));
    let first = topics.create_for_send("T", "TBW102", 1, 0, &"peer").unwrap();
    first.stats.put.add([5, 0, 1]);
    let changed = topics.update(vec![TopicConfig::new("T", 9, 6)]).unwrap();
    assert_eq!((changed[0].write_queue_nums, changed[0].stats.put.sum(0)), (9, 5));
    topics.create_for_send_back("%RETRY%G", 1, 6, true, 0);
    topics.create_for_send_back("%RETRY%G", 1, 6, true, 0);
    topics.mark_ordered(["T", "Unknown"]);
    assert!(topics.is_ordered("T") && topics.is_ordered("%RETRY%G"));
    assert_eq!(*told.lock(), ["T", "%RETRY%G"]);
    let version = topics.data_version().counter;
    assert!(topics.delete("T") && !topics.delete("T"));
    assert_eq!(topics.data_version().counter, version + 1);
}

#[test]
fn a_slave_takes_over_its_masters_topics() {
    let (of_master, of_slave) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = table(of_master.path(), BrokerConfig::default());
    master.update(vec![TopicConfig::new("T", 9, 6), TopicConfig::new("Same", 1, 6)]).unwrap();
    let slave = table(of_slave.path(), BrokerConfig::default());
    slave.update(vec![TopicConfig::new("T", 1, 6), TopicConfig::new("Gone", 1, 6)]).unwrap();
    slave.get("T").unwrap().stats.put.add([5, 0, 1]);
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = told.clone();
    slave.set_settings_listener(Box::new(move |topic| sink.lock().push(topic.topic_name.clone())));
    let copy = || {
        let (topics, version) = master.snapshot_with_version();
        let topics = topics.iter().map(|topic| (topic.topic_name.clone(), topic.config.clone()));
        slave.take_over(topics.collect(), version);
    };
    copy();
    assert_eq!(*told.lock(), ["Same", "T"], "only what differs");
    assert_eq!((slave.get("T").unwrap().write_queue_nums, slave.get("T").unwrap().stats.put.sum(0)), (9, 5));
    assert!(!slave.contains("Gone") && slave.data_version() == master.data_version());
    let (changes, again) = (slave.generation(), table(of_slave.path(), BrokerConfig::default()));
    assert!(again.contains("Same") && !again.contains("Gone"), "saved");
    copy();
    assert_eq!(slave.generation(), changes, "the same version is the same table");
}

#[test]
fn a_refused_attribute_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let topics = table(dir.path(), BrokerConfig::default());
    let mut bad = TopicConfig::new("Bad", 1, 6);
    bad.attributes.insert("+nope".into(), "1".into());
    let version = topics.data_version();
    assert!(topics.update(vec![TopicConfig::new("Good", 1, 6), bad]).is_err());
    assert!(!topics.contains("Good") && topics.data_version() == version);
    assert_eq!(perm_text(PERM_READ | PERM_INHERIT), "R-X");
}
