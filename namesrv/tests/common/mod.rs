//! A name server on a free port, and brokers and clients made of single requests.
#![allow(dead_code, missing_docs)]

use std::path::Path;
use std::time::{Duration, Instant};

use namesrv::{NamesrvStartConfig, Running};
use remoting::body::data_version::DataVersion;
use remoting::body::fastjson;
use remoting::body::register::RegisterBrokerBody;
use remoting::body::route::TopicRouteData;
use remoting::body::topic::TopicConfig;
use remoting::client::Client;
use remoting::{Command, RequestCode};

pub const LIMIT: Duration = Duration::from_secs(10);

pub struct World {
    pub server: Running,
    pub addr: String,
    pub folder: tempfile::TempDir,
}

pub fn config(folder: &Path) -> NamesrvStartConfig {
    let mut config = NamesrvStartConfig::default();
    config.netty.listen_port = 0;
    config.netty.bind_address = "127.0.0.1".into();
    config.namesrv.kv_config_path = folder.join("kvConfig.json").display().to_string();
    config.namesrv.config_store_path = folder.join("namesrv.properties").display().to_string();
    config
}

pub async fn world(change: impl FnOnce(&mut NamesrvStartConfig)) -> World {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    change(&mut config);
    let server = namesrv::start(config).await.unwrap();
    let addr = server.addr().to_string();
    World { server, addr, folder }
}

impl World {
    /// A client with connections of its own.
    pub fn peer(&self) -> Peer {
        Peer { client: Client::new(None), addr: self.addr.clone() }
    }
}

pub struct Peer {
    pub client: Client,
    pub addr: String,
}

impl Peer {
    pub async fn call(&self, command: Command) -> Command {
        self.client.call(&self.addr, command, LIMIT).await.unwrap()
    }

    pub async fn register(&self, broker: &Broker, topics: &[&str], counter: i64) -> Command {
        self.call(broker.command(topics, counter)).await
    }

    /// Code and body of a route query.
    pub async fn route(&self, topic: &str) -> (i32, TopicRouteData) {
        let answer = self.call(Command::request(RequestCode::GET_ROUTEINFO_BY_TOPIC).field("topic", topic)).await;
        let route: Option<TopicRouteData> = fastjson::from_slice(&answer.body).unwrap();
        (answer.code, route.unwrap_or_default())
    }

    pub async fn perm(&self, topic: &str) -> i32 {
        self.route(topic).await.1.queue_datas[0].perm
    }
}

pub struct Broker {
    pub name: &'static str,
    pub id: i64,
    pub addr: &'static str,
}

impl Broker {
    pub fn command(&self, topics: &[&str], counter: i64) -> Command {
        let mut body = RegisterBrokerBody { filter_server_list: Some(Vec::new()), ..RegisterBrokerBody::default() };
        let wrapper = &mut body.topic_config_serialize_wrapper;
        wrapper.data_version = DataVersion { counter, ..DataVersion::default() };
        wrapper.mapping_data_version = DataVersion::new();
        wrapper.topic_config_table =
            topics.iter().map(|name| ((*name).to_owned(), TopicConfig::new(*name, 4, 6))).collect();
        let body = body.to_plain().unwrap();
        Command::request(RequestCode::REGISTER_BROKER)
            .field("brokerName", self.name)
            .field("brokerAddr", self.addr)
            .field("clusterName", "DefaultCluster")
            .field("haServerAddr", format!("{}0", self.addr))
            .field("brokerId", self.id)
            .field("enableActingMaster", false)
            .field("compressed", false)
            .field("bodyCrc32", crc32fast::hash(&body) & 0x7FFF_FFFF)
            .body(body)
    }

    pub fn unregister(&self, addr: &str) -> Command {
        Command::request(RequestCode::UNREGISTER_BROKER)
            .field("brokerName", self.name)
            .field("brokerAddr", addr)
            .field("clusterName", "DefaultCluster")
            .field("brokerId", self.id)
    }
}

/// Waits until `condition` holds.
pub async fn eventually(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
