//! The name server's configuration while it runs: what tools list and change.

use std::collections::{BTreeMap, HashSet};

use config::properties::Properties;
use config::{Config, Live, NamesrvConfig, NettyServerConfig, dump};
use parking_lot::Mutex;

use crate::kv;

/// Keys that nobody may change over the wire, whatever `configBlackList` says.
const LOCKED: [&str; 4] = ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"];

/// All configuration.
pub struct Settings {
    /// The name server's own keys.
    pub namesrv: Live<NamesrvConfig>,
    netty: Live<NettyServerConfig>,
    /// What else stood in the configuration file. Held while a change is made and written.
    others: Mutex<BTreeMap<String, String>>,
    locked: HashSet<String>,
}

/// Why a change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateError {
    /// Not in Java's `.properties` format.
    Syntax,
    /// It names a key of the black list.
    Locked,
}

impl Settings {
    /// The configuration of a start; `others` are the entries of the file that no struct has.
    pub fn new(namesrv: NamesrvConfig, netty: NettyServerConfig, others: BTreeMap<String, String>) -> Settings {
        let listed = namesrv.config_black_list.split(';').map(str::to_owned);
        let locked = LOCKED.iter().map(|key| (*key).to_owned()).chain(listed).collect();
        Settings { namesrv: Live::new(namesrv), netty: Live::new(netty), others: Mutex::new(others), locked }
    }

    /// All keys, as GET_NAMESRV_CONFIG lists them.
    pub fn list(&self) -> String {
        self.list_over(&self.others.lock())
    }

    fn list_over(&self, others: &BTreeMap<String, String>) -> String {
        let mut all = others.clone();
        self.namesrv.load().merge_into(&mut all);
        self.netty.load().merge_into(&mut all);
        dump(&all)
    }

    /// Takes a change in `.properties` format and writes all keys to `configStorePath`.
    ///
    /// Keys that there are not, and values that their keys cannot take, are passed over, as Java does.
    ///
    /// # Errors
    /// Not the format, or a locked key: then nothing is changed.
    pub fn update(&self, body: &[u8]) -> Result<(), UpdateError> {
        let properties = Properties::parse(body).map_err(|_| UpdateError::Syntax)?;
        if properties.entries().any(|entry| self.locked.contains(&entry.key)) {
            return Err(UpdateError::Locked);
        }
        let mut others = self.others.lock();
        for entry in properties.entries() {
            let pair = [(entry.key.as_str(), entry.value.as_str())];
            let taken = self.namesrv.update(&pair).and_then(|taken| Ok(taken + self.netty.update(&pair)?));
            match taken {
                Ok(0) => {
                    if let Some(value) = others.get_mut(&entry.key) {
                        value.clone_from(&entry.value);
                    } else {
                        tracing::warn!(key = entry.key, "no such key to update");
                    }
                }
                Ok(_) => tracing::info!(key = entry.key, value = entry.value, "configuration changed"),
                Err(error) => tracing::warn!(%error, "configuration not changed"),
            }
        }
        let path = self.namesrv.load().config_store_path.clone();
        if let Err(error) = kv::replace(path.as_ref(), self.list_over(&others).as_bytes()) {
            tracing::error!(file = path, %error, "configuration not written");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_listed_and_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("namesrv.conf");
        let namesrv = NamesrvConfig { config_store_path: file.display().to_string(), ..NamesrvConfig::default() };
        let others = [("user.key".to_owned(), "1".to_owned())].into();
        let settings = Settings::new(namesrv, NettyServerConfig::default(), others);
        settings.update(b"orderMessageEnable=true\nnope=1\nuser.key=2\nwaitSecondsForService=x\n").unwrap();
        let list = settings.list();
        assert!(settings.namesrv.load().order_message_enable);
        assert!(list.contains("\norderMessageEnable=true\n") && list.contains("\nuser.key=2\n"), "{list}");
        assert!(list.contains("\nwaitSecondsForService=45\n") && !list.contains("nope"), "{list}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), list);
        for locked in LOCKED {
            let body = format!("{locked}=x\nwaitSecondsForService=1\n");
            assert_eq!(settings.update(body.as_bytes()), Err(UpdateError::Locked));
        }
        assert_eq!(settings.update(b"a=\\u00"), Err(UpdateError::Syntax));
        assert_eq!(settings.list(), list);
    }
}
