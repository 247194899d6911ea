//! PULL_MESSAGE (11), LITE_PULL_MESSAGE (361): a consumer fetches messages of a queue, and may wait for them.

use std::sync::Arc;

use remoting::header::PullMessage;
use remoting::server::{Cx, Handler, Outcome};

use crate::pull::Puller;

/// Hands out messages.
pub struct Pull {
    puller: Arc<Puller>,
    lite: bool,
}

impl Pull {
    /// The handler; `lite` for LITE_PULL_MESSAGE.
    pub fn new(puller: Arc<Puller>, lite: bool) -> Pull {
        Pull { puller, lite }
    }
}

impl Handler for Pull {
    type Request<'a> = PullMessage<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        self.puller.pull(cx, &request, self.lite)
    }
}
