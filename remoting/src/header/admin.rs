//! A broker's own settings and figures, and the members of a broker container.

use std::borrow::Cow;

use crate::header;

header! {
    /// GET_BROKER_CONFIG (26) and UPDATE_BROKER_CONFIG (25): the data version of the settings.
    pub struct GetBrokerConfigResponse<'a> {
        "version" version: Cow<'a, str>,
    }
}

header! {
    /// VIEW_BROKER_STATS_DATA (315): one figure of the broker's statistics.
    pub struct ViewBrokerStatsData<'a> {
        "statsName" stats_name: Cow<'a, str>,
        "statsKey" stats_key: Cow<'a, str>,
    }
}

header! {
    /// EXPORT_ROCKSDB_CONFIG_TO_JSON (355).
    pub struct ExportRocksDBConfigToJson<'a> {
        "configType" config_type: Cow<'a, str>,
    }
}

header! {
    /// ADD_BROKER (902), to a broker container.
    pub struct AddBroker<'a> {
        "configPath" config_path: Option<Cow<'a, str>>,
    }
}

header! {
    /// REMOVE_BROKER (903), from a broker container.
    pub struct RemoveBroker<'a> {
        "brokerName" broker_name: Cow<'a, str>,
        "brokerClusterName" broker_cluster_name: Cow<'a, str>,
        "brokerId" broker_id: i64,
    }
}
