//! The index: where the records with a key are.
//!
//! A row of files under `index/`, each a hash table (`file.rs`); the last one is written. A file is named by the local
//! time of its creation, `yyyyMMddHHmmssSSS`, and the names give the order. What an index holds can be made again from
//! the log, and an entry only says that a record *may* have a key: the hash decides, not the key.

pub mod file;
mod hash;

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use chrono::{Local, NaiveDateTime, TimeDelta};
use parking_lot::Mutex;
use smallvec::SmallVec;

pub use file::{Geometry, IndexFile};
pub use hash::{KeyHash, tags_code};

use crate::abort::sync_dir;
use crate::error::{StoreError, of_sync};
use crate::failpoint::{self, Point};
use crate::record::properties::name;
use crate::record::{RecordView, sys_flag};
use crate::segment::remove;

/// Between topic and key in what is hashed.
const SEPARATOR: &[u8] = b"#";
/// Between topic and tag: `topic#T#tag`.
const TAG_INFIX: &[u8] = b"T#";
/// Form of a file's name, to the second; three digits of milliseconds follow.
const NAME_FORM: &str = "%Y%m%d%H%M%S%3f";

/// So much of the index is gone through at a start, the newest files first, but always the last one.
const VERIFIED_BYTES: usize = 512 << 20;

/// The files of the index. Readers take a snapshot and never wait.
#[derive(Debug)]
pub struct Index {
    dir: PathBuf,
    geometry: Geometry,
    files: ArcSwap<Vec<Arc<IndexFile>>>,
    /// The index was closed in order: the last record in it has all of its keys there.
    complete: bool,
    /// Full files that are not on the device yet.
    full: Mutex<Vec<Arc<IndexFile>>>,
    full_timestamp: AtomicI64,
    /// Files were found to be damaged and removed, with all behind them.
    damaged: bool,
    /// Stands for the set of files, see [`Index::fingerprint`].
    present: AtomicU64,
    /// The next file, made ahead under another name: in `index/` an empty file would end queries early.
    next: Mutex<Option<IndexFile>>,
}

/// Whose keys are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A key of the message or its unique key.
    Key,
    /// The whole tag.
    Tag,
}

impl Index {
    /// Opens the files of the directory.
    ///
    /// After an unclean stop `trusted` is the index timestamp (ms) of the checkpoint: files that go on behind it are not
    /// known to be on the device, and are gone through entry by entry, as the last ones are at every start.
    ///
    /// # Errors
    /// The directory cannot be read. A file with a foreign name is passed over. One with a wrong length, a header that
    /// is not true of it, or entries that do not fit together is removed with all behind it: they are made again from the
    /// log.
    pub fn load(dir: PathBuf, geometry: Geometry, trusted: Option<i64>) -> Result<Index, StoreError> {
        let io_error = |path: &Path, source| StoreError::Io { path: path.to_owned(), source };
        // A crash can leave it.
        let _ = remove(&next_path(&dir));
        let mut paths = Vec::new();
        match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error(&dir, error)),
            Ok(entries) => {
                for entry in entries {
                    paths.push(entry.map_err(|error| io_error(&dir, error))?.path());
                }
            }
        }
        paths.retain(|path| is_name(path) && path.is_file());
        paths.sort();
        let present = AtomicU64::new(fingerprint(paths.iter().map(PathBuf::as_path)));
        let mut files: Vec<Arc<IndexFile>> = Vec::with_capacity(paths.len());
        let mut full = Vec::new();
        let mut damaged = false;
        // All of a large index would take too long.
        let unverified = paths.len().saturating_sub((VERIFIED_BYTES / geometry.file_len()).max(1));
        for (number, path) in paths.into_iter().enumerate() {
            if damaged {
                remove(&path).map_err(|error| io_error(&path, error))?;
                continue;
            }
            let before = files.last().map(Arc::as_ref);
            let checked = IndexFile::open(&path, geometry).and_then(|file| {
                file.check(before)?;
                let new = trusted.is_some_and(|trusted| file.end_timestamp() > trusted);
                let wrong = if new || number >= unverified { file.verify()? } else { 0 };
                Ok((file, new || wrong > 0))
            });
            match checked {
                Ok((file, flush)) => {
                    let file = Arc::new(file);
                    if flush && file.is_full() {
                        full.push(Arc::clone(&file));
                    }
                    files.push(file);
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::error!(file = %path.display(), %error, "the index from here on is made again from the log");
                    remove(&path).map_err(|error| io_error(&path, error))?;
                    damaged = true;
                }
                Err(error) => return Err(io_error(&path, error)),
            }
        }
        if damaged {
            sync_dir(&dir).map_err(|error| io_error(&dir, error))?;
        }
        Ok(Index {
            dir,
            geometry,
            files: ArcSwap::from_pointee(files),
            complete: trusted.is_none(),
            full: Mutex::new(full),
            full_timestamp: AtomicI64::new(0),
            damaged,
            present,
            next: Mutex::new(None),
        })
    }

    /// Whether files were found to be damaged: from [`Index::end_phys`] on the index is to be made again.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// A number that stands for the set of files, at first as it was found; never 0. An index that gives another one than
    /// it had when it was last open has lost some.
    pub fn fingerprint(&self) -> u64 {
        self.present.load(Ordering::Acquire) | 1 << 63
    }

    /// Counts the files anew for [`Index::fingerprint`].
    pub(crate) fn recount(&self) {
        let files = self.files.load();
        self.present.store(fingerprint(files.iter().map(|file| file.path())), Ordering::Release);
    }

    /// The files, oldest first.
    pub fn files(&self) -> Arc<Vec<Arc<IndexFile>>> {
        self.files.load_full()
    }

    /// Physical offset of the last entry's record; 0 without entries. Records before it are in the index.
    pub fn end_phys(&self) -> i64 {
        self.files.load().last().map_or(0, |file| file.end_phys())
    }

    /// The hash of a key as the index files have it.
    pub fn hash(topic: &str, key: &str, kind: KeyKind) -> i32 {
        let prefix = KeyHash::new().push(topic.as_bytes()).push(SEPARATOR);
        let prefix = if kind == KeyKind::Tag { prefix.push(TAG_INFIX) } else { prefix };
        prefix.push(key.as_bytes()).index_value()
    }

    /// Visits the physical offsets under a hash, newest first, stored within a time range (ms, ends included).
    pub fn visit(&self, hash: i32, begin: i64, end: i64, mut each: impl FnMut(i64) -> ControlFlow<()>) {
        for file in self.files.load().iter().rev() {
            if file.overlaps(begin, end) && file.visit(hash, begin, end, &mut each).is_break() {
                return;
            }
            if file.begin_timestamp() < begin {
                return;
            }
        }
    }

    /// For a thread of the store, now and then: makes the next file when the last one is nearly full, and puts files
    /// that became full on the device. Returns the store timestamp (ms) up to which the index is safe, for
    /// the checkpoint; 0 when no file became full since the store was opened.
    ///
    /// # Errors
    /// The device failed: the file is tried again next time.
    pub fn flush_full(&self) -> Result<i64, StoreError> {
        if self.files.load().last().is_some_and(|last| last.is_nearly_full()) {
            self.prepare();
        }
        loop {
            let Some(file) = self.full.lock().first().cloned() else { break };
            self.flush_file(&file)?;
            self.full_timestamp.fetch_max(file.end_timestamp(), Ordering::AcqRel);
            self.full.lock().retain(|other| !Arc::ptr_eq(other, &file));
        }
        Ok(self.full_timestamp.load(Ordering::Acquire))
    }

    fn prepare(&self) {
        let mut next = self.next.lock();
        if next.is_none() {
            match IndexFile::make(&next_path(&self.dir), self.geometry) {
                Ok(file) => {
                    file.prefault();
                    *next = Some(file);
                }
                // It is tried again when it is needed, and then it matters.
                Err(error) => tracing::warn!(%error, "the next index file could not be made ahead"),
            }
        }
    }

    /// Puts everything on the device; for the end.
    ///
    /// # Errors
    /// The device failed.
    pub fn flush_all(&self) -> Result<i64, StoreError> {
        let timestamp = self.flush_full()?;
        if let Some(next) = self.next.lock().take() {
            next.delete().map_err(|source| StoreError::Io { path: next.path().to_owned(), source })?;
        }
        if let Some(last) = self.files.load().last() {
            self.flush_file(last)?;
        }
        Ok(timestamp)
    }

    fn flush_file(&self, file: &IndexFile) -> Result<(), StoreError> {
        let done = failpoint::hit(Point::IndexFlush)
            .and_then(|()| file.flush())
            .and_then(|()| file.sync_all())
            .and_then(|()| failpoint::hit(Point::IndexDir))
            .and_then(|()| sync_dir(&self.dir));
        done.map_err(|source| StoreError::Io { path: file.path().to_owned(), source: of_sync(source) })
    }

    /// Deletes files whose records are all before `min_phys`; the last file stays.
    ///
    /// # Errors
    /// A name could not be removed.
    pub fn delete_expired(&self, min_phys: u64) -> Result<usize, StoreError> {
        let min_phys = i64::try_from(min_phys).unwrap_or(i64::MAX);
        let mut gone = 0;
        loop {
            let list = self.files.load_full();
            let Some(file) = list.first().filter(|file| list.len() > 1 && file.end_phys() < min_phys) else { break };
            file.delete().map_err(|source| StoreError::Io { path: file.path().to_owned(), source })?;
            self.remove(file);
            gone += 1;
        }
        Ok(gone)
    }

    /// Deletes files that know of records at or behind the new end of the log. In recovery, before there is a writer; what
    /// else they held is to be added again. Returns how many went.
    ///
    /// # Errors
    /// A name could not be removed.
    pub fn truncate(&self, end_phys: u64) -> Result<usize, StoreError> {
        let end_phys = i64::try_from(end_phys).unwrap_or(i64::MAX);
        let mut gone = 0;
        while let Some(file) =
            self.files.load_full().last().filter(|file| file.end_phys() >= end_phys && file.count() > 1)
        {
            tracing::info!(file = %file.path().display(), end_phys, "the index file knows more than the log: removed");
            file.delete().map_err(|source| StoreError::Io { path: file.path().to_owned(), source })?;
            self.remove(file);
            gone += 1;
        }
        self.sync_names(gone > 0)?;
        Ok(gone)
    }

    /// A file that is removed in recovery must not come back beside those that are made instead.
    fn sync_names(&self, changed: bool) -> Result<(), StoreError> {
        let sync = || sync_dir(&self.dir).map_err(|source| StoreError::Io { path: self.dir.clone(), source });
        if changed { sync() } else { Ok(()) }
    }

    /// Deletes every file: the log is empty.
    ///
    /// # Errors
    /// A name could not be removed.
    pub fn delete_all(&self) -> Result<(), StoreError> {
        for file in self.files.load_full().iter() {
            file.delete().map_err(|source| StoreError::Io { path: file.path().to_owned(), source })?;
            self.remove(file);
        }
        self.sync_names(true)
    }

    fn remove(&self, file: &Arc<IndexFile>) {
        self.files.rcu(|list| list.iter().filter(|other| !Arc::ptr_eq(other, file)).cloned().collect::<Vec<_>>());
        self.recount();
    }

    /// The last file with room, made when there is none.
    fn open_last(&self) -> Result<Arc<IndexFile>, StoreError> {
        let last = self.files.load().last().cloned();
        if let Some(last) = &last {
            if !last.is_full() {
                return Ok(Arc::clone(last));
            }
            self.full.lock().push(Arc::clone(last));
        }
        let path = self.dir.join(self.next_name(last.as_deref()));
        // While it is being made this thread makes its own.
        let made = self.next.try_lock().and_then(|mut next| next.take());
        let file = match made {
            Some(mut file) => file.place(&path, last.as_deref()).map(|()| file),
            None => IndexFile::create(&path, self.geometry, last.as_deref()),
        };
        let file = file.map(Arc::new).map_err(|source| StoreError::Io { path, source })?;
        self.files.rcu(|list| list.iter().cloned().chain([Arc::clone(&file)]).collect::<Vec<_>>());
        self.recount();
        Ok(file)
    }

    /// The local time now, but always behind the name of the last file: names are the order.
    fn next_name(&self, last: Option<&IndexFile>) -> String {
        let now = Local::now().naive_local();
        let name = |time: NaiveDateTime| time.format(NAME_FORM).to_string();
        let last = last.and_then(|file| file.path().file_name()?.to_str().map(str::to_owned));
        match last {
            Some(last) if last >= name(now) => NaiveDateTime::parse_from_str(&last, NAME_FORM)
                .ok()
                .and_then(|time| time.checked_add_signed(TimeDelta::milliseconds(1)))
                .map_or_else(|| name(now), name),
            _ => name(now),
        }
    }
}

/// Of a set of files: the sum of hashes of their names.
fn fingerprint<'p>(paths: impl Iterator<Item = &'p Path>) -> u64 {
    let hash = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd)
    };
    paths.map(hash).fold(0, u64::wrapping_add)
}

/// Where the next file lies until it is used: beside the directory.
fn next_path(dir: &Path) -> PathBuf {
    dir.with_extension("next")
}

fn is_name(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.len() == 17 && name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Adds to an index. There must be one only; the dispatcher has it.
#[derive(Debug)]
pub struct IndexWriter {
    index: Arc<Index>,
    last: Option<Arc<IndexFile>>,
    /// The last record that has all of its keys in the index since before it was opened; -1 without one.
    known: i64,
}

impl IndexWriter {
    /// The writer of an index.
    pub fn new(index: Arc<Index>) -> IndexWriter {
        let known =
            index.files.load().iter().rev().find(|file| index.complete && file.count() > 1).map(|file| file.end_phys());
        IndexWriter { index, last: None, known: known.unwrap_or(-1) }
    }

    /// Asks for the memory that [`IndexWriter::put`] will touch: hardly any two keys have theirs close together.
    pub(crate) fn ask_for(&self, hashes: &Hashes) {
        if let Some(last) = &self.last {
            hashes.0.iter().for_each(|hash| last.ask_for(hash.index_value()));
        }
    }

    /// Adds the keys of a record. A record before the last one that is in the index is known; a rolled back one has no
    /// entries.
    ///
    /// # Errors
    /// The disk; some of the keys may be there.
    pub(crate) fn put(&mut self, record: &RecordView<'_>, phys: i64, hashes: &Hashes) -> Result<(), StoreError> {
        if record.sys_flag() & sys_flag::TRANSACTION == sys_flag::TRANSACTION_ROLLBACK {
            return Ok(());
        }
        // The last record itself may have lost some of its keys in a crash; to have them twice does no harm.
        let end_phys = self.last.as_ref().map_or_else(|| self.index.end_phys(), |last| last.end_phys());
        if phys <= self.known || phys < end_phys {
            return Ok(());
        }
        let time = record.store_timestamp();
        hashes.0.iter().try_for_each(|hash| self.put_hash(*hash, phys, time))
    }

    fn put_hash(&mut self, hash: KeyHash, phys: i64, time: i64) -> Result<(), StoreError> {
        loop {
            let file = match &self.last {
                Some(last) => last,
                None => self.last.insert(self.index.open_last()?),
            };
            let put = file.put(hash.index_value(), phys, time);
            if put.map_err(|source| StoreError::Io { path: file.path().to_owned(), source })? {
                return Ok(());
            }
            self.last = None;
        }
    }
}

/// What of a record's properties the store looks at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keys<'a> {
    /// The producer's unique key.
    pub(crate) unique: Option<&'a [u8]>,
    /// The keys, separated by spaces.
    pub(crate) keys: Option<&'a [u8]>,
    /// The tag.
    pub(crate) tags: Option<&'a [u8]>,
    /// Level of a delayed message.
    pub(crate) delay: Option<&'a [u8]>,
    /// First queue offset and number of messages of a batch record.
    pub(crate) inner_base: Option<&'a [u8]>,
    pub(crate) inner_num: Option<&'a [u8]>,
}

/// What the index knows a record by: hashes of the unique key, of each of the keys, and of the tag.
#[derive(Debug, Default)]
pub(crate) struct Hashes(SmallVec<[KeyHash; 4]>);

impl Hashes {
    /// Of a record alone.
    pub(crate) fn of_record(record: &RecordView<'_>) -> Hashes {
        Hashes::of(KeyHash::new().push(record.topic_bytes()).push(b"#"), &Keys::of(record))
    }

    /// Of a record's keys; `prefix` is the hash of `topic#`.
    pub(crate) fn of(prefix: KeyHash, keys: &Keys<'_>) -> Hashes {
        let several = keys.keys.into_iter().flat_map(|keys| keys.split(|byte| *byte == b' '));
        let plain = keys.unique.into_iter().chain(several.filter(|key| !key.is_empty()));
        let tag = keys.tags.map(|tags| prefix.push(TAG_INFIX).push(tags));
        Hashes(plain.map(|key| prefix.push(key)).chain(tag).collect())
    }
}

impl<'a> Keys<'a> {
    /// Reads the properties once; the last of a name counts.
    pub(crate) fn of(record: &RecordView<'a>) -> Keys<'a> {
        const UNIQ_KEY: &[u8] = name::UNIQ_KEY.as_bytes();
        const KEYS: &[u8] = name::KEYS.as_bytes();
        const TAGS: &[u8] = name::TAGS.as_bytes();
        const DELAY: &[u8] = name::DELAY.as_bytes();
        const INNER_BASE: &[u8] = name::INNER_BASE.as_bytes();
        const INNER_NUM: &[u8] = name::INNER_NUM.as_bytes();
        let mut keys = Keys::default();
        for (name, value) in record.properties() {
            match name {
                UNIQ_KEY => keys.unique = Some(value),
                KEYS => keys.keys = Some(value),
                TAGS => keys.tags = Some(value),
                DELAY => keys.delay = Some(value),
                INNER_BASE => keys.inner_base = Some(value),
                INNER_NUM => keys.inner_num = Some(value),
                _ => {}
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests;
