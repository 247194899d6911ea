//! QUERY_CONSUMER_OFFSET (14): how far a group has consumed a queue.

use std::sync::Arc;

use remoting::ResponseCode;
use remoting::header::{self, Empty};
use remoting::server::{Cx, Handler, Outcome};
use store::{All, ReadRequest, ReadResult, ReadStatus, Store};

use crate::offsets::Offsets;
use crate::static_topics::LogicalOffsets;

/// Answers with the committed offset. A group without one is told to start at 0 when the queue's first message is offset 0
/// and still at hand; else it decides by itself.
pub struct QueryConsumerOffset {
    offsets: Arc<Offsets>,
    store: Arc<Store>,
    logical: Arc<LogicalOffsets>,
}

impl QueryConsumerOffset {
    /// The handler.
    pub fn new(offsets: Arc<Offsets>, store: Arc<Store>, logical: Arc<LogicalOffsets>) -> QueryConsumerOffset {
        QueryConsumerOffset { offsets, store, logical }
    }

    fn begins_at_hand(&self, topic: &str, queue_id: i32) -> bool {
        let Some(queue) = self.store.queue(topic, queue_id).filter(|queue| queue.min_offset() <= 0) else {
            return false;
        };
        let first = ReadRequest { offset: 0, max_messages: 1, max_bytes: i32::MAX };
        let mut read = ReadResult {
            status: ReadStatus::NoMessageInQueue,
            next_offset: 0,
            min_offset: 0,
            max_offset: 0,
            records: Vec::new(),
            bytes: 0,
            suggest_slave: false,
        };
        self.store.read(&queue, &first, &All, &mut read);
        read.status == ReadStatus::Found && !read.suggest_slave
    }
}

impl Handler for QueryConsumerOffset {
    type Request<'a> = header::QueryConsumerOffset<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let mut queue_id = request.queue_id;
        if let Some(mapping) = self.logical.topics.find(&request.topic, request.lo) {
            match self.logical.query(mapping, &request) {
                Ok(outcome) => return outcome,
                Err(ours) => queue_id = ours,
            }
        }
        let committed = self.offsets.query(&request.consumer_group, &request.topic, queue_id);
        if let Some(offset) = committed.filter(|offset| *offset >= 0) {
            return cx.write(ResponseCode::SUCCESS, None, &header::QueryConsumerOffsetResponse { offset }, &[]);
        }
        let why = if request.set_zero_if_not_found == Some(false) {
            "Not found, do not set to zero, maybe this group boot first"
        } else if self.begins_at_hand(&request.topic, queue_id) {
            return cx.write(ResponseCode::SUCCESS, None, &header::QueryConsumerOffsetResponse { offset: 0 }, &[]);
        } else {
            "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        };
        cx.write(ResponseCode::QUERY_NOT_FOUND, Some(why), &Empty, &[])
    }
}
