//! The remoting protocol of Apache RocketMQ: frames, headers, bodies, a server and a client.
//!
//! Bytes are turned into typed values by pure code ([`frame`], [`request`], [`mod@header`], [`body`]); sockets live in
//! [`server`] and [`client`] only. Nothing here knows what a topic or a store is.

mod binary;
pub mod body;
pub mod client;
pub mod code;
pub mod command;
pub mod fields;
pub mod frame;
pub mod header;
mod json;
pub mod reply;
pub mod request;
pub mod server;

pub use code::{RequestCode, ResponseCode};
pub use command::{Command, Language, SerializeType, UnknownSerializeType, VERSION};
pub use fields::{BoundaryType, Field, FieldError, Fields, Text};
pub use header::{FieldSink, Header, WriteHeader};
pub use reply::Reply;
pub use request::Request;
