//! Starts real name servers, brokers and clients on free ports and temporary directories, and ends them again.
//!
//! Everything here panics when something does not come up: the callers are tests. What a server wrote is printed then.
//!
//! | variable | meaning |
//! |---|---|
//! | `FERROMQ_BIN_DIR` | directory with `mqnamesrv` and `mqbroker`; else `cargo build --release --workspace` makes them |
//! | `COMPAT_SERVER=java` | the same tests against the Java servers (5.5.0, brought from Maven Central) |
//! | `COMPAT_KEEP=1` | the temporary directories are kept, their paths printed |

pub mod admin;
pub mod binaries;
pub mod clients;
pub mod frame;
pub mod go;
pub mod maven;
pub mod ports;
pub mod process;
pub mod scratch;
pub mod servers;
pub mod wait;

pub use admin::{Admin, Output};
pub use clients::{ClientVersion, Running, Scenarios, Verdict};
pub use frame::{Connection, Frame};
pub use go::GoScenarios;
pub use scratch::Scratch;
pub use servers::{Broker, BrokerOptions, Namesrv, Servers, Whose};
pub use wait::until;
