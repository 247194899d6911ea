//! UPDATE_NAMESRV_CONFIG and GET_NAMESRV_CONFIG.

use std::sync::Arc;

use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::routes::Routes;
use crate::settings::{Settings, UpdateError};

/// UPDATE_NAMESRV_CONFIG: the body is in `.properties` format.
pub struct Update {
    pub settings: Arc<Settings>,
    pub routes: Arc<Routes>,
}

impl Handler for Update {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        if cx.body().is_empty() {
            return Reply::ok().into();
        }
        tracing::info!(client = %cx.conn().client(), "configuration update");
        match self.settings.update(cx.body()) {
            Ok(()) => {
                self.routes.forget_seen();
                Reply::ok().into()
            }
            Err(UpdateError::Syntax) => Reply::error(ResponseCode::SYSTEM_ERROR, "string2Properties error").into(),
            Err(UpdateError::Locked) => {
                Reply::error(ResponseCode::NO_PERMISSION, "Can not update config in black list.").into()
            }
        }
    }
}

/// GET_NAMESRV_CONFIG.
pub struct Get {
    pub settings: Arc<Settings>,
}

impl Handler for Get {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        Reply::ok().body(self.settings.list()).into()
    }
}
