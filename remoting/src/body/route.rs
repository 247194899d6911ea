//! The route of a topic: which brokers hold how many of its queues.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::topic_queue_mapping::TopicQueueMappingInfo;

/// Java's `TopicRouteData`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicRouteData {
    /// The brokers, each once.
    pub broker_datas: Vec<BrokerData>,
    /// Filter servers by broker address.
    pub filter_server_table: BTreeMap<String, Vec<String>>,
    /// `broker:queues;broker:queues`, from the name server's KV configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_topic_conf: Option<String>,
    /// The queues of each broker.
    pub queue_datas: Vec<QueueData>,
    /// Only for static topics: mapping by broker name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_queue_mapping_by_broker: Option<BTreeMap<String, TopicQueueMappingInfo>>,
}

/// A broker name with the addresses of its master (id 0) and slaves. Java's `BrokerData`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BrokerData {
    /// Address by broker id.
    pub broker_addrs: BTreeMap<i64, String>,
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_name: Option<String>,
    /// Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Whether a slave may act for a lost master.
    pub enable_acting_master: bool,
    /// Zone, as the broker registered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_name: Option<String>,
}

/// The queues of one topic on one broker name. Java's `QueueData`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QueueData {
    /// Name.
    pub broker_name: String,
    /// `PERM_` bits of [`topic`](super::topic).
    pub perm: i32,
    /// Queues that consumers see.
    pub read_queue_nums: i32,
    /// `FLAG_` bits of [`topic`](super::topic).
    pub topic_sys_flag: i32,
    /// Queues that producers see.
    pub write_queue_nums: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::fastjson;

    /// Written by Java from the same values.
    const DIALECT: &str = r#"{"brokerDatas":[{"brokerAddrs":{0:"x",1:"y",2:"w",10:"z"},"brokerName":"b","cluster":"c","enableActingMaster":true,"zoneName":"z"}],"filterServerTable":{"y":["f"]},"orderTopicConf":"b:4","queueDatas":[{"brokerName":"b","perm":0,"readQueueNums":0,"topicSysFlag":0,"writeQueueNums":0}],"topicQueueMappingByBroker":{"br":{"bname":"br","currIdMap":{0:1,2:2,11:2},"dirty":false,"epoch":5,"scope":"__global__","topic":"T","totalQueues":8}}}"#;
    const STANDARD: &str = r#"{"brokerDatas":[{"brokerAddrs":{"0":"x","1":"y","2":"w","10":"z"},"brokerName":"b","cluster":"c","enableActingMaster":true,"zoneName":"z"}],"filterServerTable":{"y":["f"]},"orderTopicConf":"b:4","queueDatas":[{"brokerName":"b","perm":0,"readQueueNums":0,"topicSysFlag":0,"writeQueueNums":0}],"topicQueueMappingByBroker":{"br":{"bname":"br","currIdMap":{"0":1,"2":2,"11":2},"dirty":false,"epoch":5,"scope":"__global__","topic":"T","totalQueues":8}}}"#;

    #[test]
    fn both_forms_as_java_writes_them() {
        let route: TopicRouteData = fastjson::from_slice(DIALECT.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(fastjson::to_vec(&route).unwrap()).unwrap(), DIALECT);
        assert_eq!(String::from_utf8(fastjson::to_vec_standard(&route).unwrap()).unwrap(), STANDARD);
        assert_eq!(fastjson::from_slice::<TopicRouteData>(STANDARD.as_bytes()).unwrap(), route);
        let empty = r#"{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}"#;
        assert_eq!(String::from_utf8(fastjson::to_vec(&TopicRouteData::default()).unwrap()).unwrap(), empty);
    }
}
