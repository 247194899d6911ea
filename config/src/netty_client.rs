//! The table of [`NettyClientConfig`].

use crate::config_keys;
use crate::environment;

config_keys! {
/// The connecting side: broker to name server and to other brokers. The name is Java's, after its network library.
pub struct NettyClientConfig {
    "clientWorkerThreads" client_worker_threads: i32 = 4, inert,
        "Threads that decode answers.";
    "clientCallbackExecutorThreads" client_callback_executor_threads: i32 = environment::cores(), inert,
        "Threads that handle answers.";
    "clientOnewaySemaphoreValue" client_oneway_semaphore_value: i32 = 65535, inert,
        "One-way requests in flight.";
    "clientAsyncSemaphoreValue" client_async_semaphore_value: i32 = 65535, inert,
        "Requests in flight.";
    "connectTimeoutMillis" connect_timeout_millis: i32 = 3000, inert,
        "Milliseconds to wait for a connection.";
    "channelNotActiveInterval" channel_not_active_interval: i64 = 60000, inert,
        "Milliseconds after which an idle connection counts as unused.";
    "isScanAvailableNameSrv" is_scan_available_name_srv: bool = true, inert,
        "Keep trying which name servers can be reached.", set_by("scanAvailableNameSrv");
    "clientChannelMaxIdleTimeSeconds" client_channel_max_idle_time_seconds: i32 = 120, inert,
        "Seconds after which an idle connection is closed.";
    "clientSocketSndBufSize" client_socket_snd_buf_size: i32 = 0, inert,
        "Bytes of a connection's send buffer; 0 leaves it to the system.";
    "clientSocketRcvBufSize" client_socket_rcv_buf_size: i32 = 0, inert,
        "Bytes of a connection's receive buffer; 0 leaves it to the system.";
    "clientPooledByteBufAllocatorEnable" client_pooled_byte_buf_allocator_enable: bool = false, inert,
        "Take buffers from a pool.";
    "clientCloseSocketIfTimeout" client_close_socket_if_timeout: bool = true, inert,
        "Close a connection when a request on it times out.";
    "useTLS" use_tls: bool = false, inert,
        "Connect with TLS.";
    "socksProxyConfig" socks_proxy_config: String = "{}".into(), inert,
        "SOCKS proxies by address range, as JSON.";
    "writeBufferHighWaterMark" write_buffer_high_water_mark: i32 = 0, inert,
        "Unsent bytes above which a connection counts as not writable; 0 is the default.";
    "writeBufferLowWaterMark" write_buffer_low_water_mark: i32 = 0, inert,
        "Unsent bytes below which it counts as writable again; 0 is the default.";
    "disableCallbackExecutor" disable_callback_executor: bool = false, inert,
        "Handle answers in the thread that read them.";
    "disableNettyWorkerGroup" disable_netty_worker_group: bool = false, inert,
        "Decode answers in the thread that read them.";
    "maxReconnectIntervalTimeSeconds" max_reconnect_interval_time_seconds: i64 = 60, inert,
        "Longest time in seconds between attempts to connect again.";
    "enableReconnectForGoAway" enable_reconnect_for_go_away: bool = true, inert,
        "Connect again after the answer GO_AWAY.";
}}
