//! GET_TIMER_CHECK_POINT (60): how far the timer has come; replicas ask for it every few seconds.

use std::sync::Arc;

use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::timer::Timer;

/// Answers with the first bytes of `config/timercheck`, as they would be written now.
pub struct TimerCheckPoint {
    timer: Option<Arc<Timer>>,
}

impl TimerCheckPoint {
    /// The handler.
    pub fn new(timer: Option<Arc<Timer>>) -> TimerCheckPoint {
        TimerCheckPoint { timer }
    }
}

impl Handler for TimerCheckPoint {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        match &self.timer {
            Some(timer) => Reply::ok().body(timer.checkpoint().to_vec()).into(),
            None => Reply::error(ResponseCode::SYSTEM_ERROR, "The checkpoint is null").into(),
        }
    }
}
