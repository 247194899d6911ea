//! Which messages a subscription wants.

pub mod tags;

pub use tags::TagFilter;
