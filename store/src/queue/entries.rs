//! Reading a queue from an offset on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Queue;
use super::ext::{ExtUnit, QueueExt, is_address};
use super::files::{UnitFile, UnitFiles};
use super::unit::{BATCH_UNIT_LEN, Entry, UNIT_LEN};
use crate::error::StoreError;

/// Bytes that are copied out of the map at a time.
const CHUNK: usize = 32 * UNIT_LEN;

/// The entries from some offset to the end of its file, or to what was readable when it was made.
///
/// Holds the file, not its mapping; the units are copied out in small groups. The tags code of an entry with a unit in the
/// extension is the one from there; where that unit is missing it is the address of it.
#[derive(Debug)]
pub struct Entries {
    file: Arc<UnitFile>,
    unit_len: usize,
    /// Index of the next unit to be copied, and the end.
    next: i64,
    end: i64,
    chunk: [u8; CHUNK],
    /// Index and number of the units in `chunk`, and which is next.
    chunk_base: i64,
    chunk_units: usize,
    chunk_next: usize,
    ext: Option<Arc<QueueExt>>,
    /// What the extension has of the last entry.
    ext_unit: ExtUnit,
    extended: bool,
}

impl Entries {
    /// What the extension has of the entry that was returned last.
    #[inline]
    pub fn ext(&self) -> Option<&ExtUnit> {
        self.extended.then_some(&self.ext_unit)
    }

    /// Whether the extension lacks what it should have of an entry that was returned last.
    pub fn lacks_ext(&self, entry: &Entry) -> bool {
        !self.extended && is_address(entry.unit.tags_code)
    }

    #[cold]
    fn look_up(&mut self, entry: &mut Entry) {
        self.extended = self.ext.as_ref().is_some_and(|ext| ext.read(entry.unit.tags_code, &mut self.ext_unit));
        if self.extended {
            entry.unit.tags_code = self.ext_unit.tags_code;
        }
    }
}

impl Iterator for Entries {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if self.chunk_next == self.chunk_units {
            self.chunk_units = self.file.read(self.next, self.end, &mut self.chunk).ok()?;
            self.chunk_base = self.next;
            self.chunk_next = 0;
            self.next += self.chunk_units as i64;
        }
        if self.chunk_units == 0 {
            return None;
        }
        let at = self.chunk_next * self.unit_len;
        let index = self.chunk_base + self.chunk_next as i64;
        self.chunk_next += 1;
        let mut entry = Entry::decode(index, self.chunk.get(at..at + self.unit_len)?)?;
        self.extended = false;
        if is_address(entry.unit.tags_code) {
            self.look_up(&mut entry);
        }
        Some(entry)
    }
}

impl Queue {
    /// The entries from a queue offset to the end of the file that holds it. `None` where no file is, or before the
    /// lowest readable offset. In a batch topic the first entry is the record that holds the offset.
    pub fn entries(&self, offset: i64) -> Option<Entries> {
        let files = self.files.get()?;
        let end = self.end.load(Ordering::Acquire);
        let index = if self.is_batch() { self.batch_index(offset, end)? } else { offset };
        if index < self.first.load(Ordering::Acquire) || index >= end {
            return None;
        }
        let file = files.find(index)?;
        Some(Entries {
            end: end.min(file.end()),
            file,
            unit_len: files.shape().unit_len,
            next: index,
            chunk: [0; CHUNK],
            chunk_base: index,
            chunk_units: 0,
            chunk_next: 0,
            ext: self.ext.get().cloned(),
            ext_unit: ExtUnit::default(),
            extended: false,
        })
    }

    /// The entry that holds a queue offset.
    pub fn entry(&self, offset: i64) -> Option<Entry> {
        self.entries(offset)?.next().filter(|entry| entry.offset <= offset && offset < entry.next_offset())
    }

    /// Index of the unit whose record holds a queue offset.
    fn batch_index(&self, offset: i64, end: i64) -> Option<i64> {
        if offset < self.min_offset() || offset >= self.max_offset() {
            return None;
        }
        let behind = self.partition(self.first.load(Ordering::Acquire), end, |entry| entry.offset <= offset).ok()?;
        Some(behind - 1)
    }

    /// The first index of a range for which `before` is false, when it is true up to there and false from there.
    pub(super) fn partition(
        &self,
        mut from: i64,
        mut to: i64,
        before: impl Fn(&Entry) -> bool,
    ) -> Result<i64, StoreError> {
        while from < to {
            let middle = from + (to - from) / 2;
            match self.at_index(middle)? {
                Some(entry) if before(&entry) => from = middle + 1,
                // A file that is missing in the middle counts as old.
                None => from = middle + 1,
                Some(_) => to = middle,
            }
        }
        Ok(from)
    }

    /// The unit with an index, read through the map when there is one. `None` where no file is.
    pub(super) fn at_index(&self, index: i64) -> Result<Option<Entry>, StoreError> {
        let Some(file) = self.files.get().and_then(|files: &UnitFiles| files.find(index)) else { return Ok(None) };
        let mut bytes = [0; BATCH_UNIT_LEN];
        let bytes = &mut bytes[..self.unit_len()];
        file.peek(index, bytes)?;
        Ok(Entry::decode(index, bytes))
    }
}
