//! Queues that are made anew while others are kept: what a copy of a log does not say, and what is known of a topic too late.
//!
//! **A topic that was deleted** and made again, or a queue whose messages were all gone and which was forgotten, begins at
//! offset 0 once more. Nothing in the log tells of the deletion; only the first record of the new queue does, which has an
//! offset that its queue has given long ago. Where the offsets are given (a master that runs) the old queue is gone by then.
//! A slave, and a recovery that meets both lives of a queue, let go of the old one when that record comes. (Java appends it
//! to the old queue and passes over those that follow it.)
//!
//! **The kind of a queue**, simple or batch, is an attribute of the topic, and a slave's copy of the topics may be older
//! than its copy of the log. A queue lists its records whatever its kind, so it is made anew from what it lists.

use std::sync::Arc;

use super::{Dispatcher, State, queue_entry};
use crate::commitlog::CommitLog;
use crate::error::StoreError;
use crate::index::Keys;
use crate::queue::Queue;
use crate::record::RecordView;

/// So many entries are listed anew before a dispatch has its turn.
const TURN: usize = 4096;

impl Dispatcher {
    /// The topics with a queue that was made anew since the last call.
    pub(crate) fn take_begun_anew(&self) -> Vec<String> {
        std::mem::take(&mut *self.begun_anew.lock()).into_iter().collect()
    }

    /// Makes the queues of a topic anew that are not of a kind, batch or simple. Returns how many there were. The caller must
    /// [`drain`](Dispatcher::drain) afterwards.
    ///
    /// # Errors
    /// The disk; the queue stays as it is.
    pub(crate) fn remake(&self, log: &CommitLog, topic: &str, batch: bool) -> Result<usize, StoreError> {
        let queues = Arc::clone(&self.state.lock().queues);
        let mut made = 0;
        for old in queues.of_topic(topic).iter().filter(|queue| queue.is_batch() != batch) {
            let fresh = queues.of_other_kind(old);
            let mut next = old.lowest();
            loop {
                let state = self.state.lock();
                match state.list_anew(log, old, &fresh, &mut next).and_then(|more| match more {
                    true => Ok(true),
                    false => fresh.flush().map(|()| false),
                }) {
                    Ok(true) => {}
                    Ok(false) => {
                        queues.replace(old, fresh)?;
                        break;
                    }
                    Err(error) => return fresh.delete().and(Err(error)),
                }
            }
            made += 1;
        }
        Ok(made)
    }
}

impl State {
    /// The first record of a queue comes, at `phys`: one of that name that has older records is another one.
    #[cold]
    pub(super) fn begin_anew(&self, topic: &str, id: i32, phys: u64) -> Result<(), StoreError> {
        let Some(old) = self.queues.get(topic, id).filter(|queue| queue.is_before(phys)) else { return Ok(()) };
        tracing::info!(
            topic,
            queue = id,
            phys,
            before = old.max_offset(),
            "the queue was made anew where its messages were sent: what it had is let go of"
        );
        self.queues.begin_anew(&old)?;
        self.begun_anew.lock().insert(topic.to_owned());
        Ok(())
    }

    /// Adds what a queue lists from an offset on to another one of the other kind, and moves the offset on. True: there is
    /// more.
    fn list_anew(&self, log: &CommitLog, old: &Queue, fresh: &Queue, next: &mut i64) -> Result<bool, StoreError> {
        let batch = fresh.is_batch();
        let mut listed = 0;
        while *next < old.max_offset() {
            let before = *next;
            for entry in old.entries(before).into_iter().flatten() {
                if listed == TURN {
                    return Ok(true);
                }
                listed += 1;
                *next = entry.next_offset();
                let (phys, size) = (u64::try_from(entry.unit.phys), usize::try_from(entry.unit.size));
                let (Ok(phys), Ok(size), false) = (phys, size, entry.unit.is_filler()) else { continue };
                let Some(bytes) = log.slice(phys, size) else { continue };
                let Ok(record) = RecordView::parse(&bytes) else { continue };
                let keys = Keys::of(&record);
                let tags_code = self.tags_code(&record, &keys);
                let ext = (!batch && self.queues.is_extended()).then(|| self.ext_unit(&record, tags_code));
                if let Some(entry) = queue_entry(batch, phys, &record, &keys, tags_code) {
                    fresh.append(&entry, batch, ext.as_ref())?;
                }
            }
            if *next == before {
                // A file is missing.
                *next = old.roll(before);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Rig, rig_with_queues};
    use super::*;
    use crate::record::sys_flag;

    /// As the slave of `master` would have it by now, with queues in `dir`.
    fn copy_of(master: &Rig, dir: &tempfile::TempDir) -> Rig {
        master.over_the_same_log(dir.path()).with_copied_log()
    }

    #[test]
    fn a_topic_that_was_deleted_begins_at_0_again() {
        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let master = rig_with_queues(dirs[0].path(), 64);
        let slave = copy_of(&master, &dirs[1]);
        for _ in 0..5 {
            master.append("T", 0, 0, &[("KEYS", "old")]);
            master.append("T", 1, 0, &[]);
            master.append("Other", 0, 0, &[]);
        }
        master.drain();
        slave.drain();
        assert_eq!(slave.dispatcher().take_begun_anew(), [""; 0]);
        for length in [2, 7] {
            // Shorter and longer than before.
            master.queues.delete_topic("T").unwrap();
            for _ in 0..length {
                master.append("T", 0, 0, &[("KEYS", "new")]);
                master.append("Other", 0, 0, &[]);
            }
            master.drain();
            slave.drain();
            assert_eq!(slave.offsets("T", 0), master.offsets("T", 0));
            assert_eq!(slave.offsets("T", 0).len(), length);
            assert_eq!(slave.offsets("Other", 0), master.offsets("Other", 0));
            assert_eq!(slave.queues.get("T", 1).unwrap().max_offset(), 5);
            assert_eq!(slave.dispatcher().take_begun_anew(), ["T"]);
        }
        // A recovery of the whole log makes the same of it.
        let recovered = master.over_the_same_log(dirs[2].path());
        let mut walk = master.log.walk(0);
        while let Some((phys, record)) = walk.next_record() {
            recovered.dispatcher().record(phys, &record).unwrap();
        }
        assert_eq!(recovered.offsets("T", 0), master.offsets("T", 0));
        // And records that come again change nothing.
        let mut walk = master.log.walk(0);
        while let Some((phys, record)) = walk.next_record() {
            recovered.dispatcher().record(phys, &record).unwrap();
        }
        assert_eq!(recovered.offsets("T", 0), master.offsets("T", 0));
    }

    #[test]
    fn queues_of_the_other_kind_are_made_anew_from_what_they_list() {
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let master = rig_with_queues(dirs[0].path(), 64);
        let slave = copy_of(&master, &dirs[1]);
        master.queues.set_kind("T", true);
        for _ in 0..100 {
            master.append("T", 0, 0, &[("TAGS", "a")]);
            master.append("T", 0, sys_flag::INNER_BATCH, &[("INNER_NUM", "3")]);
            master.append("T", 1, 0, &[]);
            master.append("T", 2, sys_flag::INNER_BATCH, &[("INNER_NUM", "2")]);
        }
        master.drain();
        slave.drain();
        let kinds = |rig: &Rig| rig.queues.of_topic("T").iter().map(|queue| queue.is_batch()).collect::<Vec<_>>();
        assert_eq!((kinds(&master), kinds(&slave)), (vec![true; 3], vec![false, false, true]));
        slave.queues.set_kind("T", true);
        assert_eq!(slave.dispatcher().remake(&slave.log, "T", true).unwrap(), 2);
        assert_eq!(slave.dispatcher().remake(&slave.log, "T", true).unwrap(), 0);
        master.append("T", 0, sys_flag::INNER_BATCH, &[("INNER_NUM", "5")]);
        master.append("T", 1, 0, &[]);
        master.drain();
        slave.drain();
        assert_eq!(kinds(&slave), [true; 3]);
        for (ours, theirs) in slave.queues.of_topic("T").iter().zip(master.queues.of_topic("T")) {
            assert_eq!((ours.min_offset(), ours.max_offset()), (theirs.min_offset(), theirs.max_offset()));
            let entries = |queue: &Queue| {
                let mut found = Vec::new();
                let mut at = queue.min_offset();
                while let Some(entries) = queue.entries(at) {
                    found.extend(entries);
                    at = found.last().map_or(at, |entry| entry.next_offset());
                }
                found
            };
            assert_eq!(entries(ours), entries(&theirs));
        }
        assert!(!dirs[1].path().join("consumequeue/T/0").exists());
        // And back.
        slave.queues.set_kind("T", false);
        assert_eq!(slave.dispatcher().remake(&slave.log, "T", false).unwrap(), 3);
        slave.drain();
        assert_eq!(slave.offsets("T", 1), master.offsets("T", 1));
        assert_eq!(slave.queues.get("T", 0).unwrap().unit_len(), 20);
    }

    #[test]
    fn a_kill_between_the_two_kinds() {
        let dir = tempfile::tempdir().unwrap();
        let rig = rig_with_queues(dir.path(), 64);
        (0..5).for_each(|_| assert!(rig.append("T", 0, 0, &[]) < u64::MAX));
        rig.drain();
        let simple = dir.path().join("consumequeue/T/0");
        let kept = dir.path().join("kept");
        std::fs::rename(&simple, &kept).unwrap();
        std::fs::create_dir_all(&simple).unwrap();
        for file in std::fs::read_dir(&kept).unwrap().flatten() {
            std::fs::copy(file.path(), simple.join(file.file_name())).unwrap();
        }
        rig.dispatcher().remake(&rig.log, "T", true).unwrap();
        drop(rig);
        let config = dir.path().join("config");
        std::fs::create_dir_all(&config).unwrap();
        let topic = r#"{"topicConfigTable":{"T":{"attributes":{"queue.type":"BatchCQ"}}}}"#;
        std::fs::write(config.join("topics.json"), topic).unwrap();
        std::fs::create_dir_all(simple.parent().unwrap()).unwrap();
        std::fs::rename(&kept, &simple).unwrap();
        let rig = rig_with_queues(dir.path(), 64);
        let queue = rig.queues.get("T", 0).unwrap();
        assert!(queue.is_batch() && queue.max_offset() == 5 && !simple.exists());
    }
}
