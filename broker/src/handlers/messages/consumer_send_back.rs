//! CONSUMER_SEND_MSG_BACK (36): a consumer could not consume a message and wants it again later.
//!
//! A copy goes to the group's retry topic with a delay that grows with each round, or to its dead letter topic when it
//! has come back too often. The copy carries the first topic and the first message id.

use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::body::topic::FLAG_UNIT_SUB;
use remoting::header::ConsumerSendMsgBack;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::Store;
use store::record::{MessageId, RecordView};

use crate::groups::Groups;
use crate::names;
use crate::send::properties::{Known, Properties};
use crate::send::{DLQ_QUEUES, FAQ, MAX_RECONSUME_VERSION, Message, Refusal, Sender, random_queue};
use crate::stats::Stats;
use crate::topics::{PERM_READ, PERM_WRITE, TopicTable};

/// The delay level of a first retry; each further one is a level higher.
const FIRST_LEVEL: i32 = 3;

/// Puts a copy of a message where its group gets it again.
pub struct SendBack {
    config: Arc<Live<BrokerConfig>>,
    groups: Arc<Groups>,
    topics: Arc<TopicTable>,
    store: Arc<Store>,
    sender: Arc<Sender>,
    stats: Arc<Stats>,
}

impl SendBack {
    /// The handler.
    pub fn new(
        config: Arc<Live<BrokerConfig>>,
        groups: Arc<Groups>,
        topics: Arc<TopicTable>,
        store: Arc<Store>,
        sender: Arc<Sender>,
        stats: Arc<Stats>,
    ) -> SendBack {
        SendBack { config, groups, topics, store, sender, stats }
    }

    fn send_back(&self, version: i32, request: &ConsumerSendMsgBack<'_>) -> Result<(), Refusal> {
        let config = self.config.load();
        if config.broker_id != 0 {
            let remark = format!("no master available along with {}", config.broker_ip1);
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        }
        let name = request.group.as_ref();
        let Some(group) = self.groups.find_or_create(name) else {
            let remark = format!("subscription group not exist, {name} {FAQ}");
            return Err(Refusal::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        };
        if config.broker_permission & PERM_WRITE == 0 {
            let remark = format!("the broker[{}] sending message is forbidden", config.broker_ip1);
            return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
        }
        if group.retry_queue_nums <= 0 {
            return Ok(());
        }
        let mut topic = names::retry_topic(name);
        let mut queue_id = random_queue(group.retry_queue_nums)?;
        let flags = if request.unit_mode { FLAG_UNIT_SUB } else { 0 };
        let rw = PERM_READ | PERM_WRITE;
        let settings = self.topics.create_for_send_back(&topic, group.retry_queue_nums, rw, false, flags);
        if settings.perm & PERM_WRITE == 0 {
            let remark = format!("the topic[{topic}] sending message is forbidden");
            return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
        }
        let record = u64::try_from(request.offset).ok().and_then(|offset| self.store.record_at(offset));
        let Some(view) = record.as_ref().and_then(|record| RecordView::parse(record).ok()) else {
            let remark = format!("look message by offset failed, {}", request.offset);
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        };
        let own = request.max_reconsume_times.filter(|_| version >= MAX_RECONSUME_VERSION);
        let max = own.unwrap_or(group.retry_max_times);
        let dead = view.reconsume_times() >= max || request.delay_level < 0;
        let level = match request.delay_level {
            _ if dead => 0,
            0 => FIRST_LEVEL.saturating_add(view.reconsume_times()),
            level => level,
        };
        if dead {
            topic = names::dlq_topic(name);
            queue_id = 0;
            self.topics.create_for_send_back(&topic, DLQ_QUEUES, rw, false, 0);
        }
        let mut properties = copied_properties(&view, level);
        let message = Message {
            flag: view.flag(),
            sys_flag: view.sys_flag(),
            born_timestamp: view.born_timestamp(),
            born_host: view.born_host(),
            reconsume_times: view.reconsume_times().saturating_add(1),
            body: view.body(),
        };
        let first_topic = properties.text(Known::RetryTopic).unwrap_or_default().to_owned();
        self.sender.put(&topic, queue_id, &message, &mut properties).map_err(|refusal| {
            // Java answers every failure of the store with this code, and its name of the failure.
            Refusal::new(ResponseCode::SYSTEM_ERROR, refusal.code.name().unwrap_or("UNKNOWN_ERROR"))
        })?;
        self.stats.reading(name, &first_topic).sent_back.add([1]);
        if dead {
            let asked = request.origin_topic.as_deref().unwrap_or_default();
            self.stats.reading(name, asked).dead.add([1]);
            tracing::info!(
                group = name,
                topic = first_topic,
                offset = request.offset,
                "a message became a dead letter"
            );
        }
        Ok(())
    }
}

/// The properties of the copy: where the message comes from, and when it is due.
fn copied_properties(view: &RecordView<'_>, level: i32) -> Properties {
    let mut properties = Properties::default();
    properties.fill(&[], |out| out.extend_from_slice(view.property_bytes()));
    if properties.get(Known::RetryTopic).is_none() {
        properties.append(Known::RetryTopic, view.topic_bytes());
    }
    properties.put(Known::Wait, b"false");
    properties.put(Known::Delay, itoa::Buffer::new().format(level).as_bytes());
    if properties.text(Known::OriginMessageId).is_none_or(|id| id.trim().is_empty()) {
        let phys_offset = u64::try_from(view.phys_offset()).unwrap_or(0);
        let id = MessageId { host: view.store_host(), phys_offset };
        properties.put(Known::OriginMessageId, id.to_string().as_bytes());
    }
    properties
}

impl Handler for SendBack {
    type Request<'a> = ConsumerSendMsgBack<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        if self.sender.is_closed() {
            return Refusal::busy().into();
        }
        match self.send_back(cx.request().version, &request) {
            Ok(()) => {
                // On a thread of the pool: no read batch ends after this request.
                self.store.dispatch();
                Reply::ok().into()
            }
            Err(refusal) => refusal.into(),
        }
    }
}
