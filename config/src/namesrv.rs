//! The table of [`NamesrvConfig`].

use crate::config_keys;
use crate::environment;

config_keys! {
/// The name server.
pub struct NamesrvConfig {
    "rocketmqHome" rocketmq_home: Option<String> = environment::variable("ROCKETMQ_HOME"), inert,
        "Directory of the installation, from the variable ROCKETMQ_HOME.";
    "kvConfigPath" kv_config_path: String = environment::below_home("namesrv/kvConfig.json"), static,
        "File of the KV configuration.";
    "configStorePath" config_store_path: String = environment::below_home("namesrv/namesrv.properties"), static,
        "File that changed values are written to; the configuration file if there is one.";
    "productEnvName" product_env_name: String = "center".into(), inert,
        "Environment that unknown topics are looked up in when clusterTest is on.";
    "clusterTest" cluster_test: bool = false, inert,
        "Look unknown topics up in another environment, for tests.";
    "orderMessageEnable" order_message_enable: bool = false, dynamic,
        "Add the order configuration of a topic to its route.";
    "returnOrderTopicConfigToBroker" return_order_topic_config_to_broker: bool = true, dynamic,
        "Answer registrations with the order configuration of all topics.";
    "clientRequestThreadPoolNums" client_request_thread_pool_nums: i32 = 8, inert,
        "Threads for route queries.";
    "defaultThreadPoolNums" default_thread_pool_nums: i32 = 16, inert,
        "Threads for all other requests.";
    "clientRequestThreadPoolQueueCapacity" client_request_thread_pool_queue_capacity: i32 = 50000, inert,
        "Route queries that may wait for a thread.";
    "defaultThreadPoolQueueCapacity" default_thread_pool_queue_capacity: i32 = 10000, inert,
        "Other requests that may wait for a thread.";
    "scanNotActiveBrokerInterval" scan_not_active_broker_interval: i64 = 5000, static,
        "Milliseconds between looks for brokers that have gone silent.";
    "unRegisterBrokerQueueCapacity" un_register_broker_queue_capacity: i32 = 3000, inert,
        "Brokers to be removed that may wait.";
    "supportActingMaster" support_acting_master: bool = false, dynamic,
        "Let a slave stand in for a lost master in routes.";
    "enableAllTopicList" enable_all_topic_list: bool = true, dynamic,
        "Answer requests for the list of all topics.";
    "enableTopicList" enable_topic_list: bool = true, dynamic,
        "Answer requests for other lists of topics.";
    "notifyMinBrokerIdChanged" notify_min_broker_id_changed: bool = false, dynamic,
        "Tell brokers of a group when its lowest broker id changes.";
    "enableControllerInNamesrv" enable_controller_in_namesrv: bool = false, inert,
        "Run a controller in the name server.";
    "needWaitForService" need_wait_for_service: bool = false, dynamic,
        "Refuse route queries for a while after start, until brokers have registered.";
    "waitSecondsForService" wait_seconds_for_service: i32 = 45, dynamic,
        "Seconds of that while.";
    "deleteTopicWithBrokerRegistration" delete_topic_with_broker_registration: bool = false, dynamic,
        "Remove topics that a registration no longer has.";
    "configBlackList" config_black_list: String = "configBlackList;configStorePath;kvConfigPath".into(), dynamic,
        "Keys that requests may not change, separated by semicolons.";
}}
