//! A temporary directory that can be kept.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory that is removed at the end, unless `COMPAT_KEEP` is set.
pub struct Scratch {
    path: PathBuf,
    _guard: Option<TempDir>,
}

impl Scratch {
    /// Makes a new one.
    ///
    /// # Panics
    /// When the system's temporary directory takes no more.
    pub fn new() -> Self {
        let guard = tempfile::Builder::new().prefix("ferromq-").tempdir().expect("a temporary directory");
        let path = guard.path().to_owned();
        if std::env::var_os("COMPAT_KEEP").is_some() {
            println!("kept: {}", guard.keep().display());
            return Self { path, _guard: None };
        }
        Self { path, _guard: Some(guard) }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file or directory in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}
