//! The file `abort`: there while a broker runs, so its presence at the start says that the last one did not stop
//! cleanly.
//!
//! It holds the process id as text. Its former content goes to `abort.bak`, which stays after a clean stop (empty, when
//! there was no `abort` before), as Java leaves it.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

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
            std::fs::write(self.path.with_extension("bak"), before)?;
            std::fs::write(&self.path, std::process::id().to_string())?;
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
            other => other,
        };
        remove()
            .and_then(|()| sync_parent(&self.path))
            .map_err(|source| StoreError::Io { path: self.path.clone(), source })
    }
}

/// Makes the directory entry of a file durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) => std::fs::File::open(dir)?.sync_all(),
        None => Ok(()),
    }
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
