//! UNREGISTER_BROKER: a broker stops.

use std::sync::Arc;

use remoting::Reply;
use remoting::header;
use remoting::server::{Cx, Handler, Outcome};

use crate::routes::Routes;
use crate::routes::brokers::Instance;
use crate::settings::Settings;

/// The handler.
pub struct UnregisterBroker {
    pub routes: Arc<Routes>,
    pub settings: Arc<Settings>,
}

impl Handler for UnregisterBroker {
    type Request<'a> = header::UnRegisterBroker<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let instance = Instance::new(&request.cluster_name, &request.broker_addr);
        let notify = self.settings.namesrv.load().notify_min_broker_id_changed;
        self.routes.unregister(&instance, &request.broker_name, request.broker_id, notify);
        Reply::ok().into()
    }
}
