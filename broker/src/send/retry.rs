//! Sends to `%RETRY%` topics: a consumer that consumes in order gives a message back so, and gives it up so.

use remoting::ResponseCode;
use remoting::header::SendRequest;

use super::properties::{Known, Properties};
use super::{FAQ, Refusal, Sender};
use crate::names;
use crate::stats::now_millis;
use crate::topics::{PERM_READ, PERM_WRITE};

/// Queues of a dead letter topic.
pub(crate) const DLQ_QUEUES: i32 = 1;

/// Clients before this version (V3_4_9) send no maximum of their own.
pub(crate) const MAX_RECONSUME_VERSION: i32 = 121;

impl Sender {
    /// The dead letter topic and queue when the message has been consumed too often, or when its consumer holds queue
    /// locks (an ordered consumer retries by itself, and sends a message back only to give it up).
    pub(super) fn dead_letter_of(
        &self,
        incoming: &SendRequest<'_>,
        version: i32,
        properties: &mut Properties,
    ) -> Result<Option<(String, i32)>, Refusal> {
        let name = &incoming.topic[names::RETRY_PREFIX.len()..];
        let Some(group) = self.parts.groups.find_or_create(name) else {
            let remark = format!("subscription group not exist, {name} {FAQ}");
            return Err(Refusal::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        };
        let own = incoming.max_reconsume_times.filter(|_| version >= MAX_RECONSUME_VERSION);
        let max = own.unwrap_or(group.retry_max_times);
        if incoming.reconsume_times <= max && self.parts.locks.is_free(name, now_millis()) {
            return Ok(None);
        }
        properties.put(Known::Delay, b"-1");
        let topic = names::dlq_topic(name);
        self.parts.topics.create_for_send_back(&topic, DLQ_QUEUES, PERM_READ | PERM_WRITE, false, 0);
        Ok(Some((topic, 0)))
    }
}
