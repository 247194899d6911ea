//! A consumer group's settings: the body of 200, 201, 225, 352, and an entry of `config/subscriptionGroup.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::topic::DataVersion;

/// Settings of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupConfig {
    /// Attributes without a sign; in a request with `+` or `-` before the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<BTreeMap<String, String>>,
    /// The broker of the set that serves the group first.
    pub broker_id: i64,
    /// Whether members may consume by broadcast.
    pub consume_broadcast_enable: bool,
    /// Whether members may consume at all.
    pub consume_enable: bool,
    /// Whether a new group starts at the first message.
    pub consume_from_min_enable: bool,
    /// Whether messages go to members in order (POP).
    pub consume_message_orderly: bool,
    /// Minutes after which a message that is being consumed counts as failed; for push consumers.
    pub consume_timeout_minute: i32,
    /// The name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_name: Option<String>,
    /// Delays between retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_retry_policy: Option<GroupRetryPolicy>,
    /// Flags of unitized set-ups.
    pub group_sys_flag: i32,
    /// Whether members are told when the membership changes.
    pub notify_consumer_ids_changed_enable: bool,
    /// Retries before a message goes to the dead letter topic.
    pub retry_max_times: i32,
    /// Queues of the retry topic.
    pub retry_queue_nums: i32,
    /// What the group subscribes to, when that is fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data_set: Option<Vec<SimpleSubscription>>,
    /// The broker that a consumer which falls behind is sent to.
    pub which_broker_when_consume_slowly: i64,
}

impl Default for SubscriptionGroupConfig {
    fn default() -> Self {
        SubscriptionGroupConfig {
            attributes: Some(BTreeMap::new()),
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            consume_message_orderly: false,
            consume_timeout_minute: 15,
            group_name: None,
            group_retry_policy: Some(GroupRetryPolicy::default()),
            group_sys_flag: 0,
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            subscription_data_set: None,
            which_broker_when_consume_slowly: 1,
        }
    }
}

impl SubscriptionGroupConfig {
    /// Default settings of a group of that name.
    pub fn named(group: &str) -> SubscriptionGroupConfig {
        SubscriptionGroupConfig { group_name: Some(group.to_owned()), ..SubscriptionGroupConfig::default() }
    }

    /// The name; empty when a request gave none.
    pub fn name(&self) -> &str {
        self.group_name.as_deref().unwrap_or_default()
    }
}

/// How the delay before a retry grows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupRetryPolicy {
    /// The delays of [`RetryPolicyType::CUSTOMIZED`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customized_retry_policy: Option<CustomizedRetryPolicy>,
    /// The delays of [`RetryPolicyType::EXPONENTIAL`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponential_retry_policy: Option<ExponentialRetryPolicy>,
    /// Which of the two counts.
    #[serde(rename = "type")]
    pub kind: RetryPolicyType,
}

impl Default for GroupRetryPolicy {
    fn default() -> Self {
        GroupRetryPolicy {
            customized_retry_policy: None,
            exponential_retry_policy: None,
            kind: RetryPolicyType::CUSTOMIZED,
        }
    }
}

impl GroupRetryPolicy {
    /// Milliseconds to wait before the retry of a message that failed `times` times before.
    pub fn next_delay(&self, times: i32) -> i64 {
        let fallback = CustomizedRetryPolicy::default();
        match (self.kind, &self.exponential_retry_policy, &self.customized_retry_policy) {
            (RetryPolicyType::EXPONENTIAL, Some(policy), _) => policy.next_delay(times),
            (RetryPolicyType::CUSTOMIZED, _, Some(policy)) => policy.next_delay(times),
            _ => fallback.next_delay(times),
        }
    }
}

/// Kinds of [`GroupRetryPolicy`], by their names in Java.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, clippy::upper_case_acronyms)]
pub enum RetryPolicyType {
    EXPONENTIAL,
    CUSTOMIZED,
}

/// A list of delays, one a retry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomizedRetryPolicy {
    /// Milliseconds. As with delay levels the first two are never used for a retry.
    pub next: Vec<i64>,
}

impl Default for CustomizedRetryPolicy {
    fn default() -> Self {
        let seconds = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];
        CustomizedRetryPolicy { next: seconds.iter().map(|second| second * 1000).collect() }
    }
}

impl CustomizedRetryPolicy {
    fn next_delay(&self, times: i32) -> i64 {
        let at = usize::try_from(times).unwrap_or(0).saturating_add(2);
        self.next.get(at).or(self.next.last()).copied().unwrap_or(0)
    }
}

/// Delays that grow by a factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExponentialRetryPolicy {
    /// Milliseconds before the first retry.
    pub initial: i64,
    /// Milliseconds at most.
    pub max: i64,
    /// Factor between retries.
    pub multiplier: i64,
}

impl Default for ExponentialRetryPolicy {
    fn default() -> Self {
        ExponentialRetryPolicy { initial: 5_000, max: 7_200_000, multiplier: 2 }
    }
}

impl ExponentialRetryPolicy {
    fn next_delay(&self, times: i32) -> i64 {
        // Java multiplies in 64 bits after a conversion from double that saturates.
        let factor = (self.multiplier as f64).powi(times.clamp(0, 32)) as i64;
        self.initial.wrapping_mul(factor).min(self.max)
    }
}

/// A fixed subscription of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SimpleSubscription {
    /// What is wanted: tags or a SQL92 expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// `TAG` or `SQL92`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression_type: Option<String>,
    /// The topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Version (ms since the epoch).
    pub version: i64,
}

/// All groups of a broker: the answer to 201, and `config/subscriptionGroup.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupTable {
    /// The table's version.
    pub data_version: DataVersion,
    /// Bits that forbid a group a topic: by group, by topic.
    pub forbidden_table: BTreeMap<String, BTreeMap<String, i32>>,
    /// The groups by name.
    pub subscription_group_table: BTreeMap<String, SubscriptionGroupConfig>,
}

/// Many groups at once: the body of 225.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupList {
    /// The groups.
    pub group_config_list: Vec<SubscriptionGroupConfig>,
}

/// The answer to UPDATE_AND_GET_GROUP_FORBIDDEN (353).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupForbidden {
    /// The group.
    pub group: String,
    /// Whether it may read the topic.
    pub readable: bool,
    /// The topic.
    pub topic: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_written_as_java_does() {
        let text = serde_json::to_string(&SubscriptionGroupConfig::named("g")).unwrap();
        assert_eq!(
            text,
            r#"{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}"#
        );
    }

    #[test]
    fn delays_between_retries() {
        let policy = GroupRetryPolicy::default();
        assert_eq!((policy.next_delay(-1), policy.next_delay(0), policy.next_delay(99)), (10_000, 10_000, 7_200_000));
        let exponential = GroupRetryPolicy {
            exponential_retry_policy: Some(ExponentialRetryPolicy::default()),
            kind: RetryPolicyType::EXPONENTIAL,
            customized_retry_policy: None,
        };
        assert_eq!((exponential.next_delay(0), exponential.next_delay(3)), (5_000, 40_000));
        assert_eq!(exponential.next_delay(i32::MAX), 7_200_000);
    }
}
