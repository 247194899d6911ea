//! Configuration of the name server and the broker, in Java's names.
//!
//! Every configuration class of the Java server is one struct here, declared as a table of rows (see [`registry`]):
//! Java key, type, default, when a change takes effect, and a line of documentation. From the table come the struct,
//! reading and writing by name, the list that `mqadmin getBrokerConfig` prints, and the checks of a file.
//!
//! - [`BrokerSetup`] and [`NamesrvSetup`] are everything that a server reads when it starts;
//! - [`load`] reads one file into several structs, with warnings and errors that name the line;
//! - [`Live`] holds a struct that can be changed while the server runs, [`LiveFile`] several with their file;
//! - [`properties`] reads and rewrites Java's `.properties` format.

mod auth;
mod broker;
mod controller;
pub mod environment;
mod jraft;
pub mod live;
pub mod live_file;
pub mod load;
mod message_store;
mod message_store_paths;
mod namesrv;
mod netty_client;
mod netty_server;
pub mod properties;
pub mod registry;
pub mod setup;
pub mod value;

pub use auth::AuthConfig;
pub use broker::BrokerConfig;
pub use controller::ControllerConfig;
pub use jraft::JraftConfig;
pub use live::Live;
pub use live_file::LiveFile;
pub use load::{LoadError, Warning};
pub use message_store::MessageStoreConfig;
pub use namesrv::NamesrvConfig;
pub use netty_client::NettyClientConfig;
pub use netty_server::NettyServerConfig;
pub use registry::{BadValue, Config, Effect, Key, dump};
pub use setup::{BrokerSetup, NamesrvSetup, SetupError};
pub use value::{BrokerRole, FlushDiskType, MessageRequestMode, MetricsExporterType};
