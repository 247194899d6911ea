//! The documentation against the programs: the lists of requests, and the metrics.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use namesrv::NamesrvStartConfig;
use namesrv::handlers::{self, Services};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join("docs").join(name)).unwrap()
}

/// The rows `| code | NAME | file | lane | test |` behind a heading. The files must be there, and the tests must speak of the request.
fn requests(heading: &str, files: &str) -> BTreeSet<String> {
    let text = page("protocol.md");
    let (_, part) = text.split_once(&format!("\n### {heading}\n")).unwrap();
    let part = part.split_once("\n#").map_or(part, |(part, _)| part);
    let rows = part.lines().filter_map(|line| line.strip_prefix("| "));
    let mut found = BTreeSet::new();
    for row in rows.filter(|row| row.starts_with(|first: char| first.is_ascii_digit())) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let file = root().join(files).join(cells[2].trim_matches('`'));
        assert!(file.is_file(), "{}", file.display());
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("impl Handler for"), "{} handles nothing", file.display());
        let test = root().join(cells[4].trim_matches([' ', '|', '`']));
        let test = std::fs::read_to_string(&test).unwrap_or_else(|error| panic!("{}: {error}", test.display()));
        let words = test.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
        assert!(words.into_iter().any(|word| word == cells[1]), "{row}: the test does not speak of it");
        assert!(found.insert(format!("{}({})", cells[1], cells[0])), "{row} stands there twice");
    }
    found
}

fn codes(router: &remoting::server::Router) -> BTreeSet<String> {
    router.codes().iter().map(ToString::to_string).collect()
}

fn same(what: &str, listed: &BTreeSet<String>, there: &BTreeSet<String>) {
    let missing: Vec<_> = there.difference(listed).collect();
    let surplus: Vec<_> = listed.difference(there).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "{what}: to be added {missing:?}, to be removed {surplus:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_listed_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let below = |name: &str| dir.path().join(name).display().to_string();
    let mut config = NamesrvStartConfig::default();
    config.netty.listen_port = 0;
    config.netty.bind_address = "127.0.0.1".to_owned();
    config.namesrv.kv_config_path = below("kv.json");
    config.namesrv.config_store_path = below("namesrv.properties");
    let kv = std::sync::Arc::new(namesrv::kv::KvStore::load(&dir.path().join("kv.json")).unwrap());
    let namesrv = namesrv::start(config).await.unwrap();
    let services = Services {
        routes: namesrv.routes().clone(),
        kv,
        settings: namesrv.settings().clone(),
        started: std::time::Instant::now(),
    };
    let served = codes(&handlers::router(&services));
    same("docs/protocol.md, name server", &requests("Name server", "namesrv/src/handlers"), &served);
    namesrv.stop().await;

    let mut setup = config::BrokerSetup::default();
    setup.netty_server.listen_port = 0;
    setup.netty_server.bind_address = "127.0.0.1".to_owned();
    setup.broker.namesrv_addr = None;
    setup.store.store_path_root_dir = below("store");
    setup.store.mapped_file_size_commit_log = 1 << 20;
    setup.store.max_hash_slot_num = 100;
    setup.store.max_index_num = 400;
    let broker = broker::start(setup).await.unwrap();
    let served = codes(&broker.parts().router());
    broker.stop().await;
    same("docs/protocol.md, broker", &requests("Broker", "broker/src/handlers"), &served);
}

/// The names in `counter!("..")`, `gauge!("..")` and `histogram!("..")`.
fn metrics(dir: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            metrics(&path, names);
        } else if path.extension() == Some("rs".as_ref()) {
            let text = std::fs::read_to_string(&path).unwrap();
            for macro_name in ["counter!(\"", "gauge!(\"", "histogram!(\""] {
                names
                    .extend(text.split(macro_name).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            }
        }
    }
}

#[test]
fn every_metric_is_listed_and_no_other() {
    let mut exported = BTreeSet::new();
    for dir in ["broker/src", "remoting/src", "store/src"] {
        metrics(&root().join(dir), &mut exported);
    }
    let text = page("operations.md");
    let (_, part) = text.split_once("\n## Metrics\n").unwrap();
    let part = part.split_once("\n## ").map_or(part, |(part, _)| part);
    let listed = part.split('`').filter(|word| word.starts_with("rocketmq_")).map(str::to_owned).collect();
    same("docs/operations.md, metrics", &listed, &exported);
}
