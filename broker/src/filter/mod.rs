//! Which messages a subscription wants: by tag, or by an expression over the properties.

pub mod bloom;
mod consumer_filters;
mod reader;
pub mod sql;
pub mod tags;

pub use consumer_filters::{ConsumerFilter, ConsumerFilters};
pub use reader::{Filter, SqlFilter};
pub use tags::TagFilter;

/// The expression type that the broker can evaluate, besides tags.
pub const SQL92: &str = "SQL92";
