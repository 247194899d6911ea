//! Offsets by queue: INVOKE_BROKER_TO_RESET_OFFSET (222), RESET_CONSUMER_CLIENT_OFFSET (220),
//! INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223), GET_CONSUMER_STATUS_FROM_CLIENT (221), QUERY_CORRECTION_OFFSET (308).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fastjson::ObjectKey;
use super::message_queue::MessageQueue;

/// Offsets by queue.
pub type QueueTable = BTreeMap<ObjectKey<MessageQueue>, i64>;

/// The offsets that queues were or are to be reset to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetOffsets {
    /// The offsets.
    pub offset_table: QueueTable,
}

/// The same for C++ clients, which cannot read objects as keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetOffsetList {
    /// The offsets.
    pub offset_table: Vec<QueueOffset>,
}

/// A queue with its offset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueOffset {
    /// The broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_name: Option<String>,
    /// The offset.
    pub offset: i64,
    /// The queue id.
    pub queue_id: i32,
    /// The topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}

impl From<&ResetOffsets> for ResetOffsetList {
    fn from(offsets: &ResetOffsets) -> ResetOffsetList {
        let list = offsets.offset_table.iter().map(|(ObjectKey(queue), offset)| QueueOffset {
            broker_name: queue.broker_name.clone(),
            offset: *offset,
            queue_id: queue.queue_id,
            topic: queue.topic.clone(),
        });
        ResetOffsetList { offset_table: list.collect() }
    }
}

/// How far consumers are: one tells of its queues, a broker of its consumers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerStatus {
    /// A broker's answer, by client id.
    pub consumer_table: BTreeMap<String, QueueTable>,
    /// A client's answer.
    pub message_queue_table: QueueTable,
}

/// The offsets that a group can go on from, by queue id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CorrectionOffsets {
    /// The offsets; the greatest number where the group is behind all others.
    pub correction_offsets: BTreeMap<i32, i64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::fastjson;

    fn text<T: Serialize>(value: &T) -> String {
        String::from_utf8(fastjson::to_vec(value).unwrap()).unwrap()
    }

    /// As a Java 5.5.0 broker answers, but for the order of the queues.
    #[test]
    fn tables_as_java_writes_them() {
        let java = r#"{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"WireTopic"}:4,{"brokerName":"broker-a","queueId":3,"topic":"WireTopic"}:4}}"#;
        let offsets: ResetOffsets = fastjson::from_slice(java.as_bytes()).unwrap();
        assert_eq!(text(&offsets), java);
        let list = r#"{"offsetTable":[{"brokerName":"broker-a","offset":4,"queueId":0,"topic":"WireTopic"},{"brokerName":"broker-a","offset":4,"queueId":3,"topic":"WireTopic"}]}"#;
        assert_eq!(text(&ResetOffsetList::from(&offsets)), list);
        let java = r#"{"consumerTable":{"127.0.0.1@29685#3410628405187":{{"brokerName":"broker-a","queueId":0,"topic":"WireTopic"}:2}},"messageQueueTable":{}}"#;
        let status: ConsumerStatus = fastjson::from_slice(java.as_bytes()).unwrap();
        assert_eq!(text(&status), java);
        let correction = CorrectionOffsets { correction_offsets: [(0, 5), (1, i64::MAX)].into() };
        assert_eq!(text(&correction), r#"{"correctionOffsets":{0:5,1:9223372036854775807}}"#);
    }
}
