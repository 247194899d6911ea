//! The records of commitlog files, read one after the other.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{CtlError, list, offset_of, read_error};
use crate::record::{BLANK_MAGIC, Entry, MIN_RECORD, RecordError, RecordView};

/// A commitlog file.
#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    pub(super) base: u64,
    pub(super) len: u64,
    file: File,
}

/// How a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileEnd {
    /// With a blank record: the log goes on in the next file.
    Blank,
    /// No record stands here.
    Stop(u64, RecordError),
}

impl LogFile {
    /// The files of a directory in order.
    pub(super) fn all(dir: &Path) -> Result<Vec<LogFile>, CtlError> {
        let mut files = Vec::new();
        for path in list(dir)?.into_iter().filter(|path| path.is_file()) {
            let base = offset_of(&path)?;
            let file = File::open(&path).map_err(|source| read_error(&path, source))?;
            let len = file.metadata().map_err(|source| read_error(&path, source))?.len();
            files.push(LogFile { path, base, len, file });
        }
        files.sort_by_key(|file| file.base);
        Ok(files)
    }

    /// The record at an offset of the log, into `buffer`. `None` where none can be.
    pub(super) fn read_at<'b>(&self, offset: u64, buffer: &'b mut Vec<u8>) -> Result<Option<&'b [u8]>, CtlError> {
        let Some(at) = offset.checked_sub(self.base).filter(|at| at + 8 <= self.len) else { return Ok(None) };
        let mut head = [0; 8];
        self.read_exact(at, &mut head)?;
        let [a, b, c, d, magic @ ..] = head;
        let size = u64::from(u32::from_be_bytes([a, b, c, d]));
        // A blank record says how much is left, but has only its head.
        let blank = u32::from_be_bytes(magic) == BLANK_MAGIC;
        if at + size > self.len || (size as usize) < MIN_RECORD && !blank {
            buffer.clear();
            buffer.extend_from_slice(&head);
            return Ok(Some(buffer));
        }
        buffer.resize((size as usize).max(8), 0);
        self.read_exact(at, buffer)?;
        Ok(Some(buffer))
    }

    fn read_exact(&self, at: u64, out: &mut [u8]) -> Result<(), CtlError> {
        match self.file.read_exact_at(out, at) {
            // Cut off while we read.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                out.fill(0);
                Ok(())
            }
            done => done.map_err(|source| read_error(&self.path, source)),
        }
    }

    /// Visits the records of the file.
    pub(super) fn walk(
        &self,
        mut each: impl FnMut(u64, &RecordView<'_>) -> Result<(), CtlError>,
    ) -> Result<FileEnd, CtlError> {
        let mut buffer = Vec::new();
        let mut offset = self.base;
        loop {
            let bytes = self.read_at(offset, &mut buffer)?.unwrap_or_default();
            match Entry::read(bytes) {
                Ok(Entry::Record(record)) => {
                    each(offset, &record)?;
                    offset += record.size() as u64;
                }
                Ok(Entry::Blank(_)) => return Ok(FileEnd::Blank),
                Err(error) => return Ok(FileEnd::Stop(offset, error)),
            }
        }
    }
}

/// Visits the records of a log up to its end. Returns that end, and what stands there instead of a record.
pub(super) fn walk(
    files: &[LogFile],
    mut each: impl FnMut(u64, &RecordView<'_>) -> Result<(), CtlError>,
) -> Result<(u64, Option<RecordError>), CtlError> {
    let mut end = files.first().map_or(0, |file| file.base);
    for file in files {
        match file.walk(&mut each)? {
            FileEnd::Blank => end = file.base + file.len,
            FileEnd::Stop(at, error) => return Ok((at, Some(error))),
        }
    }
    Ok((end, None))
}
