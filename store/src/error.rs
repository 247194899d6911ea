//! What can go wrong in the store, by whose fault it is.

use std::path::PathBuf;

use thiserror::Error;

/// The store cannot be opened, read or written: the disk, the files, or the operator.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The system refused an operation on a file.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Another process has the store open.
    #[error("the store is in use by another process: {path}", path = path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A file is not what its name says.
    #[error("{path} at {offset}: {what}", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// What was expected and found.
        what: String,
    },
}

impl StoreError {
    /// Whether there is no room on the disk, or for the user: it may work again later.
    pub fn is_no_space(&self) -> bool {
        matches!(self, StoreError::Io { source, .. }
            if matches!(source.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded))
    }
}

/// An error of a sync. What the system could not write it takes for written, for want of room as well: no later sync makes it
/// good, so this is not an error that passes when there is room again.
pub(crate) fn of_sync(source: std::io::Error) -> std::io::Error {
    match source.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => std::io::Error::other(source),
        _ => source,
    }
}

/// A message was not stored.
#[derive(Debug, Error)]
pub enum AppendError {
    /// The record would be larger than `maxMessageSize` allows, or than a file.
    #[error("the message is too large: {size} bytes, limit {limit}")]
    TooLarge {
        /// Size of the record or the body in bytes.
        size: usize,
        /// The limit that it breaks.
        limit: usize,
    },
    /// Properties longer than 32,767 bytes.
    #[error("the properties are too long: {0} bytes")]
    PropertiesTooLong(usize),
    /// Topic longer than the record's length field allows.
    #[error("the topic is too long: {0} bytes")]
    TopicTooLong(usize),
    /// The disk is full or a new file could not be made.
    #[error("no room for a new file: {0}")]
    NoSpace(std::io::Error),
    /// The message names a light queue that does not exist, and there are `maxLmqConsumeQueueNum` of them.
    #[error("there are too many light queues")]
    TooManyQueues,
    /// The body of an inner batch holds no messages, more than 32,767, or goes to a queue of another kind.
    #[error("not a batch that can stay one record")]
    NoBatch,
    /// The store takes no writes: closing, a failed flush, or the disk level.
    #[error("the store is not writable: {0}")]
    NotWritable(&'static str),
}
