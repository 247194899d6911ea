//! A file of fixed size mapped shared and writable, and the system calls on it.
//!
//! Blocks are reserved before a file is mapped: writing to a hole on a full disk would be SIGBUS, while a failed
//! reservation is an error. The size is checked before mapping for the same reason.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::failpoint::{self, Event, Point};

/// The mapping of a whole file. Hands out its base pointer only inside this module's parent.
#[derive(Debug)]
pub(super) struct FileMap {
    path: PathBuf,
    file: File,
    map: MmapRaw,
}

impl FileMap {
    /// Makes a file of `len` zero bytes with its blocks reserved, and maps it. Nothing is left behind on an error.
    pub(super) fn create(path: &Path, len: usize) -> io::Result<FileMap> {
        FileMap::create_reserved(path, len, len)
    }

    /// As [`FileMap::create`] with blocks for the first `reserved` bytes only: whoever writes behind them must call
    /// [`FileMap::reserve_to`] first.
    pub(super) fn create_reserved(path: &Path, len: usize, reserved: usize) -> io::Result<FileMap> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        // The size first, in one step: a crash before the reservation leaves a file of the right size, not an odd one.
        let reserved = reserved.min(len) as u64;
        failpoint::tell(Event::Created(path));
        let made = failpoint::hit(Point::FileSize)
            .and_then(|()| file.set_len(len as u64))
            .and_then(|()| failpoint::hit(Point::FileReserve))
            .and_then(|()| reserve(&file, 0, reserved))
            .and_then(|()| map(&file, len));
        match made {
            Ok(map) => Ok(FileMap { path: path.to_owned(), file, map }),
            Err(error) => {
                let _ = remove(path);
                Err(error)
            }
        }
    }

    /// Maps an existing file, which must have exactly `len` bytes.
    pub(super) fn open(path: &Path, len: usize) -> io::Result<FileMap> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let found = file.metadata()?.len();
        if found != len as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the file has {found} bytes where {len} are expected"),
            ));
        }
        let map = map(&file, len)?;
        Ok(FileMap { path: path.to_owned(), file, map })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Start of the mapping; valid for `len()` bytes as long as `self` lives.
    pub(super) fn pointer(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// Writes the pages of the range to the device and waits for it.
    pub(super) fn flush(&self, from: usize, to: usize) -> io::Result<()> {
        let to = to.min(self.len());
        if from >= to {
            return Ok(());
        }
        failpoint::tell(Event::Syncing(&self.file, from as u64, to as u64));
        self.map.flush_range(from, to - from)?;
        failpoint::tell(Event::Synced(&self.file));
        Ok(())
    }

    /// Reserves blocks for the range, which then can be written without SIGBUS.
    pub(super) fn reserve_to(&self, from: usize, to: usize) -> io::Result<()> {
        let to = to.min(self.len());
        if from < to { reserve(&self.file, from as u64, (to - from) as u64) } else { Ok(()) }
    }

    /// Makes the file's own metadata (size, blocks) durable.
    pub(super) fn sync_all(&self) -> io::Result<()> {
        failpoint::tell(Event::Syncing(&self.file, 0, self.len() as u64));
        self.file.sync_all()?;
        failpoint::tell(Event::Synced(&self.file));
        Ok(())
    }

    /// Asks for the range's pages to be present and writable. Only a hint: errors (an old kernel) change nothing.
    pub(super) fn prefault(&self, from: usize, to: usize) {
        let to = to.min(self.len());
        if from < to {
            let _ = self.map.advise_range(Advice::PopulateWrite, from, to - from);
        }
    }

    /// Reads the range's pages in, if they are not there. A hint.
    pub(super) fn read_in(&self, from: usize, to: usize) {
        let to = to.min(self.len());
        if from < to {
            let _ = self.map.advise_range(Advice::PopulateRead, from, to - from);
        }
    }

    /// Tells the system whether to read ahead where the map is read. A hint.
    pub(super) fn advise_read_ahead(&self, on: bool) {
        let _ = self.map.advise(if on { Advice::Normal } else { Advice::Random });
    }

    /// Turns everything from `from` on into zeros with blocks reserved.
    ///
    /// What lies behind the last record must be zero: an old record there that happens to start where a new one ends
    /// would come back to life at the next recovery.
    pub(super) fn zero_from(&self, from: usize) -> io::Result<()> {
        let (at, len) = (from as u64, (self.len() - from) as u64);
        if len == 0 {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::ZERO_RANGE, at, len) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        match fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len) {
            Ok(()) => reserve(&self.file, at, len),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.write_zeros(at, len),
            Err(error) => Err(error.into()),
        }
    }

    fn write_zeros(&self, at: u64, len: u64) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        let zeros = vec![0u8; 1 << 20];
        let mut done = 0;
        while done < len {
            let now = (len - done).min(zeros.len() as u64);
            self.file.write_all_at(&zeros[..now as usize], at + done)?;
            done += now;
        }
        Ok(())
    }
}

/// Removes a file's name; one that is gone already is no error.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    removed(std::fs::remove_file(path), Event::Removed(path))
}

/// Removes a directory with all that is in it; one that is gone already is no error.
pub(crate) fn remove_dir(dir: &Path) -> io::Result<()> {
    removed(std::fs::remove_dir_all(dir), Event::RemovedDir(dir))
}

fn removed(result: io::Result<()>, event: Event<'_>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map(|()| failpoint::tell(event)),
    }
}

fn map(file: &File, len: usize) -> io::Result<MmapRaw> {
    MmapOptions::new().len(len).map_raw(file)
}

/// Reserves blocks for the range. A file system that cannot reserve leaves the file sparse.
fn reserve(file: &File, at: u64, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    loop {
        match fallocate(file, FallocateFlags::empty(), at, len) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            // Sparse then: better than no store at all on such a file system.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
