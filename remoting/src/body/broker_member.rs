//! The members of one broker name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Java's `BrokerMemberGroup`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BrokerMemberGroup {
    /// Address by broker id.
    pub broker_addrs: BTreeMap<i64, String>,
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_name: Option<String>,
    /// Cluster, as it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
}

/// The answer to GET_BROKER_MEMBER_GROUP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BrokerMemberGroupBody {
    /// The group.
    pub broker_member_group: BrokerMemberGroup,
}
