//! GET_SUBSCRIPTIONGROUP_CONFIG (352): the settings of a group.

use std::sync::Arc;

use remoting::header::GetSubscriptionGroupConfig;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::groups::Groups;
use crate::handlers::json;

/// Answers with a group's settings. As in Java the group is made when that may happen on the fly.
pub struct GroupConfig {
    groups: Arc<Groups>,
}

impl GroupConfig {
    /// The handler.
    pub fn new(groups: Arc<Groups>) -> GroupConfig {
        GroupConfig { groups }
    }
}

impl Handler for GroupConfig {
    type Request<'a> = GetSubscriptionGroupConfig<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        match self.groups.find_or_create(&request.group) {
            Some(group) => json(&*group).into(),
            None => Reply::error(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker").into(),
        }
    }
}
