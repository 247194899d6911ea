//! The answer to GET_TOPIC_STATS_INFO (202).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fastjson::ObjectKey;
use super::message_queue::MessageQueue;

/// Where the queues of a topic begin and end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicStatsTable {
    /// By queue.
    pub offset_table: BTreeMap<ObjectKey<MessageQueue>, TopicOffset>,
    /// Messages a second that are put.
    pub topic_put_tps: f64,
}

/// Where a queue begins and ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicOffset {
    /// Store time of the last message (ms since the epoch), 0 when there is none.
    pub last_update_timestamp: i64,
    /// Highest offset, exclusive.
    pub max_offset: i64,
    /// Lowest offset.
    pub min_offset: i64,
}
