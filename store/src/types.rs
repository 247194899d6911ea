//! The plain data that goes in and out of the store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use config::{Live, MessageStoreConfig};

use crate::dispatch::Arrived;
use crate::queue::Queue;
use crate::record::RecordView;

/// A record in a mapped commitlog file. Cheap to clone; keeps the file mapped.
pub use crate::segment::SegmentSlice as RecordSlice;

/// What the store must know of its broker.
#[derive(Clone)]
pub struct StoreOptions {
    /// The message store keys; dynamic ones act at once.
    pub config: Arc<Live<MessageStoreConfig>>,
    /// The address that records carry as their store host (`brokerIP1:listenPort`).
    pub store_host: SocketAddr,
    /// Called on the dispatching thread after a message of that queue became readable, once a batch and queue:
    /// wakes parked pulls. Must not block.
    pub arrived: Option<Arrived>,
    /// Which bits go with a message into the consume queue extension; see [`FilterBits`].
    pub filter_bits: Option<FilterBits>,
}

/// Computes the filter bits of a message, at most 32,747 bytes, when `enableConsumeQueueExt` is on; `None` for a message
/// without. Called on the dispatching thread, in the order of the log, once a message (again in recovery). Must not block.
pub type FilterBits = Arc<dyn Fn(&RecordView<'_>) -> Option<Vec<u8>> + Send + Sync>;

/// What the settings of a topic ask of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicPolicy {
    /// Of each key the last message is kept (`cleanup.policy=COMPACTION`). Once set it stays until the topic is deleted.
    pub compaction: bool,
    /// How long messages can be read; `None` as long as the log has them. Not for a compaction topic.
    pub keep: Option<Duration>,
}

/// A queue has new readable messages.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    /// The queue.
    pub queue: &'a Arc<Queue>,
    /// Its highest queue offset now (exclusive).
    pub max_offset: i64,
}

/// A message to append. Properties are already in the record's form: `name 0x01 value 0x02`, repeated.
#[derive(Clone, Copy, Debug)]
pub struct NewMessage<'a> {
    /// The user's flag.
    pub flag: i32,
    /// See `MessageSysFlag`; the store sets and clears the IPv6 bits itself.
    pub sys_flag: i32,
    /// Milliseconds since the epoch at the producer.
    pub born_timestamp: i64,
    /// Address of the producer.
    pub born_host: SocketAddr,
    /// How often it has been consumed before.
    pub reconsume_times: i32,
    /// Of a transaction's commit or rollback; else 0.
    pub prepared_transaction_offset: i64,
    /// The property bytes.
    pub properties: &'a [u8],
    /// The body as the producer sent it, still compressed.
    pub body: &'a [u8],
}

/// Where a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the (first) record in the commitlog.
    pub phys_offset: u64,
    /// End of the (last) record: a flush or a replica must reach it.
    pub end: u64,
    /// Queue offset of the (first) message.
    pub queue_offset: i64,
    /// Store timestamp in milliseconds since the epoch.
    pub store_timestamp: i64,
}

/// Java's `GetMessageStatus`: how a read of a queue ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReadStatus {
    Found,
    NoMatchedMessage,
    MessageWasRemoving,
    OffsetFoundNull,
    OffsetOverflowBadly,
    OffsetOverflowOne,
    OffsetTooSmall,
    NoMatchedLogicQueue,
    NoMessageInQueue,
}

/// Decides whether a message is wanted, first by its queue entry, then by its record.
pub trait ReadFilter {
    /// By the tags code of the queue entry; `false` skips the message without reading it.
    fn by_tags_code(&self, tags_code: i64) -> bool;
    /// By the entry's part in the consume queue extension, for an entry that has one; `by_tags_code` is not called then.
    /// `bits` are what [`StoreOptions::filter_bits`] gave, empty for none; `store_timestamp` is the record's (ms).
    fn by_ext(&self, tags_code: i64, _bits: &[u8], _store_timestamp: i64) -> bool {
        self.by_tags_code(tags_code)
    }
    /// By the record, for an entry whose part in the extension is lost: what the queue entry should have said.
    fn without_ext(&self, record: &RecordView<'_>) -> bool {
        self.by_tags_code(record.tags_code())
    }
    /// By the whole record (SQL92). Called only for entries that passed `by_tags_code` or `by_ext`.
    fn by_record(&self, _record: &[u8]) -> bool {
        true
    }
}

/// Takes everything.
#[derive(Clone, Copy, Debug)]
pub struct All;
impl ReadFilter for All {
    fn by_tags_code(&self, _: i64) -> bool {
        true
    }
}

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// First queue offset.
    pub offset: i64,
    /// At most so many messages.
    pub max_messages: i32,
    /// At most so many bytes (the first message is returned whatever its size).
    pub max_bytes: i32,
}

/// The outcome of a read. Reused from call to call: [`crate::Store::read`] clears it first.
#[derive(Debug)]
pub struct ReadResult {
    /// How it ended.
    pub status: ReadStatus,
    /// Where to read next.
    pub next_offset: i64,
    /// Lowest readable queue offset.
    pub min_offset: i64,
    /// Highest readable queue offset + 1.
    pub max_offset: i64,
    /// The messages' records, in order, as slices of mapped files; they keep their file mapped.
    pub records: Vec<RecordSlice>,
    /// Sum of the record lengths in bytes.
    pub bytes: usize,
    /// Java's advice to read from a slave: the data lies further back than the memory budget.
    pub suggest_slave: bool,
}

/// One message inside a batch body (`SEND_BATCH_MESSAGE`).
#[derive(Clone, Copy, Debug)]
pub struct Inner<'a> {
    /// The user's flag.
    pub flag: i32,
    /// Property bytes, complete.
    pub properties: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

impl Default for ReadResult {
    /// Empty: nothing was read yet.
    fn default() -> ReadResult {
        ReadResult {
            status: ReadStatus::NoMessageInQueue,
            next_offset: 0,
            min_offset: 0,
            max_offset: 0,
            records: Vec::new(),
            bytes: 0,
            suggest_slave: false,
        }
    }
}

/// What [`crate::Store::query`] found.
#[derive(Debug, Default)]
pub struct QueryResult {
    /// The records, in the order of the log.
    pub records: Vec<RecordSlice>,
    /// Header field of the answer: store time of the last index entry (ms).
    pub last_update_timestamp: i64,
    /// Header field of the answer: physical offset of the last index entry.
    pub last_update_phys_offset: i64,
}
