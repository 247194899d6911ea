//! The recorded stores of Java brokers, as a broker of ours has them: every topic, group, offset, delayed message, timer,
//! transaction and setting of their manifests, and what it only carries along. Their messages: `store/tests/it/golden.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::{SystemTime, UNIX_EPOCH};

use broker::Running;
use config::{Config, MessageStoreConfig};
use remoting::RequestCode;
use remoting::body::fastjson;
use serde_json::Value;
use store::record::RecordView;

use crate::common::client::{Peer, json, until};

const TIMERS: &str = "rmq_sys_wheel_timer";
const DELAYS: &str = "SCHEDULE_TOPIC_XXXX";
/// Minutes of the delay levels.
const DELAY_LEVELS: [f64; 18] =
    [1. / 60., 5. / 60., 10. / 60., 30. / 60., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 20., 30., 60., 120.];
/// What a pop consumer in order leaves. Nothing of ours reads it.
const ORDER_INFO: &str = "{\n\t\"orderInfoCount\":1,\n\t\"orderedConsumptionLevel\":\"QUEUE\",\n\t\"table\":{\"T@G\":{0:{\"popTime\":1,\"i\":60000,\"o\":[5,1],\"oc\":{},\"ot\":{5:7},\"c\":0}}}\n}";

struct Recorded {
    dir: tempfile::TempDir,
    name: &'static str,
    manifest: Value,
}

/// What was compared.
#[derive(Debug, Default)]
struct Counts {
    topics: usize,
    groups: usize,
    offsets: usize,
    delayed: usize,
    timers: usize,
    transactions: i64,
    request_modes: usize,
}

impl Recorded {
    fn unpack(name: &'static str) -> Recorded {
        let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat-tests/golden/stores");
        let dir = tempfile::tempdir().unwrap();
        let archive = stores.join(format!("{name}.tar.gz"));
        assert!(Process::new("tar").arg("-C").arg(dir.path()).arg("-xzf").arg(archive).status().unwrap().success());
        let manifest = serde_json::from_slice(&fs::read(stores.join(format!("{name}.json"))).unwrap()).unwrap();
        Recorded { dir, name, manifest }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("store").join(name)
    }

    async fn start(&self) -> Running {
        let setup = crate::common::setup(&self.path(""), |setup| {
            let default = MessageStoreConfig::default();
            setup.store.mapped_file_size_commit_log = default.mapped_file_size_commit_log;
            setup.store.mapped_file_size_consume_queue = default.mapped_file_size_consume_queue;
            setup.store.max_hash_slot_num = default.max_hash_slot_num;
            setup.store.max_index_num = default.max_index_num;
            for (key, value) in
                self.manifest["broker_conf"].as_str().unwrap().lines().filter_map(|line| line.split_once('='))
            {
                let known = key.starts_with("mapped") || key.starts_with("max") || key == "brokerName";
                if known || key == "brokerClusterName" {
                    let (in_store, in_broker) =
                        (setup.store.set(key, value).unwrap(), setup.broker.set(key, value).unwrap());
                    assert!(in_store || in_broker, "{key}");
                }
            }
            // Offsets stay what they are.
            setup.broker.transaction_check_interval = 3_600_000;
            // The recorded times are what they are.
            setup.store.file_reserved_time = 2_000_000;
        });
        broker::start(setup).await.expect("the broker starts")
    }

    /// A file of `config/` as the manifest has it.
    fn config_file(&self, name: &str) -> Value {
        let value = &self.manifest["config_files"][name];
        match value["unparsed_text"].as_str() {
            Some(text) => fastjson::from_slice(text.as_bytes()).unwrap(),
            None => value.clone(),
        }
    }

    fn messages(&self, topic: &str) -> impl Iterator<Item = &Value> {
        self.manifest["messages"].as_array().unwrap().iter().filter(move |message| message["topic"] == *topic)
    }

    /// Unique keys of a topic's messages that are due by now, out of `all`: key, topic and time in ms. A minute on either side
    /// of now nobody knows.
    fn due(all: &[(String, String, i64)]) -> impl Iterator<Item = &(String, String, i64)> {
        all.iter().filter(|(_, _, time)| time + 60_000 < now())
    }

    /// Delayed messages that had not been delivered.
    fn delayed(&self) -> Vec<(String, String, i64)> {
        let offsets = self.config_file("delayOffset.json")["offsetTable"].take();
        let mut found = Vec::new();
        for message in self.messages(DELAYS) {
            let level = message["queueId"].as_i64().unwrap() + 1;
            if message["queueOffset"].as_i64() >= offsets[level.to_string()].as_i64() {
                let property = |name: &str| message["properties"][name].as_str().unwrap().to_owned();
                let due =
                    message["storeTimestamp"].as_i64().unwrap() + (DELAY_LEVELS[level as usize - 1] * 60_000.) as i64;
                found.push((property("UNIQ_KEY"), property("REAL_TOPIC"), due));
            }
        }
        found
    }

    /// Timers that had been neither delivered nor recalled.
    fn timers(&self) -> Vec<(String, String, i64)> {
        let recalled: BTreeSet<&str> =
            self.messages(TIMERS).filter_map(|message| message["properties"]["TIMER_DEL_UNIQKEY"].as_str()).collect();
        let mut delivered = BTreeSet::new();
        let later = self.manifest["commitlog"]["records_not_in_messages"].as_array().unwrap();
        assert!(later.iter().all(|record| record["topic"] != *TIMERS), "{}", self.name);
        for message in self.manifest["messages"].as_array().unwrap() {
            if let Some(key) = message["uniqKey"].as_str().filter(|_| message["topic"] != *TIMERS) {
                delivered.insert(key);
            }
        }
        let mut found = Vec::new();
        for message in self.messages(TIMERS) {
            let key = message["uniqKey"].as_str().unwrap();
            if !delivered.contains(key) && !recalled.contains(key) {
                let property = |name: &str| message["properties"][name].as_str().unwrap().to_owned();
                found.push((key.to_owned(), property("REAL_TOPIC"), property("TIMER_OUT_MS").parse().unwrap()));
            }
        }
        found
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// How often each unique key is in a topic.
fn keys_of(running: &Running, topic: &str) -> BTreeMap<String, usize> {
    let store = &running.parts().store;
    let mut found = BTreeMap::new();
    for queue in store.queues_of(topic) {
        for offset in queue.min_offset()..queue.max_offset() {
            let phys = queue.entry(offset).unwrap().unit.phys;
            let record = store.record_at(phys as u64).unwrap();
            let key = RecordView::parse(&record).unwrap().uniq_key().unwrap_or_default().to_owned();
            *found.entry(key).or_default() += 1;
        }
    }
    found
}

/// Waits until what is due is in its topic, once, and nothing that is not.
async fn delivered(running: &Running, what: &str, all: &[(String, String, i64)]) {
    for (key, topic, _) in Recorded::due(all) {
        until(|| keys_of(running, topic).contains_key(key)).await;
    }
    for (key, topic, time) in all {
        let count = keys_of(running, topic).get(key).copied().unwrap_or(0);
        let possible = if *time > now() + 60_000 { 0..=0 } else { 0..=1 };
        assert!(possible.contains(&count), "{what}: {key} is {count} times in {topic}");
    }
}

/// Without the fields that have no value: the manifests were written by a program that names them.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            fields.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        other => other.clone(),
    }
}

/// Every entry of a table is as in the manifest, and there are no others.
fn compare(what: &str, found: &Value, expected: &Value) -> usize {
    let (found, expected) = (without_nulls(found), without_nulls(expected));
    let (found, expected) = (found.as_object().unwrap(), expected.as_object().unwrap());
    for (name, value) in expected {
        assert_eq!(found.get(name), Some(value), "{what}: {name}");
    }
    let more: Vec<_> = found.keys().filter(|name| !expected.contains_key(*name)).collect();
    assert!(more.is_empty(), "{what}: {more:?}");
    expected.len()
}

/// Opens a recorded store, compares it with its manifest, and closes it again.
async fn opens_whole(name: &'static str) {
    let recorded = Recorded::unpack(name);
    let manifest = &recorded.manifest;
    // What Java wrote for pop: read by nobody here, and to be found by a Java broker as it was.
    fs::write(recorded.path("config/consumerOrderInfo.json"), ORDER_INFO).unwrap();
    let carried =
        ["config/consumerOrderInfo.json", "config/consumerOrderInfo.json.bak", "config/messageRequestMode.json"]
            .map(str::to_owned)
            .into_iter()
            .chain(
                fs::read_dir(recorded.path("rocksdbstore"))
                    .unwrap()
                    .map(|entry| format!("rocksdbstore/{}", entry.unwrap().file_name().to_str().unwrap())),
            )
            .map(|name| (fs::read(recorded.path(&name)).ok(), name))
            .collect::<Vec<_>>();
    let mut counts = Counts::default();
    let running = recorded.start().await;
    let peer = Peer::of(&running);

    let topics = json(&peer.call(RequestCode::GET_ALL_TOPIC_CONFIG, &[], "").await);
    counts.topics = compare(name, &topics["topicConfigTable"], &manifest["topic_configs"]);
    let groups = json(&peer.call(RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, &[], "").await);
    counts.groups = compare(name, &groups["subscriptionGroupTable"], &manifest["subscription_groups"]);

    let known = recorded.config_file("consumerOffset.json");
    let offsets = json(&peer.call(RequestCode::GET_ALL_CONSUMER_OFFSET, &[], "").await);
    compare(name, &offsets["offsetTable"], &known["offsetTable"]);
    for (key, queues) in known["offsetTable"].as_object().unwrap() {
        let (topic, group) = key.split_once('@').unwrap();
        for (queue, offset) in queues.as_object().unwrap() {
            let fields = [("consumerGroup", group), ("topic", topic), ("queueId", queue)];
            let answer = peer.call(RequestCode::QUERY_CONSUMER_OFFSET, &fields, "").await;
            assert_eq!(
                (answer.code, answer.get("offset")),
                (0, Some(offset.to_string().as_str())),
                "{name}: {key} {queue}"
            );
            counts.offsets += 1;
        }
    }

    let modes = recorded.config_file("messageRequestMode.json");
    for (topic, groups) in modes["messageRequestModeMap"].as_object().into_iter().flatten() {
        for (group, mode) in groups.as_object().unwrap() {
            let found = running.parts().request_modes.get(topic, group).expect("a mode");
            assert_eq!(&serde_json::to_value(found).unwrap(), mode, "{name}: {topic} {group}");
            counts.request_modes += 1;
        }
    }

    let metrics: Value = fastjson::from_slice(&fs::read(recorded.path("config/transactionMetrics")).unwrap()).unwrap();
    let open = |value: &Value| value["count"].as_i64().unwrap();
    let expected: BTreeMap<String, i64> = metrics["transactionCount"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(topic, count)| (topic.clone(), open(count)))
        .collect();
    let found = running.parts().transactions.snapshot();
    let found: BTreeMap<String, i64> = found.iter().map(|(topic, count)| (topic.to_string(), count.open())).collect();
    assert_eq!(found, expected, "{name}");
    counts.transactions = expected.values().sum();

    let (delayed, timers) = (recorded.delayed(), recorded.timers());
    (counts.delayed, counts.timers) = (delayed.len(), timers.len());
    delivered(&running, name, &delayed).await;
    delivered(&running, name, &timers).await;
    running.stop().await;

    // What a Java broker finds afterwards.
    for (before, file) in carried {
        assert!(fs::read(recorded.path(&file)).ok() == before, "{name}: {file}");
    }
    let saved = |file: &str| -> Value { fastjson::from_slice(&fs::read(recorded.path(file)).unwrap()).unwrap() };
    compare(name, &saved("config/topics.json")["topicConfigTable"], &manifest["topic_configs"]);
    compare(name, &saved("config/subscriptionGroup.json")["subscriptionGroupTable"], &manifest["subscription_groups"]);
    compare(name, &saved("config/consumerOffset.json")["offsetTable"], &known["offsetTable"]);
    assert_eq!(saved("config/consumerFilter.json"), recorded.config_file("consumerFilter.json"), "{name}");
    println!("{name}: {counts:?}, all there");
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_stores_open_whole() {
    for name in [
        "basic",
        "unclean_sigkill",
        "transaction",
        "sql_filter_ext",
        "pop",
        "pop_long_names",
        "retry_delay_timer",
        "default_size",
    ] {
        opens_whole(name).await;
    }
}
