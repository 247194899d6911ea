//! The body of SEND_BATCH_MESSAGE: messages one behind the other.
//!
//! Each: total size, magic, crc (4 bytes each; not looked at), flag (4), body (4 + n), properties (2 + n).

use thiserror::Error;

use crate::store::Inner;

/// The body is not a row of whole messages.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the batch body is damaged at byte {0}")]
pub struct BatchError(pub usize);

/// Reads the messages of a batch body into `out` (cleared first).
///
/// # Errors
/// A length reaches beyond the end or is negative.
pub fn read<'a>(bytes: &'a [u8], out: &mut Vec<Inner<'a>>) -> Result<(), BatchError> {
    out.clear();
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = BatchError(bytes.len() - rest.len());
        let (inner, after) = one(rest).ok_or(at)?;
        out.push(inner);
        rest = after;
    }
    Ok(())
}

/// How many messages a body holds that stays one record: consumers find them by their parts, brokers by their sizes.
///
/// # Errors
/// A length reaches beyond the end, is negative, or differs from what the parts add up to.
pub fn count(bytes: &[u8]) -> Result<usize, BatchError> {
    let (mut rest, mut count) = (bytes, 0);
    while !rest.is_empty() {
        let at = BatchError(bytes.len() - rest.len());
        let total = rest.first_chunk().map(|total| i32::from_be_bytes(*total)).ok_or(at)?;
        let (_, after) = one(rest).ok_or(at)?;
        if usize::try_from(total) != Ok(rest.len() - after.len()) {
            return Err(at);
        }
        (rest, count) = (after, count + 1);
    }
    Ok(count)
}

fn one(bytes: &[u8]) -> Option<(Inner<'_>, &[u8])> {
    let bytes = bytes.get(12..)?;
    let (flag, bytes) = bytes.split_first_chunk::<4>()?;
    let (body_len, bytes) = bytes.split_first_chunk::<4>()?;
    let (body, bytes) = bytes.split_at_checked(usize::try_from(i32::from_be_bytes(*body_len)).ok()?)?;
    let (properties_len, bytes) = bytes.split_first_chunk::<2>()?;
    let (properties, bytes) = bytes.split_at_checked(usize::try_from(i16::from_be_bytes(*properties_len)).ok()?)?;
    Some((Inner { flag: i32::from_be_bytes(*flag), properties, body }, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(flag: i32, body: &[u8], properties: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend(flag.to_be_bytes());
        bytes.extend((body.len() as i32).to_be_bytes());
        bytes.extend(body);
        bytes.extend((properties.len() as i16).to_be_bytes());
        bytes.extend(properties);
        bytes
    }

    #[test]
    fn reads_all_or_fails() {
        let mut bytes = message(1, b"one", b"a\x01b\x02");
        bytes.extend(message(-2, b"", b""));
        let mut found = Vec::new();
        read(&bytes, &mut found).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].flag, found[0].body, found[0].properties), (1, &b"one"[..], &b"a\x01b\x02"[..]));
        assert_eq!((found[1].flag, found[1].body.len(), found[1].properties.len()), (-2, 0, 0));
        let first = message(1, b"one", b"a\x01b\x02").len();
        for cut in 1..bytes.len() {
            if cut != first {
                assert!(read(&bytes[..cut], &mut found).is_err(), "{cut}");
            }
        }
        assert_eq!(count(&bytes), Err(BatchError(0)), "sizes of 0");
        let mut sized = bytes.clone();
        sized[3] = first as u8;
        sized[first + 3] = (bytes.len() - first) as u8;
        assert_eq!((count(&sized), count(b"")), (Ok(2), Ok(0)));
        assert!((1..bytes.len()).filter(|cut| *cut != first).all(|cut| count(&sized[..cut]).is_err()));
        sized[first + 3] += 1;
        assert_eq!(count(&sized), Err(BatchError(first)));
        let mut negative = bytes.clone();
        negative[16] = 0xff;
        assert_eq!(read(&negative, &mut found), Err(BatchError(0)));
    }
}
