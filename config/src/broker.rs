//! The table of [`BrokerConfig`].

use crate::config_keys;
use crate::environment::{self, cores};
use crate::value::{MessageRequestMode, MetricsExporterType};

config_keys! {
/// What the broker does above its store: identity, topics and groups, requests, long polling, registration.
pub struct BrokerConfig {
    "brokerName" broker_name: String = environment::broker_name(), static,
        "Name of the group of a master and its slaves; the host name by default.", important, inherited;
    "brokerClusterName" broker_cluster_name: String = "DefaultCluster".into(), static,
        "Cluster that the broker belongs to.", important, inherited;
    "brokerId" broker_id: i64 = 0, static,
        "0 for a master, above 0 for a slave; a master without a controller always has 0.", important, inherited;
    "isBrokerContainer" is_broker_container: bool = false, inert,
        "True in the process that hosts several brokers.", inherited, fixed;
    "isInBrokerContainer" is_in_broker_container: bool = false, inert,
        "True for a broker inside such a process.", inherited, set_by("inBrokerContainer");
    "brokerConfigPath" broker_config_path: Option<String> = None, inert,
        "Path of the configuration file.";
    "rocketmqHome" rocketmq_home: Option<String> = environment::variable("ROCKETMQ_HOME"), inert,
        "Directory of the installation, from the variable ROCKETMQ_HOME.";
    "namesrvAddr" namesrv_addr: Option<String> = environment::variable("NAMESRV_ADDR"), dynamic,
        "Name servers as host:port, separated by semicolons; the variable NAMESRV_ADDR by default.", important;
    "listenPort" listen_port: i32 = 6888, inert,
        "Port of a broker in a container; a broker of its own listens on the server's listenPort.", important;
    "brokerIP1" broker_ip1: String = environment::local_address(), static,
        "Address that clients are told to connect to.", important;
    "brokerIP2" broker_ip2: String = environment::local_address(), static,
        "Address that slaves are told to connect to.";
    "recoverConcurrently" recover_concurrently: bool = false, inert,
        "Recover the consume queues in several threads at start.", important;
    "brokerPermission" broker_permission: i32 = 6, dynamic,
        "Permission of the whole broker: 2 write, 4 read, 6 both.";
    "defaultTopicQueueNums" default_topic_queue_nums: i32 = 8, dynamic,
        "Most queues that an automatically created topic gets.";
    "autoCreateTopicEnable" auto_create_topic_enable: bool = true, dynamic,
        "Create an unknown topic when a message is sent to it.", important;
    "clusterTopicEnable" cluster_topic_enable: bool = true, static,
        "Create a topic with the name of the cluster.";
    "brokerTopicEnable" broker_topic_enable: bool = true, static,
        "Create a topic with the name of the broker.";
    "autoCreateSubscriptionGroup" auto_create_subscription_group: bool = true, dynamic,
        "Create an unknown consumer group when it first appears.", important;
    "messageStorePlugIn" message_store_plug_in: String = String::new(), inert,
        "Java classes wrapped around the store; tiered storage is one.";
    "msgTraceTopicName" msg_trace_topic_name: String = "RMQ_SYS_TRACE_TOPIC".into(), static,
        "Topic of message traces.", important;
    "traceTopicEnable" trace_topic_enable: bool = false, static,
        "Create the topic of message traces at start.", important;
    "sendMessageThreadPoolNums" send_message_thread_pool_nums: i32 = cores().min(4), inert,
        "Threads for sends.";
    "putMessageFutureThreadPoolNums" put_message_future_thread_pool_nums: i32 = cores().min(4), inert,
        "Threads that answer sends once they are stored.";
    "pullMessageThreadPoolNums" pull_message_thread_pool_nums: i32 = 16 + cores() * 2, inert,
        "Threads for pulls.";
    "litePullMessageThreadPoolNums" lite_pull_message_thread_pool_nums: i32 = 16 + cores() * 2, inert,
        "Threads for pulls of assigned queues.";
    "ackMessageThreadPoolNums" ack_message_thread_pool_nums: i32 = 16, inert,
        "Threads for acknowledgements of popped messages.";
    "processReplyMessageThreadPoolNums" process_reply_message_thread_pool_nums: i32 = 16 + cores() * 2, inert,
        "Threads for replies of request-reply messaging.";
    "queryMessageThreadPoolNums" query_message_thread_pool_nums: i32 = 8 + cores(), inert,
        "Threads for queries by key and id.";
    "adminBrokerThreadPoolNums" admin_broker_thread_pool_nums: i32 = 16, inert,
        "Threads for administrative requests.";
    "clientManageThreadPoolNums" client_manage_thread_pool_nums: i32 = 32, inert,
        "Threads for registering and unregistering clients.";
    "consumerManageThreadPoolNums" consumer_manage_thread_pool_nums: i32 = 32, inert,
        "Threads for consumer lists and offsets.";
    "loadBalanceProcessorThreadPoolNums" load_balance_processor_thread_pool_nums: i32 = 32, inert,
        "Threads for queue assignment.";
    "heartbeatThreadPoolNums" heartbeat_thread_pool_nums: i32 = cores().min(32), inert,
        "Threads for heartbeats.";
    "recoverThreadPoolNums" recover_thread_pool_nums: i32 = 32, inert,
        "Threads that recover consume queues.";
    "endTransactionThreadPoolNums" end_transaction_thread_pool_nums: i32 = (8 + cores() * 2).max(cores().min(4) * 4), inert,
        "Threads for ends of transactions.";
    "flushConsumerOffsetInterval" flush_consumer_offset_interval: i32 = 5000, static,
        "Milliseconds between writes of the consumer offsets.";
    "flushConsumerOffsetHistoryInterval" flush_consumer_offset_history_interval: i32 = 60000, inert,
        "Milliseconds between writes of the consumer offset history.";
    "rejectTransactionMessage" reject_transaction_message: bool = false, dynamic,
        "Refuse transactional messages.", important;
    "fetchNameSrvAddrByDnsLookup" fetch_name_srv_addr_by_dns_lookup: bool = false, inert,
        "Look the name servers' host names up again at each update of their addresses.", important;
    "fetchNamesrvAddrByAddressServer" fetch_namesrv_addr_by_address_server: bool = false, inert,
        "Ask an HTTP address server for the name servers.", important;
    "sendThreadPoolQueueCapacity" send_thread_pool_queue_capacity: i32 = 10000, inert,
        "Sends that may wait for a thread.";
    "putThreadPoolQueueCapacity" put_thread_pool_queue_capacity: i32 = 10000, inert,
        "Stored sends that may wait to be answered.";
    "pullThreadPoolQueueCapacity" pull_thread_pool_queue_capacity: i32 = 100_000, inert,
        "Pulls that may wait for a thread.";
    "litePullThreadPoolQueueCapacity" lite_pull_thread_pool_queue_capacity: i32 = 100_000, inert,
        "Pulls of assigned queues that may wait for a thread.";
    "ackThreadPoolQueueCapacity" ack_thread_pool_queue_capacity: i32 = 100_000, inert,
        "Acknowledgements that may wait for a thread.";
    "replyThreadPoolQueueCapacity" reply_thread_pool_queue_capacity: i32 = 10000, inert,
        "Replies that may wait for a thread.";
    "queryThreadPoolQueueCapacity" query_thread_pool_queue_capacity: i32 = 20000, inert,
        "Queries that may wait for a thread.";
    "clientManagerThreadPoolQueueCapacity" client_manager_thread_pool_queue_capacity: i32 = 1_000_000, inert,
        "Client registrations that may wait for a thread.";
    "consumerManagerThreadPoolQueueCapacity" consumer_manager_thread_pool_queue_capacity: i32 = 1_000_000, inert,
        "Consumer requests that may wait for a thread.";
    "heartbeatThreadPoolQueueCapacity" heartbeat_thread_pool_queue_capacity: i32 = 50000, inert,
        "Heartbeats that may wait for a thread.";
    "endTransactionPoolQueueCapacity" end_transaction_pool_queue_capacity: i32 = 100_000, inert,
        "Ends of transactions that may wait for a thread.";
    "adminBrokerThreadPoolQueueCapacity" admin_broker_thread_pool_queue_capacity: i32 = 10000, inert,
        "Administrative requests that may wait for a thread.";
    "loadBalanceThreadPoolQueueCapacity" load_balance_thread_pool_queue_capacity: i32 = 100_000, inert,
        "Queue assignments that may wait for a thread.";
    "longPollingEnable" long_polling_enable: bool = true, dynamic,
        "Hold a pull that finds nothing for as long as the client asks.";
    "shortPollingTimeMills" short_polling_time_mills: i64 = 1000, dynamic,
        "Milliseconds that such a pull is held when long polling is off.";
    "notifyConsumerIdsChangedEnable" notify_consumer_ids_changed_enable: bool = true, dynamic,
        "Tell the consumers of a group when one joins or leaves.";
    "highSpeedMode" high_speed_mode: bool = false, inert,
        "Unused in Java as well.";
    "commercialBaseCount" commercial_base_count: i32 = 1, inert,
        "Divisor of the billing statistics.";
    "commercialSizePerMsg" commercial_size_per_msg: i32 = 4096, inert,
        "Bytes that the billing statistics count as one message.";
    "accountStatsEnable" account_stats_enable: bool = true, inert,
        "Keep statistics per account.";
    "accountStatsPrintZeroValues" account_stats_print_zero_values: bool = true, inert,
        "Log account statistics that are zero.";
    "maxStatsIdleTimeInMinutes" max_stats_idle_time_in_minutes: i32 = -1, inert,
        "Minutes after which idle statistics are dropped; -1 keeps them.";
    "transferMsgByHeap" transfer_msg_by_heap: bool = true, inert,
        "Copy pulled messages through the heap rather than send file regions.";
    "regionId" region_id: String = "DefaultRegion".into(), static,
        "Region that is written into messages and answers for traces.";
    "registerBrokerTimeoutMills" register_broker_timeout_mills: i32 = 24000, dynamic,
        "Milliseconds to wait for a name server's answer to a registration.";
    "sendHeartbeatTimeoutMillis" send_heartbeat_timeout_millis: i32 = 1000, dynamic,
        "Milliseconds to wait for a name server's answer to a heartbeat.";
    "slaveReadEnable" slave_read_enable: bool = false, dynamic,
        "Send consumers that lag far behind to a slave.";
    "disableConsumeIfConsumerReadSlowly" disable_consume_if_consumer_read_slowly: bool = false, inert,
        "Forbid a group to consume once it is too far behind.";
    "consumerFallbehindThreshold" consumer_fallbehind_threshold: i64 = 17_179_869_184, inert,
        "Bytes behind the end of the log that count as too far.";
    "brokerFastFailureEnable" broker_fast_failure_enable: bool = true, inert,
        "Answer SYSTEM_BUSY instead of queueing when the store is overloaded.";
    "waitTimeMillsInSendQueue" wait_time_mills_in_send_queue: i64 = 200, inert,
        "Milliseconds that a send may wait before it is answered SYSTEM_BUSY.";
    "waitTimeMillsInPullQueue" wait_time_mills_in_pull_queue: i64 = 5000, inert,
        "Milliseconds that a pull may wait for a thread.";
    "waitTimeMillsInLitePullQueue" wait_time_mills_in_lite_pull_queue: i64 = 5000, inert,
        "Milliseconds that a pull of an assigned queue may wait for a thread.";
    "waitTimeMillsInHeartbeatQueue" wait_time_mills_in_heartbeat_queue: i64 = 31000, inert,
        "Milliseconds that a heartbeat may wait for a thread.";
    "waitTimeMillsInTransactionQueue" wait_time_mills_in_transaction_queue: i64 = 3000, inert,
        "Milliseconds that an end of a transaction may wait for a thread.";
    "waitTimeMillsInAckQueue" wait_time_mills_in_ack_queue: i64 = 3000, inert,
        "Milliseconds that an acknowledgement may wait for a thread.";
    "waitTimeMillsInAdminBrokerQueue" wait_time_mills_in_admin_broker_queue: i64 = 5000, inert,
        "Milliseconds that an administrative request may wait for a thread.";
    "startAcceptSendRequestTimeStamp" start_accept_send_request_time_stamp: i64 = 0, dynamic,
        "Milliseconds since 1970 before which sends are refused.";
    "traceOn" trace_on: bool = true, dynamic,
        "Tell clients in answers to sends that tracing is on.";
    "enableCalcFilterBitMap" enable_calc_filter_bit_map: bool = false, dynamic,
        "Compute a Bloom filter of the matching groups for each message.";
    "rejectPullConsumerEnable" reject_pull_consumer_enable: bool = false, dynamic,
        "Refuse pulls by consumers that have not sent a heartbeat.";
    "expectConsumerNumUseFilter" expect_consumer_num_use_filter: i32 = 32, static,
        "Groups with a filter that the Bloom filter is sized for.";
    "maxErrorRateOfBloomFilter" max_error_rate_of_bloom_filter: i32 = 20, static,
        "Percent of wrong hits that the Bloom filter may have.";
    "filterDataCleanTimeSpan" filter_data_clean_time_span: i64 = 86_400_000, dynamic,
        "Milliseconds after which filters of absent groups are dropped.";
    "filterSupportRetry" filter_support_retry: bool = false, dynamic,
        "Apply filters to retried messages as well.";
    "enablePropertyFilter" enable_property_filter: bool = false, dynamic,
        "Allow SQL92 filters.";
    "compressedRegister" compressed_register: bool = false, dynamic,
        "Compress registrations at the name servers.";
    "forceRegister" force_register: bool = true, dynamic,
        "Register at the name servers each period even without changes.";
    "registerNameServerPeriod" register_name_server_period: i32 = 30000, static,
        "Milliseconds between registrations at the name servers, within 10000 and 60000.";
    "updateNameServerAddrPeriod" update_name_server_addr_period: i32 = 120_000, inert,
        "Milliseconds between updates of the name servers' addresses.";
    "brokerHeartbeatInterval" broker_heartbeat_interval: i32 = 1000, static,
        "Milliseconds between heartbeats to name servers and controller.";
    "brokerNotActiveTimeoutMillis" broker_not_active_timeout_millis: i64 = 10000, dynamic,
        "Milliseconds without heartbeat after which name servers take the broker for dead.";
    "enableNetWorkFlowControl" enable_net_work_flow_control: bool = false, inert,
        "Unused in Java as well.";
    "enableBroadcastOffsetStore" enable_broadcast_offset_store: bool = true, inert,
        "Keep offsets of broadcast consumers that use the proxy.";
    "broadcastOffsetExpireSecond" broadcast_offset_expire_second: i64 = 120, inert,
        "Seconds after which an idle broadcast offset is dropped.";
    "broadcastOffsetExpireMaxSecond" broadcast_offset_expire_max_second: i64 = 300, inert,
        "Seconds after which any broadcast offset is dropped.";
    "popPollingSize" pop_polling_size: i32 = 1024, inert,
        "Pops that may wait per topic, group and queue.";
    "popPollingMapSize" pop_polling_map_size: i32 = 100_000, inert,
        "Topics, groups and queues with waiting pops.";
    "popPollingMapExpireTimeSeconds" pop_polling_map_expire_time_seconds: i32 = 600, inert,
        "Seconds after which an idle list of waiting pops is dropped.";
    "maxPopPollingSize" max_pop_polling_size: i64 = 100_000, inert,
        "Pops that may wait in all.";
    "reviveQueueNum" revive_queue_num: i32 = 8, static,
        "Queues of the topic of pop checkpoints; fixed by the first start.";
    "reviveInterval" revive_interval: i64 = 1000, inert,
        "Milliseconds between rounds of the revival of unacknowledged messages.";
    "reviveMaxSlow" revive_max_slow: i64 = 3, inert,
        "Empty rounds after which revival pauses for longer.";
    "reviveScanTime" revive_scan_time: i64 = 10000, inert,
        "Milliseconds that one round of revival reads.";
    "enableSkipLongAwaitingAck" enable_skip_long_awaiting_ack: bool = false, inert,
        "Give up on checkpoints whose acknowledgements are long missing.";
    "reviveAckWaitMs" revive_ack_wait_ms: i64 = 180_000, inert,
        "Milliseconds after which such a checkpoint is given up.";
    "enablePopLog" enable_pop_log: bool = false, inert,
        "Log the details of pops.";
    "enablePopBufferMerge" enable_pop_buffer_merge: bool = false, inert,
        "Match checkpoints and acknowledgements in memory first.";
    "popCkStayBufferTime" pop_ck_stay_buffer_time: i32 = 10000, inert,
        "Milliseconds that a checkpoint stays in memory.";
    "popCkStayBufferTimeOut" pop_ck_stay_buffer_time_out: i32 = 3000, inert,
        "Milliseconds before revival at which a checkpoint leaves memory.";
    "popCkMaxBufferSize" pop_ck_max_buffer_size: i32 = 200_000, inert,
        "Checkpoints in memory.";
    "popCkOffsetMaxQueueSize" pop_ck_offset_max_queue_size: i32 = 20000, inert,
        "Checkpoints in memory per topic, group and queue.";
    "enablePopBatchAck" enable_pop_batch_ack: bool = false, inert,
        "Write acknowledgements of one checkpoint together.";
    "popLongPollingForceNotifyInterval" pop_long_polling_force_notify_interval: i64 = 800, inert,
        "Messages after which a waiting pop is woken even without a match.";
    "enableNotifyBeforePopCalculateLag" enable_notify_before_pop_calculate_lag: bool = true, inert,
        "Wake the next waiting pop before the lag is computed.";
    "enableNotifyAfterPopOrderLockRelease" enable_notify_after_pop_order_lock_release: bool = true, inert,
        "Wake waiting pops when an ordered queue is unlocked.";
    "initPopOffsetByCheckMsgInMem" init_pop_offset_by_check_msg_in_mem: bool = true, inert,
        "Start a new group at the oldest message if that is still in memory.";
    "retrieveMessageFromPopRetryTopicV1" retrieve_message_from_pop_retry_topic_v1: bool = true, inert,
        "Also read retry topics in the older naming.";
    "enableRetryTopicV2" enable_retry_topic_v2: bool = false, inert,
        "Name retry topics of pop in the newer way.";
    "popFromRetryProbability" pop_from_retry_probability: i32 = 20, inert,
        "Percent of pops that take retried messages first.";
    "popFromRetryProbabilityForPriority" pop_from_retry_probability_for_priority: i32 = 0, inert,
        "The same for topics with priorities.";
    "priorityOrderAsc" priority_order_asc: bool = true, inert,
        "Priority 0 is the lowest.";
    "popConsumerFSServiceInit" pop_consumer_fs_service_init: bool = true, inert,
        "Start the pop service that keeps its state in messages.";
    "popConsumerKVServiceLog" pop_consumer_kv_service_log: bool = false, inert,
        "Log the details of the pop service that keeps its state in RocksDB.";
    "popConsumerKVServiceInit" pop_consumer_kv_service_init: bool = false, inert,
        "Start the pop service that keeps its state in RocksDB.";
    "popConsumerKVServiceEnable" pop_consumer_kv_service_enable: bool = false, inert,
        "Use the pop service that keeps its state in RocksDB.";
    "popReviveMaxReturnSizePerRead" pop_revive_max_return_size_per_read: i32 = 16384, inert,
        "Records that one revival reads from RocksDB.";
    "popReviveConcurrency" pop_revive_concurrency: i32 = 32, inert,
        "Revivals at the same time.";
    "popReviveMaxAttemptTimes" pop_revive_max_attempt_times: i32 = 16, inert,
        "Revivals of one message.";
    "popReviveSkipIfGroupAbsent" pop_revive_skip_if_group_absent: bool = true, inert,
        "Do not revive messages of a group that no longer exists.";
    "useSeparateRetryQueue" use_separate_retry_queue: bool = false, inert,
        "Give each queue a retry queue of its own.";
    "realTimeNotifyConsumerChange" real_time_notify_consumer_change: bool = true, dynamic,
        "Tell consumers of changes at once rather than with the next heartbeat.";
    "useMessageFilterForNotification" use_message_filter_for_notification: bool = true, inert,
        "Apply filters when answering whether messages are there.";
    "maxMessageFilterNumForNotification" max_message_filter_num_for_notification: i32 = 64, inert,
        "Messages that such an answer looks at.";
    "litePullMessageEnable" lite_pull_message_enable: bool = true, dynamic,
        "Allow pulls of assigned queues (LITE_PULL_MESSAGE).";
    "syncBrokerMemberGroupPeriod" sync_broker_member_group_period: i32 = 1000, dynamic,
        "Milliseconds between looks at the other brokers of the same name.";
    "loadBalancePollNameServerInterval" load_balance_poll_name_server_interval: i64 = 30000, inert,
        "Milliseconds between looks at topics for queue assignment.";
    "cleanOfflineBrokerInterval" clean_offline_broker_interval: i32 = 30000, inert,
        "Milliseconds between removals of brokers that are gone.";
    "serverLoadBalancerEnable" server_load_balancer_enable: bool = true, inert,
        "Assign queues to consumers in the broker.";
    "defaultMessageRequestMode" default_message_request_mode: MessageRequestMode = MessageRequestMode::Pull, inert,
        "How groups take messages unless they say so.";
    "defaultPopShareQueueNum" default_pop_share_queue_num: i32 = -1, inert,
        "Consumers that share a queue when popping; -1 shares all.";
    "transactionTimeOut" transaction_time_out: i64 = 6000, dynamic,
        "Milliseconds after which an open transaction is checked.", important;
    "transactionCheckMax" transaction_check_max: i32 = 15, dynamic,
        "Checks after which an open transaction is dropped.", important;
    "transactionCheckInterval" transaction_check_interval: i64 = 30000, dynamic,
        "Milliseconds between looks for open transactions.", important;
    "transactionMetricFlushInterval" transaction_metric_flush_interval: i64 = 10000, dynamic,
        "Milliseconds between writes of the transaction counters.";
    "transactionCheckRocksdbCoreThreads" transaction_check_rocksdb_core_threads: i32 = 2, inert,
        "Least threads that check transactions kept in RocksDB.";
    "transactionCheckRocksdbMaxThreads" transaction_check_rocksdb_max_threads: i32 = 5, inert,
        "Most threads that check transactions kept in RocksDB.";
    "transactionCheckRocksdbQueueCapacity" transaction_check_rocksdb_queue_capacity: i32 = 2000, inert,
        "Checks of transactions kept in RocksDB that may wait.";
    "transactionOpMsgMaxSize" transaction_op_msg_max_size: i32 = 4096, dynamic,
        "Bytes of a record of finished transactions.";
    "transactionOpBatchInterval" transaction_op_batch_interval: i32 = 3000, dynamic,
        "Milliseconds that a record of finished transactions is gathered.";
    "aclEnable" acl_enable: bool = false, inert,
        "Check access with the access lists of version 4.", important;
    "storeReplyMessageEnable" store_reply_message_enable: bool = true, dynamic,
        "Store replies of request-reply messaging.";
    "enableDetailStat" enable_detail_stat: bool = true, static,
        "Keep detailed statistics.";
    "autoDeleteUnusedStats" auto_delete_unused_stats: bool = true, dynamic,
        "Drop the statistics of deleted topics and groups.";
    "isolateLogEnable" isolate_log_enable: bool = false, inert,
        "Log into a directory of the broker's own.";
    "forwardTimeout" forward_timeout: i64 = 3000, dynamic,
        "Milliseconds to wait for a broker that a request is passed on to.";
    "enableSlaveActingMaster" enable_slave_acting_master: bool = false, static,
        "Let a slave stand in for a lost master.";
    "enableRemoteEscape" enable_remote_escape: bool = false, dynamic,
        "Let a slave write to other masters while its own is lost.";
    "skipPreOnline" skip_pre_online: bool = false, static,
        "Go online without first comparing offsets with the other brokers.";
    "asyncSendEnable" async_send_enable: bool = true, inert,
        "Answer sends when they are stored, without holding a thread.";
    "useServerSideResetOffset" use_server_side_reset_offset: bool = true, dynamic,
        "Reset offsets in the broker, without the consumer's help.";
    "consumerOffsetUpdateVersionStep" consumer_offset_update_version_step: i64 = 500, dynamic,
        "Offset commits after which the data version rises.";
    "delayOffsetUpdateVersionStep" delay_offset_update_version_step: i64 = 200, inert,
        "Writes of delayed delivery after which the data version rises.";
    "lockInStrictMode" lock_in_strict_mode: bool = false, inert,
        "Lock queues on a majority of the replicas.";
    "compatibleWithOldNameSrv" compatible_with_old_name_srv: bool = true, dynamic,
        "Register as older name servers understand it.";
    "enableControllerMode" enable_controller_mode: bool = false, static,
        "Let a controller choose the master.";
    "controllerAddr" controller_addr: String = String::new(), inert,
        "Controllers as host:port, separated by semicolons.";
    "fetchControllerAddrByDnsLookup" fetch_controller_addr_by_dns_lookup: bool = false, inert,
        "Look the controllers' host names up in DNS.";
    "syncBrokerMetadataPeriod" sync_broker_metadata_period: i64 = 5000, inert,
        "Milliseconds between exchanges with the controller.";
    "checkSyncStateSetPeriod" check_sync_state_set_period: i64 = 5000, inert,
        "Milliseconds between checks of which slaves keep up.";
    "syncControllerMetadataPeriod" sync_controller_metadata_period: i64 = 10000, inert,
        "Milliseconds between questions for the leading controller.";
    "controllerHeartBeatTimeoutMills" controller_heart_beat_timeout_mills: i64 = 10000, inert,
        "Milliseconds without heartbeat after which the controller takes the broker for dead.";
    "validateSystemTopicWhenUpdateTopic" validate_system_topic_when_update_topic: bool = true, dynamic,
        "Refuse changes to system topics.";
    "brokerElectionPriority" broker_election_priority: i32 = i32::MAX, inert,
        "Rank in elections; the lowest becomes master.";
    "useStaticSubscription" use_static_subscription: bool = false, inert,
        "Take subscriptions from the group's configuration instead of heartbeats.";
    "metricsExporterType" metrics_exporter_type: MetricsExporterType = MetricsExporterType::Disable, static,
        "Where metrics go.";
    "metricsOtelCardinalityLimit" metrics_otel_cardinality_limit: i32 = 50000, inert,
        "Label combinations per metric.";
    "metricsGrpcExporterTarget" metrics_grpc_exporter_target: String = String::new(), inert,
        "Address of the OpenTelemetry collector.";
    "metricsGrpcExporterHeader" metrics_grpc_exporter_header: String = String::new(), inert,
        "Headers for the OpenTelemetry collector, as key:value pairs separated by commas.";
    "metricGrpcExporterTimeOutInMills" metric_grpc_exporter_time_out_in_mills: i64 = 3000, inert,
        "Milliseconds to wait for the OpenTelemetry collector.";
    "metricGrpcExporterIntervalInMills" metric_grpc_exporter_interval_in_mills: i64 = 60000, inert,
        "Milliseconds between exports to the OpenTelemetry collector.";
    "metricLoggingExporterIntervalInMills" metric_logging_exporter_interval_in_mills: i64 = 10000, inert,
        "Milliseconds between exports to the log.";
    "metricsPromExporterPort" metrics_prom_exporter_port: i32 = 5557, static,
        "Port for Prometheus.";
    "metricsPromExporterHost" metrics_prom_exporter_host: String = String::new(), static,
        "Address on which to listen for Prometheus; brokerIP1 when empty.";
    "metricsLabel" metrics_label: String = String::new(), inert,
        "Labels of all metrics, as key:value pairs separated by commas.";
    "metricsExportBatchMaxDataPoints" metrics_export_batch_max_data_points: i32 = 1000, inert,
        "Data points in one export.";
    "metricsInDelta" metrics_in_delta: bool = false, inert,
        "Export differences rather than totals.";
    "enableRemotingMetrics" enable_remoting_metrics: bool = true, inert,
        "Export metrics of the network.";
    "enableMessageStoreMetrics" enable_message_store_metrics: bool = true, inert,
        "Export metrics of the store.";
    "enablePopMetrics" enable_pop_metrics: bool = true, inert,
        "Export metrics of pops.";
    "enableConnectionMetrics" enable_connection_metrics: bool = true, inert,
        "Export metrics of connections.";
    "enableTransactionMetrics" enable_transaction_metrics: bool = true, static,
        "Export metrics of transactions.";
    "enableStatsMetrics" enable_stats_metrics: bool = true, inert,
        "Export the broker's statistics as metrics.";
    "enableRequestMetrics" enable_request_metrics: bool = true, inert,
        "Export metrics of requests.";
    "enableLagAndDlqMetrics" enable_lag_and_dlq_metrics: bool = true, inert,
        "Export metrics of lag and of dead letters.";
    "channelExpiredTimeout" channel_expired_timeout: i64 = 120_000, dynamic,
        "Milliseconds without heartbeat after which a client is dropped.";
    "subscriptionExpiredTimeout" subscription_expired_timeout: i64 = 600_000, inert,
        "Milliseconds after which an idle subscription is dropped.";
    "estimateAccumulation" estimate_accumulation: bool = true, inert,
        "Estimate the lag of a group with a tag filter by sampling.";
    "coldCtrStrategyEnable" cold_ctr_strategy_enable: bool = false, inert,
        "Adapt the limits for groups that read cold data.";
    "usePIDColdCtrStrategy" use_pid_cold_ctr_strategy: bool = true, inert,
        "Adapt them with a PID controller.";
    "cgColdReadThreshold" cg_cold_read_threshold: i64 = 3_145_728, dynamic,
        "Bytes of cold data a second for one group.";
    "globalColdReadThreshold" global_cold_read_threshold: i64 = 104_857_600, dynamic,
        "Bytes of cold data a second for all groups.";
    "fetchNamesrvAddrInterval" fetch_namesrv_addr_interval: i64 = 10000, inert,
        "Milliseconds between updates of the name servers' addresses from an address server.";
    "popResponseReturnActualRetryTopic" pop_response_return_actual_retry_topic: bool = false, inert,
        "Return the retry topic's real name with a popped message.";
    "enableSingleTopicRegister" enable_single_topic_register: bool = false, dynamic,
        "Register a changed topic by a request of its own.";
    "enableMixedMessageType" enable_mixed_message_type: bool = false, dynamic,
        "Take messages of any type into a topic of type MIXED.";
    "enableSplitRegistration" enable_split_registration: bool = false, dynamic,
        "Split large registrations over several requests.";
    "enableSplitMetadata" enable_split_metadata: bool = true, dynamic,
        "Split the topic and group lists that slaves and tools fetch.";
    "splitMetadataSize" split_metadata_size: i32 = 2000, dynamic,
        "Topics or groups in one part of such a list.";
    "popInflightMessageThreshold" pop_inflight_message_threshold: i64 = 10000, inert,
        "Unacknowledged messages per group above which pops find nothing.";
    "enablePopMessageThreshold" enable_pop_message_threshold: bool = false, inert,
        "Apply popInflightMessageThreshold.";
    "enableFastChannelEventProcess" enable_fast_channel_event_process: bool = false, inert,
        "Handle closed connections without searching all groups.";
    "printChannelGroups" print_channel_groups: bool = false, inert,
        "Log the groups of closed connections.";
    "printChannelGroupsMinNum" print_channel_groups_min_num: i32 = 5, inert,
        "Groups from which on they are logged.";
    "splitRegistrationSize" split_registration_size: i32 = 800, dynamic,
        "Topics in one part of a registration.";
    "configBlackList" config_black_list: String = "configBlackList;brokerConfigPath".into(), dynamic,
        "Keys that requests may not change, separated by semicolons.";
    "skipWhenCKRePutReachMaxTimes" skip_when_ck_re_put_reach_max_times: bool = false, inert,
        "Drop a checkpoint that was written again too often.";
    "appendAckAsync" append_ack_async: bool = false, inert,
        "Write acknowledgements without waiting.";
    "appendCkAsync" append_ck_async: bool = false, inert,
        "Write checkpoints without waiting.";
    "clearRetryTopicWhenDeleteTopic" clear_retry_topic_when_delete_topic: bool = true, dynamic,
        "Delete the retry topics of pop together with their topic.";
    "enableLmqStats" enable_lmq_stats: bool = false, dynamic,
        "Keep statistics of light message queues.";
    "configManagerVersion" config_manager_version: String = "v1".into(), inert,
        "Form of the configuration files: v1 is JSON, v2 is RocksDB.";
    "useSingleRocksDBForAllConfigs" use_single_rocks_db_for_all_configs: bool = false, inert,
        "Keep all configuration in one RocksDB instance.";
    "allowRecallWhenBrokerNotWriteable" allow_recall_when_broker_not_writeable: bool = true, dynamic,
        "Allow recalling messages while the broker takes no new ones.";
    "recallMessageEnable" recall_message_enable: bool = false, dynamic,
        "Allow recalling delayed messages.";
    "enableRegisterProducer" enable_register_producer: bool = true, dynamic,
        "Register producers from heartbeats.";
    "enableCreateSysGroup" enable_create_sys_group: bool = true, dynamic,
        "Create the groups of Java's tools and tests at start.";
    "enableLiteEventMode" enable_lite_event_mode: bool = true, inert,
        "Tell consumers of lite topics about new messages by events.";
    "liteEventCheckInterval" lite_event_check_interval: i64 = 10000, inert,
        "Milliseconds between checks of these events.";
    "liteTtlCheckInterval" lite_ttl_check_interval: i64 = 120_000, inert,
        "Milliseconds between looks for expired lite topics.";
    "minLiteTTl" min_lite_ttl: i64 = 900_000, inert,
        "Least milliseconds that a lite topic lives.";
    "liteSubscriptionCheckInterval" lite_subscription_check_interval: i64 = 120_000, inert,
        "Milliseconds between looks for expired lite subscriptions.";
    "liteSubscriptionCheckTimeoutMills" lite_subscription_check_timeout_mills: i64 = 180_000, inert,
        "Milliseconds after which an idle lite subscription is dropped.";
    "persistConsumerOffsetIncrementally" persist_consumer_offset_incrementally: bool = false, inert,
        "Write only the changed offsets to RocksDB.";
    "maxLiteSubscriptionCount" max_lite_subscription_count: i64 = 100_000, inert,
        "Lite subscriptions in all.";
    "enableLitePopLog" enable_lite_pop_log: bool = false, inert,
        "Log the details of pops from lite topics.";
    "maxClientEventCount" max_client_event_count: i32 = 100, inert,
        "Events that may wait per client.";
    "liteEventFullDispatchDelayTime" lite_event_full_dispatch_delay_time: i64 = 10000, inert,
        "Milliseconds after which a client whose events overflowed gets all again.";
    "liteEventFullDispatchDelayTimeForWildcardGroup" lite_event_full_dispatch_delay_time_for_wildcard_group: i64 = 10000, inert,
        "The same for groups that subscribe to all lite topics.";
    "liteLagLatencyCollectEnable" lite_lag_latency_collect_enable: bool = false, inert,
        "Note the store time of messages popped from lite topics.";
    "liteLagLatencyMetricsEnable" lite_lag_latency_metrics_enable: bool = false, inert,
        "Export the age of messages in lite topics.";
    "liteLagCountMetricsEnable" lite_lag_count_metrics_enable: bool = false, inert,
        "Export the number of messages in lite topics.";
    "liteLagLatencyTopK" lite_lag_latency_top_k: i32 = 50, inert,
        "Lite topics that are exported.";
}}
