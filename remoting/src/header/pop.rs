//! Consuming without queues of one's own: POP and its acknowledgements.

use std::borrow::Cow;

use crate::header;

header! {
    /// POP_MESSAGE (200050).
    pub struct PopMessage<'a>: topic {
        "consumerGroup" consumer_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        required "queueId" queue_id: i32 = 0,
        required "maxMsgNums" max_msg_nums: i32 = 0,
        required "invisibleTime" invisible_time: i64 = 0,
        required "pollTime" poll_time: i64 = 0,
        required "bornTime" born_time: i64 = 0,
        required "initMode" init_mode: i32 = 0,
        "expType" exp_type: Option<Cow<'a, str>>,
        "exp" exp: Option<Cow<'a, str>>,
        "order" order: bool = false,
        "attemptId" attempt_id: Option<Cow<'a, str>>,
    }
}

header! {
    /// When, for how long and from where messages were popped.
    pub struct PopMessageResponse<'a> {
        required "popTime" pop_time: i64 = 0,
        required "invisibleTime" invisible_time: i64 = 0,
        required "reviveQid" revive_qid: i32 = 0,
        required "restNum" rest_num: i64 = 0,
        "startOffsetInfo" start_offset_info: Option<Cow<'a, str>>,
        "msgOffsetInfo" msg_offset_info: Option<Cow<'a, str>>,
        "orderCountInfo" order_count_info: Option<Cow<'a, str>>,
    }
}

header! {
    /// PEEK_MESSAGE (200052): as a pop, but nothing becomes invisible.
    pub struct PeekMessage<'a>: topic {
        "topic" topic: Cow<'a, str>,
        required "queueId" queue_id: i32 = 0,
        required "maxMsgNums" max_msg_nums: i32 = 0,
        "consumerGroup" consumer_group: Cow<'a, str>,
    }
}

header! {
    /// ACK_MESSAGE (200051).
    pub struct AckMessage<'a>: topic {
        "consumerGroup" consumer_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        "queueId" queue_id: i32,
        "extraInfo" extra_info: Cow<'a, str>,
        "offset" offset: i64,
        "liteTopic" lite_topic: Option<Cow<'a, str>>,
    }
}

header! {
    /// CHANGE_MESSAGE_INVISIBLETIME (200053).
    pub struct ChangeInvisibleTime<'a>: topic {
        "consumerGroup" consumer_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        "queueId" queue_id: i32,
        "extraInfo" extra_info: Cow<'a, str>,
        "offset" offset: i64,
        "invisibleTime" invisible_time: i64,
        "liteTopic" lite_topic: Option<Cow<'a, str>>,
        "suspend" suspend: bool = false,
    }
}

header! {
    /// The new receipt's parts.
    pub struct ChangeInvisibleTimeResponse {
        required "popTime" pop_time: i64 = 0,
        required "invisibleTime" invisible_time: i64 = 0,
        required "reviveQid" revive_qid: i32 = 0,
    }
}

header! {
    /// NOTIFICATION (200054): waits until there is something to pop.
    pub struct Notification<'a>: topic {
        "consumerGroup" consumer_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        required "queueId" queue_id: i32 = 0,
        required "pollTime" poll_time: i64 = 0,
        required "bornTime" born_time: i64 = 0,
        "order" order: bool = false,
        "attemptId" attempt_id: Option<Cow<'a, str>>,
        "expType" exp_type: Option<Cow<'a, str>>,
        "exp" exp: Option<Cow<'a, str>>,
    }
}

header! {
    /// Whether there is.
    pub struct NotificationResponse {
        required "hasMsg" has_msg: bool = false,
        "pollingFull" polling_full: bool = false,
    }
}

header! {
    /// POLLING_INFO (200055).
    pub struct PollingInfo<'a>: topic {
        "consumerGroup" consumer_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        required "queueId" queue_id: i32 = 0,
    }
}

header! {
    /// How many requests of a group wait.
    pub struct PollingInfoResponse {
        required "pollingNum" polling_num: i32 = 0,
    }
}
