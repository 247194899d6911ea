//! GET_TOPIC_STATS_INFO (202): where the queues of a topic begin and end.

use std::sync::Arc;

use remoting::body::fastjson::ObjectKey;
use remoting::body::message_queue::MessageQueue;
use remoting::body::topic_stats::{TopicOffset, TopicStatsTable};
use remoting::header::GetTopicStatsInfo;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::Store;

use crate::handlers::json;
use crate::identity::Identity;
use crate::stats::Stats;
use crate::topics::TopicTable;

/// Answers with the offsets of all queues of a topic.
pub struct TopicStatsInfo {
    identity: Arc<Identity>,
    topics: Arc<TopicTable>,
    stats: Arc<Stats>,
    store: Arc<Store>,
}

impl TopicStatsInfo {
    /// The handler.
    pub fn new(
        identity: Arc<Identity>,
        topics: Arc<TopicTable>,
        stats: Arc<Stats>,
        store: Arc<Store>,
    ) -> TopicStatsInfo {
        TopicStatsInfo { identity, topics, stats, store }
    }

    fn queue(&self, topic: &str, id: i32) -> TopicOffset {
        let Some(queue) = self.store.queue(topic, id) else { return TopicOffset::default() };
        let max_offset = queue.max_offset().max(0);
        TopicOffset {
            last_update_timestamp: if max_offset > 0 { self.store.store_time(&queue, max_offset - 1) } else { 0 },
            max_offset,
            min_offset: queue.min_offset().max(0),
        }
    }
}

impl Handler for TopicStatsInfo {
    type Request<'a> = GetTopicStatsInfo<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let Some(topic) = self.topics.get(&request.topic) else {
            let remark = format!("topic[{}] not exist", request.topic);
            return Reply::error(ResponseCode::TOPIC_NOT_EXIST, remark).into();
        };
        let queues = topic.write_queue_nums.max(topic.read_queue_nums);
        let offsets = (0..queues).map(|id| {
            let queue = MessageQueue::new(&topic.topic_name, &self.identity.name, id);
            (ObjectKey(queue), self.queue(&topic.topic_name, id))
        });
        json(&TopicStatsTable { offset_table: offsets.collect(), topic_put_tps: self.stats.topic_rate(&topic.stats) })
            .into()
    }
}
