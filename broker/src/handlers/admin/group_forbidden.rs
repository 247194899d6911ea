//! UPDATE_AND_GET_GROUP_FORBIDDEN (353): whether a group may read a topic.

use std::sync::Arc;

use remoting::body::subscription_group;
use remoting::header::UpdateGroupForbidden;
use remoting::server::{Cx, Handler, Outcome};

use crate::groups::Groups;
use crate::handlers::json;

/// The bit that forbids reading.
const READ: u32 = 0;

/// Sets what the request says, and answers with what holds.
pub struct GroupForbidden {
    groups: Arc<Groups>,
}

impl GroupForbidden {
    /// The handler.
    pub fn new(groups: Arc<Groups>) -> GroupForbidden {
        GroupForbidden { groups }
    }
}

impl Handler for GroupForbidden {
    type Request<'a> = UpdateGroupForbidden<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let (group, topic) = (request.group.as_ref(), request.topic.as_ref());
        if let Some(readable) = request.readable {
            tracing::info!(group, topic, readable, peer = %cx.conn().client(), "a group's permission was set");
            self.groups.set_forbidden(group, topic, READ, !readable);
        }
        let readable = !self.groups.is_forbidden(group, topic, READ);
        let body = subscription_group::GroupForbidden { group: group.to_owned(), readable, topic: topic.to_owned() };
        json(&body).remark("").into()
    }
}
