//! What the compatibility tests share: starting real servers and clients, and replaying recorded sessions.

pub mod harness;
pub mod mqadmin;
pub mod replay;
