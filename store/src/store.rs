//! The facade: opens a store directory, appends, reads, queries, closes. It only delegates.

use std::ops::Range;
use std::sync::Arc;

use config::BrokerRole;

use crate::background::Core;
pub use crate::background::Health;
use crate::commitlog::{AppendLimits, Batch, CommitLog, NextOffset};
pub use crate::disk::{Gauge, Partition};
use crate::error::{AppendError, StoreError};
use crate::index::KeyKind;
use crate::query::{self, KeyQuery};
pub use crate::queue::Queue;
use crate::read::{self, ReadLimits};
pub use crate::types::*;
use crate::watermark::Watermark;

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

    /// Appends one message. On return the bytes are in the log and in the page cache; they are readable after
    /// [`Store::dispatch`] and on disk once [`Store::flushed`] reaches [`Appended::end`].
    ///
    /// # Errors
    /// See [`AppendError`]; nothing was appended.
    pub fn append(&self, queue: &Queue, message: &NewMessage<'_>) -> Result<Appended, AppendError> {
        self.core.log.append(next_offset(queue), message, &self.limits()?)
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
        let batch = Batch { common: message, inner };
        self.core.log.append_batch(next_offset(queue), &batch, &self.limits()?, each)
    }

    fn limits(&self) -> Result<AppendLimits, AppendError> {
        let config = self.core.options.config.load();
        if config.broker_role == BrokerRole::Slave {
            return Err(AppendError::NotWritable("the broker is a slave"));
        }
        Ok(AppendLimits {
            max_body: usize::try_from(config.max_message_size).unwrap_or(0),
            long_topics: config.auto_message_version_on_topic_len,
            crc_property: config.enabled_append_prop_crc,
            store_host: self.core.options.store_host,
        })
    }

    /// Whether the device cannot keep up: an append has been held back for longer than `osPageCacheBusyTimeOutMills`.
    ///
    /// One relaxed load while nobody appends.
    #[inline]
    pub fn page_cache_busy(&self) -> bool {
        let limit = || self.core.options.config.load().os_page_cache_busy_time_out_mills;
        self.core.log.locked_for().is_some_and(|held| held > limit())
    }

    /// Makes everything appended so far readable: feeds consume queues and index from the log on the calling thread, or
    /// hands over to the store's own thread when that is behind. Called once a read batch.
    ///
    /// With SYNC_FLUSH what is not on disk yet stays unreadable; the flush thread makes it readable.
    pub fn dispatch(&self) {
        self.core.dispatch();
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

    /// Says that a topic's queues hold batches (`queue.type=BatchCQ`). Before the topic's first message; at the start the
    /// topics that `config/topics.json` lists so are known.
    pub fn declare_batch_topic(&self, topic: &str) {
        self.core.queues.declare_batch(topic);
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
