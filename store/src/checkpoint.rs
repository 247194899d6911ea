//! The file `checkpoint`: how far log, queues and index are known to be on disk.
//!
//! 4,096 bytes; six big-endian 8-byte integers at the start, the rest is zero:
//!
//! ```text
//!  0  physicMsgTimestamp    store timestamp (ms) up to which the log is on disk
//!  8  logicsMsgTimestamp    the same for the consume queues
//! 16  indexMsgTimestamp     the same for the index
//! 24  masterFlushedOffset
//! 32  confirmPhyOffset
//! 40  logicsPhysicalOffset  start of the last record whose queue entry is on disk
//! ```
//!
//! The last 24 bytes, which Java leaves alone, are ours: a hash of the six integers as we wrote them, and fingerprints
//! of the sets of index files and of consume queue files, 0 when unknown. A file that is lost leaves no other trace, and
//! a queue's offsets would be given a second time. When the hash is wrong another broker has worked on the store since,
//! and the fingerprints say nothing.
//!
//! Crash: the integers lie in one sector and are written in one call. A missing, short or nonsensical file counts as
//! zeros, which makes recovery start at the first log file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::error::StoreError;
use crate::failpoint::{self, Event, Point};

const FILE_LEN: u64 = 4096;
const FIELDS: usize = 6;
const OURS_AT: u64 = FILE_LEN - 24;

/// See the module's text. Setting a value changes memory only; [`Checkpoint::flush`] writes the file.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    file: File,
    /// Store timestamp (ms) up to which the log is on disk.
    pub physic_msg_timestamp: CheckpointField,
    /// Store timestamp (ms) up to which the consume queues are on disk.
    pub logics_msg_timestamp: CheckpointField,
    /// Store timestamp (ms) up to which the index is on disk.
    pub index_msg_timestamp: CheckpointField,
    /// How far the master's log was flushed.
    pub master_flushed_offset: CheckpointField,
    /// How far replicas have confirmed.
    pub confirm_phys_offset: CheckpointField,
    /// Start of the last record whose queue entry is on disk.
    pub logics_phys_offset: CheckpointField,
    queue_files: AtomicU64,
    index_files: AtomicU64,
    /// The hash of the integers in the file; held while the file is written.
    hash: Mutex<u64>,
}

/// One integer of the checkpoint. Any thread may read or set it.
#[derive(Debug, Default)]
pub struct CheckpointField(AtomicI64);

impl CheckpointField {
    /// The value.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }

    /// Sets the value.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Release);
    }

    /// Raises the value to at least this.
    pub fn raise(&self, value: i64) {
        self.0.fetch_max(value, Ordering::AcqRel);
    }
}

impl Checkpoint {
    /// Opens or makes the file.
    ///
    /// # Errors
    /// The system refuses.
    pub fn open(path: &Path) -> Result<Checkpoint, StoreError> {
        let error = |source| StoreError::Io { path: path.to_owned(), source };
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(error)?;
        let mut bytes = [0; 8 * FIELDS];
        let len = file.metadata().map_err(error)?.len();
        if len >= bytes.len() as u64 {
            file.read_exact_at(&mut bytes, 0).map_err(error)?;
        }
        if len < FILE_LEN {
            file.set_len(FILE_LEN).map_err(error)?;
        }
        let mut ours = [0; 24];
        if len == FILE_LEN {
            file.read_exact_at(&mut ours, OURS_AT).map_err(error)?;
        }
        let ours: Vec<u64> = ours.as_chunks::<8>().0.iter().map(|chunk| u64::from_be_bytes(*chunk)).collect();
        let (queue_files, index_files) = match ours[..] {
            [known, index_files, queue_files] if known == hash(&bytes) => (queue_files, index_files),
            _ => (0, 0),
        };
        let mut values = bytes.as_chunks::<8>().0.iter().map(|chunk| i64::from_be_bytes(*chunk).max(0));
        let mut field = || CheckpointField(AtomicI64::new(values.next().unwrap_or(0)));
        Ok(Checkpoint {
            path: path.to_owned(),
            file,
            physic_msg_timestamp: field(),
            logics_msg_timestamp: field(),
            index_msg_timestamp: field(),
            master_flushed_offset: field(),
            confirm_phys_offset: field(),
            logics_phys_offset: field(),
            queue_files: AtomicU64::new(queue_files),
            index_files: AtomicU64::new(index_files),
            hash: Mutex::new(hash(&bytes)),
        })
    }

    /// The fingerprint of the consume queues' files that the file was last told; 0 when it was told none.
    pub fn queue_files(&self) -> u64 {
        self.queue_files.load(Ordering::Acquire)
    }

    /// The fingerprint of the index files, likewise.
    pub fn index_files(&self) -> u64 {
        self.index_files.load(Ordering::Acquire)
    }

    /// Writes the fingerprints into the file, without waiting for the device: that happens with the next flush.
    ///
    /// # Errors
    /// The system refuses.
    pub fn write_fingerprints(&self, queue_files: u64, index_files: u64) -> Result<(), StoreError> {
        let hash = self.hash.lock();
        self.queue_files.store(queue_files, Ordering::Release);
        self.index_files.store(index_files, Ordering::Release);
        let mut bytes = [0; 24];
        for (chunk, value) in bytes.as_chunks_mut::<8>().0.iter_mut().zip([*hash, index_files, queue_files]) {
            *chunk = value.to_be_bytes();
        }
        let written = failpoint::hit(Point::CheckpointFiles).and_then(|()| self.file.write_all_at(&bytes, OURS_AT));
        written.map_err(|source| StoreError::Io { path: self.path.clone(), source })
    }

    fn fields(&self) -> [&CheckpointField; FIELDS] {
        [
            &self.physic_msg_timestamp,
            &self.logics_msg_timestamp,
            &self.index_msg_timestamp,
            &self.master_flushed_offset,
            &self.confirm_phys_offset,
            &self.logics_phys_offset,
        ]
    }

    /// Writes the values and waits for the device.
    ///
    /// # Errors
    /// The system refuses or the device failed.
    pub fn flush(&self) -> Result<(), StoreError> {
        let mut bytes = [0; 8 * FIELDS];
        for (chunk, field) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.fields()) {
            *chunk = field.get().to_be_bytes();
        }
        let mut known = self.hash.lock();
        *known = hash(&bytes);
        let written = failpoint::hit(Point::CheckpointWrite)
            .and_then(|()| self.file.write_all_at(&bytes, 0))
            .and_then(|()| failpoint::hit(Point::CheckpointHash))
            .and_then(|()| self.file.write_all_at(&known.to_be_bytes(), OURS_AT))
            .and_then(|()| failpoint::hit(Point::CheckpointSync))
            .and_then(|()| sync_file(&self.file));
        written.map_err(|source| StoreError::Io { path: self.path.clone(), source })
    }
}

fn sync_file(file: &File) -> io::Result<()> {
    failpoint::tell(Event::Syncing(file, 0, FILE_LEN));
    file.sync_data()?;
    failpoint::tell(Event::Synced(file));
    Ok(())
}

/// Of the integers as they lie in the file; never 0.
fn hash(bytes: &[u8]) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, fnv) | 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_where_java_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("checkpoint");
        let checkpoint = Checkpoint::open(&path).unwrap();
        for (value, field) in (1..).zip(checkpoint.fields()) {
            field.set(value);
        }
        checkpoint.logics_phys_offset.raise(5);
        checkpoint.flush().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 4096);
        for i in 0..6 {
            assert_eq!(bytes[8 * i..8 * i + 8], (i as u64 + 1).to_be_bytes());
        }
        assert!(bytes[48..4072].iter().all(|&byte| byte == 0));
        let again = Checkpoint::open(&path).unwrap();
        assert_eq!(again.fields().map(CheckpointField::get), [1, 2, 3, 4, 5, 6]);
        again.write_fingerprints(77, 78).unwrap();
        let again = Checkpoint::open(&path).unwrap();
        assert_eq!((again.queue_files(), again.index_files(), again.logics_phys_offset.get()), (77, 78, 6));
        again.logics_phys_offset.set(7);
        again.flush().unwrap();
        let again = Checkpoint::open(&path).unwrap();
        assert_eq!((again.queue_files(), again.index_files()), (77, 78));
        // Another program writes the integers and leaves the rest alone.
        again.file.write_all_at(&8i64.to_be_bytes(), 40).unwrap();
        let again = Checkpoint::open(&path).unwrap();
        assert_eq!((again.queue_files(), again.index_files(), again.logics_phys_offset.get()), (0, 0, 8));
    }

    #[test]
    fn damaged_files_count_as_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("checkpoint");
        for content in [vec![], vec![7; 20], vec![0xff; 4096]] {
            std::fs::write(&path, &content).unwrap();
            assert_eq!(Checkpoint::open(&path).unwrap().fields().map(CheckpointField::get), [0; 6]);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
        }
    }
}
