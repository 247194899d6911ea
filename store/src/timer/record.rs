//! One entry of the timer log.
//!
//! Layout, big-endian, 52 bytes: 52 (4), position of the record before it in the same slot or -1 (8), magic (4), time at
//! which it was taken, cut to the tick (8), milliseconds from then to its slot (4), physical offset of the message (8), its
//! length (4), Java's hash of the topic that it is for (4), 0 (8).
//!
//! A file ends with a blank: the rest of the file's length (4), 0 (8), its magic (4). A record is written only where a blank
//! has room behind it.

/// Bytes of a record.
pub const RECORD_LEN: usize = 52;

/// Bytes of the blank at the end of a file.
pub(super) const BLANK_LEN: usize = 16;

/// The magic of a blank: Java's `0xBBCCDDEE ^ 1880681586 + 8`, in Java's order.
const BLANK_MAGIC: u32 = 0xBBCC_DDEE ^ (1_880_681_586 + 8);

/// Every taken message.
pub const NORMAL: i32 = 1;
/// It is due further away than the wheel looks: it goes round once more.
pub const ROLL: i32 = 2;
/// It stands for the recall of another message of the slot.
pub const DELETE: i32 = 4;

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerRecord {
    /// Position of the record before it in the same slot; -1 for the first.
    pub prev: i64,
    /// [`NORMAL`] with [`ROLL`] and [`DELETE`].
    pub magic: i32,
    /// When it was taken, cut to the tick (ms).
    pub write_time: i64,
    /// From then to the time of its slot (ms).
    pub delay: i32,
    /// Physical offset of the message in the commitlog.
    pub phys: i64,
    /// Length of the message's record.
    pub size: i32,
    /// Java's hash of the topic that it is for.
    pub topic_hash: i32,
}

/// What stands at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Record(TimerRecord),
    /// The end of the file.
    Blank,
    /// Nothing that was ever written there.
    Invalid,
}

impl TimerRecord {
    /// The time of its slot (ms).
    pub fn slot_time(&self) -> i64 {
        self.write_time.saturating_add(i64::from(self.delay))
    }

    /// Whether it goes round once more instead of being delivered.
    pub fn rolls(&self) -> bool {
        self.magic & ROLL != 0
    }

    /// Whether it recalls another message.
    pub fn deletes(&self) -> bool {
        self.magic & DELETE != 0
    }

    /// The bytes.
    pub fn encode(&self) -> [u8; RECORD_LEN] {
        let mut bytes = [0; RECORD_LEN];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &(RECORD_LEN as u32).to_be_bytes());
        put(4, &self.prev.to_be_bytes());
        put(12, &self.magic.to_be_bytes());
        put(16, &self.write_time.to_be_bytes());
        put(24, &self.delay.to_be_bytes());
        put(28, &self.phys.to_be_bytes());
        put(36, &self.size.to_be_bytes());
        put(40, &self.topic_hash.to_be_bytes());
        bytes
    }
}

impl Entry {
    /// Reads what stands at the beginning of `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Entry {
        let Some(head) = bytes.first_chunk::<BLANK_LEN>() else { return Entry::Invalid };
        let [s0, s1, s2, s3, p0, p1, p2, p3, p4, p5, p6, p7, m0, m1, m2, m3] = *head;
        let magic = i32::from_be_bytes([m0, m1, m2, m3]);
        if magic as u32 == BLANK_MAGIC {
            return Entry::Blank;
        }
        let Some(rest) = bytes.get(BLANK_LEN..RECORD_LEN).and_then(|rest| rest.first_chunk::<28>()) else {
            return Entry::Invalid;
        };
        // Java's own test: no bit beyond the lowest four.
        if i32::from_be_bytes([s0, s1, s2, s3]) != RECORD_LEN as i32 || magic & !0xF != 0 {
            return Entry::Invalid;
        }
        let long = |at: usize| i64::from_be_bytes(std::array::from_fn(|i| rest[at + i]));
        let int = |at: usize| i32::from_be_bytes(std::array::from_fn(|i| rest[at + i]));
        Entry::Record(TimerRecord {
            prev: i64::from_be_bytes([p0, p1, p2, p3, p4, p5, p6, p7]),
            magic,
            write_time: long(0),
            delay: int(8),
            phys: long(12),
            size: int(20),
            topic_hash: int(24),
        })
    }
}

/// The blank that ends a file with `rest` bytes left.
pub(super) fn blank(rest: usize) -> [u8; BLANK_LEN] {
    let mut bytes = [0; BLANK_LEN];
    bytes[..4].copy_from_slice(&(rest as u32).to_be_bytes());
    bytes[12..].copy_from_slice(&BLANK_MAGIC.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first record of a store that Java wrote.
    const JAVA: [u8; RECORD_LEN] = [
        0, 0, 0, 0x34, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0x01, 0xa2, 0x28, 0x4d, 0x24,
        0x90, 0, 0, 0x03, 0xe8, 0, 0, 0, 0, 0, 0, 0x18, 0xd4, 0, 0, 0x01, 0x4e, 0x44, 0x78, 0x0b, 0x76, 0, 0, 0, 0, 0,
        0, 0, 0,
    ];

    #[test]
    fn reads_and_writes_javas_bytes() {
        let Entry::Record(record) = Entry::decode(&JAVA) else { panic!("no record") };
        assert_eq!((record.prev, record.magic, record.delay), (-1, NORMAL, 1000));
        assert_eq!((record.write_time, record.slot_time()), (1_795_972_474_000, 1_795_972_475_000));
        assert_eq!((record.phys, record.size, record.topic_hash), (0x18d4, 0x14e, 0x4478_0b76));
        assert!(!record.rolls() && !record.deletes());
        assert_eq!(record.encode(), JAVA);
    }

    #[test]
    fn blanks_and_rubbish() {
        assert_eq!(Entry::decode(&blank(68)), Entry::Blank);
        assert_eq!(blank(68)[..4], [0, 0, 0, 68]);
        assert_eq!(Entry::decode(&[0; 52]), Entry::Invalid);
        assert_eq!(Entry::decode(&JAVA[..51]), Entry::Invalid);
        assert_eq!(Entry::decode(&[]), Entry::Invalid);
        let mut odd = JAVA;
        odd[12] = 1;
        assert_eq!(Entry::decode(&odd), Entry::Invalid);
    }
}
