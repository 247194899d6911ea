//! The property string of a record: `name 0x01 value 0x02`, repeated; the last 0x02 may be missing.

use memchr::memchr;

/// Between name and value.
pub const NAME_END: u8 = 1;
/// Behind a value.
pub const VALUE_END: u8 = 2;

/// Names that the store itself looks at (`MessageConst`).
pub mod name {
    /// Index keys, separated by spaces.
    pub const KEYS: &str = "KEYS";
    /// The tag.
    pub const TAGS: &str = "TAGS";
    /// The producer's unique key.
    pub const UNIQ_KEY: &str = "UNIQ_KEY";
    /// Level of a delayed message.
    pub const DELAY: &str = "DELAY";
    /// crc over the record, see `enabledAppendPropCRC`.
    pub const CRC32: &str = "__CRC32#";
    /// Number of messages in a batch record.
    pub const INNER_NUM: &str = "INNER_NUM";
    /// First queue offset of a batch record.
    pub const INNER_BASE: &str = "INNER_BASE";
    /// Queues besides its own that a message goes to, separated by commas.
    pub const INNER_MULTI_DISPATCH: &str = "INNER_MULTI_DISPATCH";
    /// Its offsets there, in the same order.
    pub const INNER_MULTI_QUEUE_OFFSET: &str = "INNER_MULTI_QUEUE_OFFSET";
    /// Whether the producer waits for the message to be on disk.
    pub const WAIT: &str = "WAIT";
}

/// Iterates over the properties in the order of the bytes; what Java's reader skips (an empty name or value, a piece
/// without separator) is skipped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Properties<'a> {
    rest: &'a [u8],
}

impl<'a> Properties<'a> {
    /// Over a property string.
    pub fn new(bytes: &'a [u8]) -> Properties<'a> {
        Properties { rest: bytes }
    }

    /// The value of a name, as bytes; the last one counts, as with Java's map.
    pub fn get_bytes(self, name: &str) -> Option<&'a [u8]> {
        self.filter(|(found, _)| *found == name.as_bytes()).last().map(|(_, value)| value)
    }

    /// The value of a name, when it is UTF-8.
    pub fn get(self, name: &str) -> Option<&'a str> {
        self.get_bytes(name).and_then(|value| std::str::from_utf8(value).ok())
    }
}

impl<'a> Iterator for Properties<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let end = memchr(VALUE_END, self.rest).unwrap_or(self.rest.len());
            let pair = &self.rest[..end];
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if let Some(at) = memchr(NAME_END, pair)
                && at > 0
                && at + 1 < pair.len()
            {
                return Some((&pair[..at], &pair[at + 1..]));
            }
        }
        None
    }
}

/// Appends one property to a property string.
pub fn push(to: &mut Vec<u8>, name: &str, value: &[u8]) {
    if !to.is_empty() && to.last() != Some(&VALUE_END) {
        to.push(VALUE_END);
    }
    to.extend_from_slice(name.as_bytes());
    to.push(NAME_END);
    to.extend_from_slice(value);
    to.push(VALUE_END);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Vec<(&[u8], &[u8])> {
        Properties::new(bytes).collect()
    }

    #[test]
    fn odd_strings() {
        assert_eq!(read(b""), []);
        assert_eq!(read(b"a\x01b"), [(&b"a"[..], &b"b"[..])]);
        assert_eq!(read(b"a\x01b\x02"), [(&b"a"[..], &b"b"[..])]);
        assert_eq!(read(b"a\x01\x02\x01b\x02\x02x\x02\x01\x02c\x01d\x01e"), [(&b"c"[..], &b"d\x01e"[..])]);
        assert_eq!(Properties::new(b"a\x01b\x02a\x01c\x02").get("a"), Some("c"));
        assert_eq!(Properties::new(b"a\x01\xff\x02").get("a"), None);
        assert_eq!(Properties::new(b"a\x01\xff\x02").get_bytes("a"), Some(&b"\xff"[..]));
        let mut joined = b"a\x01b".to_vec();
        push(&mut joined, "c", b"d");
        assert_eq!(joined, b"a\x01b\x02c\x01d\x02");
    }

    proptest! {
        #[test]
        fn round_trip(pairs in prop::collection::vec(("[^\u{1}\u{2}]{1,9}", "[^\u{1}\u{2}]{1,20}"), 0..9)) {
            let mut bytes = Vec::new();
            for (name, value) in &pairs {
                push(&mut bytes, name, value.as_bytes());
            }
            let found: Vec<_> = read(&bytes).into_iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
            let expected: Vec<_> = pairs.iter().map(|(n, v)| (n.clone().into_bytes(), v.clone().into_bytes())).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(prop_oneof![Just(1u8), Just(2u8), any::<u8>()], 0..200)) {
            for (name, value) in Properties::new(&bytes) {
                prop_assert!(!name.is_empty() && !value.is_empty());
            }
        }
    }
}
