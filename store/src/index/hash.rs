//! Java's `String.hashCode` over the UTF-16 units of a text, computed from its UTF-8 bytes piece by piece.
//!
//! Two things in the files are such hashes: the tags code of a consume queue unit and the key hash of an index entry.

/// A hash under construction. Feeding `a` and then `b` gives the hash of their concatenation, so the hash of the
/// part that many keys share (`topic#`) is computed once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyHash(i32);

/// 31^8, 31^7, .. 31^0 modulo 2^32.
const POWERS: [u32; 9] = {
    let mut powers = [1u32; 9];
    let mut i = 8;
    while i > 0 {
        powers[i - 1] = powers[i].wrapping_mul(31);
        i -= 1;
    }
    powers
};

impl KeyHash {
    /// The hash of the empty text.
    pub const fn new() -> KeyHash {
        KeyHash(0)
    }

    /// Adds a text in UTF-8. Malformed bytes count as U+FFFD, which is what Java's decoder makes of them.
    #[must_use]
    pub fn push(self, text: &[u8]) -> KeyHash {
        if !text.is_ascii() {
            let text = String::from_utf8_lossy(text);
            return KeyHash(text.encode_utf16().fold(self.0, |hash, unit| step(hash, unit.into())));
        }
        let mut hash = self.0;
        let (eights, rest) = text.as_chunks::<8>();
        for eight in eights {
            // Eight independent products instead of a chain of eight.
            let sum = (0..8).fold(0u32, |sum, i| sum.wrapping_add(u32::from(eight[i]).wrapping_mul(POWERS[i + 1])));
            hash = (hash as u32).wrapping_mul(POWERS[0]).wrapping_add(sum) as i32;
        }
        KeyHash(rest.iter().fold(hash, |hash, byte| step(hash, (*byte).into())))
    }

    /// The hash as Java's `hashCode` returns it.
    pub const fn value(self) -> i32 {
        self.0
    }

    /// The non-negative form that the index files use. The smallest integer, which has no absolute value, becomes 0.
    pub const fn index_value(self) -> i32 {
        match self.0.checked_abs() {
            Some(value) => value,
            None => 0,
        }
    }
}

fn step(hash: i32, unit: i32) -> i32 {
    hash.wrapping_mul(31).wrapping_add(unit)
}

/// The tags code of a consume queue unit: the hash of the tags, 0 without tags.
pub fn tags_code(tags: &[u8]) -> i64 {
    KeyHash::new().push(tags).value().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reference(text: &str) -> i32 {
        text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()))
    }

    #[test]
    fn known_values() {
        // Values from the documentation of `String.hashCode` users: "Aa" and "BB" collide.
        assert_eq!(KeyHash::new().push(b"Aa").value(), 2112);
        assert_eq!(KeyHash::new().push(b"BB").value(), 2112);
        assert_eq!(tags_code(b""), 0);
        assert_eq!(KeyHash::new().push(b"polygenelubricants").value(), i32::MIN);
        assert_eq!(KeyHash::new().push(b"polygenelubricants").index_value(), 0);
    }

    proptest! {
        #[test]
        fn equals_the_definition(head in "[ -~]{0,40}", tail in ".{0,40}") {
            let whole = KeyHash::new().push(head.as_bytes()).push(tail.as_bytes());
            prop_assert_eq!(whole.value(), reference(&format!("{head}{tail}")));
            prop_assert!(whole.index_value() >= 0);
        }
    }
}
