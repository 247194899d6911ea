//! Many messages in one request: each becomes a record of its own, one behind the other.
//!
//! The inner messages carry their own properties and are stored with these alone. The properties of the request are only
//! looked at: they say whether the producer waits, and what a batch must not be (delayed, part of a transaction).
//!
//! In a topic with batch consume queues the messages stay together, in the body of one record that has the properties of
//! the request and takes as many queue offsets as there are messages; consumers take it apart. The request must carry a
//! unique key for that, as that of every client does which knows such batches.

use std::fmt::Write;

use config::BrokerConfig;
use remoting::ResponseCode;
use remoting::header::SendRequest;
use remoting::server::{Cx, Outcome};
use store::Inner;
use store::record::{batch, sys_flag};

use super::answer::{IdText, Stored};
use super::properties::Known;
use super::put::{Message, new_message};
use super::{Local, OWN, Refusal, Seat, Sender, delay};
use crate::names;

impl Sender {
    pub(super) fn take_batch(
        &self,
        cx: &mut Cx<'_>,
        config: &BrokerConfig,
        local: &mut Local,
        incoming: &SendRequest<'_>,
        seat: Seat,
    ) -> Result<Outcome, Refusal> {
        let Local { targets, properties, ids, .. } = local;
        let queue_id = seat.queue_id;
        let target = targets.get(seat.at);
        let topic = incoming.topic.as_ref();
        if topic.starts_with(names::RETRY_PREFIX) {
            let remark = format!("batch request does not support retry group {topic}");
            return Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark));
        }
        properties.fill(OWN, |out| {
            if let Some(text) = incoming.properties {
                text.write_to(out);
            }
        });
        let max = self.parts.store_config.load().max_message_size;
        let level = delay::level_of(properties)?;
        let odd_flags = incoming.sys_flag & (sys_flag::TRANSACTION | sys_flag::INNER_BATCH) != 0;
        let stays_one = target.topic.seats.batch_queues && properties.get(Known::UniqueKey).is_some();
        if odd_flags || level > 0 || !stays_one && properties.get(Known::InnerNum).is_some() {
            return Err(Refusal::illegal(max));
        }
        if self.due_of(properties, level)?.is_some() {
            // The messages of a batch are stored with their own properties only: the timer could not find theirs.
            return Err(Refusal::illegal(max));
        }
        if stays_one {
            return self.take_inner_batch(cx, config, local, incoming, seat);
        }
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
        let need = self.need(properties.waits())?;
        let (queue, latency) = target.queue(&self.parts.store, queue_id);
        let appended = self.timed(Some(latency), || self.parts.store.append_batch(queue, &new, &inner, &mut each))?;
        let count = inner.len() as u64;
        target.count(queue_id, count, appended.end - appended.phys_offset);
        let (queue_id, queue_offset) = seat.seen(queue_id, appended.queue_offset);
        let stored = Stored {
            region: self.region(config),
            message_id: ids,
            queue_id,
            queue_offset,
            transaction_id: properties.text(Known::UniqueKey),
            recall_handle: None,
            batch_id: None,
        };
        Ok(self.answer(cx, need, appended.end, &stored))
    }

    /// Stores a batch as one record. The properties of the request have been read and checked.
    fn take_inner_batch(
        &self,
        cx: &mut Cx<'_>,
        config: &BrokerConfig,
        local: &mut Local,
        incoming: &SendRequest<'_>,
        seat: Seat,
    ) -> Result<Outcome, Refusal> {
        let Local { targets, properties, .. } = local;
        let queue_id = seat.queue_id;
        let target = targets.get(seat.at);
        let count =
            batch::count(cx.body()).map_err(|error| Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string()))?;
        properties.put(Known::InnerNum, count.to_string().as_bytes());
        properties.append_encoded(&self.own[usize::from(config.trace_on)]);
        let message = Message {
            flag: incoming.flag,
            sys_flag: incoming.sys_flag | sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP,
            born_timestamp: incoming.born_timestamp,
            born_host: cx.conn().peer(),
            reconsume_times: incoming.reconsume_times,
            body: cx.body(),
        };
        let new = new_message(&message, properties.as_bytes());
        let need = self.need(properties.waits())?;
        let (queue, latency) = target.queue(&self.parts.store, queue_id);
        let appended = self.timed(Some(latency), || self.parts.store.append(queue, &new))?;
        target.count(queue_id, count as u64, appended.end - appended.phys_offset);
        let message_id = IdText::of(self.message_id(appended.phys_offset));
        let (queue_id, queue_offset) = seat.seen(queue_id, appended.queue_offset);
        let stored = Stored {
            region: self.region(config),
            message_id: message_id.as_str(),
            queue_id,
            queue_offset,
            transaction_id: properties.text(Known::UniqueKey),
            recall_handle: None,
            batch_id: properties.text(Known::UniqueKey),
        };
        Ok(self.answer(cx, need, appended.end, &stored))
    }
}
