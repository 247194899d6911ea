//! The broker's side of the name servers: registers it and its topics with each of them, and unregisters it.
//!
//! A full registration goes out at the start and each `registerNameServerPeriod`; one of the changed topics after each
//! change. Registrations are sent one after another, so a name server never sees an older table after a newer one.
//! Between them each name server is asked every few seconds whether it still has our table: one that was restarted or
//! could not be reached gets all of it at once.

mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use config::{BrokerConfig, Live};
use parking_lot::Mutex;
use remoting::body::fastjson;
use remoting::body::kv::KvTable;
use remoting::body::topic::DataVersion;
use remoting::client::{Client, ClientError};
use remoting::{Command, ResponseCode};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use crate::identity::Identity;
use crate::static_topics::StaticTopics;
use crate::topics::{Topic, TopicTable};

/// How often each name server is asked whether it still has our table.
const PROBE_PERIOD: Duration = Duration::from_secs(5);
/// How long such a question, and an unregistration, may take.
const SHORT_TIMEOUT: Duration = Duration::from_secs(3);

/// Where the master of our group is, as a name server says it in its answer to our registration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MasterInfo {
    /// Where clients find it; `None`: the name server knows no master.
    pub addr: Option<String>,
    /// Where replicas find it.
    pub ha_addr: Option<String>,
}

/// Called after each registration that a name server has answered.
pub type Registered = dyn Fn(&MasterInfo) + Send + Sync;

/// The link to all name servers.
pub struct NamesrvLink {
    client: Client,
    who: Arc<Identity>,
    config: Arc<Live<BrokerConfig>>,
    topics: Arc<TopicTable>,
    static_topics: Arc<StaticTopics>,
    /// Changed topics that are not registered yet, by name.
    pending: Mutex<BTreeMap<String, Arc<Topic>>>,
    /// Wakes [`NamesrvLink::run`] for `pending`.
    changed: Notify,
    /// Held while registrations are on their way.
    turn: tokio::sync::Mutex<()>,
    /// Name servers that the last registration did not reach; the probe brings them up to date.
    behind: Mutex<BTreeSet<String>>,
    /// Set by [`NamesrvLink::unregister`]: nothing is registered any more.
    closed: AtomicBool,
    /// While it is set nothing is registered: the broker does not serve yet.
    isolated: AtomicBool,
    registered: OnceLock<Box<Registered>>,
}

impl NamesrvLink {
    /// A link; nothing is sent before [`NamesrvLink::register_all`].
    pub fn new(
        who: Arc<Identity>,
        config: Arc<Live<BrokerConfig>>,
        topics: Arc<TopicTable>,
        static_topics: Arc<StaticTopics>,
    ) -> NamesrvLink {
        NamesrvLink {
            client: Client::with_serialize(None, who.serialize),
            who,
            config,
            topics,
            static_topics,
            pending: Mutex::default(),
            changed: Notify::new(),
            turn: tokio::sync::Mutex::new(()),
            behind: Mutex::default(),
            closed: AtomicBool::new(false),
            isolated: AtomicBool::new(false),
            registered: OnceLock::new(),
        }
    }

    /// Sets who is told where the master is; the first call counts.
    pub fn set_registered(&self, listener: Box<Registered>) {
        let _ = self.registered.set(listener);
    }

    /// Whether the broker stays unknown to the name servers, and gives no sign of life.
    pub fn set_isolated(&self, isolated: bool) {
        self.isolated.store(isolated, Ordering::SeqCst);
    }

    /// Whether the broker stays unknown to the name servers.
    pub fn is_isolated(&self) -> bool {
        self.isolated.load(Ordering::SeqCst)
    }

    /// Sends a request to the name servers, one after another, until one answers.
    ///
    /// # Errors
    /// None answers: the failure of the last; or there are none.
    pub async fn ask(&self, command: &Command) -> Result<Command, ClientError> {
        let mut failed = None;
        for addr in self.addresses() {
            match self.client.call(&addr, command.clone(), SHORT_TIMEOUT).await {
                Ok(answer) => return Ok(answer),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| ClientError::Broken("namesrvAddr".to_owned())))
    }

    /// The name servers' addresses as configured (`namesrvAddr`, parted by `;`).
    pub fn addresses(&self) -> Vec<String> {
        let config = self.config.load();
        let list = config.namesrv_addr.as_deref().unwrap_or_default();
        list.split(';').map(str::trim).filter(|addr| !addr.is_empty()).map(str::to_owned).collect()
    }

    /// Remembers topics that have changed; they are registered soon.
    pub fn topics_changed(&self, topics: &[Arc<Topic>]) {
        let mut pending = self.pending.lock();
        for topic in topics {
            pending.insert(topic.topic_name.clone(), topic.clone());
        }
        drop(pending);
        self.changed.notify_one();
    }

    /// Registers what [`NamesrvLink::topics_changed`] was told, and returns when every name server that can be reached
    /// knows it.
    pub async fn register_changed(&self) {
        let _turn = self.turn.lock().await;
        let mut pending = std::mem::take(&mut *self.pending.lock());
        if pending.is_empty() {
            return;
        }
        let addresses = self.reachable();
        let mappings: BTreeMap<_, _> = pending
            .keys()
            .filter_map(|topic| Some((topic.clone(), self.static_topics.find(topic, None)?.info())))
            .collect();
        if self.config.load().enable_single_topic_register {
            // There is no room for a mapping in what registers a single topic.
            for (_, topic) in pending.extract_if(.., |topic, _| !mappings.contains_key(topic)) {
                let command = requests::register_topic(&self.who, topic.config());
                self.send_all(&addresses, &command, SHORT_TIMEOUT).await;
            }
            if pending.is_empty() {
                return;
            }
        }
        let changed = requests::Topics {
            configs: pending.values().map(|topic| topic.config().clone()).collect(),
            mappings,
            version: self.topics.data_version(),
        };
        let command = requests::register(&self.who, &self.config.load(), changed);
        self.register(&addresses, &command).await;
    }

    /// Registers the broker with all its topics. Unless `force`, name servers that have our table are left alone.
    pub async fn register_all(&self, force: bool) {
        let addresses = self.addresses();
        let outdated = if force { addresses } else { self.outdated(addresses).await };
        self.register_with(&outdated).await;
    }

    /// Unregisters the broker everywhere; nothing is registered afterwards.
    pub async fn unregister(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let _turn = self.turn.lock().await;
        for (addr, answer) in self.send_all(&self.addresses(), &requests::unregister(&self.who), SHORT_TIMEOUT).await {
            match answer {
                Ok(_) => tracing::info!(namesrv = addr, "unregistered"),
                Err(error) => tracing::warn!(namesrv = addr, %error, "cannot unregister"),
            }
        }
        self.client.close();
    }

    /// Registers periodically and after changes, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let millis = |value: i64| Duration::from_millis(u64::try_from(value).unwrap_or(0));
        let config = self.config.load_full();
        let period = millis(i64::from(config.register_name_server_period).clamp(10_000, 60_000));
        let mut full = interval_at(Instant::now() + millis(10_000), period);
        let mut probe = interval_at(Instant::now() + PROBE_PERIOD, PROBE_PERIOD);
        let acting = config.enable_slave_acting_master;
        let beat = millis(i64::from(config.broker_heartbeat_interval).max(10));
        let mut heartbeat = interval_at(Instant::now() + Duration::from_secs(1), beat);
        for timer in [&mut full, &mut probe, &mut heartbeat] {
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            let work = async {
                tokio::select! {
                    () = self.changed.notified() => self.register_changed().await,
                    _ = full.tick() => self.register_all(self.config.load().force_register).await,
                    _ = probe.tick() => self.probe().await,
                    _ = heartbeat.tick(), if acting => self.heartbeat().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = work => {}
            }
        }
    }

    /// Registers the broker for the first time, or again after it was isolated.
    pub async fn serve(&self) {
        self.set_isolated(false);
        self.register_all(true).await;
    }

    /// Brings name servers up to date that have lost our table or missed a change.
    async fn probe(&self) {
        if self.is_isolated() {
            return;
        }
        let outdated = self.outdated(self.addresses()).await;
        if !outdated.is_empty() {
            self.register_with(&outdated).await;
        }
    }

    async fn heartbeat(&self) {
        if self.is_isolated() {
            return;
        }
        let command = if self.config.load().compatible_with_old_name_srv {
            requests::query_data_version(&self.who, &self.topics.data_version())
        } else {
            requests::heartbeat(&self.who)
        };
        let timeout =
            Duration::from_millis(u64::try_from(self.config.load().send_heartbeat_timeout_millis).unwrap_or(0));
        let mut tasks = JoinSet::new();
        for addr in self.reachable() {
            let (client, command) = (self.client.clone(), command.clone());
            tasks.spawn(async move { client.oneway(&addr, command, timeout).await });
        }
        tasks.join_all().await;
    }

    /// Those that answer and do not have our table.
    async fn outdated(&self, addresses: Vec<String>) -> Vec<String> {
        let version = self.topics.data_version();
        let command = requests::query_data_version(&self.who, &version);
        let answers = self.send_all(&addresses, &command, SHORT_TIMEOUT).await;
        let mut outdated = Vec::new();
        for (addr, answer) in answers {
            match answer {
                Ok(answer) => {
                    let known: Option<DataVersion> = fastjson::from_slice(&answer.body).unwrap_or(None);
                    let changed = answer.get("changed") != Some("false") || known.is_some_and(|known| known != version);
                    if changed || self.behind.lock().contains(&addr) {
                        outdated.push(addr);
                    }
                }
                Err(error) => self.lost(&addr, &error),
            }
        }
        outdated
    }

    /// Full registration with some name servers, in parts when that is configured.
    async fn register_with(&self, addresses: &[String]) {
        if addresses.is_empty() {
            return;
        }
        let _turn = self.turn.lock().await;
        let config = self.config.load_full();
        // Everything that is pending is in the snapshot that follows.
        self.pending.lock().clear();
        let (topics, version) = self.topics.snapshot_with_version();
        let part = match usize::try_from(config.split_registration_size) {
            Ok(size) if config.enable_split_registration && size > 0 => size,
            _ => usize::MAX,
        };
        // A name server takes mappings only with what is new to it, the first part.
        let mut mappings = self.static_topics.infos();
        for part in topics.chunks(part) {
            let topics = requests::Topics {
                configs: part.iter().map(|topic| topic.config().clone()).collect(),
                mappings: std::mem::take(&mut mappings),
                version,
            };
            self.register(addresses, &requests::register(&self.who, &config, topics)).await;
        }
    }

    /// Sends a registration and takes what the first answer says of ordered topics.
    async fn register(&self, addresses: &[String], command: &Command) {
        if self.closed.load(Ordering::SeqCst) || self.is_isolated() {
            return;
        }
        let timeout =
            Duration::from_millis(u64::try_from(self.config.load().register_broker_timeout_mills).unwrap_or(0));
        let mut ordered = None;
        let mut master: Option<MasterInfo> = None;
        for (addr, answer) in self.send_all(addresses, command, timeout).await {
            match answer {
                Ok(answer) if answer.code == ResponseCode::SUCCESS.0 => {
                    if self.behind.lock().remove(&addr) {
                        tracing::info!(namesrv = addr, "the name server is up to date again");
                    }
                    if master.as_ref().is_none_or(|known| known.addr.is_none()) {
                        master = Some(MasterInfo::of(&answer));
                    }
                    if ordered.is_none() {
                        ordered = fastjson::from_slice::<Option<KvTable>>(&answer.body).unwrap_or(None);
                    }
                }
                Ok(answer) => {
                    let remark = answer.remark.as_deref().unwrap_or_default();
                    tracing::warn!(
                        namesrv = addr,
                        code = answer.code,
                        remark,
                        "the name server refused to register us"
                    );
                    self.behind.lock().insert(addr);
                }
                Err(error) => self.lost(&addr, &error),
            }
        }
        if let (Some(master), Some(listener)) = (master, self.registered.get()) {
            listener(&master);
        }
        if let Some(table) = ordered {
            self.topics.mark_ordered(table.table.keys().map(String::as_str));
        }
    }

    /// Name servers that answered last time; a change does not wait for the others.
    fn reachable(&self) -> Vec<String> {
        let behind = self.behind.lock();
        self.addresses().into_iter().filter(|addr| !behind.contains(addr)).collect()
    }

    /// Says once that a name server cannot be reached.
    fn lost(&self, addr: &str, error: &ClientError) {
        if self.behind.lock().insert(addr.to_owned()) {
            tracing::warn!(namesrv = addr, %error, "cannot reach the name server, trying again");
        }
    }

    async fn send_all(
        &self,
        addresses: &[String],
        command: &Command,
        timeout: Duration,
    ) -> Vec<(String, Result<Command, ClientError>)> {
        let mut tasks = JoinSet::new();
        for addr in addresses {
            let (client, command, addr) = (self.client.clone(), command.clone(), addr.clone());
            tasks.spawn(async move {
                let answer = client.call(&addr, command, timeout).await;
                (addr, answer)
            });
        }
        tasks.join_all().await
    }
}

impl MasterInfo {
    /// What an answer says. The first name server that knows a master is believed, of those that answer.
    fn of(answer: &Command) -> MasterInfo {
        let field = |name| answer.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
        MasterInfo { addr: field("masterAddr"), ha_addr: field("haServerAddr") }
    }
}
