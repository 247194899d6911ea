//! HEART_BEAT (34): a client says which groups it has producers and consumers of, and what they subscribe to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use config::{BrokerConfig, Live};
use parking_lot::Mutex;
use remoting::Reply;
use remoting::body::fastjson;
use remoting::body::heartbeat::{ConsumeType, ConsumerData, HeartbeatData};
use remoting::body::topic::{FLAG_UNIT_SUB, PERM_READ, PERM_WRITE};
use remoting::header;
use remoting::server::{Cx, Handler, Outcome};

use super::bad_body;
use crate::clients::{Client, Clients, Subscriptions};
use crate::groups::Groups;
use crate::names;
use crate::stats::{Counter, Stats, now_millis};
use crate::topics::TopicTable;

/// Keeps the tables of connected clients, and makes the groups and their retry topics.
pub struct Heartbeat {
    config: Arc<Live<BrokerConfig>>,
    clients: Clients,
    groups: Arc<Groups>,
    topics: Arc<TopicTable>,
    stats: Arc<Stats>,
    /// The last fingerprint of each group's subscriptions.
    fingerprints: Mutex<HashMap<String, i32>>,
}

impl Heartbeat {
    /// The handler.
    pub fn new(
        config: Arc<Live<BrokerConfig>>,
        clients: Clients,
        groups: Arc<Groups>,
        topics: Arc<TopicTable>,
        stats: Arc<Stats>,
    ) -> Heartbeat {
        Heartbeat { config, clients, groups, topics, stats, fingerprints: Mutex::default() }
    }

    /// Takes one group of the heartbeat; returns whether the client must send its subscriptions again.
    fn consumer(&self, client: &Client, data: &ConsumerData, fingerprint: i32, without_sub: bool) -> bool {
        let Some(group) = self.groups.find_or_create(&data.group_name) else { return false };
        let before = self.fingerprints.lock().insert(data.group_name.clone(), fingerprint);
        // A broker that has just started has no subscriptions which could have stayed the same.
        let unknown = without_sub && self.clients.consumers.subscription_count(&data.group_name) == 0;
        let changed = before.is_some_and(|before| before != fingerprint) || unknown;
        let ordered = data.subscription_data_set.iter().any(|data| self.topics.is_ordered(&data.topic));
        let flag = if data.unit_mode { FLAG_UNIT_SUB } else { 0 };
        let retry = names::retry_topic(&data.group_name);
        self.topics.create_for_send_back(&retry, group.retry_queue_nums, PERM_READ | PERM_WRITE, ordered, flag);
        let subscriptions = if without_sub { Subscriptions::Unchanged } else { Subscriptions::Given };
        let notify = group.notify_consumer_ids_changed_enable;
        self.clients.consumers.register(client, data, subscriptions, notify, now_millis());
        changed
    }
}

/// Counts a registration that began at `start`.
fn registered(counter: &Counter<2>, start: Instant) {
    counter.add([u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX), 1]);
}

impl Handler for Heartbeat {
    type Request<'a> = header::Heartbeat<'a>;

    fn handle(&self, cx: &mut Cx<'_>, _: Self::Request<'_>) -> Outcome {
        let heartbeat: HeartbeatData = match fastjson::from_slice(cx.body()) {
            Ok(heartbeat) => heartbeat,
            Err(error) => return bad_body(&error).into(),
        };
        let client = Client {
            conn: cx.conn().clone(),
            id: heartbeat.client_id.unwrap_or_default(),
            language: cx.request().language,
            version: cx.request().version,
        };
        let fingerprint = heartbeat.heartbeat_fingerprint;
        let without_sub = heartbeat.without_sub && fingerprint != 0;
        let reject_pull = self.config.load().reject_pull_consumer_enable;
        let mut changed = false;
        for data in &heartbeat.consumer_data_set {
            if reject_pull && data.consume_type == Some(ConsumeType::Actively) {
                continue;
            }
            let start = Instant::now();
            changed |= self.consumer(&client, data, fingerprint, without_sub);
            registered(&self.stats.consumer_registrations, start);
        }
        for data in &heartbeat.producer_data_set {
            let start = Instant::now();
            self.clients.producers.register(&data.group_name, &client, now_millis());
            registered(&self.stats.producer_registrations, start);
        }
        // A client of the first heartbeat version sends everything each time and is told that it must.
        Reply::ok().field("IS_SUPPORT_HEART_BEAT_V2", true).field("IS_SUB_CHANGE", fingerprint == 0 || changed).into()
    }
}
