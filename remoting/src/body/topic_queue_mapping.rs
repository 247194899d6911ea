//! Static topics: which broker holds which logical queue, and how its offsets follow from those of the brokers' queues.
//!
//! A logical queue is a row of [`LogicQueueMappingItem`]s, each a queue of some broker; the last one takes the messages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::topic::TopicFilterType;

/// The scope of a static topic that spans all clusters.
pub const GLOBAL_SCOPE: &str = "__global__";

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
            scope: Some(GLOBAL_SCOPE.to_owned()),
            topic: None,
            total_queues: 0,
        }
    }
}

/// The whole mapping of a static topic on one broker. Java's `TopicQueueMappingDetail`: the body of
/// UPDATE_AND_CREATE_STATIC_TOPIC (513), and a value of `config/topicQueueMapping.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicQueueMappingDetail {
    /// The broker's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bname: Option<String>,
    /// Always empty: only routes have it.
    pub curr_id_map: BTreeMap<i32, i32>,
    /// Not in a state to be used.
    pub dirty: bool,
    /// The newer of two mappings has the greater epoch.
    pub epoch: i64,
    /// The items of the logical queues that this broker holds or has held, by logical queue id, the oldest first.
    pub hosted_queues: BTreeMap<i32, Vec<LogicQueueMappingItem>>,
    /// `__global__` or a scope's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Logical queues over all brokers.
    pub total_queues: i32,
}

impl Default for TopicQueueMappingDetail {
    fn default() -> Self {
        TopicQueueMappingDetail {
            bname: None,
            curr_id_map: BTreeMap::new(),
            dirty: false,
            epoch: 0,
            hosted_queues: BTreeMap::new(),
            scope: Some(GLOBAL_SCOPE.to_owned()),
            topic: None,
            total_queues: 0,
        }
    }
}

/// A part of a logical queue: offsets of one queue of one broker. Java's `LogicQueueMappingItem`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LogicQueueMappingItem {
    /// The broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bname: Option<String>,
    /// Behind its last offset in the broker's queue; -1 while that is not decided.
    pub end_offset: i64,
    /// Counts the items of a logical queue, those that are gone included.
    #[serde(rename = "gen")]
    pub generation: i32,
    /// The logical offset of its first message; -1 while that is not decided.
    pub logic_offset: i64,
    /// The queue of that broker.
    pub queue_id: i32,
    /// Its first offset in the broker's queue.
    pub start_offset: i64,
    /// Not used.
    pub time_of_end: i64,
    /// Not used.
    pub time_of_start: i64,
}

impl Default for LogicQueueMappingItem {
    fn default() -> Self {
        LogicQueueMappingItem {
            bname: None,
            end_offset: -1,
            generation: 0,
            logic_offset: 0,
            queue_id: 0,
            start_offset: 0,
            time_of_end: -1,
            time_of_start: -1,
        }
    }
}

impl LogicQueueMappingItem {
    /// Whether the item has a place in its logical queue yet.
    pub fn is_placed(&self) -> bool {
        self.logic_offset >= 0
    }

    /// Whether it is known where the item ends.
    pub fn is_closed(&self) -> bool {
        self.end_offset > self.start_offset
    }

    /// What has to be added to an offset of the broker's queue.
    pub fn delta(&self) -> i64 {
        self.logic_offset.wrapping_sub(self.start_offset)
    }

    /// The logical offset of an offset of the broker's queue, at least that of the item's first message.
    pub fn logical(&self, offset: i64) -> i64 {
        if offset < self.start_offset { self.logic_offset } else { self.delta().wrapping_add(offset) }
    }

    /// As [`LogicQueueMappingItem::logical`], within the item: also not above its end. -1 while the item has no place.
    pub fn logical_within(&self, offset: i64) -> i64 {
        match (self.is_placed(), self.end_offset) {
            (false, _) => -1,
            (true, end) if end >= self.start_offset && end < offset => self.logical(end),
            _ => self.logical(offset),
        }
    }

    /// The offset in the broker's queue of a logical one.
    pub fn physical(&self, logical: i64) -> i64 {
        logical.wrapping_sub(self.delta())
    }

    /// The highest logical offset that the mapping alone tells of: the item's end, or where it begins.
    pub fn known_end(&self) -> i64 {
        if self.end_offset >= self.start_offset { self.logical(self.end_offset) } else { self.logic_offset }
    }
}

/// A topic's settings with its mapping. Java's `TopicConfigAndQueueMapping`: the answer to GET_TOPIC_CONFIG (351).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct TopicConfigAndQueueMapping<'a> {
    pub attributes: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapping_detail: Option<&'a TopicQueueMappingDetail>,
    pub order: bool,
    pub perm: i32,
    pub read_queue_nums: i32,
    pub topic_filter_type: TopicFilterType,
    pub topic_name: &'a str,
    pub topic_sys_flag: i32,
    pub write_queue_nums: i32,
}

/// What a broker reads of another one's [`TopicConfigAndQueueMapping`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RemoteTopicMapping {
    /// The mapping there.
    pub mapping_detail: Option<TopicQueueMappingDetail>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::fastjson;

    /// The body of the recorded UPDATE_AND_CREATE_STATIC_TOPIC, with one queue.
    const DETAIL: &str = r#"{"bname":"broker-a","currIdMap":{},"dirty":false,"epoch":1795971933179,"hostedQueues":{0:[{"bname":"broker-a","endOffset":-1,"gen":0,"logicOffset":0,"queueId":0,"startOffset":0,"timeOfEnd":-1,"timeOfStart":-1}]},"scope":"__global__","topic":"CliStatic","totalQueues":1}"#;

    #[test]
    fn a_mapping_as_java_writes_it() {
        let detail: TopicQueueMappingDetail = fastjson::from_slice(DETAIL.as_bytes()).unwrap();
        assert_eq!(
            detail.hosted_queues[&0],
            [LogicQueueMappingItem { bname: Some("broker-a".into()), ..Default::default() }]
        );
        assert_eq!(String::from_utf8(fastjson::to_vec(&detail).unwrap()).unwrap(), DETAIL);
    }

    #[test]
    fn offsets_of_an_item() {
        let item = LogicQueueMappingItem { logic_offset: 1000, start_offset: 10, end_offset: 30, ..Default::default() };
        assert!(item.is_placed() && item.is_closed());
        assert_eq!([5, 10, 15, 30, 40].map(|offset| item.logical(offset)), [1000, 1000, 1005, 1020, 1030]);
        assert_eq!([5, 10, 15, 30, 40].map(|offset| item.logical_within(offset)), [1000, 1000, 1005, 1020, 1020]);
        assert_eq!([1000, 1005].map(|offset| item.physical(offset)), [10, 15]);
        assert_eq!((item.delta(), item.known_end()), (990, 1020));
        let open = LogicQueueMappingItem { logic_offset: 1000, ..Default::default() };
        assert!(!open.is_closed());
        assert_eq!((open.logical_within(40), open.known_end()), (1040, 1000));
        let unplaced = LogicQueueMappingItem { logic_offset: -1, ..Default::default() };
        assert!(!unplaced.is_placed());
        assert_eq!(unplaced.logical_within(40), -1);
    }
}
