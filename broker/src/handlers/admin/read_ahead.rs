//! SET_COMMITLOG_READ_MODE (2004): whether the system reads ahead in the log.

use std::sync::Arc;

use config::{Live, MessageStoreConfig};
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode, header};

/// `MADV_NORMAL` of the C library: read ahead.
const NORMAL: i32 = 0;
/// `MADV_RANDOM`: do not.
const RANDOM: i32 = 1;

header! {
    /// The only field of the request.
    pub struct ReadMode<'a> {
        "READ_AHEAD_MODE" mode: Option<std::borrow::Cow<'a, str>>,
    }
}

/// Changes the mode of all files of the log and of those to come, until a restart. The store hears of it as of any change
/// of its keys.
pub struct SetReadMode {
    store_config: Arc<Live<MessageStoreConfig>>,
}

impl SetReadMode {
    /// The handler.
    pub fn new(store_config: Arc<Live<MessageStoreConfig>>) -> SetReadMode {
        SetReadMode { store_config }
    }
}

impl Handler for SetReadMode {
    type Request<'a> = ReadMode<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let Some(mode) = request.mode.and_then(|mode| mode.parse::<i32>().ok()) else {
            return Reply::error(ResponseCode::SYSTEM_ERROR, "set commitlog readahead mode failed").into();
        };
        if ![NORMAL, RANDOM].contains(&mode) {
            let remark = "set commitlog readahead mode param value error";
            return Reply::error(ResponseCode::INVALID_PARAMETER, remark).into();
        }
        let on = mode == NORMAL;
        if let Err(error) = self.store_config.update(&[("dataReadAheadEnable", on.to_string())]) {
            return Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into();
        }
        Reply::ok().remark(format!("set commitlog readahead mode success, mode: {mode}")).into()
    }
}
