//! Tables of queues by a hash of topic and id that is cheaper than that of a table which anybody may fill.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// By [`mark`].
pub(crate) type ByMark<T> = HashMap<u64, T, BuildHasherDefault<Mark>>;

/// What is hashed is a hash.
#[derive(Debug, Default)]
pub(crate) struct Mark(u64);

impl Hasher for Mark {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u64(&mut self, mark: u64) {
        self.0 = self.0.rotate_left(8) ^ mark;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A hash of a queue's name. Different queues have different ones, but for chance or malice.
pub fn mark(topic: &[u8], id: i32) -> u64 {
    let mix = |mark: u64, next: u64| {
        let mixed = (mark ^ next).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    };
    let (eights, rest) = topic.as_chunks::<8>();
    let mark = eights.iter().fold(topic.len() as u64, |mark, eight| mix(mark, u64::from_le_bytes(*eight)));
    let rest = rest.iter().fold(0, |rest, byte| rest << 8 | u64::from(*byte));
    mix(mix(mark, rest), id as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_differ() {
        let names = (0..2000).flat_map(|number| {
            [format!("{number}-a-common-end"), format!("Many{number:05}"), format!("T{number}"), "x".repeat(number)]
        });
        let mut marks: Vec<_> = names.flat_map(|name| (0..4).map(move |id| mark(name.as_bytes(), id))).collect();
        let count = marks.len();
        // Buckets are told by the last bits, what is in them by the first ones.
        let ends: std::collections::HashSet<_> = marks.iter().map(|mark| mark % (1 << 16)).collect();
        assert!(ends.len() > 22_000, "{}", ends.len());
        marks.sort();
        marks.dedup();
        assert_eq!(marks.len(), count);
    }
}
