//! Records by offset, and all of them in order.

use std::sync::Arc;

use super::CommitLog;
use crate::record::{BLANK_MAGIC, RecordError, RecordView};
use crate::segment::{Segment, SegmentSlice};

impl CommitLog {
    /// The record that starts at an offset, when a whole one that says so stands there.
    pub fn record_at(&self, offset: u64) -> Option<SegmentSlice> {
        let rest = self.rest_of_file(offset)?;
        let view = RecordView::parse(&rest).ok()?;
        let len = (view.phys_offset() as u64 == offset).then_some(view.size())?;
        rest.narrow(0..len)
    }

    /// All records from an offset on, which must be the start of a record or of a file. An offset before the first
    /// file starts there.
    pub fn walk(&self, from: u64) -> Walk<'_> {
        Walk { log: self, at: from.max(self.range().start), segment: None, error: None }
    }
}

/// Visits records in order; see [`CommitLog::walk`]. At the end it can be asked again after more was appended.
#[derive(Debug)]
pub struct Walk<'l> {
    log: &'l CommitLog,
    at: u64,
    segment: Option<Arc<Segment>>,
    error: Option<RecordError>,
}

impl Walk<'_> {
    /// The next record and its offset; `None` at the end of the log or at [`Walk::error`].
    pub fn next_record(&mut self) -> Option<(u64, RecordView<'_>)> {
        self.find_record()?;
        let segment = self.segment.as_ref()?;
        let at = self.at;
        match RecordView::parse(&segment.bytes()[(at - segment.base()) as usize..]) {
            Ok(view) => {
                self.at += view.size() as u64;
                Some((at, view))
            }
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    /// Where the next record is looked for: behind the last one.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Why the walk cannot go on: no record stands at [`Walk::position`], although something was written there.
    pub fn error(&self) -> Option<RecordError> {
        self.error
    }

    /// Gives up the rest of the file: goes on at the next one.
    pub fn skip_file(&mut self) {
        if let Some(segment) = self.log.segments.find(self.at) {
            self.at = segment.end();
        }
        self.error = None;
    }

    /// Steps over blank records and missing files.
    fn find_record(&mut self) -> Option<()> {
        if self.error.is_some() {
            return None;
        }
        loop {
            if self.at >= self.log.wrote.get() {
                return None;
            }
            let here = self.segment.take().filter(|segment| segment.base() <= self.at && self.at < segment.end());
            let Some(segment) = here.or_else(|| self.log.segments.find(self.at)) else {
                // Deleted meanwhile, or a file is missing: the next one that there is.
                let list = self.log.segments.snapshot();
                self.at = list.iter().map(|segment| segment.base()).find(|&base| base > self.at)?;
                continue;
            };
            let bytes = &segment.bytes()[(self.at - segment.base()) as usize..];
            let blank = bytes.len() < 8 || bytes[4..8] == BLANK_MAGIC.to_be_bytes();
            if blank && segment.published() == segment.len() {
                self.at = segment.end();
                continue;
            }
            self.segment = Some(segment);
            return Some(());
        }
    }
}
