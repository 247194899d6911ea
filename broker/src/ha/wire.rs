//! What goes over a replication connection, as Java's `DefaultHAService` has it. All integers are big-endian.
//!
//! ```text
//! slave to master   8  position: where the slave wants the log from (the first one), then how far it has it
//! master to slave   8  offset of the bytes that follow in the log
//!                   4  how many bytes follow; 0 in a sign of life
//!                   n  the bytes, as they are in the log's files: parts of records, none spans two files
//! ```

/// Length of the head of a frame from the master in bytes.
pub const HEADER_LEN: usize = 12;
/// Length of a slave's report in bytes.
pub const REPORT_LEN: usize = 8;
/// A frame is as long as the master's `haTransferBatchSize` allows; nobody configures more than this.
pub const MAX_BODY: u32 = 1 << 30;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Where in the log the bytes lie.
    pub offset: u64,
    /// How many bytes follow.
    pub len: u32,
}

impl Header {
    /// The bytes of a head.
    pub fn encode(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let (offset, len) = bytes.split_at_mut(8);
        offset.copy_from_slice(&self.offset.to_be_bytes());
        len.copy_from_slice(&self.len.to_be_bytes());
        bytes
    }

    /// Reads a head; `None` when no master sends such a one.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Option<Header> {
        let (offset, rest) = bytes.split_first_chunk::<8>()?;
        let len = u32::from_be_bytes(*rest.first_chunk()?);
        let offset = u64::try_from(i64::from_be_bytes(*offset)).ok()?;
        let fits = len <= MAX_BODY && offset.checked_add(len.into()).is_some_and(|end| i64::try_from(end).is_ok());
        fits.then_some(Header { offset, len })
    }
}

/// Gathers bytes until there are `N` of them.
#[derive(Clone, Copy, Debug)]
pub struct Gather<const N: usize> {
    bytes: [u8; N],
    have: usize,
}

impl<const N: usize> Default for Gather<N> {
    fn default() -> Gather<N> {
        Gather { bytes: [0; N], have: 0 }
    }
}

impl<const N: usize> Gather<N> {
    /// Takes what it needs from the front of `bytes`; the whole once it is complete, and begins anew then.
    pub fn take(&mut self, bytes: &mut &[u8]) -> Option<[u8; N]> {
        let (now, rest) = bytes.split_at((N - self.have).min(bytes.len()));
        self.bytes[self.have..self.have + now.len()].copy_from_slice(now);
        self.have += now.len();
        *bytes = rest;
        if self.have < N {
            return None;
        }
        self.have = 0;
        Some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames that a Java master sent: data at 0 and a sign of life.
    #[test]
    fn java_frames() {
        let bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 206];
        assert_eq!(Header::decode(&bytes), Some(Header { offset: 0, len: 1230 }));
        let bytes = [0, 0, 0, 0, 0, 0, 4, 206, 0, 0, 0, 0];
        assert_eq!(Header::decode(&bytes), Some(Header { offset: 1230, len: 0 }));
        assert_eq!(Header { offset: 1230, len: 0 }.encode(), bytes);
    }

    #[test]
    fn what_no_master_sends() {
        for (offset, len) in [(-1i64, 0i32), (0, -1), (i64::MAX, 1), (i64::MIN, 5)] {
            let mut bytes = [0; HEADER_LEN];
            bytes[..8].copy_from_slice(&offset.to_be_bytes());
            bytes[8..].copy_from_slice(&len.to_be_bytes());
            assert_eq!(Header::decode(&bytes), None, "{offset} {len}");
        }
    }

    #[test]
    fn bytes_come_in_pieces() {
        let mut gather = Gather::<4>::default();
        let mut bytes: &[u8] = &[1, 2, 3];
        assert_eq!((gather.take(&mut bytes), bytes.len()), (None, 0));
        let mut bytes: &[u8] = &[4, 5, 6, 7, 8, 9];
        assert_eq!(gather.take(&mut bytes), Some([1, 2, 3, 4]));
        assert_eq!(gather.take(&mut bytes), Some([5, 6, 7, 8]));
        assert_eq!((gather.take(&mut bytes), bytes.len()), (None, 0));
    }
}
