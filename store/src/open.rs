//! Opening a store: lock, load, recover.
//!
//! The order matters: nothing is changed before the log's files are known to fit; the log is cut before the queues and
//! the index, which follow it; they are fed again before anybody may append, so that no queue offset is given twice.

use std::sync::Arc;

use config::{BrokerRole, FlushDiskType};

use crate::abort::{AbortFile, create_dir};
use crate::background::{Core, Threads};
use crate::checkpoint::Checkpoint;
use crate::commitlog::CommitLog;
use crate::commitlog::recover::{Checks, End};
use crate::compaction::Compaction;
use crate::dispatch::{DelayLevels, Dispatcher, is_in_queue};
use crate::error::StoreError;
use crate::failpoint::{self, Point};
use crate::flush::Flusher;
use crate::index::{Geometry, Index};
use crate::lock::StoreLock;
use crate::progress::Progress;
use crate::queue::{QueueTable, TableOptions, mark};
use crate::record::RecordView;
use crate::types::StoreOptions;

impl Core {
    /// See [`crate::Store::open`]. The threads are not started yet.
    pub(crate) fn open(options: StoreOptions) -> Result<Core, StoreError> {
        let config = options.config.load_full();
        let root = config.root_dir();
        for dir in [&root, &config.commit_log_dir(), &root.join("consumequeue"), &root.join("index")] {
            create_dir(dir).map_err(|source| StoreError::Io { path: dir.clone(), source })?;
        }
        let point = |point| failpoint::hit(point).map_err(|source| StoreError::Io { path: root.clone(), source });
        let lock = StoreLock::take(&root)?;
        let abort = AbortFile::new(&root);
        let clean = !abort.exists();
        let segment_len = usize::try_from(config.mapped_file_size_commit_log).unwrap_or(0);
        let mut log = CommitLog::load(config.commit_log_dir(), segment_len)?;
        // As in Java, for a master that does not wait for the device.
        let master = config.broker_role != BrokerRole::Slave;
        if config.transient_store_pool_enable && master && config.flush_disk_type == FlushDiskType::Async {
            let buffers = usize::try_from(config.transient_store_pool_size).unwrap_or(0);
            log.use_pool(buffers).map_err(|source| StoreError::Io { path: root.clone(), source })?;
        }
        let log = Arc::new(log);
        let checkpoint = Arc::new(Checkpoint::open(&root.join("checkpoint"))?);
        let options_of_queues = TableOptions {
            root: root.clone(),
            file_size: config.mapped_file_size_consume_queue,
            batch_file_size: config.mapper_file_size_batch_consume_queue,
            ext_file_size: config.mapped_file_size_consume_queue_ext,
            ext: config.enable_consume_queue_ext,
        };
        let load_index = || {
            let geometry = Geometry::new(config.max_hash_slot_num, config.max_index_num);
            let trusted = (!clean).then(|| checkpoint.index_msg_timestamp.get());
            Index::load(root.join("index"), geometry, trusted)
        };
        // Both take their time, when there is much of them.
        let (queues, index) = std::thread::scope(|scope| {
            let index = config.message_index_enable.then(|| scope.spawn(load_index));
            let queues = QueueTable::load(&options_of_queues, checkpoint.queue_files());
            let index = index.map(|index| index.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            (queues, index.transpose())
        });
        let (queues, index) = (Arc::new(queues?), index?.map(Arc::new));
        point(Point::OpenLoaded)?;
        let checks =
            Checks { crc: config.check_crc_on_recover, crc_property: config.force_verify_prop_crc, torn: !clean };

        let files = (queues.fingerprint(), index.as_ref().map_or(0, |index| index.fingerprint()));
        if let Some(index) = &index {
            // Without what the load removed.
            index.recount();
        }
        let light = config.enable_lmq && config.enable_multi_dispatch;
        let recovery = Recovery {
            log: &log,
            queues: &queues,
            files,
            index: index.as_deref(),
            checkpoint: &checkpoint,
            checks,
            light,
        };
        let index_counts = config.message_index_enable && config.message_index_safe;
        let from = recovery.start(clean, index_counts);
        let (end, index_cut) = recovery.cut(from)?;
        point(Point::OpenCut)?;
        if !clean {
            queues.clear_behind()?;
            // Nobody knows whether the broker that was killed had put them on the device.
            queues.distrust(u64::try_from(checkpoint.logics_phys_offset.get()).unwrap_or(0))?;
        }
        let flushed = if clean { log.wrote().get() } else { from };
        let flusher = Flusher::new(Arc::clone(&log), flushed, Arc::clone(&checkpoint), Arc::clone(&options.config));
        let levels = DelayLevels::parse(&config.message_delay_level);
        let dispatcher = Dispatcher::new(Arc::clone(&queues), index.clone(), options.arrived.clone(), levels)
            .with_filter_bits(options.filter_bits.clone())
            .with_copied_log(!master)
            .with_light_queues(light);
        let index_cut = index_cut || index.as_ref().is_some_and(|index| index.is_damaged());
        let at_once = recovery.dispatch(&dispatcher, &flusher, Found { clean, index_cut }, from)?;
        point(Point::OpenDispatched)?;
        let changed = !clean || dispatcher.last() != (0, 0);
        if changed {
            match at_once {
                true => recovery.note(&dispatcher, &flusher)?,
                false => recovery.leave(&flusher)?,
            }
            checkpoint
                .write_fingerprints(queues.fingerprint(), index.as_ref().map_or(0, |index| index.fingerprint()))?;
        }
        point(Point::OpenNoted)?;
        tracing::info!(
            path = %root.display(), clean, from, end = end.offset, reason = ?end.reason,
            "the store is recovered"
        );
        abort.create()?;
        let compaction = config.enable_compaction.then(|| {
            Arc::new(Compaction::new(Arc::clone(&options.config), Arc::clone(&log), clean, end.last_timestamp))
        });
        let core =
            Core::new(options, log, queues, index, dispatcher, checkpoint, flusher, abort, lock, Threads::default());
        Ok(core.with_compaction(compaction).with_unnoted(changed && !at_once))
    }
}

/// Recovery notes how far it is each time it has fed so many bytes of the log.
const NOTE_EVERY: u64 = 512 << 20;
/// To put a little in each of more queues on the device takes longer than to find it again: that is left to the flush thread.
const MANY_QUEUES: usize = 4096;

/// How the store was found.
#[derive(Clone, Copy)]
struct Found {
    /// It was closed in order.
    clean: bool,
    /// The index knew more than the log and lost files.
    index_cut: bool,
}

/// What recovery works on.
struct Recovery<'a> {
    log: &'a CommitLog,
    queues: &'a QueueTable,
    /// Fingerprints of the files of queues and index as they were found.
    files: (u64, u64),
    index: Option<&'a Index>,
    checkpoint: &'a Checkpoint,
    checks: Checks,
    /// Records have entries in the light queues that they name.
    light: bool,
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

    /// Finds the end of the log and cuts log, queues and index there. True: the index lost something.
    fn cut(&self, from: u64) -> Result<(End, bool), StoreError> {
        let end = self.log.find_end(from, self.checks, Progress::new("checked", from, self.log.range().end));
        let mut cut_index = false;
        if self.log.segments().first().is_none() {
            // The log's files are gone: what points into them is worth nothing.
            self.queues.delete_all()?;
            self.index.map_or(Ok(()), Index::delete_all)?;
        }
        if let Some(index) = self.index
            && self.index_lost(index)
        {
            index.delete_all()?;
            cut_index = true;
        }
        self.log.truncate(end.offset)?;
        self.queues.truncate_dirty(end.offset)?;
        cut_index |= self.index.map_or(Ok(0), |index| index.truncate(end.offset))? > 0;
        // As Java leaves it: the start of the last record.
        self.checkpoint.confirm_phys_offset.set(end.last_record.unwrap_or(from) as i64);
        Ok((end, cut_index))
    }

    /// Whether the queues have other files than when the store was last open. Then the whole log is read: a queue that
    /// has lost files would give offsets that records in the log carry.
    fn queues_lost(&self, log_end: u64) -> bool {
        let known = self.checkpoint.queue_files();
        let files = known != 0 && known != self.files.0 || self.queues.files_missing();
        // What is on disk of the queues is never ahead of the log: this checkpoint is not to be believed.
        let ahead = u64::try_from(self.checkpoint.logics_phys_offset.get()).is_ok_and(|offset| offset > log_end);
        if files || ahead {
            tracing::warn!(files, ahead, "consume queues may have lost files: the whole log is dispatched again");
        }
        files || ahead
    }

    /// Whether the index has other files than when the store was last open, or, when that is not known, none.
    fn index_lost(&self, index: &Index) -> bool {
        let known = self.checkpoint.index_files();
        let lost = if known == 0 { index.files().is_empty() } else { known != self.files.1 };
        if lost && self.log.segments().first().is_some() {
            tracing::warn!("the index has lost files: it is made again from the log");
        }
        lost
    }

    /// Feeds queues and index what they may have lost. True when it is to be put on the device before the first message.
    fn dispatch(
        &self,
        dispatcher: &Dispatcher,
        flusher: &Flusher,
        found: Found,
        from: u64,
    ) -> Result<bool, StoreError> {
        let start = self.log.range().start;
        let lost = self.queues_lost(self.log.range().end);
        self.queues.set_files_missing(lost);
        let from = match (u64::try_from(self.queues.max_phys()), found.clean) {
            _ if lost => start,
            // Without any entry everything is missing, whatever the checkpoint says.
            (Err(_), _) => start,
            (Ok(in_queues), true) => in_queues,
            (Ok(in_queues), false) => in_queues.min(self.known_until(from)),
        };
        if let Some(index) = self.index
            && (!found.clean || found.index_cut)
        {
            self.each_record(self.index_end(index), |phys, record| {
                if phys >= from {
                    return Ok(false);
                }
                dispatcher.index_record(phys, record);
                Ok(true)
            })?;
        }
        let mut note_at = from + NOTE_EVERY;
        self.each_record(from, |phys, record| {
            failpoint::hit(Point::OpenRecord)
                .map_err(|source| StoreError::Io { path: self.log.segments().dir().to_owned(), source })?;
            dispatcher.record(phys, record)?;
            // A queue that has lost files may be behind others: then only all of the log is enough.
            if phys >= note_at && !found.clean && !lost {
                note_at = phys + NOTE_EVERY;
                self.note(dispatcher, flusher)?;
            }
            Ok(true)
        })?;
        dispatcher.reset(self.log.wrote().get());
        self.queues.set_files_missing(false);
        self.queues.keep_floors()?;
        self.queues.correct_min(start)?;
        let behind = u64::try_from(self.checkpoint.logics_phys_offset.get()).unwrap_or(0).max(from);
        let much = self.log.wrote().get().saturating_sub(behind) >= NOTE_EVERY;
        Ok(lost || found.index_cut || much || self.queues.unflushed() <= MANY_QUEUES)
    }

    /// The first record from the start of a file on that its queue does not have, or the last one that is in its queue by the
    /// checkpoint. To feed what is before it again would change nothing; to look whether it is there takes less time.
    fn known_until(&self, from: u64) -> u64 {
        let noted = u64::try_from(self.checkpoint.logics_phys_offset.get()).unwrap_or(0);
        // Queues that a record names in its properties are not looked at.
        if noted <= from || self.light {
            return from;
        }
        let ends = self.queues.ends();
        let mut walk = self.log.walk(from);
        let mut before = from;
        while let Some((phys, record)) = walk.next_record().filter(|(phys, _)| *phys <= noted) {
            let end = ends.get(&mark(record.topic_bytes(), record.queue_id()));
            if is_in_queue(&record) && end.is_none_or(|end| *end < (phys + record.size() as u64) as i64) {
                return phys;
            }
            before = phys;
        }
        before
    }

    /// Puts what was found and made again on the device and notes it: the next recovery, even if this broker is killed
    /// within its first second, begins here.
    fn note(&self, dispatcher: &Dispatcher, flusher: &Flusher) -> Result<(), StoreError> {
        let (timestamp, phys) = dispatcher.last();
        self.queues.flush(0)?;
        let indexed = self.index.map_or(Ok(0), Index::flush_full)?;
        self.checkpoint.index_msg_timestamp.raise(indexed);
        // The checkpoint must not say more of the log than the disk has. A failure refuses appends.
        if flusher.flush() {
            self.checkpoint.logics_msg_timestamp.set(timestamp);
            self.checkpoint.logics_phys_offset.set(phys);
        }
        self.checkpoint.flush()
    }

    /// As [`Recovery::note`], without the queues, which the flush thread will note as soon as it runs.
    fn leave(&self, flusher: &Flusher) -> Result<(), StoreError> {
        flusher.flush();
        self.checkpoint.flush()
    }

    /// Where the index ends. Files that were not known to be on disk are removed after a kill: the keys from here on are
    /// missing, although the queues may go much further.
    fn index_end(&self, index: &Index) -> u64 {
        let end = u64::try_from(index.end_phys()).unwrap_or(0);
        let stands_there = |record: &RecordView<'_>| record.phys_offset() as u64 == end;
        let record = self.log.record_at(end);
        match record.as_ref().and_then(|record| RecordView::parse(record).ok()).filter(stands_there) {
            Some(_) => end,
            None => self.log.range().start,
        }
    }

    /// Visits the records from an offset on, until `each` says that it has enough.
    fn each_record(
        &self,
        from: u64,
        mut each: impl FnMut(u64, &RecordView<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut walk = self.log.walk(from);
        let mut progress = Progress::new("dispatched", from, self.log.wrote().get());
        loop {
            while let Some((phys, record)) = walk.next_record() {
                progress.at(phys);
                if !each(phys, &record)? {
                    return Ok(());
                }
            }
            let Some(error) = walk.error() else { return Ok(()) };
            // In a file before the one where the checks began.
            tracing::error!(offset = walk.position(), %error, "no record stands here: the rest of the file is passed over");
            walk.skip_file();
        }
    }
}
