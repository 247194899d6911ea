//! Bodies of LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::message_queue::MessageQueue;

/// Who wants to lock or unlock which queues: Java's `LockBatchRequestBody` and `UnlockBatchRequestBody`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockBatch {
    /// The client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Its group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_group: Option<String>,
    /// The queues.
    pub mq_set: BTreeSet<MessageQueue>,
    /// Not to be asked of the other replicas.
    pub only_this_broker: bool,
}

/// The queues that the client holds now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockBatchResult {
    /// The queues.
    #[serde(rename = "lockOKMQSet", default)]
    pub locked: BTreeSet<MessageQueue>,
}
