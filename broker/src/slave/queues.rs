//! Queues that this slave has and the master has not any more.
//!
//! Nothing in the log tells that a topic was deleted. A queue that gets messages afterwards begins at 0 again, and with its
//! first message the store lets go of the old one; the other queues of the topic, and those of a topic that was not made again,
//! are asked for here. They are forgotten when the master has none of that name, and only when that is certain:
//!
//! - the slave's log is a part of the log of a master that it is connected to,
//! - the master has dispatched everything that the slave had when the question began,
//! - the slave's queue has got nothing since then.
//!
//! Asked for are topics that the master's table has no more or that got a new queue, and [`IN_TURN`] others each time that all tables
//! are copied, since a topic may be deleted and made again between two looks. What has no name on the master because its
//! table was lost stays: the master's queues are asked for, not its table.

use std::collections::BTreeSet;

use super::fetch::SyncError;
use super::sync::MetadataSync;

/// Topics that are asked for in turn, each time.
const IN_TURN: usize = 16;

/// Topics of which something may be here that the master has no more.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// Those whose queues are to be asked for.
    queues: BTreeSet<String>,
    /// Those whose consumers' offsets are to be copied anew.
    offsets: BTreeSet<String>,
    /// The last one whose turn it was.
    turn: String,
}

impl Suspects {
    /// Adds topics that were deleted or made anew.
    pub(super) fn add(&mut self, topics: &[String]) {
        self.queues.extend(topics.iter().cloned());
        self.offsets.extend(topics.iter().cloned());
    }

    /// Whether offsets are to be copied.
    pub(super) fn has_offsets(&self) -> bool {
        !self.offsets.is_empty()
    }

    /// The topics whose offsets are to be copied; they are about to be.
    pub(super) fn take_offsets(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.offsets)
    }
}

impl MetadataSync {
    /// Notes which topics got a queue that was made anew; true: of some the consumers' offsets are to be copied.
    pub(super) fn note_begun_anew(&self) -> bool {
        let topics = self.parts.store.queues_begun_anew();
        let mut suspects = self.suspects.lock();
        suspects.add(&topics);
        suspects.has_offsets()
    }

    /// Notes the next topics in turn.
    pub fn suspect_some(&self) {
        let all: BTreeSet<_> = self.parts.store.topics().iter().map(|topic| topic.to_string()).collect();
        let mut suspects = self.suspects.lock();
        let behind = all.iter().filter(|topic| **topic > suspects.turn);
        let next: Vec<_> = behind.take(IN_TURN).cloned().collect();
        suspects.turn = next.last().filter(|_| next.len() == IN_TURN).cloned().unwrap_or_default();
        suspects.queues.extend(next);
    }

    /// Forgets the queues of suspect topics that the master has no more. What cannot be told yet is asked for the next time.
    ///
    /// # Errors
    /// See [`SyncError`].
    pub async fn compare_queues(&self) -> Result<(), SyncError> {
        self.note_begun_anew();
        let topics = std::mem::take(&mut self.suspects.lock().queues);
        let mut left = topics.clone();
        let mut result = Ok(());
        for topic in &topics {
            let Some(master) = self.master().filter(|_| self.parts.ha.is_in_line()) else { break };
            match self.compare(&master, topic).await {
                // One that the master does not answer for is not asked for again and again.
                Ok(true) | Err(SyncError::Refused { .. }) => _ = left.remove(topic),
                Ok(false) => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.suspects.lock().queues.append(&mut left);
        result
    }

    /// False: something cannot be told yet.
    async fn compare(&self, master: &str, topic: &str) -> Result<bool, SyncError> {
        let store = &self.parts.store;
        let before = store.dispatched();
        let mut told = true;
        for queue in store.queues_of(topic) {
            let id = queue.id();
            // What is compacted is read whether the log and the queue have it or not.
            let kept = queue.is_compacted() && self.parts.topics.contains(topic);
            if kept || queue.max_offset() == 0 || self.fetch.max_offset(master, topic, id).await? != 0 {
                continue;
            }
            if self.fetch.dispatched(master).await? < before {
                told = false;
                continue;
            }
            if self.fetch.max_offset(master, topic, id).await? != 0 {
                continue;
            }
            let max = queue.max_offset();
            if crate::config_file::off_worker(|| store.forget_queue(&queue, before))? {
                tracing::info!(topic, queue = id, max, "the master has no such queue any more: forgotten");
            } else {
                told = false;
            }
        }
        Ok(told)
    }
}
