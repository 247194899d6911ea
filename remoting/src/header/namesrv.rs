//! What brokers and clients ask of a name server.

use std::borrow::Cow;

use crate::header;

header! {
    /// REGISTER_BROKER (103): the topics are the body.
    pub struct RegisterBroker<'a> {
        "brokerName" broker_name: Cow<'a, str>,
        "brokerAddr" broker_addr: Cow<'a, str>,
        "clusterName" cluster_name: Cow<'a, str>,
        "haServerAddr" ha_server_addr: Cow<'a, str>,
        "brokerId" broker_id: i64,
        "heartbeatTimeoutMillis" heartbeat_timeout_millis: Option<i64>,
        "enableActingMaster" enable_acting_master: Option<bool>,
        "compressed" compressed: bool = false,
        "bodyCrc32" body_crc32: i32 = 0,
    }
}

header! {
    /// Where a slave finds its master.
    pub struct RegisterBrokerResponse<'a> {
        "haServerAddr" ha_server_addr: Option<Cow<'a, str>>,
        "masterAddr" master_addr: Option<Cow<'a, str>>,
    }
}

header! {
    /// UNREGISTER_BROKER (104).
    pub struct UnRegisterBroker<'a> {
        "brokerName" broker_name: Cow<'a, str>,
        "brokerAddr" broker_addr: Cow<'a, str>,
        "clusterName" cluster_name: Cow<'a, str>,
        "brokerId" broker_id: i64,
    }
}

header! {
    /// BROKER_HEARTBEAT (904), to a name server or a controller.
    pub struct BrokerHeartbeat<'a> {
        "clusterName" cluster_name: Cow<'a, str>,
        "brokerAddr" broker_addr: Cow<'a, str>,
        "brokerName" broker_name: Cow<'a, str>,
        "brokerId" broker_id: Option<i64>,
        "epoch" epoch: Option<i32>,
        "maxOffset" max_offset: Option<i64>,
        "confirmOffset" confirm_offset: Option<i64>,
        "heartbeatTimeoutMills" heartbeat_timeout_mills: Option<i64>,
        "electionPriority" election_priority: Option<i32>,
    }
}

header! {
    /// QUERY_DATA_VERSION (322): whether a broker has to register again.
    pub struct QueryDataVersion<'a> {
        "brokerName" broker_name: Cow<'a, str>,
        "brokerAddr" broker_addr: Cow<'a, str>,
        "clusterName" cluster_name: Cow<'a, str>,
        "brokerId" broker_id: i64,
    }
}

header! {
    /// Whether the version that the name server knows is another one.
    pub struct QueryDataVersionResponse {
        "changed" changed: bool,
    }
}

header! {
    /// GET_ROUTEINFO_BY_TOPIC (105).
    pub struct GetRouteInfo<'a>: topic {
        "topic" topic: Cow<'a, str>,
        "acceptStandardJsonOnly" accept_standard_json_only: Option<bool>,
    }
}

header! {
    /// GET_TOPICS_BY_CLUSTER (224).
    pub struct GetTopicsByCluster<'a> {
        "cluster" cluster: Cow<'a, str>,
    }
}

header! {
    /// REGISTER_TOPIC_IN_NAMESRV (217): the queues are the body.
    pub struct RegisterTopic<'a>: topic {
        "topic" topic: Cow<'a, str>,
    }
}

header! {
    /// DELETE_TOPIC_IN_NAMESRV (216).
    pub struct DeleteTopicFromNamesrv<'a>: topic {
        "topic" topic: Cow<'a, str>,
        "clusterName" cluster_name: Option<Cow<'a, str>>,
    }
}

header! {
    /// WIPE_WRITE_PERM_OF_BROKER (205): no route offers writes to the broker any more.
    pub struct WipeWritePermOfBroker<'a> {
        "brokerName" broker_name: Cow<'a, str>,
    }
}

header! {
    /// How many topics that concerned.
    pub struct WipeWritePermOfBrokerResponse {
        "wipeTopicCount" wipe_topic_count: i32,
    }
}

header! {
    /// ADD_WRITE_PERM_OF_BROKER (327): the opposite of [`WipeWritePermOfBroker`].
    pub struct AddWritePermOfBroker<'a> {
        "brokerName" broker_name: Cow<'a, str>,
    }
}

header! {
    /// How many topics that concerned.
    pub struct AddWritePermOfBrokerResponse {
        "addTopicCount" add_topic_count: i32,
    }
}

header! {
    /// GET_BROKER_MEMBER_GROUP (901): the brokers of one name.
    pub struct GetBrokerMemberGroup<'a> {
        "clusterName" cluster_name: Cow<'a, str>,
        "brokerName" broker_name: Cow<'a, str>,
    }
}

header! {
    /// NOTIFY_MIN_BROKER_ID_CHANGE (905): tells brokers who of their name is the first alive.
    pub struct NotifyMinBrokerIdChange<'a> {
        "minBrokerId" min_broker_id: Option<i64>,
        "brokerName" broker_name: Option<Cow<'a, str>>,
        "minBrokerAddr" min_broker_addr: Option<Cow<'a, str>>,
        "offlineBrokerAddr" offline_broker_addr: Option<Cow<'a, str>>,
        "haBrokerAddr" ha_broker_addr: Option<Cow<'a, str>>,
    }
}

header! {
    /// PUT_KV_CONFIG (100).
    pub struct PutKVConfig<'a> {
        "namespace" namespace: Cow<'a, str>,
        "key" key: Cow<'a, str>,
        "value" value: Cow<'a, str>,
    }
}

header! {
    /// GET_KV_CONFIG (101).
    pub struct GetKVConfig<'a> {
        "namespace" namespace: Cow<'a, str>,
        "key" key: Cow<'a, str>,
    }
}

header! {
    /// The answer to [`GetKVConfig`].
    pub struct GetKVConfigResponse<'a> {
        "value" value: Option<Cow<'a, str>>,
    }
}

header! {
    /// DELETE_KV_CONFIG (102).
    pub struct DeleteKVConfig<'a> {
        "namespace" namespace: Cow<'a, str>,
        "key" key: Cow<'a, str>,
    }
}

header! {
    /// GET_KVLIST_BY_NAMESPACE (219).
    pub struct GetKVListByNamespace<'a> {
        "namespace" namespace: Cow<'a, str>,
    }
}
