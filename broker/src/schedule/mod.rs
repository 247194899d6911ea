//! Delay levels: messages wait in [`SCHEDULE_TOPIC`](crate::names::SCHEDULE_TOPIC), one queue a level, until their time.

mod deliver;
mod levels;
mod service;

pub use levels::{BadDelayLevel, DelayLevels};
pub use service::{DelayOffsets, Schedule, ScheduleParts};
