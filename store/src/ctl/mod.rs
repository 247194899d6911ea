//! Looks at a store directory without opening it as a broker does: nothing is locked, mapped writable, or changed.
//! What `store-ctl` prints comes from here.
//!
//! It works on stores that a Java broker left, damaged ones included; but on a store that is in use it may see the
//! middle of a change.

mod check;
mod diff;
mod dump;
mod index;
mod log;
mod queues;

use std::io;
use std::path::{Path, PathBuf};

use config::{Config, MessageStoreConfig};
use thiserror::Error;

pub use check::{Findings, check};
pub use diff::diff;
pub use dump::{DumpFilter, What, dump};

use crate::index::Geometry;
use index::IndexDump;
use log::LogFile;
use queues::QueueDump;

/// Why the tool cannot go on.
#[derive(Debug, Error)]
pub enum CtlError {
    /// Not a store.
    #[error("{}: no store here (a store has a directory `commitlog`)", .0.display())]
    NoStore(PathBuf),
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what its name says.
    #[error("{}: {what}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The output cannot be written.
    #[error("the output cannot be written: {0}")]
    Output(#[from] io::Error),
}

/// A store directory.
#[derive(Debug)]
pub struct StoreDir {
    root: PathBuf,
    geometry: Geometry,
}

impl StoreDir {
    /// The store below a directory. The size of the hash tables of the index is not in the files: it is taken from
    /// `conf`, a broker's configuration file, else from `broker.conf` beside the directory or in it, else it is the
    /// default.
    ///
    /// # Errors
    /// No store is there, or the configuration file cannot be read.
    pub fn open(root: &Path, conf: Option<&Path>) -> Result<StoreDir, CtlError> {
        if !root.join("commitlog").is_dir() {
            return Err(CtlError::NoStore(root.to_owned()));
        }
        let beside = [root.join("../broker.conf"), root.join("broker.conf")];
        let conf = conf.or_else(|| beside.iter().map(PathBuf::as_path).find(|path| path.is_file()));
        let mut config = MessageStoreConfig::default();
        if let Some(path) = conf {
            let bytes = std::fs::read(path).map_err(|source| read_error(path, source))?;
            let bad = |what: String| CtlError::Bad { path: path.to_owned(), what };
            let properties = config::properties::Properties::parse(&bytes).map_err(|error| bad(error.to_string()))?;
            for key in ["maxHashSlotNum", "maxIndexNum"] {
                if let Some(value) = properties.get(key) {
                    config.set(key, value).map_err(|error| bad(error.to_string()))?;
                }
            }
        }
        let geometry = Geometry::new(config.max_hash_slot_num, config.max_index_num);
        Ok(StoreDir { root: root.to_owned(), geometry })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn log_files(&self) -> Result<Vec<LogFile>, CtlError> {
        LogFile::all(&self.root.join("commitlog"))
    }

    fn queues(&self) -> Result<Vec<QueueDump>, CtlError> {
        let mut found = QueueDump::all(&self.root.join("consumequeue"), false)?;
        found.extend(QueueDump::all(&self.root.join("batchconsumequeue"), true)?);
        Ok(found)
    }

    fn index_files(&self) -> Result<Vec<IndexDump>, CtlError> {
        IndexDump::all(&self.root.join("index"), self.geometry)
    }

    /// The six numbers of the checkpoint, by name.
    fn checkpoint(&self) -> Result<Vec<(&'static str, i64)>, CtlError> {
        const NAMES: [&str; 6] = [
            "physicMsgTimestamp",
            "logicsMsgTimestamp",
            "indexMsgTimestamp",
            "masterFlushedOffset",
            "confirmPhyOffset",
            "logicsPhysicalOffset",
        ];
        let path = self.root.join("checkpoint");
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            bytes => bytes.map_err(|source| read_error(&path, source))?,
        };
        if bytes.len() < 8 * NAMES.len() {
            let what = format!("the file has {} bytes, a checkpoint has 4096", bytes.len());
            return Err(CtlError::Bad { path, what });
        }
        Ok(NAMES.into_iter().zip(bytes.as_chunks::<8>().0.iter().map(|long| i64::from_be_bytes(*long))).collect())
    }
}

fn read_error(path: &Path, source: io::Error) -> CtlError {
    CtlError::Read { path: path.to_owned(), source }
}

/// The entries of a directory, sorted; none when it does not exist.
fn list(dir: &Path) -> Result<Vec<PathBuf>, CtlError> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|source| read_error(dir, source))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        found.push(entry.map_err(|source| read_error(dir, source))?.path());
    }
    found.sort();
    Ok(found)
}

/// The offset that a file is named by.
fn offset_of(path: &Path) -> Result<u64, CtlError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.parse().map_err(|_| CtlError::Bad { path: path.to_owned(), what: "the name is no offset".to_owned() })
}

#[cfg(test)]
mod tests;
