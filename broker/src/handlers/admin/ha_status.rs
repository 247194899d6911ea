//! What a broker that replicates nothing says of replication: GET_BROKER_HA_STATUS (907), RESET_MASTER_FLUSH_OFFSET (908),
//! GET_BROKER_EPOCH_CACHE (1007).

use std::sync::Arc;

use remoting::body::ha::HaStatus;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::Store;

use crate::handlers::json;
use crate::identity::Identity;

/// Answers with the end of the log and no slaves.
pub struct HaState {
    identity: Arc<Identity>,
    store: Arc<Store>,
}

impl HaState {
    /// The handler.
    pub fn new(identity: Arc<Identity>, store: Arc<Store>) -> HaState {
        HaState { identity, store }
    }
}

impl Handler for HaState {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        json(&HaStatus {
            master: self.identity.id == 0,
            master_commit_log_max_offset: i64::try_from(self.store.log_range().end).unwrap_or(i64::MAX),
            ..HaStatus::default()
        })
        .into()
    }
}

/// A master keeps no such offset: the request changes nothing.
pub struct ResetMasterFlushOffset;

impl Handler for ResetMasterFlushOffset {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        Reply::ok().into()
    }
}

/// Epochs are those of a controller.
pub struct EpochCache;

impl Handler for EpochCache {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        Reply::error(ResponseCode::SYSTEM_ERROR, "this request only for controllerMode ").into()
    }
}
