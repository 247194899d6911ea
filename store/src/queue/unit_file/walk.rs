//! Going through the units of a file that is not mapped for it: at the start.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::{PAGE, UnitFile};
use crate::error::StoreError;

impl UnitFile {
    /// The index behind the last unit at or behind `from` that is not all zeros; `None` when all are.
    pub(in crate::queue) fn written_behind(&self, from: i64) -> io::Result<Option<i64>> {
        self.written_in(&self.open()?, self.at(from) as u64)
    }

    fn written_in(&self, file: &File, mut at: u64) -> io::Result<Option<i64>> {
        let mut last = None;
        let mut page = [0; 4096];
        loop {
            // Most of a file is a hole, or reserved only.
            at = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
                Ok(data) => data.max(at),
                Err(rustix::io::Errno::NXIO) => break,
                Err(error) => return Err(error.into()),
            };
            let rest = page.len() - at as usize % page.len();
            let count = file.read_at(&mut page[..rest], at)?;
            if count == 0 {
                break;
            }
            if let Some(place) = page[..count].iter().rposition(|byte| *byte != 0) {
                last = Some(self.base + (at as i64 + place as i64) / self.shape.unit_len as i64 + 1);
            }
            at += count as u64;
        }
        Ok(last)
    }

    /// Walks units from `from` on without mapping the file, until `each` says `false` or the file ends. Returns the
    /// index where it stopped.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn walk(&self, from: i64, each: impl FnMut(i64, &[u8]) -> bool) -> Result<i64, StoreError> {
        self.spill()?;
        let walk = || self.walk_in(&self.open()?, from, each);
        walk().map(|(end, _, _)| end).map_err(|source| self.io(source))
    }

    /// Walks all units until `each` says `false`. Returns the index where it stopped, and whether anything but zeros stands
    /// from there on. The file may be open already.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(in crate::queue) fn walk_to_end(
        &self,
        opened: Option<File>,
        each: impl FnMut(i64, &[u8]) -> bool,
    ) -> Result<(i64, bool), StoreError> {
        let walk = || {
            let file = opened.map_or_else(|| self.open(), Ok)?;
            let (end, read, rest) = self.walk_in(&file, self.base, each)?;
            // By whole chunks, which takes a tenth of the time of going byte by byte.
            let stale = rest.chunks(256).any(|chunk| chunk.iter().fold(0, |all, byte| all | byte) != 0);
            Ok((end, stale || end < self.end() && self.written_in(&file, read)?.is_some()))
        };
        walk().map_err(|source| self.io(source))
    }

    /// Returns where it stopped, how far the file was read, and what was read from the stop on.
    fn walk_in(
        &self,
        file: &File,
        from: i64,
        mut each: impl FnMut(i64, &[u8]) -> bool,
    ) -> io::Result<(i64, u64, Vec<u8>)> {
        let unit_len = self.shape.unit_len;
        // Most queues are short: one page is read of them. More would make the system read ahead.
        let (mut chunk, mut buffer) = (PAGE, Vec::new());
        // A unit may lie across the end of what is read.
        let (mut index, mut kept) = (from, 0);
        let mut at = self.at(index);
        let end = self.shape.file_len();
        while index < self.end() {
            let to = (at / PAGE * PAGE + chunk).min(end);
            chunk = (2 * chunk).min(65_536);
            buffer.resize(kept + to - at, 0);
            file.read_exact_at(&mut buffer[kept..], at as u64)?;
            at = to;
            let mut used = 0;
            for unit in buffer.chunks_exact(unit_len) {
                if !each(index, unit) {
                    buffer.drain(..used);
                    return Ok((index, at as u64, buffer));
                }
                index += 1;
                used += unit_len;
            }
            buffer.drain(..used);
            kept = buffer.len();
        }
        Ok((index, at as u64, Vec::new()))
    }
}
