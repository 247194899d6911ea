//! QUERY_TOPICS_BY_CONSUMER (343): the topics that a group has consumed.

use std::sync::Arc;

use remoting::body::topic_list::TopicList;
use remoting::header::QueryTopicsByConsumer;
use remoting::server::{Cx, Handler, Outcome};

use crate::handlers::json;
use crate::identity::Identity;
use crate::offsets::Offsets;

/// Answers with the topics that a group has committed offsets of.
pub struct GroupTopics {
    identity: Arc<Identity>,
    offsets: Arc<Offsets>,
}

impl GroupTopics {
    /// The handler.
    pub fn new(identity: Arc<Identity>, offsets: Arc<Offsets>) -> GroupTopics {
        GroupTopics { identity, offsets }
    }
}

impl Handler for GroupTopics {
    type Request<'a> = QueryTopicsByConsumer<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let broker_addr = Some(self.identity.addr.clone());
        json(&TopicList { broker_addr, topic_list: self.offsets.topics_of(&request.group) }).into()
    }
}
