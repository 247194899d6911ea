//! GET_ALL_CONSUMER_OFFSET (43): the offset tables, as the file has them.

use std::sync::Arc;

use remoting::Reply;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};

use crate::offsets::Offsets;

/// Answers with all offset tables.
pub struct ConsumerOffsets {
    offsets: Arc<Offsets>,
}

impl ConsumerOffsets {
    /// The handler.
    pub fn new(offsets: Arc<Offsets>) -> ConsumerOffsets {
        ConsumerOffsets { offsets }
    }
}

impl Handler for ConsumerOffsets {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        Reply::ok().body(self.offsets.encode(false)).into()
    }
}
