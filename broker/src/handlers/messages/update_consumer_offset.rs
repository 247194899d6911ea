//! UPDATE_CONSUMER_OFFSET (15): a consumer says how far it has come.

use std::borrow::Cow;
use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::ResponseCode;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};

use crate::groups::Groups;
use crate::offsets::Offsets;
use crate::static_topics::{Commit, LogicalOffsets};
use crate::topics::TopicTable;

remoting::header! {
    /// The header, in which anything may be missing: what that means is decided after topic and group are known.
    pub struct Request<'a>: topic {
        "consumerGroup" group: Option<Cow<'a, str>>,
        "topic" topic: Option<Cow<'a, str>>,
        "queueId" queue_id: Option<i32>,
        "commitOffset" offset: Option<i64>,
    }
}

/// Stores the offset as it comes: nothing is clamped, moving back is allowed.
pub struct UpdateConsumerOffset {
    config: Arc<Live<BrokerConfig>>,
    groups: Arc<Groups>,
    topics: Arc<TopicTable>,
    offsets: Arc<Offsets>,
    logical: Arc<LogicalOffsets>,
}

impl UpdateConsumerOffset {
    /// The handler.
    pub fn new(
        config: Arc<Live<BrokerConfig>>,
        groups: Arc<Groups>,
        topics: Arc<TopicTable>,
        offsets: Arc<Offsets>,
        logical: Arc<LogicalOffsets>,
    ) -> UpdateConsumerOffset {
        UpdateConsumerOffset { config, groups, topics, offsets, logical }
    }
}

impl Handler for UpdateConsumerOffset {
    type Request<'a> = Request<'a>;

    fn handle(&self, cx: &mut Cx<'_>, mut request: Self::Request<'_>) -> Outcome {
        let mapping = request.topic.as_deref().and_then(|topic| self.logical.topics.find(topic, request.lo));
        if let (Some(mapping), Some(id), Some(offset)) = (mapping, request.queue_id, request.offset) {
            let group = request.group.as_deref().unwrap_or("null");
            match self.logical.commit(mapping, id, offset, group) {
                Commit::Here { queue_id, offset } => {
                    (request.queue_id, request.offset) = (Some(queue_id), Some(offset));
                }
                Commit::Done(outcome) => return outcome,
            }
        }
        let group = request.group.as_deref().unwrap_or("null");
        let topic = request.topic.as_deref().unwrap_or("null");
        if !self.groups.contains(group) {
            let remark = format!("Group {group} not exist!");
            return cx.write(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, Some(&remark), &Empty, &[]);
        }
        if !self.topics.contains(topic) {
            let remark = format!("Topic {topic} not exist!");
            return cx.write(ResponseCode::TOPIC_NOT_EXIST, Some(&remark), &Empty, &[]);
        }
        let Some(queue_id) = request.queue_id else {
            let remark = format!("QueueId is null, topic is {topic}");
            return cx.write(ResponseCode::INVALID_PARAMETER, Some(&remark), &Empty, &[]);
        };
        let Some(offset) = request.offset else {
            let remark = format!("Offset is null, topic is {topic}");
            return cx.write(ResponseCode::INVALID_PARAMETER, Some(&remark), &Empty, &[]);
        };
        if self.config.load().use_server_side_reset_offset && self.offsets.has_reset(group, topic, queue_id) {
            return cx.write(ResponseCode::SUCCESS, Some("Offset has been previously reset"), &Empty, &[]);
        }
        self.offsets.commit(group, topic, queue_id, offset);
        cx.write(ResponseCode::SUCCESS, None, &Empty, &[])
    }
}
