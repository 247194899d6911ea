//! Appends records to a row of parts and begins a new part when one is full.

use std::sync::Arc;

use super::layout::{Dirs, Sizes};
use super::part::{Part, PartWriter};
use crate::error::StoreError;
use crate::record::{BLANK_MIN, RecordView};

/// The end of a row.
#[derive(Debug)]
pub(super) struct Appender {
    dirs: Dirs,
    sizes: Sizes,
    writer: Option<PartWriter>,
}

/// Where a record went.
#[derive(Debug)]
pub(super) enum Place {
    /// Into the last part.
    Last,
    /// Into a new part, which belongs at the end of the row.
    New(Arc<Part>),
    /// Nowhere: no file can take it.
    TooLarge,
}

impl Appender {
    /// Goes on behind `last`; without one the row begins at offset 0.
    pub(super) fn new(dirs: Dirs, sizes: Sizes, last: Option<&Arc<Part>>) -> Appender {
        Appender { dirs, sizes, writer: last.and_then(Part::writer) }
    }

    /// Appends a record.
    ///
    /// # Errors
    /// The disk; the record is not there, and may come again.
    pub(super) fn append(&mut self, record: &RecordView<'_>, tags_code: i64) -> Result<Place, StoreError> {
        if record.size().saturating_add(BLANK_MIN) > self.sizes.log {
            return Ok(Place::TooLarge);
        }
        if let Some(writer) = self.writer.as_mut().filter(|writer| writer.has_room(record.size())) {
            writer.append(record, tags_code)?;
            return Ok(Place::Last);
        }
        let base = self.writer.as_ref().map_or(0, |writer| writer.part().end());
        let part = Part::create(&self.dirs, base, self.sizes)?;
        let next = part.writer();
        let filled = match next {
            Some(mut next) => next.append(record, tags_code).and_then(|()| self.close()).map(|()| next),
            None => Err(StoreError::Corrupt { path: self.dirs.log.clone(), offset: base, what: "two writers".into() }),
        };
        match filled {
            Ok(next) => {
                self.writer = Some(next);
                Ok(Place::New(part))
            }
            Err(error) => {
                part.delete();
                Err(error)
            }
        }
    }

    /// Closes the last part: nothing follows.
    ///
    /// # Errors
    /// The disk.
    pub(super) fn close(&mut self) -> Result<(), StoreError> {
        self.writer.as_mut().map_or(Ok(()), PartWriter::close)
    }
}
