//! SWITCH_TIMER_ENGINE (5001): an administrator says whether timed messages are kept in files (`F`) or in RocksDB (`R`). There
//! are only files here, so the one is a success and the other is refused as by a Java broker without RocksDB.

use std::sync::Arc;

use config::{Live, LiveFile, MessageStoreConfig};
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::timer::Timer;

/// The field that names the engine.
const ENGINE: &str = "E_T";

/// Answers, and lets the timer take messages again when it was told not to.
pub struct SwitchTimerEngine {
    /// Messages for an arbitrary time.
    pub timer: Option<Arc<Timer>>,
    /// The store's keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// All keys and the file that they came from.
    pub settings: Arc<LiveFile>,
}

impl Handler for SwitchTimerEngine {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let refuse = |remark| Reply::error(ResponseCode::INVALID_PARAMETER, remark).into();
        if !self.store_config.load().timer_wheel_enable || self.timer.is_none() {
            return refuse("broker timerWheelEnable is false");
        }
        let fields = &cx.request().fields;
        if fields.is_empty() {
            return refuse("param error, extFields is null");
        }
        match fields.get(ENGINE).map(|engine| engine.to_cow().into_owned()).as_deref() {
            Some("F") => {}
            Some("R") => return refuse("timerRocksDBEnable must be configured true when broker start"),
            _ => return refuse("param error"),
        }
        let keys = [("timerRocksDBStopScan", "true"), ("timerStopEnqueue", "false")];
        match self.settings.update(&keys) {
            Ok(_) => Reply::ok().remark("switch timer engine success").into(),
            Err(error) => {
                tracing::error!(%error, "the timer's engine could not be switched");
                Reply::error(ResponseCode::SYSTEM_ERROR, "switch timer engine error").into()
            }
        }
    }
}
