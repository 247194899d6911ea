//! GET_EARLIEST_MSG_STORETIME (32): when the first message of a queue was stored.

use std::sync::Arc;

use remoting::Reply;
use remoting::header::{GetEarliestMsgStoretime, GetEarliestMsgStoretimeResponse};
use remoting::server::{Cx, Handler, Outcome};
use store::Store;

use crate::static_topics::LogicalOffsets;

/// Answers -1 for a queue that does not exist or is empty.
pub struct EarliestStoreTime {
    store: Arc<Store>,
    logical: Arc<LogicalOffsets>,
}

impl EarliestStoreTime {
    /// The handler.
    pub fn new(store: Arc<Store>, logical: Arc<LogicalOffsets>) -> EarliestStoreTime {
        EarliestStoreTime { store, logical }
    }
}

impl Handler for EarliestStoreTime {
    type Request<'a> = GetEarliestMsgStoretime<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        if let Some(mapping) = self.logical.topics.find(&request.topic, request.lo) {
            return self.logical.earliest(mapping, request.queue_id);
        }
        let queue = self.store.queue(&request.topic, request.queue_id);
        let timestamp = queue.map_or(-1, |queue| self.store.store_time(&queue, queue.min_offset()));
        Reply::ok().header(&GetEarliestMsgStoretimeResponse { timestamp }).into()
    }
}
