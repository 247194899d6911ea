//! GET_BROKER_CLUSTER_INFO: all brokers and clusters.

use std::sync::Arc;

use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::routes::Routes;

/// The handler.
pub struct GetBrokerClusterInfo {
    pub routes: Arc<Routes>,
}

impl Handler for GetBrokerClusterInfo {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        match self.routes.brokers().cluster_info() {
            Ok(body) => cx.write(ResponseCode::SUCCESS, None, &Empty, &body),
            Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into(),
        }
    }
}
