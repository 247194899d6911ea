//! A list of topic names.

use serde::{Deserialize, Serialize};

/// Java's `TopicList`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicList {
    /// Some broker's address; only in the name server's list of system topics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_addr: Option<String>,
    /// Names, each once.
    pub topic_list: Vec<String>,
}
