//! The files of one queue: units of fixed length, a fixed number a file, each file named by the byte offset of its
//! first unit.
//!
//! Everything here counts in *units*: unit `i` lies in the file whose range holds it. Files are mapped when they are
//! first used and can be unmapped again while nobody looks, so that a broker with very many queues does not hold a
//! mapping for each. Space is reserved a little ahead of the writer, not for the whole file: a topic with a thousand
//! queues would otherwise take gigabytes with its first messages.
//!
//! Threads: one writer (the owner's lock), any number of readers. A reader may only look at units that the owner has
//! published; files further back never change until they are deleted as a whole.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::error::StoreError;
use crate::segment::{Cells, file_name};

/// How the units of a kind of queue are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a unit.
    pub unit_len: usize,
    /// Units in a file.
    pub per_file: i64,
}

impl Shape {
    /// The shape for a configured file size in bytes, which is rounded up to whole units as Java does.
    pub fn new(unit_len: usize, file_size: i32) -> Shape {
        let bytes = usize::try_from(file_size).unwrap_or(0).max(1);
        Shape { unit_len, per_file: bytes.div_ceil(unit_len) as i64 }
    }

    /// Bytes of a file.
    pub fn file_len(self) -> usize {
        self.per_file as usize * self.unit_len
    }
}

/// One file of units.
#[derive(Debug)]
pub struct UnitFile {
    /// Index of the first unit.
    base: i64,
    shape: Shape,
    path: PathBuf,
    cells: ArcSwapOption<Cells>,
    /// Set by each use, cleared by [`UnitFiles::unmap_idle`].
    used: AtomicBool,
    /// Bytes with blocks behind them.
    reserved: AtomicUsize,
}

impl UnitFile {
    fn new(path: PathBuf, base: i64, shape: Shape) -> UnitFile {
        UnitFile {
            base,
            shape,
            path,
            cells: ArcSwapOption::empty(),
            used: AtomicBool::new(false),
            reserved: AtomicUsize::new(0),
        }
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

    fn io(&self, source: io::Error) -> StoreError {
        StoreError::Io { path: self.path.clone(), source }
    }

    /// The mapping, made when there is none.
    fn map(&self) -> Result<arc_swap::Guard<Option<Arc<Cells>>>, StoreError> {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        let cells = self.cells.load();
        if cells.is_some() {
            return Ok(cells);
        }
        let fresh = Arc::new(self.open_padded().map_err(|source| self.io(source))?);
        self.cells.store(Some(fresh));
        Ok(self.cells.load())
    }

    fn open_padded(&self) -> io::Result<Cells> {
        Cells::open(&self.path, self.shape.file_len())
    }

    /// Runs `with` over the words of the file.
    fn with<T>(&self, with: impl FnOnce(&Cells) -> T) -> Result<T, StoreError> {
        let guard = self.map()?;
        match guard.as_deref() {
            Some(cells) => Ok(with(cells)),
            // Unmapped between the two lines by the sweep.
            None => Ok(with(&self.open_padded().map_err(|source| self.io(source))?)),
        }
    }

    fn at(&self, index: i64) -> usize {
        (index - self.base) as usize * self.shape.unit_len
    }

    /// Copies units out, as many as fit `out` or the file holds behind `index` and before `end`; returns how many.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn read(&self, index: i64, end: i64, out: &mut [u8]) -> Result<usize, StoreError> {
        let units = (end.min(self.end()) - index).max(0) as usize;
        let units = units.min(out.len() / self.shape.unit_len);
        let at = self.at(index);
        self.with(|cells| read_bytes(cells, at, &mut out[..units * self.shape.unit_len]))?;
        Ok(units)
    }

    /// Copies a unit out without mapping the file for it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn peek(&self, index: i64, out: &mut [u8]) -> Result<(), StoreError> {
        if let Some(cells) = self.cells.load().as_deref() {
            read_bytes(cells, self.at(index), out);
            return Ok(());
        }
        let read = File::open(&self.path).and_then(|file| file.read_exact_at(out, self.at(index) as u64));
        read.map_err(|source| self.io(source))
    }

    /// Writes a unit.
    fn write(&self, index: i64, bytes: &[u8]) -> Result<(), StoreError> {
        self.with(|cells| self.write_to(cells, index, bytes))?
    }

    /// Writes a unit through the file's own mapping.
    #[inline]
    fn write_to(&self, cells: &Cells, index: i64, bytes: &[u8]) -> Result<(), StoreError> {
        let at = self.at(index);
        if at + bytes.len() > self.reserved.load(Ordering::Relaxed) {
            self.reserve(cells, at)?;
        }
        put_bytes(cells, at, bytes);
        Ok(())
    }

    /// Reserves space from `at` on: as much again as is there, at least a page and at most 64 KiB.
    #[cold]
    fn reserve(&self, cells: &Cells, at: usize) -> Result<(), StoreError> {
        let ahead = at.clamp(4096, 65_536);
        let to = (at + ahead + self.shape.unit_len).next_multiple_of(4096).min(self.shape.file_len());
        cells.reserve(at..to).map_err(|source| self.io(source))?;
        if ahead == 65_536 {
            // A busy queue: cheaper than a fault for each page.
            cells.prefault(at..to);
        }
        self.reserved.store(to, Ordering::Relaxed);
        Ok(())
    }

    /// Overwrites a range of units with zeros.
    fn clear(&self, from: i64, to: i64) -> Result<(), StoreError> {
        let zeros = vec![0; self.shape.unit_len];
        self.with(|cells| (from..to).for_each(|index| put_bytes(cells, self.at(index), &zeros)))
    }

    fn flush(&self, from: i64, to: i64) -> Result<(), StoreError> {
        self.with(|cells| cells.flush(self.at(from)..self.at(to)))?.map_err(|source| self.io(source))
    }

    /// Walks units from `from` on without mapping the file, until `each` says `false` or the file ends. Returns the
    /// index where it stopped.
    pub fn walk(&self, from: i64, mut each: impl FnMut(i64, &[u8]) -> bool) -> Result<i64, StoreError> {
        let file = File::open(&self.path).map_err(|source| self.io(source))?;
        let chunk = (65_536 / self.shape.unit_len).max(1) as i64;
        let mut buffer = vec![0; chunk.min(self.shape.per_file) as usize * self.shape.unit_len];
        let mut index = from;
        while index < self.end() {
            let units = chunk.min(self.end() - index) as usize;
            let bytes = &mut buffer[..units * self.shape.unit_len];
            file.read_exact_at(bytes, self.at(index) as u64).map_err(|source| self.io(source))?;
            for unit in bytes.chunks_exact(self.shape.unit_len) {
                if !each(index, unit) {
                    return Ok(index);
                }
                index += 1;
            }
        }
        Ok(index)
    }
}

/// A file that is being written, held with its mapping.
#[derive(Debug)]
pub struct LastFile {
    file: Arc<UnitFile>,
    cells: Arc<Cells>,
}

impl LastFile {
    /// Writes a unit; `None` when the file does not reach so far.
    ///
    /// # Errors
    /// The disk is full.
    #[inline]
    pub fn write(&self, index: i64, bytes: &[u8]) -> Option<Result<(), StoreError>> {
        let fits = self.file.base() <= index && index < self.file.end();
        fits.then(|| self.file.write_to(&self.cells, index, bytes))
    }
}

/// The files of a queue in order.
#[derive(Debug)]
pub struct UnitFiles {
    dir: PathBuf,
    shape: Shape,
    list: ArcSwap<Vec<Arc<UnitFile>>>,
    /// Files have been made since the last flush.
    fresh: AtomicBool,
    /// An empty last file was found; what it held is lost.
    lost_last: bool,
}

impl UnitFiles {
    /// No files. The directory need not exist.
    pub fn empty(dir: PathBuf, shape: Shape) -> UnitFiles {
        UnitFiles {
            dir,
            shape,
            list: ArcSwap::from_pointee(Vec::new()),
            fresh: AtomicBool::new(false),
            lost_last: false,
        }
    }

    /// Finds the files of a directory; none is mapped.
    ///
    /// # Errors
    /// A file whose length or name does not fit. As in Java an empty last file is removed instead, and directories
    /// are passed over.
    pub fn load(dir: PathBuf, shape: Shape) -> Result<UnitFiles, StoreError> {
        let io = |path: &Path, source| StoreError::Io { path: path.to_owned(), source };
        let mut found = Vec::new();
        for entry in fs::read_dir(&dir).map_err(|source| io(&dir, source))? {
            let path = entry.map_err(|source| io(&dir, source))?.path();
            let meta = fs::metadata(&path).map_err(|source| io(&path, source))?;
            if meta.is_file() {
                found.push((path, meta.len()));
            }
        }
        found.sort();
        let lost_last = matches!(found.last(), Some((_, 0)));
        if let Some((path, 0)) = found.last() {
            tracing::warn!(file = %path.display(), "the last queue file is empty: removed");
            fs::remove_file(path).map_err(|source| io(path, source))?;
            found.pop();
        }
        let mut files = Vec::with_capacity(found.len());
        for (path, len) in found {
            let corrupt = |what: String| StoreError::Corrupt { path: path.clone(), offset: 0, what };
            if len != shape.file_len() as u64 {
                return Err(corrupt(format!("the file has {len} bytes, the configuration says {}", shape.file_len())));
            }
            let base = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.parse::<i64>().ok())
                .filter(|base| *base >= 0 && base % shape.unit_len as i64 == 0)
                .ok_or_else(|| corrupt("the file's name is no offset of a unit".to_owned()))?;
            files.push(Arc::new(UnitFile::new(path, base / shape.unit_len as i64, shape)));
        }
        Ok(UnitFiles { list: ArcSwap::from_pointee(files), lost_last, ..UnitFiles::empty(dir, shape) })
    }

    /// Whether an empty last file was removed by [`UnitFiles::load`].
    pub fn lost_last(&self) -> bool {
        self.lost_last
    }

    /// The layout.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The files as they are now.
    pub fn snapshot(&self) -> Arc<Vec<Arc<UnitFile>>> {
        self.list.load_full()
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.list.load().is_empty()
    }

    /// The file that holds a unit.
    pub fn find(&self, index: i64) -> Option<Arc<UnitFile>> {
        let list = self.list.load();
        let behind = list.partition_point(|file| file.base() <= index);
        list.get(behind.checked_sub(1)?).filter(|file| index < file.end()).cloned()
    }

    /// Runs `with` over the file that holds a unit; `None` when there is none.
    fn with_file<T>(&self, index: i64, with: impl FnOnce(&UnitFile) -> T) -> Option<T> {
        let list = self.list.load();
        let last = list.last()?;
        // Nearly every look-up is for the last file.
        let file = if index >= last.base() {
            last
        } else {
            let behind = list.partition_point(|file| file.base() <= index);
            list.get(behind.checked_sub(1)?)?
        };
        (index < file.end()).then(|| with(file))
    }

    /// Copies a unit out; `false` where no file is.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn read(&self, index: i64, out: &mut [u8]) -> Result<bool, StoreError> {
        Ok(self.with_file(index, |file| file.read(index, index + 1, out)).transpose()? == Some(1))
    }

    /// The last file with its mapping, for a writer that keeps it as long as `index` lies in it. `None` when it does
    /// not, or the file cannot be mapped.
    pub fn last_for(&self, index: i64) -> Option<LastFile> {
        let file = self.list.load().last().filter(|file| file.base() <= index && index < file.end()).cloned()?;
        let cells = file.map().ok()?.clone()?;
        Some(LastFile { file, cells })
    }

    /// Writes a unit, in a new file when there is none for it yet: the caller goes from front to back.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub fn write(&self, index: i64, bytes: &[u8]) -> Result<(), StoreError> {
        match self.with_file(index, |file| file.write(index, bytes)) {
            Some(result) => result,
            None => self.create_for(index)?.write(index, bytes),
        }
    }

    #[cold]
    fn create_for(&self, index: i64) -> Result<Arc<UnitFile>, StoreError> {
        let list = self.list.load_full();
        // Behind the last file without a hole; the first file starts at a multiple of its length.
        let base = match list.last() {
            Some(last) => last.end() + (index - last.end()) / self.shape.per_file * self.shape.per_file,
            None => index - index % self.shape.per_file,
        };
        let path = self.dir.join(file_name(base as u64 * self.shape.unit_len as u64));
        let file = UnitFile::new(path, base, self.shape);
        let first = self.shape.file_len().min(4096);
        let create = || Cells::create_reserved(&file.path, self.shape.file_len(), first);
        let cells = match create() {
            // Not one of this queue's files: left by a topic that was deleted, when the system refused to remove it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                tracing::warn!(file = %file.path.display(), "a left-over queue file is replaced");
                fs::remove_file(&file.path).and_then(|()| create())
            }
            cells => cells,
        };
        let cells = cells.map_err(|source| file.io(source))?;
        file.cells.store(Some(Arc::new(cells)));
        file.reserved.store(first, Ordering::Relaxed);
        let file = Arc::new(file);
        let mut longer = Vec::clone(&list);
        longer.push(Arc::clone(&file));
        self.list.store(Arc::new(longer));
        self.fresh.store(true, Ordering::Release);
        Ok(file)
    }

    /// Zeros the units of a range that reaches to the end, and removes files that lie in it as a whole, except the
    /// first.
    ///
    /// # Errors
    /// The disk.
    pub fn cut(&self, from: i64, to: i64) -> Result<(), StoreError> {
        let mut list = Vec::clone(&self.list.load());
        while list.len() > 1
            && let Some(last) = list.pop_if(|last| last.base() >= from)
        {
            self.list.store(Arc::new(list.clone()));
            fs::remove_file(&last.path).map_err(|source| last.io(source))?;
        }
        match list.last() {
            Some(last) => last.clear(from.max(last.base()), to.min(last.end())),
            None => Ok(()),
        }
    }

    /// Deletes files from the front while `old` says so; the last file stays. Returns how many went.
    ///
    /// # Errors
    /// A name could not be removed; that file and the later ones stay.
    pub fn delete_first(&self, mut old: impl FnMut(&UnitFile) -> bool) -> Result<usize, StoreError> {
        let list = self.list.load_full();
        let mut gone = 0;
        while gone + 1 < list.len() && old(&list[gone]) {
            gone += 1;
            self.list.store(Arc::new(list[gone..].to_vec()));
            let path = &list[gone - 1].path;
            match fs::remove_file(path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::Io { path: path.clone(), source });
                }
                _ => {}
            }
        }
        Ok(gone)
    }

    /// Removes every file and the directory.
    ///
    /// # Errors
    /// The system refuses.
    pub fn delete_all(&self) -> Result<(), StoreError> {
        self.list.store(Arc::new(Vec::new()));
        match fs::remove_dir_all(&self.dir) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::Io { path: self.dir.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// Puts the units of a range on the device, and the names of files that are new.
    ///
    /// # Errors
    /// The device failed.
    pub fn flush(&self, from: i64, to: i64) -> Result<(), StoreError> {
        let fresh = self.fresh.swap(false, Ordering::AcqRel);
        let done = self.flush_range(from, to, fresh);
        if done.is_err() && fresh {
            self.fresh.store(true, Ordering::Release);
        }
        done
    }

    fn flush_range(&self, from: i64, to: i64, fresh: bool) -> Result<(), StoreError> {
        for file in self.list.load().iter().filter(|file| file.base() < to && from < file.end()) {
            file.flush(from.max(file.base()), to.min(file.end()))?;
            if fresh {
                file.with(Cells::sync_all)?.map_err(|source| file.io(source))?;
            }
        }
        if fresh {
            // The queue's own directory, the topic's and the one of all queues may be new.
            for dir in self.dir.ancestors().take(3) {
                File::open(dir)
                    .and_then(|dir| dir.sync_all())
                    .map_err(|source| StoreError::Io { path: dir.to_owned(), source })?;
            }
        }
        Ok(())
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        (self.list.load().len() * self.shape.file_len()) as u64
    }

    /// How many files are mapped.
    pub fn mapped(&self) -> usize {
        self.list.load().iter().filter(|file| file.cells.load().is_some()).count()
    }

    /// Unmaps the files that have not been used since the last call; returns how many stay mapped.
    pub fn unmap_idle(&self) -> usize {
        let list = self.list.load();
        for file in list.iter() {
            if !file.used.swap(false, Ordering::Relaxed) {
                file.cells.store(None);
            }
        }
        list.iter().filter(|file| file.cells.load().is_some()).count()
    }
}

/// Reads any range of bytes through the words that cover it.
fn read_bytes(cells: &Cells, at: usize, out: &mut [u8]) {
    if at.is_multiple_of(4) && out.len().is_multiple_of(4) {
        return cells.read(at, out);
    }
    for (i, byte) in out.iter_mut().enumerate() {
        let position = at + i;
        *byte = cells.load_u32(position & !3).to_be_bytes()[position & 3];
    }
}

/// Writes any range of bytes. The words at its ends are read and written back, which is safe with one writer a file.
fn put_bytes(cells: &Cells, at: usize, bytes: &[u8]) {
    if at.is_multiple_of(4) && bytes.len().is_multiple_of(4) {
        return cells.put(at, bytes);
    }
    let from = at & !3;
    let to = (at + bytes.len()).next_multiple_of(4).min(cells.len());
    for word in (from..to).step_by(4) {
        let mut whole = cells.load_u32(word).to_be_bytes();
        for (i, byte) in whole.iter_mut().enumerate() {
            if let Some(new) = (word + i).checked_sub(at).and_then(|i| bytes.get(i)) {
                *byte = *new;
            }
        }
        cells.store_u32(word, u32::from_be_bytes(whole));
    }
}
