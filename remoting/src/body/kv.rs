//! Tables of the name server's KV configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Java's `KVTable`: one namespace, also used for broker run-time information.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KvTable {
    /// Value by key.
    pub table: BTreeMap<String, String>,
}

/// All namespaces: the content of `kvConfig.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KvConfigTable {
    /// Value by namespace and key.
    pub config_table: BTreeMap<String, BTreeMap<String, String>>,
}
