//! One file of a queue: mapped when there is room for a mapping, else written in small groups.
//!
//! The system allows so many mappings and open files to a process, and a broker may have more queues than that. A file
//! beyond the limit is opened for each access only; what is added to it is gathered in memory first, so that a message
//! does not cost a system call. The last of what was gathered stays in memory: whoever reads a queue's end finds it there.
//!
//! Invariant: the file ends where the gathered bytes begin that it does not have; a reader that finds none in memory finds
//! them in the file.
//! Threads: one writer (the queue's lock), any number of readers.
//! Crash: gathered bytes are gone and made again from the log, as the checkpoint is not moved before a flush.

mod walk;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;

use super::files::Shape;
use super::gathered::Gathered;
use super::mapped::Mapped;
use crate::error::{StoreError, of_sync};
use crate::failpoint::{self, Event, Point};
use crate::segment::{Cells, remove};

/// Bytes of a page.
const PAGE: usize = 4096;

/// See the module's text.
#[derive(Debug)]
#[repr(C)]
pub struct UnitFile {
    // What a message touches, close together.
    gathered: Mutex<Gathered>,
    /// Whether there are gathered bytes. Set before they are published, cleared when the file has them and they are forgotten.
    gathers: AtomicBool,
    /// Set by each use, cleared by [`UnitFile::unmap`].
    used: AtomicBool,
    /// Index of the first unit.
    base: i64,
    shape: Shape,
    /// Bytes with blocks behind them.
    reserved: AtomicUsize,
    mapped: ArcSwapOption<Mapped>,
    path: PathBuf,
}

impl UnitFile {
    /// A file that is there.
    pub(super) fn new(path: PathBuf, base: i64, shape: Shape) -> UnitFile {
        UnitFile {
            base,
            shape,
            path,
            mapped: ArcSwapOption::empty(),
            used: AtomicBool::new(false),
            reserved: AtomicUsize::new(0),
            gathered: Mutex::default(),
            gathers: AtomicBool::new(false),
        }
    }

    /// Makes the file.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(super) fn create(path: PathBuf, base: i64, shape: Shape) -> Result<UnitFile, StoreError> {
        let file = UnitFile::new(path, base, shape);
        let first = shape.file_len().min(4096);
        let create = || {
            failpoint::hit(Point::QueueCreate)?;
            Cells::create_reserved(&file.path, shape.file_len(), first)
        };
        let cells = match create() {
            // Not one of this queue's files: left by a topic that was deleted, when the system refused to remove it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                tracing::warn!(file = %file.path.display(), "a left-over queue file is replaced");
                remove(&file.path).and_then(|()| create())
            }
            cells => cells,
        };
        let mapped = cells.and_then(|cells| Mapped::open(|| Ok(cells))).map_err(|source| file.io(source))?;
        file.mapped.store(mapped.map(Arc::new));
        file.reserved.store(first, Ordering::Relaxed);
        Ok(file)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Index of the first unit.
    pub fn base(&self) -> i64 {
        self.base
    }

    /// Index behind the last unit that fits.
    pub fn end(&self) -> i64 {
        self.base + self.shape.per_file
    }

    pub(super) fn io(&self, source: io::Error) -> StoreError {
        StoreError::Io { path: self.path.clone(), source }
    }

    /// The mapping; made when there is none and the limit allows it.
    fn map(&self) -> Result<Guard<Option<Arc<Mapped>>>, StoreError> {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        let mapped = self.mapped.load();
        if mapped.is_some() {
            return Ok(mapped);
        }
        let open = || Cells::open(&self.path, self.shape.file_len());
        match Mapped::open(open).map_err(|source| self.io(source))? {
            Some(fresh) => {
                self.mapped.store(Some(Arc::new(fresh)));
                Ok(self.mapped.load())
            }
            None => Ok(mapped),
        }
    }

    /// The file for one access by system calls.
    fn open(&self) -> io::Result<File> {
        File::options().read(true).write(true).open(&self.path)
    }

    fn at(&self, index: i64) -> usize {
        (index - self.base) as usize * self.shape.unit_len
    }

    /// Copies units out, as many as fit `out` or the file holds behind `index` and before `end`; returns how many.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, index: i64, end: i64, out: &mut [u8]) -> Result<usize, StoreError> {
        let units = (end.min(self.end()) - index).max(0) as usize;
        let units = units.min(out.len() / self.shape.unit_len);
        let (at, out) = (self.at(index), &mut out[..units * self.shape.unit_len]);
        if self.gathers.load(Ordering::Acquire) && self.copy_out_memory(at, out) == (at, at + out.len()) {
            return Ok(units);
        }
        let mapped = self.map()?;
        self.copy_out(mapped.as_deref(), at, out)?;
        Ok(units)
    }

    /// Copies a unit out without mapping the file for it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn peek(&self, index: i64, out: &mut [u8]) -> Result<(), StoreError> {
        self.copy_out(self.mapped.load().as_deref(), self.at(index), out)
    }

    #[inline]
    fn copy_out(&self, mapped: Option<&Mapped>, at: usize, out: &mut [u8]) -> Result<(), StoreError> {
        if self.gathers.load(Ordering::Acquire) {
            return self.copy_out_gathered(mapped, at, out);
        }
        self.copy_from_file(mapped, at, out)
    }

    /// Copies out what of a range is in memory; returns from where to where.
    fn copy_out_memory(&self, at: usize, out: &mut [u8]) -> (usize, usize) {
        let gathered = self.gathered.lock();
        let from = gathered.at.clamp(at, at + out.len());
        let to = gathered.end().clamp(from, at + out.len());
        if from < to {
            out[from - at..to - at].copy_from_slice(&gathered.bytes[from - gathered.at..to - gathered.at]);
        }
        (from, to)
    }

    /// A part of what is read may be in memory.
    #[cold]
    fn copy_out_gathered(&self, mapped: Option<&Mapped>, at: usize, out: &mut [u8]) -> Result<(), StoreError> {
        let (from, to) = self.copy_out_memory(at, out);
        if from == to {
            return self.copy_from_file(mapped, at, out);
        }
        let (head, rest) = out.split_at_mut(from - at);
        self.copy_from_file(mapped, at, head)?;
        self.copy_from_file(mapped, to, &mut rest[to - from..])
    }

    fn copy_from_file(&self, mapped: Option<&Mapped>, at: usize, out: &mut [u8]) -> Result<(), StoreError> {
        match mapped {
            Some(mapped) => mapped.read(at, out),
            None if out.is_empty() => {}
            None => {
                let read = self.open().and_then(|file| file.read_exact_at(out, at as u64));
                read.map_err(|source| self.io(source))?;
            }
        }
        Ok(())
    }

    /// Writes a unit.
    ///
    /// # Errors
    /// The disk is full, or the system refuses; the unit is not there.
    pub(super) fn write(&self, index: i64, bytes: &[u8]) -> Result<(), StoreError> {
        match self.map()?.as_deref() {
            Some(mapped) => {
                self.forget()?;
                self.write_to(mapped, index, bytes)
            }
            None => self.gather(self.at(index), bytes),
        }
        .map(|_| ())
    }

    /// Returns where in memory the next unit goes.
    fn gather(&self, at: usize, bytes: &[u8]) -> Result<usize, StoreError> {
        let mut gathered = self.gathered.lock();
        if !gathered.takes(at, bytes.len()) {
            self.write_out(&mut gathered)?;
            gathered.turn(at, self.shape.unit_len);
        }
        gathered.push(bytes);
        self.gathers.store(true, Ordering::Release);
        Ok(gathered.bytes.as_ptr_range().end as usize)
    }

    /// Writes what is gathered into the file.
    ///
    /// # Errors
    /// The disk; it stays gathered.
    pub(super) fn spill(&self) -> Result<(), StoreError> {
        if self.gathers.load(Ordering::Relaxed) { self.write_out(&mut self.gathered.lock()) } else { Ok(()) }
    }

    fn write_out(&self, gathered: &mut Gathered) -> Result<(), StoreError> {
        let new = &gathered.bytes[gathered.written..];
        if new.is_empty() {
            return Ok(());
        }
        let at = (gathered.at + gathered.written) as u64;
        let written = failpoint::hit(Point::QueueSpill).and_then(|()| self.open()?.write_all_at(new, at));
        written.map_err(|source| self.io(source))?;
        gathered.written = gathered.bytes.len();
        Ok(())
    }

    /// Writes what is gathered into the file and keeps nothing of it: the file is going to be changed otherwise.
    ///
    /// # Errors
    /// The disk; it stays gathered.
    fn forget(&self) -> Result<(), StoreError> {
        if self.gathers.load(Ordering::Relaxed) {
            let mut gathered = self.gathered.lock();
            self.write_out(&mut gathered)?;
            *gathered = Gathered::default();
            self.gathers.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Writes a unit through the file's own mapping; nothing is gathered. Returns where in memory the next one goes.
    #[inline]
    fn write_to(&self, mapped: &Mapped, index: i64, bytes: &[u8]) -> Result<usize, StoreError> {
        let at = self.at(index);
        if at + bytes.len() > self.reserved.load(Ordering::Relaxed) {
            self.reserve(mapped.cells(), at, bytes.len())?;
        }
        mapped.put(at, bytes);
        failpoint::pass(Point::QueueUnit);
        Ok(mapped.cells().address(at + bytes.len()))
    }

    /// Reserves space for `len` bytes from `at` on and behind them: as much again as is there, at least a page and at most
    /// 64 KiB.
    #[cold]
    fn reserve(&self, cells: &Cells, at: usize, len: usize) -> Result<(), StoreError> {
        let ahead = at.clamp(4096, 65_536);
        let to = (at + ahead + len).next_multiple_of(4096).min(self.shape.file_len());
        failpoint::hit(Point::QueueReserve).and_then(|()| cells.reserve(at..to)).map_err(|source| self.io(source))?;
        if ahead == 65_536 {
            // A busy queue: cheaper than a fault for each page.
            cells.prefault(at..to);
        }
        self.reserved.store(to, Ordering::Relaxed);
        Ok(())
    }

    /// Overwrites a range of units with zeros.
    fn clear(&self, from: i64, to: i64) -> Result<(), StoreError> {
        self.forget()?;
        let zeros = vec![0; 65_536 / self.shape.unit_len.max(1) * self.shape.unit_len];
        let (mut at, to) = (self.at(from), self.at(to.max(from)));
        let mapped = self.map()?;
        let file = if mapped.is_some() { None } else { Some(self.open().map_err(|source| self.io(source))?) };
        while at < to {
            let len = zeros.len().min(to - at);
            match (mapped.as_deref(), &file) {
                (Some(mapped), _) => mapped.put(at, &zeros[..len]),
                (None, Some(file)) => {
                    file.write_all_at(&zeros[..len], at as u64).map_err(|source| self.io(source))?;
                }
                (None, None) => {}
            }
            at += len;
        }
        Ok(())
    }

    /// As [`UnitFile::clear`]; the zeros are on the device before anything else is written: what stood there must not come
    /// back behind new units.
    pub(super) fn clear_for_good(&self, from: i64, to: i64) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        self.clear(from, to)?;
        self.flush(from, to)
    }

    /// Puts a range of units on the device.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn flush(&self, from: i64, to: i64) -> Result<(), StoreError> {
        self.spill()?;
        let flush = || match self.map_if_any().as_deref() {
            Some(mapped) => mapped.cells().flush(self.at(from)..self.at(to)),
            None => self.sync_file(File::sync_data),
        };
        failpoint::hit(Point::QueueFlush).and_then(|()| flush()).map_err(|source| self.io(of_sync(source)))
    }

    /// Puts the file with its size and blocks on the device.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn sync_all(&self) -> Result<(), StoreError> {
        self.spill()?;
        let sync = || match self.map_if_any().as_deref() {
            Some(mapped) => mapped.cells().sync_all(),
            None => self.sync_file(File::sync_all),
        };
        failpoint::hit(Point::QueueFile).and_then(|()| sync()).map_err(|source| self.io(of_sync(source)))
    }

    fn map_if_any(&self) -> Guard<Option<Arc<Mapped>>> {
        self.mapped.load()
    }

    fn sync_file(&self, sync: fn(&File) -> io::Result<()>) -> io::Result<()> {
        let file = self.open()?;
        failpoint::tell(Event::Syncing(&file, 0, self.shape.file_len() as u64));
        sync(&file)?;
        failpoint::tell(Event::Synced(&file));
        Ok(())
    }

    /// Whether the file is mapped.
    pub(super) fn is_mapped(&self) -> bool {
        self.mapped.load().is_some()
    }

    /// Lets go of the mapping, unless the file was used since the last call and `idle` asks for that.
    pub(super) fn unmap(&self, idle: bool) {
        if !self.used.swap(false, Ordering::Relaxed) || !idle {
            self.mapped.store(None);
        }
    }
}

/// A file that is being written, held with its mapping, if it has one.
#[derive(Debug)]
pub struct LastFile {
    file: Arc<UnitFile>,
    mapped: Option<Arc<Mapped>>,
}

impl LastFile {
    /// `None` when the file cannot be written.
    pub(super) fn new(file: Arc<UnitFile>) -> Option<LastFile> {
        let mapped = file.map().ok()?.clone();
        if mapped.is_some() {
            file.forget().ok()?;
        }
        Some(LastFile { file, mapped })
    }

    /// Where in memory the file is described.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.file) as usize
    }

    /// Writes a unit; `None` when the file does not reach so far. Returns where in memory the next one goes.
    ///
    /// # Errors
    /// The disk is full.
    #[inline]
    pub fn write(&self, index: i64, bytes: &[u8]) -> Option<Result<usize, StoreError>> {
        let fits = self.file.base() <= index && index < self.file.end();
        fits.then(|| match &self.mapped {
            Some(mapped) => self.file.write_to(mapped, index, bytes),
            None => self.file.gather(self.file.at(index), bytes),
        })
    }
}
