//! QUERY_CONSUME_QUEUE (321): entries of a consume queue, as a filter sees them.

use std::sync::Arc;

use remoting::body::consume_queue::{ConsumeQueueEntries, ConsumeQueueEntry};
use remoting::header::QueryConsumeQueue;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::Store;

use crate::clients::Consumers;
use crate::handlers::json;

/// Answers with entries from an index on, at most to the end of the file that has the first one.
pub struct QueueEntries {
    consumers: Arc<Consumers>,
    store: Arc<Store>,
}

impl QueueEntries {
    /// The handler.
    pub fn new(consumers: Arc<Consumers>, store: Arc<Store>) -> QueueEntries {
        QueueEntries { consumers, store }
    }
}

impl Handler for QueueEntries {
    type Request<'a> = QueryConsumeQueue<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let topic = request.topic.as_deref().unwrap_or_default();
        let id = request.queue_id;
        let Some(queue) = self.store.queue(topic, id) else {
            return Reply::error(ResponseCode::SYSTEM_ERROR, format!("{id}@{topic} is not exist!")).into();
        };
        let mut body = ConsumeQueueEntries {
            max_queue_index: queue.max_offset(),
            min_queue_index: queue.min_offset(),
            ..Default::default()
        };
        if let Some(group) = request.consumer_group.as_deref() {
            body.subscription_data = self.consumers.subscription(group, topic).map(|found| (*found).clone());
            body.filter_data = Some(match &body.subscription_data {
                Some(_) => "null".to_owned(),
                None => format!("{group}@{topic} is not online!"),
            });
        }
        let Some(entries) = queue.entries(request.index) else {
            let remark = format!("Index {} of {id}@{topic} is not exist!", request.index);
            return Reply::ok().remark(remark).into();
        };
        let end = request.index.saturating_add(request.count.into());
        let entries = entries.take_while(|entry| entry.offset < end).map(|entry| ConsumeQueueEntry {
            physic_offset: entry.unit.phys,
            physic_size: entry.unit.size,
            tags_code: entry.unit.tags_code,
            ..Default::default()
        });
        body.queue_data = Some(entries.collect());
        // The remark that Java's answers have until somebody sets another one.
        json(&body).remark("not set any response code").into()
    }
}
