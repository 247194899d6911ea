//! Whether a pull may be served, and with which filter.

use std::sync::Arc;

use config::BrokerConfig;
use remoting::ResponseCode;
use remoting::body::heartbeat::{ConsumeType, MessageModel};
use remoting::body::subscription_group::SubscriptionGroupConfig;
use remoting::server::ConnHandle;
use remoting::{FieldSink, WriteHeader};
use store::Queue;

use super::ask::Ask;
use super::{Puller, waiter::Waiter};
use crate::filter::{ConsumerFilter, Filter, SqlFilter, TagFilter, tags};
use crate::names;
use crate::send::FAQ;
use crate::topics::{PERM_READ, Reader, Topic};

/// A pull that may be served.
pub(super) struct Plan {
    pub(super) topic: Arc<Topic>,
    pub(super) group: Arc<SubscriptionGroupConfig>,
    /// `None`: a lite topic that nobody has sent to.
    pub(super) queue: Option<Arc<Queue>>,
    pub(super) filter: Filter,
    /// What it is noted in.
    pub(super) reader: Arc<Reader>,
}

/// A pull that may not.
#[derive(Debug)]
pub(super) struct Rejection {
    pub(super) code: ResponseCode,
    pub(super) remark: String,
    pub(super) header: Forbidden,
}

/// Who forbids, by Java's number; the only header field of a rejection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forbidden(Option<i32>);

const BY_BROKER: Forbidden = Forbidden(Some(1));
const BY_GROUP: Forbidden = Forbidden(Some(2));
const BY_TOPIC: Forbidden = Forbidden(Some(3));
const BY_BROADCAST: Forbidden = Forbidden(Some(4));
const BY_SUBSCRIPTION: Forbidden = Forbidden(Some(5));

impl WriteHeader for Forbidden {
    fn write(&self, sink: &mut dyn FieldSink) {
        if let Some(kind) = self.0 {
            sink.number("forbiddenType", i64::from(kind));
        }
    }
}

fn reject<T>(code: ResponseCode, remark: impl Into<String>) -> Result<T, Rejection> {
    Err(Rejection { code, remark: remark.into(), header: Forbidden(None) })
}

fn forbid<T>(header: Forbidden, remark: impl Into<String>) -> Result<T, Rejection> {
    Err(Rejection { code: ResponseCode::NO_PERMISSION, remark: remark.into(), header })
}

impl Puller {
    /// All checks of a pull in Java's order. A waiter brings the filter of its request along.
    pub(super) fn plan(
        &self,
        config: &BrokerConfig,
        conn: &ConnHandle,
        ask: &Ask<'_>,
        parked: Option<&Waiter>,
    ) -> Result<Plan, Rejection> {
        if config.broker_permission & PERM_READ == 0 {
            return forbid(BY_BROKER, format!("the broker[{}] pulling message is forbidden", config.broker_ip1));
        }
        if ask.lite && !config.lite_pull_message_enable {
            let remark = format!("the broker[{}] for lite pull consumer is forbidden", config.broker_ip1);
            return forbid(BY_BROKER, remark);
        }
        let Some(group) = self.parts.groups.find_or_create(ask.group) else {
            let remark = format!("subscription group [{}] does not exist, {FAQ}", ask.group);
            return reject(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark);
        };
        if !group.consume_enable {
            return forbid(BY_GROUP, format!("subscription group no permission, {}", ask.group));
        }
        let Some(topic) = self.parts.topics.get(ask.topic) else {
            let remark = format!("topic[{}] not exist, apply first please! {FAQ}", ask.topic);
            return reject(ResponseCode::TOPIC_NOT_EXIST, remark);
        };
        if topic.perm & PERM_READ == 0 {
            return forbid(BY_TOPIC, format!("the topic[{}] pulling message is forbidden", ask.topic));
        }
        if ask.queue_id < 0 || ask.queue_id >= topic.read_queue_nums {
            let remark = format!(
                "queueId[{}] is illegal, topic:[{}] topicConfig.readQueueNums:[{}] consumer:[/{}]",
                ask.queue_id,
                ask.topic,
                topic.read_queue_nums,
                conn.peer()
            );
            return reject(ResponseCode::INVALID_PARAMETER, remark);
        }
        let filter = match parked {
            Some(waiter) if ask.carries_subscription() => waiter.filter.clone(),
            _ if ask.carries_subscription() => self.filter_of_request(config, ask)?,
            _ => self.filter_of_heartbeat(config, ask, &group)?,
        };
        if config.reject_pull_consumer_enable && self.is_stranger(conn, ask.group) {
            let remark =
                format!("the consumer's group info not exist, or the pull consumer is rejected by server.{FAQ}");
            return reject(ResponseCode::SUBSCRIPTION_NOT_EXIST, remark);
        }
        let store = &self.parts.store;
        let queue = match ask.lite_topic {
            None => Some(topic.queue(store, ask.queue_id)),
            Some(lite) => store.queue(&format!("{}${}${lite}", names::LMQ_PREFIX, ask.topic), ask.queue_id),
        };
        let reader = topic.readers.of(ask.topic, &group, &self.parts.offsets, &self.parts.stats);
        Ok(Plan { topic, group, queue, filter, reader })
    }

    /// The filter that the group subscribed with.
    fn filter_of_heartbeat(
        &self,
        config: &BrokerConfig,
        ask: &Ask<'_>,
        group: &SubscriptionGroupConfig,
    ) -> Result<Filter, Rejection> {
        let Some(found) = self.parts.consumers.find(ask.group, ask.topic) else {
            let remark = format!("the consumer's group info not exist{FAQ}");
            return reject(ResponseCode::SUBSCRIPTION_NOT_EXIST, remark);
        };
        if !group.consume_broadcast_enable && found.message_model == Some(MessageModel::Broadcasting) {
            let remark = format!("the consumer group[{}] can not consume by broadcast way", ask.group);
            return forbid(BY_BROADCAST, remark);
        }
        if self.parts.groups.is_forbidden(ask.group, ask.topic, 0) {
            let remark = format!("the consumer group[{}] is forbidden for topic[{}]", ask.group, ask.topic);
            return forbid(BY_SUBSCRIPTION, remark);
        }
        let Some(subscription) = found.subscription else {
            let remark = format!("the consumer's subscription not exist{FAQ}");
            return reject(ResponseCode::SUBSCRIPTION_NOT_EXIST, remark);
        };
        if subscription.sub_version < ask.sub_version {
            return reject(ResponseCode::SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest");
        }
        if subscription.is_tag_type() {
            return Ok(Filter::Tags(TagFilter::of(&subscription)));
        }
        let Some(filter) = self.parts.filters.get(ask.topic, ask.group) else {
            let remark = "The broker's consumer filter data is not exist!Your expression may be wrong!";
            return reject(ResponseCode::FILTER_DATA_NOT_EXIST, remark);
        };
        if filter.client_version < ask.sub_version {
            return reject(ResponseCode::FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest");
        }
        self.filter_by(config, ask, subscription.expression_type.as_deref().unwrap_or_default(), filter)
    }

    /// The filter that the request carries.
    fn filter_of_request(&self, config: &BrokerConfig, ask: &Ask<'_>) -> Result<Filter, Rejection> {
        let filter = match ask.expression_type {
            None | Some("TAG") => TagFilter::parse(ask.expression).ok(),
            Some(_) if ask.expression.is_empty() => None,
            // Java takes an empty type for tags, but reads no tags from the expression then.
            Some("") if ask.expression == tags::ALL => Some(TagFilter::all()),
            Some("") => Some(TagFilter::of_codes([])),
            // An expression that cannot be compiled lets everything through, as with Java.
            Some(kind) => {
                let filter = ConsumerFilter::build(ask.group, ask.topic, ask.expression, Some(kind));
                return self.filter_by(config, ask, kind, Arc::new(filter));
            }
        };
        match filter {
            Some(filter) => Ok(Filter::Tags(filter)),
            None => reject(ResponseCode::SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"),
        }
    }

    fn filter_by(
        &self,
        config: &BrokerConfig,
        ask: &Ask<'_>,
        kind: &str,
        filter: Arc<ConsumerFilter>,
    ) -> Result<Filter, Rejection> {
        if !config.enable_property_filter {
            let remark = format!("The broker does not support consumer to filter message by {kind}");
            return reject(ResponseCode::SYSTEM_ERROR, remark);
        }
        let retried = config.filter_support_retry && ask.topic.starts_with(names::RETRY_PREFIX);
        Ok(Filter::Sql(Arc::new(SqlFilter::new(Some(filter), retried.then(|| self.parts.filters.clone())))))
    }

    /// Whether a pull comes from a group or a connection that no heartbeat has announced.
    fn is_stranger(&self, conn: &ConnHandle, group: &str) -> bool {
        if names::is_system_group(group) {
            return false;
        }
        let Some(membership) = self.parts.consumers.membership(group) else { return true };
        membership.consume_type == Some(ConsumeType::Actively)
            && !membership.members.iter().any(|member| member.client.conn.id() == conn.id())
    }
}
