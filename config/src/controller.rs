//! The table of [`ControllerConfig`].

use crate::config_keys;
use crate::environment;
use crate::value::MetricsExporterType;

config_keys! {
/// The controller that elects masters. Java's `jraftConfig` object is a struct of its own, [`JraftConfig`](crate::JraftConfig).
pub struct ControllerConfig {
    "rocketmqHome" rocketmq_home: Option<String> = environment::variable("ROCKETMQ_HOME"), inert,
        "Directory of the installation, from the variable ROCKETMQ_HOME.";
    "configStorePath" config_store_path: String = environment::below_home("controller/controller.properties"), inert,
        "File that changed values are written to.";
    "controllerType" controller_type: String = "DLedger".into(), inert,
        "How controllers agree: DLedger or jRaft.";
    "scanNotActiveBrokerInterval" scan_not_active_broker_interval: i64 = 5000, inert,
        "Milliseconds between looks for brokers that have gone silent.";
    "controllerThreadPoolNums" controller_thread_pool_nums: i32 = 16, inert,
        "Threads for requests.";
    "controllerRequestThreadPoolQueueCapacity" controller_request_thread_pool_queue_capacity: i32 = 50000, inert,
        "Requests that may wait for a thread.";
    "controllerDLegerGroup" controller_d_leger_group: Option<String> = None, inert,
        "Name of the DLedger group.";
    "controllerDLegerPeers" controller_d_leger_peers: Option<String> = None, inert,
        "Members of the DLedger group.";
    "controllerDLegerSelfId" controller_d_leger_self_id: Option<String> = None, inert,
        "Own id in the DLedger group.";
    "mappedFileSize" mapped_file_size: i32 = 1_073_741_824, inert,
        "Bytes of a file of the controller's log.";
    "controllerStorePath" controller_store_path: String = String::new(), inert,
        "Directory of the controller's log.";
    "electMasterMaxRetryCount" elect_master_max_retry_count: i32 = 3, inert,
        "Attempts to elect a master.";
    "enableElectUncleanMaster" enable_elect_unclean_master: bool = false, inert,
        "Elect a replica that did not keep up when no other is left.";
    "isProcessReadEvent" is_process_read_event: bool = false, inert,
        "Put reads into the log as well.", set_by("processReadEvent");
    "notifyBrokerRoleChanged" notify_broker_role_changed: bool = true, inert,
        "Tell brokers about a new master.";
    "scanInactiveMasterInterval" scan_inactive_master_interval: i64 = 5000, inert,
        "Milliseconds between looks for masters that have gone silent.";
    "metricsExporterType" metrics_exporter_type: MetricsExporterType = MetricsExporterType::Disable, inert,
        "Where metrics go.";
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
    "metricsPromExporterPort" metrics_prom_exporter_port: i32 = 5557, inert,
        "Port for Prometheus.";
    "metricsPromExporterHost" metrics_prom_exporter_host: String = String::new(), inert,
        "Address on which to listen for Prometheus.";
    "metricsLabel" metrics_label: String = String::new(), inert,
        "Labels of all metrics, as key:value pairs separated by commas.";
    "metricsInDelta" metrics_in_delta: bool = false, inert,
        "Export differences rather than totals.";
    "configBlackList" config_black_list: String = "configBlackList;configStorePath".into(), inert,
        "Keys that requests may not change, separated by semicolons.";
}}
