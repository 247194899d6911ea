//! The parts of one broker, put together. Only this file and the list of handlers see all of them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::{BrokerConfig, BrokerRole, BrokerSetup, Live, LiveFile, MessageStoreConfig, MetricsExporterType};
use remoting::SerializeType;
use remoting::body::topic::DataVersion;
use remoting::server::Router;
use store::{Store, StoreOptions};

use crate::arrivals::Arrivals;
use crate::attributes;
use crate::clients::Clients;
use crate::cold::ColdControl;
use crate::duties::Duties;
use crate::filter::ConsumerFilters;
use crate::groups::Groups;
use crate::ha::{Ha, HaParts};
use crate::handlers;
use crate::identity::Identity;
use crate::lifecycle::StartError;
use crate::names;
use crate::namesrv_link::NamesrvLink;
use crate::offsets::Offsets;
use crate::pull::{Puller, PullerParts};
use crate::request_modes::RequestModes;
use crate::schedule::{DelayLevels, Schedule, ScheduleParts};
use crate::send::{self, Sender, SenderParts};
use crate::slave::{Escape, Members, MetadataSync, Slave, Succession, SuccessionParts, SyncParts};
use crate::static_topics::{Cleaner, LogicalOffsets, Peers, StaticTopics};
use crate::stats::Stats;
use crate::timer::{Timer, TimerParts};
use crate::topics::TopicTable;
use crate::transaction::{CheckService, Checker, CheckerParts, Counts, Ending, EndingParts, Halves, OpLog, OpLogParts};

/// What handlers and services are made of. A handler takes the few that it uses.
pub struct Parts {
    /// Names and addresses.
    pub identity: Arc<Identity>,
    /// The broker's keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// The store's keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// All keys and the file that they came from.
    pub settings: Arc<LiveFile>,
    /// The version of the settings at the start.
    pub settings_version: DataVersion,
    /// Messages.
    pub store: Arc<Store>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Which topics are static.
    pub static_topics: Arc<StaticTopics>,
    /// Offsets of their queues.
    pub logical: Arc<LogicalOffsets>,
    /// Forgets what these do not need any more.
    pub static_cleaner: Arc<Cleaner>,
    /// Consumer groups.
    pub groups: Arc<Groups>,
    /// Consumers' offsets.
    pub offsets: Arc<Offsets>,
    /// Consumers' expressions.
    pub filters: Arc<ConsumerFilters>,
    /// Who is connected.
    pub clients: Clients,
    /// Counters.
    pub stats: Arc<Stats>,
    /// How groups take messages.
    pub request_modes: Arc<RequestModes>,
    /// Limits of cold reads.
    pub cold: Arc<ColdControl>,
    /// Name servers.
    pub link: Arc<NamesrvLink>,
    /// Takes messages.
    pub sender: Arc<Sender>,
    /// Hands out messages.
    pub puller: Arc<Puller>,
    /// Delivers delayed messages.
    pub schedule: Arc<Schedule>,
    /// Delivers messages for an arbitrary time; `None` with `timerWheelEnable=false`.
    pub timer: Option<Arc<Timer>>,
    /// Ends transactions.
    pub ending: Arc<Ending>,
    /// Notes their ends.
    pub ops: Arc<OpLog>,
    /// Counts open ones.
    pub transactions: Arc<Counts>,
    /// Asks for their ends.
    pub checks: Arc<CheckService>,
    /// Replication of the log.
    pub ha: Arc<Ha>,
    /// What only one broker of a group does.
    pub duties: Arc<Duties>,
    /// The brokers of the group.
    pub members: Arc<Members>,
    /// What makes a slave; `None` on a master.
    pub slave: Option<Arc<Slave>>,
    /// Who of the group serves when the master comes and goes.
    pub succession: Arc<Succession>,
}

impl Parts {
    /// Loads the tables, opens the store, and puts everything together. Nothing runs yet but the store.
    ///
    /// `listen` is where clients connect; the ports in it and `ha_port` are the real ones.
    ///
    /// # Errors
    /// Damaged files, a store that cannot be opened, delay levels that cannot be read.
    pub fn assemble(setup: BrokerSetup, listen: SocketAddr, ha_port: u16) -> Result<Parts, StartError> {
        let serialize = SerializeType::from_env()?;
        let identity = Arc::new(Identity::new(&setup.broker, listen.port(), ha_port, serialize));
        let dir = Path::new(&setup.store.store_path_root_dir).join("config");
        let levels = Arc::new(DelayLevels::parse(&setup.store.message_delay_level)?);
        let config = Arc::new(Live::new(setup.broker));
        let store_config = Arc::new(Live::new(setup.store));
        let settings = LiveFile::new(setup.file, setup.properties)
            .with(config.clone())
            .with(Arc::new(Live::new(setup.netty_server)))
            .with(Arc::new(Live::new(setup.netty_client)))
            .with(store_config.clone());

        let stats = Arc::new(Stats::new(&identity.cluster, config.load().enable_detail_stat));
        let topics = Arc::new(TopicTable::load(&dir, config.clone(), &store_config.load())?);
        let light = store_config.load().enable_lmq;
        let groups = Arc::new(Groups::load(&dir, config.clone())?.with_light(light));
        let offsets = Arc::new(match light {
            true => Offsets::load_light(&dir, config.clone())?,
            false => Offsets::load(&dir, config.clone())?,
        });
        let filters = Arc::new(ConsumerFilters::load(&dir, config.clone())?);
        let clients = Clients::new(config.clone(), filters.clone());
        let static_topics = Arc::new(StaticTopics::load(&dir)?);
        let link = Arc::new(NamesrvLink::new(identity.clone(), config.clone(), topics.clone(), static_topics.clone()));
        let peers = Arc::new(Peers::new(&identity, config.clone(), link.clone()));
        let told = Arc::downgrade(&link);
        topics.set_listener(Box::new(move |changed| {
            if let Some(link) = told.upgrade() {
                link.topics_changed(changed);
            }
        }));

        let arrivals = Arc::new(Arrivals::default());
        let woken = arrivals.clone();
        let bits = filters.clone();
        let store = Store::open(StoreOptions {
            config: store_config.clone(),
            store_host: identity.store_host,
            arrived: Some(Arc::new(move |arrival| woken.arrived(arrival))),
            filter_bits: Some(Arc::new(move |record| bits.bits(record))),
        })?;
        let known = topics.clone();
        let strange = Arc::new(AtomicBool::new(false));
        let met = strange.clone();
        store.tell_batch_topics(move |topic| match known.get(topic) {
            Some(topic) => send::is_batch(&topic),
            None => {
                met.store(true, Ordering::Relaxed);
                false
            }
        });
        for topic in topics.snapshot() {
            store.set_topic_policy(&topic.topic_name, attributes::policy(&topic.attributes))?;
            // A slave that became the master before it knew may have others.
            if send::is_batch(&topic) {
                store.set_queue_kind(&topic.topic_name, true)?;
            }
        }
        let obeying = Arc::downgrade(&store);
        topics.set_settings_listener(Box::new(move |topic| {
            let Some(store) = obeying.upgrade() else { return };
            if let Err(error) = store.set_topic_policy(&topic.topic_name, attributes::policy(&topic.attributes)) {
                tracing::error!(topic = topic.topic_name, %error, "the store cannot follow the topic's attributes");
            }
        }));
        let ha = Arc::new(Ha::new(HaParts { store_config: store_config.clone(), store: store.clone() }));
        let (fed, connected) = (Arc::downgrade(&ha), ha.connected());
        store.on_growth(move || {
            if connected.load(Ordering::Relaxed) > 0
                && let Some(ha) = fed.upgrade()
            {
                ha.push();
            }
        });
        let transactions = Arc::new(Counts::load(&dir)?);
        store.set_read_ahead(store_config.load().data_read_ahead_enable);
        let advised = Arc::downgrade(&store);
        store_config.on_change(move |old, new| {
            if old.data_read_ahead_enable != new.data_read_ahead_enable
                && let Some(store) = advised.upgrade()
            {
                store.set_read_ahead(new.data_read_ahead_enable);
            }
        });
        let stands_in = store_config.load().broker_role == BrokerRole::Slave;
        let escape = stands_in.then(|| Arc::new(Escape::new(identity.clone(), config.clone(), link.clone())));
        let exported = config.load().metrics_exporter_type == MetricsExporterType::Prometheus;
        let timer = match store_config.load().timer_wheel_enable {
            true => Some(Arc::new(Timer::load(
                &dir,
                TimerParts {
                    store_config: store_config.clone(),
                    topics: topics.clone(),
                    store: store.clone(),
                    stats: stats.clone(),
                    exported: exported.then(|| identity.clone()),
                    escape: escape.clone(),
                },
            )?)),
            false => None,
        };
        let sender = Arc::new(Sender::new(SenderParts {
            config: config.clone(),
            store_config: store_config.clone(),
            topics: topics.clone(),
            static_topics: static_topics.clone(),
            groups: groups.clone(),
            locks: clients.locks.clone(),
            store: store.clone(),
            stats: stats.clone(),
            identity: identity.clone(),
            levels: levels.clone(),
            transactions: transactions.clone(),
            timer: timer.clone(),
            ha: ha.clone(),
        }));
        let cold = Arc::new(ColdControl::new(config.clone(), store_config.clone()));
        let members = Arc::new(Members::new(&identity));
        let puller = Arc::new(Puller::new(PullerParts {
            config: config.clone(),
            topics: topics.clone(),
            groups: groups.clone(),
            offsets: offsets.clone(),
            consumers: clients.consumers.clone(),
            filters: filters.clone(),
            store: store.clone(),
            cold: cold.clone(),
            static_topics: static_topics.clone(),
            peers: peers.clone(),
            stats: stats.clone(),
            store_config: store_config.clone(),
            members: members.clone(),
        }));
        let schedule = Arc::new(Schedule::load(
            &dir,
            ScheduleParts {
                store_config: store_config.clone(),
                topics: topics.clone(),
                store: store.clone(),
                stats: stats.clone(),
                levels,
                escape: escape.clone(),
            },
        )?);
        arrivals.set(&puller, &schedule, timer.as_ref());
        let half_queue = store.queue_or_create(names::HALF_TOPIC, 0);
        let halves = Arc::new(Halves::new(store.clone(), Checker::position(&offsets, &half_queue)));
        let ops = Arc::new(OpLog::new(OpLogParts {
            config: config.clone(),
            topics: topics.clone(),
            store: store.clone(),
            stats: stats.clone(),
            identity: identity.clone(),
        }));
        let ending = Arc::new(Ending::new(EndingParts {
            config: config.clone(),
            store_config: store_config.clone(),
            store: store.clone(),
            sender: sender.clone(),
            identity: identity.clone(),
            halves: halves.clone(),
            ops: ops.clone(),
            counts: transactions.clone(),
            timed: exported && config.load().enable_transaction_metrics,
        }));
        let checks = Arc::new(CheckService::new(CheckerParts {
            config: config.clone(),
            store_config: store_config.clone(),
            topics: topics.clone(),
            offsets: offsets.clone(),
            producers: clients.producers.clone(),
            store: store.clone(),
            stats: stats.clone(),
            identity: identity.clone(),
            halves,
            ops: ops.clone(),
            counts: transactions.clone(),
            escape,
        }));
        let duties = Arc::new(Duties::new(schedule.clone(), timer.clone(), checks.clone()));
        let request_modes = Arc::new(RequestModes::load(&dir)?);
        let slave = (store_config.load().broker_role == BrokerRole::Slave).then(|| {
            let sync = MetadataSync::new(SyncParts {
                identity: identity.clone(),
                store_config: store_config.clone(),
                store: store.clone(),
                topics: topics.clone(),
                static_topics: static_topics.clone(),
                strange,
                groups: groups.clone(),
                offsets: offsets.clone(),
                request_modes: request_modes.clone(),
                schedule: schedule.clone(),
                timer: timer.clone(),
                ha: ha.clone(),
            });
            Arc::new(Slave::new(Arc::new(sync), ha.clone()))
        });
        if let Some(slave) = &slave {
            let told = Arc::downgrade(slave);
            link.set_registered(Box::new(move |master| {
                if let Some(slave) = told.upgrade() {
                    slave.registered(master);
                }
            }));
        }
        let succession = Arc::new(Succession::new(SuccessionParts {
            identity: identity.clone(),
            config: config.clone(),
            store_config: store_config.clone(),
            store: store.clone(),
            members: members.clone(),
            duties: duties.clone(),
            link: link.clone(),
            puller: puller.clone(),
            ha: ha.clone(),
            slave: slave.clone(),
            offsets: offsets.clone(),
            schedule: schedule.clone(),
            timer: timer.clone(),
        }));
        let logical = Arc::new(LogicalOffsets {
            topics: static_topics.clone(),
            peers: peers.clone(),
            store: store.clone(),
            offsets: offsets.clone(),
        });
        let static_cleaner = Arc::new(Cleaner {
            topics: static_topics.clone(),
            peers,
            store: store.clone(),
            config: store_config.clone(),
        });
        Ok(Parts {
            identity,
            config,
            store_config,
            settings: Arc::new(settings),
            settings_version: DataVersion::new(),
            store,
            topics,
            static_topics,
            logical,
            static_cleaner,
            groups,
            offsets,
            filters,
            clients,
            stats,
            request_modes,
            cold,
            link,
            sender,
            puller,
            schedule,
            timer,
            ending,
            ops,
            transactions,
            checks,
            ha,
            duties,
            members,
            slave,
            succession,
        })
    }

    /// All handlers with what surrounds them: the store's dispatch after each read batch, and clients that go.
    pub fn router(&self) -> Router {
        let mut router = handlers::router(self);
        let store = self.store.clone();
        router.set_batch_end(move || {
            send::flush_counts();
            store.dispatch();
        });
        let stats = self.stats.clone();
        router.set_opened(move |_| stats.connects.add([1]));
        let (clients, stats) = (self.clients.clone(), self.stats.clone());
        router.set_closed(move |conn| {
            stats.closes.add([1]);
            clients.closed(conn);
        });
        router
    }
}
