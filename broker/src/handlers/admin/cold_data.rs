//! Limits of groups that read cold data: UPDATE_COLD_DATA_FLOW_CTR_CONFIG (2001), REMOVE_COLD_DATA_FLOW_CTR_CONFIG
//! (2002), GET_COLD_DATA_FLOW_CTR_INFO (2003).

use std::sync::Arc;

use config::properties::Properties;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::cold::ColdControl;

/// Sets the limits of the groups that the body names: `group=bytes` lines. A limit that is no number is passed over.
pub struct SetLimits(pub Arc<ColdControl>);

impl Handler for SetLimits {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let Ok(properties) = Properties::parse(cx.body()) else {
            return Reply::error(ResponseCode::SYSTEM_ERROR, "string2Properties error").into();
        };
        for entry in properties.entries() {
            match entry.value.parse::<i64>() {
                Ok(bytes) => self.0.set_limit(&entry.key, bytes),
                Err(error) => tracing::warn!(group = entry.key, value = entry.value, %error, "no limit of cold reads"),
            }
        }
        Reply::ok().into()
    }
}

/// Takes the limit of the group away that the body names.
pub struct RemoveLimit(pub Arc<ColdControl>);

impl Handler for RemoveLimit {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        self.0.remove_limit(&String::from_utf8_lossy(cx.body()));
        Reply::ok().into()
    }
}

/// Answers with all limits and what is read of them.
pub struct ColdReads(pub Arc<ColdControl>);

impl Handler for ColdReads {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        match serde_json::to_vec(&self.0.info()) {
            Ok(body) => Reply::ok().body(body).into(),
            Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into(),
        }
    }
}
