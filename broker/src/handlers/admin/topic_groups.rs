//! QUERY_TOPIC_CONSUME_BY_WHO (300): the groups that consume a topic.

use std::sync::Arc;

use remoting::body::group_list::GroupList;
use remoting::header::QueryTopicConsumeByWho;
use remoting::server::{Cx, Handler, Outcome};

use crate::clients::Consumers;
use crate::handlers::json;
use crate::offsets::Offsets;

/// Answers with connected subscribers and with groups that have committed offsets.
pub struct TopicGroups {
    consumers: Arc<Consumers>,
    offsets: Arc<Offsets>,
}

impl TopicGroups {
    /// The handler.
    pub fn new(consumers: Arc<Consumers>, offsets: Arc<Offsets>) -> TopicGroups {
        TopicGroups { consumers, offsets }
    }
}

impl Handler for TopicGroups {
    type Request<'a> = QueryTopicConsumeByWho<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let connected = self.consumers.groups_of(&request.topic);
        json(&GroupList { group_list: connected.into_iter().chain(self.offsets.groups_of(&request.topic)).collect() })
            .into()
    }
}
