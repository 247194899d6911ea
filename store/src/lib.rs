//! The store: commitlog, consume queues, index and checkpoint in Java RocketMQ's own layouts.
//!
//! One log holds every message; consume queues and index are derived from it by one path, [`dispatch`], live and in
//! recovery. The public face is [`Store`].

pub mod abort;
mod background;
mod bell;
pub mod checkpoint;
mod clean;
pub mod commitlog;
mod compaction;
pub mod ctl;
pub mod disk;
pub mod dispatch;
pub mod error;
#[cfg(feature = "failpoints")]
pub mod failpoint;
#[cfg(not(feature = "failpoints"))]
mod failpoint;
pub mod flush;
pub mod index;
pub mod json_file;
pub mod lmq;
pub mod lock;
mod open;
mod progress;
mod query;
pub mod queue;
mod read;
pub mod record;
pub mod replicate;
mod retention;
pub mod segment;
pub mod store;
pub mod timer;
mod types;
pub mod watermark;

pub use error::{AppendError, StoreError};
pub use queue::mark;
pub use store::*;
pub use watermark::Watermark;
