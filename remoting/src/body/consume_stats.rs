//! The answers to GET_CONSUME_STATS (208), QUERY_CONSUME_TIME_SPAN (303) and GET_BROKER_CONSUME_STATS (317).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fastjson::ObjectKey;
use super::message_queue::MessageQueue;

/// How far a group is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStats {
    /// Messages a second.
    pub consume_tps: f64,
    /// By queue.
    pub offset_table: BTreeMap<ObjectKey<MessageQueue>, OffsetWrapper>,
}

/// How far a group is in a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OffsetWrapper {
    /// The queue's end, exclusive.
    pub broker_offset: i64,
    /// What is consumed, exclusive.
    pub consumer_offset: i64,
    /// Store time of the last consumed message (ms since the epoch).
    pub last_timestamp: i64,
    /// What is pulled, exclusive.
    pub pull_offset: i64,
}

impl ConsumeStats {
    /// Messages that are not consumed.
    pub fn behind(&self) -> i64 {
        self.offset_table.values().map(|queue| queue.broker_offset - queue.consumer_offset).sum()
    }

    /// Messages that are pulled and not consumed. Where no pull offset is told it counts as 0, as in Java.
    pub fn in_flight(&self) -> i64 {
        self.offset_table.values().map(|queue| queue.pull_offset - queue.consumer_offset).sum()
    }
}

/// How far all groups of a broker are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStatsList {
    /// The broker's address.
    pub broker_addr: String,
    /// One map a group, with the group's name as its only key; one element a topic.
    pub consume_stats_list: Vec<BTreeMap<String, Vec<ConsumeStats>>>,
    /// Sum of [`ConsumeStats::behind`].
    pub total_diff: i64,
    /// Sum of [`ConsumeStats::in_flight`].
    pub total_inflight_diff: i64,
}

/// Times of messages in the queues of a topic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeTimeSpans {
    /// One a queue.
    pub consume_time_span_set: Vec<QueueTimeSpan>,
}

/// Times of messages in a queue (ms since the epoch).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueTimeSpan {
    /// Of the message to be consumed next.
    pub consume_time_stamp: i64,
    /// The same in local time: `2026-11-29#17:27:20:776`.
    pub consume_time_stamp_str: String,
    /// How far consumption is behind (ms).
    pub delay_time: i64,
    /// Of the last message.
    pub max_time_stamp: i64,
    /// The same in local time.
    pub max_time_stamp_str: String,
    /// The queue.
    pub message_queue: MessageQueue,
    /// Of the first message.
    pub min_time_stamp: i64,
    /// The same in local time.
    pub min_time_stamp_str: String,
}
