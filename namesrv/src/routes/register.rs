//! A broker's registration.

use std::collections::HashSet;
use std::sync::Arc;

use remoting::body::data_version::DataVersion;
use remoting::body::register::RegisterBrokerBody;
use remoting::body::route::QueueData;
use remoting::body::topic::{PERM_WRITE, TopicConfig};

use super::brokers::{Broker, Brokers, Instance, MASTER_ID};
use super::live::{Claim, DEFAULT_TIMEOUT_MILLIS, Link, LiveBroker, Print};
use super::{Members, MinIdChange, Routes};

/// The header of a registration.
#[derive(Clone)]
pub struct Registration<'a> {
    /// Cluster.
    pub cluster: &'a str,
    /// Address that clients connect to.
    pub addr: &'a str,
    /// Broker name.
    pub name: &'a str,
    /// Broker id; 0 is the master.
    pub id: i64,
    /// Where slaves fetch the log.
    pub ha_addr: &'a str,
    /// Zone.
    pub zone: Option<&'a str>,
    /// How long the broker may be silent, milliseconds; 120 s when it does not say.
    pub timeout_millis: Option<i64>,
    /// Whether a slave may act for a lost master; `None` from brokers that do not know of it (before 5.0.0).
    pub acting_master: Option<bool>,
    /// The connection.
    pub link: Link,
}

/// What a registered broker is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// Where the master serves slaves; for slaves only.
    pub ha_addr: Option<String>,
    /// The master's address; for slaves only.
    pub master_addr: Option<String>,
}

/// A registration that must not count: the first of an instance, but with a single topic, so that the other topics would be
/// without a route until the next full one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl Registration<'_> {
    fn instance(&self) -> Instance {
        Instance::new(self.cluster, self.addr)
    }

    /// Whether this registration's topics count: those of a master, or of the slave that stands in for it.
    fn brings_topics(&self, broker: &Broker) -> bool {
        self.id == MASTER_ID || (self.acting_master.is_some() && broker.min_id() == Some(self.id))
    }
}

impl Routes {
    /// Takes a registration whose body was seen before and under whose version nothing can have changed: no lock, no
    /// parsing. `None` when it has to be looked at by [`Routes::register`].
    pub fn refresh(&self, registration: &Registration<'_>, version: &DataVersion, print: Print) -> Option<Registered> {
        self.refresh_if(registration, version, |live, topics| live.has_seen(print, topics))
    }

    /// [`Routes::refresh`] by what the broker claims of its body, so that the body is not gone through at all.
    pub fn refresh_claimed(
        &self,
        registration: &Registration<'_>,
        version: &DataVersion,
        claim: &Claim<'_>,
    ) -> Option<Registered> {
        self.refresh_if(registration, version, |live, topics| live.has_seen_claim(claim, topics))
    }

    fn refresh_if(
        &self,
        registration: &Registration<'_>,
        version: &DataVersion,
        has_seen: impl FnOnce(&LiveBroker, bool) -> bool,
    ) -> Option<Registered> {
        let brokers = self.brokers.load();
        let broker = brokers.by_name.get(registration.name)?;
        let mut ids = broker.addrs.iter().filter(|(_, addr)| *addr == registration.addr).map(|(id, _)| *id);
        let known = (ids.next(), ids.next()) == (Some(registration.id), None)
            && broker.acting_master == registration.acting_master.unwrap_or(false)
            && broker.zone.as_deref() == registration.zone
            && brokers.clusters.get(registration.cluster).is_some_and(|names| names.contains(registration.name));
        if !known {
            return None;
        }
        let live = self.live.find(&registration.instance())?;
        let same = live.version == *version
            && live.link.id() == registration.link.id()
            && live.ha_addr == registration.ha_addr
            && live.timeout_millis == registration.timeout_millis.unwrap_or(DEFAULT_TIMEOUT_MILLIS)
            && has_seen(&live, registration.brings_topics(broker));
        (same && self.live.touch(&live)).then(|| self.registered(registration, &brokers))
    }

    /// Takes a registration into the tables.
    ///
    /// `delete_missing`: topics of the broker that the body does not name are removed
    /// (`deleteTopicWithBrokerRegistration`). `notify`: members are told of a new least id (`notifyMinBrokerIdChanged`).
    ///
    /// # Errors
    /// A first registration with a single topic.
    pub fn register(
        &self,
        registration: &Registration<'_>,
        body: RegisterBrokerBody,
        print: Print,
        delete_missing: bool,
        notify: bool,
    ) -> Result<Registered, Refused> {
        let mut members = self.writer.lock();
        let mut brokers = self.brokers.load().edit();
        let wrapper = &body.topic_config_serialize_wrapper;
        let instance = registration.instance();
        brokers.clusters.entry(registration.cluster.to_owned()).or_default().insert(registration.name.to_owned());
        let mut first = !brokers.by_name.contains_key(registration.name);
        let broker = Arc::make_mut(
            brokers
                .by_name
                .entry(registration.name.to_owned())
                .or_insert_with(|| Arc::new(Broker { cluster: registration.cluster.to_owned(), ..Broker::default() })),
        );
        broker.acting_master = registration.acting_master.unwrap_or(false);
        broker.zone = registration.zone.map(str::to_owned);
        let new_least = broker.min_id().is_some_and(|least| registration.id < least);

        // An instance that changes its role keeps its address: it is there once only.
        broker.addrs.retain(|id, addr| addr != registration.addr || *id == registration.id);
        let holder = broker.addrs.get(&registration.id);
        if let Some(holder) = holder.filter(|holder| *holder != registration.addr) {
            let held = self.live.find(&Instance::new(registration.cluster, holder));
            if held.is_some_and(|held| held.version.state_version > wrapper.data_version.state_version) {
                tracing::warn!(
                    broker = registration.name,
                    id = registration.id,
                    addr = registration.addr,
                    holder,
                    "registration of an older state version is ignored"
                );
                self.live.remove(&instance);
                self.publish(brokers);
                return Ok(Registered::default());
            }
        }
        if holder.is_none() && wrapper.topic_config_table.len() == 1 {
            tracing::warn!(
                broker = registration.name,
                id = registration.id,
                addr = registration.addr,
                "a single topic before the first full registration is refused"
            );
            self.publish(brokers);
            return Err(Refused);
        }
        let former_addr = broker.addrs.insert(registration.id, registration.addr.to_owned());
        first |= former_addr.is_none_or(|addr| addr.is_empty());
        let brings_topics = registration.brings_topics(broker);
        let read_only = registration.id != MASTER_ID && broker.acting_master;
        let addrs = broker.addrs.clone();
        if let Some(filters) = body.filter_server_list.clone() {
            if filters.is_empty() {
                brokers.filters.remove(&instance);
            } else {
                brokers.filters.insert(instance.clone(), filters);
            }
        }
        self.publish(brokers);

        let changed = self.live.find(&instance).is_none_or(|live| live.version != wrapper.data_version);
        let mut moved = false;
        if brings_topics {
            if delete_missing && wrapper.topic_queue_mapping_info_map.is_empty() {
                let names = wrapper.topic_config_table.values().map(|config| config.topic_name.as_str());
                moved |= self.drop_missing(&mut members, registration.name, &names.collect());
            }
            for config in wrapper.topic_config_table.values() {
                moved |= self.put_topic(&mut members, registration.name, config, read_only, first || changed);
            }
            if first || changed {
                self.put_mappings(&body);
            }
        }
        let timeout = registration.timeout_millis.unwrap_or(DEFAULT_TIMEOUT_MILLIS);
        let version = wrapper.data_version;
        let (live, former) =
            self.live.enter(instance.clone(), version, registration.ha_addr, timeout, registration.link.clone());
        match former {
            Some(former) if !changed && !moved => live.remember_all(&former),
            Some(_) => {}
            None => tracing::info!(
                broker = registration.name,
                id = registration.id,
                addr = registration.addr,
                topics = wrapper.topic_config_table.len(),
                "broker registered"
            ),
        }
        if moved {
            self.live.forget_all(Some(&instance));
        }
        live.remember(print, brings_topics);
        let registered = self.registered(registration, &self.brokers.load());
        if new_least && notify {
            let ha_addr = Some(registration.ha_addr.to_owned());
            (self.min_id_changed)(MinIdChange { addrs, offline_addr: None, ha_addr });
        }
        drop(members);
        if registration.link.is_closed() {
            self.connection_closed(registration.link.id(), notify);
        }
        Ok(registered)
    }

    /// What the broker is told.
    fn registered(&self, registration: &Registration<'_>, brokers: &Brokers) -> Registered {
        let master = brokers.by_name.get(registration.name).and_then(|broker| broker.addrs.get(&MASTER_ID));
        let Some(master) = master.filter(|_| registration.id != MASTER_ID) else { return Registered::default() };
        match self.live.find(&Instance::new(registration.cluster, master)) {
            Some(live) => Registered { ha_addr: Some(live.ha_addr.clone()), master_addr: Some(master.clone()) },
            None => Registered::default(),
        }
    }

    /// Enters one topic; `overwrite` also when the broker has it. True: the broker did not have it.
    fn put_topic(
        &self,
        members: &mut Members,
        broker: &str,
        config: &TopicConfig,
        read_only: bool,
        overwrite: bool,
    ) -> bool {
        let known = self.topics.find(&config.topic_name);
        let known = known.as_deref().and_then(|topic| topic.queue(broker));
        if known.is_some() && !overwrite {
            return false;
        }
        let queue = QueueData {
            broker_name: broker.to_owned(),
            perm: if read_only { config.perm & !PERM_WRITE } else { config.perm },
            read_queue_nums: config.read_queue_nums,
            topic_sys_flag: config.topic_sys_flag,
            write_queue_nums: config.write_queue_nums,
        };
        if known == Some(&queue) {
            return false;
        }
        let new = known.is_none();
        let topic = self.topics.put_queue(&config.topic_name, queue);
        members.add(broker, topic);
        new
    }

    /// Removes the broker's topics that are not in `names`. True: there were some.
    fn drop_missing(&self, members: &mut Members, broker: &str, names: &HashSet<&str>) -> bool {
        let missing: Vec<Arc<str>> = members.of(broker).filter(|topic| !names.contains(&***topic)).cloned().collect();
        for topic in &missing {
            self.topics.remove_queue(topic, broker);
            members.remove(broker, topic);
        }
        !missing.is_empty()
    }

    fn put_mappings(&self, body: &RegisterBrokerBody) {
        let infos = &body.topic_config_serialize_wrapper.topic_queue_mapping_info_map;
        if infos.is_empty() {
            return;
        }
        let mut mappings = self.mappings.write();
        for (topic, info) in infos {
            let mapping = Arc::make_mut(mappings.entry(topic.clone()).or_default());
            mapping.insert(info.bname.clone().unwrap_or_default(), info.clone());
        }
        drop(mappings);
        self.invalidate();
    }

    /// The version that an instance last registered, for QUERY_DATA_VERSION.
    pub fn version_of(&self, instance: &Instance) -> Option<DataVersion> {
        self.live.find(instance).map(|live| live.version)
    }

    /// Notes that an instance was heard of.
    pub fn heartbeat(&self, instance: &Instance) {
        if let Some(live) = self.live.find(instance) {
            self.live.touch(&live);
        }
    }
}
