//! A record read in place: nothing is copied, every accessor is a load at a known position.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use thiserror::Error;

use super::crc::{crc32, java_hash};
use super::layout::*;
use super::properties::{Properties, name};

/// What stands at a position of a commitlog file.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// A message.
    Record(RecordView<'a>),
    /// The blank record: go on in the next file. Its size as it says.
    Blank(u32),
}

/// Why there is no entry at a position.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RecordError {
    /// Fewer bytes than the shortest entry or than the entry says.
    #[error("the record is cut off")]
    Truncated,
    /// Neither a record nor a blank one. Zero is what an unwritten file holds.
    #[error("unknown magic code {0:08x}")]
    Magic(u32),
    /// The parts do not add up to the total size.
    #[error("the total size {total} does not fit the parts")]
    Size {
        /// What the record says.
        total: u32,
    },
    /// The crc does not fit.
    #[error("the crc does not fit")]
    Crc,
    /// The record says that it stands somewhere else.
    #[error("the record says that it stands at {0}")]
    Misplaced(i64),
}

impl<'a> Entry<'a> {
    /// Reads the entry at the start of `bytes` (which may go on behind it). Checks that all parts add up, not the crc.
    ///
    /// # Errors
    /// No whole entry stands there.
    pub fn read(bytes: &'a [u8]) -> Result<Entry<'a>, RecordError> {
        let head = bytes.first_chunk::<8>().ok_or(RecordError::Truncated)?;
        let total = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let magic = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let Some(version) = Version::of_magic(magic) else {
            return match magic {
                // Java looks at the size before the magic code.
                BLANK_MAGIC if total as usize <= bytes.len() => Ok(Entry::Blank(total)),
                BLANK_MAGIC => Err(RecordError::Truncated),
                _ => Err(RecordError::Magic(magic)),
            };
        };
        if (total as usize) < MIN_RECORD || i32::try_from(total).is_err() {
            return Err(RecordError::Size { total });
        }
        let bytes = bytes.get(..total as usize).ok_or(RecordError::Truncated)?;
        RecordView::over(bytes, version).map(Entry::Record)
    }
}

/// A whole record whose parts add up.
#[derive(Clone, Copy)]
pub struct RecordView<'a> {
    bytes: &'a [u8],
    version: Version,
    store_timestamp_at: usize,
    body_at: usize,
    body_len: usize,
    topic_at: usize,
    topic_len: usize,
}

impl<'a> RecordView<'a> {
    /// Reads the record at the start of `bytes` (which may go on behind it).
    ///
    /// # Errors
    /// No whole record stands there; a blank one is [`RecordError::Magic`].
    pub fn parse(bytes: &'a [u8]) -> Result<RecordView<'a>, RecordError> {
        match Entry::read(bytes)? {
            Entry::Record(view) => Ok(view),
            Entry::Blank(_) => Err(RecordError::Magic(BLANK_MAGIC)),
        }
    }

    fn over(bytes: &'a [u8], version: Version) -> Result<RecordView<'a>, RecordError> {
        let wrong = RecordError::Size { total: bytes.len() as u32 };
        let sys_flag = i32_at(bytes, SYS_FLAG).ok_or(wrong)?;
        let store_timestamp_at = BORN_HOST + host_len(sys_flag & sys_flag::BORN_HOST_V6 != 0);
        let body_len_at = store_timestamp_at + 8 + host_len(sys_flag & sys_flag::STORE_HOST_V6 != 0) + 4 + 8;
        // Java counts a negative length as 0.
        let body_len = i32_at(bytes, body_len_at).ok_or(wrong)?.max(0) as usize;
        let body_at = body_len_at + 4;
        let topic_len_at = body_at + body_len;
        let topic_len = match version {
            Version::V1 => usize::try_from(*bytes.get(topic_len_at).ok_or(wrong)? as i8).map_err(|_| wrong)?,
            Version::V2 => usize::from(u16_at(bytes, topic_len_at).ok_or(wrong)?),
        };
        let topic_at = topic_len_at + version.topic_len_bytes();
        let properties_at = topic_at + topic_len + 2;
        let properties_len = (u16_at(bytes, topic_at + topic_len).ok_or(wrong)? as i16).max(0) as usize;
        if properties_at + properties_len != bytes.len() {
            return Err(wrong);
        }
        Ok(RecordView { bytes, version, store_timestamp_at, body_at, body_len, topic_at, topic_len })
    }

    /// The whole record.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Which layout.
    pub fn version(&self) -> Version {
        self.version
    }

    /// crc32 of the body as stored.
    pub fn body_crc(&self) -> u32 {
        self.i32_at(BODY_CRC) as u32
    }

    /// The queue.
    pub fn queue_id(&self) -> i32 {
        self.i32_at(QUEUE_ID)
    }

    /// The user's flag.
    pub fn flag(&self) -> i32 {
        self.i32_at(FLAG)
    }

    /// Position in the queue.
    pub fn queue_offset(&self) -> i64 {
        self.i64_at(QUEUE_OFFSET)
    }

    /// Where the record says that it stands in the log.
    pub fn phys_offset(&self) -> i64 {
        self.i64_at(PHYS_OFFSET)
    }

    /// See [`sys_flag`](super::sys_flag).
    pub fn sys_flag(&self) -> i32 {
        self.i32_at(SYS_FLAG)
    }

    /// When the producer made the message, ms.
    pub fn born_timestamp(&self) -> i64 {
        self.i64_at(BORN_TIMESTAMP)
    }

    /// The producer's address.
    pub fn born_host(&self) -> SocketAddr {
        self.host(BORN_HOST, sys_flag::BORN_HOST_V6)
    }

    /// When the record was stored, ms.
    pub fn store_timestamp(&self) -> i64 {
        self.i64_at(self.store_timestamp_at)
    }

    /// The broker's address.
    pub fn store_host(&self) -> SocketAddr {
        self.host(self.store_timestamp_at + 8, sys_flag::STORE_HOST_V6)
    }

    /// How often the message was consumed before.
    pub fn reconsume_times(&self) -> i32 {
        self.i32_at(self.body_at - 16)
    }

    /// Physical offset of the half message.
    pub fn prepared_transaction_offset(&self) -> i64 {
        self.i64_at(self.body_at - 12)
    }

    /// The body as stored (perhaps compressed).
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[self.body_at..self.body_at + self.body_len]
    }

    /// The topic; "" when it is not UTF-8.
    pub fn topic(&self) -> &'a str {
        std::str::from_utf8(self.topic_bytes()).unwrap_or_default()
    }

    /// The topic as stored.
    pub fn topic_bytes(&self) -> &'a [u8] {
        &self.bytes[self.topic_at..self.topic_at + self.topic_len]
    }

    /// The property string.
    pub fn property_bytes(&self) -> &'a [u8] {
        &self.bytes[self.topic_at + self.topic_len + 2..]
    }

    /// The properties.
    pub fn properties(&self) -> Properties<'a> {
        Properties::new(self.property_bytes())
    }

    /// Java's hash of the tag, 0 without a tag.
    pub fn tags_code(&self) -> i64 {
        self.properties().get(name::TAGS).map_or(0, |tags| i64::from(java_hash(tags)))
    }

    /// The index keys, separated by spaces.
    pub fn keys(&self) -> Option<&'a str> {
        self.properties().get(name::KEYS)
    }

    /// The producer's unique key.
    pub fn uniq_key(&self) -> Option<&'a str> {
        self.properties().get(name::UNIQ_KEY)
    }

    /// Whether the body's crc fits. An empty body has none to check, as in Java.
    pub fn body_crc_fits(&self) -> bool {
        self.body_len == 0 || crc32(self.body()) == self.body_crc()
    }

    /// Whether the crc property fits the rest of the record (`forceVerifyPropCRC`); false without one.
    pub fn property_crc_fits(&self) -> bool {
        let Some(digits) = self.properties().get_bytes(name::CRC32) else { return false };
        let Some((covered, _)) = self.bytes.split_last_chunk::<CRC_PROPERTY_LEN>() else { return false };
        // The digits are written lowest first.
        let said = digits.iter().rev().try_fold(0u64, |value, digit| {
            digit.is_ascii_digit().then(|| value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
        });
        said == Some(u64::from(crc32(covered)))
    }

    fn host(&self, at: usize, v6_bit: i32) -> SocketAddr {
        let (ip, port_at) = if self.sys_flag() & v6_bit == 0 {
            (IpAddr::from(Ipv4Addr::from(self.array(at))), at + 4)
        } else {
            (IpAddr::from(Ipv6Addr::from(self.array(at))), at + 16)
        };
        SocketAddr::new(ip, self.i32_at(port_at) as u16)
    }

    // The fixed fields lie inside: `over` has found every length at or behind them.
    fn i32_at(&self, at: usize) -> i32 {
        i32::from_be_bytes(self.array(at))
    }

    fn i64_at(&self, at: usize) -> i64 {
        i64::from_be_bytes(self.array(at))
    }

    #[inline]
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes[at..].first_chunk().copied().unwrap_or([0; N])
    }
}

impl std::fmt::Debug for RecordView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordView")
            .field("phys_offset", &self.phys_offset())
            .field("size", &self.size())
            .field("topic", &self.topic())
            .field("queue_id", &self.queue_id())
            .field("queue_offset", &self.queue_offset())
            .finish_non_exhaustive()
    }
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|chunk| i32::from_be_bytes(*chunk))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_be_bytes(*chunk))
}
