//! First halves of transactions, and what they become.

use config::BrokerConfig;
use remoting::ResponseCode;
use remoting::header::SendRequest;
use store::record::sys_flag;

use super::properties::{Known, Properties};
use super::put::{Message, Put};
use super::{Refusal, Sender, delay};
use crate::names;

impl Sender {
    /// Whether a message is a first half.
    ///
    /// # Errors
    /// It is one and the broker takes none.
    pub(super) fn is_half(
        &self,
        config: &BrokerConfig,
        incoming: &SendRequest<'_>,
        properties: &Properties,
    ) -> Result<bool, Refusal> {
        if !properties.is_true(Known::TransactionPrepared) {
            return Ok(false);
        }
        // Old clients send retries of transactional messages with the property still set.
        if incoming.reconsume_times > 0 && delay::level_of(properties)? > 0 {
            return Ok(false);
        }
        if config.reject_transaction_message {
            let remark = format!("the broker[{}] sending transaction message is forbidden", config.broker_ip1);
            return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
        }
        Ok(true)
    }

    /// Puts a first half where it waits for its end. What asks for a delay counts from the commit on, but must be right
    /// now: nobody hears of it then.
    pub(super) fn put_half(
        &self,
        topic: &str,
        queue_id: i32,
        message: &Message<'_>,
        properties: &mut Properties,
    ) -> Result<Put, Refusal> {
        if message.sys_flag & sys_flag::INNER_BATCH != 0 || properties.get(Known::InnerNum).is_some() {
            return Err(Refusal::illegal(self.parts.store_config.load().max_message_size));
        }
        let level = delay::level_of(properties)?;
        self.due_of(properties, level)?;
        properties.copy(Known::UniqueKey, Known::TransactionId);
        let mut number = itoa::Buffer::new();
        properties.put(Known::RealTopic, topic.as_bytes());
        properties.put(Known::RealQueueId, number.format(queue_id).as_bytes());
        let queue = self.parts.store.queue_or_create(names::HALF_TOPIC, 0);
        let waiting = Message { sys_flag: message.sys_flag & !sys_flag::TRANSACTION, ..*message };
        let appended = self.append(&queue, &waiting, 0, properties)?;
        if let Some(half_topic) = self.parts.topics.get(names::HALF_TOPIC) {
            self.parts.stats.put(&half_topic.stats, 1, appended.end - appended.phys_offset, false);
            half_topic.stats.latency.add(queue_id, [0, 1]);
        }
        self.parts.transactions.opened(topic);
        Ok(Put { appended, delayed: false, due: None })
    }
}
