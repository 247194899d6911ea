//! The requests that a broker sends to name servers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use config::BrokerConfig;
use remoting::body::fastjson;
use remoting::body::register::RegisterBrokerBody;
use remoting::body::route::{QueueData, TopicRouteData};
use remoting::body::topic::{DataVersion, TopicConfig, TopicConfigAndMapping};
use remoting::body::topic_queue_mapping::TopicQueueMappingInfo;
use remoting::header::{BrokerHeartbeat, QueryDataVersion, RegisterBroker, RegisterTopic, UnRegisterBroker};
use remoting::{Command, RequestCode};

use crate::identity::Identity;
use crate::topics::{PERM_READ, PERM_WRITE};

/// What is registered of topics: all of them, or those that have changed.
pub struct Topics {
    /// Settings.
    pub configs: Vec<TopicConfig>,
    /// Of those that are static, which logical queues we lead.
    pub mappings: BTreeMap<String, TopicQueueMappingInfo>,
    /// Of the table of topics.
    pub version: DataVersion,
}

/// REGISTER_BROKER (103) with these topics.
pub fn register(who: &Identity, config: &BrokerConfig, topics: Topics) -> Command {
    let allowed = config.broker_permission;
    let restricted = allowed & PERM_READ == 0 || allowed & PERM_WRITE == 0;
    let Topics { configs, mappings, version: data_version } = topics;
    let topics = configs.into_iter().map(|mut topic| {
        if restricted {
            topic.perm &= allowed;
            topic.attributes.clear();
        }
        (topic.topic_name.clone(), topic)
    });
    let body = RegisterBrokerBody {
        filter_server_list: Some(Vec::new()),
        topic_config_serialize_wrapper: TopicConfigAndMapping {
            data_version,
            mapping_data_version: DataVersion::new(),
            topic_config_table: topics.collect(),
            topic_queue_mapping_info_map: mappings,
            ..TopicConfigAndMapping::default()
        },
    };
    // Java 5.5.0 deflates the body and says that it did not, so that no name server takes it; we say so.
    let compressed = config.compressed_register;
    let body = if compressed { body.to_compressed().ok() } else { body.to_plain().ok() }.unwrap_or_default();
    let acting = config.enable_slave_acting_master;
    let header = RegisterBroker {
        broker_name: Cow::Borrowed(&who.name),
        broker_addr: Cow::Borrowed(&who.addr),
        cluster_name: Cow::Borrowed(&who.cluster),
        ha_server_addr: Cow::Borrowed(&who.ha_addr),
        broker_id: who.id,
        heartbeat_timeout_millis: acting.then_some(config.broker_not_active_timeout_millis),
        enable_acting_master: Some(acting),
        compressed,
        body_crc32: (crc32fast::hash(&body) & 0x7FFF_FFFF) as i32,
    };
    Command::request(RequestCode::REGISTER_BROKER).header(&header).body(body)
}

/// REGISTER_TOPIC_IN_NAMESRV (217): one topic only (`enableSingleTopicRegister`).
pub fn register_topic(who: &Identity, topic: &TopicConfig) -> Command {
    let queues = QueueData {
        broker_name: who.name.clone(),
        perm: topic.perm,
        read_queue_nums: topic.read_queue_nums,
        topic_sys_flag: topic.topic_sys_flag,
        write_queue_nums: topic.write_queue_nums,
    };
    let route = TopicRouteData { queue_datas: vec![queues], ..TopicRouteData::default() };
    let header = RegisterTopic { topic: Cow::Borrowed(&topic.topic_name), ..RegisterTopic::default() };
    let body = fastjson::to_vec(&route).unwrap_or_default();
    Command::request(RequestCode::REGISTER_TOPIC_IN_NAMESRV).header(&header).body(body)
}

/// QUERY_DATA_VERSION (322): whether the name server's table of our topics is another one; also a sign of life.
pub fn query_data_version(who: &Identity, version: &DataVersion) -> Command {
    let header = QueryDataVersion {
        broker_name: Cow::Borrowed(&who.name),
        broker_addr: Cow::Borrowed(&who.addr),
        cluster_name: Cow::Borrowed(&who.cluster),
        broker_id: who.id,
    };
    let body = fastjson::to_vec(version).unwrap_or_default();
    Command::request(RequestCode::QUERY_DATA_VERSION).header(&header).body(body)
}

/// BROKER_HEARTBEAT (904): a sign of life for name servers of version 5.
pub fn heartbeat(who: &Identity) -> Command {
    let header = BrokerHeartbeat {
        cluster_name: Cow::Borrowed(&who.cluster),
        broker_addr: Cow::Borrowed(&who.addr),
        broker_name: Cow::Borrowed(&who.name),
        ..BrokerHeartbeat::default()
    };
    Command::request(RequestCode::BROKER_HEARTBEAT).header(&header)
}

/// UNREGISTER_BROKER (104).
pub fn unregister(who: &Identity) -> Command {
    let header = UnRegisterBroker {
        broker_name: Cow::Borrowed(&who.name),
        broker_addr: Cow::Borrowed(&who.addr),
        cluster_name: Cow::Borrowed(&who.cluster),
        broker_id: who.id,
    };
    Command::request(RequestCode::UNREGISTER_BROKER).header(&header)
}

#[cfg(test)]
mod tests {
    use remoting::SerializeType;

    use super::*;

    fn who() -> Identity {
        let config = BrokerConfig {
            broker_ip1: "127.0.0.1".into(),
            broker_ip2: "127.0.0.1".into(),
            broker_name: "broker-a".into(),
            ..BrokerConfig::default()
        };
        Identity::new(&config, 10711, 10712, SerializeType::Json)
    }

    fn one(topic: TopicConfig, version: DataVersion) -> Topics {
        Topics { configs: vec![topic], mappings: BTreeMap::new(), version }
    }

    /// A registration as the Java broker sends it after one topic's change.
    #[test]
    fn one_changed_topic() {
        let version = DataVersion { counter: 1, state_version: 0, timestamp: 1_795_971_514_396 };
        let topic = TopicConfig::new("WireTopic", 4, 6);
        let command = register(&who(), &BrokerConfig::default(), one(topic, version));
        let text = String::from_utf8(command.body.to_vec()).unwrap();
        let head = r#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1795971514396},"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":"#;
        let tail = r#"},"topicConfigTable":{"WireTopic":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"WireTopic","topicSysFlag":0,"writeQueueNums":4}},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}"#;
        assert!(text.starts_with(head) && text.ends_with(tail), "{text}");
        let mut fields = command.fields.clone();
        fields.sort();
        let crc = (crc32fast::hash(text.as_bytes()) & 0x7FFF_FFFF).to_string();
        let expected = [
            ("bodyCrc32", crc.as_str()),
            ("brokerAddr", "127.0.0.1:10711"),
            ("brokerId", "0"),
            ("brokerName", "broker-a"),
            ("clusterName", "DefaultCluster"),
            ("compressed", "false"),
            ("enableActingMaster", "false"),
            ("haServerAddr", "127.0.0.1:10712"),
        ];
        assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_broker_that_takes_no_writes_says_so_of_every_topic() {
        let config = BrokerConfig { broker_permission: PERM_READ, ..BrokerConfig::default() };
        let topic = TopicConfig::new("T", 4, 6);
        let command = register(&who(), &config, one(topic, DataVersion::new()));
        assert!(String::from_utf8_lossy(&command.body).contains(r#""perm":4,"#));
    }

    #[test]
    fn one_topic_only() {
        let command = register_topic(&who(), &TopicConfig::new("RegTopic", 2, 6));
        let body = r#"{"brokerDatas":[],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":2,"topicSysFlag":0,"writeQueueNums":2}]}"#;
        assert_eq!(command.body, body);
        assert_eq!(command.fields, [("topic".to_owned(), "RegTopic".to_owned())]);
    }
}
