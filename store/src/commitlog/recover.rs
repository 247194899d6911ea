//! Finds the end of the log after a stop, clean or not.
//!
//! Records are read in order from the start of a file on; the first place that holds no whole, correct record is the
//! end, and everything behind it is removed. Which file to start with is the caller's decision: it must be so early
//! that whatever lies before it is known to be on disk and dispatched.

use super::CommitLog;
use crate::progress::Progress;
use crate::record::{Entry, RecordError, RecordView};

/// What the kernel writes at a time.
const PAGE: u64 = 4096;
/// So many zeros in a row are in nobody's properties.
const UNLIKELY_ZEROS: usize = 16;

/// What is checked beyond the parts adding up.
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    /// `checkCRCOnRecover`: the body's crc.
    pub crc: bool,
    /// `forceVerifyPropCRC`: the crc property instead of the body's crc.
    pub crc_property: bool,
    /// After an unclean stop: whether the last record may have been written in part. No crc covers the properties, and
    /// zeros at their end leave all lengths as they are.
    pub torn: bool,
}

/// The end of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Offset behind the last record.
    pub offset: u64,
    /// Offset of the last record that was read, for the checkpoint.
    pub last_record: Option<u64>,
    /// Store timestamp (ms) of that record.
    pub last_timestamp: i64,
    /// Why there is no further record; `None` at the end of the last file.
    pub reason: Option<RecordError>,
}

impl CommitLog {
    /// Start of the last file whose first record satisfies `matches(physical offset, store timestamp)`; of the first
    /// file when none does. A file without a first record, such as one made ahead, does not count.
    pub fn file_to_recover_from(&self, matches: impl Fn(u64, i64) -> bool, checks: Checks) -> u64 {
        let list = self.segments.snapshot();
        let fits = |bytes: &[u8], base: u64| {
            read_checked(bytes, base, checks).is_ok_and(|entry| match entry {
                Entry::Record(view) => view.store_timestamp() != 0 && matches(base, view.store_timestamp()),
                Entry::Blank(_) => false,
            })
        };
        let found = list.iter().rev().find(|segment| fits(segment.bytes(), segment.base()));
        found.or(list.first()).map_or(0, |segment| segment.base())
    }

    /// Reads from the start of a file to the end of the log.
    pub fn find_end(&self, from: u64, checks: Checks, mut progress: Progress) -> End {
        let list = self.segments.snapshot();
        let mut end = End { offset: from, last_record: None, last_timestamp: 0, reason: None };
        let mut before = end;
        for segment in list.iter().skip_while(|segment| segment.base() < from) {
            if segment.base() != end.offset && end.last_record.is_some() {
                // A file is missing: what follows is not reachable by a walk, but it is not damaged either.
                tracing::error!(path = %segment.path().display(), "a commitlog file before this one is missing");
            }
            let (bytes, base) = (segment.bytes(), segment.base());
            let mut at = 0;
            loop {
                end.offset = base + at as u64;
                progress.at(end.offset);
                match read_checked(&bytes[at..], end.offset, checks) {
                    Ok(Entry::Record(view)) => {
                        if checks.torn && has_lost_page(&view, end.offset) {
                            end.reason = Some(RecordError::Magic(0));
                            return end;
                        }
                        before = end;
                        end.last_record = Some(end.offset);
                        end.last_timestamp = view.store_timestamp();
                        at += view.size();
                    }
                    Ok(Entry::Blank(_)) => break,
                    Err(error) => {
                        if checks.torn && error == RecordError::Magic(0) && is_torn(segment.bytes(), base, &end) {
                            end = before;
                        }
                        end.reason = Some(error);
                        return end;
                    }
                }
            }
            // The blank record of the last file stays outside: an append there writes it anew.
        }
        end
    }
}

/// Whether a page that was never written lies in the middle of a record's properties, which no crc covers, although what
/// follows was written: zeros up to the end of a page, all of what the page has of them or more than chance explains.
fn has_lost_page(record: &RecordView<'_>, start: u64) -> bool {
    let properties = record.property_bytes();
    let end = start + record.size() as u64;
    let from = end - properties.len() as u64;
    let mut page_end = (from / PAGE + 1) * PAGE;
    while page_end <= end {
        let until = (page_end - from) as usize;
        let overlap = &properties[until.saturating_sub(PAGE as usize)..until];
        let zeros = overlap.iter().rev().take_while(|byte| **byte == 0).count();
        if zeros > 0 && (zeros == overlap.len() || zeros >= UNLIKELY_ZEROS) {
            return true;
        }
        page_end += PAGE;
    }
    false
}

/// Whether the last record's properties end in a zero, as zeros follow it. A producer's properties end in a separator or
/// in text.
fn is_torn(bytes: &[u8], base: u64, end: &End) -> bool {
    let start = end.last_record.and_then(|start| usize::try_from(start.checked_sub(base)?).ok());
    let record = start.and_then(|start| RecordView::parse(bytes.get(start..)?).ok());
    record.is_some_and(|record| record.property_bytes().last() == Some(&0))
}

/// Reads what stands at `offset`, with all checks.
fn read_checked(bytes: &[u8], offset: u64, checks: Checks) -> Result<Entry<'_>, RecordError> {
    let entry = Entry::read(bytes)?;
    if let Entry::Record(view) = &entry {
        if view.phys_offset() as u64 != offset {
            return Err(RecordError::Misplaced(view.phys_offset()));
        }
        if checks.crc && !crc_fits(view, checks) {
            return Err(RecordError::Crc);
        }
    }
    Ok(entry)
}

fn crc_fits(view: &RecordView<'_>, checks: Checks) -> bool {
    if checks.crc_property { view.property_crc_fits() } else { view.body_crc_fits() }
}
