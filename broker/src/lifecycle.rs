//! The start and the stop of a broker, each as one list of steps.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use config::BrokerSetup;
use config::setup::SetupError;
use remoting::RequestCode;
use remoting::server::{Server, ServerOptions};
use store::StoreError;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::identity::VIP_DISTANCE;
use crate::metrics;
use crate::schedule::BadDelayLevel;
use crate::tasks;
use crate::wiring::Parts;

/// Codes that the second port does not serve, so that pulls never delay sends there.
const NOT_ON_VIP: [RequestCode; 3] =
    [RequestCode::PULL_MESSAGE, RequestCode::LITE_PULL_MESSAGE, RequestCode::POP_MESSAGE];

/// Why a broker does not start: the operator's mistake, the files, or the system.
#[derive(Debug, Error)]
pub enum StartError {
    /// Values that do not go together.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A way of running that this version does not have.
    #[error("{0} is not supported by this version")]
    Unsupported(&'static str),
    /// The delay levels cannot be read.
    #[error(transparent)]
    DelayLevels(#[from] BadDelayLevel),
    /// The layout of headers that the environment names is none.
    #[error(transparent)]
    SerializeType(#[from] remoting::UnknownSerializeType),
    /// The store or a file of `config/` cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A port cannot be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// An address that is none.
    #[error("bindAddress={0}: expected an IP address")]
    BindAddress(String),
    /// The metrics exporter cannot be started as configured.
    #[error("cannot export metrics: {0}")]
    Exporter(String),
    /// A thread cannot be started, or a file not be written.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// A broker that serves clients.
pub struct Running {
    parts: Arc<Parts>,
    addr: SocketAddr,
    /// Stops the listeners; they drain what is under way.
    listening: CancellationToken,
    listeners: TaskTracker,
    /// Stops the periodic tasks.
    working: CancellationToken,
    workers: TaskTracker,
}

/// Starts a broker. Must be called inside a multi-thread tokio runtime.
///
/// With `listenPort` 0 a free port is chosen whose neighbour below it (the second port) is free as well.
///
/// # Errors
/// See [`StartError`]; nothing keeps running then.
pub async fn start(mut setup: BrokerSetup) -> Result<Running, StartError> {
    let ip = bind_ip(&setup.netty_server.bind_address)?;
    if setup.netty_server.listen_port == 0 {
        setup.netty_server.listen_port = i32::from(free_port(ip)?);
        setup.store.ha_listen_port = 0;
    }
    setup.complete()?;
    refuse_unsupported(&setup)?;
    let port = u16::try_from(setup.netty_server.listen_port).unwrap_or_default();
    let ha_port = u16::try_from(setup.store.ha_listen_port).unwrap_or_default();
    let netty = setup.netty_server.clone();
    let addr = SocketAddr::new(ip, port);

    // 1. Tables and store; recovery takes its time here, before anybody can connect.
    let parts = tokio::task::block_in_place(|| Parts::assemble(setup, addr, ha_port))?;
    let parts = Arc::new(parts);
    match open(&parts, addr, &netty).await {
        Ok(running) => Ok(running),
        Err(error) => {
            tokio::task::block_in_place(|| {
                parts.duties.close();
                if let Some(timer) = &parts.timer {
                    timer.stop();
                }
                parts.store.close();
            });
            Err(error)
        }
    }
}

async fn open(parts: &Arc<Parts>, addr: SocketAddr, netty: &config::NettyServerConfig) -> Result<Running, StartError> {
    // 2. Both ports, before the name servers tell clients of them.
    let options = |listen| ServerOptions {
        listen,
        serialize: parts.identity.serialize,
        idle: Duration::from_secs(u64::try_from(netty.server_channel_max_idle_time_seconds).unwrap_or(0)),
        send_buffer: usize::try_from(netty.server_socket_snd_buf_size).unwrap_or(0),
        receive_buffer: usize::try_from(netty.server_socket_rcv_buf_size).unwrap_or(0),
        backlog: u32::try_from(netty.server_socket_backlog).unwrap_or(0).max(1),
        ..ServerOptions::default()
    };
    let bind = |listen: SocketAddr, router| {
        Server::bind(options(listen), Arc::new(router)).map_err(|source| StartError::Listen { addr: listen, source })
    };
    metrics::install(&parts.config.load())?;
    let router = parts.router();
    let mut servers = Vec::new();
    match addr.port().checked_sub(VIP_DISTANCE).filter(|port| *port > 0) {
        Some(port) => servers.push(bind(SocketAddr::new(addr.ip(), port), router.without(&NOT_ON_VIP))?),
        None => tracing::warn!(port = addr.port(), "there is no room for the second port below the listening port"),
    }
    servers.push(bind(addr, router)?);
    let replicas = match parts.ha.is_slave() {
        false => Some(listen_for_replicas(parts, addr.ip()).await?),
        true => None,
    };

    // 3. Delivery of delayed and timed messages, questions about transactions, periodic work, clients.
    tokio::task::block_in_place(|| -> Result<(), StartError> {
        let awaited = parts.succession.is_awaited();
        parts.link.set_isolated(awaited);
        parts.duties.set(parts.identity.id == 0 && !awaited)?;
        if let Some(timer) = &parts.timer {
            timer.start()?;
        }
        Ok(())
    })?;
    let (listening, listeners) = (CancellationToken::new(), TaskTracker::new());
    for server in servers {
        listeners.spawn(server.run(listening.clone()));
    }
    listeners.close();
    let (working, workers) = (CancellationToken::new(), TaskTracker::new());
    tasks::spawn(parts, &workers, &working);
    if let Some(replicas) = replicas {
        // Until what is under way is answered: sends wait for replicas.
        let (ha, stop) = (parts.ha.clone(), working.clone());
        workers.spawn(async move { ha.serve(replicas, stop).await });
    }
    workers.close();

    // 4. The name servers: when `start` returns, those that can be reached know the broker.
    parts.link.register_all(true).await;
    Ok(Running { parts: parts.clone(), addr, listening, listeners, working, workers })
}

impl Running {
    /// Where clients connect to: the bound address with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What the broker consists of.
    pub fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }

    /// Stops the broker. On return every acknowledged message is on disk and the store's directory is free.
    pub async fn stop(self) {
        self.stop_or_hurry(CancellationToken::new()).await;
    }

    /// As [`Running::stop`]; once `hurry` is cancelled it waits for no name server and no client any more, but still for
    /// the disk.
    pub async fn stop_or_hurry(self, hurry: CancellationToken) {
        let unhurried = async {
            // 1. Clients look for another broker.
            self.parts.link.unregister().await;
            // 2. Nothing new comes in; what is under way is answered.
            self.listening.cancel();
            self.listeners.wait().await;
        };
        tokio::select! {
            () = hurry.cancelled() => self.listening.cancel(),
            () = unhurried => {}
        }
        // 3. Periodic work ends.
        self.working.cancel();
        self.workers.wait().await;
        // 4. The tables and the log: from here on everything waits for the disk.
        let parts = self.parts;
        let saved = tokio::task::spawn_blocking(move || {
            parts.duties.close();
            if let Some(timer) = &parts.timer {
                timer.stop();
            }
            parts.topics.persist();
            parts.groups.persist();
            if let Err(error) = parts.offsets.persist() {
                tracing::error!(%error, "cannot save the consumers' offsets");
            }
            if let Err(error) = parts.filters.persist() {
                tracing::error!(%error, "cannot save the consumers' expressions");
            }
            parts.store.close();
        });
        if let Err(error) = saved.await {
            tracing::error!(%error, "the stop was not clean");
        }
    }
}

/// Listens for slaves on every address, as in Java: `brokerIP2` may be in another network than the clients.
async fn listen_for_replicas(parts: &Parts, clients: IpAddr) -> Result<TcpListener, StartError> {
    let ip = match clients {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let addr = SocketAddr::new(ip, parts.identity.ha_port);
    TcpListener::bind(addr).await.map_err(|source| StartError::Listen { addr, source })
}

/// Modes that a later version brings. To start without them would serve the data in another way than asked for.
fn refuse_unsupported(setup: &BrokerSetup) -> Result<(), StartError> {
    if setup.store.enable_d_leger_commit_log {
        return Err(StartError::Unsupported("enableDLegerCommitLog=true (a DLedger commit log)"));
    }
    if setup.broker.enable_controller_mode {
        return Err(StartError::Unsupported("enableControllerMode=true (a broker under a controller)"));
    }
    Ok(())
}

fn bind_ip(text: &str) -> Result<IpAddr, StartError> {
    match text.trim() {
        "" => Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        text => text.parse().map_err(|_| StartError::BindAddress(text.to_owned())),
    }
}

/// A port that is free together with the one for the second server and the one for replicas. From below those that Linux gives to
/// outgoing connections, and to no other broker of this process: nobody takes one before it is listened on.
fn free_port(ip: IpAddr) -> std::io::Result<u16> {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 22_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut last = None;
    for _ in 0..COUNT / 10 {
        // Ten apart; each process begins elsewhere.
        let step = NEXT.fetch_add(10, Ordering::Relaxed);
        let port = (FIRST + std::process::id().wrapping_mul(7919).wrapping_add(step) % COUNT) as u16;
        let addresses = [(ip, port - VIP_DISTANCE), (ip, port), (Ipv4Addr::UNSPECIFIED.into(), port + 1)];
        match addresses.map(std::net::TcpListener::bind).into_iter().collect::<std::io::Result<Vec<_>>>() {
            Ok(_) => return Ok(port),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into()))
}
