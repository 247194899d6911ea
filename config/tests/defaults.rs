//! Every row of the registry against the classes of the Java server.

use std::collections::HashSet;

use config::{
    AuthConfig, BrokerConfig, Config, ControllerConfig, JraftConfig, MessageStoreConfig, NamesrvConfig,
    NettyClientConfig, NettyServerConfig, environment,
};
use serde_json::Value;

const DEFAULTS: &str = include_str!("data/config-defaults.json");

/// Processors of the machine on which the defaults were read.
const RECORDED_CORES: i32 = 2;

/// Defaults that Java computes from the number of processors.
fn by_cores(class: &str, key: &str, cores: i32) -> Option<i32> {
    Some(match (class, key) {
        ("BrokerConfig", "sendMessageThreadPoolNums" | "putMessageFutureThreadPoolNums") => cores.min(4),
        (
            "BrokerConfig",
            "pullMessageThreadPoolNums" | "litePullMessageThreadPoolNums" | "processReplyMessageThreadPoolNums",
        ) => 16 + cores * 2,
        ("BrokerConfig", "queryMessageThreadPoolNums") => 8 + cores,
        ("BrokerConfig", "heartbeatThreadPoolNums") => cores.min(32),
        ("BrokerConfig", "endTransactionThreadPoolNums") => (8 + cores * 2).max(cores.min(4) * 4),
        ("NettyClientConfig", "clientCallbackExecutorThreads") => cores,
        _ => return None,
    })
}

/// Defaults that depend on the machine or on the variables `ROCKETMQ_HOME` and `NAMESRV_ADDR`.
fn by_environment(class: &str, key: &str) -> Option<Option<String>> {
    let home = environment::user_home();
    Some(match (class, key) {
        (_, "rocketmqHome") => std::env::var("ROCKETMQ_HOME").ok(),
        ("BrokerConfig", "namesrvAddr") => std::env::var("NAMESRV_ADDR").ok(),
        ("BrokerConfig", "brokerName") => Some(environment::broker_name()),
        ("BrokerConfig", "brokerIP1" | "brokerIP2") => Some(environment::local_address()),
        ("MessageStoreConfig", "storePathRootDir") => Some(format!("{home}/store")),
        ("NamesrvConfig", "kvConfigPath") => Some(format!("{home}/namesrv/kvConfig.json")),
        ("NamesrvConfig", "configStorePath") => Some(format!("{home}/namesrv/namesrv.properties")),
        ("ControllerConfig", "configStorePath") => Some(format!("{home}/controller/controller.properties")),
        _ => return None,
    })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn compare<C: Config>() -> usize {
    let classes: Value = serde_json::from_str(DEFAULTS).unwrap();
    let rows: Vec<&Value> = classes[C::NAME]
        .as_array()
        .unwrap()
        .iter()
        // An object, not a value: Java prints its identity. Its keys are a struct of their own.
        .filter(|row| row["type"] != "JraftConfig")
        .collect();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(C::keys().iter().map(|key| key.name).collect::<Vec<_>>(), names, "{}: names and order", C::NAME);

    let config = C::default();
    for (key, row) in C::keys().iter().zip(rows) {
        let place = format!("{}.{}", C::NAME, key.name);
        assert_eq!(key.java_type, row["type"].as_str().unwrap(), "{place}: type");
        assert_eq!(key.important, row["important"] == true, "{place}: important");
        let recorded = text(&row["default"]);
        let ours = config.get(key.name);
        if let Some(value) = by_environment(C::NAME, key.name) {
            assert_eq!(ours, value, "{place}: default");
        } else if let Some(formula) = by_cores(C::NAME, key.name, RECORDED_CORES) {
            assert_eq!(recorded, Some(formula.to_string()), "{place}: recorded default");
            let here = by_cores(C::NAME, key.name, environment::cores()).unwrap();
            assert_eq!(ours, Some(here.to_string()), "{place}: default");
        } else {
            assert_ne!(recorded.as_deref(), Some("<environment-dependent>"), "{place}: not compared");
            assert_eq!(ours, recorded, "{place}: default");
        }
    }
    names.len()
}

#[test]
fn every_key_has_javas_name_type_and_default() {
    let compared = [
        compare::<BrokerConfig>(),
        compare::<MessageStoreConfig>(),
        compare::<NettyServerConfig>(),
        compare::<NettyClientConfig>(),
        compare::<NamesrvConfig>(),
        compare::<AuthConfig>(),
        compare::<ControllerConfig>(),
        compare::<JraftConfig>(),
    ];
    assert_eq!(compared, [243, 219, 18, 20, 22, 26, 27, 7]);
}

fn describe<C: Config>() {
    let mut setters = HashSet::new();
    for key in C::keys() {
        let place = format!("{}.{}", C::NAME, key.name);
        assert!(key.doc.len() > 10 && key.doc.ends_with('.'), "{place}: documentation is {:?}", key.doc);
        assert!(key.doc.len() <= 160, "{place}: one line of documentation");
        if let Some(setter) = key.setter {
            assert!(setters.insert(setter), "{place}: set twice");
            // What is printed can be read again.
            let mut config = C::default();
            let value = config.get(key.name).unwrap_or_else(|| "text".to_owned());
            assert_eq!(config.set(setter, &value), Ok(true), "{place}");
            assert_eq!(config.get(key.name), Some(value), "{place}");
        }
    }
}

#[test]
fn every_key_is_documented_and_can_be_read_back() {
    describe::<BrokerConfig>();
    describe::<MessageStoreConfig>();
    describe::<NettyServerConfig>();
    describe::<NettyClientConfig>();
    describe::<NamesrvConfig>();
    describe::<AuthConfig>();
    describe::<ControllerConfig>();
    describe::<JraftConfig>();
}
