//! UPDATE_AND_CREATE_STATIC_TOPIC (513): a tool makes a static topic, or moves its logical queues.

use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::body::fastjson;
use remoting::body::topic::{TopicConfig, TopicFilterType};
use remoting::body::topic_queue_mapping::TopicQueueMappingDetail;
use remoting::header;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::handlers::{NOT_SET, bad_body};
use crate::names;
use crate::namesrv_link::NamesrvLink;
use crate::static_topics::StaticTopics;
use crate::topics::TopicTable;

/// Sets a topic and its mapping. Answers once the name servers know it.
pub struct CreateStaticTopic {
    /// The broker's keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Mappings.
    pub static_topics: Arc<StaticTopics>,
    /// Name servers.
    pub link: Arc<NamesrvLink>,
}

impl Handler for CreateStaticTopic {
    type Request<'a> = header::CreateTopic<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let name = request.topic.as_ref();
        tracing::info!(topic = name, peer = %cx.conn().client(), "asked to set a static topic");
        // Without a body the topic alone is set.
        let mapping: Option<TopicQueueMappingDetail> = match cx.body() {
            [] => None,
            body => match fastjson::from_slice(body) {
                Ok(mapping) => mapping,
                Err(error) => return bad_body(&error).into(),
            },
        };
        let refuse = |remark: String| Reply::error(ResponseCode::INVALID_PARAMETER, remark).into();
        if let Err(error) = names::check_topic(name) {
            return refuse(error.to_string());
        }
        if self.config.load().validate_system_topic_when_update_topic && self.topics.system.contains(name) {
            return refuse(format!("The topic[{name}] is conflict with system topic."));
        }
        let settings = TopicConfig {
            perm: request.perm,
            read_queue_nums: request.read_queue_nums,
            topic_filter_type: TopicFilterType::from(request.topic_filter_type),
            topic_name: request.topic.into_owned(),
            topic_sys_flag: request.topic_sys_flag.unwrap_or(0),
            write_queue_nums: request.write_queue_nums,
            ..TopicConfig::default()
        };
        // As in Java the settings stay when the mapping is refused.
        let changed = match self.topics.update(vec![settings]) {
            Ok(changed) => changed,
            Err(error) => return Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into(),
        };
        if let Some(mapping) = mapping
            && let Err(error) = self.static_topics.set(mapping, request.force)
        {
            return Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into();
        }
        self.link.topics_changed(&changed);
        let link = self.link.clone();
        Outcome::Later(Box::pin(async move {
            link.register_changed().await;
            Reply::ok().remark(NOT_SET)
        }))
    }
}
