//! Topics whose messages are kept for a time of their own (`retention.hours`).
//!
//! Nothing is deleted for it: a log file holds messages of all topics and goes at the age of `fileReservedTime`. The
//! lowest readable offset of a queue moves over what is too old, as it moves over what the log has let go of. What is not
//! on disk is found again: the offset follows from the store times, so a start has it at once.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::RwLock;

use crate::commitlog::CommitLog;
use crate::query;
use crate::queue::{Queue, QueueTable};

/// The topics, and how long their messages are kept.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    topics: RwLock<HashMap<String, Duration>>,
}

impl Retention {
    /// Sets how long a topic's messages are kept; `None` as long as the log has them. Acts at once. `now` is the time in
    /// ms.
    pub(crate) fn set(&self, topic: &str, keep: Option<Duration>, queues: &QueueTable, log: &CommitLog, now: i64) {
        let known = self.topics.read().get(topic).copied();
        if known == keep {
            return;
        }
        match keep {
            Some(keep) => self.topics.write().insert(topic.to_owned(), keep),
            None => self.topics.write().remove(topic),
        };
        for queue in queues.of_topic(topic) {
            let before = queue.min_offset();
            // A longer time shows again what the log still has.
            queue.hide_before(0);
            if let Some(keep) = keep {
                hide(&queue, log, cutoff(now, keep));
            }
            tracing::info!(
                topic,
                queue = queue.id(),
                ?keep,
                before,
                after = queue.min_offset(),
                "kept for another time"
            );
        }
    }

    /// Forgets a topic.
    pub(crate) fn forget(&self, topic: &str) {
        self.topics.write().remove(topic);
    }

    /// Moves the lowest readable offsets on. `now` is the time in ms.
    pub(crate) fn apply(&self, queues: &QueueTable, log: &CommitLog, now: i64) {
        let topics: Vec<_> = self.topics.read().iter().map(|(topic, keep)| (topic.clone(), *keep)).collect();
        for (topic, keep) in topics {
            for queue in queues.of_topic(&topic) {
                hide(&queue, log, cutoff(now, keep));
            }
        }
    }
}

fn cutoff(now: i64, keep: Duration) -> i64 {
    now.saturating_sub(i64::try_from(keep.as_millis()).unwrap_or(i64::MAX))
}

/// Hides the messages that were stored before `cutoff` (ms).
fn hide(queue: &Queue, log: &CommitLog, cutoff: i64) {
    let (min, max) = (queue.min_offset(), queue.max_offset());
    if min >= max || !is_old(queue, log, min, max, cutoff) {
        return;
    }
    let (mut from, mut to) = (min, max);
    while from < to {
        let middle = from + (to - from) / 2;
        if is_old(queue, log, middle, to, cutoff) { from = middle + 1 } else { to = middle }
    }
    queue.hide_before(from);
    tracing::debug!(topic = queue.topic(), queue = queue.id(), before = min, after = from, "messages are too old");
}

/// Whether the first message from an offset on is too old; not when there is none before `end`. One that the log has no
/// more is.
fn is_old(queue: &Queue, log: &CommitLog, offset: i64, end: i64, cutoff: i64) -> bool {
    let mut at = offset;
    while at < end {
        let Some(entries) = queue.entries(at) else { return false };
        let before = at;
        for entry in entries {
            // What fills a place without a message says nothing.
            if !entry.unit.is_filler() {
                return query::store_time(queue, log, entry.offset.max(at)) < cutoff;
            }
            at = entry.next_offset();
        }
        if at == before {
            break;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commitlog::now_millis;
    use crate::dispatch::tests::rig_with_queues;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn the_lowest_offset_moves_over_what_is_too_old() {
        let dir = tempfile::tempdir().unwrap();
        let rig = rig_with_queues(dir.path(), 64);
        let append = |topic: &str, count: usize| {
            (0..count).for_each(|_| assert!(rig.append(topic, 0, 0, &[("KEYS", "k")]) < u64::MAX));
            rig.drain();
        };
        append("Short", 10);
        append("Long", 10);
        append("Other", 10);
        let (short, long, other) = (
            rig.queues.get("Short", 0).unwrap(),
            rig.queues.get("Long", 0).unwrap(),
            rig.queues.get("Other", 0).unwrap(),
        );
        let start = now_millis();
        let retention = Retention::default();
        let hours = |hours: u64| Some(Duration::from_secs(hours * 3600));
        retention.set("Short", hours(2), &rig.queues, &rig.log, start);
        retention.set("Long", hours(20), &rig.queues, &rig.log, start);
        let mins = || [&short, &long, &other].map(|queue| queue.min_offset());
        assert_eq!(mins(), [0, 0, 0]);
        retention.apply(&rig.queues, &rig.log, start + HOUR);
        assert_eq!(mins(), [0, 0, 0]);
        retention.apply(&rig.queues, &rig.log, start + 3 * HOUR);
        assert_eq!(mins(), [10, 0, 0]);
        // As for the log: what is deleted there says nothing new.
        rig.queues.correct_min(0).unwrap();
        assert_eq!(mins(), [10, 0, 0]);
        append("Short", 3);
        retention.apply(&rig.queues, &rig.log, start + HOUR);
        assert_eq!((short.min_offset(), short.max_offset()), (10, 13));
        retention.set("Short", None, &rig.queues, &rig.log, start + 3 * HOUR);
        assert_eq!(mins(), [0, 0, 0]);
        retention.set("Long", hours(1), &rig.queues, &rig.log, start + 3 * HOUR);
        assert_eq!(mins(), [0, 10, 0]);
        retention.forget("Long");
        retention.apply(&rig.queues, &rig.log, start + 300 * HOUR);
        assert_eq!(mins(), [0, 10, 0]);
    }

    #[test]
    fn the_place_is_found_within_a_queue() {
        let dir = tempfile::tempdir().unwrap();
        let rig = rig_with_queues(dir.path(), 64);
        for _ in 0..40 {
            rig.append("T", 0, 0, &[("KEYS", "k")]);
            std::thread::sleep(Duration::from_millis(2));
        }
        rig.drain();
        let queue = rig.queues.get("T", 0).unwrap();
        for offset in [0, 1, 17, 39] {
            let time = query::store_time(&queue, &rig.log, offset);
            queue.hide_before(0);
            hide(&queue, &rig.log, time);
            assert_eq!(queue.min_offset(), offset);
        }
    }
}
