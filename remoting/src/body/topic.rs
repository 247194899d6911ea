//! The configuration of a topic, as brokers keep, register and answer it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use super::data_version::DataVersion;
use super::topic_queue_mapping::{TopicQueueMappingDetail, TopicQueueMappingInfo};

/// Permission bit: this broker's queues of the topic go before others' (inherited from a default topic).
pub const PERM_PRIORITY: i32 = 1 << 3;
/// Permission bit: messages may be read.
pub const PERM_READ: i32 = 1 << 2;
/// Permission bit: messages may be sent.
pub const PERM_WRITE: i32 = 1 << 1;
/// Permission bit: new topics may be made after this one.
pub const PERM_INHERIT: i32 = 1;

/// Bit of [`TopicConfig::topic_sys_flag`]: a topic of a unit.
pub const FLAG_UNIT: i32 = 1;
/// Bit of [`TopicConfig::topic_sys_flag`]: consumers of a unit read it.
pub const FLAG_UNIT_SUB: i32 = 1 << 1;

/// Java's `TopicConfig`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicConfig {
    /// What `updateTopic -a` sets: message type, queue type, clean-up policy.
    pub attributes: BTreeMap<String, String>,
    /// Only for tools: the topic is meant for ordered messages.
    pub order: bool,
    /// `PERM_` bits.
    pub perm: i32,
    /// Number of queues that consumers see.
    pub read_queue_nums: i32,
    /// Not used by any broker; kept because it is written.
    pub topic_filter_type: TopicFilterType,
    /// Name.
    pub topic_name: String,
    /// `FLAG_` bits.
    pub topic_sys_flag: i32,
    /// Number of queues that producers see.
    pub write_queue_nums: i32,
}

impl Default for TopicConfig {
    /// Java's defaults: 16 queues, read and write.
    fn default() -> Self {
        TopicConfig {
            attributes: BTreeMap::new(),
            order: false,
            perm: PERM_READ | PERM_WRITE,
            read_queue_nums: 16,
            topic_filter_type: TopicFilterType::SingleTag,
            topic_name: String::new(),
            topic_sys_flag: 0,
            write_queue_nums: 16,
        }
    }
}

impl TopicConfig {
    /// A topic with the same number of queues for reading and writing.
    pub fn new(name: impl Into<String>, queues: i32, perm: i32) -> TopicConfig {
        TopicConfig {
            topic_name: name.into(),
            read_queue_nums: queues,
            write_queue_nums: queues,
            perm,
            ..TopicConfig::default()
        }
    }

    /// The line of a compressed registration: name, queues, permission, filter type, attributes, separated by blanks.
    pub fn to_line(&self) -> String {
        let attributes = super::fastjson::to_vec(&self.attributes).unwrap_or_default();
        format!(
            "{} {} {} {} {} {}",
            self.topic_name,
            self.read_queue_nums,
            self.write_queue_nums,
            self.perm,
            self.topic_filter_type.name(),
            String::from_utf8_lossy(&attributes)
        )
    }

    /// Reads [`TopicConfig::to_line`]; `None` when it has fewer than five parts or a part is of the wrong type.
    ///
    /// As in Java, attributes that cannot be read (one holds a blank) count as none.
    pub fn from_line(line: &str) -> Option<TopicConfig> {
        let mut parts = line.split(' ');
        let mut config = TopicConfig { topic_name: parts.next()?.to_owned(), ..TopicConfig::default() };
        config.read_queue_nums = parts.next()?.parse().ok()?;
        config.write_queue_nums = parts.next()?.parse().ok()?;
        config.perm = parts.next()?.parse().ok()?;
        config.topic_filter_type = TopicFilterType::from_name(parts.next()?)?;
        if let Some(attributes) = parts.next() {
            config.attributes = super::fastjson::from_slice(attributes.as_bytes()).unwrap_or_default();
        }
        Some(config)
    }
}

/// Java's `TopicFilterType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Cow<'_, str>")]
pub enum TopicFilterType {
    /// The only one in use.
    #[default]
    #[serde(rename = "SINGLE_TAG")]
    SingleTag,
    /// Never implemented.
    #[serde(rename = "MULTI_TAG")]
    MultiTag,
}

impl TopicFilterType {
    /// Java's name.
    pub fn name(self) -> &'static str {
        match self {
            TopicFilterType::SingleTag => "SINGLE_TAG",
            TopicFilterType::MultiTag => "MULTI_TAG",
        }
    }

    fn from_name(name: &str) -> Option<TopicFilterType> {
        [TopicFilterType::SingleTag, TopicFilterType::MultiTag].into_iter().find(|kind| kind.name() == name)
    }
}

impl From<Cow<'_, str>> for TopicFilterType {
    /// An unknown name counts as the default.
    fn from(name: Cow<'_, str>) -> Self {
        TopicFilterType::from_name(&name).unwrap_or_default()
    }
}

/// A table of topics with its version: `config/topics.json`, the answer to GET_ALL_TOPIC_CONFIG of old brokers, and the
/// body of registrations before 3.0.11.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicConfigTable {
    /// Version of the table.
    pub data_version: DataVersion,
    /// By topic name.
    pub topic_config_table: BTreeMap<String, TopicConfig>,
}

/// Java's `TopicConfigAndMappingSerializeWrapper`: what a broker registers and what a slave copies from its master.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicConfigAndMapping {
    /// Version of the table of topics.
    pub data_version: DataVersion,
    /// Version of the static topics' mapping.
    pub mapping_data_version: DataVersion,
    /// By topic name.
    pub topic_config_table: BTreeMap<String, TopicConfig>,
    /// Static topics in full; only between master and slave.
    pub topic_queue_mapping_detail_map: BTreeMap<String, TopicQueueMappingDetail>,
    /// Static topics as far as routes need them.
    pub topic_queue_mapping_info_map: BTreeMap<String, TopicQueueMappingInfo>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::fastjson;

    #[test]
    fn as_java_writes_it() {
        let mut config = TopicConfig::new("T", 8, 6);
        config.attributes.insert("+message.type".into(), "FIFO".into());
        let text = r#"{"attributes":{"+message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":8}"#;
        assert_eq!(String::from_utf8(fastjson::to_vec(&config).unwrap()).unwrap(), text);
        assert_eq!(fastjson::from_slice::<TopicConfig>(text.as_bytes()).unwrap(), config);
    }

    #[test]
    fn missing_fields_have_javas_defaults() {
        let config: TopicConfig =
            fastjson::from_slice(br#"{"topicName":"T","topicFilterType":"X","attributes":null}"#).unwrap();
        assert_eq!(config, TopicConfig::new("T", 16, 6));
    }

    #[test]
    fn line_round_trip() {
        let mut config = TopicConfig::new("T", 8, 4);
        assert_eq!(config.to_line(), "T 8 8 4 SINGLE_TAG {}");
        assert_eq!(TopicConfig::from_line(&config.to_line()).unwrap(), config);
        assert_eq!(TopicConfig::from_line("T 8 8 4 SINGLE_TAG").unwrap(), config);
        assert_eq!(TopicConfig::from_line("T 8 8 4"), None);
        assert_eq!(TopicConfig::from_line("T 8 x 4 SINGLE_TAG {}"), None);
        config.attributes.insert("a".into(), "b c".into());
        assert!(TopicConfig::from_line(&config.to_line()).unwrap().attributes.is_empty());
    }
}
