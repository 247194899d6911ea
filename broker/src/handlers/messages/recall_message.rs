//! RECALL_MESSAGE (370): a producer takes back a timed message before its time.
//!
//! The recall is a timed message itself: it goes into the slot of the one that it recalls, and is found there when the slot is
//! due. So a success says that the recall was stored, not that there was anything to recall.

use std::sync::Arc;

use config::{BrokerConfig, BrokerRole, Live, MessageStoreConfig};
use remoting::header::{RecallMessage, RecallMessageResponse};
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::identity::Identity;
use crate::send::properties::{Known, Properties};
use crate::send::{Message, Need, Refusal, Sender};
use crate::stats::now_millis;
use crate::timer::RecallHandle;
use crate::topics::{PERM_WRITE, TopicTable};

/// The tag of recalls.
const TAG: &[u8] = b"_RECALL_TAG_";
/// Their body.
const BODY: &[u8] = b"0";
/// What Java forgets to take back before it answers.
const REMARK: &str = "not set any response code";

/// Stores recalls.
pub struct Recall {
    /// The broker's keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// The store's keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// Names and addresses.
    pub identity: Arc<Identity>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Takes messages.
    pub sender: Arc<Sender>,
}

impl Handler for Recall {
    type Request<'a> = RecallMessage<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let region = |reply: Reply| reply.field("MSG_REGION", &self.identity.region);
        let (unique_key, need, end) = match self.recall(cx, &request) {
            Ok(recalled) => recalled,
            Err(refusal) => return region(Reply::error(refusal.code, refusal.remark)).into(),
        };
        let header = RecallMessageResponse { msg_id: unique_key.into() };
        let reply = region(Reply::ok().remark(REMARK).header(&header));
        if need.is_nothing() {
            return reply.into();
        }
        let durable = self.sender.durable(need, end);
        Outcome::Later(Box::pin(async move {
            // Too late or not: it is stored, and Java answers with success in either case.
            let _ = durable.reached().await;
            reply
        }))
    }
}

impl Recall {
    /// Stores the recall; returns the key of the message, what the answer waits for, and where the recall ends in the log.
    fn recall(&self, cx: &Cx<'_>, request: &RecallMessage<'_>) -> Result<(String, Need, u64), Refusal> {
        let config = self.config.load();
        let not_available =
            || Refusal::new(ResponseCode::SERVICE_NOT_AVAILABLE, "recall failed, broker service not available");
        let illegal = |remark| Refusal::new(ResponseCode::ILLEGAL_OPERATION, remark);
        if !config.recall_message_enable {
            return Err(Refusal::new(ResponseCode::NO_PERMISSION, "recall failed, operation is forbidden"));
        }
        if self.store_config.load().broker_role == BrokerRole::Slave {
            let remark = "recall failed, broker service not available";
            return Err(Refusal::new(ResponseCode::SLAVE_NOT_AVAILABLE, remark));
        }
        if now_millis() < config.start_accept_send_request_time_stamp
            || config.broker_permission & PERM_WRITE == 0 && !config.allow_recall_when_broker_not_writeable
        {
            return Err(not_available());
        }
        let topic = request.topic.as_ref();
        if !self.topics.contains(topic) {
            let remark = format!("recall failed, the topic[{topic}] not exist");
            return Err(Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark));
        }
        let handle = RecallHandle::decode(&request.recall_handle)
            .map_err(|error| Refusal::new(ResponseCode::ILLEGAL_OPERATION, error.to_string()))?;
        if handle.topic != topic {
            return Err(illegal("recall failed, topic not match"));
        }
        if handle.broker != self.identity.name {
            return Err(illegal("recall failed, broker service not available"));
        }
        let left = handle.time.parse::<i64>().unwrap_or(-1).saturating_sub(now_millis());
        if left <= 0 || left >= i64::from(self.store_config.load().timer_max_delay_sec) * 1000 {
            return Err(illegal("recall failed, timestamp invalid"));
        }
        let mut properties = self.properties(&handle, request.producer_group.as_deref());
        let message = Message {
            flag: 0,
            sys_flag: 0,
            born_timestamp: now_millis(),
            born_host: cx.conn().peer(),
            reconsume_times: 0,
            body: BODY,
        };
        let put =
            self.sender.need(true).and_then(|need| Ok((need, self.sender.put(topic, 0, &message, &mut properties)?)));
        let (need, put) = put.map_err(|refusal| {
            tracing::warn!(topic, remark = %refusal.remark, "a recall could not be stored");
            Refusal::new(ResponseCode::SYSTEM_ERROR, "recall failed, execute error")
        })?;
        Ok((handle.unique_key, need, put.appended.end))
    }

    fn properties(&self, handle: &RecallHandle, group: Option<&str>) -> Properties {
        let mut properties = Properties::default();
        properties.append(Known::Tags, TAG);
        let key = match self.store_config.load().append_topic_for_timer_delete_key {
            true => format!("{}+{}", handle.topic, handle.unique_key),
            false => handle.unique_key.clone(),
        };
        properties.append(Known::TimerDeleteKey, key.as_bytes());
        properties.append(Known::UniqueKey, handle.unique_key.as_bytes());
        properties.append(Known::TimerDeliverMs, handle.time.as_bytes());
        let mut number = itoa::Buffer::new();
        let mut more = Vec::new();
        store::record::properties::push(&mut more, "BORN_TIMESTAMP", number.format(now_millis()).as_bytes());
        if let Some(group) = group.filter(|group| !group.is_empty()) {
            store::record::properties::push(&mut more, "PGROUP", group.as_bytes());
        }
        properties.append_encoded(&more);
        properties
    }
}
