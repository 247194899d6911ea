//! Several live structs and the file that they came from: what UPDATE_BROKER_CONFIG, GET_BROKER_CONFIG and their name
//! server twins work on.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use thiserror::Error;

use crate::live::Live;
use crate::properties::Properties;
use crate::registry::{BadValue, Config, Key, dump};
use crate::setup::listed;

/// Why an update failed.
#[derive(Debug, Error)]
pub enum UpdateError {
    /// A value that its key cannot take; nothing was changed.
    #[error(transparent)]
    Value(#[from] BadValue),
    /// The values are in use, but the file could not be written; they are lost with the next start.
    #[error("{}: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Several [`Live`] structs with their file.
///
/// An update goes to every struct that has the key; keys that none has are ignored, as in Java. Changed keys are written
/// back to the file, whose other lines stay as they are; Java rewrites it with all keys.
pub struct LiveFile {
    structs: Vec<Arc<dyn AnyLive>>,
    file: Option<PathBuf>,
    content: Mutex<Properties>,
    version: AtomicU64,
}

impl LiveFile {
    /// No structs yet. `content` is what was read from `file`; without a file, changes last until the next start.
    pub fn new(file: Option<PathBuf>, content: Properties) -> Self {
        Self { structs: Vec::new(), file, content: Mutex::new(content), version: AtomicU64::new(0) }
    }

    /// Adds a struct. Where two have the same key, the list shows the value of the one added later.
    #[must_use]
    pub fn with<C: Config>(mut self, live: Arc<Live<C>>) -> Self {
        self.structs.push(live);
        self
    }

    /// Changes the keys that a struct has, all or, when a value is malformed, none; then writes the file.
    /// Returns the keys that were taken.
    pub fn update<K: AsRef<str>, V: AsRef<str>>(&self, pairs: &[(K, V)]) -> Result<Vec<&'static Key>, UpdateError> {
        // One update at a time, so that the file ends up with the values of the last one.
        let mut content = self.content.lock();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
        for live in &self.structs {
            live.check(&pairs)?;
        }
        let mut taken: Vec<&'static Key> = Vec::new();
        for live in &self.structs {
            live.update(&pairs)?;
            taken.extend(pairs.iter().filter_map(|(key, _)| live.key(key)));
        }
        self.version.fetch_add(1, Ordering::SeqCst);
        for (key, value) in pairs {
            if taken.iter().any(|known| known.setter == Some(key)) {
                content.set(key, value.trim());
            }
        }
        if let Some(file) = &self.file
            && !taken.is_empty()
        {
            replace(file, &content.to_bytes()).map_err(|source| UpdateError::Write { file: file.clone(), source })?;
        }
        Ok(taken)
    }

    /// The values of all structs, and what else the file has, as `key=value` lines sorted by key: the body of
    /// GET_BROKER_CONFIG and GET_NAMESRV_CONFIG.
    pub fn dump(&self) -> String {
        let mut all = listed(&self.content.lock());
        for live in &self.structs {
            live.merge_into(&mut all);
        }
        dump(&all)
    }

    /// How often the values were changed since the start: the counter of the data version that goes with the list.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
}

trait AnyLive: Send + Sync {
    fn key(&self, name: &str) -> Option<&'static Key>;
    fn check(&self, pairs: &[(&str, &str)]) -> Result<(), BadValue>;
    fn update(&self, pairs: &[(&str, &str)]) -> Result<usize, BadValue>;
    fn merge_into(&self, all: &mut BTreeMap<String, String>);
}

impl<C: Config> AnyLive for Live<C> {
    fn key(&self, name: &str) -> Option<&'static Key> {
        C::key(name)
    }

    fn check(&self, pairs: &[(&str, &str)]) -> Result<(), BadValue> {
        Live::check(self, pairs)
    }

    fn update(&self, pairs: &[(&str, &str)]) -> Result<usize, BadValue> {
        Live::update(self, pairs)
    }

    fn merge_into(&self, all: &mut BTreeMap<String, String>) {
        self.load().merge_into(all);
    }
}

/// Writes a new file beside the old one and puts it in its place, so that a crash leaves one or the other.
fn replace(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    if let Some(parent) = file.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut new = std::fs::File::create(&beside)?;
    new.write_all(bytes)?;
    new.sync_all()?;
    if let Ok(old) = std::fs::metadata(file) {
        new.set_permissions(old.permissions())?;
    }
    std::fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BrokerConfig, MessageStoreConfig, NettyServerConfig};

    fn live(file: &Path) -> (LiveFile, Arc<Live<BrokerConfig>>, Arc<Live<MessageStoreConfig>>) {
        let content = Properties::parse(&std::fs::read(file).unwrap()).unwrap();
        let broker = Arc::new(Live::new(BrokerConfig::default()));
        let store = Arc::new(Live::new(MessageStoreConfig::default()));
        let server = Arc::new(Live::new(NettyServerConfig { listen_port: 10911, ..Default::default() }));
        let all = LiveFile::new(Some(file.to_owned()), content)
            .with(Arc::clone(&broker))
            .with(server)
            .with(Arc::clone(&store));
        (all, broker, store)
    }

    #[test]
    fn an_update_reaches_all_structs_and_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("broker.conf");
        std::fs::write(&path, "# mine\nmaxMessageSize = 1\ncustomKey=x\n").unwrap();
        let (all, broker, store) = live(&path);
        let taken = all.update(&[("maxMessageSize", "2048"), ("brokerPermission", "4"), ("whatever", "1")]).unwrap();
        assert_eq!(taken.iter().map(|key| key.name).collect::<Vec<_>>(), ["brokerPermission", "maxMessageSize"]);
        assert_eq!((broker.load().broker_permission, store.load().max_message_size), (4, 2048));
        assert_eq!(all.version(), 1);
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written, "# mine\nmaxMessageSize=2048\ncustomKey=x\nbrokerPermission=4\n");
        let listed = all.dump();
        assert!(listed.contains("\nmaxMessageSize=2048\n") && listed.contains("\ncustomKey=x\n"));
        assert!(listed.contains("\nlistenPort=10911\n") && !listed.contains("whatever"));
        let mut sorted: Vec<_> = listed.lines().collect();
        sorted.sort_by_key(|line| line.split('=').next());
        assert_eq!(sorted, listed.lines().collect::<Vec<_>>());
    }

    #[test]
    fn a_malformed_value_changes_no_struct_and_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("broker.conf");
        std::fs::write(&path, "maxMessageSize=1\n").unwrap();
        let (all, broker, store) = live(&path);
        let error = all.update(&[("brokerPermission", "4"), ("maxMessageSize", "abc")]).unwrap_err();
        assert!(matches!(&error, UpdateError::Value(bad) if bad.key == "maxMessageSize"), "{error}");
        assert_eq!((broker.load().broker_permission, store.load().max_message_size), (6, 4_194_304));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "maxMessageSize=1\n");
        assert_eq!(all.version(), 0);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let blocker = dir.path().join("file");
        std::fs::write(&blocker, "").unwrap();
        let store = Arc::new(Live::new(MessageStoreConfig::default()));
        let all = LiveFile::new(Some(blocker.join("broker.conf")), Properties::default()).with(Arc::clone(&store));
        assert!(matches!(all.update(&[("maxMessageSize", "5")]), Err(UpdateError::Write { .. })));
        assert_eq!(store.load().max_message_size, 5);
    }
}
