//! GET_CONSUME_STATS (208): how far a group is.

use std::collections::BTreeSet;
use std::sync::Arc;

use remoting::body::consume_stats::{ConsumeStats, OffsetWrapper};
use remoting::body::fastjson::ObjectKey;
use remoting::body::message_queue::MessageQueue;
use remoting::header::GetConsumeStats;
use remoting::server::{Cx, Handler, Outcome};
use store::Store;

use crate::clients::Consumers;
use crate::handlers::json;
use crate::identity::Identity;
use crate::offsets::Offsets;
use crate::static_topics::StaticTopics;
use crate::stats::Stats;
use crate::topics::TopicTable;

/// Answers with broker and consumer offsets of the queues that a group consumes.
pub struct GroupStats {
    /// Names.
    pub identity: Arc<Identity>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Which of them are static.
    pub static_topics: Arc<StaticTopics>,
    /// Consumers' offsets.
    pub offsets: Arc<Offsets>,
    /// Connected consumers.
    pub consumers: Arc<Consumers>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Messages.
    pub store: Arc<Store>,
}

impl Handler for GroupStats {
    type Request<'a> = GetConsumeStats<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let group = request.consumer_group.as_ref();
        let mut stats = ConsumeStats::default();
        for topic in self.asked_for(&request) {
            let Some(topic) = self.topics.get(&topic) else { continue };
            let name = topic.topic_name.as_str();
            // Of a static topic the tool has to tell a queue without an offset from one that stands at 0: the offset of the
            // logical queue may be that of another item.
            let least = if self.static_topics.find(name, None).is_some() { -1 } else { 0 };
            for id in 0..topic.read_queue_nums {
                let queue = MessageQueue::new(name, &self.identity.name, id);
                stats.offset_table.insert(ObjectKey(queue), self.queue(group, name, id, least));
            }
            stats.consume_tps += self.stats.group_rate(group, name);
        }
        json(&stats).into()
    }
}

impl GroupStats {
    /// A list of topics counts as it is. Else it is one topic, or all that the group has offsets of; of these, a
    /// connected group is only asked for what it subscribes to.
    fn asked_for(&self, request: &GetConsumeStats<'_>) -> BTreeSet<String> {
        let list = request.topic_list.as_deref().unwrap_or_default();
        let list: BTreeSet<_> = list.split(';').filter(|topic| !topic.is_empty()).map(str::to_owned).collect();
        if !list.is_empty() {
            return list;
        }
        let group = request.consumer_group.as_ref();
        let topics = match request.topic.as_deref().filter(|topic| !topic.trim().is_empty()) {
            Some(topic) => vec![topic.to_owned()],
            None => self.offsets.topics_of(group),
        };
        let anything = self.consumers.subscription_count(group) == 0;
        topics.into_iter().filter(|topic| anything || self.consumers.subscription(group, topic).is_some()).collect()
    }

    fn queue(&self, group: &str, topic: &str, id: i32, least: i64) -> OffsetWrapper {
        let queue = self.store.queue(topic, id);
        let consumer_offset = self.offsets.query(group, topic, id).unwrap_or(-1).max(least);
        let pulled = self.offsets.query_pull(group, topic, id).unwrap_or(-1);
        let last = queue.as_ref().filter(|_| consumer_offset > 0);
        OffsetWrapper {
            broker_offset: queue.as_ref().map_or(0, |queue| queue.max_offset().max(0)),
            consumer_offset,
            last_timestamp: last.map_or(0, |queue| self.store.store_time(queue, consumer_offset - 1).max(0)),
            pull_offset: consumer_offset.max(pulled),
        }
    }
}
