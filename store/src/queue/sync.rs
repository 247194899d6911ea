//! Syncing whole file systems.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::error::{StoreError, of_sync};
use crate::failpoint::{self, Event, Point};

/// Whether the system tells of a write that failed: Linux does since 5.8.
pub(super) fn works() -> bool {
    static WORKS: LazyLock<bool> = LazyLock::new(|| {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers = release.split(|char: char| !char.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 8)
    });
    *WORKS
}

/// Puts everything on the devices that the file systems of these directories have; one that is not there is left out.
///
/// # Errors
/// A device failed.
pub(super) fn all(dirs: &[&PathBuf]) -> Result<(), StoreError> {
    let mut done = BTreeSet::new();
    for dir in dirs.iter().filter(|dir| dir.is_dir()) {
        sync_once(dir, &mut done).map_err(|source| StoreError::Io { path: dir.to_path_buf(), source })?;
    }
    Ok(())
}

/// Syncs the file system of a directory; `done` are the devices that are synced already.
fn sync_once(dir: &Path, done: &mut BTreeSet<u64>) -> io::Result<()> {
    let file = File::open(dir)?;
    if !done.insert(file.metadata()?.dev()) {
        return Ok(());
    }
    failpoint::hit(Point::QueueSync).map_err(of_sync)?;
    failpoint::tell(Event::SyncingAll(dir));
    rustix::fs::syncfs(&file).map_err(|error| of_sync(error.into()))?;
    failpoint::tell(Event::SyncedAll(dir));
    Ok(())
}
