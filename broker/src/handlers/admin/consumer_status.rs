//! INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223): how far the members of a group are, as they say themselves.

use std::sync::Arc;

use remoting::body::offset_table::ConsumerStatus;
use remoting::header::GetConsumerStatus;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::clients::{Client, Consumers};
use crate::handlers::{NOT_SET, json};
use crate::push;

/// Asks the members one after the other, or one of them.
pub struct ConsumerStatusOf {
    consumers: Arc<Consumers>,
}

impl ConsumerStatusOf {
    /// The handler.
    pub fn new(consumers: Arc<Consumers>) -> ConsumerStatusOf {
        ConsumerStatusOf { consumers }
    }
}

impl Handler for ConsumerStatusOf {
    type Request<'a> = GetConsumerStatus<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let group = request.group.as_ref();
        let Some(membership) = self.consumers.membership(group) else {
            let remark = format!("No Any Consumer online in the consumer group: [{group}]");
            return Reply::error(ResponseCode::SYSTEM_ERROR, remark).into();
        };
        let only = request.client_addr.as_deref().filter(|id| !id.trim().is_empty());
        let mut asked: Vec<Client> = Vec::new();
        for member in membership.members {
            if let Err(refusal) = push::pass::check_knows_status(&member.client) {
                return refusal.into();
            }
            if only.is_none_or(|id| id == member.client.id) {
                asked.push(member.client);
            }
        }
        let command = push::consumer_status::command(group, &request.topic);
        Outcome::Later(Box::pin(async move {
            let mut status = ConsumerStatus::default();
            for client in asked {
                if let Some(table) = push::consumer_status::call(&client.conn, command.clone()).await {
                    status.consumer_table.insert(client.id, table);
                }
            }
            json(&status).remark(NOT_SET)
        }))
    }
}
