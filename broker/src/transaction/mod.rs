//! Transactions: a message that nobody sees until its producer says that the transaction is done.
//!
//! A first half waits as an ordinary message of [`HALF_TOPIC`](crate::names::HALF_TOPIC), with the topic and queue that it
//! is for in its properties. Its end (commit or rollback) is noted in [`OP_HALF_TOPIC`](crate::names::OP_HALF_TOPIC) as
//! the half's queue offset; a commit first appends the message to where it belongs. Who does not end his half is asked for
//! its state, again and again, and for each question the half is appended anew: so the group
//! [`GROUP`] has a position in both topics behind which nothing is open, and a restart, also of a Java broker on the same
//! files, goes on from there.
//!
//! What is kept in memory does not grow with the number of open halves.

mod check;
mod counts;
mod end;
mod ended;
mod half;
mod ops;
mod rules;
mod service;

pub use check::{Checker, CheckerParts};
pub use counts::{Count, Counts};
pub use end::{Ending, EndingParts};
pub use ended::Halves;
pub use half::Half;
pub use ops::{OpLog, OpLogParts};
pub use service::CheckService;

/// The group whose offsets in the two topics say what has been looked at.
pub const GROUP: &str = "CID_RMQ_SYS_TRANS";

/// The remark of answers that Java makes without setting one.
pub(crate) const NO_REMARK: &str = "not set any response code";
