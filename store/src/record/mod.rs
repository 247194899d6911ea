//! The message record of the commitlog: Java's layout, read in place and written in place.

pub mod batch;
mod crc;
mod encode;
mod layout;
mod message_id;
pub mod properties;
mod view;

pub use crc::{crc32, java_hash};
pub use encode::{NewRecord, write_blank};
pub use layout::{
    BLANK_MAGIC, BLANK_MIN, CRC_PROPERTY_LEN, MAGIC_V1, MAGIC_V2, MIN_RECORD, PHYS_OFFSET, Version, host_len, sys_flag,
};
pub use message_id::MessageId;
pub use properties::Properties;
pub use view::{Entry, RecordError, RecordView};
