//! DELETE_TOPIC_IN_BROKER (215): an administrator deletes a topic with its queues and offsets.

use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::header;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::Store;

use crate::names;
use crate::offsets::Offsets;
use crate::static_topics::StaticTopics;
use crate::stats::Stats;
use crate::timer::Timer;
use crate::topics::TopicTable;

/// Deletes a topic. One that does not exist is a success, as in Java.
pub struct DeleteTopic {
    /// The broker's keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Which of them are static.
    pub static_topics: Arc<StaticTopics>,
    /// Consumers' offsets.
    pub offsets: Arc<Offsets>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Messages.
    pub store: Arc<Store>,
    /// Messages for an arbitrary time.
    pub timer: Option<Arc<Timer>>,
}

impl Handler for DeleteTopic {
    type Request<'a> = header::DeleteTopic<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let topic = request.topic.as_ref();
        tracing::info!(topic, peer = %cx.conn().client(), "asked to delete a topic");
        let refuse = |remark: String| Reply::error(ResponseCode::INVALID_PARAMETER, remark).into();
        if topic.trim().is_empty() {
            return refuse("The specified topic is blank.".to_owned());
        }
        let config = self.config.load();
        if config.validate_system_topic_when_update_topic && self.topics.system.contains(topic) {
            return refuse(format!("The topic[{topic}] is conflict with system topic."));
        }
        let mut doomed = vec![topic.to_owned()];
        if config.clear_retry_topic_when_delete_topic {
            for group in self.offsets.groups_of(topic) {
                doomed.push(names::pop_retry_topic_v2(topic, &group));
                doomed.push(names::pop_retry_topic_v1(topic, &group));
            }
            doomed[1..].sort();
            let mut first = true;
            doomed.retain(|name| std::mem::take(&mut first) || self.topics.contains(name));
        }
        for topic in doomed {
            self.topics.delete(&topic);
            self.static_topics.delete(&topic);
            self.offsets.remove_topic(&topic);
            self.stats.remove_topic(&topic);
            self.store.delete_topic(&topic);
            if let Some(timer) = &self.timer {
                timer.counts().remove(&topic);
            }
        }
        Reply::ok().into()
    }
}
