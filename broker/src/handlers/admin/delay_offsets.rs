//! GET_ALL_DELAY_OFFSET (45): how far each delay level is delivered.

use std::sync::Arc;

use remoting::Reply;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};

use crate::schedule::Schedule;

/// Answers with what `delayOffset.json` has.
pub struct DelayOffsets(pub Arc<Schedule>);

impl Handler for DelayOffsets {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        Reply::ok().body(self.0.encode(false)).into()
    }
}
