//! Forgets items that hold no messages any more, and queues that have moved on twice: each at an hour at which files are
//! deleted (`deleteWhen`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{Local, Timelike};
use config::{Live, MessageStoreConfig};
use remoting::body::fastjson::{self, ObjectKey};
use remoting::body::message_queue::MessageQueue;
use remoting::body::topic_queue_mapping::{LogicQueueMappingItem as Item, RemoteTopicMapping, TopicQueueMappingDetail};
use remoting::body::topic_stats::{TopicOffset, TopicStatsTable};
use remoting::{Command, RequestCode};
use store::Store;
use store::disk::is_hour_to_delete;
use tokio_util::sync::CancellationToken;

use super::mapping::Mapping;
use super::{Peers, StaticTopics, leaders};

/// How often it is looked whether the hour has come.
const PERIOD: Duration = Duration::from_secs(5 * 60);

/// Cleans the table of static topics.
pub struct Cleaner {
    /// The table.
    pub topics: Arc<StaticTopics>,
    /// The other brokers.
    pub peers: Arc<Peers>,
    /// Our own queues.
    pub store: Arc<Store>,
    /// When to clean.
    pub config: Arc<Live<MessageStoreConfig>>,
}

impl Cleaner {
    /// Cleans at the hours for it, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
            let due = is_hour_to_delete(&self.config.load().delete_when, Local::now().hour());
            if due {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.clean() => {}
                }
            }
        }
    }

    /// Looks at every static topic.
    pub async fn clean(&self) {
        for mapping in self.topics.snapshot().0.into_values() {
            self.drop_empty_items(&mapping).await;
        }
        for mapping in self.topics.snapshot().0.into_values() {
            self.drop_moved_queues(&mapping).await;
        }
    }

    /// Drops the first items of the queues that we lead when nothing is left in them.
    async fn drop_empty_items(&self, mapping: &Arc<Mapping>) {
        let led = mapping.detail().hosted_queues.iter().filter(|(_, items)| items.len() > 1 && mapping.leads(items));
        let firsts: BTreeMap<i32, &Item> = led.filter_map(|(id, items)| Some((*id, items.first()?))).collect();
        let brokers: BTreeSet<&str> = firsts.values().filter_map(|first| first.bname.as_deref()).collect();
        let mut tables = BTreeMap::new();
        for broker in brokers.into_iter().filter(|broker| *broker != mapping.broker()) {
            if let Some(table) = self.stats(mapping.topic(), broker).await {
                tables.insert(broker, table);
            }
        }
        let is_empty = |first: &Item| {
            let Some(broker) = first.bname.as_deref() else { return false };
            let offsets = if broker == mapping.broker() {
                self.store.queue(mapping.topic(), first.queue_id).map_or_else(TopicOffset::default, |queue| {
                    TopicOffset {
                        max_offset: queue.max_offset(),
                        min_offset: queue.min_offset(),
                        ..TopicOffset::default()
                    }
                })
            } else {
                let key = ObjectKey(MessageQueue::new(mapping.topic(), broker, first.queue_id));
                // A broker that gave no answer may have everything yet.
                match tables.get(broker).and_then(|table: &TopicStatsTable| table.offset_table.get(&key)) {
                    Some(offsets) => offsets.clone(),
                    None => return false,
                }
            };
            offsets.max_offset == offsets.min_offset || offsets.max_offset == 0
        };
        let empty: Vec<i32> = firsts.into_iter().filter(|(_, first)| is_empty(first)).map(|(id, _)| id).collect();
        if empty.is_empty() {
            return;
        }
        let mut detail = mapping.detail().clone();
        for id in &empty {
            if let Some(items) = detail.hosted_queues.get_mut(id) {
                items.remove(0);
            }
        }
        if self.topics.replace(mapping, detail) {
            tracing::info!(topic = mapping.topic(), queues = ?empty, "dropped the first items, which are empty");
        }
    }

    async fn stats(&self, topic: &str, broker: &str) -> Option<TopicStatsTable> {
        let command = Command::request(RequestCode::GET_TOPIC_STATS_INFO)
            .field("lo", false)
            .field("bname", broker)
            .field("topic", topic);
        match self.peers.ask(broker, command).await {
            Ok(answer) => fastjson::from_slice(&answer.body).ok(),
            Err(error) => {
                tracing::warn!(topic, broker, %error, "cannot ask for the offsets of a static topic");
                None
            }
        }
    }

    /// Drops the queues that we have handed to a broker which has handed them on: nobody asks us for them any more.
    async fn drop_moved_queues(&self, mapping: &Arc<Mapping>) {
        let handed = |(id, items): (&i32, &Vec<Item>)| {
            let leader = items.last().filter(|leader| !mapping.is_ours(leader))?.bname.clone()?;
            Some((*id, leader))
        };
        let handed: BTreeMap<i32, String> = mapping.detail().hosted_queues.iter().filter_map(handed).collect();
        if handed.is_empty() {
            return;
        }
        let Some(infos) = self.peers.route(mapping.topic()).await.and_then(|route| route.topic_queue_mapping_by_broker)
        else {
            return;
        };
        let leaders = leaders::of_route(infos.values(), mapping.detail().scope.as_deref());
        let mut remotes: BTreeMap<&str, TopicQueueMappingDetail> = BTreeMap::new();
        let asked: BTreeSet<&str> = handed.keys().filter_map(|id| leaders.get(id).copied()).collect();
        for broker in asked {
            if let Some(remote) = self.mapping_of(mapping.topic(), broker).await {
                remotes.insert(broker, remote);
            }
        }
        let moved = |id: &i32, first_heir: &str| {
            let leader = leaders.get(id).filter(|leader| **leader != first_heir)?;
            let remote = remotes.get(leader)?;
            let same = remote.total_queues == mapping.detail().total_queues && remote.epoch == mapping.detail().epoch;
            let last = remote.hosted_queues.get(id)?.last()?;
            (same && last.bname.as_deref() == Some(leader)).then_some(*id)
        };
        let moved: Vec<i32> = handed.iter().filter_map(|(id, heir)| moved(id, heir)).collect();
        if moved.is_empty() {
            return;
        }
        let mut detail = mapping.detail().clone();
        detail.hosted_queues.retain(|id, _| !moved.contains(id));
        if self.topics.replace(mapping, detail) {
            tracing::info!(topic = mapping.topic(), queues = ?moved, "dropped queues that have moved on");
        }
    }

    async fn mapping_of(&self, topic: &str, broker: &str) -> Option<TopicQueueMappingDetail> {
        let command = Command::request(RequestCode::GET_TOPIC_CONFIG)
            .field("lo", true)
            .field("bname", broker)
            .field("topic", topic);
        match self.peers.ask(broker, command).await {
            Ok(answer) => {
                let remote: RemoteTopicMapping = fastjson::from_slice(&answer.body).ok()?;
                remote.mapping_detail.filter(|detail| detail.bname.as_deref() == Some(broker))
            }
            Err(error) => {
                tracing::warn!(topic, broker, %error, "cannot ask for the mapping of a static topic");
                None
            }
        }
    }
}
