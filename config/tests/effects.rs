//! The effects in the registry against the sources of the servers: a key is marked `inert` exactly when nothing reads it.
//!
//! This is what makes the warning about a key without effect true. Whoever starts to read a key, or stops, changes the
//! word in its row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use config::{BrokerConfig, Config, Effect, MessageStoreConfig, NamesrvConfig, NettyClientConfig, NettyServerConfig};

/// Crates whose sources count.
const CRATES: [&str; 5] = ["../broker/src", "../ferromq/src", "../namesrv/src", "../remoting/src", "../store/src"];

/// Fields that are read through a method of the struct.
const THROUGH: [(&str, &str); 3] = [
    ("store_path_root_dir", "root_dir"),
    ("store_path_commit_log", "commit_log_dir"),
    ("disk_max_used_space_ratio", "disk_max_used_ratio"),
];

/// Inert keys whose field appears in the sources all the same, with the reason.
const MENTIONED: [(&str, &str); 9] = [
    ("BrokerConfig.listenPort", "the key of the same name in NettyServerConfig is the one in use"),
    ("BrokerConfig.sendThreadPoolQueueCapacity", "shown by mqadmin brokerStatus only"),
    ("BrokerConfig.pullThreadPoolQueueCapacity", "shown by mqadmin brokerStatus only"),
    ("BrokerConfig.litePullThreadPoolQueueCapacity", "shown by mqadmin brokerStatus only"),
    ("BrokerConfig.ackThreadPoolQueueCapacity", "shown by mqadmin brokerStatus only"),
    ("BrokerConfig.queryThreadPoolQueueCapacity", "shown by mqadmin brokerStatus only"),
    ("BrokerConfig.endTransactionPoolQueueCapacity", "shown by mqadmin brokerStatus only"),
    ("NettyClientConfig.writeBufferHighWaterMark", "the key of the same name in NettyServerConfig is the one in use"),
    ("NamesrvConfig.clusterTest", "read only to say that it has no effect"),
];

/// All words of the sources, without comments and without the tests at the end of a file.
fn words(dir: &Path, words: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name() != Some("tests".as_ref()) {
                self::words(&path, words);
            }
            continue;
        }
        if path.extension() != Some("rs".as_ref()) || path.file_name() == Some("tests.rs".as_ref()) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            words.extend(line.split(|char: char| !char.is_alphanumeric() && char != '_').map(str::to_owned));
        }
    }
}

/// The names of a struct's fields by key, from the table itself.
fn fields<C: Config>(table: &str) -> BTreeMap<String, String> {
    let rows = table.lines().filter_map(|line| line.trim_start().strip_prefix('"')?.split_once("\" "));
    let fields: BTreeMap<String, String> = rows
        .filter_map(|(key, rest)| Some((key.to_owned(), rest.split_once(": ")?.0.to_owned())))
        .filter(|(key, _)| C::keys().iter().any(|known| known.name == key))
        .collect();
    assert_eq!(fields.len(), C::keys().len(), "{}: every row was found", C::NAME);
    fields
}

fn check<C: Config>(table: &str, words: &BTreeSet<String>, wrong: &mut Vec<String>) {
    let fields = fields::<C>(table);
    for key in C::keys() {
        let field = fields[key.name].as_str();
        let name = THROUGH.iter().find(|(through, _)| *through == field).map_or(field, |(_, method)| method);
        let place = format!("{}.{}", C::NAME, key.name);
        let mentioned = MENTIONED.iter().any(|(known, _)| *known == place);
        match (words.contains(name), key.effect) {
            (true, Effect::Inert) if !mentioned => wrong.push(format!("{place} is read but marked inert")),
            (false, Effect::Dynamic | Effect::Static) => {
                wrong.push(format!("{place} is not read but not marked inert"))
            }
            (read, effect) if mentioned && (!read || effect != Effect::Inert) => {
                wrong.push(format!("{place} needs no exception any more"));
            }
            _ => {}
        }
    }
}

#[test]
fn exactly_the_keys_that_nothing_reads_are_inert() {
    let mut all = BTreeSet::new();
    for dir in CRATES {
        words(&Path::new(env!("CARGO_MANIFEST_DIR")).join(dir), &mut all);
    }
    let mut wrong = Vec::new();
    check::<BrokerConfig>(include_str!("../src/broker.rs"), &all, &mut wrong);
    check::<MessageStoreConfig>(include_str!("../src/message_store.rs"), &all, &mut wrong);
    check::<NettyServerConfig>(include_str!("../src/netty_server.rs"), &all, &mut wrong);
    check::<NettyClientConfig>(include_str!("../src/netty_client.rs"), &all, &mut wrong);
    check::<NamesrvConfig>(include_str!("../src/namesrv.rs"), &all, &mut wrong);
    assert!(wrong.is_empty(), "change these rows in config/src:\n{}", wrong.join("\n"));
}
