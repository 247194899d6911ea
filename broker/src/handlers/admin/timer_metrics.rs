//! GET_TIMER_METRICS (61): how many messages of each topic wait for their time.

use std::sync::Arc;

use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::timer::Timer;

/// Answers with the text of `config/timermetrics`, as it would be written now.
pub struct TimerMetrics {
    timer: Option<Arc<Timer>>,
}

impl TimerMetrics {
    /// The handler.
    pub fn new(timer: Option<Arc<Timer>>) -> TimerMetrics {
        TimerMetrics { timer }
    }
}

impl Handler for TimerMetrics {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        match &self.timer {
            Some(timer) => Reply::ok().body(timer.counts().encode()).into(),
            None => Reply::error(ResponseCode::SYSTEM_ERROR, "The timer message store is null").into(),
        }
    }
}
