//! QUERY_DATA_VERSION: does a broker have to register again? It is a heartbeat as well.

use std::sync::Arc;

use remoting::body::data_version::DataVersion;
use remoting::body::fastjson;
use remoting::header;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::routes::Routes;
use crate::routes::brokers::Instance;

/// The handler.
pub struct QueryDataVersion {
    pub routes: Arc<Routes>,
}

impl Handler for QueryDataVersion {
    type Request<'a> = header::QueryDataVersion<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let theirs: Option<DataVersion> = match fastjson::from_slice(cx.body()) {
            Ok(version) => version,
            Err(error) => return Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into(),
        };
        let instance = Instance::new(&request.cluster_name, &request.broker_addr);
        self.routes.heartbeat(&instance);
        let ours = self.routes.version_of(&instance);
        let header = header::QueryDataVersionResponse { changed: ours.is_none() || ours != theirs };
        let body = ours.map(|version| fastjson::to_vec(&version)).transpose();
        match body {
            Ok(body) => cx.write(ResponseCode::SUCCESS, None, &header, &body.unwrap_or_default()),
            Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into(),
        }
    }
}
