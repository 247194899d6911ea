//! The table of [`MessageStoreConfig`].

use crate::config_keys;
use crate::environment;
use crate::value::{BrokerRole, FlushDiskType};

config_keys! {
/// The message store: paths, files, flushing, cleaning, limits of reads.
pub struct MessageStoreConfig {
    "storePathRootDir" store_path_root_dir: String = environment::below_home("store"), static,
        "Directory of the store; `store` in the home directory by default.", important;
    "storePathCommitLog" store_path_commit_log: Option<String> = None, static,
        "Directory of the commit log; `commitlog` in the store by default.", important;
    "storePathDLedgerCommitLog" store_path_d_ledger_commit_log: Option<String> = None, inert,
        "Directory of the DLedger commit log.", important;
    "storePathEpochFile" store_path_epoch_file: Option<String> = None, inert,
        "File of the replication epochs; `epochFileCheckpoint` in the store by default.", important;
    "storePathBrokerIdentity" store_path_broker_identity: Option<String> = None, inert,
        "File of the identity from the controller; `brokerIdentity` in the store by default.", important;
    "readOnlyCommitLogStorePaths" read_only_commit_log_store_paths: Option<String> = None, inert,
        "Directories of older commit log files that are only read.";
    "mappedFileSizeCommitLog" mapped_file_size_commit_log: i32 = 1_073_741_824, static,
        "Bytes of a commit log file.";
    "compactionMappedFileSize" compaction_mapped_file_size: i32 = 104_857_600, static,
        "Bytes of a compacted log file.";
    "compactionCqMappedFileSize" compaction_cq_mapped_file_size: i32 = 10_485_760, static,
        "Bytes of a consume queue file of a compacted log.";
    "compactionScheduleInternal" compaction_schedule_internal: i32 = 900_000, dynamic,
        "Milliseconds between compactions.";
    "maxOffsetMapSize" max_offset_map_size: i32 = 104_857_600, dynamic,
        "Bytes of the map of keys that a compaction uses.";
    "compactionThreadNum" compaction_thread_num: i32 = 6, dynamic,
        "Threads that compact.";
    "enableCompaction" enable_compaction: bool = true, static,
        "Compact topics whose clean-up policy says so.";
    "mappedFileSizeTimerLog" mapped_file_size_timer_log: i32 = 104_857_600, static,
        "Bytes of a timer log file.";
    "timerPrecisionMs" timer_precision_ms: i32 = 1000 => timer_precision, static,
        "Milliseconds of one slot of the timer wheel: 100, 200, 500 or 1000.";
    "timerRollWindowSlot" timer_roll_window_slot: i32 = 172_800, static,
        "Slots that the timer wheel looks ahead; what is due later goes round again.";
    "timerFlushIntervalMs" timer_flush_interval_ms: i32 = 1000, dynamic,
        "Milliseconds between flushes of the timer's files.";
    "timerGetMessageThreadNum" timer_get_message_thread_num: i32 = 3, inert,
        "Threads that read due messages.";
    "timerPutMessageThreadNum" timer_put_message_thread_num: i32 = 3, inert,
        "Threads that write due messages.";
    "timerEnableDisruptor" timer_enable_disruptor: bool = false, inert,
        "Unused in Java as well.", fixed;
    "timerEnableCheckMetrics" timer_enable_check_metrics: bool = true, inert,
        "Correct the timer's counters once a day.";
    "timerInterceptDelayLevel" timer_intercept_delay_level: bool = false, inert,
        "Deliver messages with a delay level through the timer.";
    "timerMaxDelaySec" timer_max_delay_sec: i32 = 259_200, dynamic,
        "Longest delay in seconds.";
    "timerWheelSnapshotFlush" timer_wheel_snapshot_flush: bool = false, static,
        "Write the timer wheel as snapshots.";
    "timerWheelEnable" timer_wheel_enable: bool = true, dynamic,
        "Deliver messages at any chosen time.";
    "disappearTimeAfterStart" disappear_time_after_start: i32 = -1, inert,
        "Seconds after start during which the broker does not register; -1 registers at once.", important;
    "timerStopEnqueue" timer_stop_enqueue: bool = false, dynamic,
        "Stop taking messages into the timer.";
    "timerCheckMetricsWhen" timer_check_metrics_when: String = "05".into(), inert,
        "Hour of the day at which the timer's counters are corrected.", fixed;
    "timerSkipUnknownError" timer_skip_unknown_error: bool = false, inert,
        "Skip a message that the timer cannot handle; it always is here, with an error in the log.";
    "timerWarmEnable" timer_warm_enable: bool = false, inert,
        "Read the messages of the next slots ahead.", fixed;
    "timerStopDequeue" timer_stop_dequeue: bool = false, inert,
        "Stop delivering messages from the timer.", fixed;
    "timerEnableRetryUntilSuccess" timer_enable_retry_until_success: bool = false, inert,
        "Retry a failed delivery until it succeeds; it always is here.";
    "timerCongestNumEachSlot" timer_congest_num_each_slot: i32 = i32::MAX, dynamic,
        "Messages in one slot above which delayed sends are refused.";
    "timerMetricSmallThreshold" timer_metric_small_threshold: i32 = 1_000_000, inert,
        "Distances below which the timer's counters are printed together.";
    "timerProgressLogIntervalMs" timer_progress_log_interval_ms: i32 = 10000, inert,
        "Milliseconds between log lines about the timer's progress.";
    "timerWheelSnapshotIntervalMs" timer_wheel_snapshot_interval_ms: i32 = 10000, dynamic,
        "Milliseconds between snapshots of the timer wheel.";
    "commitLogRecoverMaxNum" commit_log_recover_max_num: i32 = 10, inert,
        "Newest commit log files that recovery with RocksDB looks at.";
    "timerRocksDBEnable" timer_rocks_db_enable: bool = false, inert,
        "Keep timed messages in RocksDB.";
    "timerRocksDBStopScan" timer_rocks_db_stop_scan: bool = false, inert,
        "Stop delivering timed messages from RocksDB.";
    "timerRocksDBPrecisionMs" timer_rocks_db_precision_ms: i64 = 1000, inert,
        "Milliseconds of precision of timed messages in RocksDB.";
    "timerRocksDBRollMaxTps" timer_rocks_db_roll_max_tps: f64 = 8000.0, inert,
        "Far messages moved on a second.";
    "timerRocksDBTimeExpiredMaxTps" timer_rocks_db_time_expired_max_tps: f64 = 200000.0, inert,
        "Due messages read a second.";
    "timerRocksDBRollIntervalHours" timer_rocks_db_roll_interval_hours: i32 = 1, inert,
        "Hours between moves of far messages.";
    "timerRocksDBRollRangeHours" timer_rocks_db_roll_range_hours: i32 = 2, inert,
        "Hours that one such move covers.";
    "timerRecallToTimeWheelEnable" timer_recall_to_time_wheel_enable: bool = true, inert,
        "Take recalled messages out of the timer wheel.";
    "timerRecallToTimelineEnable" timer_recall_to_timeline_enable: bool = true, inert,
        "Take recalled messages out of RocksDB.";
    "timerReputServiceCorePoolSize" timer_reput_service_core_pool_size: i32 = 6, inert,
        "Least threads that deliver timed messages from RocksDB.";
    "timerReputServiceMaxPoolSize" timer_reput_service_max_pool_size: i32 = 6, inert,
        "Most threads that deliver timed messages from RocksDB.";
    "timerReputServiceQueueCapacity" timer_reput_service_queue_capacity: i32 = 10000, inert,
        "Deliveries of timed messages from RocksDB that may wait.";
    "transRocksDBEnable" trans_rocks_db_enable: bool = false, inert,
        "Keep open transactions in RocksDB.";
    "transWriteOriginTransHalfEnable" trans_write_origin_trans_half_enable: bool = true, inert,
        "Also keep open transactions in their topic.";
    "indexRocksDBEnable" index_rocks_db_enable: bool = false, inert,
        "Keep the index of keys in RocksDB.";
    "maxRocksDBIndexQueryDays" max_rocks_db_index_query_days: i32 = 7, inert,
        "Days that a query of that index may cover.";
    "indexFileWriteEnable" index_file_write_enable: bool = true, inert,
        "Write the index files.";
    "indexFileReadEnable" index_file_read_enable: bool = true, inert,
        "Answer queries from the index files.";
    "storeType" store_type: String = "default".into(), inert,
        "Form of the consume queues: `default` is files, `defaultRocksDB` is RocksDB.", important;
    "iteratorWhenUseRocksdbConsumeQueue" iterator_when_use_rocksdb_consume_queue: bool = true, inert,
        "Read consume queues in RocksDB with an iterator.";
    "mappedFileSizeConsumeQueue" mapped_file_size_consume_queue: i32 = 6_000_000, static,
        "Bytes of a consume queue file; rounded up to whole entries of 20 bytes.";
    "enableConsumeQueueExt" enable_consume_queue_ext: bool = false, static,
        "Keep tags and filter bits of each message in an extra file.";
    "mappedFileSizeConsumeQueueExt" mapped_file_size_consume_queue_ext: i32 = 50_331_648, static,
        "Bytes of such an extra file.";
    "mapperFileSizeBatchConsumeQueue" mapper_file_size_batch_consume_queue: i32 = 13_800_000, static,
        "Bytes of a batch consume queue file.";
    "bitMapLengthConsumeQueueExt" bit_map_length_consume_queue_ext: i32 = 64, inert,
        "Bits of the filter bit map of a message.";
    "flushIntervalCommitLog" flush_interval_commit_log: i32 = 500, dynamic,
        "Milliseconds between flushes of the commit log with ASYNC_FLUSH.", important;
    "commitIntervalCommitLog" commit_interval_commit_log: i32 = 200, dynamic,
        "Milliseconds between writes of the off-heap buffer.", important;
    "maxRecoveryCommitlogFiles" max_recovery_commitlog_files: i32 = 30, inert,
        "Files that accelerated recovery looks at.";
    "diskSpaceWarningLevelRatio" disk_space_warning_level_ratio: i32 = 90, dynamic,
        "Percent of the disk above which sends are refused.";
    "diskSpaceCleanForciblyRatio" disk_space_clean_forcibly_ratio: i32 = 85, dynamic,
        "Percent of the disk above which files are deleted before their time.";
    "useReentrantLockWhenPutMessage" use_reentrant_lock_when_put_message: bool = true, inert,
        "Use a lock rather than spin for the append.";
    "flushCommitLogTimed" flush_commit_log_timed: bool = true, inert,
        "Flush the commit log by time only, not when messages arrive.", important;
    "flushIntervalConsumeQueue" flush_interval_consume_queue: i32 = 1000, dynamic,
        "Milliseconds between flushes of the consume queues.";
    "cleanResourceInterval" clean_resource_interval: i32 = 10000, static,
        "Milliseconds between looks for files to delete.";
    "deleteCommitLogFilesInterval" delete_commit_log_files_interval: i32 = 100, dynamic,
        "Milliseconds between deletions of two commit log files.";
    "deleteConsumeQueueFilesInterval" delete_consume_queue_files_interval: i32 = 100, dynamic,
        "Milliseconds between deletions of two consume queue files.";
    "destroyMapedFileIntervalForcibly" destroy_maped_file_interval_forcibly: i32 = 120_000, inert,
        "Milliseconds after which a file in use is deleted anyway.";
    "redeleteHangedFileInterval" redelete_hanged_file_interval: i32 = 120_000, inert,
        "Milliseconds between attempts to delete a file in use.";
    "deleteWhen" delete_when: String = "04".into(), dynamic,
        "Hours of the day at which expired files are deleted, such as 04, separated by semicolons.", important;
    "diskMaxUsedSpaceRatio" disk_max_used_space_ratio: i32 = 75, dynamic,
        "Percent of the disk above which expired files are deleted at any hour, within 10 and 95.";
    "fileReservedTime" file_reserved_time: i32 = 72, dynamic,
        "Hours that a commit log file is kept after its last message.", important;
    "deleteFileBatchMax" delete_file_batch_max: i32 = 10, dynamic,
        "Files deleted in one go.", important;
    "putMsgIndexHightWater" put_msg_index_hight_water: i32 = 600_000, inert,
        "Dispatched messages that may wait for a consume queue.";
    "maxMessageSize" max_message_size: i32 = 4_194_304, dynamic,
        "Bytes of a message body.";
    "maxFilterMessageSize" max_filter_message_size: i32 = 16000, dynamic,
        "Bytes of consume queue entries that a filtered pull looks at.";
    "checkCRCOnRecover" check_crc_on_recover: bool = true, static,
        "Check the checksum of each record while recovering.";
    "checkCommitLogOffsetOnRecover" check_commit_log_offset_on_recover: bool = false, inert,
        "Check that each record carries its own offset while recovering.";
    "flushCommitLogLeastPages" flush_commit_log_least_pages: i32 = 4, dynamic,
        "Pages of 4 KiB that a flush of the commit log waits for.";
    "commitCommitLogLeastPages" commit_commit_log_least_pages: i32 = 4, dynamic,
        "Pages of 4 KiB that a write of the off-heap buffer waits for.";
    "flushLeastPagesWhenWarmMapedFile" flush_least_pages_when_warm_maped_file: i32 = 4096, inert,
        "Pages of 4 KiB after which warming a file flushes.";
    "flushConsumeQueueLeastPages" flush_consume_queue_least_pages: i32 = 2, dynamic,
        "Pages of 4 KiB that a flush of a consume queue waits for.";
    "flushCommitLogThoroughInterval" flush_commit_log_thorough_interval: i32 = 10000, dynamic,
        "Milliseconds after which the commit log is flushed however little there is.";
    "commitCommitLogThoroughInterval" commit_commit_log_thorough_interval: i32 = 200, dynamic,
        "Milliseconds after which the off-heap buffer is written however little there is.";
    "flushConsumeQueueThoroughInterval" flush_consume_queue_thorough_interval: i32 = 60000, dynamic,
        "Milliseconds after which consume queues are flushed however little there is.";
    "maxTransferBytesOnMessageInMemory" max_transfer_bytes_on_message_in_memory: i32 = 262_144, dynamic,
        "Bytes that one pull returns of messages in memory.", important;
    "maxTransferCountOnMessageInMemory" max_transfer_count_on_message_in_memory: i32 = 32, dynamic,
        "Messages that one pull returns of messages in memory.", important;
    "maxTransferBytesOnMessageInDisk" max_transfer_bytes_on_message_in_disk: i32 = 65536, dynamic,
        "Bytes that one pull returns of messages on disk.", important;
    "maxTransferCountOnMessageInDisk" max_transfer_count_on_message_in_disk: i32 = 8, dynamic,
        "Messages that one pull returns of messages on disk.", important;
    "accessMessageInMemoryMaxRatio" access_message_in_memory_max_ratio: i32 = 40, dynamic,
        "Percent of the memory that the newest messages are assumed to be in.", important;
    "messageIndexEnable" message_index_enable: bool = true, static,
        "Index messages by key.", important;
    "maxHashSlotNum" max_hash_slot_num: i32 = 5_000_000, static,
        "Slots of an index file.";
    "maxIndexNum" max_index_num: i32 = 20_000_000, static,
        "Entries of an index file.";
    "maxMsgsNumBatch" max_msgs_num_batch: i32 = 64, dynamic,
        "Messages that a query by key returns.";
    "messageIndexSafe" message_index_safe: bool = false, static,
        "Check the index files after an unclean stop.", important;
    "haListenPort" ha_listen_port: i32 = 10912 => not_negative, static,
        "Port for slaves; the listening port plus 1 when not set.";
    "haSendHeartbeatInterval" ha_send_heartbeat_interval: i32 = 5000, dynamic,
        "Milliseconds between heartbeats to slaves.";
    "haHousekeepingInterval" ha_housekeeping_interval: i32 = 20000, dynamic,
        "Milliseconds of silence after which a replication connection is closed.";
    "haTransferBatchSize" ha_transfer_batch_size: i32 = 32768, dynamic,
        "Bytes sent to a slave in one go.";
    "haMasterAddress" ha_master_address: Option<String> = None, static,
        "Address of the master's replication port, for a slave.", important;
    "haMaxGapNotInSync" ha_max_gap_not_in_sync: i32 = 268_435_456, dynamic,
        "Bytes behind the master that still count as in sync.";
    "brokerRole" broker_role: BrokerRole = BrokerRole::AsyncMaster, static,
        "Part in replication.", important;
    "flushDiskType" flush_disk_type: FlushDiskType = FlushDiskType::Async, static,
        "When a message counts as stored.", important;
    "syncFlushTimeout" sync_flush_timeout: i32 = 5000, dynamic,
        "Milliseconds that a send waits for its flush with SYNC_FLUSH.";
    "putMessageTimeout" put_message_timeout: i32 = 8000, inert,
        "Milliseconds that a send waits for flush and replicas together.";
    "slaveTimeout" slave_timeout: i32 = 3000, dynamic,
        "Milliseconds that a send waits for replicas.";
    "messageDelayLevel" message_delay_level: String = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h".into(), static,
        "Delays of the levels 1, 2, 3 and so on, as numbers with s, m, h or d.";
    "flushDelayOffsetInterval" flush_delay_offset_interval: i64 = 10000, static,
        "Milliseconds between writes of the progress of delayed delivery.";
    "cleanFileForciblyEnable" clean_file_forcibly_enable: bool = true, dynamic,
        "Delete files before their time when the disk is nearly full.", important;
    "warmMapedFileEnable" warm_maped_file_enable: bool = false, inert,
        "Write and lock the pages of a new file ahead.";
    "offsetCheckInSlave" offset_check_in_slave: bool = false, dynamic,
        "Correct offsets that are out of range on a slave as well.";
    "debugLockEnable" debug_lock_enable: bool = false, inert,
        "Log waits for the append lock.";
    "duplicationEnable" duplication_enable: bool = false, inert,
        "Replicate by a second dispatch of the log; unused.";
    "diskFallRecorded" disk_fall_recorded: bool = true, inert,
        "Measure how far consumers are behind, in bytes.";
    "osPageCacheBusyTimeOutMills" os_page_cache_busy_time_out_mills: i64 = 1000, dynamic,
        "Milliseconds in the append lock after which sends are answered SYSTEM_BUSY.";
    "defaultQueryMaxNum" default_query_max_num: i32 = 32, dynamic,
        "Messages that a query by key returns unless it asks for fewer.";
    "transientStorePoolEnable" transient_store_pool_enable: bool = false, static,
        "Gather messages in an off-heap buffer before they reach the page cache.", important;
    "transientStorePoolSize" transient_store_pool_size: i32 = 5, static,
        "Off-heap buffers of at most 16 MiB each; in Java they are as long as files.";
    "fastFailIfNoBufferInStorePool" fast_fail_if_no_buffer_in_store_pool: bool = false, dynamic,
        "Refuse messages while all off-heap buffers are in use, rather than write them at once.";
    "writeWithoutMmap" write_without_mmap: bool = false, inert,
        "Write files by system calls rather than through a map.", important;
    "enableDLegerCommitLog" enable_d_leger_commit_log: bool = false, static,
        "Replicate the commit log with DLedger.";
    "dLegerGroup" d_leger_group: Option<String> = None, inert,
        "Name of the DLedger group.";
    "dLegerPeers" d_leger_peers: Option<String> = None, inert,
        "Members of the DLedger group.";
    "dLegerSelfId" d_leger_self_id: Option<String> = None, inert,
        "Own id in the DLedger group.";
    "preferredLeaderId" preferred_leader_id: Option<String> = None, inert,
        "Id of the preferred DLedger leader.";
    "enableBatchPush" enable_batch_push: bool = false, inert,
        "Let DLedger replicate in batches.";
    "enableScheduleMessageStats" enable_schedule_message_stats: bool = true, dynamic,
        "Keep statistics of delayed messages.";
    "enableLmq" enable_lmq: bool = false, static,
        "Keep light message queues.";
    "enableMultiDispatch" enable_multi_dispatch: bool = false, static,
        "Let one message appear in several queues.";
    "maxLmqConsumeQueueNum" max_lmq_consume_queue_num: i32 = 20000, dynamic,
        "Light message queues in all.";
    "enableLmqQuota" enable_lmq_quota: bool = false, dynamic,
        "Apply maxLmqConsumeQueueNum.";
    "enableScheduleAsyncDeliver" enable_schedule_async_deliver: bool = false, inert,
        "Deliver delayed messages without waiting for each.";
    "scheduleAsyncDeliverMaxPendingLimit" schedule_async_deliver_max_pending_limit: i32 = 2000, inert,
        "Such deliveries in flight per level.";
    "scheduleAsyncDeliverMaxResendNum2Blocked" schedule_async_deliver_max_resend_num2_blocked: i32 = 3, inert,
        "Failed deliveries after which a level waits.";
    "maxBatchDeleteFilesNum" max_batch_delete_files_num: i32 = 50, inert,
        "Files that a request to delete expired files removes.";
    "dispatchCqThreads" dispatch_cq_threads: i32 = 10, inert,
        "Threads that write consume queues.";
    "dispatchCqCacheNum" dispatch_cq_cache_num: i32 = 4096, inert,
        "Dispatched messages in each of these threads' queues.";
    "enableAsyncReput" enable_async_reput: bool = true, inert,
        "Dispatch the log in a thread of its own.";
    "recheckReputOffsetFromCq" recheck_reput_offset_from_cq: bool = false, inert,
        "Compute the dispatch offset again from the consume queues at start.";
    "maxTopicLength" max_topic_length: i32 = 127, inert,
        "Longest topic name; Java no longer uses it.";
    "autoMessageVersionOnTopicLen" auto_message_version_on_topic_len: bool = true, static,
        "Write records of version 2 for topic names of more than 127 bytes.";
    "enableRunningFlagsInFlush" enable_running_flags_in_flush: bool = false, inert,
        "Stop taking messages after a failed flush.", important;
    "enabledAppendPropCRC" enabled_append_prop_crc: bool = false, static,
        "Add a checksum over the whole record to its properties.";
    "forceVerifyPropCRC" force_verify_prop_crc: bool = false, static,
        "Refuse records without that checksum while recovering.";
    "travelCqFileNumWhenGetMessage" travel_cq_file_num_when_get_message: i32 = 1, dynamic,
        "Consume queue files that one filtered pull crosses.";
    "correctLogicMinOffsetSleepInterval" correct_logic_min_offset_sleep_interval: i32 = 1, inert,
        "Milliseconds between two queues when their minimum offsets are corrected.";
    "correctLogicMinOffsetForceInterval" correct_logic_min_offset_force_interval: i32 = 300_000, inert,
        "Milliseconds between forced corrections of minimum offsets.";
    "mappedFileSwapEnable" mapped_file_swap_enable: bool = true, inert,
        "Map old files anew so that their pages can be dropped.";
    "commitLogForceSwapMapInterval" commit_log_force_swap_map_interval: i64 = 43_200_000, inert,
        "Milliseconds after which a commit log file is mapped anew in any case.";
    "commitLogSwapMapInterval" commit_log_swap_map_interval: i64 = 3_600_000, inert,
        "Milliseconds without access after which a commit log file is mapped anew.";
    "commitLogSwapMapReserveFileNum" commit_log_swap_map_reserve_file_num: i32 = 100, inert,
        "Newest commit log files that are left alone.";
    "logicQueueForceSwapMapInterval" logic_queue_force_swap_map_interval: i64 = 43_200_000, inert,
        "Milliseconds after which a consume queue file is mapped anew in any case.";
    "logicQueueSwapMapInterval" logic_queue_swap_map_interval: i64 = 3_600_000, inert,
        "Milliseconds without access after which a consume queue file is mapped anew.";
    "cleanSwapedMapInterval" clean_swaped_map_interval: i64 = 300_000, inert,
        "Milliseconds until the old map of such a file is released.";
    "logicQueueSwapMapReserveFileNum" logic_queue_swap_map_reserve_file_num: i32 = 20, inert,
        "Newest consume queue files that are left alone.";
    "searchBcqByCacheEnable" search_bcq_by_cache_enable: bool = true, inert,
        "Cache what searches in batch consume queues find.";
    "dispatchFromSenderThread" dispatch_from_sender_thread: bool = false, inert,
        "Dispatch a message in the thread that stored it.", important;
    "wakeCommitWhenPutMessage" wake_commit_when_put_message: bool = true, inert,
        "Write the off-heap buffer when a message arrives.", important;
    "wakeFlushWhenPutMessage" wake_flush_when_put_message: bool = false, inert,
        "Flush when a message arrives.", important;
    "enableCleanExpiredOffset" enable_clean_expired_offset: bool = false, inert,
        "Correct group offsets below the oldest message.", important;
    "maxAsyncPutMessageRequests" max_async_put_message_requests: i32 = 5000, inert,
        "Sends in flight above which more are answered SYSTEM_BUSY.";
    "pullBatchMaxMessageCount" pull_batch_max_message_count: i32 = 160, inert,
        "Messages that one pull of a batch consume queue returns.";
    "totalReplicas" total_replicas: i32 = 1, static,
        "Replicas including the master.", important;
    "inSyncReplicas" in_sync_replicas: i32 = 1, dynamic,
        "Replicas including the master that must have a message with SYNC_MASTER.", important;
    "minInSyncReplicas" min_in_sync_replicas: i32 = 1, dynamic,
        "Replicas including the master below which sends are refused.", important;
    "allAckInSyncStateSet" all_ack_in_sync_state_set: bool = false, inert,
        "Wait for every replica that keeps up.", important;
    "enableAutoInSyncReplicas" enable_auto_in_sync_replicas: bool = false, dynamic,
        "Ask for fewer replicas while some are away.", important;
    "haFlowControlEnable" ha_flow_control_enable: bool = false, dynamic,
        "Limit the replication rate.", important;
    "maxHaTransferByteInSecond" max_ha_transfer_byte_in_second: i64 = 104_857_600, dynamic,
        "Bytes a second to one slave.";
    "haMaxTimeSlaveNotCatchup" ha_max_time_slave_not_catchup: i64 = 15000, inert,
        "Milliseconds behind the master after which a slave no longer keeps up.";
    "syncMasterFlushOffsetWhenStartup" sync_master_flush_offset_when_startup: bool = false, dynamic,
        "Take the master's flushed offset when a slave starts.";
    "maxChecksumRange" max_checksum_range: i64 = 1_073_741_824, inert,
        "Bytes that are compared when a slave joins; unused.";
    "replicasPerDiskPartition" replicas_per_disk_partition: i32 = 1, dynamic,
        "Brokers that share a disk.";
    "logicalDiskSpaceCleanForciblyThreshold" logical_disk_space_clean_forcibly_threshold: f64 = 0.8, dynamic,
        "Part of the disk, from 0 to 1, that they may fill together.";
    "maxSlaveResendLength" max_slave_resend_length: i64 = 268_435_456, inert,
        "Bytes that a slave may be behind and still be sent the rest; unused.";
    "syncFromLastFile" sync_from_last_file: bool = false, inert,
        "Let a new slave start with the master's last file.";
    "asyncLearner" async_learner: bool = false, inert,
        "Copy the master without counting as a replica.";
    "maxConsumeQueueScan" max_consume_queue_scan: i32 = 20000, inert,
        "Entries after which a count of matching messages is estimated.";
    "sampleCountThreshold" sample_count_threshold: i32 = 5000, inert,
        "Matches after which a count of matching messages is estimated.";
    "coldDataFlowControlEnable" cold_data_flow_control_enable: bool = false, dynamic,
        "Limit reads of cold data.";
    "coldDataScanEnable" cold_data_scan_enable: bool = false, inert,
        "Look which pages of the log are in memory.";
    "dataReadAheadEnable" data_read_ahead_enable: bool = true, dynamic,
        "Let the system read ahead.";
    "timerColdDataCheckIntervalMs" timer_cold_data_check_interval_ms: i32 = 60000, inert,
        "Milliseconds between looks which pages are in memory.";
    "sampleSteps" sample_steps: i32 = 32, inert,
        "Pages that such a look skips.";
    "accessMessageInMemoryHotRatio" access_message_in_memory_hot_ratio: i32 = 26, dynamic,
        "Percent of the memory within which data counts as hot.";
    "enableBuildConsumeQueueConcurrently" enable_build_consume_queue_concurrently: bool = false, inert,
        "Build consume queues in several threads.";
    "batchDispatchRequestThreadPoolNums" batch_dispatch_request_thread_pool_nums: i32 = 16, inert,
        "Threads that build them.";
    "cleanRocksDBDirtyCQIntervalMin" clean_rocks_db_dirty_cq_interval_min: i64 = 60, inert,
        "Minutes between removals of dead consume queue entries from RocksDB.";
    "statRocksDBCQIntervalSec" stat_rocks_dbcq_interval_sec: i64 = 10, inert,
        "Seconds between log lines about RocksDB.";
    "memTableFlushIntervalMs" mem_table_flush_interval_ms: i64 = 3_600_000, inert,
        "Milliseconds between flushes of RocksDB's memory tables.";
    "realTimePersistRocksDBConfig" real_time_persist_rocks_db_config: bool = true, inert,
        "Write configuration in RocksDB at each change.";
    "enableRocksDBLog" enable_rocks_db_log: bool = false, inert,
        "Keep RocksDB's own log.";
    "topicQueueLockNum" topic_queue_lock_num: i32 = 32, inert,
        "Locks that the queues share.";
    "readUnCommitted" read_un_committed: bool = false, inert,
        "Dispatch messages before they are confirmed.";
    "putConsumeQueueDataByFileChannel" put_consume_queue_data_by_file_channel: bool = true, inert,
        "Write consume queues by system calls.";
    "rocksdbCQDoubleWriteEnable" rocksdb_cq_double_write_enable: bool = false, inert,
        "Write consume queues to files and to RocksDB.";
    "combineCQLoadingCQTypes" combine_cq_loading_cq_types: String = "default;defaultRocksDB".into(), inert,
        "Forms of consume queues that are loaded, separated by semicolons.";
    "combineCQPreferCQType" combine_cq_prefer_cq_type: String = "default".into(), inert,
        "Form that is read.";
    "combineAssignOffsetCQType" combine_assign_offset_cq_type: String = "default".into(), inert,
        "Form that assigns offsets.";
    "combineCQEnableCheckSelf" combine_cq_enable_check_self: bool = false, inert,
        "Compare the forms at start.";
    "combineCQMaxExtraSearchCommitLogFiles" combine_cq_max_extra_search_commit_log_files: i32 = 3, inert,
        "More commit log files that such a comparison looks at.";
    "combineCQUseRocksdbForLmq" combine_cq_use_rocksdb_for_lmq: bool = false, inert,
        "Keep light message queues in RocksDB.";
    "bottomMostCompressionTypeForConsumeQueueStore" bottom_most_compression_type_for_consume_queue_store: String = "zstd".into(), inert,
        "Compression of the oldest data in RocksDB.";
    "rocksdbCompressionType" rocksdb_compression_type: String = "lz4".into(), inert,
        "Compression of other data in RocksDB.";
    "rocksdbFlushWalFrequency" rocksdb_flush_wal_frequency: i32 = 1024, inert,
        "Writes after which RocksDB's log is flushed.";
    "rocksdbWalFileRollingThreshold" rocksdb_wal_file_rolling_threshold: i64 = 1_073_741_824, inert,
        "Bytes after which RocksDB's log is rolled.";
    "enableAcceleratedRecovery" enable_accelerated_recovery: bool = false, inert,
        "Recover from the flushed offset; safe only after SYNC_FLUSH.";
    "sharedByteBufferNum" shared_byte_buffer_num: i32 = 16, inert,
        "Buffers shared by writers without a map.";
    "useSeparateStorePathForRocksdbCQ" use_separate_store_path_for_rocksdb_cq: bool = false, inert,
        "Keep consume queues in RocksDB in a directory of their own.";
    "spinLockCollisionRetreatOptimalDegree" spin_lock_collision_retreat_optimal_degree: i32 = 1000, inert,
        "Spins before the append lock yields.";
    "useABSLock" use_abs_lock: bool = false, inert,
        "Let the append lock choose between spinning and waiting.";
    "enableLogConsumeQueueRepeatedlyBuildWhenRecover" enable_log_consume_queue_repeatedly_build_when_recover: bool = false, inert,
        "Log consume queue entries that recovery meets again.", fixed;
    "appendTopicForTimerDeleteKey" append_topic_for_timer_delete_key: bool = false, dynamic,
        "Tell timed messages to be recalled apart by topic as well.";
}}

/// The HA port: anything below 0 counts as 0, which stands for the port next to `listenPort`.
fn not_negative(port: i32) -> i32 {
    port.max(0)
}

/// The timer's precision: rounded down to one of the steps that Java knows.
fn timer_precision(milliseconds: i32) -> i32 {
    match milliseconds {
        ..200 => 100,
        200..500 => 200,
        500..1000 => 500,
        1000.. => 1000,
    }
}
