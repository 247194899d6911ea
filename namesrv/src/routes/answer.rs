//! The route of a topic: made of the tables, encoded, cached.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use remoting::body::fastjson;
use remoting::body::route::{BrokerData, TopicRouteData};
use remoting::body::topic::PERM_WRITE;

use super::Routes;
use super::brokers::{Instance, MASTER_ID};
use super::topics::{AnswerKey, Answers, Topic};
use crate::kv::ORDER_TOPIC_CONFIG;

/// Topics of this prefix show the members of a broker name as they are, without an acting master.
const SYNC_MEMBER_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";

/// What of the configuration shapes a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteRules {
    /// `supportActingMaster`: the least slave of a broker without a master is shown as master.
    pub acting_master: bool,
    /// `orderMessageEnable`: the topic's order configuration is shown.
    pub order: bool,
}

impl Routes {
    /// The encoded route of a topic; `None` when there is none.
    ///
    /// `standard`: with quoted integer keys, else in fastjson's dialect.
    pub fn encoded_route(&self, topic: &str, rules: RouteRules, standard: bool) -> Option<Bytes> {
        let entry = self.topics.find(topic)?;
        let key = AnswerKey {
            epoch: self.epoch.load(Ordering::SeqCst),
            acting_master: rules.acting_master,
            order: rules.order,
        };
        let cached = entry.answers.load();
        let answers = match &*cached {
            Some(answers) if answers.key == key => answers.clone(),
            _ => {
                let answers = Answers { key, dialect: OnceLock::new(), standard: OnceLock::new() };
                let answers = Arc::new(answers);
                entry.answers.store(Some(answers.clone()));
                answers
            }
        };
        let cell = if standard { &answers.standard } else { &answers.dialect };
        cell.get_or_init(|| self.encode(&entry, topic, rules, standard)).clone()
    }

    /// The route of a topic; `None` when there is none.
    pub fn route(&self, topic: &str, rules: RouteRules) -> Option<TopicRouteData> {
        self.build(&*self.topics.find(topic)?, topic, rules)
    }

    fn encode(&self, entry: &Topic, topic: &str, rules: RouteRules, standard: bool) -> Option<Bytes> {
        let route = self.build(entry, topic, rules)?;
        let encoded = if standard { fastjson::to_vec_standard(&route) } else { fastjson::to_vec(&route) };
        encoded.inspect_err(|error| tracing::error!(topic, %error, "route")).ok().map(Bytes::from)
    }

    fn build(&self, entry: &Topic, topic: &str, rules: RouteRules) -> Option<TopicRouteData> {
        let brokers = self.brokers.load();
        let mut route = TopicRouteData { queue_datas: entry.queues.clone(), ..TopicRouteData::default() };
        for queue in &entry.queues {
            let Some(broker) = brokers.by_name.get(&queue.broker_name) else { continue };
            for addr in broker.addrs.values() {
                if let Some(filters) = brokers.filters.get(&Instance::new(&broker.cluster, addr)) {
                    route.filter_server_table.insert(addr.clone(), filters.clone());
                }
            }
            route.broker_datas.push(broker.data(&queue.broker_name));
        }
        if route.broker_datas.is_empty() {
            return None;
        }
        route.topic_queue_mapping_by_broker = self.mappings.read().get(topic).map(|mapping| (**mapping).clone());
        if rules.order {
            route.order_topic_conf = self.kv.get(ORDER_TOPIC_CONFIG, topic);
        }
        if rules.acting_master && !topic.starts_with(SYNC_MEMBER_PREFIX) {
            promote_slaves(&mut route);
        }
        Some(route)
    }
}

/// Shows the least slave as master where the master is gone, slaves may act, and the queues take no messages any more.
fn promote_slaves(route: &mut TopicRouteData) {
    let lacks_master = |broker: &BrokerData| {
        broker.enable_acting_master && !broker.broker_addrs.is_empty() && !broker.broker_addrs.contains_key(&MASTER_ID)
    };
    for broker in route.broker_datas.iter_mut().filter(|broker| lacks_master(broker)) {
        let queue = route.queue_datas.iter().find(|queue| Some(&queue.broker_name) == broker.broker_name.as_ref());
        if queue.is_some_and(|queue| queue.perm & PERM_WRITE == 0)
            && let Some((_, addr)) = broker.broker_addrs.pop_first()
        {
            broker.broker_addrs.insert(MASTER_ID, addr);
        }
    }
}
