//! The name server: brokers register their topics here, clients ask here which broker has a topic.
//!
//! Name servers keep nothing but the KV configuration and do not know each other: after a restart everything comes back
//! with the brokers' next registrations.
//!
//! * [`routes`] is what brokers registered, without sockets;
//! * [`handlers`] is one file per request on top of it;
//! * [`start`] puts both behind a port, with the scan for silent brokers beside it.

pub mod handlers;
pub mod kv;
mod notify;
pub mod routes;
pub mod settings;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{NamesrvConfig, NettyServerConfig};
use remoting::SerializeType;
use remoting::client::Client;
use remoting::server::{ConnHandle, Router, Server, ServerOptions};
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use handlers::Services;
use kv::{KvError, KvStore};
use routes::Routes;
use settings::Settings;

/// The port that clients expect.
pub const DEFAULT_PORT: i32 = 9876;

/// What to start.
#[derive(Clone, Debug)]
pub struct NamesrvStartConfig {
    /// The name server's keys.
    pub namesrv: NamesrvConfig,
    /// The listener's keys; port 0 picks a free one.
    pub netty: NettyServerConfig,
    /// What else stood in the configuration file: listed to tools.
    pub others: BTreeMap<String, String>,
    /// How our headers are laid out (`rocketmq.serialize.type`).
    pub serialize: SerializeType,
    /// The largest frame in bytes (`com.rocketmq.remoting.frameMaxLength`).
    pub max_frame: usize,
}

impl Default for NamesrvStartConfig {
    fn default() -> Self {
        NamesrvStartConfig {
            namesrv: NamesrvConfig::default(),
            netty: NettyServerConfig { listen_port: DEFAULT_PORT, ..NettyServerConfig::default() },
            others: BTreeMap::new(),
            serialize: SerializeType::Json,
            max_frame: ServerOptions::default().max_frame,
        }
    }
}

/// Why a name server did not start. The operator's business.
#[derive(Debug, Error)]
pub enum StartError {
    /// `bindAddress` and `listenPort` are no address.
    #[error("bindAddress={address}, listenPort={port}: not an address to listen on")]
    Address {
        /// The key's value.
        address: String,
        /// The key's value.
        port: i32,
    },
    /// The port cannot be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The KV configuration cannot be loaded.
    #[error("KV configuration: {0}")]
    Kv(#[from] KvError),
}

/// A name server at work. It goes on when this is dropped; [`Running::stop`] ends it.
pub struct Running {
    addr: SocketAddr,
    services: Services,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its tables.
    pub fn routes(&self) -> &Arc<Routes> {
        &self.services.routes
    }

    /// Its configuration.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.services.settings
    }

    /// Stops listening, answers what is under way, closes the connections and ends.
    pub async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "name server task");
            }
        }
    }
}

/// Starts a name server on the current tokio runtime.
///
/// # Errors
/// No such address, a port in use, or a KV configuration that cannot be loaded.
pub async fn start(config: NamesrvStartConfig) -> Result<Running, StartError> {
    let address = listen_address(&config.netty)?;
    let kv = Arc::new(KvStore::load(config.namesrv.kv_config_path.as_ref())?);
    if config.namesrv.cluster_test {
        tracing::warn!("clusterTest has no effect");
    }
    let (news, received) = notify::queue();
    let routes = Arc::new(Routes::new(kv.clone(), move |change| {
        if let Err(error) = news.try_send(change) {
            tracing::warn!(%error, "least broker id not told");
        }
    }));
    let options = server_options(&config, address);
    let scan = Duration::from_millis(u64::try_from(config.namesrv.scan_not_active_broker_interval).unwrap_or(0).max(1));
    let settings = Arc::new(Settings::new(config.namesrv, config.netty, config.others));
    let services = Services { routes, kv, settings, started: Instant::now() };

    let mut router = handlers::router(&services);
    unregister_with_connection(&mut router, &services);
    let server = Server::bind(options, Arc::new(router)).map_err(|source| StartError::Listen { address, source })?;
    let addr = server.local_addr();
    let stop = CancellationToken::new();
    let client = Client::with_serialize(None, config.serialize);
    let tasks = vec![
        tokio::spawn(server.run(stop.clone())),
        tokio::spawn(expire(services.clone(), scan, stop.clone())),
        tokio::spawn(until(stop.clone(), notify::run(received, client))),
    ];
    tracing::info!(%addr, "name server started");
    Ok(Running { addr, services, stop, tasks })
}

fn listen_address(netty: &NettyServerConfig) -> Result<SocketAddr, StartError> {
    let (host, port) = (netty.bind_address.as_str(), netty.listen_port);
    let bad = || StartError::Address { address: host.to_owned(), port };
    let port = u16::try_from(port).map_err(|_| bad())?;
    if let Ok(ip) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok((ip, port).into());
    }
    (host, port).to_socket_addrs().ok().and_then(|mut all| all.next()).ok_or_else(bad)
}

fn server_options(config: &NamesrvStartConfig, listen: SocketAddr) -> ServerOptions {
    let netty = &config.netty;
    let size = |value: i32| usize::try_from(value).unwrap_or(0);
    let defaults = ServerOptions::default();
    ServerOptions {
        listen,
        serialize: config.serialize,
        max_frame: config.max_frame,
        idle: Duration::from_secs(u64::try_from(netty.server_channel_max_idle_time_seconds).unwrap_or(0)),
        high_water: match size(netty.write_buffer_high_water_mark) {
            0 => defaults.high_water,
            bytes => bytes,
        },
        send_buffer: size(netty.server_socket_snd_buf_size),
        receive_buffer: size(netty.server_socket_rcv_buf_size),
        backlog: u32::try_from(netty.server_socket_backlog).unwrap_or(defaults.backlog),
    }
}

/// A broker whose connection is gone is gone.
fn unregister_with_connection(router: &mut Router, services: &Services) {
    let services = services.clone();
    router.set_closed(move |conn: &ConnHandle| {
        let link = conn.id();
        if !services.routes.has_registered(link) {
            return;
        }
        let services = services.clone();
        // It may have thousands of topics: not on the connection's task.
        tokio::task::spawn_blocking(move || {
            let notify = services.settings.namesrv.load().notify_min_broker_id_changed;
            services.routes.connection_closed(link, notify);
        });
    });
}

/// Looks for silent brokers, each `interval`.
async fn expire(services: Services, interval: Duration, stop: CancellationToken) {
    let scan = async {
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let services = services.clone();
            let task = tokio::task::spawn_blocking(move || {
                let notify = services.settings.namesrv.load().notify_min_broker_id_changed;
                services.routes.expire(notify);
            });
            if let Err(error) = task.await {
                tracing::error!(%error, "scan for silent brokers");
            }
        }
    };
    until(stop, scan).await;
}

async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}
