//! The timer log: files of [`TimerRecord`]s in the order in which the timer took messages.
//!
//! Files have equal size (`mappedFileSizeTimerLog`) and are named by the offset of their first byte; a position counts
//! bytes over all of them. Layout of records and of a file's end: `record.rs`.
//! Invariant: records before the end never change; their messages stand in the order of the commitlog.
//! Threads: one appends and truncates, any number read.
//! Crash: the end is where the first record is that is none; see [`TimerLog::find_end`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::record::{BLANK_LEN, Entry, RECORD_LEN, TimerRecord, blank};
use crate::error::StoreError;
use crate::segment::{Segment, SegmentSeq, SegmentWriter};

/// See the module's text.
#[derive(Debug)]
pub struct TimerLog {
    segments: SegmentSeq,
    writer: Mutex<Option<SegmentWriter>>,
    flushed: AtomicU64,
}

impl TimerLog {
    /// Opens the files, each taken as written in full: [`TimerLog::find_end`] and [`TimerLog::truncate`] follow.
    ///
    /// # Errors
    /// A file of another size or name, a size without room for a record, or the disk.
    pub fn load(dir: PathBuf, file_len: usize) -> Result<TimerLog, StoreError> {
        if file_len < RECORD_LEN + BLANK_LEN {
            let what = format!("mappedFileSizeTimerLog={file_len} has no room for a record");
            return Err(StoreError::Corrupt { path: dir, offset: 0, what });
        }
        let segments = SegmentSeq::load(dir, file_len)?;
        let flushed = AtomicU64::new(segments.first().map_or(0, |first| first.base()));
        Ok(TimerLog { segments, writer: Mutex::new(None), flushed })
    }

    /// Where the next record goes.
    pub fn end(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.base() + last.published() as u64)
    }

    /// Where the first file begins.
    pub fn start(&self) -> u64 {
        self.segments.first().map_or(0, |first| first.base())
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.segments.first().is_none()
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.segments.snapshot().len()
    }

    /// The position of the last record.
    pub fn last_position(&self) -> Option<i64> {
        let per_file = (self.segments.segment_len() - BLANK_LEN) / RECORD_LEN;
        let list = self.segments.snapshot();
        let last = list.iter().rev().find(|segment| segment.published() >= RECORD_LEN)?;
        let records = (last.published() / RECORD_LEN).min(per_file);
        i64::try_from(last.base() + ((records - 1) * RECORD_LEN) as u64).ok()
    }

    /// Where the file begins that holds a position; the position itself when none does.
    pub(super) fn start_of_file(&self, position: u64) -> u64 {
        self.segments.find(position).map_or(position, |segment| segment.base())
    }

    /// The record at a position.
    pub fn record(&self, position: i64) -> Option<TimerRecord> {
        let position = u64::try_from(position).ok()?;
        let segment = self.segments.find(position)?;
        record_in(&segment, position)
    }

    /// Reads records by position, faster than one by one when they are near one another.
    pub fn reader(&self) -> Reader<'_> {
        Reader { log: self, segment: None }
    }

    /// Appends a record and returns its position.
    ///
    /// # Errors
    /// A new file cannot be made: the record is not there.
    pub fn append(&self, record: &TimerRecord) -> Result<u64, StoreError> {
        let mut writer = self.writer.lock();
        if writer.is_none() {
            *writer = self.segments.last().and_then(|last| last.writer());
        }
        if writer.as_ref().is_none_or(|writer| writer.room() < RECORD_LEN + BLANK_LEN) {
            if let Some(full) = writer.as_mut().filter(|writer| writer.room() >= BLANK_LEN) {
                let bytes = blank(full.room());
                self.write(full, &bytes)?;
                full.seal();
            }
            *writer = None;
            let base = self.segments.last().map_or(0, |last| last.end());
            *writer = self.segments.create(base)?.writer();
        }
        let Some(writer) = writer.as_mut() else {
            let source = std::io::Error::from(std::io::ErrorKind::ResourceBusy);
            return Err(StoreError::Io { path: self.segments.dir().to_owned(), source });
        };
        let position = writer.segment().base() + writer.position() as u64;
        self.write(writer, &record.encode())?;
        Ok(position)
    }

    fn write(&self, writer: &mut SegmentWriter, bytes: &[u8]) -> Result<(), StoreError> {
        let done = writer.append(bytes.len(), |free| free.copy_from_slice(bytes));
        done.map_err(|source| StoreError::Io { path: self.segments.dir().to_owned(), source })
    }

    /// Visits the records from a position on, as long as `each` returns true. Stops at the first that is none, or where a
    /// file is missing. Returns where it stopped.
    pub fn walk(&self, from: u64, mut each: impl FnMut(u64, &TimerRecord) -> bool) -> u64 {
        let list = self.segments.snapshot();
        let mut at = from.max(self.start());
        for segment in list.iter() {
            if segment.end() <= at {
                continue;
            }
            if segment.base() > at {
                return at;
            }
            let bytes = segment.bytes();
            loop {
                match Entry::decode(bytes.get((at - segment.base()) as usize..).unwrap_or_default()) {
                    Entry::Record(record) if each(at, &record) => at += RECORD_LEN as u64,
                    Entry::Blank => break,
                    Entry::Record(_) | Entry::Invalid => return at,
                }
            }
            at = segment.end();
        }
        at
    }

    /// The end of the records, looked for from a position on that was once the end. When no record ends there, all files are
    /// looked through.
    pub fn find_end(&self, known: u64) -> u64 {
        let list = self.segments.snapshot();
        let whole = list.windows(2).all(|pair| pair[1].base() == pair[0].end());
        let ends_there = || {
            let segment = self.segments.find(known).filter(|segment| segment.base() < known)?;
            record_in(&segment, known - RECORD_LEN as u64)
        };
        let start = if whole && ends_there().is_some() { known } else { self.start() };
        self.walk(start, |_, _| true)
    }

    /// Cuts the log: what stands behind is gone. Before it is appended to.
    ///
    /// # Errors
    /// The disk.
    pub fn truncate(&self, end: u64) -> Result<(), StoreError> {
        *self.writer.lock() = None;
        self.segments.truncate(end)
    }

    /// Puts everything appended so far on disk, and returns up to where that was.
    ///
    /// # Errors
    /// The device failed.
    pub fn flush(&self) -> Result<u64, StoreError> {
        let (from, to) = (self.flushed.load(Ordering::Acquire), self.end());
        for segment in self.segments.snapshot().iter().filter(|segment| segment.end() > from && segment.base() < to) {
            let error = |source| StoreError::Io { path: segment.path().to_owned(), source };
            let start = from.saturating_sub(segment.base()) as usize;
            if start == 0 {
                segment.sync_all().map_err(error)?;
                crate::abort::sync_dir(self.segments.dir())
                    .map_err(|source| StoreError::Io { path: self.segments.dir().to_owned(), source })?;
            }
            let end = (to - segment.base()).min(segment.len() as u64) as usize;
            segment.flush(start..end).map_err(error)?;
        }
        self.flushed.fetch_max(to, Ordering::AcqRel);
        Ok(to)
    }

    /// Up to where the log is known to be on disk.
    pub fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// Says up to where the log is on disk, after it was opened.
    pub(super) fn set_flushed(&self, position: u64) {
        self.flushed.store(position, Ordering::Release);
    }

    /// Deletes the files from the front whose last message lies before the start of the commitlog; the last file stays.
    /// Returns how many went.
    ///
    /// # Errors
    /// A name could not be removed.
    pub fn clean(&self, commitlog_start: u64) -> Result<usize, StoreError> {
        let last_record = (self.segments.segment_len() - BLANK_LEN) / RECORD_LEN * RECORD_LEN - RECORD_LEN;
        self.segments.delete_first(|segment| {
            let last = record_in(segment, segment.base() + last_record as u64);
            last.is_some_and(|last| last.phys < commitlog_start as i64)
        })
    }
}

fn record_in(segment: &Segment, position: u64) -> Option<TimerRecord> {
    let at = usize::try_from(position.checked_sub(segment.base())?).ok()?;
    if !at.is_multiple_of(RECORD_LEN) {
        return None;
    }
    match Entry::decode(segment.bytes().get(at..)?) {
        Entry::Record(record) => Some(record),
        Entry::Blank | Entry::Invalid => None,
    }
}

/// See [`TimerLog::reader`].
#[derive(Debug)]
pub struct Reader<'l> {
    log: &'l TimerLog,
    segment: Option<Arc<Segment>>,
}

impl Reader<'_> {
    /// The record at a position.
    pub fn record(&mut self, position: i64) -> Option<TimerRecord> {
        let position = u64::try_from(position).ok()?;
        if !self.segment.as_ref().is_some_and(|segment| segment.base() <= position && position < segment.end()) {
            self.segment = self.log.segments.find(position);
        }
        record_in(self.segment.as_ref()?, position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::NORMAL;

    fn record(phys: i64) -> TimerRecord {
        TimerRecord { prev: -1, magic: NORMAL, write_time: 5000, delay: 1000, phys, size: 100, topic_hash: 7 }
    }

    fn log(dir: &tempfile::TempDir, len: usize) -> TimerLog {
        TimerLog::load(dir.path().join("timerlog"), len).unwrap()
    }

    fn all(log: &TimerLog, from: u64) -> Vec<(u64, i64)> {
        let mut found = Vec::new();
        log.walk(from, |at, record| {
            found.push((at, record.phys));
            true
        });
        found
    }

    #[test]
    fn files_end_with_a_blank_where_java_ends_them() {
        let dir = tempfile::tempdir().unwrap();
        let log_ = log(&dir, 5200);
        for i in 0..150 {
            // 99 records a file: the last 52 bytes of it hold the blank.
            let expected = if i < 99 { i * 52 } else { 5200 + (i - 99) * 52 };
            assert_eq!(log_.append(&record(i as i64 * 10)).unwrap(), expected);
        }
        assert_eq!(log_.files(), 2);
        let bytes = std::fs::read(dir.path().join("timerlog/00000000000000000000")).unwrap();
        assert_eq!(bytes[99 * 52..99 * 52 + 16], blank(52));
        assert_eq!(log_.flush().unwrap(), 5200 + 51 * 52);
        drop(log_);
        let again = log(&dir, 5200);
        let end = again.find_end(0);
        assert_eq!(end, 5200 + 51 * 52);
        for known in [end, end - 52, end - 1, 5200, 5199, 99 * 52, u64::MAX] {
            assert_eq!(again.find_end(known), end, "{known}");
        }
        again.truncate(end).unwrap();
        assert_eq!(all(&again, 0).len(), 150);
        assert_eq!(again.append(&record(1)).unwrap(), end);
        assert_eq!(all(&again, 98 * 52).first(), Some(&(98 * 52, 980)));
        assert_eq!((again.record(52).map(|record| record.phys), again.record(53)), (Some(10), None));
        assert_eq!((again.record(-1), again.record(1 << 40), again.record(99 * 52)), (None, None, None));
    }

    #[test]
    fn a_torn_end_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let written = log(&dir, 5200);
        for i in 0..120 {
            written.append(&record(i)).unwrap();
        }
        written.flush().unwrap();
        drop(written);
        let path = dir.path().join("timerlog/00000000000000005200");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[10 * 52] = 9;
        std::fs::write(&path, bytes).unwrap();
        let again = log(&dir, 5200);
        assert_eq!(again.find_end(5200 + 5 * 52), 5200 + 10 * 52);
        again.truncate(5200 + 10 * 52).unwrap();
        assert_eq!(all(&again, 0).len(), 109);
        assert_eq!(again.end(), 5200 + 10 * 52);
    }

    #[test]
    fn old_files_go_with_the_commitlog() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(&dir, 5200);
        for i in 0..300 {
            log.append(&record(i * 1000)).unwrap();
        }
        assert_eq!(log.files(), 4);
        assert_eq!(log.clean(98_000).unwrap(), 0);
        assert_eq!(log.clean(98_001).unwrap(), 1);
        assert_eq!(log.start(), 5200);
        assert_eq!(log.clean(u64::MAX / 2).unwrap(), 2);
        assert_eq!(all(&log, 0).first(), Some(&(3 * 5200, 297_000)));
    }

    #[test]
    fn odd_sizes() {
        let dir = tempfile::tempdir().unwrap();
        assert!(TimerLog::load(dir.path().join("t"), 67).is_err());
        let smallest = TimerLog::load(dir.path().join("t"), 68).unwrap();
        for i in 0..3 {
            assert_eq!(smallest.append(&record(i)).unwrap(), i as u64 * 68);
        }
        let end = smallest.find_end(0);
        assert_eq!((end, smallest.files()), (2 * 68 + 52, 3));
    }
}
