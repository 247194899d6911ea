//! One pass over a level: read what is due, append it to where it really goes.

use std::cell::Cell;

use store::record::RecordView;
use store::{NewMessage, Queue, ReadFilter, ReadRequest, ReadResult, ReadStatus};

use super::service::ScheduleParts;
use crate::names;
use crate::send::properties::Known;
use crate::stats::now_millis;

/// Messages of one read.
const BATCH: i32 = 32;

/// When a level wants to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing waits.
    Idle,
    /// A message is due at this time (ms since the epoch).
    At(i64),
    /// A message could not be delivered.
    Failed,
}

/// Delivers messages, with memory that is reused.
pub(super) struct Delivery<'p> {
    parts: &'p ScheduleParts,
    read: ReadResult,
}

/// Takes queue entries that are due. The entry of a delayed message carries its time where others carry a tags code.
struct Due {
    now: i64,
    delay: i64,
    /// The time of the first entry that is not due; all behind it are later.
    later: Cell<Option<i64>>,
}

impl ReadFilter for Due {
    fn by_tags_code(&self, time: i64) -> bool {
        if self.later.get().is_some() {
            return false;
        }
        // A time too far ahead comes from a clock that was set back, or from levels that have been changed.
        let wait = time.saturating_sub(self.now);
        if wait <= 0 || wait > self.delay {
            return true;
        }
        self.later.set(Some(time));
        false
    }

    fn without_ext(&self, record: &RecordView<'_>) -> bool {
        self.by_tags_code(record.store_timestamp().saturating_add(self.delay))
    }
}

impl<'p> Delivery<'p> {
    pub(super) fn new(parts: &'p ScheduleParts) -> Delivery<'p> {
        let read = ReadResult {
            status: ReadStatus::NoMessageInQueue,
            next_offset: 0,
            min_offset: 0,
            max_offset: 0,
            records: Vec::new(),
            bytes: 0,
            suggest_slave: false,
        };
        Delivery { parts, read }
    }

    /// Delivers everything that is due at or behind `offset`, and moves `offset` behind what was delivered.
    pub(super) fn level(&mut self, queue: &Queue, offset: &mut i64, delay: i64, stop: &dyn Fn() -> bool) -> Next {
        let next = loop {
            if stop() {
                break Next::Failed;
            }
            let due = Due { now: now_millis(), delay, later: Cell::new(None) };
            let request = ReadRequest { offset: *offset, max_messages: BATCH, max_bytes: i32::MAX };
            self.parts.store.read(queue, &request, &due, &mut self.read);
            let before = *offset;
            match self.read.status {
                ReadStatus::Found | ReadStatus::NoMatchedMessage | ReadStatus::MessageWasRemoving => {
                    let delivered = self.deliver_read(offset);
                    if *offset > before {
                        self.parts.store.dispatch();
                    }
                    if !delivered {
                        break Next::Failed;
                    }
                    if let Some(time) = due.later.get() {
                        break Next::At(time);
                    }
                    // Entries whose record is gone have been passed over.
                    *offset = (*offset).max(self.read.next_offset);
                }
                ReadStatus::OffsetTooSmall => {
                    tracing::warn!(
                        queue = queue.id(),
                        from = before,
                        to = self.read.min_offset,
                        "delayed messages are gone"
                    );
                    *offset = self.read.min_offset;
                }
                ReadStatus::OffsetOverflowBadly => *offset = self.read.max_offset,
                ReadStatus::OffsetFoundNull => *offset = (*offset).max(self.read.next_offset),
                ReadStatus::OffsetOverflowOne | ReadStatus::NoMatchedLogicQueue | ReadStatus::NoMessageInQueue => {
                    break Next::Idle;
                }
            }
            if *offset == before {
                break Next::Idle;
            }
        };
        self.read.records.clear();
        next
    }

    /// Appends the records of the last read; false when one could not be appended: the offset stays at it.
    fn deliver_read(&mut self, offset: &mut i64) -> bool {
        for record in &self.read.records {
            match RecordView::parse(record) {
                Ok(view) => {
                    if !deliver(self.parts, &view) {
                        *offset = view.queue_offset();
                        return false;
                    }
                    *offset = view.queue_offset() + 1;
                }
                Err(error) => tracing::error!(%error, "a delayed message cannot be read"),
            }
        }
        true
    }
}

/// Appends a message to where it really goes. False: try again later. A message that does not say where it goes cannot be
/// delivered at any time: it is passed over with an error in the log.
fn deliver(parts: &ScheduleParts, view: &RecordView<'_>) -> bool {
    let properties = view.properties();
    let topic = properties.get(Known::RealTopic.name());
    let queue_id = properties.get(Known::RealQueueId.name()).and_then(|id| id.parse::<i32>().ok());
    let (Some(topic), Some(queue_id)) = (topic, queue_id.filter(|id| *id >= 0)) else {
        tracing::error!(offset = view.phys_offset(), "a delayed message does not say where it goes");
        return true;
    };
    if topic == names::HALF_TOPIC {
        tracing::error!(offset = view.phys_offset(), "a half message was delayed");
        return true;
    }
    let message = NewMessage {
        flag: view.flag(),
        sys_flag: view.sys_flag(),
        born_timestamp: view.born_timestamp(),
        born_host: view.born_host(),
        reconsume_times: view.reconsume_times(),
        prepared_transaction_offset: 0,
        properties: view.property_bytes(),
        body: view.body(),
    };
    if let Some(escape) = &parts.escape {
        return escape.put_or_wait("delayed", view.queue_offset(), topic, &message);
    }
    let queue = parts.store.queue_or_create(topic, queue_id);
    match parts.store.append(&queue, &message) {
        Ok(appended) => {
            let bytes = appended.end - appended.phys_offset;
            if parts.store_config.load().enable_schedule_message_stats {
                parts.stats.delivered(view.queue_id(), bytes);
                if let Some(found) = parts.topics.get(topic) {
                    parts.stats.put(&found.stats, 1, bytes, !parts.topics.system.contains(topic));
                }
            } else {
                parts.stats.puts.add([1, bytes]);
            }
            true
        }
        Err(error) => {
            tracing::warn!(topic, queue_id, %error, "a delayed message could not be delivered, trying again");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_due_passes() {
        let due = Due { now: 1000, delay: 100, later: Cell::new(None) };
        assert!(due.by_tags_code(900) && due.by_tags_code(1000));
        // Further away than the level's delay: due at once.
        assert!(due.by_tags_code(1101));
        assert!(!due.by_tags_code(1050));
        assert_eq!(due.later.get(), Some(1050));
        // Nothing passes it by.
        assert!(!due.by_tags_code(900));
        assert_eq!(due.later.get(), Some(1050));
    }
}
