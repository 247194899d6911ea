//! One entry of a consume queue.
//!
//! Layout, big-endian, 20 bytes: physical offset (8), record length (4), tags code (8). In the queues of batch topics a
//! unit stands for a record that is itself a batch of messages and goes on, to 46 bytes: store timestamp in ms (8),
//! queue offset of the first message (8), number of messages (2), -1 (4), 0 (4).
//!
//! Three kinds of entry are in the files: a *message* (`phys >= 0`, `size > 0`), the *filler* that stands for offsets
//! before the first one of a queue (`0`, 2^31-1, `0`), and zeros, which mark the end of what was written.

/// Bytes of a unit.
pub const UNIT_LEN: usize = 20;

/// A decoded unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Offset of the record in the commitlog.
    pub phys: i64,
    /// Length of the record in bytes.
    pub size: i32,
    /// Hash of the tags; for delayed messages the delivery time (ms); with a consume queue extension its address.
    pub tags_code: i64,
}

impl Unit {
    /// What fills a queue up to its first offset.
    pub const FILLER: Unit = Unit { phys: 0, size: i32::MAX, tags_code: 0 };

    /// Reads a unit.
    pub fn decode(bytes: &[u8; UNIT_LEN]) -> Unit {
        let [p0, p1, p2, p3, p4, p5, p6, p7, s0, s1, s2, s3, t0, t1, t2, t3, t4, t5, t6, t7] = *bytes;
        Unit {
            phys: i64::from_be_bytes([p0, p1, p2, p3, p4, p5, p6, p7]),
            size: i32::from_be_bytes([s0, s1, s2, s3]),
            tags_code: i64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
        }
    }

    /// The bytes of the unit.
    pub fn encode(self) -> [u8; UNIT_LEN] {
        let mut bytes = [0; UNIT_LEN];
        bytes[..8].copy_from_slice(&self.phys.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_be_bytes());
        bytes[12..].copy_from_slice(&self.tags_code.to_be_bytes());
        bytes
    }

    /// Whether something was written here: a message or a filler.
    pub fn is_written(self) -> bool {
        self.phys >= 0 && self.size > 0
    }

    /// Whether the unit only fills the place of an offset that has no message.
    pub fn is_filler(self) -> bool {
        self == Unit::FILLER
    }

    /// End of the record in the commitlog; of a filler 0.
    pub fn end(self) -> i64 {
        if self.is_filler() { 0 } else { self.phys.saturating_add(self.size.into()) }
    }
}

/// Bytes of a unit in the queue of a batch topic.
pub const BATCH_UNIT_LEN: usize = 46;

/// A unit with the queue offsets that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The unit.
    pub unit: Unit,
    /// Queue offset of the (first) message.
    pub offset: i64,
    /// How many messages the record holds: 1 except in batch topics.
    pub count: i16,
    /// Store timestamp of the record in ms; 0 when the unit does not say (only those of batch topics do).
    pub store_timestamp: i64,
}

impl Entry {
    /// Reads the unit with an index in the files, whatever it holds. `None` when the bytes are too few.
    pub fn decode(index: i64, bytes: &[u8]) -> Option<Entry> {
        let (head, rest) = bytes.split_first_chunk::<UNIT_LEN>()?;
        let unit = Unit::decode(head);
        if rest.is_empty() {
            return Some(Entry { unit, offset: index, count: 1, store_timestamp: 0 });
        }
        let (time, rest) = rest.split_first_chunk::<8>()?;
        let (base, rest) = rest.split_first_chunk::<8>()?;
        Some(Entry {
            unit,
            offset: i64::from_be_bytes(*base),
            count: i16::from_be_bytes(*rest.first_chunk()?),
            store_timestamp: i64::from_be_bytes(*time),
        })
    }

    /// Whether something was written here.
    pub fn is_written(&self) -> bool {
        self.unit.is_written() && self.offset >= 0 && self.count > 0
    }

    /// The bytes of a unit of a batch topic.
    pub fn encode_batch(&self) -> [u8; BATCH_UNIT_LEN] {
        let mut bytes = [0; BATCH_UNIT_LEN];
        bytes[..UNIT_LEN].copy_from_slice(&self.unit.encode());
        bytes[20..28].copy_from_slice(&self.store_timestamp.to_be_bytes());
        bytes[28..36].copy_from_slice(&self.offset.to_be_bytes());
        bytes[36..38].copy_from_slice(&self.count.to_be_bytes());
        // Where compaction would note a place: none.
        bytes[38..42].copy_from_slice(&(-1i32).to_be_bytes());
        bytes
    }

    /// Queue offset behind the last message of the record.
    pub fn next_offset(&self) -> i64 {
        self.offset.saturating_add(self.count.max(1).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_unit() {
        let unit = Unit { phys: 1_051_756, size: 560, tags_code: 0 };
        let entry = Entry { unit, offset: 4, count: 3, store_timestamp: 7 };
        let bytes = entry.encode_batch();
        assert_eq!(bytes[28..46], [0, 0, 0, 0, 0, 0, 0, 4, 0, 3, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert_eq!(Entry::decode(9, &bytes), Some(entry));
        assert_eq!(entry.next_offset(), 7);
        assert!(entry.is_written() && Entry::decode(9, &[0; BATCH_UNIT_LEN]).is_some_and(|entry| !entry.is_written()));
        assert_eq!(Entry::decode(9, &unit.encode()), Some(Entry { unit, offset: 9, count: 1, store_timestamp: 0 }));
        assert_eq!(Entry::decode(9, &[1; 7]), None);
    }

    #[test]
    fn bytes_as_java_writes_them() {
        let unit = Unit { phys: 0x0102_0304_0506_0708, size: 0x0a0b_0c0d, tags_code: -2 };
        let bytes = unit.encode();
        assert_eq!(bytes[..12], [1, 2, 3, 4, 5, 6, 7, 8, 0xa, 0xb, 0xc, 0xd]);
        assert_eq!(bytes[12..], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(Unit::decode(&bytes), unit);
        assert!(Unit::FILLER.is_written() && Unit::FILLER.is_filler() && Unit::FILLER.end() == 0);
        assert!(!Unit::decode(&[0; UNIT_LEN]).is_written());
        assert_eq!(Unit { phys: i64::MAX, size: 5, tags_code: 0 }.end(), i64::MAX);
    }
}
