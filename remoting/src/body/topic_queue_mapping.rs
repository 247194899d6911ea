//! Static topics: which broker holds which logical queue.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The part of a static topic's mapping that a route shows. Java's `TopicQueueMappingInfo`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicQueueMappingInfo {
    /// The broker's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bname: Option<String>,
    /// Logical queue id to the broker's queue id.
    pub curr_id_map: BTreeMap<i32, i32>,
    /// Not in a state to be used.
    pub dirty: bool,
    /// The newer of two mappings has the greater epoch.
    pub epoch: i64,
    /// `__global__` or a scope's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Logical queues over all brokers.
    pub total_queues: i32,
}

impl Default for TopicQueueMappingInfo {
    fn default() -> Self {
        TopicQueueMappingInfo {
            bname: None,
            curr_id_map: BTreeMap::new(),
            dirty: false,
            epoch: 0,
            scope: Some("__global__".to_owned()),
            topic: None,
            total_queues: 0,
        }
    }
}
