//! The facade: opens a store directory, appends, reads, queries, closes. It only delegates.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use config::{BrokerRole, MessageStoreConfig};

use crate::background::Core;
pub use crate::background::Health;
use crate::commitlog::{AppendLimits, Batch, CommitLog, NextOffset, Numbers};
pub use crate::disk::{Gauge, Partition};
use crate::error::{AppendError, StoreError};
use crate::index::KeyKind;
use crate::lmq;
use crate::query::{self, KeyQuery};
pub use crate::queue::Queue;
use crate::read::{self, ReadLimits};
use crate::record::properties::name;
use crate::record::{Properties, sys_flag};
pub use crate::types::*;
use crate::watermark::Watermark;

/// Where first halves of transactions wait: what is in them is not sent yet.
const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";

/// An open store. One a directory; all methods take `&self` and may be called from any thread.
///
/// Dropping it closes it.
pub struct Store {
    core: Arc<Core>,
}

impl Store {
    /// Opens the directory: takes the lock, loads, recovers what a crash left, starts the store's threads.
    ///
    /// # Errors
    /// In use by another process, files that do not fit together, or the disk.
    pub fn open(options: StoreOptions) -> Result<Arc<Store>, StoreError> {
        Store::start(Core::open(options)?)
    }

    /// As [`Store::open`], with another way to tell how full the disk is.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with_gauge(options: StoreOptions, gauge: Gauge) -> Result<Arc<Store>, StoreError> {
        Store::start(Core::open(options)?.with_gauge(gauge))
    }

    fn start(core: Core) -> Result<Arc<Store>, StoreError> {
        // Dropped, and with that closed, when the threads cannot be started.
        let store = Arc::new(Store { core: Arc::new(core) });
        Core::start(&store.core)?;
        Ok(store)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The queue when it exists (in memory or on disk).
    pub fn queue(&self, topic: &str, id: i32) -> Option<Arc<Queue>> {
        self.core.queues.get(topic, id)
    }

    /// The queue, made when it does not exist. Its directory appears with its first entry.
    pub fn queue_or_create(&self, topic: &str, id: i32) -> Arc<Queue> {
        self.core.queues.get_or_create(topic, id)
    }

    /// All queues of a topic that exist in the store, by id.
    pub fn queues_of(&self, topic: &str) -> Vec<Arc<Queue>> {
        self.core.queues.of_topic(topic)
    }

    /// The topics that have queues in the store.
    pub fn topics(&self) -> Vec<Arc<str>> {
        self.core.queues.topics()
    }

    /// The topics that have queues in the store, and those of which a deletion that failed left files.
    pub fn topics_with_files(&self) -> BTreeSet<Arc<str>> {
        self.topics().into_iter().chain(self.core.compacted_topics()).collect()
    }

    /// Compacts all queues of compaction topics that have something to compact, before this returns. For tests.
    #[cfg(feature = "failpoints")]
    pub fn compact_now(&self) {
        self.core.compact_now();
    }

    /// Appends one message. On return the bytes are in the log and in the page cache; they are readable after
    /// [`Store::dispatch`] and on disk once [`Store::flushed`] reaches [`Appended::end`].
    ///
    /// # Errors
    /// See [`AppendError`]; nothing was appended.
    ///
    /// A batch that stays one record (`INNER_BATCH` in the sys flag, `INNER_NUM` in the properties) takes that many offsets,
    /// and a message for light queues (`INNER_MULTI_DISPATCH`) one in each: their properties are completed.
    pub fn append(&self, queue: &Queue, message: &NewMessage<'_>) -> Result<Appended, AppendError> {
        queue.ask_for();
        let config = self.core.options.config.load();
        let limits = self.limits(&config)?;
        if config.enable_lmq || message.sys_flag & sys_flag::INNER_BATCH != 0 {
            return self.append_numbered(queue, message, &config, &limits);
        }
        let appended = self.core.log.append(next_offset(queue), message, &limits)?;
        self.core.dispatcher.hint(appended.phys_offset, queue);
        Ok(appended)
    }

    #[cold]
    fn append_numbered(
        &self,
        queue: &Queue,
        message: &NewMessage<'_>,
        config: &MessageStoreConfig,
        limits: &AppendLimits,
    ) -> Result<Appended, AppendError> {
        let properties = Properties::new(message.properties);
        // A record with the flag and without a number is one message, as in Java.
        let number = |value: Option<&[u8]>| match value {
            None => Some(1),
            Some(value) => std::str::from_utf8(value).ok()?.parse::<i16>().ok().filter(|number| *number >= 1),
        };
        let inner = match message.sys_flag & sys_flag::INNER_BATCH {
            0 => None,
            _ if !queue.takes_batches(true) => return Err(AppendError::NoBatch),
            _ => Some(number(properties.get_bytes(name::INNER_NUM)).ok_or(AppendError::NoBatch)?),
        };
        let also = if config.enable_lmq && inner.is_none() && !queue.is_batch() {
            let names = properties.get_bytes(name::INNER_MULTI_DISPATCH);
            self.light_queues(queue.topic(), names.unwrap_or_default(), config)?
        } else {
            Vec::new()
        };
        if inner.is_none() && also.is_empty() {
            return self.core.log.append(next_offset(queue), message, limits);
        }
        let also: Vec<_> = also.iter().map(|queue| queue.as_ref().map(|queue| queue.next_offset())).collect();
        self.core.log.append_numbered(next_offset(queue), message, &Numbers { inner, also: &also }, limits)
    }

    /// The light queues that a message of a topic names, made when they do not exist.
    fn light_queues(
        &self,
        topic: &str,
        names: &[u8],
        config: &MessageStoreConfig,
    ) -> Result<Vec<Option<Arc<Queue>>>, AppendError> {
        if names.trim_ascii().is_empty() || topic == HALF_TOPIC || !lmq::goes_on_from(topic.as_bytes()) {
            return Ok(Vec::new());
        }
        let queues = &self.core.queues;
        if config.enable_lmq_quota && config.enable_multi_dispatch {
            let most = usize::try_from(config.max_lmq_consume_queue_num).unwrap_or(0);
            let mut wanted = lmq::pieces(names).filter_map(lmq::queue_of);
            if queues.light() >= most && wanted.any(|name| queues.get(name, lmq::QUEUE_ID).is_none()) {
                return Err(AppendError::TooManyQueues);
            }
        }
        let queue = |name: &str| queues.get_or_create(name, lmq::QUEUE_ID);
        Ok(lmq::pieces(names).map(|name| lmq::queue_of(name).map(queue)).collect())
    }

    /// Appends the messages of one SEND_BATCH_MESSAGE body (`message.body`; see [`crate::record::batch`]) as
    /// consecutive records with consecutive queue offsets. Each inner message carries its own properties; those of
    /// `message` are not looked at.
    ///
    /// Calls `each` with the physical offset of every record in order (for the message ids).
    ///
    /// # Errors
    /// See [`AppendError`]; nothing was appended.
    pub fn append_batch(
        &self,
        queue: &Queue,
        message: &NewMessage<'_>,
        inner: &[Inner<'_>],
        each: &mut dyn FnMut(u64),
    ) -> Result<Appended, AppendError> {
        queue.ask_for();
        let batch = Batch { common: message, inner };
        let limits = self.limits(&self.core.options.config.load())?;
        self.core.log.append_batch(next_offset(queue), &batch, &limits, each)
    }

    /// What every append comes by: it may be refused, or wait a moment for the device.
    fn limits(&self, config: &MessageStoreConfig) -> Result<AppendLimits, AppendError> {
        if config.broker_role == BrokerRole::Slave {
            return Err(AppendError::NotWritable("the broker is a slave"));
        }
        self.core.flusher.hold_back();
        if config.fast_fail_if_no_buffer_in_store_pool && self.core.log.pool_remaining() == Some(0) {
            return Err(AppendError::NoSpace(io::Error::other("no free buffer in the store pool")));
        }
        Ok(AppendLimits {
            max_body: usize::try_from(config.max_message_size).unwrap_or(0),
            long_topics: config.auto_message_version_on_topic_len,
            crc_property: config.enabled_append_prop_crc,
            store_host: self.core.options.store_host,
        })
    }

    /// Whether the device cannot keep up: an append, or all of them in turn, have been held back for longer than
    /// `osPageCacheBusyTimeOutMills`, or the store pool has no free buffer.
    ///
    /// Two relaxed loads while nobody appends.
    #[inline]
    pub fn page_cache_busy(&self) -> bool {
        let limit = || self.core.options.config.load().os_page_cache_busy_time_out_mills;
        let held = self.core.log.locked_for().max(self.core.flusher.held_for());
        held.is_some_and(|held| held > limit()) || self.core.log.pool_remaining() == Some(0)
    }

    /// Free buffers of the store pool (`transientStorePoolEnable`); `None` without one.
    pub fn pool_remaining(&self) -> Option<usize> {
        self.core.log.pool_remaining()
    }

    /// Bytes that are acknowledged and still in buffers of the store pool: not readable yet, and gone when the process is
    /// killed.
    pub fn uncommitted(&self) -> u64 {
        self.core.log.uncommitted()
    }

    /// Makes everything appended so far readable: feeds consume queues and index from the log on the calling thread, or
    /// hands over to the store's own thread when that is behind. Called once a read batch.
    ///
    /// With SYNC_FLUSH what is not on disk yet stays unreadable; the flush thread makes it readable.
    pub fn dispatch(&self) {
        self.core.dispatch();
    }

    /// Sees to it that what was written before this call is readable, for a reader that is not told of what comes later. Costs
    /// two loads when nothing waits. When another thread is just dispatching it waits for that, 20 ms at most.
    pub fn catch_up(&self) {
        self.core.catch_up();
    }

    /// How far messages are readable, in bytes of the log.
    pub fn dispatched(&self) -> u64 {
        self.core.dispatcher.position()
    }

    /// How far the log is written.
    pub fn wrote(&self) -> &Watermark {
        self.core.log.wrote()
    }

    /// How far the log is on disk.
    pub fn flushed(&self) -> &Watermark {
        self.core.flusher.flushed()
    }

    /// Asks for a sync of everything appended so far (group commit): [`Store::flushed`] will reach it.
    pub fn request_flush(&self) {
        self.core.flusher.request();
    }

    /// Puts log, consume queues and full index files on disk, and says so in the checkpoint.
    ///
    /// # Errors
    /// The disk; the checkpoint is as before then.
    pub fn sync_all(&self) -> Result<(), StoreError> {
        self.core.flush_derived()
    }

    /// Whether appends are taken, and why not.
    pub fn health(&self) -> Health {
        self.core.health()
    }

    /// Reads messages of a queue. Never blocks on a lock of the append path.
    pub fn read(&self, queue: &Queue, request: &ReadRequest, filter: &dyn ReadFilter, result: &mut ReadResult) {
        let limits = ReadLimits::of(&self.core.options.config.load());
        if let Some(compacted) = queue.compaction() {
            return compacted.read(&limits, request, result);
        }
        read::read(queue, &self.core.log, &limits, request, filter, result);
    }

    /// The record at a physical offset, when a whole valid one starts there.
    pub fn record_at(&self, phys_offset: u64) -> Option<RecordSlice> {
        self.core.log.record_at(phys_offset)
    }

    /// The log itself: for replication, tools and tests.
    pub fn log(&self) -> &CommitLog {
        &self.core.log
    }

    /// Tells the system whether to read ahead in the log's files (`dataReadAheadEnable`).
    pub fn set_read_ahead(&self, on: bool) {
        self.core.log.segments().set_read_ahead(on);
    }

    /// Bytes before the end of the log that count as hot (`accessMessageInMemoryHotRatio` percent of the memory).
    pub fn hot_bytes(&self) -> u64 {
        let percent = self.core.options.config.load().access_message_in_memory_hot_ratio;
        (read::total_memory() as f64 * (f64::from(percent) / 100.0)) as u64
    }

    /// The log's readable range in bytes.
    pub fn log_range(&self) -> Range<u64> {
        self.core.log.range()
    }

    /// The first (`upper == false`) or last queue offset whose store timestamp fits `timestamp` (ms), as Java's
    /// `getOffsetInQueueByTime`.
    pub fn offset_by_time(&self, queue: &Queue, timestamp: i64, upper: bool) -> i64 {
        query::offset_by_time(queue, &self.core.log, timestamp, upper)
    }

    /// Store timestamp (ms) of the message at a queue offset, or -1.
    pub fn store_time(&self, queue: &Queue, offset: i64) -> i64 {
        query::store_time(queue, &self.core.log, offset)
    }

    /// Records of a topic whose index key is `key`: the newest, at most `max` and `maxMsgsNumBatch`, stored within `time` (ms), in the order
    /// of the log.
    pub fn query(&self, topic: &str, key: &str, max: usize, time: Range<i64>) -> QueryResult {
        let Some(index) = &self.core.index else { return QueryResult::default() };
        let end = time.end.saturating_sub(1);
        let limit = usize::try_from(self.core.options.config.load().max_msgs_num_batch).unwrap_or(0);
        let max = max.min(limit);
        query::by_key(index, &self.core.log, &KeyQuery { topic, key, kind: KeyKind::Key, max, begin: time.start, end })
    }

    /// Says how to tell that a topic's queues hold batches (`queue.type=BatchCQ`); asked when a queue is made. At the start
    /// the topics that `config/topics.json` lists so are known. The first call counts.
    pub fn tell_batch_topics(&self, is_batch: impl Fn(&str) -> bool + Send + Sync + 'static) {
        self.core.queues.tell_batch_topics(Box::new(is_batch));
    }

    /// How many light queues there are (see [`crate::lmq`]).
    pub fn light_queues_known(&self) -> usize {
        self.core.queues.light()
    }

    /// Says what the settings of a topic ask for: at the start for each topic, and whenever they change.
    ///
    /// # Errors
    /// The files of a compaction topic do not fit the configuration, or the disk.
    pub fn set_topic_policy(&self, topic: &str, policy: TopicPolicy) -> Result<(), StoreError> {
        self.core.set_topic_policy(topic, policy)
    }

    /// Says which kind of queues a topic has (`queue.type`), on a broker that may have had messages before it knew: queues of
    /// the other kind are made anew from the records that they list, and go on where they were. Returns how many were.
    ///
    /// # Errors
    /// The disk; a queue that was not made anew stays as it is.
    pub fn set_queue_kind(&self, topic: &str, batch: bool) -> Result<usize, StoreError> {
        self.core.set_queue_kind(topic, batch)
    }

    /// The topics with a queue that began at 0 again since the last call, because it was made anew on the broker whose log
    /// this one copies.
    pub fn queues_begun_anew(&self) -> Vec<String> {
        self.core.dispatcher.take_begun_anew()
    }

    /// Forgets a queue, with its files and its compacted log, unless it has a record that ends behind `before` in the log.
    /// False: it has one, or the queue is another one by now.
    ///
    /// # Errors
    /// A file could not be removed; the queue is forgotten nevertheless.
    pub fn forget_queue(&self, queue: &Queue, before: u64) -> Result<bool, StoreError> {
        self.core.forget_queue(queue, before)
    }

    /// Forgets a topic: its consume queues are removed from disk and memory.
    pub fn delete_topic(&self, topic: &str) {
        self.core.delete_topic(topic);
    }

    /// Deletes log files older than `fileReservedTime` in the next rounds of the cleaner, at any hour: code 329. Returns at
    /// once.
    pub fn delete_expired_files(&self) {
        self.core.delete_expired_files();
    }

    /// Forgets the queues whose messages are all gone from the log, with their files and offsets, unless `keep` wants their
    /// topic: code 306. Returns how many went.
    ///
    /// # Errors
    /// A file could not be removed; the queues are forgotten nevertheless.
    pub fn delete_dead_queues(&self, keep: impl Fn(&str) -> bool) -> Result<usize, StoreError> {
        self.core.delete_dead_queues(keep)
    }

    /// Stops the threads, dispatches the rest, flushes everything, writes the checkpoint, removes `abort`, unlocks.
    /// Appends fail from the first moment. A second call does nothing.
    pub fn close(&self) {
        self.core.close();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("log", &self.log_range()).finish_non_exhaustive()
    }
}

fn next_offset(queue: &Queue) -> NextOffset<'_> {
    NextOffset { topic: queue.topic(), queue_id: queue.id(), next: queue.next_offset() }
}
