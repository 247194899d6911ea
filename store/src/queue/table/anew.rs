//! One queue goes, or another one takes its place.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Found, QueueTable, directories};
use crate::error::StoreError;
use crate::lmq::is_lmq;
use crate::queue::Queue;
use crate::segment::remove_dir;

impl QueueTable {
    /// Forgets a queue and removes its files and its compacted log; false when the table has another one by now.
    ///
    /// # Errors
    /// A file could not be removed; the queue is forgotten nevertheless.
    pub(crate) fn delete_queue(&self, queue: &Queue) -> Result<bool, StoreError> {
        let mut topics = self.topics.write();
        let Some(queues) = topics.get_mut(queue.topic()) else { return Ok(false) };
        if queues.0.get(&queue.id()).is_none_or(|known| !std::ptr::eq(&**known, queue)) {
            return Ok(false);
        }
        queues.0.remove(&queue.id());
        self.light.fetch_sub(usize::from(is_lmq(queue.topic())), Ordering::Relaxed);
        let last = queues.0.is_empty();
        if last {
            topics.remove(queue.topic());
        }
        // In the lock: who makes the queue anew must not meet the old files.
        let compacted = match (queue.compaction(), self.compaction.get()) {
            (Some(_), Some(compaction)) => compaction.delete_queue(queue.topic(), queue.id()),
            _ => Ok(()),
        };
        let result = queue.delete().and(compacted);
        if last {
            self.remove_dirs(queue.topic());
        }
        result.map(|()| true)
    }

    /// Forgets a queue and removes its files: it was made anew where its messages were sent.
    ///
    /// # Errors
    /// A file could not be removed; the queue is forgotten nevertheless.
    pub(crate) fn begin_anew(&self, old: &Queue) -> Result<(), StoreError> {
        let floor = std::mem::take(&mut old.writer.lock().floor);
        let result = self.delete_queue(old);
        if floor > 0 {
            self.get_or_create(old.topic(), old.id()).writer.lock().floor = floor;
        }
        result.map(drop)
    }

    /// A queue without units that is to take the place of another one, which has the other kind of units: it is not in the
    /// table yet.
    pub(crate) fn of_other_kind(&self, queue: &Queue) -> Queue {
        let fresh = Queue::new(Arc::clone(&queue.topic), queue.id, Arc::clone(&self.places), !queue.is_batch());
        if let Some(compacted) = queue.compaction() {
            fresh.compacted_by(Arc::clone(compacted));
        }
        fresh
    }

    /// Puts a queue in the place of another one, whose files are removed. Its own are on the device.
    ///
    /// # Errors
    /// A file of the old one could not be removed.
    pub(crate) fn replace(&self, old: &Queue, fresh: Queue) -> Result<(), StoreError> {
        let mut topics = self.topics.write();
        let Some(queues) = topics.get_mut(&*old.topic) else { return fresh.delete() };
        match queues.0.get_mut(&old.id) {
            Some(known) if std::ptr::eq(&**known, old) => *known = Arc::new(fresh),
            _ => return fresh.delete(),
        }
        old.delete()
    }

    /// Sets which kind of units the queues of a topic get that are made from now on.
    pub(crate) fn set_kind(&self, topic: &str, batch: bool) {
        let known = self.batch_topics.read().contains(topic);
        match batch {
            true if !known => _ = self.batch_topics.write().insert(topic.to_owned()),
            false if known => _ = self.batch_topics.write().remove(topic),
            _ => {}
        }
    }

    /// Says that queues are being made anew from their records, or are no more.
    pub(crate) fn set_remaking(&self, remaking: bool) {
        self.remaking.store(remaking, Ordering::Release);
    }

    /// Removes the queues of the simple kind that a batch topic has as well: a kill came between the making of the others
    /// and the removal of these.
    #[cold]
    pub(super) fn remove_simple(&self, Found { topic, dir, .. }: &Found) -> Result<(), StoreError> {
        for id in directories(dir)? {
            if self.places.batch_dir.join(&**topic).join(&id).is_dir() {
                let dir = dir.join(&id);
                tracing::warn!(dir = %dir.display(), "the topic has batch queues: this one is removed");
                remove_dir(&dir).map_err(|source| StoreError::Io { path: dir, source })?;
            }
        }
        Ok(())
    }
}
