//! Sending messages: SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE and the replies of request-reply messaging.

use std::borrow::Cow;

use crate::fields::Text;
use crate::header;

header! {
    /// SEND_MESSAGE (10) and SEND_REPLY_MESSAGE (324).
    pub struct SendMessage<'a>: topic {
        "producerGroup" producer_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        "defaultTopic" default_topic: Cow<'a, str>,
        "defaultTopicQueueNums" default_topic_queue_nums: i32,
        "queueId" queue_id: i32,
        "sysFlag" sys_flag: i32,
        "bornTimestamp" born_timestamp: i64,
        "flag" flag: i32,
        "properties" properties: Option<Text<'a>>,
        "reconsumeTimes" reconsume_times: Option<i32>,
        "unitMode" unit_mode: Option<bool>,
        "batch" batch: Option<bool>,
        "maxReconsumeTimes" max_reconsume_times: Option<i32>,
    }
}

header! {
    /// SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320), SEND_REPLY_MESSAGE_V2 (325): the fields of [`SendMessage`] under names
    /// of one letter.
    pub struct SendMessageV2<'a>: topic strict {
        "a" producer_group: Cow<'a, str>,
        "b" topic: Cow<'a, str>,
        "c" default_topic: Cow<'a, str>,
        "d" default_topic_queue_nums: i32,
        "e" queue_id: i32,
        "f" sys_flag: i32,
        "g" born_timestamp: i64,
        "h" flag: i32,
        "i" properties: Option<Text<'a>>,
        "j" reconsume_times: Option<i32>,
        "k" unit_mode: Option<bool>,
        "l" max_reconsume_times: Option<i32>,
        "m" batch: Option<bool>,
        "n" broker_name: Option<Cow<'a, str>>,
    }
}

header! {
    /// Where the message of a send went.
    pub struct SendMessageResponse<'a>: strict {
        "msgId" msg_id: Cow<'a, str>,
        "queueId" queue_id: i32,
        "queueOffset" queue_offset: i64,
        "transactionId" transaction_id: Option<Cow<'a, str>>,
        "batchUniqId" batch_uniq_id: Option<Cow<'a, str>>,
        "recallHandle" recall_handle: Option<Cow<'a, str>>,
    }
}

header! {
    /// PUSH_REPLY_MESSAGE_TO_CLIENT (326): the broker hands a reply to the client that asked.
    pub struct ReplyMessage<'a>: topic {
        "producerGroup" producer_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        "defaultTopic" default_topic: Cow<'a, str>,
        "defaultTopicQueueNums" default_topic_queue_nums: i32,
        "queueId" queue_id: i32,
        "sysFlag" sys_flag: i32,
        "bornTimestamp" born_timestamp: i64,
        "flag" flag: i32,
        "properties" properties: Option<Text<'a>>,
        "reconsumeTimes" reconsume_times: Option<i32>,
        "unitMode" unit_mode: bool = false,
        "bornHost" born_host: Cow<'a, str>,
        "storeHost" store_host: Cow<'a, str>,
        required "storeTimestamp" store_timestamp: i64 = 0,
    }
}

header! {
    /// CONSUMER_SEND_MSG_BACK (36): a consumer failed and wants the message again later.
    pub struct ConsumerSendMsgBack<'a>: rpc {
        "offset" offset: i64,
        "group" group: Cow<'a, str>,
        "delayLevel" delay_level: i32,
        "originMsgId" origin_msg_id: Option<Cow<'a, str>>,
        "originTopic" origin_topic: Option<Cow<'a, str>>,
        "unitMode" unit_mode: bool = false,
        "maxReconsumeTimes" max_reconsume_times: Option<i32>,
    }
}

header! {
    /// RECALL_MESSAGE (370): takes back a delayed message before its time.
    pub struct RecallMessage<'a>: topic {
        "producerGroup" producer_group: Option<Cow<'a, str>>,
        "topic" topic: Cow<'a, str>,
        "recallHandle" recall_handle: Cow<'a, str>,
    }
}

header! {
    /// Which message was taken back.
    pub struct RecallMessageResponse<'a> {
        "msgId" msg_id: Cow<'a, str>,
    }
}

header! {
    /// Counts the messages of a queue between two times.
    pub struct StatisticsMessages<'a>: topic {
        "consumerGroup" consumer_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        required "queueId" queue_id: i32 = 0,
        "fromTime" from_time: i64 = 0,
        "toTime" to_time: i64 = 0,
    }
}
