//! The two hash functions that the layouts borrow from Java.

/// crc32 of a body as the record carries it: Java clears the highest bit.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes) & 0x7fff_ffff
}

/// Java's `String.hashCode`: over UTF-16 units, wrapping. Tags codes and index keys are made of it.
pub fn java_hash(text: &str) -> i32 {
    let step = |hash: i32, unit: u16| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
    if text.is_ascii() {
        text.bytes().fold(0, |hash, byte| step(hash, u16::from(byte)))
    } else {
        text.encode_utf16().fold(0, step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_java_computes() {
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("TagA"), 2_598_919);
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        // One character outside the BMP is two units.
        assert_eq!(java_hash("\u{1F600}"), 0xD83D * 31 + 0xDE00);
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926 & 0x7fff_ffff);
    }
}
