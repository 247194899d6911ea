//! `config/timercheck`: how far the timer has come.
//!
//! Layout, big-endian, 4096 bytes: time (ms) of the first slot that is not delivered (8), end of the timer log (8), offset in
//! the timer's topic behind the last message taken (8), the same as a replica knows it from its master (8), and a version:
//! state (8), time (8), counter (8). The rest is zero in Java's files and left alone by Java.
//! Ours at 4048: hash of the first 56 bytes (8), messages of the first slot that are delivered (8), physical offset in the
//! commitlog before which all that the file says was done (8), offset in the timer's topic up to which messages had been
//! taken before the log lost some of them (8), position in the timer log before which it has no message that is still to be
//! taken (8), 1 after a stop in order (8). A hash that does not fit means that another broker wrote the file since.
//!
//! Threads: one writes. Crash: the page is written by one call.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// Bytes that Java knows: also the answer to GET_TIMER_CHECK_POINT.
pub const CHECKPOINT_LEN: usize = 56;
const FILE_LEN: usize = 4096;
const OURS_AT: usize = 4048;

/// What the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Time (ms) of the first slot that is not delivered.
    pub read_time: i64,
    /// End of the timer log.
    pub log_end: i64,
    /// Offset in the timer's topic behind the last message taken.
    pub queue_offset: i64,
    /// What a replica knows of its master's `queue_offset`; a master's own.
    pub master_queue_offset: i64,
    /// State version, time and counter of the version.
    pub version: [i64; 3],
    /// What only we write; `None` when another broker wrote the file.
    pub ours: Option<Ours>,
}

/// See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ours {
    /// Messages of the first slot that are delivered, in the order of the chain.
    pub delivered: u64,
    /// All deliveries that the marks stand for lie before this offset of the commitlog, all others behind.
    pub phys: u64,
    /// Offset in the timer's topic up to which messages were taken once; above `queue_offset` when the log has lost some.
    pub handled: i64,
    /// Before this position the timer log has no record of a message at or behind `queue_offset`.
    pub logged_from: u64,
    /// The timer was stopped in order, and everything is on disk.
    pub stopped: bool,
}

/// The file.
#[derive(Debug)]
pub struct TimerCheckpoint {
    path: PathBuf,
    file: File,
}

impl Marks {
    /// Reads the bytes that Java knows, as GET_TIMER_CHECK_POINT answers them: old brokers leave the version out. `None`: too
    /// few.
    pub fn decode(bytes: &[u8]) -> Option<Marks> {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| i64::from_be_bytes(*word));
        let mut next = || words.next();
        let (read_time, log_end, queue_offset, master_queue_offset) = (next()?, next()?, next()?, next()?);
        let version = [next().unwrap_or(0), next().unwrap_or(0), next().unwrap_or(0)];
        Some(Marks { read_time, log_end, queue_offset, master_queue_offset, version, ours: None })
    }

    /// The bytes that Java knows.
    pub fn encode(&self) -> [u8; CHECKPOINT_LEN] {
        let [state, time, counter] = self.version;
        let words = [self.read_time, self.log_end, self.queue_offset, self.master_queue_offset, state, time, counter];
        let mut bytes = [0; CHECKPOINT_LEN];
        for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *chunk = word.to_be_bytes();
        }
        bytes
    }
}

impl TimerCheckpoint {
    /// Opens or makes the file; also returns what it says, zeros for a new one.
    ///
    /// # Errors
    /// The disk.
    pub fn open(path: &Path) -> Result<(TimerCheckpoint, Marks), StoreError> {
        let error = |source| StoreError::Io { path: path.to_owned(), source };
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(error)?;
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(error)?;
        let mut page = vec![0; FILE_LEN];
        let len = file.metadata().map_err(error)?.len().min(FILE_LEN as u64) as usize;
        file.read_exact_at(&mut page[..len], 0).map_err(error)?;
        let word = |at: usize| i64::from_be_bytes(std::array::from_fn(|i| page[at + i]));
        let known = word(OURS_AT) as u64 == hash(&page[..CHECKPOINT_LEN]);
        let marks = Marks {
            read_time: word(0).max(0),
            log_end: word(8).max(0),
            queue_offset: word(16).max(0),
            master_queue_offset: word(24).max(0),
            version: [word(32), word(40), word(48)],
            ours: known.then(|| Ours {
                delivered: word(OURS_AT + 8) as u64,
                phys: word(OURS_AT + 16) as u64,
                handled: word(OURS_AT + 24),
                logged_from: word(OURS_AT + 32) as u64,
                stopped: word(OURS_AT + 40) == 1,
            }),
        };
        Ok((TimerCheckpoint { path: path.to_owned(), file }, marks))
    }

    /// Writes the marks and waits for the device.
    ///
    /// # Errors
    /// The system refuses or the device failed.
    pub fn write(&self, marks: &Marks) -> Result<(), StoreError> {
        let mut page = [0; FILE_LEN];
        page[..CHECKPOINT_LEN].copy_from_slice(&marks.encode());
        if let Some(ours) = marks.ours {
            let words = [
                hash(&page[..CHECKPOINT_LEN]),
                ours.delivered,
                ours.phys,
                ours.handled as u64,
                ours.logged_from,
                u64::from(ours.stopped),
            ];
            for (chunk, word) in page[OURS_AT..].as_chunks_mut::<8>().0.iter_mut().zip(words) {
                *chunk = word.to_be_bytes();
            }
        }
        self.file
            .write_all_at(&page, 0)
            .and_then(|()| self.file.sync_data())
            .map_err(|source| StoreError::Io { path: self.path.clone(), source })
    }
}

/// Of what Java knows; never 0.
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
        let path = dir.path().join("config/timercheck");
        let (file, marks) = TimerCheckpoint::open(&path).unwrap();
        assert_eq!(marks, Marks::default());
        let ours = Some(Ours { delivered: 3, phys: 99, handled: 8, logged_from: 9, stopped: true });
        let marks =
            Marks { read_time: 1, log_end: 2, queue_offset: 3, master_queue_offset: 4, version: [5, 6, 7], ours };
        file.write(&marks).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 4096);
        for i in 0..7 {
            assert_eq!(bytes[8 * i..8 * i + 8], (i as u64 + 1).to_be_bytes());
        }
        assert_eq!(Marks::decode(&bytes[..56]), Some(Marks { ours: None, ..marks }));
        assert_eq!(Marks::decode(&bytes[..32]).unwrap().version, [0; 3]);
        assert_eq!(Marks::decode(&bytes[..31]), None);
        assert!(bytes[56..4048].iter().all(|byte| *byte == 0));
        assert_eq!(TimerCheckpoint::open(&path).unwrap().1, marks);
        // Java writes the first 56 bytes and leaves the rest alone.
        bytes[7] = 9;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(TimerCheckpoint::open(&path).unwrap().1, Marks { read_time: 9, ours: None, ..marks });
        bytes.truncate(20);
        bytes[0] = 0xff;
        std::fs::write(&path, &bytes).unwrap();
        let odd = TimerCheckpoint::open(&path).unwrap().1;
        assert_eq!((odd.read_time, odd.log_end, odd.queue_offset, odd.ours), (0, 2, 0, None));
    }
}
