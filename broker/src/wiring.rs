//! The parts of one broker, put together. Only this file and the list of handlers see all of them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use config::{BrokerConfig, BrokerSetup, Live, LiveFile, MessageStoreConfig};
use remoting::SerializeType;
use remoting::body::topic::DataVersion;
use remoting::server::Router;
use store::{Store, StoreOptions};

use crate::arrivals::Arrivals;
use crate::clients::Clients;
use crate::groups::Groups;
use crate::handlers;
use crate::identity::Identity;
use crate::lifecycle::StartError;
use crate::namesrv_link::NamesrvLink;
use crate::offsets::Offsets;
use crate::pull::{Puller, PullerParts};
use crate::schedule::{DelayLevels, Schedule, ScheduleParts};
use crate::send::{Sender, SenderParts};
use crate::stats::Stats;
use crate::topics::TopicTable;

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
    /// Consumer groups.
    pub groups: Arc<Groups>,
    /// Consumers' offsets.
    pub offsets: Arc<Offsets>,
    /// Who is connected.
    pub clients: Clients,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Name servers.
    pub link: Arc<NamesrvLink>,
    /// Takes messages.
    pub sender: Arc<Sender>,
    /// Hands out messages.
    pub puller: Arc<Puller>,
    /// Delivers delayed messages.
    pub schedule: Arc<Schedule>,
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

        let stats = Arc::new(Stats::default());
        let topics = Arc::new(TopicTable::load(&dir, config.clone(), &store_config.load())?);
        let groups = Arc::new(Groups::load(&dir, config.clone())?);
        let offsets = Arc::new(Offsets::load(&dir, config.clone())?);
        let clients = Clients::new(config.clone());
        let link = Arc::new(NamesrvLink::new(identity.clone(), config.clone(), topics.clone()));
        let told = Arc::downgrade(&link);
        topics.set_listener(Box::new(move |changed| {
            if let Some(link) = told.upgrade() {
                link.topics_changed(changed);
            }
        }));

        let arrivals = Arc::new(Arrivals::default());
        let woken = arrivals.clone();
        let store = Store::open(StoreOptions {
            config: store_config.clone(),
            store_host: identity.store_host,
            arrived: Some(Arc::new(move |arrival| woken.arrived(arrival))),
        })?;
        let sender = Arc::new(Sender::new(SenderParts {
            config: config.clone(),
            store_config: store_config.clone(),
            topics: topics.clone(),
            groups: groups.clone(),
            locks: clients.locks.clone(),
            store: store.clone(),
            stats: stats.clone(),
            identity: identity.clone(),
            levels: levels.clone(),
        }));
        let puller = Arc::new(Puller::new(PullerParts {
            config: config.clone(),
            topics: topics.clone(),
            groups: groups.clone(),
            offsets: offsets.clone(),
            consumers: clients.consumers.clone(),
            store: store.clone(),
            stats: stats.clone(),
        }));
        let schedule = Arc::new(Schedule::load(
            &dir,
            ScheduleParts {
                store_config: store_config.clone(),
                topics: topics.clone(),
                store: store.clone(),
                stats: stats.clone(),
                levels,
            },
        )?);
        arrivals.set(&puller, &schedule);
        Ok(Parts {
            identity,
            config,
            store_config,
            settings: Arc::new(settings),
            settings_version: DataVersion::new(),
            store,
            topics,
            groups,
            offsets,
            clients,
            stats,
            link,
            sender,
            puller,
            schedule,
        })
    }

    /// All handlers with what surrounds them: the store's dispatch after each read batch, and clients that go.
    pub fn router(&self) -> Router {
        let mut router = handlers::router(self);
        let store = self.store.clone();
        router.set_batch_end(move || store.dispatch());
        let clients = self.clients.clone();
        router.set_closed(move |conn| clients.closed(conn));
        router
    }
}
