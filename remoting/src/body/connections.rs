//! Who is connected: the answers to GET_CONSUMER_CONNECTION_LIST (203), GET_PRODUCER_CONNECTION_LIST (204) and
//! GET_ALL_PRODUCER_INFO (328).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::heartbeat::SubscriptionData;

/// One connected client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Connection {
    /// Its address.
    pub client_addr: String,
    /// Its id.
    pub client_id: String,
    /// Its language, by Java's name.
    pub language: String,
    /// Its version, by Java's ordinal.
    pub version: i32,
}

/// A consumer group's clients and subscriptions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerConnection {
    /// The clients.
    pub connection_set: Vec<Connection>,
    /// Where the group starts, by Java's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consume_from_where: Option<String>,
    /// How it gets messages, by Java's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consume_type: Option<String>,
    /// Who gets a message, by Java's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_model: Option<String>,
    /// Subscriptions by topic.
    pub subscription_table: BTreeMap<String, SubscriptionData>,
}

/// A producer group's clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerConnection {
    /// The clients.
    pub connection_set: Vec<Connection>,
}

/// All producers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProducerTable {
    /// Clients by group.
    pub data: BTreeMap<String, Vec<ProducerInfo>>,
}

/// One producer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerInfo {
    /// Its id.
    pub client_id: String,
    /// Its language, by Java's name.
    pub language: String,
    /// Its last heartbeat (ms since the epoch).
    pub last_update_timestamp: i64,
    /// Its address, with a slash in front as Java prints a socket address.
    #[serde(rename = "remoteIP")]
    pub remote_ip: String,
    /// Its version, by Java's ordinal.
    pub version: i32,
}
