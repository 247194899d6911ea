//! Messages for an arbitrary time: they wait in [`TIMER_TOPIC`](crate::names::TIMER_TOPIC) until the wheel
//! ([`store::timer`]) says that they are due.
//!
//! A producer's message with a time goes to the timer's topic, whose one queue is the order of everything here. The
//! timer *takes* messages from it: each gets a record in the timer log and a place in the wheel. At the end of its tick a
//! slot is *delivered*: its messages are appended where they really go, or, when they were due further away than the
//! wheel looks, once more to the timer's topic (they *roll*). A message may recall another one of its slot.
//!
//! What waits is on disk only; in memory there are one bit a slot and, while a slot is delivered, the positions of its
//! records. One thread takes and delivers (`worker.rs`), another one writes to disk how far that has come (`saver.rs`). Any
//! topic may be timed this way, those of the broker itself included.

mod copy;
mod counts;
mod follow;
mod handle;
mod repeated;
mod saver;
mod service;
mod worker;

#[cfg(test)]
mod tests;

pub use counts::{Count, Counts, TimerCount, TimerCounts};
pub use handle::RecallHandle;
pub use service::{Timer, TimerParts};

/// Names of the properties that the timer reads and writes.
pub mod property {
    /// When the message is due, cut to the tick (ms since the epoch).
    pub const OUT_MS: &str = "TIMER_OUT_MS";
    /// The tick at which it was taken; the largest number for one that was due already.
    pub const ENQUEUE_MS: &str = "TIMER_ENQUEUE_MS";
    /// When it was delivered or rolled.
    pub const DEQUEUE_MS: &str = "TIMER_DEQUEUE_MS";
    /// How often it has rolled.
    pub const ROLL_TIMES: &str = "TIMER_ROLL_TIMES";
    /// Which message it recalls.
    pub const DELETE_KEY: &str = "TIMER_DEL_UNIQKEY";
    /// The topic that it goes to.
    pub const REAL_TOPIC: &str = "REAL_TOPIC";
    /// The queue that it goes to.
    pub const REAL_QUEUE: &str = "REAL_QID";
}
