//! The last units of a queue file that is not mapped.

/// So many bytes are gathered at most: those of a few dozen units.
const GATHER: usize = 1680;
/// So many of them are kept when the file gets them because there are no more places: those of the units that a pull takes.
const GATHER_KEPT: usize = 640;

/// Bytes that are in memory.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Where they go.
    pub(super) at: usize,
    pub(super) bytes: Vec<u8>,
    /// How many of them, from the front, the file has.
    pub(super) written: usize,
}

impl Gathered {
    /// Whether there is place behind them for so many more that go to `at`.
    pub(super) fn takes(&self, at: usize, len: usize) -> bool {
        at == self.end() && self.bytes.len() + len <= GATHER
    }

    pub(super) fn end(&self) -> usize {
        self.at + self.bytes.len()
    }

    /// Makes place for what goes to `at`, when the file has everything.
    #[cold]
    pub(super) fn turn(&mut self, at: usize, unit_len: usize) {
        let kept = if at == self.end() { GATHER_KEPT / unit_len * unit_len } else { 0 };
        let gone = self.bytes.len().saturating_sub(kept);
        self.bytes.drain(..gone);
        self.at = at - self.bytes.len();
        self.written = self.bytes.len();
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let len = self.bytes.len();
        if len + bytes.len() > self.bytes.capacity() {
            // A queue that gets little takes little.
            self.bytes.reserve_exact(bytes.len().max(len.clamp(60, GATHER.saturating_sub(len).max(60))));
        }
        self.bytes.extend_from_slice(bytes);
    }
}
