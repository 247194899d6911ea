//! How groups take the messages of a topic: SET_MESSAGE_REQUEST_MODE (401), GET_ALL_MESSAGE_REQUEST_MODE (402) and
//! `config/messageRequestMode.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// Who decides which messages a consumer gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum RequestMode {
    /// The consumers share out the queues and pull.
    #[default]
    #[serde(rename = "PULL")]
    Pull,
    /// The broker hands out messages.
    #[serde(rename = "POP")]
    Pop,
}

/// The mode of one group for one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageRequestMode {
    /// The group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_group: Option<String>,
    /// The mode. An unknown one reads as missing, as Java has it.
    #[serde(deserialize_with = "mode", skip_serializing_if = "Option::is_none")]
    pub mode: Option<RequestMode>,
    /// With [`RequestMode::Pop`]: how many neighbours a consumer shares its queues with; 0: with all.
    pub pop_share_queue_num: i32,
    /// The topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}

/// All modes: by topic, by group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageRequestModes {
    /// The modes.
    pub message_request_mode_map: BTreeMap<String, BTreeMap<String, MessageRequestMode>>,
}

fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RequestMode>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(match name.as_deref() {
        Some("PULL") => Some(RequestMode::Pull),
        Some("POP") => Some(RequestMode::Pop),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::fastjson;

    #[test]
    fn as_mqadmin_sends_it() {
        let text = r#"{"consumerGroup":"CliGroup","mode":"POP","popShareQueueNum":2,"topic":"CliTopic"}"#;
        let mode: MessageRequestMode = fastjson::from_slice(text.as_bytes()).unwrap();
        assert_eq!((mode.mode, mode.pop_share_queue_num), (Some(RequestMode::Pop), 2));
        assert_eq!(String::from_utf8(fastjson::to_vec(&mode).unwrap()).unwrap(), text);
        let odd: MessageRequestMode = fastjson::from_slice(br#"{"mode":"PUSH"}"#).unwrap();
        assert_eq!(odd, MessageRequestMode::default());
    }
}
