//! How groups take messages: SET_MESSAGE_REQUEST_MODE (401), GET_ALL_MESSAGE_REQUEST_MODE (402).

use std::sync::Arc;

use remoting::body::fastjson;
use remoting::body::request_mode::MessageRequestMode;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::groups::Groups;
use crate::handlers::bad_body;
use crate::names;
use crate::request_modes::RequestModes;
use crate::topics::TopicTable;

/// Sets the mode of a group for a topic.
pub struct SetMode {
    topics: Arc<TopicTable>,
    groups: Arc<Groups>,
    modes: Arc<RequestModes>,
}

impl SetMode {
    /// The handler.
    pub fn new(topics: Arc<TopicTable>, groups: Arc<Groups>, modes: Arc<RequestModes>) -> SetMode {
        SetMode { topics, groups, modes }
    }
}

impl Handler for SetMode {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let mode: MessageRequestMode = match fastjson::from_slice(cx.body()) {
            Ok(mode) => mode,
            Err(error) => return bad_body(&error).into(),
        };
        let topic = mode.topic.clone().unwrap_or_default();
        let group = mode.consumer_group.clone().unwrap_or_default();
        if topic.starts_with(names::RETRY_PREFIX) {
            return Reply::error(ResponseCode::NO_PERMISSION, "retry topic is not allowed to set mode").into();
        }
        if !self.topics.contains(&topic) {
            return Reply::error(ResponseCode::TOPIC_NOT_EXIST, format!("topic[{topic}] not exist")).into();
        }
        if self.groups.find_or_create(&group).is_none() {
            let remark = "subscription group does not exist";
            return Reply::error(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark).into();
        }
        match self.modes.set(&topic, &group, mode) {
            Ok(()) => Reply::ok().into(),
            Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into(),
        }
    }
}

/// Answers with all modes that were set.
pub struct AllModes(pub Arc<RequestModes>);

impl Handler for AllModes {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        Reply::ok().body(self.0.encode()).into()
    }
}
