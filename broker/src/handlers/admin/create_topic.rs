//! UPDATE_AND_CREATE_TOPIC (17) and UPDATE_AND_CREATE_TOPIC_LIST (18): an administrator makes or changes topics.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::body::fastjson;
use remoting::body::topic::{TopicConfig, TopicFilterType};
use remoting::body::topic_config_list::TopicConfigList;
use remoting::header;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::handlers::bad_body;
use crate::names;
use crate::namesrv_link::NamesrvLink;
use crate::topics::TopicTable;

/// Java leaves the remark of a fresh answer in place when a topic was set.
const JAVA_REMARK: &str = "not set any response code";

/// Sets one topic. Answers once the name servers know it, so that the next route query finds it.
pub struct CreateTopic(Setter);

/// Sets several topics, all or none.
pub struct CreateTopicList(Setter);

struct Setter {
    config: Arc<Live<BrokerConfig>>,
    topics: Arc<TopicTable>,
    link: Arc<NamesrvLink>,
}

impl CreateTopic {
    /// The handler.
    pub fn new(config: Arc<Live<BrokerConfig>>, topics: Arc<TopicTable>, link: Arc<NamesrvLink>) -> CreateTopic {
        CreateTopic(Setter { config, topics, link })
    }
}

impl CreateTopicList {
    /// The handler.
    pub fn new(config: Arc<Live<BrokerConfig>>, topics: Arc<TopicTable>, link: Arc<NamesrvLink>) -> CreateTopicList {
        CreateTopicList(Setter { config, topics, link })
    }
}

impl Handler for CreateTopic {
    type Request<'a> = header::CreateTopic<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        tracing::info!(topic = %request.topic, peer = %cx.conn().client(), "asked to set a topic");
        let attributes = match parse_attributes(request.attributes.as_deref().unwrap_or_default()) {
            Ok(attributes) => attributes,
            Err(remark) => return Reply::error(ResponseCode::SYSTEM_ERROR, remark).into(),
        };
        self.0.set(vec![TopicConfig {
            attributes,
            order: request.order,
            perm: request.perm,
            read_queue_nums: request.read_queue_nums,
            topic_filter_type: TopicFilterType::from(request.topic_filter_type),
            topic_name: request.topic.into_owned(),
            topic_sys_flag: request.topic_sys_flag.unwrap_or(0),
            write_queue_nums: request.write_queue_nums,
        }])
    }
}

impl Handler for CreateTopicList {
    type Request<'a> = header::CreateTopicList<'a>;

    fn handle(&self, cx: &mut Cx<'_>, _: Self::Request<'_>) -> Outcome {
        let list: TopicConfigList = match fastjson::from_slice(cx.body()) {
            Ok(list) => list,
            Err(error) => return bad_body(&error).into(),
        };
        tracing::info!(topics = list.topic_config_list.len(), peer = %cx.conn().client(), "asked to set topics");
        self.0.set(list.topic_config_list)
    }
}

impl Setter {
    fn set(&self, topics: Vec<TopicConfig>) -> Outcome {
        for topic in &topics {
            if let Err(remark) = self.check(topic) {
                return Reply::error(ResponseCode::INVALID_PARAMETER, remark).into();
            }
            if self.topics.get(&topic.topic_name).is_some_and(|known| known.config() == topic) {
                return Reply::ok().remark(JAVA_REMARK).into();
            }
        }
        let changed = match self.topics.update(topics) {
            Ok(changed) => changed,
            Err(error) => return Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into(),
        };
        self.link.topics_changed(&changed);
        let link = self.link.clone();
        Outcome::Later(Box::pin(async move {
            link.register_changed().await;
            Reply::ok().remark(JAVA_REMARK)
        }))
    }

    fn check(&self, topic: &TopicConfig) -> Result<(), String> {
        let name = topic.topic_name.as_str();
        names::check_topic(name).map_err(|error| error.to_string())?;
        let config = self.config.load();
        if config.validate_system_topic_when_update_topic && self.topics.system.contains(name) {
            return Err(format!("The topic[{name}] is conflict with system topic."));
        }
        let mixed = topic.attributes.get("+message.type").is_some_and(|kind| kind == "MIXED");
        if mixed && !config.enable_mixed_message_type {
            return Err("MIXED message type is not supported.".to_owned());
        }
        Ok(())
    }
}

/// Reads `+key=value,-key` of the request header. The errors are Java's.
fn parse_attributes(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut attributes = BTreeMap::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (key, value) = match part.split_once('=') {
            Some((key, value)) if key.contains('+') => (key, value.split('=').next().unwrap_or_default()),
            Some((key, _)) => return Err(format!("add/alter attribute format is wrong: {key}")),
            None if part.contains('-') => (part, ""),
            None => return Err(format!("delete attribute format is wrong: {part}")),
        };
        if attributes.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!("key duplication: {key}"));
        }
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_the_header() {
        let read = parse_attributes("+message.type=FIFO,-queue.type").unwrap();
        assert_eq!(
            read.into_iter().collect::<Vec<_>>(),
            [("+message.type".to_owned(), "FIFO".to_owned()), ("-queue.type".to_owned(), String::new()),]
        );
        assert!(parse_attributes("").unwrap().is_empty());
        assert_eq!(parse_attributes("a=b").unwrap_err(), "add/alter attribute format is wrong: a");
        assert_eq!(parse_attributes("a").unwrap_err(), "delete attribute format is wrong: a");
        assert_eq!(parse_attributes("-a,-a").unwrap_err(), "key duplication: -a");
    }
}
