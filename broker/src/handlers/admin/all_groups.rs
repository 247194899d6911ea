//! GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201): the whole table of groups, or a part of it.

use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::header::{Empty, Header};
use remoting::header::{GetAllSubscriptionGroup, GetAllSubscriptionGroupResponse};
use remoting::server::{Cx, Handler, Outcome};

use crate::groups::Groups;
use crate::handlers::json;

/// Answers with the groups sorted by name. Requests without fields (older slaves) get all of them.
pub struct AllGroups {
    config: Arc<Live<BrokerConfig>>,
    groups: Arc<Groups>,
}

impl AllGroups {
    /// The handler.
    pub fn new(config: Arc<Live<BrokerConfig>>, groups: Arc<Groups>) -> AllGroups {
        AllGroups { config, groups }
    }
}

impl Handler for AllGroups {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let fields = &cx.request().fields;
        let mut table = self.groups.snapshot();
        let total = table.subscription_group_table.len();
        let config = self.config.load();
        if !fields.is_empty() && config.enable_split_metadata {
            let part = match GetAllSubscriptionGroup::read(fields) {
                Ok(part) => part,
                Err(error) => return self.bad_header(error).into(),
            };
            let known = part.data_version.as_deref();
            let size = config.split_metadata_size;
            let range = super::part(part.group_seq, part.max_group_num, known, &table.data_version, size, total);
            let groups = std::mem::take(&mut table.subscription_group_table);
            table.subscription_group_table = groups.into_iter().skip(range.start).take(range.len()).collect();
            table.forbidden_table.retain(|group, _| table.subscription_group_table.contains_key(group));
        }
        let header = GetAllSubscriptionGroupResponse { total_group_num: i32::try_from(total).unwrap_or(i32::MAX) };
        json(&table).header(&header).into()
    }
}
