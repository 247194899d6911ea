//! A queue of a topic on a broker, as bodies name it.

use serde::{Deserialize, Serialize};

/// Java's `MessageQueue`. Also a map key: see [`ObjectKey`](super::fastjson::ObjectKey).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageQueue {
    /// The broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_name: Option<String>,
    /// The queue id.
    pub queue_id: i32,
    /// The topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}

impl MessageQueue {
    /// A queue of this broker.
    pub fn new(topic: &str, broker: &str, queue_id: i32) -> MessageQueue {
        MessageQueue { broker_name: Some(broker.to_owned()), queue_id, topic: Some(topic.to_owned()) }
    }
}
