//! The answer to QUERY_TOPIC_CONSUME_BY_WHO (300).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Names of groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupList {
    /// The names.
    pub group_list: BTreeSet<String>,
}
