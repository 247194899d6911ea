//! GET_MIN_OFFSET (31): the offset of the first readable message of a queue.

use std::sync::Arc;

use remoting::ResponseCode;
use remoting::header::{GetMinOffset, GetMinOffsetResponse};
use remoting::server::{Cx, Handler, Outcome};
use store::Store;

use crate::static_topics::LogicalOffsets;

/// Answers 0 for a queue that does not exist, and makes none.
pub struct MinOffset {
    store: Arc<Store>,
    logical: Arc<LogicalOffsets>,
}

impl MinOffset {
    /// The handler.
    pub fn new(store: Arc<Store>, logical: Arc<LogicalOffsets>) -> MinOffset {
        MinOffset { store, logical }
    }
}

impl Handler for MinOffset {
    type Request<'a> = GetMinOffset<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        if let Some(mapping) = self.logical.topics.find(&request.topic, request.lo) {
            return self.logical.min(mapping, request.queue_id);
        }
        let offset = self.store.queue(&request.topic, request.queue_id).map_or(0, |queue| queue.min_offset());
        cx.write(ResponseCode::SUCCESS, None, &GetMinOffsetResponse { offset }, &[])
    }
}
