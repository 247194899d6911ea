//! The answer to QUERY_CONSUME_QUEUE (321).

use serde::{Deserialize, Serialize};

use super::heartbeat::SubscriptionData;

/// Entries of a consume queue and, when a group was named, what it wants of the topic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeQueueEntries {
    /// The compiled filter of the group as JSON, `null` (as text) when there is none, or why there is no group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_data: Option<String>,
    /// The queue's end, exclusive.
    pub max_queue_index: i64,
    /// The lowest readable offset.
    pub min_queue_index: i64,
    /// The entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_data: Option<Vec<ConsumeQueueEntry>>,
    /// The group's subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data: Option<SubscriptionData>,
}

/// One entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeQueueEntry {
    /// Bits of the filters that match the message, the highest first, 64 a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit_map: Option<String>,
    /// Whether the group's filter lets it pass; false when that was not asked for.
    pub eval: bool,
    /// What the queue's extension has, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extend_data_json: Option<String>,
    /// Something that is wrong with the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msg: Option<String>,
    /// Offset of the record in the commitlog.
    pub physic_offset: i64,
    /// Length of the record in bytes.
    pub physic_size: i32,
    /// Hash of the tags; of a delayed message its time.
    pub tags_code: i64,
}

/// What the queue's extension has of an entry: the object in [`ConsumeQueueEntry::extend_data_json`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedEntry {
    /// The bits as bytes with a sign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_bit_map: Option<Vec<i8>>,
    /// When the record was stored (ms since the epoch).
    pub msg_store_time: i64,
    /// Length of the unit in bytes.
    pub size: i16,
    /// Hash of the tags; of a delayed message its time.
    pub tags_code: i64,
}
