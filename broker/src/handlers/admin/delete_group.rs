//! DELETE_SUBSCRIPTIONGROUP (207): an administrator deletes a group.

use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::Reply;
use remoting::header::DeleteSubscriptionGroup;
use remoting::server::{Cx, Handler, Outcome};

use crate::groups::Groups;
use crate::offsets::Offsets;
use crate::stats::Stats;

/// Deletes a group, and its offsets when asked to. One that does not exist is a success, as in Java.
pub struct DeleteGroup {
    config: Arc<Live<BrokerConfig>>,
    groups: Arc<Groups>,
    offsets: Arc<Offsets>,
    stats: Arc<Stats>,
}

impl DeleteGroup {
    /// The handler.
    pub fn new(
        config: Arc<Live<BrokerConfig>>,
        groups: Arc<Groups>,
        offsets: Arc<Offsets>,
        stats: Arc<Stats>,
    ) -> DeleteGroup {
        DeleteGroup { config, groups, offsets, stats }
    }
}

impl Handler for DeleteGroup {
    type Request<'a> = DeleteSubscriptionGroup<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let group = request.group_name.as_ref();
        tracing::info!(group, peer = %cx.conn().client(), "asked to delete a consumer group");
        self.groups.delete(group);
        if request.clean_offset {
            self.offsets.remove_group(group);
        }
        if self.config.load().auto_delete_unused_stats {
            self.stats.remove_group(group);
        }
        Reply::ok().into()
    }
}
