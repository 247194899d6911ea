//! Opening a store: lock, load, recover.
//!
//! The order matters: nothing is changed before the log's files are known to fit; the log is cut before the queues and
//! the index, which follow it; they are fed again before anybody may append, so that no queue offset is given twice.

use std::sync::Arc;

use crate::abort::AbortFile;
use crate::background::{Core, Threads};
use crate::checkpoint::Checkpoint;
use crate::commitlog::CommitLog;
use crate::commitlog::recover::{Checks, End};
use crate::dispatch::{DelayLevels, Dispatcher};
use crate::error::StoreError;
use crate::flush::Flusher;
use crate::index::{Geometry, Index};
use crate::lock::StoreLock;
use crate::queue::{QueueTable, TableOptions};
use crate::types::StoreOptions;

impl Core {
    /// See [`crate::Store::open`]. The threads are not started yet.
    pub(crate) fn open(options: StoreOptions) -> Result<Core, StoreError> {
        let config = options.config.load_full();
        let root = config.root_dir();
        for dir in [&root, &config.commit_log_dir(), &root.join("consumequeue"), &root.join("index")] {
            std::fs::create_dir_all(dir).map_err(|source| StoreError::Io { path: dir.clone(), source })?;
        }
        let lock = StoreLock::take(&root)?;
        let abort = AbortFile::new(&root);
        let clean = !abort.exists();
        let segment_len = usize::try_from(config.mapped_file_size_commit_log).unwrap_or(0);
        let log = Arc::new(CommitLog::load(config.commit_log_dir(), segment_len)?);
        let checkpoint = Arc::new(Checkpoint::open(&root.join("checkpoint"))?);
        let queues = Arc::new(QueueTable::load(&TableOptions {
            root: root.clone(),
            file_size: config.mapped_file_size_consume_queue,
            batch_file_size: config.mapper_file_size_batch_consume_queue,
        })?);
        let index = match config.message_index_enable {
            true => {
                let geometry = Geometry::new(config.max_hash_slot_num, config.max_index_num);
                let trusted = (!clean).then(|| checkpoint.index_msg_timestamp.get());
                Some(Arc::new(Index::load(root.join("index"), geometry, trusted)?))
            }
            false => None,
        };
        let levels = DelayLevels::parse(&config.message_delay_level);
        let dispatcher = Dispatcher::new(Arc::clone(&queues), index.clone(), options.arrived.clone(), levels);
        let checks = Checks { crc: config.check_crc_on_recover, crc_property: config.force_verify_prop_crc };

        let fingerprint = queues.fingerprint();
        let recovery = Recovery {
            log: &log,
            queues: &queues,
            fingerprint,
            index: index.as_deref(),
            checkpoint: &checkpoint,
            checks,
        };
        let index_counts = config.message_index_enable && config.message_index_safe;
        let from = recovery.start(clean, index_counts);
        let end = recovery.cut(from)?;
        recovery.dispatch(&dispatcher, clean, from)?;
        tracing::info!(
            path = %root.display(), clean, from, end = end.offset, reason = ?end.reason,
            "the store is recovered"
        );
        abort.create()?;

        let flusher = Flusher::new(Arc::clone(&log), Arc::clone(&checkpoint), Arc::clone(&options.config));
        Ok(Core::new(options, log, queues, index, dispatcher, checkpoint, flusher, abort, lock, Threads::default()))
    }
}

/// What recovery works on.
struct Recovery<'a> {
    log: &'a CommitLog,
    queues: &'a QueueTable,
    /// Of the queues as they were found.
    fingerprint: u64,
    index: Option<&'a Index>,
    checkpoint: &'a Checkpoint,
    checks: Checks,
}

impl Recovery<'_> {
    /// The log file that recovery starts with: the last one whose first record is known to be in the consume queues.
    fn start(&self, clean: bool, index_counts: bool) -> u64 {
        let checkpoint = self.checkpoint;
        let in_queues = self.queues.max_phys();
        let matches = |phys: u64, timestamp: i64| {
            let in_index = !index_counts || timestamp <= checkpoint.index_msg_timestamp.get();
            let phys = phys as i64;
            in_index
                && match (clean, checkpoint.logics_phys_offset.get()) {
                    (true, _) => phys <= in_queues,
                    // Written by a version that does not know the field.
                    (false, 0) => timestamp <= checkpoint.logics_msg_timestamp.get(),
                    (false, offset) => phys <= offset,
                }
        };
        self.log.file_to_recover_from(matches, self.checks)
    }

    /// Finds the end of the log and cuts log, queues and index there.
    fn cut(&self, from: u64) -> Result<End, StoreError> {
        let end = self.log.find_end(from, self.checks);
        if self.log.segments().first().is_none() {
            // The log's files are gone: what points into them is worth nothing.
            self.queues.delete_all()?;
            self.index.map_or(Ok(()), Index::delete_all)?;
        }
        self.log.truncate(end.offset)?;
        self.queues.truncate_dirty(end.offset)?;
        // As Java leaves it: the start of the last record.
        self.checkpoint.confirm_phys_offset.set(end.last_record.unwrap_or(from) as i64);
        Ok(end)
    }

    /// Whether the set of queues is another than when the store was last open. Then the whole log is read: a queue that
    /// is gone would begin anew with offsets that records in the log carry.
    fn queues_lost(&self) -> bool {
        let known = self.checkpoint.fingerprint();
        let lost = known != 0 && known != self.fingerprint;
        if lost {
            tracing::warn!("consume queues are missing or new: the whole log is dispatched again");
        }
        lost
    }

    /// Feeds queues and index what they may have lost.
    fn dispatch(&self, dispatcher: &Dispatcher, clean: bool, from: u64) -> Result<(), StoreError> {
        let start = self.log.range().start;
        let from = match (u64::try_from(self.queues.max_phys()), clean) {
            _ if self.queues_lost() => start,
            // Without any entry everything is missing, whatever the checkpoint says.
            (Err(_), _) => start,
            (Ok(in_queues), true) => in_queues,
            (Ok(in_queues), false) => in_queues.min(from),
        };
        let mut walk = self.log.walk(from);
        loop {
            while let Some((phys, record)) = walk.next_record() {
                dispatcher.record(phys, &record)?;
            }
            let Some(error) = walk.error() else { break };
            // In a file before the one where the checks began.
            tracing::error!(offset = walk.position(), %error, "no record stands here: the rest of the file is passed over");
            walk.skip_file();
        }
        dispatcher.reset(self.log.wrote().get());
        self.queues.correct_min(start)
    }
}
