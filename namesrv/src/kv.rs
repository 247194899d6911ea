//! The key-value configuration: the only thing that a name server keeps on disk.
//!
//! The file is Java's: `{"configTable":{"NAMESPACE":{"key":"value"}}}`, the former content beside it as `.bak`. A write goes to
//! a temporary file that is synced and renamed, so a crash leaves the old or the new content.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, RwLock};
use remoting::body::fastjson::{self, JsonError};
use remoting::body::kv::{KvConfigTable, KvTable};
use thiserror::Error;

/// The namespace that says on which brokers an ordered topic has how many queues.
pub const ORDER_TOPIC_CONFIG: &str = "ORDER_TOPIC_CONFIG";

/// Why the file could not be loaded. The operator's business.
#[derive(Debug, Error)]
pub enum KvError {
    /// The file is there but cannot be read.
    #[error("{}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{}: {source}", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: JsonError,
    },
}

/// All namespaces.
pub struct KvStore {
    table: RwLock<BTreeMap<String, BTreeMap<String, String>>>,
    file: PathBuf,
    /// Held while the file is written, so that a later state is never replaced by an earlier one.
    writing: Mutex<()>,
}

impl KvStore {
    /// Loads the file; a missing or empty one is an empty table.
    ///
    /// # Errors
    /// A file that cannot be read or understood: it would be overwritten by the next change.
    pub fn load(file: &Path) -> Result<KvStore, KvError> {
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(KvError::Read { file: file.to_owned(), source }),
        };
        let table: Option<KvConfigTable> =
            fastjson::from_slice(&bytes).map_err(|source| KvError::Content { file: file.to_owned(), source })?;
        Ok(KvStore {
            table: RwLock::new(table.unwrap_or_default().config_table),
            file: file.to_owned(),
            writing: Mutex::new(()),
        })
    }

    /// A value.
    pub fn get(&self, namespace: &str, key: &str) -> Option<String> {
        self.table.read().get(namespace)?.get(key).cloned()
    }

    /// One namespace as the body of an answer; `None` when it was never used.
    pub fn list(&self, namespace: &str) -> Option<Vec<u8>> {
        let table = KvTable { table: self.table.read().get(namespace)?.clone() };
        fastjson::to_vec(&table).inspect_err(|error| tracing::error!(%error, "KV table")).ok()
    }

    /// Sets a value and writes the file. As in Java a failure to write is logged, and the value holds until the end.
    pub fn put(&self, namespace: &str, key: &str, value: &str) {
        let former = {
            let mut table = self.table.write();
            table.entry(namespace.to_owned()).or_default().insert(key.to_owned(), value.to_owned())
        };
        tracing::info!(namespace, key, value, new = former.is_none(), "KV configuration set");
        self.persist();
    }

    /// Removes a value and writes the file. The namespace stays.
    pub fn delete(&self, namespace: &str, key: &str) {
        let former = self.table.write().get_mut(namespace).and_then(|table| table.remove(key));
        tracing::info!(namespace, key, value = former, "KV configuration deleted");
        self.persist();
    }

    fn persist(&self) {
        let _writing = self.writing.lock();
        let table = KvConfigTable { config_table: self.table.read().clone() };
        let result = fastjson::to_vec(&table).map_err(io::Error::other).and_then(|bytes| replace(&self.file, &bytes));
        if let Err(error) = result {
            tracing::error!(file = %self.file.display(), %error, "KV configuration not written");
        }
    }
}

/// Replaces a file's content, keeping the former one as `.bak`.
///
/// # Errors
/// What the system says; the file then has its former content.
pub fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    fs::create_dir_all(folder)?;
    let beside = |suffix: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    if file.exists() {
        fs::copy(file, beside(".bak"))?;
    }
    let temporary = beside(".tmp");
    let mut out = File::create(&temporary)?;
    out.write_all(content)?;
    out.sync_all()?;
    fs::rename(&temporary, file)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_in_javas_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("namesrv/kvConfig.json");
        let kv = KvStore::load(&file).unwrap();
        kv.put(ORDER_TOPIC_CONFIG, "TopicOrder", "broker-a:4");
        let golden = r#"{"configTable":{"ORDER_TOPIC_CONFIG":{"TopicOrder":"broker-a:4"}}}"#;
        assert_eq!(fs::read_to_string(&file).unwrap(), golden);
        assert_eq!(kv.list(ORDER_TOPIC_CONFIG).unwrap(), br#"{"table":{"TopicOrder":"broker-a:4"}}"#);
        kv.delete(ORDER_TOPIC_CONFIG, "TopicOrder");
        assert_eq!(fs::read_to_string(&file).unwrap(), r#"{"configTable":{"ORDER_TOPIC_CONFIG":{}}}"#);
        assert_eq!(fs::read_to_string(folder.path().join("namesrv/kvConfig.json.bak")).unwrap(), golden);
        let again = KvStore::load(&file).unwrap();
        assert_eq!(again.list(ORDER_TOPIC_CONFIG).unwrap(), br#"{"table":{}}"#);
        assert_eq!(again.list("OTHER"), None);
        assert_eq!(again.get(ORDER_TOPIC_CONFIG, "TopicOrder"), None);
    }

    #[test]
    fn a_damaged_file_stops_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kvConfig.json");
        fs::write(&file, "{\"configTable\":").unwrap();
        assert!(matches!(KvStore::load(&file), Err(KvError::Content { .. })));
        fs::write(&file, "").unwrap();
        assert!(KvStore::load(&file).is_ok());
    }
}
