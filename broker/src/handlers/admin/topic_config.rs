//! GET_TOPIC_CONFIG (351): the settings of a topic.

use std::sync::Arc;

use remoting::body::topic_queue_mapping::TopicConfigAndQueueMapping;
use remoting::header::GetTopicConfig;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::handlers::json;
use crate::static_topics::StaticTopics;
use crate::topics::TopicTable;

/// Answers with a topic's settings, and with its mapping when it is a static one and the request says `lo=true`.
pub struct TopicSettings {
    topics: Arc<TopicTable>,
    static_topics: Arc<StaticTopics>,
}

impl TopicSettings {
    /// The handler.
    pub fn new(topics: Arc<TopicTable>, static_topics: Arc<StaticTopics>) -> TopicSettings {
        TopicSettings { topics, static_topics }
    }
}

impl Handler for TopicSettings {
    type Request<'a> = GetTopicConfig<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        match self.topics.get(&request.topic) {
            Some(topic) => {
                let wanted = request.lo == Some(true);
                let mapping = wanted.then(|| self.static_topics.find(&request.topic, None)).flatten();
                json(&TopicConfigAndQueueMapping {
                    attributes: &topic.attributes,
                    mapping_detail: mapping.as_ref().map(|mapping| mapping.detail()),
                    order: topic.order,
                    perm: topic.perm,
                    read_queue_nums: topic.read_queue_nums,
                    topic_filter_type: topic.topic_filter_type,
                    topic_name: &topic.topic_name,
                    topic_sys_flag: topic.topic_sys_flag,
                    write_queue_nums: topic.write_queue_nums,
                })
                .into()
            }
            None => {
                let remark = format!("No topic in this broker. topic: {}", request.topic);
                Reply::error(ResponseCode::TOPIC_NOT_EXIST, remark).into()
            }
        }
    }
}
