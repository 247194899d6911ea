//! The Bloom filter in which a message's bits say which groups' expressions are true for it.
//!
//! Each group has a few bit positions for each topic, by the hash of `group#topic` (MurmurHash3, 128 bits). The bits of a
//! message lie in the consume queue extension; a pull of a group whose positions are not all set needs not look at the
//! message. Positions and sizes are those of Java: the bits of a store are read by either broker.

use serde::ser::SerializeTuple;
use serde::{Deserialize, Serialize, Serializer};

/// The size of the filter and the number of its hash functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bloom {
    /// Bits of a message, a multiple of 8.
    bits: i32,
    /// Positions of a group.
    hashes: i32,
}

/// The positions of a group, as `consumerFilter.json` has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Positions {
    /// The size of the filter that they belong to.
    pub bit_num: i32,
    /// The positions.
    #[serde(serialize_with = "on_one_line")]
    pub bit_pos: Vec<i32>,
}

fn on_one_line<S: Serializer>(numbers: &[i32], serializer: S) -> Result<S::Ok, S::Error> {
    let mut tuple = serializer.serialize_tuple(numbers.len())?;
    numbers.iter().try_for_each(|number| tuple.serialize_element(number))?;
    tuple.end()
}

impl Bloom {
    /// A filter for so many groups with so many percent of wrong hits; `None` when there is no such filter.
    pub fn new(percent: i32, groups: i32) -> Option<Bloom> {
        if !(1..100).contains(&percent) || groups < 1 {
            return None;
        }
        let rate = f64::from(percent) / 100.0;
        let hashes = (rate.ln() / 0.5_f64.ln()).ceil();
        let bits = (f64::from(groups) * ((1.0 / rate).ln() / 2.0_f64.ln()) * (1.0 / 2.0_f64.ln())).ceil();
        let bits = (bits / 8.0).ceil() * 8.0;
        (bits <= f64::from(i32::MAX)).then_some(Bloom { bits: bits as i32, hashes: hashes as i32 })
    }

    /// The positions of a group for a topic.
    pub fn positions(&self, group: &str, topic: &str) -> Positions {
        let hash = murmur3(format!("{group}#{topic}").as_bytes());
        let (low, high) = (hash as i32, (hash >> 32) as i32);
        let position = |number: i32| {
            let mixed = low.wrapping_add(number.wrapping_mul(high));
            (if mixed < 0 { !mixed } else { mixed }) % self.bits
        };
        Positions { bit_num: self.bits, bit_pos: (1..=self.hashes).map(position).collect() }
    }

    /// Whether positions belong to this filter.
    pub fn owns(&self, positions: &Positions) -> bool {
        positions.bit_num == self.bits
            && i32::try_from(positions.bit_pos.len()) == Ok(self.hashes)
            && positions.bit_pos.iter().all(|position| (0..self.bits).contains(position))
    }

    /// The bits of a message for which nothing is true.
    pub fn empty(&self) -> Vec<u8> {
        vec![0; self.bits as usize / 8]
    }
}

impl Positions {
    /// Sets all positions.
    pub fn set(&self, bits: &mut [u8]) {
        for position in &self.bit_pos {
            if let Some(byte) = bits.get_mut(*position as usize / 8) {
                *byte |= 1 << (position % 8);
            }
        }
    }

    /// Whether all positions are set. Bits of another size say nothing: true.
    pub fn are_set(&self, bits: &[u8]) -> bool {
        if bits.is_empty() || i32::try_from(bits.len() * 8) != Ok(self.bit_num) {
            return true;
        }
        let is_set =
            |position: &i32| bits.get(*position as usize / 8).is_none_or(|byte| byte >> (position % 8) & 1 == 1);
        self.bit_pos.iter().all(is_set)
    }
}

/// The first half of MurmurHash3's 128 bits (the variant for 64-bit machines, seed 0).
fn murmur3(bytes: &[u8]) -> u64 {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let mix1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mix2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let finish = |mut k: u64| {
        k = (k ^ k >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        k = (k ^ k >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        k ^ k >> 33
    };
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        let (first, second) = block.split_at(8);
        h1 = (h1 ^ mix1(word(first))).rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ mix2(word(second))).rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (first, second) = blocks.remainder().split_at(blocks.remainder().len().min(8));
    h2 ^= mix2(word(second));
    h1 ^= mix1(word(first));
    let len = bytes.len() as u64;
    h1 ^= len;
    h2 ^= len;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    finish(h1).wrapping_add(finish(h2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the `consumerFilter.json` of a Java broker.
    #[test]
    fn positions_of_java() {
        let bloom = Bloom::new(20, 32).unwrap();
        assert_eq!(bloom, Bloom { bits: 112, hashes: 3 });
        for (group, positions) in [("CG_sql1", [79, 87, 1]), ("CG_sql2", [110, 29, 57]), ("CG_sql3", [84, 54, 62])] {
            let found = bloom.positions(group, "TopicSql");
            assert_eq!(found, Positions { bit_num: 112, bit_pos: positions.into() });
            assert!(bloom.owns(&found));
        }
        assert_eq!(Bloom::new(10, 128).unwrap(), Bloom { bits: 616, hashes: 4 });
        for (percent, groups) in [(0, 32), (100, 32), (20, 0), (-1, -1), (1, i32::MAX)] {
            assert_eq!(Bloom::new(percent, groups), None);
        }
    }

    #[test]
    fn known_hashes() {
        // The reference implementation's, as the lower half of its 128 bits.
        assert_eq!(murmur3(b""), 0);
        assert_eq!(murmur3(b"hello"), 0xcbd8_a7b3_41bd_9b02);
        assert_eq!(murmur3(b"The quick brown fox jumps over the lazy dog"), 0xe34b_bc7b_bc07_1b6c);
    }

    #[test]
    fn bits() {
        let bloom = Bloom::new(20, 32).unwrap();
        let (one, two) = (bloom.positions("CG_sql1", "TopicSql"), bloom.positions("CG_sql2", "TopicSql"));
        let mut bits = bloom.empty();
        assert!(bits.len() == 14 && !one.are_set(&bits));
        one.set(&mut bits);
        assert!(one.are_set(&bits) && !two.are_set(&bits));
        assert!(two.are_set(&[]) && two.are_set(&bits[1..]));
        let foreign = Positions { bit_num: 112, bit_pos: vec![-1, 500, 2] };
        assert!(!bloom.owns(&foreign));
        foreign.set(&mut bits);
    }
}
