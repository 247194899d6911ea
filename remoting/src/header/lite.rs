//! Lite topics: many small topics under one parent.

use std::borrow::Cow;

use crate::header;

header! {
    /// POP_LITE_MESSAGE (200070).
    pub struct PopLiteMessage<'a>: rpc {
        "clientId" client_id: Cow<'a, str>,
        "consumerGroup" consumer_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        required "maxMsgNum" max_msg_num: i32 = 0,
        required "invisibleTime" invisible_time: i64 = 0,
        required "pollTime" poll_time: i64 = 0,
        required "bornTime" born_time: i64 = 0,
        "attemptId" attempt_id: Option<Cow<'a, str>>,
    }
}

header! {
    /// When, for how long and from where messages were popped.
    pub struct PopLiteMessageResponse<'a> {
        required "popTime" pop_time: i64 = 0,
        required "invisibleTime" invisible_time: i64 = 0,
        required "reviveQid" revive_qid: i32 = 0,
        "startOffsetInfo" start_offset_info: Option<Cow<'a, str>>,
        "msgOffsetInfo" msg_offset_info: Option<Cow<'a, str>>,
        "orderCountInfo" order_count_info: Option<Cow<'a, str>>,
    }
}

header! {
    /// LITE_SUBSCRIPTION_CTL (200071): the subscriptions are the body.
    pub struct LiteSubscriptionCtl<'a>: rpc {}
}

header! {
    /// NOTIFY_UNSUBSCRIBE_LITE (200073): the broker tells a consumer that a subscription is gone.
    pub struct NotifyUnsubscribeLite<'a>: rpc {
        "liteTopic" lite_topic: Cow<'a, str>,
        "consumerGroup" consumer_group: Cow<'a, str>,
        "clientId" client_id: Cow<'a, str>,
    }
}

header! {
    /// GET_PARENT_TOPIC_INFO (200075).
    pub struct GetParentTopicInfo<'a> {
        "topic" topic: Cow<'a, str>,
    }
}

header! {
    /// GET_LITE_TOPIC_INFO (200076).
    pub struct GetLiteTopicInfo<'a> {
        "parentTopic" parent_topic: Option<Cow<'a, str>>,
        "liteTopic" lite_topic: Option<Cow<'a, str>>,
    }
}

header! {
    /// GET_LITE_CLIENT_INFO (200077).
    pub struct GetLiteClientInfo<'a> {
        "parentTopic" parent_topic: Option<Cow<'a, str>>,
        "group" group: Option<Cow<'a, str>>,
        "clientId" client_id: Option<Cow<'a, str>>,
        "maxCount" max_count: i32 = 1000,
    }
}

header! {
    /// GET_LITE_GROUP_INFO (200078).
    pub struct GetLiteGroupInfo<'a> {
        "group" group: Cow<'a, str>,
        "liteTopic" lite_topic: Option<Cow<'a, str>>,
        "topK" top_k: i32 = 0,
    }
}

header! {
    /// TRIGGER_LITE_DISPATCH (200079).
    pub struct TriggerLiteDispatch<'a> {
        "group" group: Cow<'a, str>,
        "clientId" client_id: Option<Cow<'a, str>>,
    }
}
