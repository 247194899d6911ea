//! Reads one configuration file into several structs at once, as the Java servers do.
//!
//! A key goes into every struct that has it (`listenPort` is one of two). Unlike Java, which passes over what it does
//! not understand, this reports an unknown key or one without effect as a [`Warning`] and stops at a value that cannot
//! be read: a typing error must not silently become a default.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::properties::{Entry, Properties, SyntaxError};
use crate::registry::{BadValue, Config, Effect, Key};

/// Why a file could not be used.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not in Java's format.
    #[error("{}:{}: malformed \\uXXXX escape", file.display(), source.line)]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Where.
        source: SyntaxError,
    },
    /// A key has a value that it cannot take.
    #[error("{}:{line}: {source}", file.display())]
    Value {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Key, value, and what was expected.
        source: BadValue,
    },
}

/// Something in a file that does not stop the start but that the operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// The key.
    pub key: String,
    /// What is the matter with it.
    pub reason: Reason,
}

/// What is the matter with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No struct has the key; there may be one that looks like it.
    Unknown {
        /// A key that differs only in upper and lower case.
        similar: Option<&'static str>,
    },
    /// The key is listed, but cannot be set from a file; there may be another name for that.
    Fixed {
        /// The name that sets it.
        instead: Option<&'static str>,
    },
    /// The key is accepted, but nothing depends on it, and its value is not the default.
    NoEffect {
        /// The value in the file.
        value: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, key, reason } = self;
        write!(f, "{}:{line}: ", file.display())?;
        match reason {
            Reason::Unknown { similar: Some(similar) } => write!(f, "unknown key {key}, is {similar} meant?"),
            Reason::Unknown { similar: None } => write!(f, "unknown key {key}"),
            Reason::Fixed { instead: Some(instead) } => write!(f, "key {key} is set by the name {instead}"),
            Reason::Fixed { instead: None } => write!(f, "key {key} cannot be set"),
            Reason::NoEffect { value } => write!(f, "key {key} has no effect yet; {value} is ignored"),
        }
    }
}

/// A struct to read into; every [`Config`] is one.
pub trait Target {
    /// The struct's keys.
    fn keys(&self) -> &'static [Key];
    /// See [`Config::set`].
    fn set(&mut self, key: &str, value: &str) -> Result<bool, BadValue>;
    /// True when `value` is what the key has by default.
    fn is_default(&self, key: &Key, value: &str) -> bool;
    /// See [`Config::merge_into`].
    fn merge_into(&self, all: &mut BTreeMap<String, String>);
}

impl<C: Config> Target for C {
    fn keys(&self) -> &'static [Key] {
        C::keys()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<bool, BadValue> {
        Config::set(self, key, value)
    }

    fn is_default(&self, key: &Key, value: &str) -> bool {
        let default = C::default();
        let mut changed = default.clone();
        key.setter.is_some_and(|setter| Config::set(&mut changed, setter, value).is_ok())
            && changed.get(key.name) == default.get(key.name)
    }

    fn merge_into(&self, all: &mut BTreeMap<String, String>) {
        Config::merge_into(self, all);
    }
}

/// Reads the file at `path` into `targets`. Returns its content as well: what no struct has is still listed by
/// `mqadmin`, and the file can be rewritten from it.
pub fn read(path: &Path, targets: &mut [&mut dyn Target]) -> Result<(Properties, Vec<Warning>), LoadError> {
    let bytes = std::fs::read(path).map_err(|source| LoadError::Read { file: path.to_owned(), source })?;
    parse(path, &bytes, targets)
}

/// Like [`read`], with the content at hand; `path` only serves for messages.
pub fn parse(
    path: &Path,
    bytes: &[u8],
    targets: &mut [&mut dyn Target],
) -> Result<(Properties, Vec<Warning>), LoadError> {
    let properties = Properties::parse(bytes).map_err(|source| LoadError::Syntax { file: path.to_owned(), source })?;
    let mut warnings = Vec::new();
    for entry in properties.entries() {
        let replaced = properties.entry(&entry.key).is_some_and(|last| last.line != entry.line);
        if replaced {
            continue;
        }
        for target in targets.iter_mut() {
            target.set(&entry.key, &entry.value).map_err(|source| LoadError::Value {
                file: path.to_owned(),
                line: entry.line,
                source,
            })?;
        }
        if let Some(reason) = objection(entry, targets) {
            warnings.push(Warning { file: path.to_owned(), line: entry.line, key: entry.key.clone(), reason });
        }
    }
    Ok((properties, warnings))
}

fn objection(entry: &Entry, targets: &[&mut dyn Target]) -> Option<Reason> {
    let known = || targets.iter().flat_map(|target| target.keys().iter().map(move |key| (target, key)));
    let mut setters = known().filter(|(_, key)| key.setter == Some(&entry.key)).peekable();
    if setters.peek().is_none() {
        return Some(match known().find(|(_, key)| key.name == entry.key) {
            Some((_, key)) => Reason::Fixed { instead: key.setter },
            None => Reason::Unknown {
                similar: known().filter_map(|(_, key)| key.setter).find(|name| name.eq_ignore_ascii_case(&entry.key)),
            },
        });
    }
    let ignored = setters.all(|(target, key)| key.effect == Effect::Inert && !target.is_default(key, &entry.value));
    ignored.then(|| Reason::NoEffect { value: entry.value.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BrokerConfig, MessageStoreConfig, NettyClientConfig, NettyServerConfig};

    fn load(text: &str) -> Result<(BrokerConfig, NettyServerConfig, MessageStoreConfig, Vec<String>), String> {
        let mut broker = BrokerConfig::default();
        let mut server = NettyServerConfig::default();
        let mut client = NettyClientConfig::default();
        let mut store = MessageStoreConfig::default();
        let mut targets: [&mut dyn Target; 4] = [&mut broker, &mut server, &mut client, &mut store];
        let (_, warnings) =
            parse(Path::new("conf/broker.conf"), text.as_bytes(), &mut targets).map_err(|error| error.to_string())?;
        Ok((broker, server, store, warnings.iter().map(ToString::to_string).collect()))
    }

    #[test]
    fn one_file_fills_every_struct_that_has_the_key() {
        let (broker, server, store, warnings) = load(
            "brokerName = broker-a\nlistenPort=10911\nflushDiskType=SYNC_FLUSH\n# x\nbrokerName: broker-b \nbrokerId=oops\nbrokerId=0",
        )
        .unwrap();
        assert_eq!(broker.broker_name, "broker-b");
        assert_eq!((broker.listen_port, server.listen_port), (10911, 10911));
        assert_eq!(store.flush_disk_type, crate::FlushDiskType::Sync);
        assert_eq!(warnings, [""; 0]);
    }

    #[test]
    fn a_malformed_value_names_file_line_key_and_what_was_expected() {
        assert_eq!(
            load("\nflushDiskType=sync").unwrap_err(),
            "conf/broker.conf:2: flushDiskType=sync: expected SYNC_FLUSH or ASYNC_FLUSH"
        );
        assert_eq!(
            load("autoCreateTopicEnable=yes").unwrap_err(),
            "conf/broker.conf:1: autoCreateTopicEnable=yes: expected true or false"
        );
        assert_eq!(load("a=\\u00").unwrap_err(), "conf/broker.conf:1: malformed \\uXXXX escape");
        let mut broker = BrokerConfig::default();
        let error = read(Path::new("/no/such/file"), &mut [&mut broker]).unwrap_err();
        assert!(error.to_string().starts_with("/no/such/file: "), "{error}");
    }

    #[test]
    fn unknown_and_ignored_keys_are_named() {
        let (_, _, _, warnings) = load(
            "rocketmq.namesrv.domain=x\nBrokerName=b\nisScanAvailableNameSrv=true\nisBrokerContainer=true\nwarmMapedFileEnable=true\nuseABSLock=FALSE\n",
        )
        .unwrap();
        assert_eq!(
            warnings,
            [
                "conf/broker.conf:1: unknown key rocketmq.namesrv.domain",
                "conf/broker.conf:2: unknown key BrokerName, is brokerName meant?",
                "conf/broker.conf:3: key isScanAvailableNameSrv is set by the name scanAvailableNameSrv",
                "conf/broker.conf:4: key isBrokerContainer cannot be set",
                "conf/broker.conf:5: key warmMapedFileEnable has no effect yet; true is ignored",
            ]
        );
    }
}
