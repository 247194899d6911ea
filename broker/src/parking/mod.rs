//! Long polling: requests that wait until a queue has something for them.

mod lot;

pub use lot::{Lot, TICK, Ticket, Waiting};
