//! Framing: `[length u32][serialize type u8, header length u24][header][body]`, all big-endian; the length counts
//! everything after itself.
//!
//! Nothing here allocates by an announced length: a frame is looked at where it lies in the read buffer, and a
//! length that cannot be right is refused as soon as the eight bytes that carry it are there.

use thiserror::Error;

use crate::command::SerializeType;

/// Bytes in front of a header: the length word and the word with type and header length.
pub const PREFIX: usize = 8;

/// Java's default of `com.rocketmq.remoting.frameMaxLength`: the largest whole frame in bytes, length word included.
pub const DEFAULT_MAX_FRAME: usize = 16 * 1024 * 1024;

/// The longest header that the 24 bits of its length can say, in bytes.
pub const MAX_HEADER: usize = 0xFF_FFFF;

/// What the front of a read buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split<'a> {
    /// The buffer ends before the frame does.
    NeedMore {
        /// Bytes of the whole frame with its length word, once the length word is there.
        total: Option<usize>,
    },
    /// A whole frame.
    Frame {
        /// Bytes of the frame with its length word: where the next one begins.
        total: usize,
        /// The header, laid out as `serialize` says.
        header: &'a [u8],
        /// The layout of the header.
        serialize: SerializeType,
        /// The body; empty when there is none.
        body: &'a [u8],
    },
}

/// Bytes that cannot be a frame. The peer's fault; nothing behind them can be trusted, so the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The length leaves no room for the second word, or is negative.
    #[error("a frame length of {0} bytes")]
    Length(i32),
    /// The frame is larger than allowed.
    #[error("a frame of {total} bytes, more than the limit of {max}")]
    TooLong {
        /// Bytes of the whole frame.
        total: usize,
        /// The limit.
        max: usize,
    },
    /// The header would end behind the frame.
    #[error("a header of {header} bytes in a frame of {total}")]
    Header {
        /// Bytes of the header.
        header: usize,
        /// Bytes of the whole frame.
        total: usize,
    },
    /// The type is neither JSON (0) nor ROCKETMQ (1).
    #[error("an unknown serialize type {0}")]
    Type(u8),
}

/// Looks for one frame at the front of `buf`; `max_frame` limits the whole frame, length word included (as Java's
/// `com.rocketmq.remoting.frameMaxLength` does).
///
/// # Errors
/// The bytes cannot be a frame. This is known from the first eight bytes at the latest, before any header or body.
pub fn split(buf: &[u8], max_frame: usize) -> Result<Split<'_>, FrameError> {
    let Some(length) = word(buf, 0) else { return Ok(Split::NeedMore { total: None }) };
    let length = length as i32;
    if length < 4 {
        return Err(FrameError::Length(length));
    }
    let total = length as usize + 4;
    if total > max_frame {
        return Err(FrameError::TooLong { total, max: max_frame });
    }
    let Some(second) = word(buf, 4) else { return Ok(Split::NeedMore { total: Some(total) }) };
    let serialize = match (second >> 24) as u8 {
        0 => SerializeType::Json,
        1 => SerializeType::RocketMq,
        other => return Err(FrameError::Type(other)),
    };
    let header = second as usize & MAX_HEADER;
    if header > total - PREFIX {
        return Err(FrameError::Header { header, total });
    }
    let Some(rest) = buf.get(PREFIX..total) else { return Ok(Split::NeedMore { total: Some(total) }) };
    let (header, body) = rest.split_at(header);
    Ok(Split::Frame { total, header, serialize, body })
}

/// Appends a whole frame: `header` and `body` append their bytes, the lengths are put in front afterwards.
///
/// Returns whether both lengths fit their fields; when they do not, `out` is as it was before.
pub(crate) fn append(
    out: &mut Vec<u8>,
    serialize: SerializeType,
    header: impl FnOnce(&mut Vec<u8>),
    body: impl FnOnce(&mut Vec<u8>),
) -> bool {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    header(out);
    let header_len = out.len() - start - PREFIX;
    if header_len > MAX_HEADER {
        out.truncate(start);
        return false;
    }
    body(out);
    let Ok(length) = i32::try_from(out.len() - start - 4) else {
        out.truncate(start);
        return false;
    };
    let second = (serialize as u32) << 24 | header_len as u32;
    if let Some(prefix) = out.get_mut(start..start + PREFIX) {
        prefix[..4].copy_from_slice(&length.to_be_bytes());
        prefix[4..].copy_from_slice(&second.to_be_bytes());
    }
    true
}

fn word(buf: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*buf.get(at..)?.first_chunk::<4>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = DEFAULT_MAX_FRAME;

    fn frame(length: u32, second: u32, rest: &[u8]) -> Vec<u8> {
        [&length.to_be_bytes()[..], &second.to_be_bytes(), rest].concat()
    }

    #[test]
    fn a_frame_and_what_is_behind_it() {
        let mut buf = frame(9, 3, b"abcde");
        buf.extend_from_slice(b"next");
        let split = split(&buf, MAX).unwrap();
        assert_eq!(split, Split::Frame { total: 13, header: b"abc", serialize: SerializeType::Json, body: b"de" });
    }

    #[test]
    fn a_cut_frame_wants_more() {
        let buf = frame(9, 0x0100_0003, b"abcde");
        for cut in 0..buf.len() {
            let total = (cut >= 4).then_some(13);
            assert_eq!(split(&buf[..cut], MAX), Ok(Split::NeedMore { total }), "{cut} bytes");
        }
    }

    #[test]
    fn b_01_lengths_that_cannot_be() {
        assert_eq!(split(&0u32.to_be_bytes(), MAX), Err(FrameError::Length(0)));
        assert_eq!(split(&3u32.to_be_bytes(), MAX), Err(FrameError::Length(3)));
        assert_eq!(split(&[0xFF; 4], MAX), Err(FrameError::Length(-1)));
        assert_eq!(split(&frame(8, 100, &[]), MAX), Err(FrameError::Header { header: 100, total: 12 }));
        assert_eq!(split(&frame(8, 7 << 24, &[]), MAX), Err(FrameError::Type(7)));
        assert!(matches!(split(b"GET / HTTP/1.1\r\n", MAX), Err(FrameError::TooLong { .. })));
    }

    #[test]
    fn the_limit_counts_the_length_word() {
        let at_limit = (MAX - 4) as u32;
        assert_eq!(split(&at_limit.to_be_bytes(), MAX), Ok(Split::NeedMore { total: Some(MAX) }));
        let over = (MAX - 3) as u32;
        assert_eq!(split(&over.to_be_bytes(), MAX), Err(FrameError::TooLong { total: MAX + 1, max: MAX }));
    }

    #[test]
    fn an_empty_header_and_body() {
        let buf = frame(4, 0, &[]);
        let expected = Split::Frame { total: 8, header: &[], serialize: SerializeType::Json, body: &[] };
        assert_eq!(split(&buf, MAX), Ok(expected));
    }

    #[test]
    fn an_overlong_header_leaves_the_output_alone() {
        let mut out = b"before".to_vec();
        let header = |out: &mut Vec<u8>| out.resize(out.len() + MAX_HEADER + 1, b'x');
        assert!(!append(&mut out, SerializeType::Json, header, |_| {}));
        assert_eq!(out, b"before");
    }
}
