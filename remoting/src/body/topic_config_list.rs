//! The body of UPDATE_AND_CREATE_TOPIC_LIST (18).

use serde::{Deserialize, Serialize};

use super::topic::TopicConfig;

/// Topics to be made or changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfigList {
    /// The topics; attributes carry a sign.
    pub topic_config_list: Vec<TopicConfig>,
}
