//! RESUME_CHECK_HALF_MESSAGE (323): a half message that was given up is checked again, from the first time on.

use std::sync::Arc;

use remoting::header;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::record::{MessageId, RecordView};
use store::{NewMessage, Store};

use crate::names;
use crate::send::properties::{Known, Properties};
use crate::transaction::Half;

/// Puts a half message back where open ones are.
pub struct ResumeCheckHalfMessage {
    store: Arc<Store>,
}

impl ResumeCheckHalfMessage {
    /// The handler.
    pub fn new(store: Arc<Store>) -> ResumeCheckHalfMessage {
        ResumeCheckHalfMessage { store }
    }

    fn resume(&self, id: Option<&str>) -> Result<(), &'static str> {
        const NOT_THERE: &str = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC.";
        const NOT_TAKEN: &str = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed.";
        let id = id.and_then(MessageId::parse).ok_or(NOT_THERE)?;
        let record = self.store.record_at(id.phys_offset).ok_or(NOT_THERE)?;
        let view = RecordView::parse(&record).map_err(|_| NOT_THERE)?;
        // Java takes anything; but what does not say where it goes could never be ended.
        let half = Half::of(&view);
        if half.destination().is_none() || half.group.is_none() {
            return Err(NOT_TAKEN);
        }
        let mut properties = Properties::default();
        properties.fill(&[], |out| out.extend_from_slice(view.property_bytes()));
        properties.put(Known::CheckTimes, b"0");
        let message = NewMessage {
            flag: view.flag(),
            sys_flag: view.sys_flag(),
            born_timestamp: view.born_timestamp(),
            born_host: view.born_host(),
            reconsume_times: view.reconsume_times(),
            prepared_transaction_offset: 0,
            properties: properties.as_bytes(),
            body: view.body(),
        };
        let queue = self.store.queue_or_create(names::HALF_TOPIC, 0);
        self.store.append(&queue, &message).map_err(|error| {
            tracing::warn!(%error, "cannot put a half message back");
            NOT_TAKEN
        })?;
        // On a thread of the pool: no read batch ends after this request.
        self.store.dispatch();
        tracing::info!(topic = half.topic, group = half.group, "a half message is checked again");
        Ok(())
    }
}

impl Handler for ResumeCheckHalfMessage {
    type Request<'a> = header::ResumeCheckHalfMessage<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        match self.resume(request.msg_id.as_deref()) {
            Ok(()) => Reply::ok().into(),
            Err(remark) => Reply::error(ResponseCode::SYSTEM_ERROR, remark).into(),
        }
    }
}
