//! Pulling messages: PULL_MESSAGE and LITE_PULL_MESSAGE.

use std::borrow::Cow;

use crate::header;

header! {
    /// PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361).
    pub struct PullMessage<'a>: topic strict {
        "consumerGroup" consumer_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        "liteTopic" lite_topic: Option<Cow<'a, str>>,
        "queueId" queue_id: i32,
        "queueOffset" queue_offset: i64,
        "maxMsgNums" max_msg_nums: i32,
        "sysFlag" sys_flag: i32,
        "commitOffset" commit_offset: i64,
        "suspendTimeoutMillis" suspend_timeout_millis: i64,
        "subscription" subscription: Option<Cow<'a, str>>,
        "subVersion" sub_version: i64,
        "expressionType" expression_type: Option<Cow<'a, str>>,
        "maxMsgBytes" max_msg_bytes: Option<i32>,
        "requestSource" request_source: Option<i32>,
        "proxyFrowardClientId" proxy_forward_client_id: Option<Cow<'a, str>>,
    }
}

header! {
    /// Where to pull next and which offsets the queue has.
    pub struct PullMessageResponse: strict {
        "suggestWhichBrokerId" suggest_which_broker_id: i64,
        "nextBeginOffset" next_begin_offset: i64,
        "minOffset" min_offset: i64,
        "maxOffset" max_offset: i64,
        "offsetDelta" offset_delta: Option<i64>,
        "topicSysFlag" topic_sys_flag: Option<i32>,
        "groupSysFlag" group_sys_flag: Option<i32>,
        "forbiddenType" forbidden_type: Option<i32>,
    }
}
