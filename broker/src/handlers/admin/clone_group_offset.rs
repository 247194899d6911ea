//! CLONE_GROUP_OFFSET (314): a group begins where another one is.

use std::sync::Arc;

use remoting::Reply;
use remoting::header;
use remoting::server::{Cx, Handler, Outcome};

use crate::clients::Consumers;
use crate::offsets::Offsets;
use crate::topics::TopicTable;

/// Copies the committed offsets of a topic. Without a topic nothing is copied, as in Java.
pub struct CloneGroupOffset {
    topics: Arc<TopicTable>,
    consumers: Arc<Consumers>,
    offsets: Arc<Offsets>,
}

impl CloneGroupOffset {
    /// The handler.
    pub fn new(topics: Arc<TopicTable>, consumers: Arc<Consumers>, offsets: Arc<Offsets>) -> CloneGroupOffset {
        CloneGroupOffset { topics, consumers, offsets }
    }

    /// Whether a connected group does not subscribe to the topic any more.
    fn has_left(&self, group: &str, topic: &str) -> bool {
        self.consumers.subscription_count(group) > 0 && self.consumers.subscription(group, topic).is_none()
    }
}

impl Handler for CloneGroupOffset {
    type Request<'a> = header::CloneGroupOffset<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let (from, to) = (request.src_group.as_ref(), request.dest_group.as_ref());
        let topic = request.topic.as_deref().unwrap_or_default();
        if !self.topics.contains(topic) {
            tracing::warn!(from, to, topic, "no offsets are copied: there is no such topic");
        } else if !request.offline && self.has_left(from, topic) {
            tracing::warn!(from, to, topic, "no offsets are copied: the group does not subscribe to the topic");
        } else {
            self.offsets.clone_group(from, to, topic);
        }
        Reply::ok().into()
    }
}
