//! Tests of a whole broker, in one program: it links once, and tests that wait leave the processors to others. A file is a
//! module. Tests that change what belongs to the process are programs of their own.

#[path = "../common/mod.rs"]
mod common;

mod admin;
mod changes;
mod clean;
mod clients;
mod config_files;
mod delay;
mod golden_stores;
mod ha;
mod ha_simulation;
mod lists;
mod load_order;
mod namesrv_link;
mod pull;
mod query;
mod queue_kinds;
mod reply;
mod reset;
mod send;
mod slave;
mod sql;
mod sql_expressions;
mod static_topics;
mod stats;
mod succession;
mod timer;
mod tools;
mod topic_policy;
mod transaction;
