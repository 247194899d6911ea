//! QUERY_CONSUME_QUEUE (321): entries of a consume queue, as a filter sees them.

use std::sync::Arc;

use remoting::body::consume_queue::{ConsumeQueueEntries, ConsumeQueueEntry, ExtendedEntry};
use remoting::body::fastjson;
use remoting::header::QueryConsumeQueue;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::queue::ExtUnit;
use store::{ReadFilter, Store};

use crate::clients::Consumers;
use crate::filter::{ConsumerFilters, Filter, SqlFilter, TagFilter};
use crate::handlers::json;

/// Answers with entries from an index on, at most to the end of the file that has the first one.
pub struct QueueEntries {
    consumers: Arc<Consumers>,
    filters: Arc<ConsumerFilters>,
    store: Arc<Store>,
}

impl QueueEntries {
    /// The handler.
    pub fn new(consumers: Arc<Consumers>, filters: Arc<ConsumerFilters>, store: Arc<Store>) -> QueueEntries {
        QueueEntries { consumers, filters, store }
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
        let mut filter = None;
        if let Some(group) = request.consumer_group.as_deref() {
            body.subscription_data = self.consumers.subscription(group, topic).map(|found| (*found).clone());
            let expression = self.filters.get(topic, group);
            body.filter_data = Some(match (&body.subscription_data, &expression) {
                (None, _) => format!("{group}@{topic} is not online!"),
                (_, None) => "null".to_owned(),
                (_, Some(expression)) => expression.to_json(),
            });
            filter = body.subscription_data.as_ref().map(|data| match data.is_tag_type() || data.class_filter_mode {
                true => Filter::Tags(TagFilter::of(data)),
                false => Filter::Sql(Arc::new(SqlFilter::new(expression, None))),
            });
        }
        let Some(mut entries) = queue.entries(request.index) else {
            let remark = format!("Index {} of {id}@{topic} is not exist!", request.index);
            return Reply::ok().remark(remark).into();
        };
        let end = request.index.saturating_add(request.count.into());
        let mut found = Vec::new();
        while let Some(entry) = entries.next().filter(|entry| entry.offset < end) {
            let mut shown = ConsumeQueueEntry {
                physic_offset: entry.unit.phys,
                physic_size: entry.unit.size,
                tags_code: entry.unit.tags_code,
                ..ConsumeQueueEntry::default()
            };
            if let Some(ext) = entries.ext() {
                describe(ext, filter.as_ref(), &mut shown);
            } else if entries.lacks_ext(&entry) {
                shown.msg = Some(format!("Cq extend not exist!addr: {}", entry.unit.tags_code));
            }
            found.push(shown);
        }
        body.queue_data = Some(found);
        // The remark that Java's answers have until somebody sets another one.
        json(&body).remark("not set any response code").into()
    }
}

/// What the extension has of an entry, and what the group's filter says of that.
fn describe(ext: &ExtUnit, filter: Option<&Filter>, shown: &mut ConsumeQueueEntry) {
    let bits = Some(&ext.bits).filter(|bits| !bits.is_empty());
    let entry = ExtendedEntry {
        // Java's bytes have a sign.
        filter_bit_map: bits.map(|bits| bits.iter().map(|byte| *byte as i8).collect()),
        msg_store_time: ext.store_timestamp,
        size: ext.length(),
        tags_code: ext.tags_code,
    };
    shown.extend_data_json = fastjson::to_vec(&entry).ok().map(|text| String::from_utf8_lossy(&text).into_owned());
    shown.bit_map = bits.map(|bits| bit_text(bits));
    shown.eval = filter.is_some_and(|filter| filter.by_ext(ext.tags_code, &ext.bits, ext.store_timestamp));
}

/// Bits from the highest to the lowest, eight bytes a line.
fn bit_text(bits: &[u8]) -> String {
    let mut text = String::with_capacity(bits.len() * 9);
    for (at, byte) in bits.iter().enumerate().rev() {
        text.push_str(&format!("{byte:08b}"));
        if at % 8 == 0 {
            text.push('\n');
        }
    }
    text
}
