//! One view of a send, whichever of the two headers it came with.

use std::borrow::Cow;

use crate::fields::Text;
use crate::header::{SendMessage, SendMessageV2};

/// What a send asks for: from SEND_MESSAGE (10) or from SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320).
#[derive(Clone, Debug, PartialEq)]
pub struct SendRequest<'a> {
    /// The producer's group.
    pub producer_group: Cow<'a, str>,
    /// The topic of the message.
    pub topic: Cow<'a, str>,
    /// A missing topic is created after the settings of this one.
    pub default_topic: Cow<'a, str>,
    /// How many queues a topic created that way gets.
    pub default_topic_queue_nums: i32,
    /// The queue; negative: any.
    pub queue_id: i32,
    /// Flags of the message (compressed, transaction, ...).
    pub sys_flag: i32,
    /// When the client made the message, in milliseconds since 1970.
    pub born_timestamp: i64,
    /// Flag of the application.
    pub flag: i32,
    /// The properties in their stored form: name, `\u{1}`, value, `\u{2}`, and so on.
    pub properties: Option<Text<'a>>,
    /// How often the message was consumed in vain.
    pub reconsume_times: i32,
    /// Whether the producer is in a unit.
    pub unit_mode: bool,
    /// How often a message may be consumed in vain before it goes to the dead letters.
    pub max_reconsume_times: Option<i32>,
    /// Whether the body is a batch of messages.
    pub batch: bool,
    /// The broker that the client means, for a static topic.
    pub broker_name: Option<Cow<'a, str>>,
    /// Whether the queue id is the logical one of a static topic.
    pub logical_queue: Option<bool>,
}

impl<'a> From<SendMessage<'a>> for SendRequest<'a> {
    #[inline]
    fn from(header: SendMessage<'a>) -> Self {
        SendRequest {
            producer_group: header.producer_group,
            topic: header.topic,
            default_topic: header.default_topic,
            default_topic_queue_nums: header.default_topic_queue_nums,
            queue_id: header.queue_id,
            sys_flag: header.sys_flag,
            born_timestamp: header.born_timestamp,
            flag: header.flag,
            properties: header.properties,
            reconsume_times: header.reconsume_times.unwrap_or(0),
            unit_mode: header.unit_mode.unwrap_or(false),
            max_reconsume_times: header.max_reconsume_times,
            batch: header.batch.unwrap_or(false),
            broker_name: header.bname,
            logical_queue: header.lo,
        }
    }
}

impl<'a> From<SendMessageV2<'a>> for SendRequest<'a> {
    #[inline]
    fn from(header: SendMessageV2<'a>) -> Self {
        SendRequest {
            producer_group: header.producer_group,
            topic: header.topic,
            default_topic: header.default_topic,
            default_topic_queue_nums: header.default_topic_queue_nums,
            queue_id: header.queue_id,
            sys_flag: header.sys_flag,
            born_timestamp: header.born_timestamp,
            flag: header.flag,
            properties: header.properties,
            reconsume_times: header.reconsume_times.unwrap_or(0),
            unit_mode: header.unit_mode.unwrap_or(false),
            max_reconsume_times: header.max_reconsume_times,
            batch: header.batch.unwrap_or(false),
            // Of the shared fields Java takes none from a short header; the broker's name comes as `n`.
            broker_name: header.broker_name,
            logical_queue: None,
        }
    }
}
