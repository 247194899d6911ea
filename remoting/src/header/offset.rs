//! Offsets of queues and of consumers.

use std::borrow::Cow;

use crate::fields::BoundaryType;
use crate::header;

header! {
    /// GET_MAX_OFFSET (30): the offset behind the last message of a queue.
    pub struct GetMaxOffset<'a>: topic {
        "topic" topic: Cow<'a, str>,
        "queueId" queue_id: i32,
        "committed" committed: bool = true,
    }
}

header! {
    /// The answer to [`GetMaxOffset`].
    pub struct GetMaxOffsetResponse {
        "offset" offset: i64,
    }
}

header! {
    /// GET_MIN_OFFSET (31): the offset of the first message of a queue.
    pub struct GetMinOffset<'a>: topic {
        "topic" topic: Cow<'a, str>,
        "queueId" queue_id: i32,
    }
}

header! {
    /// The answer to [`GetMinOffset`].
    pub struct GetMinOffsetResponse {
        "offset" offset: i64,
    }
}

header! {
    /// SEARCH_OFFSET_BY_TIMESTAMP (29): the offset of a queue at a time.
    pub struct SearchOffset<'a>: topic {
        "topic" topic: Cow<'a, str>,
        "liteTopic" lite_topic: Option<Cow<'a, str>>,
        "queueId" queue_id: i32,
        "timestamp" timestamp: i64,
        "boundaryType" boundary_type: Option<BoundaryType>,
    }
}

header! {
    /// The answer to [`SearchOffset`].
    pub struct SearchOffsetResponse {
        "offset" offset: i64,
    }
}

header! {
    /// GET_EARLIEST_MSG_STORETIME (32): when the first message of a queue was stored.
    pub struct GetEarliestMsgStoretime<'a>: topic {
        "topic" topic: Cow<'a, str>,
        "queueId" queue_id: i32,
    }
}

header! {
    /// The answer to [`GetEarliestMsgStoretime`], in milliseconds since 1970.
    pub struct GetEarliestMsgStoretimeResponse {
        "timestamp" timestamp: i64,
    }
}

header! {
    /// QUERY_CONSUMER_OFFSET (14): how far a group has come in a queue.
    pub struct QueryConsumerOffset<'a>: topic {
        "consumerGroup" consumer_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        "queueId" queue_id: i32,
        "setZeroIfNotFound" set_zero_if_not_found: Option<bool>,
    }
}

header! {
    /// The answer to [`QueryConsumerOffset`].
    pub struct QueryConsumerOffsetResponse {
        "offset" offset: i64,
    }
}

header! {
    /// UPDATE_CONSUMER_OFFSET (15): a group has come so far in a queue.
    pub struct UpdateConsumerOffset<'a>: topic {
        "consumerGroup" consumer_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        "queueId" queue_id: i32,
        "commitOffset" commit_offset: i64,
    }
}

header! {
    /// The answer to [`UpdateConsumerOffset`] has no fields.
    pub struct UpdateConsumerOffsetResponse {}
}

header! {
    /// Sets the offsets of a new group.
    pub struct InitConsumerOffset<'a>: topic {
        "topic" topic: Option<Cow<'a, str>>,
        "initMode" init_mode: i32 = 0,
    }
}

header! {
    /// INVOKE_BROKER_TO_RESET_OFFSET (222), and RESET_CONSUMER_CLIENT_OFFSET (220) to the clients.
    pub struct ResetOffset<'a>: topic {
        "group" group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
        "queueId" queue_id: i32 = -1,
        "offset" offset: Option<i64>,
        required "timestamp" timestamp: i64 = 0,
        required "isForce" is_force: bool = false,
    }
}

header! {
    /// CLONE_GROUP_OFFSET (314): copies the offsets of one group to another.
    pub struct CloneGroupOffset<'a>: rpc {
        "srcGroup" src_group: Cow<'a, str>,
        "destGroup" dest_group: Cow<'a, str>,
        "topic" topic: Option<Cow<'a, str>>,
        "offline" offline: bool = false,
    }
}

header! {
    /// QUERY_CORRECTION_OFFSET (308): the smallest offsets of other groups on a topic.
    pub struct QueryCorrectionOffset<'a>: topic {
        "filterGroups" filter_groups: Option<Cow<'a, str>>,
        "compareGroup" compare_group: Cow<'a, str>,
        "topic" topic: Cow<'a, str>,
    }
}
