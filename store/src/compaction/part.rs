//! A log file of a compaction topic's queue and the queue file of the same name.
//!
//! Records stand one behind the other from the start of the log file; unit `i` is that of record `i`. Behind the last
//! unit of a closed file stands [`END_UNIT`], and the log file goes on with a blank record; where neither stands (the
//! last file; the last one that a compaction of Java's made) there are zeros.
//!
//! Threads: one [`PartWriter`], any number of readers. A reader looks at units below [`Part::units`] only; their records
//! are final.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::layout::{Dirs, END_UNIT, Sizes};
use crate::abort::sync_dir;
use crate::error::{StoreError, of_sync};
use crate::failpoint::{self, Point};
use crate::queue::unit::{BATCH_UNIT_LEN, Entry, Unit};
use crate::record::{BLANK_MIN, PHYS_OFFSET, RecordView, write_blank};
use crate::segment::{Segment, SegmentSlice, SegmentWriter, file_name};

/// Blocks are reserved so many bytes at a time.
const LOG_STEP: usize = 1 << 20;
const CQ_STEP: usize = 64 << 10;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Part {
    log: Arc<Segment>,
    cq: Arc<Segment>,
    units: AtomicUsize,
    /// Units that are on the device, with their records.
    flushed: AtomicUsize,
    /// Whether the names and sizes of the files are on the device.
    named: AtomicBool,
}

fn io_error(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { path: path.to_owned(), source }
}

impl Part {
    /// Makes the two files.
    ///
    /// # Errors
    /// One exists, or the disk.
    pub(super) fn create(dirs: &Dirs, base: u64, sizes: Sizes) -> Result<Arc<Part>, StoreError> {
        let make = |point, dir: &Path, len| {
            let path = dir.join(file_name(base));
            let made = failpoint::hit(point).and_then(|()| Segment::create_sparse(&path, len));
            made.map_err(|source| io_error(&path, source))
        };
        let log = make(Point::CompactPart, &dirs.log, sizes.log)?;
        match make(Point::CompactPair, &dirs.cq, sizes.cq) {
            Ok(cq) => Ok(Part::over(log, cq, 0, 0, false)),
            Err(error) => {
                // Java refuses a log file without its queue file.
                let _ = log.delete();
                Err(error)
            }
        }
    }

    /// Opens the two files, with the units that [`count`] finds.
    ///
    /// # Errors
    /// A file of another length, or the disk.
    pub(super) fn open(dirs: &Dirs, base: u64, sizes: Sizes, quick: bool) -> Result<Arc<Part>, StoreError> {
        let path = dirs.cq.join(file_name(base));
        let all = Segment::open(&path, sizes.cq, sizes.cq).map_err(|source| io_error(&path, source))?;
        let units = if quick { count_quick(all.bytes()) } else { count(all.bytes(), base, sizes.log) };
        Part::open_with(dirs, base, sizes, units, false)
    }

    /// Removes all but the first units and their records from files that nobody else has open.
    ///
    /// # Errors
    /// As [`Part::open`].
    pub(super) fn cut(dirs: &Dirs, base: u64, sizes: Sizes, units: usize) -> Result<Arc<Part>, StoreError> {
        Part::open_with(dirs, base, sizes, units, true)
    }

    /// What stands behind the units is removed, unless it closes the file and may stay.
    fn open_with(dirs: &Dirs, base: u64, sizes: Sizes, units: usize, cut: bool) -> Result<Arc<Part>, StoreError> {
        let name = file_name(base);
        let (log_path, cq_path) = (dirs.log.join(&name), dirs.cq.join(&name));
        let open = |path: &Path, len: usize, published: usize| {
            Segment::open(path, len, published).map_err(|source| io_error(path, source))
        };
        let whole = open(&cq_path, sizes.cq, sizes.cq)?;
        let last = units.checked_sub(1).and_then(|last| unit_at(whole.bytes(), last));
        let end = last.map_or(0, |last| (last.unit.end() - base as i64).max(0) as usize);
        let behind = whole.bytes().get(units * BATCH_UNIT_LEN..).unwrap_or_default();
        let next = behind.get(..BATCH_UNIT_LEN).unwrap_or_default();
        let dirty = cut || next != END_UNIT && next.iter().any(|&byte| byte != 0);
        drop(whole);
        if dirty {
            tracing::warn!(path = %cq_path.display(), units, "what stands behind the last good unit is removed");
            clear_from(&cq_path, units * BATCH_UNIT_LEN).map_err(|source| io_error(&cq_path, source))?;
            failpoint::hit(Point::CompactCutHalf).map_err(|source| io_error(&log_path, source))?;
            clear_from(&log_path, end.min(sizes.log)).map_err(|source| io_error(&log_path, source))?;
        }
        let cq = open(&cq_path, sizes.cq, units * BATCH_UNIT_LEN)?;
        let log = open(&log_path, sizes.log, end)?;
        Ok(Part::over(log, cq, units, units, true))
    }

    fn over(log: Arc<Segment>, cq: Arc<Segment>, units: usize, flushed: usize, named: bool) -> Arc<Part> {
        Arc::new(Part {
            log,
            cq,
            units: AtomicUsize::new(units),
            flushed: AtomicUsize::new(flushed),
            named: AtomicBool::new(named),
        })
    }

    /// Offset of the log file's first byte: the name of both files.
    pub(super) fn base(&self) -> u64 {
        self.log.base()
    }

    /// First offset behind the log file.
    pub(super) fn end(&self) -> u64 {
        self.log.end()
    }

    /// Offset behind the last record.
    pub(super) fn log_end(&self) -> u64 {
        self.base() + self.log.published() as u64
    }

    /// How many records can be read.
    pub(super) fn units(&self) -> usize {
        self.units.load(Ordering::Acquire)
    }

    /// The unit of a record.
    pub(super) fn unit(&self, index: usize) -> Option<Entry> {
        if index < self.units() { unit_at(self.cq.bytes(), index) } else { None }
    }

    /// The first record's queue offset.
    pub(super) fn first_offset(&self) -> Option<i64> {
        self.unit(0).map(|unit| unit.offset)
    }

    /// The last record's queue offset.
    pub(super) fn last_offset(&self) -> Option<i64> {
        self.unit(self.units().checked_sub(1)?).map(|unit| unit.offset)
    }

    /// Index of the first unit whose queue offset is not below `offset`.
    pub(super) fn lower_bound(&self, offset: i64) -> usize {
        let (mut from, mut to) = (0, self.units());
        while from < to {
            let middle = from + (to - from) / 2;
            match self.unit(middle) {
                Some(unit) if unit.offset < offset => from = middle + 1,
                _ => to = middle,
            }
        }
        from
    }

    /// The bytes that a unit points to.
    pub(super) fn slice(&self, unit: &Entry) -> Option<SegmentSlice> {
        let from = usize::try_from(unit.unit.phys.checked_sub(self.base() as i64)?).ok()?;
        let len = usize::try_from(unit.unit.size).ok()?;
        self.log.slice(from..from.checked_add(len)?)
    }

    /// That no record stands where a unit says.
    pub(super) fn damaged(&self, unit: &Entry) -> StoreError {
        let offset = (unit.unit.phys - self.base() as i64).max(0) as u64;
        let what = format!("no record of queue offset {} stands here", unit.offset);
        StoreError::Corrupt { path: self.log.path().to_owned(), offset, what }
    }

    /// Whether both files are on the device as far as they are written.
    pub(super) fn is_flushed(&self) -> bool {
        self.flushed.load(Ordering::Acquire) >= self.units() && self.named.load(Ordering::Acquire)
    }

    /// Takes everything for not being on the device yet: whoever wrote it has been killed.
    pub(super) fn distrust(&self) {
        self.flushed.store(0, Ordering::Release);
        self.named.store(false, Ordering::Release);
    }

    /// Bytes of both files that wait for the device.
    pub(super) fn unflushed(&self) -> usize {
        let flushed = self.flushed.load(Ordering::Acquire);
        self.cq.published().saturating_sub(flushed * BATCH_UNIT_LEN)
            + self.log.published().saturating_sub(self.end_of(flushed))
    }

    /// Position in the log file behind record number `units - 1`.
    fn end_of(&self, units: usize) -> usize {
        let last = units.checked_sub(1).and_then(|last| unit_at(self.cq.bytes(), last));
        last.map_or(0, |last| (last.unit.end() - self.base() as i64).max(0) as usize)
    }

    /// Puts everything that is written on the device, records first.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        let flushed = self.flushed.load(Ordering::Acquire);
        let units = self.units();
        let (cq_to, log_to) = (self.cq.published(), self.log.published());
        let from = self.end_of(flushed);
        failpoint::hit(Point::CompactFlush)
            .and_then(|()| self.log.flush(from..log_to))
            .map_err(|source| io_error(self.log.path(), of_sync(source)))?;
        failpoint::hit(Point::CompactFlushUnits)
            .and_then(|()| self.cq.flush(flushed * BATCH_UNIT_LEN..cq_to))
            .map_err(|source| io_error(self.cq.path(), of_sync(source)))?;
        if !self.named.load(Ordering::Acquire) {
            failpoint::hit(Point::CompactFlushNames).map_err(|source| io_error(self.log.path(), of_sync(source)))?;
            for segment in [&self.log, &self.cq] {
                // The directories of queue, topic and kind may be new as well: their names are in the ones above.
                let dirs = || segment.path().ancestors().skip(1).take(5);
                let sync = || segment.sync_all().and_then(|()| dirs().try_for_each(sync_dir));
                sync().map_err(|source| io_error(segment.path(), of_sync(source)))?;
            }
            self.named.store(true, Ordering::Release);
        }
        self.flushed.fetch_max(units, Ordering::AcqRel);
        Ok(())
    }

    /// Removes the names of both files, as far as the system lets them go. Who reads them goes on.
    pub(super) fn delete(&self) {
        // The queue file first: Java refuses a log file without one, but would believe one that is out of date.
        for segment in [&self.cq, &self.log] {
            if let Err(error) = segment.delete() {
                tracing::error!(path = %segment.path().display(), %error, "a file could not be removed");
            }
        }
    }

    /// The one writer; `None` while there is another.
    pub(super) fn writer(self: &Arc<Part>) -> Option<PartWriter> {
        let (log, cq) = (self.log.writer()?, self.cq.writer()?);
        let reserved = (log.position(), cq.position());
        Some(PartWriter { part: Arc::clone(self), log, cq, reserved, closed: false })
    }
}

/// The right to append to a part.
#[derive(Debug)]
pub(super) struct PartWriter {
    part: Arc<Part>,
    log: SegmentWriter,
    cq: SegmentWriter,
    /// Up to where the two files have blocks.
    reserved: (usize, usize),
    closed: bool,
}

impl PartWriter {
    /// The part.
    pub(super) fn part(&self) -> &Arc<Part> {
        &self.part
    }

    /// Whether a record of `len` bytes goes in, with what closes the file behind it.
    pub(super) fn has_room(&self, len: usize) -> bool {
        // As Java: the last unit of a queue file is never used for a record.
        !self.closed && len.saturating_add(BLANK_MIN) <= self.log.room() && self.cq.room() > BATCH_UNIT_LEN
    }

    /// Appends a record, which then says that it stands here.
    ///
    /// # Errors
    /// No room in the file or on the disk; nothing can be seen of the record.
    pub(super) fn append(&mut self, record: &RecordView<'_>, tags_code: i64) -> Result<(), StoreError> {
        let (at, len) = (self.log.position(), record.size());
        let phys = (self.part.base() + at as u64) as i64;
        let unit = Entry {
            unit: Unit { phys, size: len as i32, tags_code },
            offset: record.queue_offset(),
            count: 1,
            store_timestamp: record.store_timestamp(),
        };
        self.reserve(at + len + BLANK_MIN, self.cq.position() + 2 * BATCH_UNIT_LEN)?;
        let copy = |out: &mut [u8]| {
            out.copy_from_slice(record.bytes());
            if let Some(place) = out.get_mut(PHYS_OFFSET..PHYS_OFFSET + 8) {
                place.copy_from_slice(&phys.to_be_bytes());
            }
        };
        self.log.append(len, copy).map_err(|source| io_error(self.part.log.path(), source))?;
        failpoint::pass(Point::CompactRecord);
        let put = |out: &mut [u8]| out.copy_from_slice(&unit.encode_batch());
        self.cq.append(BATCH_UNIT_LEN, put).map_err(|source| io_error(self.part.cq.path(), source))?;
        failpoint::pass(Point::CompactUnit);
        self.part.units.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Closes both files: the end unit and the blank record. Nothing goes in any more.
    ///
    /// # Errors
    /// The disk.
    pub(super) fn close(&mut self) -> Result<(), StoreError> {
        if self.closed {
            return Ok(());
        }
        failpoint::hit(Point::CompactClose).map_err(|source| io_error(self.part.log.path(), source))?;
        self.reserve(self.log.position() + BLANK_MIN, self.cq.position() + BATCH_UNIT_LEN)?;
        // Whatever comes: a unit behind the one that ends the file would not be found.
        self.closed = true;
        if self.cq.room() >= BATCH_UNIT_LEN {
            let put = |out: &mut [u8]| out.copy_from_slice(&END_UNIT);
            self.cq.append(BATCH_UNIT_LEN, put).map_err(|source| io_error(self.part.cq.path(), source))?;
        }
        failpoint::pass(Point::CompactEnd);
        let room = self.log.room();
        if room >= BLANK_MIN {
            let blank = |out: &mut [u8]| {
                if let Some(head) = out.first_chunk_mut() {
                    write_blank(head, room as u32);
                }
            };
            self.log.append(BLANK_MIN, blank).map_err(|source| io_error(self.part.log.path(), source))?;
        }
        Ok(())
    }

    fn reserve(&mut self, log_to: usize, cq_to: usize) -> Result<(), StoreError> {
        let reserve = |segment: &Arc<Segment>, done: &mut usize, to: usize, step: usize| {
            if to > *done {
                let until = to.saturating_add(step);
                let reserved = failpoint::hit(Point::CompactReserve).and_then(|()| segment.reserve(*done..until));
                reserved.map_err(|source| io_error(segment.path(), source))?;
                *done = until;
            }
            Ok(())
        };
        reserve(&self.part.log, &mut self.reserved.0, log_to, LOG_STEP)?;
        reserve(&self.part.cq, &mut self.reserved.1, cq_to, CQ_STEP)
    }
}

fn unit_at(units: &[u8], index: usize) -> Option<Entry> {
    let at = index.checked_mul(BATCH_UNIT_LEN)?;
    Entry::decode(0, units.get(at..at.checked_add(BATCH_UNIT_LEN)?)?)
}

/// How many units from the start of a queue file belong to records that stand one behind the other from `base` on, in the
/// order of their queue offsets.
fn count(units: &[u8], base: u64, log_len: usize) -> usize {
    let end = base as i64 + log_len as i64;
    let (mut phys, mut offset) = (base as i64, -1);
    let fits = |unit: &[u8]| {
        let Some(unit) = unit_at(unit, 0).filter(Entry::is_written) else { return false };
        if unit.unit.phys != phys || unit.offset <= offset || unit.unit.end() > end {
            return false;
        }
        (phys, offset) = (unit.unit.end(), unit.offset);
        true
    };
    units.chunks_exact(BATCH_UNIT_LEN).map(fits).take_while(|fits| *fits).count()
}

/// As [`count`] for a file that was left in order: looks at a few units only.
fn count_quick(units: &[u8]) -> usize {
    let (mut from, mut to) = (0, units.len() / BATCH_UNIT_LEN);
    while from < to {
        let middle = from + (to - from) / 2;
        match unit_at(units, middle) {
            Some(unit) if unit.is_written() => from = middle + 1,
            _ => to = middle,
        }
    }
    from
}

/// Turns what a file holds from a position on into a hole. Nobody has it mapped.
fn clear_from(path: &Path, at: usize) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let len = file.metadata()?.len();
    file.set_len((at as u64).min(len))?;
    file.set_len(len)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{DIRTY, record};
    use super::*;

    const SIZES: Sizes = Sizes { log: 46 * 100, cq: 46 * 5 };

    fn dirs(dir: &tempfile::TempDir) -> Dirs {
        Dirs::of_queue(dir.path(), "T", 0)
    }

    #[test]
    fn records_and_units_as_java_writes_them() {
        let dir = tempfile::tempdir().unwrap();
        let part = Part::create(&dirs(&dir), 9200, SIZES).unwrap();
        let mut writer = part.writer().unwrap();
        assert!(part.writer().is_none());
        for offset in [3, 7] {
            let bytes = record("T", "k", offset, b"body");
            writer.append(&RecordView::parse(&bytes).unwrap(), 5).unwrap();
        }
        let len = record("T", "k", 3, b"body").len();
        let unit = part.unit(1).unwrap();
        assert_eq!((unit.unit.phys, unit.unit.size, unit.unit.tags_code), (9200 + len as i64, len as i32, 5));
        assert_eq!((unit.offset, unit.count, part.units()), (7, 1, 2));
        let second = part.slice(&unit).unwrap();
        let second = RecordView::parse(&second).unwrap();
        assert_eq!((second.phys_offset(), second.queue_offset()), (9200 + len as i64, 7));
        assert!(second.body_crc_fits());
        assert_eq!([0, 3, 4, 7, 8].map(|offset| part.lower_bound(offset)), [0, 0, 1, 1, 2]);
        assert_eq!((part.first_offset(), part.last_offset()), (Some(3), Some(7)));
        writer.close().unwrap();
        assert_eq!(part.units(), 2);
        let log = std::fs::read(dirs(&dir).log.join("00000000000000009200")).unwrap();
        assert_eq!(log[2 * len..2 * len + 4], (SIZES.log as u32 - 2 * len as u32).to_be_bytes());
        assert_eq!(log[2 * len + 4..2 * len + 8], 0xcbd4_3194u32.to_be_bytes());
        let cq = std::fs::read(dirs(&dir).cq.join("00000000000000009200")).unwrap();
        assert_eq!(cq[92..100], [0xff; 8]);
        assert_eq!(cq[100..130], [0; 30]);
        assert_eq!(cq[130..138], [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert!(!part.is_flushed());
        part.flush().unwrap();
        assert!(part.is_flushed());
    }

    #[test]
    fn the_last_unit_of_a_file_closes_it() {
        let dir = tempfile::tempdir().unwrap();
        let part = Part::create(&dirs(&dir), 0, SIZES).unwrap();
        let mut writer = part.writer().unwrap();
        let len = record("T", "k", 0, b"").len();
        for offset in 0..4 {
            assert!(writer.has_room(len));
            writer.append(&RecordView::parse(&record("T", "k", offset, b"")).unwrap(), 0).unwrap();
        }
        assert!(!writer.has_room(len));
        assert!(!part.writer().is_some_and(|writer| writer.has_room(1)));
        let part = Part::create(&dirs(&dir), SIZES.log as u64, SIZES).unwrap();
        let writer = part.writer().unwrap();
        assert!(writer.has_room(SIZES.log - 8) && !writer.has_room(SIZES.log - 7));
    }

    #[test]
    fn opened_again_goes_on_behind_the_last_record() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = record("T", "k", 4, b"x");
        for closed in [false, true] {
            let base = SIZES.log as u64 * u64::from(closed);
            let part = Part::create(&dirs(&dir), base, SIZES).unwrap();
            let mut writer = part.writer().unwrap();
            writer.append(&RecordView::parse(&bytes).unwrap(), 0).unwrap();
            if closed {
                writer.close().unwrap();
            }
            drop((writer, part));
            for quick in [false, true] {
                let part = Part::open(&dirs(&dir), base, SIZES, quick).unwrap();
                assert_eq!((part.units(), part.log_end()), (1, base + bytes.len() as u64));
                assert!(part.is_flushed());
            }
            let part = Part::open(&dirs(&dir), base, SIZES, false).unwrap();
            let next = record("T", "k", 5, b"longer");
            part.writer().unwrap().append(&RecordView::parse(&next).unwrap(), 0).unwrap();
            assert_eq!(part.last_offset(), Some(5));
            assert_eq!(part.slice(&part.unit(1).unwrap()).unwrap().len(), next.len());
        }
    }

    #[test]
    fn stale_units_are_not_believed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let part = Part::create(&dirs(&dir), 0, SIZES).unwrap();
        let mut writer = part.writer().unwrap();
        for offset in 10..14 {
            writer.append(&RecordView::parse(&record("T", "k", offset, b"")).unwrap(), 0).unwrap();
        }
        drop((writer, part));
        let path = dirs(&dir).cq.join(file_name(0));
        let mut cq = std::fs::read(&path).unwrap();
        // The third unit's offset goes down; later ones look good.
        cq[2 * 46 + 35] = 3;
        std::fs::write(&path, &cq).unwrap();
        assert_eq!(Part::open(&dirs(&dir), 0, SIZES, false).unwrap().units(), 2);
        assert_eq!(std::fs::read(&path).unwrap()[92..], [0; 46 * 3]);
        std::fs::write(&path, DIRTY.repeat(SIZES.cq / DIRTY.len())).unwrap();
        assert_eq!(Part::open(&dirs(&dir), 0, SIZES, false).unwrap().units(), 0);
    }
}
