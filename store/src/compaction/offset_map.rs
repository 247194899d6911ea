//! The last queue offset of each key, in memory of a fixed size.
//!
//! Open addressing over entries of 24 bytes: a 128-bit hash of the key and the offset. Two keys with one hash would lose
//! a message; the hash is keyed anew for each map, so that nobody can make such keys.

use std::hash::{BuildHasher, RandomState};

/// Bytes of an entry.
const ENTRY: usize = 24;
/// A map takes so many keys at least, whatever the limit.
const LEAST: usize = 100;

/// See the module's text.
#[derive(Debug)]
pub(super) struct OffsetMap {
    hashers: [RandomState; 2],
    /// Hash, and offset + 1: 0 is a free place.
    places: Vec<([u64; 2], u64)>,
    taken: usize,
    most: usize,
    last: i64,
}

impl OffsetMap {
    /// A map for at most `keys` keys in at most `bytes` bytes.
    pub(super) fn new(keys: usize, bytes: usize) -> OffsetMap {
        let limit = (bytes / ENTRY).max(LEAST);
        let places = keys.saturating_add(keys / 4).max(LEAST).min(limit);
        OffsetMap {
            hashers: [RandomState::new(), RandomState::new()],
            places: vec![([0; 2], 0); places],
            taken: 0,
            // Some stay free, or a search would go through all of them.
            most: places - places / 8,
            last: -1,
        }
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        [self.hashers[0].hash_one(key), self.hashers[1].hash_one(key)]
    }

    /// The place of a hash: its own, or the free one where it would go.
    fn place(&self, hash: [u64; 2]) -> usize {
        let mut at = hash[0] as usize % self.places.len();
        while self.places[at].1 != 0 && self.places[at].0 != hash {
            at = (at + 1) % self.places.len();
        }
        at
    }

    /// Notes a key's offset; keys come in the order of their offsets. False when the map is full: nothing was noted.
    pub(super) fn put(&mut self, key: &[u8], offset: i64) -> bool {
        let hash = self.hash(key);
        let at = self.place(hash);
        let free = self.places[at].1 == 0;
        if free && self.taken >= self.most {
            return false;
        }
        self.taken += usize::from(free);
        self.places[at] = (hash, offset.max(0) as u64 + 1);
        self.last = offset;
        true
    }

    /// The last offset of a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<i64> {
        let (_, offset) = self.places[self.place(self.hash(key))];
        offset.checked_sub(1).map(|offset| offset as i64)
    }

    /// The offset that was noted last; -1 before the first.
    pub(super) fn last(&self) -> i64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_offset_of_each_key() {
        let mut map = OffsetMap::new(1000, usize::MAX);
        assert_eq!((map.get(b"a"), map.last()), (None, -1));
        for offset in 0..3000 {
            assert!(map.put(format!("key{}", offset % 1000).as_bytes(), offset));
        }
        assert_eq!(map.last(), 2999);
        for key in 0..1000 {
            assert_eq!(map.get(format!("key{key}").as_bytes()), Some(2000 + key));
        }
        assert_eq!(map.get(b"key1000"), None);
    }

    #[test]
    fn memory_is_bounded_and_a_full_map_says_so() {
        let mut map = OffsetMap::new(1 << 30, 24 * 1000);
        assert_eq!(map.places.len(), 1000);
        let fitted = (0..2000).take_while(|offset| map.put(&offset.to_string().into_bytes(), *offset)).count();
        assert_eq!(fitted, 875);
        assert_eq!(map.last(), 874);
        // A key that is there has its place.
        assert!(map.put(b"7", 3000));
        assert_eq!((map.get(b"7"), map.get(b"1999"), map.last()), (Some(3000), None, 3000));
        assert_eq!(OffsetMap::new(0, 0).places.len(), LEAST);
    }
}
