//! Replays recorded wire sessions of the Java broker at running servers and compares frame by frame.

pub mod arrange;
pub mod catch_up;
pub mod compare;
pub mod contents;
pub mod ledger;
pub mod memory;
pub mod order;
pub mod outgoing;
pub mod player;
pub mod prepare;
pub mod session;
pub mod surroundings;
pub mod wire;

pub use arrange::Arranger;
pub use catch_up::{catch_up, levels};
pub use compare::Addresses;
pub use contents::Contents;
pub use ledger::Ledger;
pub use memory::Memory;
pub use player::{Replay, Target, Verdict};
pub use prepare::Preparation;
pub use session::{Session, load_area};
pub use surroundings::Surroundings;
