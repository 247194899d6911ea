//! The answer to GET_CONSUMER_LIST_BY_GROUP (38).

use serde::{Deserialize, Serialize};

/// Ids of a group's members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerList {
    /// The ids.
    pub consumer_id_list: Vec<String>,
}
