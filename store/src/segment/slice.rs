//! A range of a segment's published bytes that keeps the file mapped.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::append::Segment;

/// Owned, cheap to clone. The file may be deleted meanwhile; the bytes stay.
#[derive(Clone)]
pub struct SegmentSlice {
    segment: Arc<Segment>,
    start: usize,
    len: usize,
}

impl SegmentSlice {
    /// The caller has checked that the range is published, which never shrinks.
    pub(super) fn new(segment: Arc<Segment>, start: usize, len: usize) -> SegmentSlice {
        SegmentSlice { segment, start, len }
    }

    /// Offset of the first byte in the row of segments.
    pub fn offset(&self) -> u64 {
        self.segment.base() + self.start as u64
    }

    /// Other published bytes of the same segment, without keeping them; `None` when they do not lie there.
    pub fn look(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.segment.base())?).ok()?;
        let end = start.checked_add(len).filter(|end| *end <= self.segment.published())?;
        self.segment.bytes().get(start..end)
    }

    /// A part of this slice; `None` when the range does not lie inside.
    pub fn narrow(&self, range: Range<usize>) -> Option<SegmentSlice> {
        (range.start <= range.end && range.end <= self.len).then(|| SegmentSlice {
            segment: Arc::clone(&self.segment),
            start: self.start + range.start,
            len: range.end - range.start,
        })
    }
}

impl Deref for SegmentSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.segment.bytes()[self.start..self.start + self.len]
    }
}

impl AsRef<[u8]> for SegmentSlice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for SegmentSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SegmentSlice({}+{})", self.offset(), self.len)
    }
}
