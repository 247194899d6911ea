//! The two ends of replication in the store: the bytes of the log for whoever copies it, and whole records of another
//! broker's log for an append at the same place. Roles, connections and acknowledgements are the broker's business.

use std::ops::Range;
use std::sync::Arc;

use crate::background::Core;
pub use crate::commitlog::CopyError;
use crate::segment::SegmentSlice;
use crate::store::Store;

/// The log of an open store, to be copied from.
#[derive(Clone)]
pub struct Source {
    core: Arc<Core>,
}

impl Source {
    /// The log's range: start of the first file to the end of the last record.
    pub fn range(&self) -> Range<u64> {
        self.core.log.range()
    }

    /// Where the newest file begins when the log ends at `end`: at `end` itself when the last file is full.
    pub fn newest_file(&self, end: u64) -> u64 {
        end - end % self.file_len()
    }

    /// Size of a file of the log in bytes.
    pub fn file_len(&self) -> u64 {
        self.core.log.segments().segment_len() as u64
    }

    /// What is written from an offset on, in one piece: at most to the end of its file. `None` at the end of the log, and
    /// where the log has no file (any more).
    pub fn slice(&self, offset: u64) -> Option<SegmentSlice> {
        // The watermark first: a slice goes to the end of what is published, which may be more.
        let end = self.core.log.wrote().get();
        let rest = self.core.log.rest_of_file(offset)?;
        let len = end.checked_sub(offset)?.min(rest.len() as u64) as usize;
        rest.narrow(0..len).filter(|slice| !slice.is_empty())
    }

    /// Reads the pages of a range in, as far as they lie in one file, and waits for the device.
    pub fn read_in(&self, range: Range<u64>) {
        if let Some(segment) = self.core.log.segments().find(range.start) {
            let start = range.start - segment.base();
            segment.read_in(start as usize..(start + (range.end - range.start)) as usize);
        }
    }
}

/// The log of an open store, to be copied into.
pub struct Sink {
    core: Arc<Core>,
}

impl Sink {
    /// The log's range.
    pub fn range(&self) -> Range<u64> {
        self.core.log.range()
    }

    /// Size of a file of the log in bytes.
    pub fn file_len(&self) -> u64 {
        self.core.log.segments().segment_len() as u64
    }

    /// The end of the log without zeros at its end, as far as they lie in its last file: a blank record is nearly nothing
    /// else.
    pub fn tail(&self) -> u64 {
        let end = self.core.log.wrote().get();
        let Some(last) = end.checked_sub(1) else { return end };
        let Some(segment) = self.core.log.segments().find(last) else { return end };
        let written = segment.bytes().get(..(end - segment.base()) as usize).unwrap_or_default();
        written.iter().rposition(|byte| *byte != 0).map_or(end, |last| segment.base() + last as u64 + 1)
    }

    /// Whether the log has exactly these bytes at an offset.
    pub fn matches(&self, offset: u64, bytes: &[u8]) -> bool {
        let (mut at, mut bytes) = (offset, bytes);
        while !bytes.is_empty() {
            let Some(rest) = self.core.log.rest_of_file(at) else { return false };
            let (now, later) = bytes.split_at(bytes.len().min(rest.len()));
            if rest[..now.len()] != *now {
                return false;
            }
            at += now.len() as u64;
            bytes = later;
        }
        true
    }

    /// Appends whole records at the end of the log, which is `offset`; an empty log begins there, at the start of a file.
    /// They are readable after [`Sink::dispatch`]. May wait a moment for the device.
    ///
    /// # Errors
    /// See [`CopyError`].
    pub fn append(&mut self, offset: u64, records: &[u8]) -> Result<(), CopyError> {
        self.core.flusher.hold_back();
        let begins = self.core.log.range().is_empty();
        self.core.log.append_copy(offset, records)?;
        if begins {
            // Nothing lies before it that could be put on disk or into queues.
            self.core.flusher.flushed().advance(offset);
            let dispatcher = &self.core.dispatcher;
            dispatcher.paused(|| dispatcher.reset(offset.max(dispatcher.position())));
        }
        Ok(())
    }

    /// Makes what was appended readable; with SYNC_FLUSH after the next flush, which is asked for.
    pub fn dispatch(&mut self) {
        if self.core.is_sync_flush() {
            self.core.flusher.request();
        }
        self.core.dispatch();
    }
}

impl Store {
    /// The log, for whoever copies it.
    pub fn source(&self) -> Source {
        Source { core: Arc::clone(self.core()) }
    }

    /// The log, for a copy of another broker's. One at a time appends; nobody else does.
    pub fn sink(&self) -> Sink {
        Sink { core: Arc::clone(self.core()) }
    }

    /// How far the master's log is on disk, as a slave was told; 0 when it was not.
    pub fn master_flushed(&self) -> i64 {
        self.core().checkpoint.master_flushed_offset.get()
    }

    /// Says how far the master's log is on disk. The checkpoint has it after its next flush.
    pub fn set_master_flushed(&self, offset: i64) {
        self.core().checkpoint.master_flushed_offset.set(offset);
    }

    /// Calls `grown` whenever the log may have grown: with each [`Store::dispatch`], on the thread that appended, before
    /// anything else is done with the messages. Must not block. The first call counts.
    pub fn on_growth(&self, grown: impl Fn() + Send + Sync + 'static) {
        let _ = self.core().grown.set(Box::new(grown));
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::{Duration, Instant};

    use config::{BrokerRole, FlushDiskType, Live, MessageStoreConfig};

    use super::*;
    use crate::store::{All, NewMessage, ReadRequest, ReadResult, StoreOptions};

    fn open(dir: &tempfile::TempDir, adjust: impl FnOnce(&mut MessageStoreConfig)) -> Arc<Store> {
        let mut config = MessageStoreConfig {
            store_path_root_dir: dir.path().to_str().unwrap().into(),
            mapped_file_size_commit_log: 8192,
            mapped_file_size_consume_queue: 2000,
            max_hash_slot_num: 100,
            max_index_num: 400,
            ..MessageStoreConfig::default()
        };
        adjust(&mut config);
        Store::open(StoreOptions {
            config: Arc::new(Live::new(config)),
            store_host: SocketAddr::from(([127, 0, 0, 1], 10911)),
            arrived: None,
            filter_bits: None,
        })
        .unwrap()
    }

    fn slave(dir: &tempfile::TempDir) -> Arc<Store> {
        open(dir, |config| config.broker_role = BrokerRole::Slave)
    }

    fn send(store: &Store, number: usize) {
        let message = NewMessage {
            flag: 0,
            sys_flag: 0,
            born_timestamp: 1,
            born_host: SocketAddr::from(([127, 0, 0, 1], 1)),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            properties: b"KEYS\x01k\x02",
            body: &vec![number as u8; 100 + number % 500],
        };
        store.append(&store.queue_or_create("T", (number % 3) as i32), &message).unwrap();
    }

    /// Copies what the slave does not have, file by file.
    fn copy(master: &Store, slave: &Store) {
        let (source, mut sink) = (master.source(), slave.sink());
        let mut at = match sink.range().end {
            0 => source.newest_file(source.range().end),
            end => end,
        };
        while let Some(slice) = source.slice(at) {
            sink.append(at, &slice).unwrap();
            at += slice.len() as u64;
        }
        sink.dispatch();
    }

    fn same_log(master: &Store, slave: &Store) {
        let (ours, theirs) = (slave.log_range(), master.log_range());
        assert_eq!(ours.end, theirs.end);
        let sink = slave.sink();
        let mut at = ours.start;
        while let Some(slice) = master.source().slice(at) {
            assert!(sink.matches(at, &slice));
            at += slice.len() as u64;
        }
        assert_eq!(at, ours.end);
    }

    fn count(store: &Store) -> i64 {
        (0..3).filter_map(|id| store.queue("T", id)).map(|queue| queue.max_offset() - queue.min_offset()).sum()
    }

    #[test]
    fn a_copy_is_the_same_and_readable() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (master, copied) = (open(&a, |_| ()), slave(&b));
        (0..7).for_each(|number| send(&master, number));
        copy(&master, &copied);
        (7..200).for_each(|number| send(&master, number));
        copy(&master, &copied);
        same_log(&master, &copied);
        master.dispatch();
        assert_eq!((count(&master), count(&copied)), (200, 200));
        let queue = copied.queue("T", 1).unwrap();
        let mut result = ReadResult::default();
        copied.read(&queue, &ReadRequest { offset: 60, max_messages: 32, max_bytes: i32::MAX }, &All, &mut result);
        assert_eq!(result.records.len(), 7);
        assert_eq!(copied.query("T", "k", 64, 0..i64::MAX).records.len(), 64);
        // It goes on after a restart, and could take messages itself.
        copied.close();
        let copied = slave(&b);
        (200..300).for_each(|number| send(&master, number));
        copy(&master, &copied);
        same_log(&master, &copied);
        assert_eq!(count(&copied), 300);
        copied.close();
        let copied = open(&b, |_| ());
        send(&copied, 1);
        copied.dispatch();
        assert_eq!(copied.queue("T", 1).unwrap().max_offset(), 101);
    }

    /// As in Java: an empty slave gets the newest file of the master.
    #[test]
    fn an_empty_log_begins_in_the_middle() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (master, copied) = (open(&a, |_| ()), slave(&b));
        (0..100).for_each(|number| send(&master, number));
        copy(&master, &copied);
        // A blank record does not count.
        let first = master.source().slice(0).unwrap();
        let zeros = first.iter().rev().take_while(|byte| **byte == 0).count();
        let other = tempfile::tempdir().unwrap();
        let other = slave(&other);
        other.sink().append(0, &first).unwrap();
        assert!(zeros > 0 && other.sink().tail() == (8192 - zeros) as u64);
        let range = copied.log_range();
        assert!(range.start > 0 && range.start % 8192 == 0);
        same_log(&master, &copied);
        assert!((1..100).contains(&count(&copied)));
        assert_eq!(copied.dispatched(), range.end);
        copied.sync_all().unwrap();
        assert_eq!(copied.flushed().get(), range.end);
        copied.close();
        let copied = slave(&b);
        assert_eq!(copied.log_range(), range);
        (100..110).for_each(|number| send(&master, number));
        copy(&master, &copied);
        same_log(&master, &copied);
    }

    #[test]
    fn only_the_end_takes_records() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (master, copied) = (open(&a, |_| ()), slave(&b));
        (0..10).for_each(|number| send(&master, number));
        copy(&master, &copied);
        let end = copied.log_range().end;
        let slice = master.source().slice(0).unwrap();
        for offset in [0, end - 1, end + 1] {
            let error = copied.sink().append(offset, &slice[..10]).unwrap_err();
            assert!(matches!(error, CopyError::NotTheEnd { end: at } if at == end), "{error}");
        }
        assert_eq!((copied.log_range().end, copied.sink().tail()), (end, end));
        assert!(!copied.sink().matches(1, &slice[..10]));
        assert!(!copied.sink().matches(end - 5, &[0; 10]));
        copied.close();
        assert!(matches!(copied.sink().append(end, &slice[..10]), Err(CopyError::Append(_))));
    }

    #[test]
    fn with_sync_flush_a_copy_is_readable_once_it_is_on_disk() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let master = open(&a, |_| ());
        let copied = open(&b, |config| {
            config.broker_role = BrokerRole::Slave;
            config.flush_disk_type = FlushDiskType::Sync;
        });
        (0..10).for_each(|number| send(&master, number));
        copy(&master, &copied);
        let (end, limit) = (master.log_range().end, Duration::from_secs(20));
        assert!(copied.flushed().wait(end, limit));
        // The flush thread may be at it for longer than a reader waits.
        let begin = Instant::now();
        while copied.dispatched() < end && begin.elapsed() < limit {
            copied.catch_up();
        }
        assert_eq!(count(&copied), 10);
    }

    #[test]
    fn whoever_copies_is_told_of_growth() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir, |_| ());
        let seen = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let (told, source) = (seen.clone(), store.source());
        store.on_growth(move || told.store(source.range().end, std::sync::atomic::Ordering::SeqCst));
        send(&store, 1);
        store.dispatch();
        assert_eq!(seen.load(std::sync::atomic::Ordering::SeqCst), store.wrote().get());
        // The callback keeps nothing of the store open.
        store.close();
    }
}
