//! The files under `config/`: one JSON text each, with the previous text beside it as `NAME.bak`.
//!
//! Rules. A save writes `NAME.tmp` and syncs it, moves a *whole* `NAME` to `NAME.bak`, moves `NAME.tmp` to `NAME` and
//! syncs the directory: at every moment one of the two names holds a whole text, and a damaged `NAME` never replaces
//! the backup. A load takes `NAME` when it is whole, else `NAME.bak`. Java reads and writes the same two names.
//!
//! The texts are fastjson's dialect (unquoted integer keys, object keys), so "whole" is judged by structure alone:
//! one object or array, brackets and strings closed, nothing but blanks after it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tracing::warn;

use crate::abort::{create_dir, sync_dir};
use crate::error::StoreError;
use crate::failpoint::{self, Event, Point};

/// One configuration file and its backup. All methods may be called from any thread; saves follow one another.
#[derive(Debug)]
pub struct JsonFile {
    path: PathBuf,
    save: Mutex<()>,
}

/// Where a text was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the file itself.
    Main,
    /// In the backup, because the file is missing or damaged.
    Backup,
}

/// What a load found.
#[derive(Debug, PartialEq, Eq)]
pub enum Loaded {
    /// A whole text.
    Text {
        /// The text.
        text: String,
        /// Which of the two files it is from.
        source: Source,
    },
    /// Neither file exists.
    Missing,
    /// The file holds nothing usable and there is no backup: start empty. A warning has been written.
    Damaged,
}

impl JsonFile {
    /// A file by its path; nothing is read yet.
    pub fn new(path: impl Into<PathBuf>) -> JsonFile {
        JsonFile { path: path.into(), save: Mutex::new(()) }
    }

    /// The path of the file (the backup's has `.bak` behind it).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file, or its backup when the file is missing, damaged or refused by `accept`.
    ///
    /// `accept` parses the text in the form of this very file; what it returns for the first acceptable text is handed
    /// back. Its error is a description for the log.
    ///
    /// # Errors
    /// The disk, and a backup that is there but as unusable as the file: starting empty would lose what an operator
    /// can still repair.
    pub fn load_with<T>(&self, accept: impl Fn(&str) -> Result<T, String>) -> Result<Parsed<T>, StoreError> {
        let main = read(&self.path)?.map(|text| check(text, &accept));
        let refused = match main {
            Some(Ok((text, value))) => return Ok(Parsed::Text { text, value, source: Source::Main }),
            Some(Err(refused)) => Some(refused),
            None => None,
        };
        let backup_path = self.beside(".bak");
        // An empty backup says as little as none.
        let backup = read(&backup_path)?.filter(|text| !blank(text)).map(|text| check(text, &accept));
        match (backup, refused) {
            (Some(Ok((text, value))), refused) => {
                let why = refused.unwrap_or_else(|| "missing".to_owned());
                warn!(file = %self.path.display(), why, "configuration file not usable, taking its backup");
                Ok(Parsed::Text { text, value, source: Source::Backup })
            }
            (Some(Err(what)), _) => Err(StoreError::Corrupt { path: backup_path, offset: 0, what }),
            (None, Some(why)) => {
                warn!(file = %self.path.display(), why, "configuration file not usable and no backup: starting empty");
                Ok(Parsed::Damaged)
            }
            (None, None) => Ok(Parsed::Missing),
        }
    }

    /// Reads the text without looking at more than its structure.
    ///
    /// # Errors
    /// As [`JsonFile::load_with`].
    pub fn load(&self) -> Result<Loaded, StoreError> {
        Ok(match self.load_with(|_| Ok(()))? {
            Parsed::Text { text, source, .. } => Loaded::Text { text, source },
            Parsed::Missing => Loaded::Missing,
            Parsed::Damaged => Loaded::Damaged,
        })
    }

    /// Replaces the text; the previous one becomes the backup when it was whole. On disk when it returns.
    ///
    /// # Errors
    /// The disk; the file or its backup still holds the previous text.
    pub fn save(&self, text: &str) -> Result<(), StoreError> {
        let _one_at_a_time = self.save.lock();
        if let Some(directory) = self.path.parent() {
            create_dir(directory).map_err(|source| io_error(directory, source))?;
        }
        let fresh = self.beside(".tmp");
        let point = |point, path: &Path| failpoint::hit(point).map_err(|source| io_error(path, source));
        write_synced(&fresh, text).map_err(|source| io_error(&fresh, source))?;
        let whole = read(&self.path)?.is_some_and(|text| whole_json(&text).is_ok());
        if whole {
            point(Point::JsonBackup, &self.path)?;
            let backup = self.beside(".bak");
            fs::rename(&self.path, &backup).map_err(|source| io_error(&self.path, source))?;
            failpoint::tell(Event::Renamed(&self.path, &backup));
        }
        point(Point::JsonReplace, &fresh)?;
        fs::rename(&fresh, &self.path).map_err(|source| io_error(&fresh, source))?;
        failpoint::tell(Event::Renamed(&fresh, &self.path));
        point(Point::JsonDir, &self.path)?;
        if let Some(directory) = self.path.parent() {
            sync_dir(directory).map_err(|source| io_error(directory, source))?;
        }
        Ok(())
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }
}

/// What [`JsonFile::load_with`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    /// A text that was accepted.
    Text {
        /// The text.
        text: String,
        /// What the caller's function made of it.
        value: T,
        /// Which of the two files it is from.
        source: Source,
    },
    /// Neither file exists.
    Missing,
    /// The file holds nothing usable and there is no backup: start empty. A warning has been written.
    Damaged,
}

fn check<T>(text: String, accept: &impl Fn(&str) -> Result<T, String>) -> Result<(String, T), String> {
    whole_json(&text)?;
    let value = accept(&text)?;
    Ok((text, value))
}

fn read(path: &Path) -> Result<Option<String>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => {
            Ok(Some(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(io_error(path, source)),
    }
}

fn write_synced(path: &Path, text: &str) -> io::Result<()> {
    failpoint::hit(Point::JsonWrite)?;
    let mut file = File::create(path)?;
    failpoint::tell(Event::Created(path));
    let (first, second) = text.as_bytes().split_at(text.len() / 2);
    file.write_all(first)?;
    failpoint::hit(Point::JsonHalf)?;
    file.write_all(second)?;
    failpoint::hit(Point::JsonSync)?;
    failpoint::tell(Event::Syncing(&file, 0, text.len() as u64));
    file.sync_all()?;
    failpoint::tell(Event::Synced(&file));
    Ok(())
}

fn io_error(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { path: path.to_owned(), source }
}

fn blank(text: &str) -> bool {
    text.bytes().all(|byte| byte == 0 || byte.is_ascii_whitespace())
}

/// Checks that a text is one bracketed value and nothing else; the error says what is wrong.
fn whole_json(text: &str) -> Result<(), String> {
    if blank(text) {
        return Err("empty".to_owned());
    }
    let mut open = Vec::new();
    let mut bytes = text.bytes().enumerate();
    let mut ended = false;
    while let Some((at, byte)) = bytes.next() {
        if byte.is_ascii_whitespace() {
            continue;
        }
        if ended {
            return Err(format!("bytes behind the end at {at}"));
        }
        match byte {
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' => {
                if open.pop() != Some(byte) {
                    return Err(format!("wrong bracket at {at}"));
                }
                ended = open.is_empty();
            }
            _ if open.is_empty() => return Err(format!("no object at {at}")),
            b'"' => loop {
                match bytes.next() {
                    Some((_, b'"')) => break,
                    Some((_, b'\\')) => {
                        bytes.next();
                    }
                    Some(_) => {}
                    None => return Err("text that does not end".to_owned()),
                }
            },
            0 => return Err(format!("zero byte at {at}")),
            _ => {}
        }
    }
    if ended { Ok(()) } else { Err("cut off".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(main: Option<&str>, backup: Option<&str>) -> (tempfile::TempDir, JsonFile) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("topics.json");
        if let Some(main) = main {
            fs::write(&path, main).unwrap();
        }
        if let Some(backup) = backup {
            fs::write(directory.path().join("topics.json.bak"), backup).unwrap();
        }
        (directory, JsonFile::new(path))
    }

    fn text(text: &str, source: Source) -> Loaded {
        Loaded::Text { text: text.to_owned(), source }
    }

    #[test]
    fn f_01_empty_file_falls_back_and_keeps_the_backup_good() {
        let (directory, file) = with(Some(""), Some("{\"a\":1}"));
        assert_eq!(file.load().unwrap(), text("{\"a\":1}", Source::Backup));
        file.save("{\"a\":2}").unwrap();
        assert_eq!(file.load().unwrap(), text("{\"a\":2}", Source::Main));
        // The empty file must not have become the backup.
        assert_eq!(fs::read_to_string(directory.path().join("topics.json.bak")).unwrap(), "{\"a\":1}");
        file.save("{\"a\":3}").unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("topics.json.bak")).unwrap(), "{\"a\":2}");
    }

    #[test]
    fn f_03_trailing_bytes_fall_back() {
        let (_directory, file) = with(Some("{\"offsetTable\":{\"RB@GRB\":{0:7}}}junk}"), Some("{0:77}"));
        assert_eq!(file.load().unwrap(), text("{0:77}", Source::Backup));
    }

    #[test]
    fn f_03_a_shorter_text_leaves_nothing_behind() {
        let (_directory, file) = with(None, None);
        file.save("{\"long\":[1,2,3,4,5,6,7,8]}").unwrap();
        file.save("{}").unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "{}");
    }

    #[test]
    fn f_04_zero_bytes_without_backup_start_empty() {
        let (_directory, file) = with(Some(&"\0".repeat(40)), None);
        assert_eq!(file.load().unwrap(), Loaded::Damaged);
        assert_eq!(fs::read(file.path()).unwrap().len(), 40, "a load changes nothing");
        file.save("{}").unwrap();
        assert_eq!(file.load().unwrap(), text("{}", Source::Main));
    }

    #[test]
    fn both_damaged_is_an_error() {
        let (_directory, file) = with(Some("{\"a\":"), Some("{\"a\":\"b"));
        assert!(matches!(file.load(), Err(StoreError::Corrupt { .. })));
        let (_directory, file) = with(None, Some("nonsense"));
        assert!(matches!(file.load(), Err(StoreError::Corrupt { .. })));
    }

    #[test]
    fn missing_and_between_the_two_renames_of_a_save() {
        let (_directory, file) = with(None, None);
        assert_eq!(file.load().unwrap(), Loaded::Missing);
        let (_directory, file) = with(None, Some("{}"));
        assert_eq!(file.load().unwrap(), text("{}", Source::Backup));
    }

    #[test]
    fn what_the_caller_refuses_is_damaged() {
        let (_directory, file) = with(Some("{\"a\":x}"), Some("{\"a\":1}"));
        let loaded = file.load_with(|text| if text.contains('x') { Err("an x".to_owned()) } else { Ok(text.len()) });
        assert_eq!(loaded.unwrap(), Parsed::Text { text: "{\"a\":1}".to_owned(), value: 7, source: Source::Backup });
    }

    #[test]
    fn structure_of_the_dialect() {
        for good in ["{}", " {\n\t0:\"a\\\"}\",{\"x\":1}:[2,{}]}\n", "[1]"] {
            assert_eq!(whole_json(good), Ok(()), "{good}");
        }
        for bad in ["", "x", "{", "{]", "{}{}", "{\"}", "1", "{}\0", "{\0}"] {
            assert!(whole_json(bad).is_err(), "{bad}");
        }
    }
}
