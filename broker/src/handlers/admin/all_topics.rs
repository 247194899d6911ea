//! GET_ALL_TOPIC_CONFIG (21): the whole table of topics, or a part of it.

use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::body::topic::{DataVersion, TopicConfigAndMapping};
use remoting::header::{Empty, Header};
use remoting::header::{GetAllTopicConfig, GetAllTopicConfigResponse};
use remoting::server::{Cx, Handler, Outcome};

use crate::handlers::json;
use crate::topics::TopicTable;

/// Answers with the topics sorted by name. Requests without fields (older slaves) get all of them.
pub struct AllTopics {
    config: Arc<Live<BrokerConfig>>,
    topics: Arc<TopicTable>,
    /// The version of the static topics' table, which is empty.
    mapping_version: DataVersion,
}

impl AllTopics {
    /// The handler.
    pub fn new(config: Arc<Live<BrokerConfig>>, topics: Arc<TopicTable>) -> AllTopics {
        AllTopics { config, topics, mapping_version: DataVersion::new() }
    }
}

impl Handler for AllTopics {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let fields = &cx.request().fields;
        let (topics, data_version) = self.topics.snapshot_with_version();
        let total = topics.len();
        let config = self.config.load();
        let range = if fields.is_empty() || !config.enable_split_metadata {
            0..total
        } else {
            match GetAllTopicConfig::read(fields) {
                Ok(part) => {
                    let known = part.data_version.as_deref();
                    super::part(
                        part.topic_seq,
                        part.max_topic_num,
                        known,
                        &data_version,
                        config.split_metadata_size,
                        total,
                    )
                }
                Err(error) => return self.bad_header(error).into(),
            }
        };
        let part = topics.get(range).unwrap_or_default();
        let body = TopicConfigAndMapping {
            data_version,
            mapping_data_version: self.mapping_version,
            topic_config_table: part.iter().map(|topic| (topic.topic_name.clone(), topic.config().clone())).collect(),
            ..TopicConfigAndMapping::default()
        };
        let header = GetAllTopicConfigResponse { total_topic_num: i32::try_from(total).ok() };
        json(&body).header(&header).into()
    }
}
