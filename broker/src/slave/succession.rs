//! Who of a group serves when its master comes and goes (`enableSlaveActingMaster`): the broker with the least id does what
//! only one of them does, until one with a smaller id is back.
//!
//! Name servers say who is alive: they tell of a change (905), and are asked each `syncBrokerMemberGroupPeriod`. A broker of a
//! group of several (`totalReplicas`) does not serve before it has made contact with the others: a master waits until the
//! slaves copy from it and takes over how far they have come in its absence, a slave until it copies from the master.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use config::{BrokerConfig, Live, MessageStoreConfig};
use remoting::body::broker_member::{BrokerMemberGroup, BrokerMemberGroupBody};
use remoting::body::fastjson;
use remoting::body::route::TopicRouteData;
use remoting::body::topic::DataVersion;
use remoting::header::GetBrokerMemberGroup;
use remoting::{Command, RequestCode, ResponseCode};
use store::Store;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Fetch, HaInfo, Members, Slave, SyncError};
use crate::duties::Duties;
use crate::ha::Ha;
use crate::identity::Identity;
use crate::names;
use crate::namesrv_link::NamesrvLink;
use crate::offsets::Offsets;
use crate::pull::Puller;
use crate::schedule::Schedule;
use crate::timer::Timer;

/// Between two attempts to make contact with the group.
const PAUSE: Duration = Duration::from_secs(1);
/// How long another broker has to connect for replication.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What a [`Succession`] works with.
pub struct SuccessionParts {
    /// Names and addresses.
    pub identity: Arc<Identity>,
    /// Broker keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// Store keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// Messages.
    pub store: Arc<Store>,
    /// The brokers of the group.
    pub members: Arc<Members>,
    /// What only one of them does.
    pub duties: Arc<Duties>,
    /// Name servers.
    pub link: Arc<NamesrvLink>,
    /// Pulls that wait.
    pub puller: Arc<Puller>,
    /// Replication of the log.
    pub ha: Arc<Ha>,
    /// What makes a slave; `None` on a master.
    pub slave: Option<Arc<Slave>>,
    /// Consumers' offsets.
    pub offsets: Arc<Offsets>,
    /// Delayed messages.
    pub schedule: Arc<Schedule>,
    /// Messages for an arbitrary time.
    pub timer: Option<Arc<Timer>>,
}

/// See the module's text.
pub struct Succession {
    parts: SuccessionParts,
    fetch: Fetch,
    /// Held while a change is carried out.
    turn: tokio::sync::Mutex<()>,
}

/// A change of who has the least id, as a name server tells it.
#[derive(Clone, Debug, Default)]
pub struct LeastChanged {
    /// The least id.
    pub id: i64,
    /// Who has it.
    pub addr: Option<String>,
    /// Who has gone.
    pub offline_addr: Option<String>,
    /// Where the master is reached for replication, when it is back.
    pub ha_addr: Option<String>,
}

impl Succession {
    /// Nothing happens before [`Succession::run`].
    pub fn new(parts: SuccessionParts) -> Succession {
        Succession { fetch: Fetch::new(&parts.identity), parts, turn: tokio::sync::Mutex::new(()) }
    }

    /// Whether the broker has to make contact with its group before it serves.
    pub fn is_awaited(&self) -> bool {
        let config = self.parts.config.load();
        config.enable_slave_acting_master
            && !config.skip_pre_online
            && self.parts.store_config.load().total_replicas > 1
    }

    /// Makes contact with the group if need be, and keeps up with who is alive, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        if !self.parts.config.load().enable_slave_acting_master {
            return;
        }
        let work = async {
            if self.parts.link.is_isolated() {
                while !self.make_contact().await {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            loop {
                let period = self.parts.config.load().sync_broker_member_group_period;
                tokio::time::sleep(Duration::from_millis(u64::try_from(period).unwrap_or(0).max(10))).await;
                self.look().await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    /// A name server tells of a change (905).
    pub async fn least_changed(&self, change: LeastChanged) {
        let parts = &self.parts;
        if !parts.config.load().enable_slave_acting_master || parts.identity.id == 0 {
            return;
        }
        let _turn = self.turn.lock().await;
        if change.id == parts.members.least_id() {
            return;
        }
        let before = parts.members.set_least(change.id);
        tracing::info!(before, now = change.id, addr = ?change.addr, "the least broker id of the group has changed");
        self.set_duties(change.id == parts.identity.id).await;
        if let Some(slave) = &parts.slave {
            // Whoever had the least id is gone when it has become greater, also one that we never were told of.
            if change.id > 0 && before == 0
                || change.offline_addr.is_some() && change.offline_addr == slave.sync.master()
            {
                slave.master_is_gone();
            }
            if change.id == 0
                && let Some(addr) = &change.addr
            {
                self.master_is_back(slave, addr, change.ha_addr).await;
            }
        }
        if change.id == 0 {
            let puller = parts.puller.clone();
            let _ = tokio::task::spawn_blocking(move || puller.release_all()).await;
        }
    }

    async fn master_is_back(&self, slave: &Slave, addr: &str, ha_addr: Option<String>) {
        let ha_addr = match ha_addr {
            Some(ha_addr) => Some(ha_addr),
            None => match self.fetch.exchange_ha_info(addr, &HaInfo::default()).await {
                Ok(info) => info.ha_addr,
                Err(error) => {
                    tracing::warn!(addr, %error, "the master does not say where it is reached for replication");
                    None
                }
            },
        };
        slave.master_is_back(addr, ha_addr);
    }

    /// Asks who is alive, and notes it.
    async fn look(&self) {
        let group = match self.member_group().await {
            Ok(group) => group,
            Err(error) => return tracing::debug!(%error, "no name server says who is alive"),
        };
        let Some((id, addr)) = group.first_key_value() else { return };
        let alive = group.len() + usize::from(!group.contains_key(&self.parts.identity.id));
        self.parts.ha.set_alive(i32::try_from(alive).unwrap_or(i32::MAX));
        if self.parts.link.is_isolated() {
            return;
        }
        let change = LeastChanged { id: *id, addr: Some(addr.clone()), ..LeastChanged::default() };
        self.least_changed(change).await;
    }

    /// Addresses of the group's brokers by id, as a name server knows them.
    async fn member_group(&self) -> Result<BTreeMap<i64, String>, SyncError> {
        let who = &self.parts.identity;
        if self.parts.config.load().compatible_with_old_name_srv {
            let topic = format!("{}{}", names::SYNC_MEMBER_PREFIX, who.name);
            let request = Command::request(RequestCode::GET_ROUTEINFO_BY_TOPIC).field("topic", topic);
            let answer = self.parts.link.ask(&request).await?;
            if answer.code != ResponseCode::SUCCESS.0 {
                return Ok(BTreeMap::new());
            }
            let route: TopicRouteData = fastjson::from_slice::<Option<_>>(&answer.body)?.unwrap_or_default();
            let ours = route.broker_datas.into_iter().find(|broker| {
                broker.broker_name.as_ref() == Some(&who.name) && broker.cluster.as_ref() == Some(&who.cluster)
            });
            return Ok(ours.map(|broker| broker.broker_addrs).unwrap_or_default());
        }
        let header =
            GetBrokerMemberGroup { cluster_name: who.cluster.as_str().into(), broker_name: who.name.as_str().into() };
        let request = Command::request(RequestCode::GET_BROKER_MEMBER_GROUP).header(&header);
        let answer = self.parts.link.ask(&request).await?;
        if answer.code != ResponseCode::SUCCESS.0 {
            return Ok(BTreeMap::new());
        }
        let body: BrokerMemberGroupBody = fastjson::from_slice::<Option<_>>(&answer.body)?.unwrap_or_default();
        let BrokerMemberGroup { broker_addrs, .. } = body.broker_member_group;
        Ok(broker_addrs)
    }

    /// Tries to make contact; true: the broker serves.
    async fn make_contact(&self) -> bool {
        let mut others = match self.member_group().await {
            Ok(group) => group,
            Err(error) => {
                tracing::warn!(%error, "no name server says who is alive, trying again");
                return false;
            }
        };
        let who = &self.parts.identity;
        others.remove(&who.id);
        if who.id == 0 {
            for addr in others.values() {
                if !self.meet_slave(addr).await {
                    return false;
                }
            }
            self.serve(0, Some(&who.addr)).await;
            return true;
        }
        match others.first_key_value() {
            Some((0, addr)) if !self.meet_master(addr).await => return false,
            Some((id, addr)) => self.serve(*id, Some(addr)).await,
            None => self.serve(who.id, Some(&who.addr)).await,
        }
        true
    }

    /// As a master: tells a slave where we are, waits until it copies from us, and takes over how far it has come.
    async fn meet_slave(&self, addr: &str) -> bool {
        let who = &self.parts.identity;
        let ours = HaInfo {
            ha_addr: Some(who.ha_addr.clone()),
            flush_offset: i64::try_from(self.parts.store.log_range().end).ok(),
            addr: Some(who.addr.clone()),
        };
        if let Err(error) = self.fetch.exchange_ha_info(addr, &ours).await {
            tracing::warn!(slave = addr, %error, "cannot tell a slave where we are, trying again");
            return false;
        }
        let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
        let connected = || {
            let state = self.parts.ha.state();
            state.ha_connection_info.iter().any(|slave| slave.addr.rsplit_once(':').is_some_and(|(of, _)| of == host))
        };
        if !wait_until(connected).await {
            tracing::warn!(slave = addr, "a slave does not copy from us, trying again");
            return false;
        }
        if let Err(error) = self.take_over_from(addr).await {
            tracing::warn!(slave = addr, %error, "a slave does not say how far it has come, trying again");
            return false;
        }
        true
    }

    /// What a slave has done while it stood in: where its tables are not older than ours, they are taken over.
    async fn take_over_from(&self, addr: &str) -> Result<(), SyncError> {
        let parts = &self.parts;
        let newer = |ours: DataVersion, theirs| ours.compare(&theirs).is_le();
        let delays = self.fetch.delay_offsets(addr).await?;
        let offsets = self.fetch.offsets(addr).await?;
        if newer(parts.offsets.data_version(), offsets.data_version) {
            parts.offsets.take_over(offsets)?;
        }
        if newer(parts.schedule.data_version(), delays.data_version) {
            crate::config_file::off_worker(|| parts.schedule.take_over(&delays));
        }
        if let Some(timer) = &parts.timer {
            match self.fetch.timer_marks(addr).await {
                Ok(marks) => {
                    let [state_version, timestamp, counter] = marks.version;
                    if newer(timer.version(), DataVersion { counter, state_version, timestamp }) {
                        timer.follow(&marks, None);
                    }
                }
                // It has no timer (`timerWheelEnable=false`): nothing was delivered there.
                Err(SyncError::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// As a slave: asks the master where to copy from, and waits until we do.
    async fn meet_master(&self, addr: &str) -> bool {
        let info = match self.fetch.exchange_ha_info(addr, &HaInfo::default()).await {
            Ok(info) => info,
            Err(error) => {
                tracing::warn!(master = addr, %error, "the master does not say where it is, trying again");
                return false;
            }
        };
        let known = info.ha_addr.is_some();
        if let Some(slave) = &self.parts.slave {
            slave.master_is_back(addr, info.ha_addr);
        }
        if !known {
            return true;
        }
        let connected = || self.parts.ha.state().ha_client_runtime_info.last_read_timestamp > 0;
        let met = wait_until(connected).await;
        if !met {
            tracing::warn!(master = addr, "the master's log cannot be copied, trying again");
        }
        met
    }

    /// Serves: with the duties when nobody has a smaller id, known to the name servers.
    async fn serve(&self, least: i64, addr: Option<&str>) {
        tracing::info!(least, ?addr, "the broker has made contact with its group");
        self.parts.members.set_least(least);
        self.set_duties(least == self.parts.identity.id).await;
        self.parts.link.serve().await;
    }

    async fn set_duties(&self, on: bool) {
        let duties = self.parts.duties.clone();
        match tokio::task::spawn_blocking(move || duties.set(on)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "cannot take on what only one broker of a group does"),
            Err(error) => tracing::error!(%error, "the duties were not changed"),
        }
    }
}

async fn wait_until(condition: impl Fn() -> bool) -> bool {
    let limit = Instant::now() + HANDSHAKE;
    while !condition() {
        if Instant::now() > limit {
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
    true
}
