//! GET_BROKER_CONSUME_STATS (317): how far all groups are.

use std::sync::Arc;

use remoting::body::consume_stats::{ConsumeStats, ConsumeStatsList, OffsetWrapper};
use remoting::body::fastjson::ObjectKey;
use remoting::body::message_queue::MessageQueue;
use remoting::header::GetConsumeStatsInBroker;
use remoting::server::{Cx, Handler, Outcome};
use store::Store;

use crate::clients::Consumers;
use crate::groups::Groups;
use crate::handlers::json;
use crate::identity::Identity;
use crate::offsets::Offsets;
use crate::stats::Stats;
use crate::topics::{Topic, TopicTable};

/// Answers with broker and consumer offsets of all queues that any group has offsets of.
pub struct BrokerConsumeStats {
    /// Names and the address.
    pub identity: Arc<Identity>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Groups.
    pub groups: Arc<Groups>,
    /// Consumers' offsets.
    pub offsets: Arc<Offsets>,
    /// Connected consumers.
    pub consumers: Arc<Consumers>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Messages.
    pub store: Arc<Store>,
}

impl Handler for BrokerConsumeStats {
    type Request<'a> = GetConsumeStatsInBroker;

    fn handle(&self, _: &mut Cx<'_>, request: GetConsumeStatsInBroker) -> Outcome {
        let mut list = ConsumeStatsList { broker_addr: self.identity.addr.clone(), ..Default::default() };
        for group in self.groups.names() {
            let subscribes = self.consumers.subscription_count(&group) > 0;
            let mut topics = Vec::new();
            for name in self.offsets.topics_of(&group) {
                let Some(topic) = self.topics.get(&name).filter(|topic| !request.is_order || topic.order) else {
                    continue;
                };
                if subscribes && self.consumers.subscription(&group, &name).is_none() {
                    continue;
                }
                let stats = self.topic(&group, &topic);
                list.total_diff += stats.behind();
                list.total_inflight_diff += stats.in_flight();
                topics.push(stats);
            }
            list.consume_stats_list.push([(group, topics)].into());
        }
        json(&list).into()
    }
}

impl BrokerConsumeStats {
    fn topic(&self, group: &str, topic: &Topic) -> ConsumeStats {
        let name = topic.topic_name.as_str();
        let queues = (0..topic.write_queue_nums)
            .map(|id| (ObjectKey(MessageQueue::new(name, &self.identity.name, id)), self.queue(group, name, id)));
        ConsumeStats { offset_table: queues.collect(), consume_tps: self.stats.group_rate(group, name) }
    }

    fn queue(&self, group: &str, topic: &str, id: i32) -> OffsetWrapper {
        let queue = self.store.queue(topic, id);
        let consumer_offset = self.offsets.query(group, topic, id).unwrap_or(0).max(0);
        let last = queue.as_ref().filter(|_| consumer_offset > 0);
        OffsetWrapper {
            broker_offset: queue.as_ref().map_or(0, |queue| queue.max_offset().max(0)),
            consumer_offset,
            last_timestamp: last.map_or(0, |queue| self.store.store_time(queue, consumer_offset - 1).max(0)),
            // Java leaves it out here, unlike for one group.
            pull_offset: 0,
        }
    }
}
