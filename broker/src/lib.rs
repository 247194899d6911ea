//! The broker: takes messages from producers, keeps them in the store, and hands them to consumers.
//!
//! [`start`] runs one broker in this process. [`wiring`] shows what it consists of, [`handlers`] what it answers.

pub mod args;
pub mod arrivals;
pub mod attributes;
pub mod clients;
pub mod cold;
pub mod config_file;
pub mod duties;
pub mod filter;
pub mod groups;
pub mod ha;
pub mod handlers;
pub mod identity;
pub mod lifecycle;
pub mod metrics;
pub mod names;
pub mod namesrv_link;
pub mod offsets;
pub mod parking;
pub mod pull;
pub mod push;
pub mod reply_code;
pub mod request_modes;
pub mod schedule;
pub mod send;
pub mod slave;
pub mod static_topics;
pub mod stats;
mod tasks;
pub mod timer;
pub mod topics;
pub mod transaction;
pub mod wiring;

pub use lifecycle::{Running, StartError, start};
