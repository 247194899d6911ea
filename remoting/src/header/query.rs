//! Looking for messages and at queue files.

use std::borrow::Cow;

use crate::header;

header! {
    /// QUERY_MESSAGE (12): messages of a topic by key and time.
    pub struct QueryMessage<'a>: topic {
        "topic" topic: Cow<'a, str>,
        "key" key: Cow<'a, str>,
        "maxNum" max_num: i32,
        "beginTimestamp" begin_timestamp: i64,
        "endTimestamp" end_timestamp: i64,
        "indexType" index_type: Option<Cow<'a, str>>,
        "lastKey" last_key: Option<Cow<'a, str>>,
    }
}

header! {
    /// How far the index has come.
    pub struct QueryMessageResponse {
        "indexLastUpdateTimestamp" index_last_update_timestamp: i64,
        "indexLastUpdatePhyoffset" index_last_update_phy_offset: i64,
    }
}

header! {
    /// VIEW_MESSAGE_BY_ID (33): the message at a position of the commit log.
    pub struct ViewMessage<'a> {
        "topic" topic: Option<Cow<'a, str>>,
        "offset" offset: i64,
    }
}

header! {
    /// The answer to [`ViewMessage`] has no fields: the message is the body.
    pub struct ViewMessageResponse {}
}

header! {
    /// QUERY_CONSUME_QUEUE (321): entries of a consume queue, as a filter sees them.
    pub struct QueryConsumeQueue<'a>: topic {
        "topic" topic: Option<Cow<'a, str>>,
        "queueId" queue_id: i32 = 0,
        "index" index: i64 = 0,
        "count" count: i32 = 0,
        "consumerGroup" consumer_group: Option<Cow<'a, str>>,
    }
}

header! {
    /// CHECK_ROCKSDB_CQ_WRITE_PROGRESS (354): compares consume queues in files with those in RocksDB.
    pub struct CheckRocksdbCqWriteProgress<'a> {
        "topic" topic: Cow<'a, str>,
        "checkStoreTime" check_store_time: i64 = 0,
    }
}
