//! GET_CONSUMER_LIST_BY_GROUP (38): the members that share out a group's queues.

use std::sync::Arc;

use remoting::body::consumer_list::ConsumerList;
use remoting::header::GetConsumerListByGroup;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use super::json;
use crate::clients::Consumers;

/// Answers with the ids of a group's members.
pub struct ListConsumers {
    consumers: Arc<Consumers>,
}

impl ListConsumers {
    /// The handler.
    pub fn new(consumers: Arc<Consumers>) -> ListConsumers {
        ListConsumers { consumers }
    }
}

impl Handler for ListConsumers {
    type Request<'a> = GetConsumerListByGroup<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        match self.consumers.client_ids(&request.consumer_group) {
            Some(consumer_id_list) => json(&ConsumerList { consumer_id_list }).into(),
            None => {
                let remark = format!("no consumer for this group, {}", request.consumer_group);
                Reply::error(ResponseCode::SYSTEM_ERROR, remark).into()
            }
        }
    }
}
