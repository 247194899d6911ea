//! INVOKE_BROKER_TO_RESET_OFFSET (222): an administrator moves a group to a time or an offset.
//!
//! With `useServerSideResetOffset` (the default) the group's next pull of each queue is answered with the new offset;
//! else the members that are connected are told (220), and move themselves.

use std::sync::Arc;

use config::{BrokerConfig, BrokerRole, Live, MessageStoreConfig};
use remoting::body::fastjson::ObjectKey;
use remoting::body::message_queue::MessageQueue;
use remoting::body::offset_table::ResetOffsets;
use remoting::header;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Language, Reply, ResponseCode};
use store::Store;

use crate::clients::Consumers;
use crate::groups::Groups;
use crate::handlers::{NOT_SET, json};
use crate::identity::Identity;
use crate::offsets::Offsets;
use crate::push;
use crate::topics::{Topic, TopicTable};

/// Moves groups.
pub struct ResetOffset {
    /// Broker keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// Store keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// Names.
    pub identity: Arc<Identity>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Consumer groups.
    pub groups: Arc<Groups>,
    /// Consumers' offsets.
    pub offsets: Arc<Offsets>,
    /// Connected consumers.
    pub consumers: Arc<Consumers>,
    /// Messages.
    pub store: Arc<Store>,
}

impl Handler for ResetOffset {
    type Request<'a> = header::ResetOffset<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        tracing::info!(
            group = &*request.group,
            topic = &*request.topic,
            timestamp = request.timestamp,
            force = request.is_force,
            peer = %cx.conn().client(),
            "offsets are to be reset"
        );
        let done = if self.config.load().use_server_side_reset_offset {
            self.on_this_side(&request)
        } else {
            self.at_the_members(&request, cx.request().language == Language::CPP)
        };
        done.unwrap_or_else(|refusal| refusal).into()
    }
}

impl ResetOffset {
    /// Notes the offsets for the group's next pulls.
    fn on_this_side(&self, request: &header::ResetOffset<'_>) -> Result<Reply, Reply> {
        if self.store_config.load().broker_role == BrokerRole::Slave {
            return Err(Reply::error(ResponseCode::SYSTEM_ERROR, "Can not reset offset in slave broker"));
        }
        let (topic, group) = (request.topic.as_ref(), request.group.as_ref());
        let Some(settings) = self.topics.get(topic) else {
            return Err(Reply::error(ResponseCode::TOPIC_NOT_EXIST, format!("Topic {topic} does not exist")));
        };
        if !self.groups.contains(group) {
            let remark = format!("Group {group} does not exist");
            return Err(Reply::error(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        }
        let by_time = |id: i32| (id, self.by_time(topic, id, request.timestamp));
        let moved: Vec<(i32, i64)> = match request.offset.filter(|offset| *offset != -1) {
            _ if request.queue_id < 0 => (0..settings.read_queue_nums).map(by_time).collect(),
            None => vec![by_time(request.queue_id)],
            Some(offset) => {
                let queue = self.store.queue(topic, request.queue_id);
                let (min, max) = queue.map_or((0, 0), |queue| (queue.min_offset(), queue.max_offset()));
                if min >= 0 && offset < min || offset > max.saturating_add(1) {
                    let remark = format!("Target offset {offset} not in consume queue range [{min}-{max}]");
                    return Err(Reply::error(ResponseCode::SYSTEM_ERROR, remark));
                }
                vec![(request.queue_id, offset)]
            }
        };
        if moved.is_empty() {
            return Err(Reply::error(ResponseCode::SYSTEM_ERROR, "No queues to reset."));
        }
        for (id, offset) in &moved {
            self.offsets.assign_reset(group, topic, *id, *offset);
        }
        Ok(json(&self.table(topic, moved)))
    }

    /// Tells the members. A group is moved forward only by force.
    fn at_the_members(&self, request: &header::ResetOffset<'_>, as_list: bool) -> Result<Reply, Reply> {
        let (topic, group) = (request.topic.as_ref(), request.group.as_ref());
        let Some(settings) = self.topics.get(topic) else {
            let remark = format!("[reset-offset] reset offset failed, no topic in this broker. topic={topic}");
            return Err(Reply::error(ResponseCode::TOPIC_NOT_EXIST, remark));
        };
        let table = self.table(topic, self.wanted(&settings, request)?);
        let members = self.consumers.membership(group).map(|membership| membership.members).unwrap_or_default();
        if members.is_empty() {
            let remark = format!(
                "Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {}",
                request.timestamp
            );
            return Err(Reply::error(ResponseCode::CONSUMER_NOT_ONLINE, remark));
        }
        let header = header::ResetOffset {
            group: group.into(),
            topic: topic.into(),
            queue_id: -1,
            timestamp: request.timestamp,
            ..Default::default()
        };
        for member in members {
            push::pass::check_knows_status(&member.client)?;
            push::reset_offset::push(&member.client.conn, &header, &table, as_list);
        }
        Ok(json(&table).remark(NOT_SET))
    }

    /// Where the members are to go on.
    fn wanted(&self, topic: &Topic, request: &header::ResetOffset<'_>) -> Result<Vec<(i32, i64)>, Reply> {
        let (name, group) = (topic.topic_name.as_str(), request.group.as_ref());
        let place = |id: i32| {
            let Some(consumed) = self.offsets.query(group, name, id) else {
                let remark = format!("THe consumer group <{group}> not exist");
                return Err(Reply::error(ResponseCode::SYSTEM_ERROR, remark));
            };
            let wanted = match request.timestamp {
                -1 => self.end(name, id),
                timestamp => {
                    self.store.queue(name, id).map_or(0, |queue| self.store.offset_by_time(&queue, timestamp, false))
                }
            };
            let wanted = wanted.max(0);
            Ok((id, if request.is_force { wanted } else { wanted.min(consumed) }))
        };
        (0..topic.write_queue_nums).map(place).collect()
    }

    /// The offset of a queue at a time; its end for a time before all.
    fn by_time(&self, topic: &str, id: i32, timestamp: i64) -> i64 {
        if timestamp < 0 {
            return self.end(topic, id);
        }
        self.store.queue(topic, id).map_or(0, |queue| self.store.offset_by_time(&queue, timestamp, false))
    }

    fn end(&self, topic: &str, id: i32) -> i64 {
        self.store.queue(topic, id).map_or(0, |queue| queue.max_offset())
    }

    fn table(&self, topic: &str, offsets: Vec<(i32, i64)>) -> ResetOffsets {
        let queue = |id: i32| ObjectKey(MessageQueue::new(topic, &self.identity.name, id));
        ResetOffsets { offset_table: offsets.into_iter().map(|(id, offset)| (queue(id), offset)).collect() }
    }
}
