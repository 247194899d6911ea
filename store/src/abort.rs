//! The file `abort`: there while a broker runs, so its presence at the start says that the last one did not stop
//! cleanly.
//!
//! It holds the process id as text. Its former content goes to `abort.bak`, which stays after a clean stop (empty, when
//! there was no `abort` before), as Java leaves it.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::failpoint::{self, Event, Point};

/// Where the file lies.
#[derive(Clone, Debug)]
pub struct AbortFile {
    path: PathBuf,
}

impl AbortFile {
    /// In a store's root directory.
    pub fn new(root: &Path) -> AbortFile {
        AbortFile { path: root.join("abort") }
    }

    /// Whether the last broker did not stop cleanly.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Makes the file durable before the first append is.
    ///
    /// # Errors
    /// The system refuses.
    pub fn create(&self) -> Result<(), StoreError> {
        let write = || {
            let before = match std::fs::read(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                other => other?,
            };
            failpoint::hit(Point::AbortBackup)?;
            std::fs::write(self.path.with_extension("bak"), before)?;
            failpoint::hit(Point::AbortWrite)?;
            std::fs::write(&self.path, std::process::id().to_string())?;
            failpoint::tell(Event::Created(&self.path));
            failpoint::hit(Point::AbortDir)?;
            sync_parent(&self.path)
        };
        write().map_err(|source| StoreError::Io { path: self.path.clone(), source })
    }

    /// Removes the file: everything is on disk.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove(&self) -> Result<(), StoreError> {
        let remove = || match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map(|()| failpoint::tell(Event::Removed(&self.path))),
        };
        failpoint::hit(Point::AbortRemove)
            .and_then(|()| remove())
            .and_then(|()| failpoint::hit(Point::AbortRemoved))
            .and_then(|()| sync_parent(&self.path))
            .map_err(|source| StoreError::Io { path: self.path.clone(), source })
    }
}

/// Makes the directory entry of a file durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) => sync_dir(dir),
        None => Ok(()),
    }
}

/// Makes a directory with its parents; the names that are new are durable.
pub(crate) fn create_dir(dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    std::fs::create_dir_all(dir)?;
    missing.iter().rev().try_for_each(|dir| match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => sync_dir(Path::new(".")),
    })
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    std::fs::File::open(dir)?.sync_all()?;
    failpoint::tell(Event::SyncedDir(dir));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let abort = AbortFile::new(dir.path());
        assert!(!abort.exists());
        abort.create().unwrap();
        assert!(abort.exists());
        let pid = std::process::id().to_string();
        assert_eq!(std::fs::read_to_string(dir.path().join("abort")).unwrap(), pid);
        assert_eq!(std::fs::read_to_string(dir.path().join("abort.bak")).unwrap(), "");
        abort.create().unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("abort.bak")).unwrap(), pid);
        abort.remove().unwrap();
        abort.remove().unwrap();
        assert!(!abort.exists());
        assert!(dir.path().join("abort.bak").exists());
    }
}
