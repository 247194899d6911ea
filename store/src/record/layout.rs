//! Where everything lies in a record. All integers are big-endian.
//!
//! ```text
//! offset  bytes  field
//!  0      4      total size, this field included
//!  4      4      magic: MAGIC_V1 or MAGIC_V2
//!  8      4      crc32 of the body, highest bit cleared
//! 12      4      queue id
//! 16      4      the user's flag
//! 20      8      queue offset
//! 28      8      physical offset: that of the record itself
//! 36      4      sys flag
//! 40      8      born timestamp, ms
//! 48      8|20   born host: IPv4 or IPv6 address, port in 4 bytes
//!         8      store timestamp, ms
//!         8|20   store host
//!         4      how often consumed before
//!         8      prepared transaction offset
//!         4 + n  body
//!         1 + n  topic (V1); 2 + n (V2)
//!         2 + n  properties: `name 0x01 value 0x02`, repeated
//! ```
//!
//! A blank record closes a file: its size (all that was left), `BLANK_MAGIC`, and whatever the file held.

/// Total size.
pub(super) const SIZE: usize = 0;
/// Body crc.
pub(super) const BODY_CRC: usize = 8;
/// Queue id.
pub(super) const QUEUE_ID: usize = 12;
/// User's flag.
pub(super) const FLAG: usize = 16;
/// Queue offset.
pub(super) const QUEUE_OFFSET: usize = 20;
/// Where a record says where in the log it is: 8 bytes.
pub const PHYS_OFFSET: usize = 28;
/// Sys flag.
pub(super) const SYS_FLAG: usize = 36;
/// Born timestamp.
pub(super) const BORN_TIMESTAMP: usize = 40;
/// Born host; from here on positions depend on the sys flag.
pub(super) const BORN_HOST: usize = 48;

/// Magic of a record whose topic has a 1-byte length.
pub const MAGIC_V1: u32 = 0xdaa3_20a7;
/// Magic of a record whose topic has a 2-byte length.
pub const MAGIC_V2: u32 = 0xdaa3_20ab;
/// Magic of the blank record that closes a file.
pub const BLANK_MAGIC: u32 = 0xcbd4_3194;
/// The blank record's own bytes; every record leaves at least so many in its file.
pub const BLANK_MIN: usize = 8;
/// The shortest record: IPv4 hosts, V1, everything empty.
pub const MIN_RECORD: usize = BORN_HOST + 8 + 8 + 8 + 4 + 8 + 4 + 1 + 2;
/// Bytes of the property that carries a crc over the record: `__CRC32#`, 0x01, ten digits, 0x02.
pub const CRC_PROPERTY_LEN: usize = 8 + 1 + 10 + 1;

/// Bits of the sys flag that matter to the store (`MessageSysFlag`).
pub mod sys_flag {
    /// The body is compressed.
    pub const COMPRESSED: i32 = 1;
    /// The two transaction bits.
    pub const TRANSACTION: i32 = 0b11 << 2;
    /// A half message.
    pub const TRANSACTION_PREPARED: i32 = 0b01 << 2;
    /// A committed message.
    pub const TRANSACTION_COMMIT: i32 = 0b10 << 2;
    /// A rolled back message.
    pub const TRANSACTION_ROLLBACK: i32 = 0b11 << 2;
    /// The born host has an IPv6 address.
    pub const BORN_HOST_V6: i32 = 1 << 4;
    /// The store host has an IPv6 address.
    pub const STORE_HOST_V6: i32 = 1 << 5;
    /// Consumers take the body apart.
    pub const NEED_UNWRAP: i32 = 1 << 6;
    /// The body is itself a batch of messages (batch consume queues).
    pub const INNER_BATCH: i32 = 1 << 7;
}

/// The record versions: they differ in the width of the topic's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 1-byte length.
    V1,
    /// 2-byte length, for topics longer than 127 bytes.
    V2,
}

impl Version {
    /// The version that Java writes for a topic of so many bytes.
    pub fn for_topic(len: usize) -> Version {
        if len > i8::MAX as usize { Version::V2 } else { Version::V1 }
    }

    /// The version of a magic code.
    pub fn of_magic(magic: u32) -> Option<Version> {
        match magic {
            MAGIC_V1 => Some(Version::V1),
            MAGIC_V2 => Some(Version::V2),
            _ => None,
        }
    }

    /// Its magic code.
    pub fn magic(self) -> u32 {
        match self {
            Version::V1 => MAGIC_V1,
            Version::V2 => MAGIC_V2,
        }
    }

    /// Bytes of the topic's length.
    pub(super) fn topic_len_bytes(self) -> usize {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }
}

/// Bytes of a host: address and a 4-byte port.
pub fn host_len(v6: bool) -> usize {
    if v6 { 20 } else { 8 }
}
