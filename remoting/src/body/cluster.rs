//! All brokers and clusters that a name server knows.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::route::BrokerData;

/// Java's `ClusterInfo`, the answer to GET_BROKER_CLUSTER_INFO.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterInfo {
    /// By broker name.
    pub broker_addr_table: BTreeMap<String, BrokerData>,
    /// Broker names by cluster.
    pub cluster_addr_table: BTreeMap<String, BTreeSet<String>>,
}
