//! UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200) and its list form (225): an administrator makes or changes groups.

use std::sync::Arc;

use remoting::body::fastjson;
use remoting::body::subscription_group::{SubscriptionGroupConfig, SubscriptionGroupList};
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::groups::Groups;
use crate::handlers::bad_body;
use crate::names;

/// Sets one group.
pub struct UpdateGroup {
    groups: Arc<Groups>,
}

/// Sets several groups, all or none.
pub struct UpdateGroupList {
    groups: Arc<Groups>,
}

impl UpdateGroup {
    /// The handler.
    pub fn new(groups: Arc<Groups>) -> UpdateGroup {
        UpdateGroup { groups }
    }
}

impl UpdateGroupList {
    /// The handler.
    pub fn new(groups: Arc<Groups>) -> UpdateGroupList {
        UpdateGroupList { groups }
    }
}

impl Handler for UpdateGroup {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        match fastjson::from_slice::<Option<SubscriptionGroupConfig>>(cx.body()) {
            Ok(group) => set(&self.groups, group.into_iter().collect()).into(),
            Err(error) => bad_body(&error).into(),
        }
    }
}

impl Handler for UpdateGroupList {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        match fastjson::from_slice::<SubscriptionGroupList>(cx.body()) {
            Ok(list) => set(&self.groups, list.group_config_list).into(),
            Err(error) => bad_body(&error).into(),
        }
    }
}

fn set(groups: &Groups, requested: Vec<SubscriptionGroupConfig>) -> Reply {
    for group in &requested {
        if let Err(error) = names::check_group(group.name()) {
            return Reply::error(ResponseCode::INVALID_PARAMETER, error.to_string());
        }
    }
    match groups.update(requested) {
        Ok(()) => Reply::ok(),
        // Java lets this one out as an exception, unlike for topics.
        Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, format!("java.lang.RuntimeException: {error}")),
    }
}
