//! Mapped files: all `unsafe` of the project is in this module.
//!
//! Two kinds of file, told apart by type, because they need different rules to be sound:
//!
//! - [`Segment`]: written once, front to back, by the one [`SegmentWriter`] (commitlog). Readers get
//!   plain `&[u8]` slices, but only of the published part, and nobody writes there any more.
//! - [`Cells`]: mutates in place (consume queues, index, checkpoint). Every access is an atomic load or store of a 4-byte word; there
//!   are no slices of it.
//!
//! A [`Stage`] gathers what a writer appends in memory first.
//!
//! [`SegmentSeq`] is an ordered row of segments of equal size, each named by its start offset.

mod ahead;
mod append;
mod cells;
mod map;
mod seq;
mod slice;
mod stage;

pub use append::{Segment, SegmentWriter};
pub use cells::Cells;
pub use seq::{SegmentSeq, file_name};
pub use slice::SegmentSlice;
pub use stage::Stage;

pub(crate) use ahead::LINE;
pub use ahead::{ask_for, ask_for_all};
pub(crate) use map::{remove, remove_dir};
