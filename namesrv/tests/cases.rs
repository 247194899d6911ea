//! Cases that were reported against Java's name server, and its answers, over sockets.
#![allow(missing_docs)]

mod common;

use std::io::{Read, Write};
use std::time::Duration;

use common::{Broker, eventually, world};
use remoting::body::cluster::ClusterInfo;
use remoting::body::data_version::DataVersion;
use remoting::body::fastjson;
use remoting::body::register::RegisterBrokerBody;
use remoting::body::topic::TopicConfig;
use remoting::body::topic_list::TopicList;
use remoting::client::Client;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Lane, Outcome, Router, Server, ServerOptions};
use remoting::{Command, Reply, RequestCode, ResponseCode};

const NB5: Broker = Broker { name: "nb5", id: 0, addr: "127.0.0.1:20005" };
const NB5_SLAVE: Broker = Broker { name: "nb5", id: 1, addr: "127.0.0.1:20006" };

#[tokio::test]
async fn n_01_first_registration_with_one_topic() {
    let world = world(|_| {}).await;
    let (broker, client) = (world.peer(), world.peer());
    let nb6 = Broker { name: "nb6", id: 0, addr: "127.0.0.1:20006" };
    let refused = broker.register(&nb6, &["A"], 1).await;
    assert_eq!((refused.code, refused.remark.as_deref()), (1, Some("register broker failed")));
    assert_eq!(client.route("A").await.0, 17);
    assert_eq!(broker.register(&nb6, &["A", "B"], 1).await.code, 0);
    assert_eq!((client.route("A").await.0, client.route("B").await.0), (0, 0));
    assert_eq!(broker.register(&nb6, &["C"], 2).await.code, 0);
    for topic in ["A", "B", "C"] {
        assert_eq!(client.route(topic).await.0, 0, "{topic}");
    }
    // An empty table is how a slave registers.
    let slave = Broker { name: "nb6", id: 1, addr: "127.0.0.1:20016" };
    assert_eq!(broker.register(&slave, &[], 1).await.code, 0);
    world.server.stop().await;
}

#[tokio::test]
async fn n_03_unregister() {
    let world = world(|_| {}).await;
    let (broker, client) = (world.peer(), world.peer());
    broker.register(&NB5, &["A", "B"], 1).await;
    let before = client.route("A").await;
    assert_eq!(broker.call(NB5.unregister("127.0.0.1:1")).await.code, 0);
    assert_eq!(client.route("A").await, before);
    assert_eq!(broker.call(NB5.unregister(NB5.addr)).await.code, 0);
    eventually("the route is gone", Duration::from_secs(1), async || client.route("A").await.0 == 17).await;
    broker.register(&NB5, &["A", "B"], 1).await;
    assert_eq!(client.route("A").await, before);
    // What was decided about an earlier registration does not hit this one: the connection of that one ends now.
    let other = world.peer();
    other.register(&NB5, &["A", "B"], 1).await;
    broker.client.close();
    // The server has noticed the end of the connection once another connection's end, made later, has shown.
    let probe = world.peer();
    probe.register(&Broker { name: "probe", id: 0, addr: "127.0.0.1:30000" }, &["P", "Q"], 1).await;
    probe.client.close();
    eventually("the probe is gone", common::LIMIT, async || client.route("P").await.0 == 17).await;
    assert_eq!(client.route("A").await, before);
    world.server.stop().await;
}

#[tokio::test]
async fn n_04_channel_loss() {
    let world = world(|_| {}).await;
    let (master, slave, client) = (world.peer(), world.peer(), world.peer());
    master.register(&NB5, &["A", "B"], 1).await;
    let answer = slave.register(&NB5_SLAVE, &[], 1).await;
    assert_eq!(answer.get("masterAddr"), Some("127.0.0.1:20005"));
    assert_eq!(answer.get("haServerAddr"), Some("127.0.0.1:200050"));
    master.client.close();
    let ids = async || {
        let (code, route) = client.route("A").await;
        (code, route.broker_datas.into_iter().flat_map(|broker| broker.broker_addrs.into_keys()).collect::<Vec<_>>())
    };
    eventually("the master is gone", Duration::from_secs(1), async || ids().await == (0, vec![1])).await;
    assert_eq!(client.perm("A").await, 6);
    slave.client.close();
    eventually("all is gone", Duration::from_secs(1), async || ids().await.0 == 17).await;
    let answer = client.call(Command::request(RequestCode::GET_ROUTEINFO_BY_TOPIC).field("topic", "A")).await;
    let remark = "No topic route info in name server for the topic: A\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";
    assert_eq!(answer.remark.as_deref(), Some(remark));
    world.server.stop().await;
}

#[tokio::test]
async fn n_07_route_json() {
    let world = world(|_| {}).await;
    let broker = world.peer();
    broker.register(&NB5, &["A", "B"], 1).await;
    let query = |version: i32, standard: bool| {
        let mut command = Command::request(RequestCode::GET_ROUTEINFO_BY_TOPIC).field("topic", "A");
        command.version = version;
        if standard { command.field("acceptStandardJsonOnly", true) } else { command }
    };
    let quoted = r#""brokerAddrs":{"0":"127.0.0.1:20005"}"#;
    let bare = r#""brokerAddrs":{0:"127.0.0.1:20005"}"#;
    for (version, standard, expected) in
        [(485, false, quoted), (401, false, quoted), (400, false, bare), (300, false, bare), (300, true, quoted)]
    {
        // Twice: made, and from the cache.
        for _ in 0..2 {
            let body = broker.call(query(version, standard)).await.body;
            let text = std::str::from_utf8(&body).unwrap();
            assert!(text.contains(expected), "version {version}: {text}");
        }
    }
    let body = broker.call(Command::request(RequestCode::GET_BROKER_CLUSTER_INFO)).await.body;
    assert!(std::str::from_utf8(&body).unwrap().contains(bare));
    let info: ClusterInfo = fastjson::from_slice(&body).unwrap();
    assert!(info.cluster_addr_table["DefaultCluster"].contains("nb5"));
    assert_eq!(broker.call(Command::request(RequestCode::GET_ROUTEINFO_BY_TOPIC)).await.code, 17);
    world.server.stop().await;
}

#[tokio::test]
async fn n_09_write_permission_wiped() {
    let world = world(|_| {}).await;
    let broker = world.peer();
    broker.register(&NB5, &["A", "B"], 1).await;
    let wipe = |name: &str| Command::request(RequestCode::WIPE_WRITE_PERM_OF_BROKER).field("brokerName", name);
    assert_eq!(broker.call(wipe("nb5")).await.get("wipeTopicCount"), Some("2"));
    assert_eq!(broker.perm("A").await, 4);
    broker.register(&NB5, &["A", "B"], 1).await;
    assert_eq!(broker.perm("A").await, 4);
    let add = Command::request(RequestCode::ADD_WRITE_PERM_OF_BROKER).field("brokerName", "nb5");
    assert_eq!(broker.call(add).await.get("addTopicCount"), Some("2"));
    assert_eq!(broker.perm("A").await, 6);
    broker.call(wipe("nb5")).await;
    assert_eq!(broker.perm("A").await, 4);
    broker.register(&NB5, &["A", "B"], 2).await;
    assert_eq!(broker.perm("A").await, 6);
    let unknown = broker.call(wipe("no-broker")).await;
    assert_eq!((unknown.code, unknown.get("wipeTopicCount")), (0, Some("0")));
    world.server.stop().await;
}

#[tokio::test]
async fn b_05_unknown_request_code() {
    let world = world(|_| {}).await;
    let peer = world.peer();
    for code in [9999, -5, 10, 34] {
        let answer = peer.call(Command::request(RequestCode(code))).await;
        assert_eq!((answer.code, answer.remark), (3, Some(format!(" request type {code} not supported"))));
    }
    // A response that nobody waits for and a one-way request get no answer; the connection stays.
    let addr = world.addr.clone();
    tokio::task::spawn_blocking(move || {
        let mut stream = std::net::TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        for (code, flag, opaque) in [(9999, 2, 1), (0, 1, 77), (30, 2, 2), (106, 0, 3)] {
            let header =
                format!(r#"{{"code":{code},"flag":{flag},"language":"JAVA","opaque":{opaque},"version":485}}"#);
            stream.write_all(&(header.len() as u32 + 4).to_be_bytes()).unwrap();
            stream.write_all(&(header.len() as u32).to_be_bytes()).unwrap();
            stream.write_all(header.as_bytes()).unwrap();
        }
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut frame).unwrap();
        let text = String::from_utf8_lossy(&frame);
        assert!(text.contains(r#""opaque":3"#), "the first answer is that to the last request: {text}");
    })
    .await
    .unwrap();
    world.server.stop().await;
}

#[tokio::test]
async fn registrations_that_are_damaged_are_refused() {
    let world = world(|_| {}).await;
    let peer = world.peer();
    let mut wrong = NB5.command(&["A", "B"], 1);
    wrong.fields.retain(|(name, _)| name != "bodyCrc32");
    let answer = peer.call(wrong.clone().field("bodyCrc32", 5)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("crc32 not match")));
    let decode = "org.apache.rocketmq.remoting.exception.RemotingCommandException: Failed to decode RegisterBrokerBody";
    let answer = peer.call(wrong.clone().body("{\"topicConfigSerializeWrapper\":5}")).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some(decode)));
    wrong.fields.retain(|(name, _)| name != "compressed");
    let answer = peer.call(wrong.clone().field("compressed", true)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some(decode)));
    assert_eq!(peer.route("A").await.0, 17);
    // Without a checksum, as old brokers send it.
    assert_eq!(peer.call(wrong).await.code, 0);
    assert_eq!(peer.route("A").await.0, 0);
    world.server.stop().await;
}

#[tokio::test]
async fn an_unchanged_registration_is_told_by_its_checksum() {
    let world = world(|_| {}).await;
    let peer = world.peer();
    let plain = NB5.command(&["A", "B"], 1);
    for _ in 0..2 {
        assert_eq!(peer.call(plain.clone()).await.code, 0);
    }
    let mut wrong = plain.clone();
    wrong.fields.retain(|(name, _)| name != "bodyCrc32");
    let answer = peer.call(wrong.field("bodyCrc32", 5)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("crc32 not match")), "known or not");
    // The checksum of the known body: what the broker means is in the tables, so the damage cannot get there.
    let mut damaged = plain.body.to_vec();
    let at = damaged.windows(7).rposition(|part| part == b"\"perm\":").unwrap() + 7;
    damaged[at] = b'2';
    assert_eq!(peer.call(plain.clone().body(damaged)).await.code, 0);
    assert_eq!((peer.perm("A").await, peer.perm("B").await), (6, 6));
    // Another body under the same version is seen.
    assert_eq!(peer.call(NB5.command(&["A", "C"], 1)).await.code, 0);
    assert_eq!(peer.route("C").await.0, 0);
    world.server.stop().await;
}

#[tokio::test]
async fn a_large_registration_is_applied_beside_the_connections() {
    let world = world(|_| {}).await;
    let peer = world.peer();
    let names: Vec<String> = (0..2000).map(|at| format!("Topic-{at}")).collect();
    let topics: Vec<&str> = names.iter().map(String::as_str).collect();
    for counter in [1, 1, 2] {
        assert_eq!(peer.register(&NB5, &topics, counter).await.code, 0);
        let list = peer.call(Command::request(RequestCode::GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).await;
        let list: TopicList = fastjson::from_slice(&list.body).unwrap();
        assert_eq!(list.topic_list.len(), 2000);
    }
    // The connection ends: everything goes.
    peer.client.close();
    eventually("the broker is gone", common::LIMIT, async || world.server.routes().topics().is_empty()).await;
    world.server.stop().await;
}

#[tokio::test]
async fn query_data_version_says_whether_to_register() {
    let world = world(|_| {}).await;
    let peer = world.peer();
    let query = |counter: i64| {
        let version = DataVersion { counter, ..DataVersion::default() };
        Command::request(RequestCode::QUERY_DATA_VERSION)
            .field("brokerName", "nb5")
            .field("brokerAddr", NB5.addr)
            .field("clusterName", "DefaultCluster")
            .field("brokerId", 0)
            .body(fastjson::to_vec(&version).unwrap())
    };
    let answer = peer.call(query(1)).await;
    assert_eq!((answer.code, answer.get("changed"), answer.body.len()), (0, Some("true"), 0));
    peer.register(&NB5, &["A", "B"], 1).await;
    for (counter, changed) in [(1, "false"), (2, "true")] {
        let answer = peer.call(query(counter)).await;
        assert_eq!(answer.get("changed"), Some(changed));
        assert_eq!(&answer.body[..], br#"{"counter":1,"stateVersion":0,"timestamp":0}"#);
    }
    world.server.stop().await;
}

#[tokio::test]
async fn heartbeats_keep_a_broker_and_silence_removes_it() {
    let world = world(|config| config.namesrv.scan_not_active_broker_interval = 20).await;
    let peer = world.peer();
    let short = NB5.command(&["A", "B"], 1).field("heartbeatTimeoutMillis", 400);
    peer.call(short).await;
    let heartbeat = Command::request(RequestCode::BROKER_HEARTBEAT)
        .field("brokerName", "nb5")
        .field("brokerAddr", NB5.addr)
        .field("clusterName", "DefaultCluster");
    let client = world.peer();
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(1200) {
        assert_eq!(peer.call(heartbeat.clone()).await.code, 0);
        assert_eq!(client.route("A").await.0, 0, "after {:?}", start.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eventually("the silent broker is gone", common::LIMIT, async || client.route("A").await.0 == 17).await;
    world.server.stop().await;
}

#[tokio::test]
async fn kv_configuration_and_order_topics() {
    let world = world(|config| config.namesrv.order_message_enable = true).await;
    let peer = world.peer();
    let kv = |code, namespace: &str, key: &str| Command::request(code).field("namespace", namespace).field("key", key);
    assert_eq!(peer.register(&NB5, &["A", "B"], 1).await.body.len(), 0);
    let missing = peer.call(kv(RequestCode::GET_KV_CONFIG, "ORDER_TOPIC_CONFIG", "A")).await;
    assert_eq!(
        (missing.code, missing.remark.as_deref()),
        (22, Some("No config item, Namespace: ORDER_TOPIC_CONFIG Key: A"))
    );
    let put = kv(RequestCode::PUT_KV_CONFIG, "ORDER_TOPIC_CONFIG", "A").field("value", "nb5:4");
    assert_eq!(peer.route("A").await.1.order_topic_conf, None);
    assert_eq!(peer.call(put).await.code, 0);
    assert_eq!(peer.route("A").await.1.order_topic_conf.as_deref(), Some("nb5:4"));
    assert_eq!(peer.route("B").await.1.order_topic_conf, None);
    let got = peer.call(kv(RequestCode::GET_KV_CONFIG, "ORDER_TOPIC_CONFIG", "A")).await;
    assert_eq!((got.code, got.get("value")), (0, Some("nb5:4")));
    let list = peer
        .call(Command::request(RequestCode::GET_KVLIST_BY_NAMESPACE).field("namespace", "ORDER_TOPIC_CONFIG"))
        .await;
    assert_eq!(&list.body[..], br#"{"table":{"A":"nb5:4"}}"#);
    assert_eq!(peer.register(&NB5, &["A", "B"], 1).await.body, list.body, "a broker learns its ordered topics");
    let no_value = peer.call(Command::request(RequestCode::PUT_KV_CONFIG).field("namespace", "x")).await;
    assert_eq!((no_value.code, no_value.remark.as_deref()), (1, Some("namespace or key is null")));
    let folder = world.folder;
    world.server.stop().await;

    // The KV configuration is what a restart keeps.
    let server = namesrv::start(common::config(folder.path())).await.unwrap();
    let client = Client::new(None);
    let delete = kv(RequestCode::DELETE_KV_CONFIG, "ORDER_TOPIC_CONFIG", "A");
    let list = Command::request(RequestCode::GET_KVLIST_BY_NAMESPACE).field("namespace", "ORDER_TOPIC_CONFIG");
    let addr = server.addr().to_string();
    let call = async |command: &Command| client.call(&addr, command.clone(), common::LIMIT).await.unwrap();
    assert_eq!(&call(&list).await.body[..], br#"{"table":{"A":"nb5:4"}}"#);
    assert_eq!((call(&delete).await.code, call(&delete).await.code), (0, 0));
    assert_eq!(&call(&list).await.body[..], br#"{"table":{}}"#);
    let unused = call(&Command::request(RequestCode::GET_KVLIST_BY_NAMESPACE).field("namespace", "NSX")).await;
    assert_eq!((unused.code, unused.remark.as_deref()), (22, Some("No config item, Namespace: NSX")));
    server.stop().await;
}

#[tokio::test]
async fn configuration_is_listed_changed_and_written() {
    let world = world(|_| {}).await;
    let peer = world.peer();
    let update = |body: &'static str| Command::request(RequestCode::UPDATE_NAMESRV_CONFIG).body(body);
    let locked = peer.call(update("kvConfigPath=x\n")).await;
    assert_eq!((locked.code, locked.remark.as_deref()), (16, Some("Can not update config in black list.")));
    assert_eq!(peer.call(update("enableAllTopicList=false\nenableTopicList=false\n")).await.code, 0);
    let list = peer.call(Command::request(RequestCode::GET_NAMESRV_CONFIG)).await.body;
    assert!(std::str::from_utf8(&list).unwrap().contains("\nenableAllTopicList=false\n"));
    assert_eq!(std::fs::read(world.folder.path().join("namesrv.properties")).unwrap(), list);
    for code in [206, 224, 311, 312, 313] {
        let answer = peer.call(Command::request(RequestCode(code)).field("cluster", "c")).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("disable")), "{code}");
    }
    assert_eq!(peer.call(Command::request(RequestCode::GET_SYSTEM_TOPIC_LIST_FROM_NS)).await.code, 0);
    assert_eq!(peer.call(update("enableAllTopicList=true\nneedWaitForService=true\n")).await.code, 0);
    let waiting = peer.call(Command::request(RequestCode::GET_ROUTEINFO_BY_TOPIC).field("topic", "A")).await;
    assert_eq!((waiting.code, waiting.remark.as_deref()), (1, Some("name server not ready")));
    assert_eq!(peer.call(update("waitSecondsForService=0\n")).await.code, 0);
    assert_eq!(peer.route("A").await.0, 17);
    world.server.stop().await;
}

#[tokio::test]
async fn routes_of_a_zone() {
    let world = world(|_| {}).await;
    let peer = world.peer();
    for (broker, zone) in [(&NB5, "z1"), (&Broker { name: "nb7", id: 0, addr: "127.0.0.1:20007" }, "z2")] {
        peer.call(broker.command(&["A", "B"], 1).field("__ZONE_NAME", zone)).await;
    }
    let query = Command::request(RequestCode::GET_ROUTEINFO_BY_TOPIC).field("topic", "A").field("__ZONE_NAME", "Z2");
    let both = peer.call(query.clone()).await;
    assert!(String::from_utf8_lossy(&both.body).contains("nb5"));
    let one = peer.call(query.field("__ZONE_MODE", "true")).await;
    let expected = r#"{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:20007"},"brokerName":"nb7","cluster":"DefaultCluster","enableActingMaster":false,"zoneName":"z2"}],"filterServerTable":{},"queueDatas":[{"brokerName":"nb7","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#;
    assert_eq!(String::from_utf8_lossy(&one.body), expected);
    world.server.stop().await;
}

#[tokio::test]
async fn topics_and_members_through_requests() {
    let world = world(|_| {}).await;
    let peer = world.peer();
    peer.register(&NB5, &["A", "B"], 1).await;
    let route = r#"{"brokerDatas":[],"filterServerTable":{},"queueDatas":[{"brokerName":"nb5","perm":6,"readQueueNums":2,"topicSysFlag":0,"writeQueueNums":2}]}"#;
    let register = Command::request(RequestCode::REGISTER_TOPIC_IN_NAMESRV).field("topic", "RegTopic").body(route);
    assert_eq!(peer.call(register).await.code, 0);
    assert_eq!(peer.perm("RegTopic").await, 6);
    let cluster = Command::request(RequestCode::GET_TOPICS_BY_CLUSTER).field("cluster", "DefaultCluster");
    assert_eq!(&peer.call(cluster).await.body[..], br#"{"topicList":["A","B","RegTopic"]}"#);
    let delete = Command::request(RequestCode::DELETE_TOPIC_IN_NAMESRV).field("topic", "RegTopic");
    assert_eq!(peer.call(delete).await.code, 0);
    assert_eq!(peer.route("RegTopic").await.0, 17);
    let group = Command::request(RequestCode::GET_BROKER_MEMBER_GROUP)
        .field("clusterName", "DefaultCluster")
        .field("brokerName", "nb5");
    let expected =
        r#"{"brokerMemberGroup":{"brokerAddrs":{0:"127.0.0.1:20005"},"brokerName":"nb5","cluster":"DefaultCluster"}}"#;
    assert_eq!(String::from_utf8_lossy(&peer.call(group).await.body), expected);
    let system = peer.call(Command::request(RequestCode::GET_SYSTEM_TOPIC_LIST_FROM_NS)).await;
    assert_eq!(&system.body[..], br#"{"brokerAddr":"127.0.0.1:20005","topicList":["DefaultCluster","nb5"]}"#);
    world.server.stop().await;
}

/// A broker's end of NOTIFY_MIN_BROKER_ID_CHANGE.
struct Told(tokio::sync::mpsc::UnboundedSender<Vec<(String, String)>>);

impl Handler for Told {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let fields = cx.request().fields.iter().map(|field| (field.name.to_owned(), field.value.to_cow().into_owned()));
        let mut fields: Vec<_> = fields.collect();
        fields.sort();
        if self.0.send(fields).is_err() {
            return Reply::code(ResponseCode::SYSTEM_ERROR).into();
        }
        Outcome::Done
    }
}

#[tokio::test]
async fn members_are_told_of_a_new_least_id() {
    let world = world(|config| config.namesrv.notify_min_broker_id_changed = true).await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let mut router = Router::new();
    router.on(RequestCode::NOTIFY_MIN_BROKER_ID_CHANGE, Lane::Inline, std::sync::Arc::new(Told(told)));
    let options = ServerOptions { listen: ([127, 0, 0, 1], 0).into(), ..ServerOptions::default() };
    let slave_server = Server::bind(options, std::sync::Arc::new(router)).unwrap();
    let slave_addr: &'static str = String::leak(slave_server.local_addr().to_string());
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = tokio::spawn(slave_server.run(stop.clone()));

    let slave = Broker { name: "nb5", id: 1, addr: slave_addr };
    let acting = |mut command: Command| {
        command.fields.retain(|(name, _)| name != "enableActingMaster");
        command.field("enableActingMaster", true)
    };
    let (master_peer, slave_peer) = (world.peer(), world.peer());
    slave_peer.call(acting(slave.command(&["A", "B"], 1))).await;
    master_peer.call(acting(NB5.command(&["A", "B"], 1))).await;
    let mut next = async || tokio::time::timeout(common::LIMIT, heard.recv()).await.unwrap().unwrap();
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect::<Vec<_>>()
    };
    let came = pairs(&[("haBrokerAddr", "127.0.0.1:200050"), ("minBrokerAddr", NB5.addr), ("minBrokerId", "0")]);
    assert_eq!(next().await, came);
    master_peer.client.close();
    let left = pairs(&[("minBrokerAddr", slave_addr), ("minBrokerId", "1"), ("offlineBrokerAddr", NB5.addr)]);
    assert_eq!(next().await, left);
    assert_eq!(slave_peer.perm("A").await, 4);
    stop.cancel();
    serving.await.unwrap();
    world.server.stop().await;
}

#[tokio::test]
async fn a_port_in_use_and_a_wrong_address_are_errors() {
    let world = world(|_| {}).await;
    let folder = tempfile::tempdir().unwrap();
    let mut config = common::config(folder.path());
    config.netty.listen_port = i32::from(world.server.addr().port());
    assert!(matches!(namesrv::start(config.clone()).await, Err(namesrv::StartError::Listen { .. })));
    config.netty.listen_port = 70_000;
    assert!(matches!(namesrv::start(config).await, Err(namesrv::StartError::Address { .. })));
    world.server.stop().await;
}

#[tokio::test]
async fn topics_of_units() {
    let world = world(|_| {}).await;
    let peer = world.peer();
    // Of a unit, with a subscription of a unit, both, neither.
    let topics = [("U", 1), ("S", 2), ("US", 3), ("N", 0)];
    let mut body = RegisterBrokerBody { filter_server_list: Some(Vec::new()), ..RegisterBrokerBody::default() };
    body.topic_config_serialize_wrapper.mapping_data_version = DataVersion::new();
    body.topic_config_serialize_wrapper.topic_config_table = topics
        .iter()
        .map(|(name, flag)| {
            ((*name).to_owned(), TopicConfig { topic_sys_flag: *flag, ..TopicConfig::new(*name, 4, 6) })
        })
        .collect();
    let bytes = body.to_plain().unwrap();
    let mut register = NB5.command(&[], 1);
    register.fields.retain(|(name, _)| name != "bodyCrc32");
    let register = register.field("bodyCrc32", crc32fast::hash(&bytes) & 0x7FFF_FFFF).body(bytes);
    assert_eq!(peer.call(register).await.code, 0);
    for (code, expected) in [
        (RequestCode::GET_UNIT_TOPIC_LIST, ["U", "US"].as_slice()),
        (RequestCode::GET_HAS_UNIT_SUB_TOPIC_LIST, &["S", "US"]),
        (RequestCode::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, &["S"]),
    ] {
        let answer = peer.call(Command::request(code)).await;
        let list: TopicList = fastjson::from_slice(&answer.body).unwrap();
        let found: Vec<&str> = list.topic_list.iter().map(|name| &**name).collect();
        assert_eq!((answer.code, found.as_slice()), (0, expected), "{code}");
    }
    world.server.stop().await;
}
