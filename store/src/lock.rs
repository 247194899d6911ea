//! The file `lock`: one broker a store.
//!
//! Held by an fcntl byte lock, the kind that Java's `FileChannel.tryLock` takes, so a Java broker on the same directory
//! is refused and the other way round. Such locks belong to the process: a second store in the same process would not
//! be refused, and closing any descriptor of the file gives the lock up. So the open ones are noted here as well.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::LazyLock;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, fcntl_lock};

use crate::error::StoreError;

/// Device and inode of every lock file that this process holds.
static HELD: LazyLock<Mutex<HashSet<(u64, u64)>>> = LazyLock::new(Mutex::default);

/// Holds the store until it is dropped.
#[derive(Debug)]
pub struct StoreLock {
    id: (u64, u64),
    // Closing gives the lock up.
    file: Option<File>,
}

impl StoreLock {
    /// Takes the lock of the store in a root directory.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another store has it, or the system's refusal.
    pub fn take(root: &Path) -> Result<StoreLock, StoreError> {
        let path = root.join("lock");
        let io_error = |source| StoreError::Io { path: path.clone(), source };
        let mut held = HELD.lock();
        if std::fs::metadata(&path).is_ok_and(|meta| held.contains(&(meta.dev(), meta.ino()))) {
            return Err(StoreError::Locked { path });
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(io_error)?;
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match io::Error::from(error) {
            error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::PermissionDenied) => {
                StoreError::Locked { path: path.clone() }
            }
            error => io_error(error),
        })?;
        file.write_all(b"lock").map_err(io_error)?;
        let meta = file.metadata().map_err(io_error)?;
        let id = (meta.dev(), meta.ino());
        held.insert(id);
        Ok(StoreLock { id, file: Some(file) })
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        drop(self.file.take());
        held.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let lock = StoreLock::take(dir.path()).unwrap();
        assert!(matches!(StoreLock::take(dir.path()), Err(StoreError::Locked { .. })));
        assert_eq!(std::fs::read(dir.path().join("lock")).unwrap(), b"lock");
        drop(lock);
        drop(StoreLock::take(dir.path()).unwrap());
    }
}
