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
pub mod ctl;
pub mod disk;
pub mod dispatch;
pub mod error;
pub mod flush;
pub mod index;
pub mod json_file;
pub mod lock;
mod open;
mod query;
pub mod queue;
mod read;
pub mod record;
pub mod segment;
pub mod store;
mod types;
pub mod watermark;

pub use error::{AppendError, StoreError};
pub use store::*;
pub use watermark::Watermark;
