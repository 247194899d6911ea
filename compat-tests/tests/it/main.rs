//! Official clients, tools and recorded sessions against the real binaries, in one program: it links once, and tests that
//! wait leave the processors to others. A file is a module; `cargo xtask compat MODULE` runs one.

mod crash;
mod crash_rounds;
mod go_clients;
mod mqadmin;
mod mqadmin_all;
mod mqadmin_cases;
mod replay;
mod replication;
mod scenarios;
mod scenarios_compaction;
mod scenarios_consuming;
mod scenarios_filters;
mod scenarios_queues;
mod scenarios_slave;
mod scenarios_static;
mod scenarios_store;
mod scenarios_timer;
mod scenarios_transaction;
mod scenarios_wire;
