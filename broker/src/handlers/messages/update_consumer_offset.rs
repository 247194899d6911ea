//! UPDATE_CONSUMER_OFFSET (15): a consumer says how far it has come.

use std::borrow::Cow;
use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::groups::Groups;
use crate::offsets::Offsets;
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
}

impl UpdateConsumerOffset {
    /// The handler.
    pub fn new(
        config: Arc<Live<BrokerConfig>>,
        groups: Arc<Groups>,
        topics: Arc<TopicTable>,
        offsets: Arc<Offsets>,
    ) -> UpdateConsumerOffset {
        UpdateConsumerOffset { config, groups, topics, offsets }
    }
}

impl Handler for UpdateConsumerOffset {
    type Request<'a> = Request<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let group = request.group.as_deref().unwrap_or("null");
        let topic = request.topic.as_deref().unwrap_or("null");
        if !self.groups.contains(group) {
            return Reply::error(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, format!("Group {group} not exist!"))
                .into();
        }
        if !self.topics.contains(topic) {
            return Reply::error(ResponseCode::TOPIC_NOT_EXIST, format!("Topic {topic} not exist!")).into();
        }
        let Some(queue_id) = request.queue_id else {
            let remark = format!("QueueId is null, topic is {topic}");
            return Reply::error(ResponseCode::INVALID_PARAMETER, remark).into();
        };
        let Some(offset) = request.offset else {
            return Reply::error(ResponseCode::INVALID_PARAMETER, format!("Offset is null, topic is {topic}")).into();
        };
        if self.config.load().use_server_side_reset_offset && self.offsets.has_reset(group, topic, queue_id) {
            return cx.write(ResponseCode::SUCCESS, Some("Offset has been previously reset"), &Empty, &[]);
        }
        self.offsets.commit(group, topic, queue_id, offset);
        cx.write(ResponseCode::SUCCESS, None, &Empty, &[])
    }
}
