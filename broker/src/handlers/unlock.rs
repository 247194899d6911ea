//! UNLOCK_BATCH_MQ (42): a consumer gives queues back that it had for itself.

use std::sync::Arc;

use remoting::Reply;
use remoting::body::fastjson;
use remoting::body::lock::LockBatch;
use remoting::header::UnlockBatchMq;
use remoting::server::{Cx, Handler, Outcome};

use super::bad_body;
use crate::clients::QueueLocks;

/// Frees what the client holds of the named queues.
pub struct Unlock {
    locks: Arc<QueueLocks>,
}

impl Unlock {
    /// The handler.
    pub fn new(locks: Arc<QueueLocks>) -> Unlock {
        Unlock { locks }
    }
}

impl Handler for Unlock {
    type Request<'a> = UnlockBatchMq<'a>;

    fn handle(&self, cx: &mut Cx<'_>, _: Self::Request<'_>) -> Outcome {
        let body: LockBatch = match fastjson::from_slice(cx.body()) {
            Ok(body) => body,
            Err(error) => return bad_body(&error).into(),
        };
        let (group, client) = (body.consumer_group.unwrap_or_default(), body.client_id.unwrap_or_default());
        self.locks.unlock(&group, &client, &body.mq_set);
        Reply::ok().into()
    }
}
