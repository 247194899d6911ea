//! Topics of a broker.

use std::borrow::Cow;

use crate::header;

header! {
    /// UPDATE_AND_CREATE_TOPIC (17), and UPDATE_AND_CREATE_STATIC_TOPIC (513).
    pub struct CreateTopic<'a>: topic {
        "topic" topic: Cow<'a, str>,
        "defaultTopic" default_topic: Cow<'a, str>,
        "readQueueNums" read_queue_nums: i32,
        "writeQueueNums" write_queue_nums: i32,
        "perm" perm: i32,
        "topicFilterType" topic_filter_type: Cow<'a, str>,
        "topicSysFlag" topic_sys_flag: Option<i32>,
        required "order" order: bool = false,
        "attributes" attributes: Option<Cow<'a, str>>,
        "force" force: bool = false,
    }
}

header! {
    /// UPDATE_AND_CREATE_TOPIC_LIST (18): the topics are the body.
    pub struct CreateTopicList<'a>: rpc {}
}

header! {
    /// DELETE_TOPIC_IN_BROKER (215).
    pub struct DeleteTopic<'a>: topic {
        "topic" topic: Cow<'a, str>,
    }
}

header! {
    /// GET_TOPIC_CONFIG (351).
    pub struct GetTopicConfig<'a>: topic {
        "topic" topic: Cow<'a, str>,
    }
}

header! {
    /// GET_ALL_TOPIC_CONFIG (21): all topics, or a part of them when `topicSeq` is there.
    pub struct GetAllTopicConfig<'a> {
        "topicSeq" topic_seq: i32,
        "dataVersion" data_version: Option<Cow<'a, str>>,
        "maxTopicNum" max_topic_num: Option<i32>,
    }
}

header! {
    /// How many topics there are, for an answer in parts.
    pub struct GetAllTopicConfigResponse {
        "totalTopicNum" total_topic_num: Option<i32>,
    }
}

header! {
    /// GET_TOPIC_STATS_INFO (202): offsets and last update of each queue.
    pub struct GetTopicStatsInfo<'a>: topic {
        "topic" topic: Cow<'a, str>,
    }
}

header! {
    /// QUERY_TOPIC_CONSUME_BY_WHO (300): the groups that consume a topic.
    pub struct QueryTopicConsumeByWho<'a>: topic {
        "topic" topic: Cow<'a, str>,
    }
}

header! {
    /// QUERY_TOPICS_BY_CONSUMER (343): the topics that a group consumes.
    pub struct QueryTopicsByConsumer<'a>: rpc {
        "group" group: Cow<'a, str>,
    }
}

header! {
    /// Announces the order configuration of a topic.
    pub struct RegisterOrderTopic<'a> {
        "topic" topic: Cow<'a, str>,
        "orderTopicString" order_topic_string: Cow<'a, str>,
    }
}
