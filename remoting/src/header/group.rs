//! Subscription groups and what is known of their consumption.

use std::borrow::Cow;

use crate::header;

header! {
    /// GET_SUBSCRIPTIONGROUP_CONFIG (352).
    pub struct GetSubscriptionGroupConfig<'a>: rpc {
        "group" group: Cow<'a, str>,
    }
}

header! {
    /// GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201): all groups, or a part of them when `groupSeq` is there.
    pub struct GetAllSubscriptionGroup<'a> {
        "groupSeq" group_seq: i32,
        "dataVersion" data_version: Option<Cow<'a, str>>,
        "maxGroupNum" max_group_num: Option<i32>,
    }
}

header! {
    /// How many groups there are, for an answer in parts.
    pub struct GetAllSubscriptionGroupResponse {
        "totalGroupNum" total_group_num: i32,
    }
}

header! {
    /// DELETE_SUBSCRIPTIONGROUP (207).
    pub struct DeleteSubscriptionGroup<'a>: rpc {
        "groupName" group_name: Cow<'a, str>,
        "cleanOffset" clean_offset: bool = false,
    }
}

header! {
    /// UPDATE_AND_GET_GROUP_FORBIDDEN (353): whether a group may read a topic.
    pub struct UpdateGroupForbidden<'a>: topic {
        "group" group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        "readable" readable: Option<bool>,
    }
}

header! {
    /// GET_CONSUME_STATS (208): broker and consumer offsets of a group.
    pub struct GetConsumeStats<'a>: topic {
        "consumerGroup" consumer_group: Cow<'a, str>,
        "topic" topic: Option<Cow<'a, str>>,
        "topicList" topic_list: Option<Cow<'a, str>>,
    }
}

header! {
    /// GET_BROKER_CONSUME_STATS (317): the same of all groups.
    pub struct GetConsumeStatsInBroker {
        required "isOrder" is_order: bool = false,
    }
}

header! {
    /// QUERY_SUBSCRIPTION_BY_CONSUMER (345): what a group subscribes to of a topic.
    pub struct QuerySubscriptionByConsumer<'a>: topic {
        "group" group: Cow<'a, str>,
        "topic" topic: Option<Cow<'a, str>>,
    }
}

header! {
    /// QUERY_CONSUME_TIME_SPAN (303): the times between which a group is reading.
    pub struct QueryConsumeTimeSpan<'a>: topic {
        "topic" topic: Cow<'a, str>,
        "group" group: Cow<'a, str>,
    }
}
