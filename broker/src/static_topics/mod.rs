//! Static topics: topics with a fixed number of logical queues, each a row of queues of brokers with offsets that go on when
//! the queue moves to another broker.
//!
//! A broker answers for the logical queues that it leads (the last item of which is its own). Requests about them name the
//! logical queue: it is replaced by the broker's own queue, or the question goes on to the broker that holds the item in
//! question. Such a question says `lo=false`, and is about the broker's own queues as any other.
//!
//! Ordinary topics pay one look at a flag, and sends not even that: what a thread keeps of a topic includes its mapping.

mod clean;
mod items;
mod leaders;
mod mapping;
mod offsets;
mod peers;
mod pull;
mod rules;
mod table;

pub use clean::Cleaner;
pub use mapping::{Led, Mapping, Place};
pub use offsets::{Commit, LogicalOffsets};
pub use peers::{PeerError, Peers};
pub use pull::{PulledItem, Seen};
pub use rules::MappingError;
pub use table::StaticTopics;
