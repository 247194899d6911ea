//! Master and slaves.

use std::borrow::Cow;

use crate::header;

header! {
    /// EXCHANGE_BROKER_HA_INFO (906).
    pub struct ExchangeHAInfo<'a> {
        "masterHaAddress" master_ha_address: Option<Cow<'a, str>>,
        "masterFlushOffset" master_flush_offset: Option<i64>,
        "masterAddress" master_address: Option<Cow<'a, str>>,
    }
}

header! {
    /// The addresses and the flush offset of the other end.
    pub struct ExchangeHAInfoResponse<'a> {
        "masterHaAddress" master_ha_address: Option<Cow<'a, str>>,
        "masterFlushOffset" master_flush_offset: Option<i64>,
        "masterAddress" master_address: Option<Cow<'a, str>>,
    }
}

header! {
    /// RESET_MASTER_FLUSH_OFFSET (908).
    pub struct ResetMasterFlushOffset {
        "masterFlushOffset" master_flush_offset: i64,
    }
}

header! {
    /// NOTIFY_BROKER_ROLE_CHANGED (1008): a controller tells a broker what it is now.
    pub struct NotifyBrokerRoleChanged<'a> {
        "masterAddress" master_address: Option<Cow<'a, str>>,
        "masterEpoch" master_epoch: Option<i32>,
        "syncStateSetEpoch" sync_state_set_epoch: Option<i32>,
        "masterBrokerId" master_broker_id: Option<i64>,
    }
}
