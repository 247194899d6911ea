//! GET_ALL_TOPIC_CONFIG (21): the whole table of topics, or a part of it.

use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::body::topic::TopicConfigAndMapping;
use remoting::header::{Empty, Header};
use remoting::header::{GetAllTopicConfig, GetAllTopicConfigResponse};
use remoting::server::{Cx, Handler, Outcome};

use crate::handlers::json;
use crate::static_topics::StaticTopics;
use crate::topics::TopicTable;

/// Answers with the topics sorted by name. Requests without fields (older slaves) get all of them.
pub struct AllTopics {
    config: Arc<Live<BrokerConfig>>,
    topics: Arc<TopicTable>,
    static_topics: Arc<StaticTopics>,
}

impl AllTopics {
    /// The handler.
    pub fn new(
        config: Arc<Live<BrokerConfig>>,
        topics: Arc<TopicTable>,
        static_topics: Arc<StaticTopics>,
    ) -> AllTopics {
        AllTopics { config, topics, static_topics }
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
        let whole = range == (0..total);
        let part = topics.get(range).unwrap_or_default();
        let (mut mappings, mapping_data_version) = self.static_topics.snapshot();
        if !whole {
            mappings.retain(|topic, _| part.binary_search_by(|known| known.topic_name.cmp(topic)).is_ok());
        }
        let body = TopicConfigAndMapping {
            data_version,
            mapping_data_version,
            topic_config_table: part.iter().map(|topic| (topic.topic_name.clone(), topic.config().clone())).collect(),
            topic_queue_mapping_detail_map: mappings
                .into_iter()
                .map(|(topic, mapping)| (topic, mapping.detail().clone()))
                .collect(),
            ..TopicConfigAndMapping::default()
        };
        let header = GetAllTopicConfigResponse { total_topic_num: i32::try_from(total).ok() };
        json(&body).header(&header).into()
    }
}
