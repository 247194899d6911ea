//! Replays recorded wire sessions of the Java broker at running servers and compares frame by frame.

pub mod compare;
pub mod ledger;
pub mod player;
pub mod prepare;
pub mod session;
pub mod wire;

pub use compare::Addresses;
pub use ledger::Ledger;
pub use player::{Memory, Target, Verdict, play};
pub use prepare::Preparation;
pub use session::{Session, load_area};
