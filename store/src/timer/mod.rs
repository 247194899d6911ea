//! Timed messages on disk: what waits for its time, in Java's layouts.
//!
//! A timed message is an ordinary record of one internal topic. Three things beside the log say when it is due:
//!
//! - the *timer log* ([`TimerLog`], `timerlog/`): one [`TimerRecord`] a message, in the order in which the timer took them,
//!   each with the position of the record before it of the same slot;
//! - the *wheel* ([`Wheel`], `timerwheel`): for each tick of two weeks the last record of its chain;
//! - the *checkpoint* ([`TimerCheckpoint`], `config/timercheck`): up to which tick messages have been delivered, and up to
//!   which offset of the internal topic they have been taken.
//!
//! Wheel and log can be made again from the topic; [`TimerFiles::open`] says what of them is to be believed. This module knows
//! files, not messages: who is woken when, and what is delivered, is the broker's business.

mod checkpoint;
mod log;
mod record;
mod recover;
mod slots;
mod snapshot;
mod take;
mod wheel;

#[cfg(test)]
mod tests;

pub use checkpoint::{CHECKPOINT_LEN, Marks, Ours, TimerCheckpoint};
pub use log::TimerLog;
pub use record::{DELETE, NORMAL, RECORD_LEN, ROLL, TimerRecord};
pub use recover::{Found, Held, Since, TimerFiles, TimerOptions};
pub use take::{Taken, roll_window, slot_of};
pub use wheel::{SLOTS, Slot, WHEEL_LEN, Wheel};
