//! LOCK_BATCH_MQ (41): a consumer that consumes in order takes queues for itself.

use std::sync::Arc;

use remoting::body::fastjson;
use remoting::body::lock::{LockBatch, LockBatchResult};
use remoting::header::LockBatchMq;
use remoting::server::{Cx, Handler, Outcome};

use super::{bad_body, json};
use crate::clients::QueueLocks;
use crate::stats::now_millis;

/// Locks what is free, and answers with what the client holds.
pub struct Lock {
    locks: Arc<QueueLocks>,
}

impl Lock {
    /// The handler.
    pub fn new(locks: Arc<QueueLocks>) -> Lock {
        Lock { locks }
    }
}

impl Handler for Lock {
    type Request<'a> = LockBatchMq<'a>;

    fn handle(&self, cx: &mut Cx<'_>, _: Self::Request<'_>) -> Outcome {
        let LockBatch { client_id, consumer_group, mq_set, .. } = match fastjson::from_slice(cx.body()) {
            Ok(body) => body,
            Err(error) => return bad_body(&error).into(),
        };
        let (group, client) = (consumer_group.unwrap_or_default(), client_id.unwrap_or_default());
        json(&LockBatchResult { locked: self.locks.lock(&group, &client, mq_set, now_millis()) }).into()
    }
}
