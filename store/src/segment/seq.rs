//! A row of segments of equal size, each named by the offset of its first byte (20 decimal digits, as Java names them).
//!
//! Readers take a snapshot and never wait; changes (a new last file, deletion of old ones) are rare and serialized.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::append::Segment;
use super::map::remove;
use crate::error::StoreError;

/// See the module's text.
#[derive(Debug)]
pub struct SegmentSeq {
    dir: PathBuf,
    segment_len: usize,
    list: ArcSwap<Vec<Arc<Segment>>>,
    change: Mutex<()>,
    /// Whether files are read at random places, so that reading ahead is in vain.
    random: AtomicBool,
}

impl SegmentSeq {
    /// An empty row. The directory need not exist.
    pub fn empty(dir: PathBuf, segment_len: usize) -> SegmentSeq {
        SegmentSeq {
            dir,
            segment_len,
            list: ArcSwap::from_pointee(Vec::new()),
            change: Mutex::new(()),
            random: AtomicBool::new(false),
        }
    }

    /// Opens every file of the directory, each taken as published in full; the owner truncates.
    ///
    /// As Java: an empty last file is removed, any other file of a wrong size stops the start (nothing is changed
    /// then); sub-directories are ignored.
    ///
    /// # Errors
    /// A file of a wrong size or with a name that is no offset, or the system's refusal.
    pub fn load(dir: PathBuf, segment_len: usize) -> Result<SegmentSeq, StoreError> {
        let io_error = |path: &Path, source| StoreError::Io { path: path.to_owned(), source };
        let mut files = Vec::new();
        match std::fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SegmentSeq::empty(dir, segment_len)),
            Err(error) => return Err(io_error(&dir, error)),
            Ok(entries) => {
                for entry in entries {
                    let path = entry.map_err(|error| io_error(&dir, error))?.path();
                    let meta = std::fs::metadata(&path).map_err(|error| io_error(&path, error))?;
                    if meta.is_file() {
                        files.push((path, meta.len()));
                    }
                }
            }
        }
        files.sort();
        let empty_last = files.pop_if(|(_, len)| *len == 0);
        for (path, len) in &files {
            if *len != segment_len as u64 {
                return Err(StoreError::Corrupt {
                    path: path.clone(),
                    offset: (*len).min(segment_len as u64),
                    what: format!("the file has {len} bytes, the configuration says {segment_len}"),
                });
            }
            offset_of(path).map_err(|error| io_error(path, error))?;
        }
        if let Some((path, _)) = empty_last {
            tracing::warn!(path = %path.display(), "the last file is empty: removed");
            remove(&path).map_err(|error| io_error(&path, error))?;
        }
        let list = files
            .iter()
            .map(|(path, _)| Segment::open(path, segment_len, segment_len).map_err(|error| io_error(path, error)))
            .collect::<Result<Vec<_>, _>>()?;
        for pair in list.windows(2) {
            if pair[1].base() - pair[0].base() != segment_len as u64 {
                tracing::error!(from = %pair[0].path().display(), to = %pair[1].path().display(), "files are missing between");
            }
        }
        Ok(SegmentSeq { list: ArcSwap::from_pointee(list), ..SegmentSeq::empty(dir, segment_len) })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Size of each file in bytes.
    pub fn segment_len(&self) -> usize {
        self.segment_len
    }

    /// The segments as they are now, in order.
    pub fn snapshot(&self) -> Arc<Vec<Arc<Segment>>> {
        self.list.load_full()
    }

    /// The segment that holds an offset.
    pub fn find(&self, offset: u64) -> Option<Arc<Segment>> {
        let list = self.list.load();
        let first = list.first()?.base();
        let index = usize::try_from(offset.checked_sub(first)? / self.segment_len as u64).ok()?;
        let holds = |segment: &&Arc<Segment>| segment.base() <= offset && offset < segment.end();
        // Where the offset must be when no file is missing; else look.
        list.get(index).filter(holds).or_else(|| list.iter().find(holds)).cloned()
    }

    /// The first segment.
    pub fn first(&self) -> Option<Arc<Segment>> {
        self.list.load().first().cloned()
    }

    /// The last segment.
    pub fn last(&self) -> Option<Arc<Segment>> {
        self.list.load().last().cloned()
    }

    /// Where the file with a start offset lies.
    pub fn path_of(&self, base: u64) -> PathBuf {
        self.dir.join(file_name(base))
    }

    /// Makes the file that starts at `base` and puts it at the end of the row.
    ///
    /// # Errors
    /// The file exists, or the disk is full.
    pub fn create(&self, base: u64) -> Result<Arc<Segment>, StoreError> {
        let path = self.path_of(base);
        let segment =
            Segment::create(&path, self.segment_len).map_err(|source| StoreError::Io { path: path.clone(), source })?;
        self.push(Arc::clone(&segment));
        Ok(segment)
    }

    /// Puts a segment at the end of the row.
    ///
    /// # Panics
    /// When it does not start at or behind the end of the last one, or has another size.
    pub fn push(&self, segment: Arc<Segment>) {
        let _change = self.change.lock();
        let mut list = Vec::clone(&self.list.load());
        assert!(segment.len() == self.segment_len && list.last().is_none_or(|last| last.end() <= segment.base()));
        if self.random.load(Ordering::Relaxed) {
            segment.advise_read_ahead(false);
        }
        list.push(segment);
        self.list.store(Arc::new(list));
    }

    /// Tells the system whether to read ahead in these files and in those to come.
    pub fn set_read_ahead(&self, on: bool) {
        self.random.store(!on, Ordering::Relaxed);
        let _change = self.change.lock();
        self.list.load().iter().for_each(|segment| segment.advise_read_ahead(on));
    }

    /// Cuts the row at an offset: later files are deleted, the one that holds it is opened anew with its published end
    /// there, and with zeros behind. For recovery, before there are writers and readers.
    ///
    /// An offset before the first file empties the row; one behind the last changes nothing.
    ///
    /// # Errors
    /// The disk; the row is as before then, perhaps without its last files.
    pub fn truncate(&self, offset: u64) -> Result<(), StoreError> {
        let _change = self.change.lock();
        let mut list = Vec::clone(&self.list.load());
        while let Some(last) = list.pop_if(|last| last.base() > offset) {
            last.delete().map_err(|source| StoreError::Io { path: last.path().to_owned(), source })?;
            self.list.store(Arc::new(list.clone()));
        }
        if let Some(last) = list.last_mut()
            && offset < last.end()
        {
            let path = last.path().to_owned();
            *last = Segment::open(&path, self.segment_len, (offset - last.base()) as usize)
                .and_then(|segment| segment.clear_rest().map(|()| segment))
                .map_err(|source| StoreError::Io { path, source })?;
            self.list.store(Arc::new(list));
        }
        Ok(())
    }

    /// Deletes the files that end at or before an offset; the last file always stays. Returns how many went.
    ///
    /// # Errors
    /// A name could not be removed; that file and the later ones stay.
    pub fn delete_before(&self, offset: u64) -> Result<usize, StoreError> {
        self.delete_first(|segment| segment.end() <= offset)
    }

    /// Deletes files from the front as long as `old` says so; the last file always stays. Returns how many went.
    ///
    /// # Errors
    /// A name could not be removed; that file and the later ones stay.
    pub fn delete_first(&self, mut old: impl FnMut(&Segment) -> bool) -> Result<usize, StoreError> {
        let change = self.change.lock();
        let list = self.list.load_full();
        let mut gone = 0;
        let mut result = Ok(());
        while gone + 1 < list.len() && old(&list[gone]) {
            if let Err(source) = list[gone].delete() {
                result = Err(StoreError::Io { path: list[gone].path().to_owned(), source });
                break;
            }
            gone += 1;
        }
        if gone > 0 {
            self.list.store(Arc::new(list[gone..].to_vec()));
        }
        // A large file's blocks are freed by the last holder, which takes its time: an append may want a new file meanwhile.
        drop(change);
        result.map(|()| gone)
    }

    /// Deletes the first file when `old` says so and it is not the last. Returns whether it went.
    ///
    /// # Errors
    /// The name could not be removed; the file stays.
    pub fn delete_one(&self, old: impl FnOnce(&Segment) -> bool) -> Result<bool, StoreError> {
        let mut old = Some(old);
        Ok(self.delete_first(|segment| old.take().is_some_and(|old| old(segment)))? > 0)
    }

    /// Deletes every file; the row is empty then and may start at another offset.
    ///
    /// # Errors
    /// A name could not be removed.
    pub fn delete_all(&self) -> Result<(), StoreError> {
        let _change = self.change.lock();
        for segment in self.list.swap(Arc::new(Vec::new())).iter() {
            segment.delete().map_err(|source| StoreError::Io { path: segment.path().to_owned(), source })?;
        }
        Ok(())
    }
}

/// The name of the file that starts at an offset.
pub fn file_name(base: u64) -> String {
    format!("{base:020}")
}

/// The offset that a file's name says.
pub(super) fn offset_of(path: &Path) -> io::Result<u64> {
    path.file_name()
        .and_then(OsStr::to_str)
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|name| name.parse::<u64>().ok())
        .filter(|&offset| i64::try_from(offset).is_ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the file's name is no offset"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(dir: &Path, files: u64) -> SegmentSeq {
        let seq = SegmentSeq::load(dir.join("log"), 4096).unwrap();
        for i in 0..files {
            let segment = seq.create(i * 4096).unwrap();
            segment.writer().unwrap().append(4096, |free| free.fill(i as u8 + 1)).unwrap();
        }
        seq
    }

    fn bases(seq: &SegmentSeq) -> Vec<u64> {
        seq.snapshot().iter().map(|segment| segment.base()).collect()
    }

    #[test]
    fn finds_by_offset() {
        let dir = tempfile::tempdir().unwrap();
        let seq = filled(dir.path(), 3);
        assert_eq!(seq.find(0).unwrap().base(), 0);
        assert_eq!(seq.find(4095).unwrap().base(), 0);
        assert_eq!(seq.find(4096).unwrap().base(), 4096);
        assert!(seq.find(3 * 4096).is_none());
        assert!(SegmentSeq::empty(dir.path().into(), 1).find(0).is_none());
        std::fs::remove_file(seq.path_of(4096)).unwrap();
        let gap = SegmentSeq::load(seq.dir().into(), 4096).unwrap();
        assert!(gap.find(5000).is_none());
        assert_eq!(gap.find(8192).unwrap().base(), 8192);
    }

    #[test]
    fn truncates_and_reloads() {
        let dir = tempfile::tempdir().unwrap();
        let seq = filled(dir.path(), 3);
        seq.truncate(5000).unwrap();
        assert_eq!(bases(&seq), [0, 4096]);
        assert_eq!(seq.last().unwrap().bytes(), [2; 904]);
        let seq = SegmentSeq::load(seq.dir().into(), 4096).unwrap();
        assert_eq!(bases(&seq), [0, 4096]);
        let last = seq.last().unwrap();
        assert_eq!((last.bytes()[903], &last.bytes()[904..]), (2, &[0u8; 4096 - 904][..]));
        seq.truncate(4096).unwrap();
        assert_eq!((bases(&seq), seq.last().unwrap().published()), (vec![0, 4096], 0));
    }

    #[test]
    fn deletes_from_the_front_but_never_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let seq = filled(dir.path(), 3);
        assert_eq!(seq.delete_before(4095).unwrap(), 0);
        assert_eq!(seq.delete_before(4096).unwrap(), 1);
        assert_eq!(seq.delete_before(u64::MAX).unwrap(), 1);
        assert_eq!(bases(&seq), [8192]);
        assert!(!seq.delete_one(|_| true).unwrap());
        seq.create(3 * 4096).unwrap();
        seq.create(4 * 4096).unwrap();
        assert!(!seq.delete_one(|_| false).unwrap());
        assert!(seq.delete_one(|segment| segment.base() == 8192).unwrap());
        assert_eq!(bases(&seq), [3 * 4096, 4 * 4096]);
        seq.delete_all().unwrap();
        assert_eq!(std::fs::read_dir(seq.dir()).unwrap().count(), 0);
    }

    #[test]
    fn odd_files_at_load() {
        let dir = tempfile::tempdir().unwrap();
        let seq = filled(dir.path(), 2);
        std::fs::create_dir(seq.dir().join("sub")).unwrap();
        std::fs::write(seq.path_of(8192), "").unwrap();
        assert_eq!(bases(&SegmentSeq::load(seq.dir().into(), 4096).unwrap()), [0, 4096]);
        assert!(!seq.path_of(8192).exists());
        // An odd length anywhere refuses, and changes nothing.
        std::fs::write(seq.path_of(8192), "").unwrap();
        std::fs::write(seq.path_of(4096), "short").unwrap();
        let error = SegmentSeq::load(seq.dir().into(), 4096).unwrap_err();
        assert!(error.to_string().contains("00000000000000004096"), "{error}");
        assert!(seq.path_of(8192).exists());
        std::fs::remove_file(seq.path_of(4096)).unwrap();
        std::fs::write(seq.dir().join("note"), [0; 4096]).unwrap();
        assert!(SegmentSeq::load(seq.dir().into(), 4096).is_err());
    }
}
