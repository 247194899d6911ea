//! GET_MAX_OFFSET (30): the offset behind the last readable message of a queue.

use std::sync::Arc;

use remoting::ResponseCode;
use remoting::header::{GetMaxOffset, GetMaxOffsetResponse};
use remoting::server::{Cx, Handler, Outcome};
use store::Store;

use crate::static_topics::LogicalOffsets;

/// Answers 0 for a queue that does not exist, and makes none.
pub struct MaxOffset {
    store: Arc<Store>,
    logical: Arc<LogicalOffsets>,
}

impl MaxOffset {
    /// The handler.
    pub fn new(store: Arc<Store>, logical: Arc<LogicalOffsets>) -> MaxOffset {
        MaxOffset { store, logical }
    }
}

impl Handler for MaxOffset {
    type Request<'a> = GetMaxOffset<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        self.store.catch_up();
        if let Some(mapping) = self.logical.topics.find(&request.topic, request.lo) {
            return self.logical.max(mapping, request.queue_id);
        }
        let offset = self.store.queue(&request.topic, request.queue_id).map_or(0, |queue| queue.max_offset());
        cx.write(ResponseCode::SUCCESS, None, &GetMaxOffsetResponse { offset }, &[])
    }
}
