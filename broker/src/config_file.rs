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
}
