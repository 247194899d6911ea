//! A file of `config/`, as the broker's tables use it: a table's JSON in, a table's JSON out.
//!
//! How a text and its backup survive a crash is [`store::json_file`]'s business.

use std::path::{Path, PathBuf};

use remoting::body::fastjson;
use store::StoreError;
use store::json_file::{JsonFile, Parsed};

/// A file of `config/`. Any thread may save; saves of one file are serial.
#[derive(Debug)]
pub struct ConfigFile {
    file: JsonFile,
}

impl ConfigFile {
    /// The file at a path; nothing is touched yet.
    pub fn new(path: impl Into<PathBuf>) -> ConfigFile {
        ConfigFile { file: JsonFile::new(path) }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads the file, or its backup when the file is missing, empty or damaged. `None` when there is nothing to read:
    /// a first start, or a damaged file without a backup (a warning names it).
    ///
    /// # Errors
    /// The disk, or a backup that is there but damaged: to start empty would overwrite what can still be repaired.
    pub fn load<T>(&self, parse: impl Fn(&[u8]) -> Result<T, String>) -> Result<Option<T>, StoreError> {
        Ok(match self.file.load_with(|text| parse(text.as_bytes()))? {
            Parsed::Text { value, .. } => Some(value),
            Parsed::Missing | Parsed::Damaged => None,
        })
    }

    /// As [`ConfigFile::load`] for what nobody else knows, the topics and the groups: an empty table instead of a damaged
    /// one would turn clients away, and the next save would make that last.
    ///
    /// # Errors
    /// Also a damaged file without a usable backup. An operator can repair it, or remove it to start empty.
    pub fn load_or_refuse<T>(&self, parse: impl Fn(&[u8]) -> Result<T, String>) -> Result<Option<T>, StoreError> {
        let mut backup = self.path().to_owned().into_os_string();
        backup.push(".bak");
        match self.file.load_with(|text| parse(text.as_bytes()))? {
            Parsed::Text { value, .. } => Ok(Some(value)),
            // A backup of nothing was there once for something.
            Parsed::Missing if !Path::new(&backup).exists() => Ok(None),
            Parsed::Missing | Parsed::Damaged => Err(StoreError::Corrupt {
                path: self.path().to_owned(),
                offset: 0,
                what: "neither the file nor its backup holds a whole table".to_owned(),
            }),
        }
    }

    /// Replaces the text, keeps the one before as backup, and returns once both are on disk.
    ///
    /// # Errors
    /// The disk; the old text is still there.
    pub fn save(&self, text: &[u8]) -> Result<(), StoreError> {
        self.file.save(&String::from_utf8_lossy(text))
    }
}

/// The JSON text of a table, on one line or indented by tabs as the files are.
pub fn encode<T: serde::Serialize>(table: &T, pretty: bool) -> Vec<u8> {
    let text = if pretty { fastjson::to_vec_pretty(table) } else { fastjson::to_vec(table) };
    // Tables of strings and numbers always have a text.
    text.unwrap_or_default()
}

/// Runs `work`, which waits for the disk, so that other tasks of the runtime go on meanwhile. Works on any thread.
pub fn off_worker<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn number(text: &[u8]) -> Result<Vec<i32>, String> {
        fastjson::from_slice(text).map_err(|error| error.to_string())
    }

    /// Cases F-01, F-03 and F-04 on one file.
    #[test]
    fn f_01_a_damaged_file_never_becomes_the_backup() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        let file = ConfigFile::new(&path);
        assert_eq!(file.load(number).unwrap(), None);
        for text in [b"[1]", b"[2]"] {
            file.save(text).unwrap();
        }
        assert_eq!(fs::read_to_string(dir.path().join("x.json.bak")).unwrap(), "[1]");
        for damage in ["", "[2] junk}", "\0\0\0"] {
            fs::write(&path, damage).unwrap();
            let file = ConfigFile::new(&path);
            assert_eq!(file.load(number).unwrap(), Some(vec![1]), "after {damage:?}");
            file.save(b"[3]").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "[3]");
            assert_eq!(fs::read_to_string(dir.path().join("x.json.bak")).unwrap(), "[1]");
        }
    }

    #[test]
    fn f_04_damage_without_a_backup_starts_empty_and_with_a_damaged_one_refuses() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        fs::write(&path, [0; 40]).unwrap();
        assert_eq!(ConfigFile::new(&path).load(number).unwrap(), None);
        fs::write(dir.path().join("x.json.bak"), "junk").unwrap();
        assert!(ConfigFile::new(&path).load(number).unwrap_err().to_string().contains("x.json"));
    }

    /// Every pair of a file and its backup: the file when it is whole, else the backup when that is whole, else a refusal;
    /// without either a first start.
    #[test]
    fn what_cannot_be_replaced_is_taken_whole_or_refused() {
        const BAD: [Option<&str>; 6] = [None, Some(""), Some("[1"), Some("\0\0\0\0"), Some("[1]junk"), Some("[1,\0]")];
        for main in BAD.into_iter().chain([Some("[1]")]) {
            for backup in BAD.into_iter().chain([Some("[2]")]) {
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("topics.json");
                for (name, text) in [("topics.json", main), ("topics.json.bak", backup)] {
                    if let Some(text) = text {
                        fs::write(dir.path().join(name), text).unwrap();
                    }
                }
                let found = ConfigFile::new(&path).load_or_refuse(number);
                match (main, backup) {
                    (Some("[1]"), _) => assert_eq!(found.unwrap(), Some(vec![1]), "{backup:?}"),
                    (_, Some("[2]")) => assert_eq!(found.unwrap(), Some(vec![2]), "{main:?}"),
                    (None, None) => assert_eq!(found.unwrap(), None),
                    _ => {
                        let error = found.unwrap_err().to_string();
                        assert!(error.contains("topics.json"), "{main:?} {backup:?}: {error}");
                        // Nothing was touched.
                        assert_eq!(fs::read_to_string(&path).ok().as_deref(), main);
                    }
                }
            }
        }
    }
}
