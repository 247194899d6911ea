//! CLEAN_EXPIRED_CONSUMEQUEUE (306): an administrator removes queues whose messages are all gone.

use std::sync::Arc;

use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::Store;

use crate::names::SystemTopics;

/// Removes the queues of users' topics that point before the log only. As in Java their next message has offset 0 again.
pub struct CleanExpiredConsumeQueue {
    system: Arc<SystemTopics>,
    store: Arc<Store>,
}

impl CleanExpiredConsumeQueue {
    /// The handler.
    pub fn new(system: Arc<SystemTopics>, store: Arc<Store>) -> CleanExpiredConsumeQueue {
        CleanExpiredConsumeQueue { system, store }
    }
}

impl Handler for CleanExpiredConsumeQueue {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        match self.store.delete_dead_queues(|topic| self.system.contains(topic)) {
            Ok(queues) => {
                tracing::info!(queues, peer = %cx.conn().client(), "queues without messages are deleted");
                Reply::ok().into()
            }
            Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into(),
        }
    }
}
