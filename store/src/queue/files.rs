//! The files of one queue: units of fixed length, a fixed number a file, each file named by the byte offset of its
//! first unit.
//!
//! Everything here counts in *units*: unit `i` lies in the file whose range holds it. One file: `unit_file.rs`. Space is reserved a little ahead of the writer, not for the whole file: a topic with a thousand
//! queues would otherwise take gigabytes with its first messages.
//!
//! Threads: one writer (the owner's lock), any number of readers. A reader may only look at units that the owner has
//! published; files further back never change until they are deleted as a whole.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

use super::listing::{self, Listed};
use super::mapped::is_short_of_mappings;
pub use super::unit_file::{LastFile, UnitFile};
use crate::abort::sync_dir;
use crate::error::{StoreError, of_sync};
use crate::failpoint::{self, Point};
use crate::segment::{file_name, remove, remove_dir};

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

    /// Finds the files of a directory; none is mapped. Also returns the last one, opened.
    ///
    /// # Errors
    /// A file whose length or name does not fit. As in Java an empty last file is removed instead, and directories
    /// are passed over.
    pub(super) fn load(dir: PathBuf, shape: Shape) -> Result<(UnitFiles, Option<File>), StoreError> {
        let io = |path: &Path, source| StoreError::Io { path: path.to_owned(), source };
        let mut found = listing::files(&dir).map_err(|source| io(&dir, source))?;
        let lost_last = matches!(found.last(), Some(last) if last.len == 0);
        if let Some(last) = found.pop_if(|last| last.len == 0) {
            let path = dir.join(last.name);
            tracing::warn!(file = %path.display(), "the last queue file is empty: removed");
            remove(&path).map_err(|source| io(&path, source))?;
        }
        let mut files = Vec::with_capacity(found.len());
        let mut opened = None;
        for Listed { name, len, opened: last } in found {
            let path = dir.join(&name);
            let corrupt = |what: String| StoreError::Corrupt { path: path.clone(), offset: 0, what };
            if len != shape.file_len() as u64 {
                return Err(corrupt(format!("the file has {len} bytes, the configuration says {}", shape.file_len())));
            }
            let base = name
                .parse::<i64>()
                .ok()
                .filter(|base| *base >= 0 && base % shape.unit_len as i64 == 0)
                .ok_or_else(|| corrupt("the file's name is no offset of a unit".to_owned()))?;
            files.push(Arc::new(UnitFile::new(path, base / shape.unit_len as i64, shape)));
            opened = last;
        }
        Ok((UnitFiles { list: ArcSwap::from_pointee(files), lost_last, ..UnitFiles::empty(dir, shape) }, opened))
    }

    /// A first file alone, which is there.
    pub(super) fn first(dir: PathBuf, shape: Shape) -> UnitFiles {
        let first = UnitFile::new(dir.join(file_name(0)), 0, shape);
        UnitFiles { list: ArcSwap::from_pointee(vec![Arc::new(first)]), ..UnitFiles::empty(dir, shape) }
    }

    /// Whether an empty last file was removed when the directory was read.
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

    /// How many files there are.
    pub fn count(&self) -> usize {
        self.list.load().len()
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

    /// The last file with its mapping, for a writer that keeps it as long as `index` lies in it, and no longer than to the
    /// next [`UnitFiles::unmap_idle`]. `None` when it does not.
    pub fn last_for(&self, index: i64) -> Option<LastFile> {
        let file = self.list.load().last().filter(|file| file.base() <= index && index < file.end()).cloned()?;
        LastFile::new(file)
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
        let file = UnitFile::create(path, base, self.shape)?;
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
        let mut removed = false;
        while list.len() > 1
            && let Some(last) = list.pop_if(|last| last.base() >= from)
        {
            self.list.store(Arc::new(list.clone()));
            remove(last.path()).map_err(|source| last.io(source))?;
            removed = true;
        }
        if removed {
            sync_dir(&self.dir).map_err(|source| StoreError::Io { path: self.dir.clone(), source })?;
        }
        match list.last() {
            Some(last) => last.clear_for_good(from.max(last.base()), to.min(last.end())),
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
            remove(list[gone - 1].path()).map_err(|source| list[gone - 1].io(source))?;
        }
        Ok(gone)
    }

    /// Removes every file and the directory.
    ///
    /// # Errors
    /// The system refuses.
    pub fn delete_all(&self) -> Result<(), StoreError> {
        self.list.store(Arc::new(Vec::new()));
        remove_dir(&self.dir).map_err(|source| StoreError::Io { path: self.dir.clone(), source })
    }

    /// Zeros what stands behind a unit in its file, which is the last one.
    ///
    /// # Errors
    /// The disk.
    pub fn clear_behind(&self, end: i64) -> Result<(), StoreError> {
        let Some(file) = self.find(end) else { return Ok(()) };
        match file.written_behind(end).map_err(|source| file.io(source))? {
            Some(last) => file.clear_for_good(end, last.min(file.end())),
            None => Ok(()),
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
                file.sync_all()?;
            }
        }
        if fresh {
            // The queue's own directory, the topic's and the one of all queues may be new: their names are in the one above.
            for dir in self.dir.ancestors().take(4) {
                failpoint::hit(Point::QueueDir)
                    .and_then(|()| sync_dir(dir))
                    .map_err(|source| StoreError::Io { path: dir.to_owned(), source: of_sync(source) })?;
            }
        }
        Ok(())
    }

    /// Takes sizes and names of the files for not being on the device yet.
    pub fn distrust(&self) {
        self.fresh.store(true, Ordering::Release);
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        (self.list.load().len() * self.shape.file_len()) as u64
    }

    /// How many files are mapped.
    pub fn mapped(&self) -> usize {
        self.list.load().iter().filter(|file| file.is_mapped()).count()
    }

    /// Unmaps the files that have not been used since the last call; all when the process is short of mappings, so that those
    /// that are used most get them. Returns how many stay mapped.
    pub fn unmap_idle(&self) -> usize {
        let idle = !is_short_of_mappings();
        self.list.load().iter().for_each(|file| file.unmap(idle));
        self.mapped()
    }

    /// Writes what is gathered in memory into the files, which need a sync afterwards. Returns whether names and sizes of
    /// files are new as well.
    ///
    /// # Errors
    /// The disk.
    pub(super) fn spill(&self) -> Result<bool, StoreError> {
        let fresh = self.fresh.swap(false, Ordering::AcqRel);
        let done = self.list.load().iter().try_for_each(|file| file.spill());
        if done.is_err() && fresh {
            self.distrust();
        }
        done.map(|()| fresh)
    }
}
