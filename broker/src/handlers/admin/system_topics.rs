//! GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305): the topics that the broker keeps for itself.

use std::sync::Arc;

use remoting::body::topic_list::TopicList;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};

use crate::handlers::json;
use crate::names::SystemTopics;

/// Answers with the names of the system topics.
pub struct ListSystemTopics {
    system: Arc<SystemTopics>,
}

impl ListSystemTopics {
    /// The handler.
    pub fn new(system: Arc<SystemTopics>) -> ListSystemTopics {
        ListSystemTopics { system }
    }
}

impl Handler for ListSystemTopics {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        json(&TopicList { broker_addr: None, topic_list: self.system.names() }).into()
    }
}
