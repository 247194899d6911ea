//! The three send requests as one: they carry the same fields under different names.

use std::borrow::Cow;

use remoting::Text;
use remoting::header::{SendMessage, SendMessageV2};

/// What a producer asks for.
#[derive(Clone, Debug)]
pub struct Incoming<'a> {
    /// The producer's group.
    pub producer_group: Cow<'a, str>,
    /// The topic.
    pub topic: Cow<'a, str>,
    /// The topic that a new one takes its settings from.
    pub default_topic: Cow<'a, str>,
    /// Queues that the producer wants for a new topic.
    pub default_topic_queue_nums: i32,
    /// The queue; negative: any.
    pub queue_id: i32,
    /// See `MessageSysFlag`.
    pub sys_flag: i32,
    /// Milliseconds since the epoch at the producer.
    pub born_timestamp: i64,
    /// The user's flag.
    pub flag: i32,
    /// The raw property string.
    pub properties: Option<Text<'a>>,
    /// How often the message was consumed before.
    pub reconsume_times: i32,
    /// Whether the producer belongs to a unit.
    pub unit_mode: bool,
    /// Whether the body is a row of messages.
    pub batch: bool,
    /// How often the message may be consumed before it is given up.
    pub max_reconsume_times: Option<i32>,
}

impl<'a> From<SendMessage<'a>> for Incoming<'a> {
    fn from(header: SendMessage<'a>) -> Self {
        Incoming {
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
            batch: header.batch.unwrap_or(false),
            max_reconsume_times: header.max_reconsume_times,
        }
    }
}

impl<'a> From<SendMessageV2<'a>> for Incoming<'a> {
    fn from(header: SendMessageV2<'a>) -> Self {
        Incoming {
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
            batch: header.batch.unwrap_or(false),
            max_reconsume_times: header.max_reconsume_times,
        }
    }
}
