//! SEARCH_OFFSET_BY_TIMESTAMP (29): the offset of a queue at a time.

use std::sync::Arc;

use remoting::header::{self, SearchOffsetResponse};
use remoting::server::{Cx, Handler, Outcome};
use remoting::{BoundaryType, Reply};
use store::Store;

use crate::static_topics::LogicalOffsets;

/// Answers 0 for a queue that does not exist, and makes none.
pub struct SearchOffset {
    store: Arc<Store>,
    logical: Arc<LogicalOffsets>,
}

impl SearchOffset {
    /// The handler.
    pub fn new(store: Arc<Store>, logical: Arc<LogicalOffsets>) -> SearchOffset {
        SearchOffset { store, logical }
    }
}

impl Handler for SearchOffset {
    type Request<'a> = header::SearchOffset<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        self.store.catch_up();
        if let Some(mapping) = self.logical.topics.find(&request.topic, request.lo) {
            return self.logical.search(mapping, &request);
        }
        let upper = request.boundary_type == Some(BoundaryType::Upper);
        let queue = match request.lite_topic.as_deref().filter(|topic| !topic.trim().is_empty()) {
            None => self.store.queue(&request.topic, request.queue_id),
            Some(_) => None,
        };
        let offset = queue.map_or(0, |queue| self.store.offset_by_time(&queue, request.timestamp, upper));
        Reply::ok().header(&SearchOffsetResponse { offset }).into()
    }
}
