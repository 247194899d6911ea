//! GET_CONSUMER_RUNNING_INFO (307): an administrator wants a consumer to describe itself.

use std::sync::Arc;

use remoting::header::GetConsumerRunningInfo;
use remoting::server::{Cx, Handler, Outcome};

use crate::clients::Consumers;
use crate::push;

/// Passes the request on to the consumer, and its answer back.
pub struct RunningInfo {
    consumers: Arc<Consumers>,
}

impl RunningInfo {
    /// The handler.
    pub fn new(consumers: Arc<Consumers>) -> RunningInfo {
        RunningInfo { consumers }
    }
}

impl Handler for RunningInfo {
    type Request<'a> = GetConsumerRunningInfo<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let fields = push::pass::fields(cx.request());
        let target = match push::pass::Target::find(&self.consumers, &request.consumer_group, &request.client_id) {
            Ok(target) => target,
            Err(refusal) => return refusal.into(),
        };
        Outcome::Later(Box::pin(async move {
            let answer = push::running_info::call(&target.client.conn, fields).await;
            target.reply(answer)
        }))
    }
}
