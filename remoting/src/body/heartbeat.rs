//! What a client says of itself: the body of HEART_BEAT (34) and of CHECK_CLIENT_CONFIG (46).

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};

use super::number;

/// Declares an enum by Java's names. An unknown name reads as `None` where an `Option` is expected.
macro_rules! java_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum $name {
            $($(#[$vmeta])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// Java's name.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }

            /// The value of that name.
            pub fn from_name(name: &str) -> Option<$name> {
                match name {
                    $($text => Some($name::$variant),)*
                    _ => None,
                }
            }

            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<$name>, D::Error> {
                let name = Option::<Cow<'_, str>>::deserialize(deserializer)?;
                Ok(name.and_then(|name| $name::from_name(&name)))
            }
        }
    };
}

java_enum! {
    /// How a group gets its messages.
    ConsumeType {
        /// It pulls when it likes.
        Actively = "CONSUME_ACTIVELY",
        /// It pulls all the time (push consumer).
        Passively = "CONSUME_PASSIVELY",
        /// The broker hands out messages.
        Pop = "CONSUME_POP",
    }
}

java_enum! {
    /// Who of a group gets a message.
    MessageModel {
        /// Every member.
        Broadcasting = "BROADCASTING",
        /// One member.
        Clustering = "CLUSTERING",
        /// One member, by lite topics.
        LiteSelective = "LITE_SELECTIVE",
    }
}

java_enum! {
    /// Where a group without an offset starts.
    ConsumeFromWhere {
        /// At the end.
        LastOffset = "CONSUME_FROM_LAST_OFFSET",
        /// Out of use.
        LastOffsetAndMinWhenBootFirst = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        /// Out of use.
        MinOffset = "CONSUME_FROM_MIN_OFFSET",
        /// Out of use.
        MaxOffset = "CONSUME_FROM_MAX_OFFSET",
        /// At the beginning.
        FirstOffset = "CONSUME_FROM_FIRST_OFFSET",
        /// At a time.
        Timestamp = "CONSUME_FROM_TIMESTAMP",
    }
}

/// Java's `HeartbeatData`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatData {
    /// Id of the client; one process may have several.
    #[serde(rename = "clientID", skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Its consumers.
    pub consumer_data_set: Vec<ConsumerData>,
    /// Hash of the subscriptions; 0 from clients of the first heartbeat version.
    pub heartbeat_fingerprint: i32,
    /// Its producers.
    pub producer_data_set: Vec<ProducerData>,
    /// Subscriptions are left out, because they have not changed since the last heartbeat.
    pub without_sub: bool,
}

/// One producer group of a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerData {
    /// The group.
    pub group_name: String,
}

/// One consumer group of a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerData {
    /// Where the group starts.
    #[serde(deserialize_with = "ConsumeFromWhere::read", skip_serializing_if = "Option::is_none")]
    pub consume_from_where: Option<ConsumeFromWhere>,
    /// How it gets messages.
    #[serde(deserialize_with = "ConsumeType::read", skip_serializing_if = "Option::is_none")]
    pub consume_type: Option<ConsumeType>,
    /// The group.
    pub group_name: String,
    /// Who gets a message.
    #[serde(deserialize_with = "MessageModel::read", skip_serializing_if = "Option::is_none")]
    pub message_model: Option<MessageModel>,
    /// What it subscribes to.
    pub subscription_data_set: Vec<SubscriptionData>,
    /// Whether it consumes within a unit.
    pub unit_mode: bool,
}

/// A subscription to a topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    /// Filtered by a class on a filter server; out of use.
    pub class_filter_mode: bool,
    /// Hash codes of the tags.
    #[serde(deserialize_with = "number::read_set")]
    pub code_set: BTreeSet<i32>,
    /// `TAG` or `SQL92`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression_type: Option<String>,
    /// The expression: `*`, tags joined by `||`, or SQL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_string: Option<String>,
    /// Version: when the subscription was made (ms since the epoch; the Go client counts nanoseconds).
    #[serde(deserialize_with = "number::read")]
    pub sub_version: i64,
    /// The tags.
    pub tags_set: BTreeSet<String>,
    /// The topic.
    pub topic: String,
}

impl Default for SubscriptionData {
    fn default() -> Self {
        SubscriptionData {
            class_filter_mode: false,
            code_set: BTreeSet::new(),
            expression_type: Some("TAG".to_owned()),
            sub_string: None,
            sub_version: 0,
            tags_set: BTreeSet::new(),
            topic: String::new(),
        }
    }
}

impl SubscriptionData {
    /// Whether messages are chosen by their tag. Java takes a missing or empty type for this one.
    pub fn is_tag_type(&self) -> bool {
        self.expression_type.as_deref().is_none_or(|kind| kind.is_empty() || kind == "TAG")
    }
}

/// The answer to QUERY_SUBSCRIPTION_BY_CONSUMER (345).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupSubscription {
    /// The group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What it wants; `None` when it is not connected or does not subscribe to the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data: Option<SubscriptionData>,
    /// The topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}

/// A subscription that a client wants to know to be valid: the body of CHECK_CLIENT_CONFIG.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckClient {
    /// Id of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data: Option<SubscriptionData>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::fastjson;

    #[test]
    fn a_heartbeat_of_a_java_client() {
        let text = r#"{"clientID":"127.0.0.1@DEFAULT","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"WG_bc","messageModel":"BROADCASTING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA","subVersion":1795971735720,"tagsSet":["TagA"],"topic":"WireTopic"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}"#;
        let heartbeat: HeartbeatData = fastjson::from_slice(text.as_bytes()).unwrap();
        let consumer = &heartbeat.consumer_data_set[0];
        assert_eq!(consumer.message_model, Some(MessageModel::Broadcasting));
        assert_eq!(String::from_utf8(fastjson::to_vec(&heartbeat).unwrap()).unwrap(), text);
    }

    #[test]
    fn a_newer_or_sparse_client() {
        let text = br#"{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_NEWER","messageModel":null,"subscriptionDataSet":[{"topic":"t","tagsSet":null}]}],"producerDataSet":null}"#;
        let heartbeat: HeartbeatData = fastjson::from_slice(text).unwrap();
        let consumer = &heartbeat.consumer_data_set[0];
        assert_eq!((consumer.consume_type, consumer.message_model), (None, None));
        assert!(consumer.subscription_data_set[0].is_tag_type());
    }

    #[test]
    fn subscriptions_of_the_go_and_the_cpp_client() {
        let go = br#"{"clientID":"c","producerDataSet":[],"consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{"classFilterMode":false,"topic":"t","subString":"a || c","tagsSet":["a","c"],"codeSet":["97","99"],"subVersion":1700000000000000000,"expressionType":"TAG"}],"unitMode":false}]}"#;
        let heartbeat: HeartbeatData = fastjson::from_slice(go).unwrap();
        let subscription = &heartbeat.consumer_data_set[0].subscription_data_set[0];
        assert_eq!(subscription.code_set, [97, 99].into());
        let cpp = br#"{"topic":"t","subString":"a","subVersion":"1700000000000","tagsSet":["a"],"codeSet":[97]}"#;
        let subscription: SubscriptionData = fastjson::from_slice(cpp).unwrap();
        assert_eq!((subscription.sub_version, subscription.code_set), (1_700_000_000_000, [97].into()));
    }
}
