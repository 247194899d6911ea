//! The table of [`NettyServerConfig`].

use crate::config_keys;

config_keys! {
/// The listening side of a server. The name is Java's, after its network library.
pub struct NettyServerConfig {
    "bindAddress" bind_address: String = "0.0.0.0".into(), static,
        "Address to listen on.";
    "listenPort" listen_port: i32 = 0, static,
        "Port to listen on: 10911 for a broker, 9876 for a name server.";
    "serverWorkerThreads" server_worker_threads: i32 = 8, inert,
        "Threads that decode requests.";
    "serverCallbackExecutorThreads" server_callback_executor_threads: i32 = 0, inert,
        "Threads for requests without a pool of their own.";
    "serverSelectorThreads" server_selector_threads: i32 = 3, inert,
        "Threads that read and write.";
    "serverOnewaySemaphoreValue" server_oneway_semaphore_value: i32 = 256, inert,
        "One-way requests to clients in flight.";
    "serverAsyncSemaphoreValue" server_async_semaphore_value: i32 = 64, inert,
        "Requests to clients in flight.";
    "serverChannelMaxIdleTimeSeconds" server_channel_max_idle_time_seconds: i32 = 120, static,
        "Seconds after which an idle connection is closed.";
    "serverSocketSndBufSize" server_socket_snd_buf_size: i32 = 0, static,
        "Bytes of a connection's send buffer; 0 leaves it to the system.";
    "serverSocketRcvBufSize" server_socket_rcv_buf_size: i32 = 0, static,
        "Bytes of a connection's receive buffer; 0 leaves it to the system.";
    "writeBufferHighWaterMark" write_buffer_high_water_mark: i32 = 0, static,
        "Unsent bytes above which a connection counts as not writable; 0 is the default.";
    "writeBufferLowWaterMark" write_buffer_low_water_mark: i32 = 0, inert,
        "Unsent bytes below which it counts as writable again; 0 is the default.";
    "serverSocketBacklog" server_socket_backlog: i32 = 1024, static,
        "Connections that may wait to be accepted.";
    "serverNettyWorkerGroupEnable" server_netty_worker_group_enable: bool = true, inert,
        "Decode requests in threads apart from those that read.";
    "serverPooledByteBufAllocatorEnable" server_pooled_byte_buf_allocator_enable: bool = true, inert,
        "Take buffers from a pool.";
    "enableShutdownGracefully" enable_shutdown_gracefully: bool = false, inert,
        "Answer new requests with GO_AWAY while shutting down.";
    "shutdownWaitTimeSeconds" shutdown_wait_time_seconds: i32 = 30, inert,
        "Seconds that a graceful shutdown waits.";
    "useEpollNativeSelector" use_epoll_native_selector: bool = false, inert,
        "Use Netty's own epoll.";
}}
