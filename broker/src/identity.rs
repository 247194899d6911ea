//! Who this broker is: names, number, addresses. Fixed from the start of the process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

use config::BrokerConfig;
use remoting::SerializeType;

/// How far below its listening port a broker has a second one, for what must not wait behind pulls.
pub const VIP_DISTANCE: u16 = 2;

/// Names, number and addresses of a broker.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The cluster.
    pub cluster: String,
    /// The name that master and slaves share.
    pub name: String,
    /// 0: the master; others: slaves.
    pub id: i64,
    /// The region that messages carry (`MSG_REGION`).
    pub region: String,
    /// The address that clients connect to: `brokerIP1:listenPort`.
    pub addr: String,
    /// The address that replicas connect to: `brokerIP2:haListenPort`.
    pub ha_addr: String,
    /// [`Identity::addr`] as the records' store host; an unresolvable name becomes 127.0.0.1.
    pub store_host: SocketAddr,
    /// The port that clients connect to.
    pub port: u16,
    /// The port that replicas connect to.
    pub ha_port: u16,
    /// How our own headers are laid out.
    pub serialize: SerializeType,
}

impl Identity {
    /// The identity that a configuration gives a broker which listens on `port`, and on `ha_port` for replicas.
    pub fn new(config: &BrokerConfig, port: u16, ha_port: u16, serialize: SerializeType) -> Identity {
        Identity {
            cluster: config.broker_cluster_name.clone(),
            name: config.broker_name.clone(),
            id: config.broker_id,
            region: config.region_id.clone(),
            addr: format!("{}:{port}", config.broker_ip1),
            ha_addr: format!("{}:{ha_port}", config.broker_ip2),
            store_host: resolve(&config.broker_ip1, port),
            port,
            ha_port,
            serialize,
        }
    }
}

fn resolve(host: &str, port: u16) -> SocketAddr {
    if let Ok(ip) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return SocketAddr::new(ip, port);
    }
    let resolved = (host, port).to_socket_addrs().ok().and_then(|mut found| found.next());
    resolved.unwrap_or_else(|| {
        tracing::warn!(host, "cannot resolve brokerIP1, messages are stored with 127.0.0.1");
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
    })
}
