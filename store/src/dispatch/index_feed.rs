//! Feeds the index, and knows what is missing when it cannot be written.
//!
//! Queues go on without the index: a message that cannot be found by key is better than one that nobody can read. What was
//! left out is fed from the log once writing works again; until then the index gets nothing, because it takes records in
//! the order of the log.

use std::time::{Duration, Instant};

use crate::commitlog::CommitLog;
use crate::index::{Hashes, IndexWriter, KeyHash, Keys};
use crate::record::RecordView;

/// Between tries.
const PAUSE: Duration = Duration::from_secs(1);
/// So many bytes of the log are gone through at a time.
const BUDGET: u64 = 4 << 20;

/// See the module's text.
#[derive(Debug)]
pub(super) struct IndexFeed {
    writer: Option<IndexWriter>,
    behind: Option<Behind>,
}

#[derive(Debug)]
struct Behind {
    /// The first record that is not in the index with all of its keys.
    from: u64,
    failed: Option<Instant>,
}

impl IndexFeed {
    /// Without a writer nothing is fed.
    pub(super) fn new(writer: Option<IndexWriter>) -> IndexFeed {
        IndexFeed { writer, behind: None }
    }

    /// Whether records are missing.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// The hashes that a record is to be [`put`](IndexFeed::put) with, whose memory is asked for; `prefix` is the hash of
    /// `topic#`.
    #[inline]
    pub(super) fn hashes(&self, prefix: KeyHash, keys: &Keys<'_>) -> Hashes {
        let Some(writer) = self.writer.as_ref().filter(|_| self.behind.is_none()) else { return Hashes::default() };
        let hashes = Hashes::of(prefix, keys);
        writer.ask_for(&hashes);
        hashes
    }

    /// Feeds a record.
    #[inline]
    pub(super) fn put(&mut self, phys: u64, record: &RecordView<'_>, hashes: &Hashes) {
        let Some(writer) = self.writer.as_mut().filter(|_| self.behind.is_none()) else { return };
        if let Err(error) = writer.put(record, phys as i64, hashes) {
            tracing::error!(phys, %error, "the index cannot be written");
            self.behind = Some(Behind { from: phys, failed: Some(Instant::now()) });
        }
    }

    /// Feeds some of what is missing of the log up to `end`, where the next record comes. True when it is to be called again
    /// at once.
    #[cold]
    pub(super) fn catch_up(&mut self, log: &CommitLog, end: u64) -> bool {
        let (Some(writer), Some(behind)) = (&mut self.writer, &mut self.behind) else { return false };
        if behind.failed.is_some_and(|failed| failed.elapsed() < PAUSE) {
            return false;
        }
        behind.failed = None;
        let stop = behind.from.saturating_add(BUDGET).min(end);
        let mut walk = log.walk(behind.from);
        while walk.position() < stop {
            let Some((phys, record)) = walk.next_record().filter(|(phys, _)| *phys < end) else {
                if walk.error().is_none() {
                    break;
                }
                // Passed over by the dispatch as well.
                walk.skip_file();
                continue;
            };
            if let Err(error) = writer.put(&record, phys as i64, &Hashes::of_record(&record)) {
                tracing::debug!(phys, %error, "the index still cannot be written");
                *behind = Behind { from: phys, failed: Some(Instant::now()) };
                return false;
            }
        }
        behind.from = walk.position();
        if stop < end {
            return true;
        }
        tracing::info!(end, "the index is complete again");
        self.behind = None;
        false
    }
}
