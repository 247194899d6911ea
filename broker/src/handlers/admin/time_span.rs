//! QUERY_CONSUME_TIME_SPAN (303): from when the messages are that a group consumes now.

use std::sync::Arc;

use chrono::{Local, TimeZone};
use remoting::body::consume_stats::{ConsumeTimeSpans, QueueTimeSpan};
use remoting::body::message_queue::MessageQueue;
use remoting::header::QueryConsumeTimeSpan;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::Store;

use crate::handlers::json;
use crate::identity::Identity;
use crate::offsets::Offsets;
use crate::stats::now_millis;
use crate::topics::TopicTable;

/// Answers with times of the first, the last and the consumed message of each queue.
pub struct TimeSpan {
    /// Names.
    pub identity: Arc<Identity>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Consumers' offsets.
    pub offsets: Arc<Offsets>,
    /// Messages.
    pub store: Arc<Store>,
}

impl Handler for TimeSpan {
    type Request<'a> = QueryConsumeTimeSpan<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let Some(topic) = self.topics.get(&request.topic) else {
            let remark = format!("topic[{}] not exist", request.topic);
            return Reply::error(ResponseCode::TOPIC_NOT_EXIST, remark).into();
        };
        let spans = (0..topic.write_queue_nums).map(|id| self.span(&request.group, &topic.topic_name, id));
        json(&ConsumeTimeSpans { consume_time_span_set: spans.collect() }).into()
    }
}

impl TimeSpan {
    fn span(&self, group: &str, topic: &str, id: i32) -> QueueTimeSpan {
        let queue = self.store.queue(topic, id);
        let time = |offset: i64| queue.as_ref().map_or(-1, |queue| self.store.store_time(queue, offset));
        let (min, max) = queue.as_ref().map_or((0, 0), |queue| (queue.min_offset(), queue.max_offset()));
        let consumed = self.offsets.query(group, topic, id).unwrap_or(-1);
        let (min_time_stamp, max_time_stamp) = (time(min), time(max - 1));
        let consume_time_stamp = if consumed > 0 { time(consumed - 1) } else { min_time_stamp };
        QueueTimeSpan {
            consume_time_stamp,
            consume_time_stamp_str: local(consume_time_stamp),
            delay_time: if consumed < max { now_millis() - time(consumed) } else { 0 },
            max_time_stamp,
            max_time_stamp_str: local(max_time_stamp),
            message_queue: MessageQueue::new(topic, &self.identity.name, id),
            min_time_stamp,
            min_time_stamp_str: local(min_time_stamp),
        }
    }
}

/// A time (ms since the epoch) for people: `2026-11-29#17:27:20:776`, local.
fn local(millis: i64) -> String {
    let time = Local.timestamp_millis_opt(millis).single();
    time.map(|time| time.format("%Y-%m-%d#%H:%M:%S:%3f").to_string()).unwrap_or_default()
}
