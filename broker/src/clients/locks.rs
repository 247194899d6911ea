//! Which client of a group may consume a queue in order: LOCK_BATCH_MQ and UNLOCK_BATCH_MQ.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use remoting::body::message_queue::MessageQueue;

/// How long a lock lives without being taken again (ms).
pub const LOCK_LIFE: i64 = 60_000;

/// The locked queues, by group. A lock that its owner does not renew for `LOCK_LIFE` is free for anybody.
#[derive(Default)]
pub struct QueueLocks {
    groups: Mutex<HashMap<String, HashMap<MessageQueue, Holder>>>,
}

struct Holder {
    client: String,
    /// When it was last taken (ms since the epoch).
    at: i64,
}

impl Holder {
    fn is_expired(&self, now: i64) -> bool {
        now - self.at > LOCK_LIFE
    }
}

impl QueueLocks {
    /// Locks or renews what is free or already the client's; returns what the client holds of `queues` now.
    pub fn lock(&self, group: &str, client: &str, queues: BTreeSet<MessageQueue>, now: i64) -> BTreeSet<MessageQueue> {
        let mut groups = self.groups.lock();
        let holders = groups.entry(group.to_owned()).or_default();
        let mut held = BTreeSet::new();
        for queue in queues {
            match holders.get_mut(&queue) {
                Some(holder) if holder.client != client && !holder.is_expired(now) => {
                    tracing::debug!(
                        group,
                        client,
                        ?queue,
                        holder = holder.client,
                        "the queue is locked by another client"
                    );
                    continue;
                }
                Some(holder) => {
                    client.clone_into(&mut holder.client);
                    holder.at = now;
                }
                None => {
                    holders.insert(queue.clone(), Holder { client: client.to_owned(), at: now });
                }
            }
            held.insert(queue);
        }
        held
    }

    /// Frees those of the queues that the client holds.
    pub fn unlock(&self, group: &str, client: &str, queues: &BTreeSet<MessageQueue>) {
        let mut groups = self.groups.lock();
        let Some(holders) = groups.get_mut(group) else { return };
        for queue in queues {
            if holders.get(queue).is_some_and(|holder| holder.client == client) {
                holders.remove(queue);
            }
        }
        if holders.is_empty() {
            groups.remove(group);
        }
    }

    /// Whether no client of the group holds a queue.
    pub fn is_free(&self, group: &str, now: i64) -> bool {
        let groups = self.groups.lock();
        groups.get(group).is_none_or(|holders| holders.values().all(|holder| holder.is_expired(now)))
    }

    /// Forgets locks that ended long ago: queues and groups come and go.
    pub fn sweep(&self, now: i64) {
        let mut groups = self.groups.lock();
        for holders in groups.values_mut() {
            holders.retain(|_, holder| !holder.is_expired(now));
        }
        groups.retain(|_, holders| !holders.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(ids: &[i32]) -> BTreeSet<MessageQueue> {
        ids.iter().map(|id| MessageQueue::new("T", "bk1", *id)).collect()
    }

    /// Case L-01.
    #[test]
    fn l_01_only_the_owner_unlocks_and_a_dead_one_loses_it() {
        let locks = QueueLocks::default();
        assert_eq!(locks.lock("GL", "A", queues(&[0, 1]), 0), queues(&[0, 1]));
        assert_eq!(locks.lock("GL", "B", queues(&[1, 2]), 0), queues(&[2]));
        locks.unlock("GL", "B", &queues(&[0]));
        assert_eq!(locks.lock("GL", "B", queues(&[0]), 0), queues(&[]));
        locks.unlock("GL", "A", &queues(&[0]));
        assert_eq!(locks.lock("GL", "B", queues(&[0]), 0), queues(&[0]));

        assert_eq!(locks.lock("GL", "C", queues(&[7]), 0), queues(&[7]));
        assert_eq!(locks.lock("GL", "D", queues(&[7]), 0), queues(&[]));
        assert_eq!(locks.lock("GL", "D", queues(&[7]), 60_001), queues(&[7]));
    }

    #[test]
    fn a_renewed_lock_lives_on() {
        let locks = QueueLocks::default();
        for now in [0, 40_000, 80_000] {
            assert_eq!(locks.lock("G", "A", queues(&[0]), now), queues(&[0]));
        }
        assert_eq!(locks.lock("G", "B", queues(&[0]), 90_000), queues(&[]));
        assert!(!locks.is_free("G", 90_000));
        locks.sweep(140_001);
        assert!(locks.is_free("G", 140_001));
    }
}
