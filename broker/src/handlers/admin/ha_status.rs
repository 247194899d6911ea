//! Replication, as brokers and operators ask for it: EXCHANGE_BROKER_HA_INFO (906), GET_BROKER_HA_STATUS (907),
//! RESET_MASTER_FLUSH_OFFSET (908), GET_BROKER_EPOCH_CACHE (1007).

use std::sync::Arc;

use config::{Live, MessageStoreConfig};
use remoting::header::{Empty, ExchangeHAInfo, ExchangeHAInfoResponse, ResetMasterFlushOffset};
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::Store;

use crate::ha::Ha;
use crate::handlers::json;
use crate::identity::Identity;

/// Says where the master is, or is told.
pub struct HaInfo {
    identity: Arc<Identity>,
    store_config: Arc<Live<MessageStoreConfig>>,
    store: Arc<Store>,
    ha: Arc<Ha>,
    /// Where the log ended at the start.
    began_at: i64,
}

impl HaInfo {
    /// The handler; to be made before the first append.
    pub fn new(
        identity: Arc<Identity>,
        store_config: Arc<Live<MessageStoreConfig>>,
        store: Arc<Store>,
        ha: Arc<Ha>,
    ) -> HaInfo {
        let began_at = i64::try_from(store.log_range().end).unwrap_or(i64::MAX);
        HaInfo { identity, store_config, store, ha, began_at }
    }
}

impl Handler for HaInfo {
    type Request<'a> = ExchangeHAInfo<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        if let Some(address) = request.master_ha_address {
            self.ha.change_master(Some(address.into_owned()));
            let asked = self.store_config.load().sync_master_flush_offset_when_startup;
            if let Some(offset) = request.master_flush_offset.filter(|_| asked && self.store.master_flushed() == 0) {
                self.store.set_master_flushed(offset);
            }
            return Reply::ok().into();
        }
        if self.identity.id != 0 {
            return Reply::ok().into();
        }
        let answer = ExchangeHAInfoResponse {
            master_ha_address: Some(self.identity.ha_addr.as_str().into()),
            master_flush_offset: Some(self.began_at),
            master_address: Some(self.identity.addr.as_str().into()),
        };
        Reply::ok().header(&answer).into()
    }
}

/// Answers how replication stands.
pub struct HaState {
    ha: Arc<Ha>,
}

impl HaState {
    /// The handler.
    pub fn new(ha: Arc<Ha>) -> HaState {
        HaState { ha }
    }
}

impl Handler for HaState {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        json(&self.ha.state()).into()
    }
}

/// Tells a slave how far the master's log is on disk. A master keeps no such offset: the request changes nothing there.
pub struct ResetFlushOffset {
    identity: Arc<Identity>,
    store: Arc<Store>,
}

impl ResetFlushOffset {
    /// The handler.
    pub fn new(identity: Arc<Identity>, store: Arc<Store>) -> ResetFlushOffset {
        ResetFlushOffset { identity, store }
    }
}

impl Handler for ResetFlushOffset {
    type Request<'a> = ResetMasterFlushOffset;

    fn handle(&self, _: &mut Cx<'_>, request: ResetMasterFlushOffset) -> Outcome {
        if self.identity.id != 0 {
            self.store.set_master_flushed(request.master_flush_offset);
        }
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
