//! GET_TOPIC_CONFIG (351): the settings of a topic.

use std::sync::Arc;

use remoting::header::GetTopicConfig;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::handlers::json;
use crate::topics::TopicTable;

/// Answers with a topic's settings.
pub struct TopicSettings {
    topics: Arc<TopicTable>,
}

impl TopicSettings {
    /// The handler.
    pub fn new(topics: Arc<TopicTable>) -> TopicSettings {
        TopicSettings { topics }
    }
}

impl Handler for TopicSettings {
    type Request<'a> = GetTopicConfig<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        match self.topics.get(&request.topic) {
            Some(topic) => json(topic.config()).into(),
            None => {
                let remark = format!("No topic in this broker. topic: {}", request.topic);
                Reply::error(ResponseCode::TOPIC_NOT_EXIST, remark).into()
            }
        }
    }
}
