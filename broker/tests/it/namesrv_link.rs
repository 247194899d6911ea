//! The broker's side of the name servers, against stand-ins that record what they get.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::client::{Peer, setup, until};
use parking_lot::Mutex;
use remoting::body::register::RegisterBrokerBody;
use remoting::body::topic::DataVersion;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Lane, Outcome, Router, Server, ServerOptions};
use remoting::{Reply, RequestCode};
use tokio_util::sync::CancellationToken;

/// What a name server got, in order: the code and its fields, and the topics of a registration.
#[derive(Clone, Debug)]
struct Got {
    code: i32,
    fields: BTreeMap<String, String>,
    topics: Vec<String>,
    version: DataVersion,
}

/// A name server that keeps the last version, and hands out an order configuration.
struct NameServer {
    addr: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

struct Record(Arc<Mutex<Vec<Got>>>);

impl Handler for Record {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let request = cx.request();
        let fields = request.fields.iter().map(|field| (field.name.to_owned(), field.value.to_cow().into_owned()));
        let mut got =
            Got { code: request.code, fields: fields.collect(), topics: Vec::new(), version: DataVersion::default() };
        let mut all = self.0.lock();
        let last = all.iter().rev().find(|got| got.code == 103).map(|got| got.version);
        let reply = match request.code {
            103 => {
                let body = RegisterBrokerBody::read(cx.body(), got.fields["compressed"] == "true", 513).unwrap();
                let table = body.topic_config_serialize_wrapper;
                got.topics = table.topic_config_table.keys().cloned().collect();
                got.version = table.data_version;
                assert_eq!(got.fields["bodyCrc32"], (crc32fast::hash(cx.body()) & 0x7FFF_FFFF).to_string());
                Reply::ok().body(&br#"{"table":{"Ordered":"bk1:1"}}"#[..])
            }
            322 => {
                got.version = remoting::body::fastjson::from_slice(cx.body()).unwrap();
                Reply::ok().field("changed", last != Some(got.version))
            }
            _ => Reply::ok(),
        };
        all.push(got);
        reply.into()
    }
}

impl NameServer {
    /// Starts one; at `addr` when it is a restart.
    async fn start(addr: Option<SocketAddr>) -> NameServer {
        let got = Arc::new(Mutex::new(Vec::new()));
        let mut router = Router::new();
        for code in [103, 104, 217, 322, 904] {
            router.on(RequestCode(code), Lane::Inline, Arc::new(Record(got.clone())));
        }
        let listen = addr.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let server = Server::bind(ServerOptions { listen, ..ServerOptions::default() }, Arc::new(router)).unwrap();
        let (addr, stop) = (server.local_addr(), CancellationToken::new());
        let task = tokio::spawn(server.run(stop.clone()));
        NameServer { addr, got, stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }

    fn registrations(&self) -> Vec<Got> {
        self.got.lock().iter().filter(|got| got.code == 103).cloned().collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registered_when_the_start_returns_and_unregistered_at_the_stop() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (NameServer::start(None).await, NameServer::start(None).await);
    let mut config = setup(dir.path());
    config.broker.namesrv_addr = Some(format!("{};{}", first.addr, second.addr));
    let running = broker::start(config).await.unwrap();
    for server in [&first, &second] {
        let got = server.registrations();
        assert_eq!(got.len(), 1);
        assert!(got[0].topics.contains(&"TBW102".to_owned()) && got[0].topics.contains(&"bk1".to_owned()));
        let addr = running.addr().to_string();
        let expected = [("brokerAddr", addr.as_str()), ("brokerId", "0"), ("brokerName", "bk1"), ("clusterName", "C1")];
        for (name, value) in expected {
            assert_eq!(got[0].fields[name], value);
        }
        assert_eq!(got[0].fields["haServerAddr"], format!("127.0.0.1:{}", running.addr().port() + 1));
    }

    // The answer to an administrator comes after the registration of that one topic.
    let peer = Peer::of(&running);
    assert_eq!(peer.create_topic("Ordered", 1).await.code, 0);
    for server in [&first, &second] {
        assert_eq!(server.registrations()[1].topics, ["Ordered"]);
    }
    assert!(running.parts().topics.is_ordered("Ordered"), "the order configuration is in the answer");

    // A topic that a send makes is registered soon.
    assert_eq!(peer.send("Auto", 0, "x").await.code, 0);
    until(|| first.registrations().iter().any(|got| got.topics == ["Auto"])).await;

    running.stop().await;
    for server in [first, second] {
        let last = server.got.lock().last().unwrap().clone();
        assert_eq!((last.code, last.fields["brokerName"].as_str()), (104, "bk1"));
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_name_server_gets_everything_again() {
    let dir = tempfile::tempdir().unwrap();
    let first = NameServer::start(None).await;
    let addr = first.addr;
    let mut config = setup(dir.path());
    config.broker.namesrv_addr = Some(addr.to_string());
    let running = broker::start(config).await.unwrap();
    first.stop().await;
    // While it is away, a change does not wait for it longer than a refused connection takes.
    let peer = Peer::of(&running);
    let change = tokio::time::timeout(Duration::from_secs(10), peer.create_topic("T1", 1)).await.unwrap();
    assert_eq!(change.code, 0);
    let again = NameServer::start(Some(addr)).await;
    until(|| again.registrations().iter().any(|got| got.topics.contains(&"T1".to_owned()) && got.topics.len() > 1))
        .await;
    running.stop().await;
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_starts_without_any_name_server() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = setup(dir.path());
    config.broker.namesrv_addr = Some("127.0.0.1:1".to_owned());
    let running = broker::start(config).await.unwrap();
    assert_eq!(Peer::of(&running).send("T1", 0, "x").await.code, 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn modes_of_later_versions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    type Change = fn(&mut config::BrokerSetup);
    let changes: [(Change, &str); 2] = [
        (|setup| setup.store.enable_d_leger_commit_log = true, "enableDLegerCommitLog=true"),
        (|setup| setup.broker.enable_controller_mode = true, "enableControllerMode=true"),
    ];
    for (change, named) in changes {
        let mut config = setup(dir.path());
        change(&mut config);
        let error = broker::start(config).await.err().expect("a refusal").to_string();
        assert!(error.contains(named) && error.contains("not supported"), "{error}");
        assert!(!dir.path().join("store").exists(), "nothing was touched");
    }
}
