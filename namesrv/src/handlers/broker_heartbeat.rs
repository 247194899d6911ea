//! BROKER_HEARTBEAT: a broker is alive, between its registrations.

use std::sync::Arc;

use remoting::ResponseCode;
use remoting::header;
use remoting::server::{Cx, Handler, Outcome};

use crate::routes::Routes;
use crate::routes::brokers::Instance;

/// The handler.
pub struct BrokerHeartbeat {
    pub routes: Arc<Routes>,
}

impl Handler for BrokerHeartbeat {
    type Request<'a> = header::BrokerHeartbeat<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        self.routes.heartbeat(&Instance::new(&request.cluster_name, &request.broker_addr));
        cx.write(ResponseCode::SUCCESS, None, &header::Empty, &[])
    }
}
