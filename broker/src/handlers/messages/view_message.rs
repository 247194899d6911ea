//! VIEW_MESSAGE_BY_ID (33): the record at a position of the commitlog; the position is part of a message id.

use std::sync::Arc;

use remoting::header;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::Store;

/// Reads one record.
pub struct ViewMessage {
    store: Arc<Store>,
}

impl ViewMessage {
    /// The handler.
    pub fn new(store: Arc<Store>) -> ViewMessage {
        ViewMessage { store }
    }
}

impl Handler for ViewMessage {
    type Request<'a> = header::ViewMessage<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let record = u64::try_from(request.offset).ok().and_then(|offset| self.store.record_at(offset));
        match record {
            Some(record) => Reply::ok().body(record.to_vec()).into(),
            None => {
                let remark = format!("can not find message by the offset, {}", request.offset);
                Reply::error(ResponseCode::SYSTEM_ERROR, remark).into()
            }
        }
    }
}
