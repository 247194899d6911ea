//! Tests of a whole store, in one program: it links once. A file is a module. Tests that change what belongs to the
//! process are programs of their own.

#[path = "../compaction_support/mod.rs"]
mod compaction_support;
#[path = "../faults_support/mod.rs"]
mod faults_support;
mod golden_support;
#[path = "../load_support/mod.rs"]
mod load_support;

mod clean;
mod compaction;
mod faults;
mod faults_random;
mod golden;
mod java_records;
mod open_store;
mod queue_ext;
mod queue_kinds;
mod recovery;
mod recovery_repeats;
mod store_pool;
