//! Appending what another broker has written: the same bytes at the same offsets.

use std::sync::Arc;

use thiserror::Error;

use super::{CommitLog, Tail};
use crate::error::AppendError;
use crate::record::Entry;
use crate::segment::SegmentWriter;
use crate::types::Appended;

/// Copied records were not appended.
#[derive(Debug, Error)]
pub enum CopyError {
    /// They do not go on where the log ends.
    #[error("the log ends at {end}")]
    NotTheEnd {
        /// Where it ends.
        end: u64,
    },
    /// The log takes nothing.
    #[error(transparent)]
    Append(#[from] AppendError),
}

impl CommitLog {
    /// Appends whole records of another broker's log, which start at `offset`, the end of this log. An empty log begins
    /// there; it must be the start of a file then. On return they are published.
    ///
    /// Records end where a file ends (a blank record is one); a file that is full is followed by the next one.
    ///
    /// # Errors
    /// See [`CopyError`]. Nothing was appended, unless the disk became full between two files.
    pub fn append_copy(&self, offset: u64, mut records: &[u8]) -> Result<(), CopyError> {
        let timestamp = last_timestamp(records);
        // Also while the disk is above its warning level, as in Java: a replica that stops copying helps nobody.
        let mut tail = self.tail.lock();
        if let Some(reason) = self.refusal() {
            return Err(AppendError::NotWritable(reason).into());
        }
        if self.range().is_empty() && offset > self.wrote.get() {
            self.begin_at(&mut tail, offset).map_err(AppendError::NoSpace)?;
        }
        let end = self.wrote.get();
        if offset != end {
            return Err(CopyError::NotTheEnd { end });
        }
        self.stamp();
        let mut at = offset;
        let mut result = Ok(());
        while !records.is_empty() && result.is_ok() {
            result = self.writer_for_copy(&mut tail, at).and_then(|writer| {
                let (now, rest) = records.split_at(records.len().min(writer.room()));
                writer.append(now.len(), |free| free.copy_from_slice(now)).map_err(AppendError::NoSpace)?;
                at += now.len() as u64;
                records = rest;
                Ok(())
            });
        }
        self.unlock(tail);
        if at > offset {
            let store_timestamp = timestamp.unwrap_or_else(|| self.last_timestamp());
            self.published(&Appended { phys_offset: offset, end: at, queue_offset: 0, store_timestamp });
        }
        Ok(result?)
    }

    /// An empty log begins at an offset.
    fn begin_at(&self, tail: &mut Tail, offset: u64) -> std::io::Result<()> {
        tail.writer = None;
        self.segments.delete_all().map_err(std::io::Error::other)?;
        self.wrote.advance(offset);
        Ok(())
    }

    /// The writer of the file that holds `at`, the end of the log.
    fn writer_for_copy<'t>(&self, tail: &'t mut Tail, at: u64) -> Result<&'t mut SegmentWriter, AppendError> {
        if tail.writer.as_ref().is_none_or(|writer| writer.room() == 0) {
            let last = self.segments.last().filter(|last| last.published() < last.len());
            let segment = match last {
                Some(last) => last,
                None => {
                    let segment = self.next_segment(at)?;
                    self.segments.push(Arc::clone(&segment));
                    segment
                }
            };
            tail.writer = segment.writer();
        }
        tail.writer.as_mut().ok_or(AppendError::NotWritable("the last file has another writer"))
    }
}

/// The store timestamp (ms) of the last message among whole records.
fn last_timestamp(mut records: &[u8]) -> Option<i64> {
    let mut last = None;
    while let Ok(entry) = Entry::read(records) {
        let size = match entry {
            Entry::Record(record) => {
                last = Some(record.store_timestamp());
                record.size()
            }
            Entry::Blank(size) => size as usize,
        };
        records = records.get(size.max(1)..).unwrap_or_default();
    }
    last
}
