//! Many messages in one request: each becomes a record of its own, one behind the other.
//!
//! The inner messages carry their own properties and are stored with these alone. The properties of the request are only
//! looked at: they say whether the producer waits, and what a batch must not be (delayed, part of a transaction).

use std::fmt::Write;

use config::BrokerConfig;
use remoting::ResponseCode;
use remoting::header::SendRequest;
use remoting::server::{Cx, Outcome};
use store::Inner;
use store::record::{batch, sys_flag};

use super::answer::Stored;
use super::properties::Known;
use super::put::{Message, new_message};
use super::{Local, Refusal, Sender, batch_queues_refused, delay};
use crate::names;

impl Sender {
    pub(super) fn take_batch(
        &self,
        cx: &mut Cx<'_>,
        config: &BrokerConfig,
        local: &mut Local,
        at: usize,
        incoming: &SendRequest<'_>,
        queue_id: i32,
    ) -> Result<Outcome, Refusal> {
        let Local { targets, properties, ids, .. } = local;
        let target = targets.get(at);
        let topic = incoming.topic.as_ref();
        if topic.starts_with(names::RETRY_PREFIX) {
            let remark = format!("batch request does not support retry group {topic}");
            return Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark));
        }
        if target.batch_queues {
            return Err(batch_queues_refused(topic));
        }
        properties.fill(&[], |out| {
            if let Some(text) = incoming.properties {
                text.write_to(out);
            }
        });
        let max = self.parts.store_config.load().max_message_size;
        let level = delay::level_of(properties)?;
        let odd_flags = incoming.sys_flag & (sys_flag::TRANSACTION | sys_flag::INNER_BATCH) != 0;
        if odd_flags || level > 0 || properties.get(Known::InnerNum).is_some() {
            return Err(Refusal::illegal(max));
        }
        self.check_timer(properties, level)?;
        if cx.body().len() > usize::try_from(max).unwrap_or(0) {
            let remark = "java.lang.RuntimeException: message body size exceeded";
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        }
        let mut inner: Vec<Inner<'_>> = Vec::new();
        batch::read(cx.body(), &mut inner)
            .map_err(|error| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string()))?;
        let message = Message {
            flag: incoming.flag,
            sys_flag: incoming.sys_flag,
            born_timestamp: incoming.born_timestamp,
            born_host: cx.conn().peer(),
            reconsume_times: incoming.reconsume_times,
            body: cx.body(),
        };
        ids.clear();
        let mut each = |phys_offset: u64| {
            let comma = if ids.is_empty() { "" } else { "," };
            // Writing to a String does not fail.
            let _ = write!(ids, "{comma}{}", self.message_id(phys_offset));
        };
        let new = new_message(&message, &[]);
        let queue = target.queue(&self.parts.store, queue_id);
        let appended = self.timed(|| self.parts.store.append_batch(queue, &new, &inner, &mut each))?;
        let count = inner.len() as u64;
        self.parts.stats.put(&target.topic.stats, count, appended.end - appended.phys_offset, target.user);
        let waits = properties.get(Known::Wait).is_none() || properties.is_true(Known::Wait);
        let stored = Stored {
            region: self.region(config),
            message_id: ids,
            queue_id,
            queue_offset: appended.queue_offset,
            transaction_id: properties.text(Known::UniqueKey),
        };
        Ok(self.answer(cx, waits, appended.end, &stored))
    }
}
