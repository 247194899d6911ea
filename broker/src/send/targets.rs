//! What a send needs of its topic, kept by the thread: no lock, no hash and no counter shared between threads on the way of
//! a message to a topic that this thread has lately sent to. Of another one look-up finds everything ([`Seats`]).
//!
//! An entry counts while the tables of topics and of static topics have not changed. A change makes all entries of all threads stale at once;
//! they are found again one by one.
//!
//! What the sends of a read batch add to the statistics is gathered here and added at the end of the batch: an addition
//! to a counter that all threads see costs as much as a tenth of the rest of a send.
//!
//! [`Seats`]: crate::topics::Seats

use std::sync::Arc;

use smallvec::SmallVec;
use store::{Queue, Store};

use crate::static_topics::Mapping;
use crate::stats::{Counter, Stats};
use crate::topics::{Seat, Topic};

/// Places for entries. A producer connection writes to few topics at a time, or to very many.
const KEPT: usize = 128;
/// So many counts are looked through for that of a queue.
const COUNTS_NEAR: usize = 8;

/// A topic that may be sent to.
#[derive(Debug)]
pub(super) struct Target {
    /// The settings.
    pub(super) topic: Arc<Topic>,
    /// Of a static topic.
    pub(super) mapping: Option<Arc<Mapping>>,
    mark: u64,
    generation: u64,
    /// The last queue that had no seat.
    stray: Option<Seat>,
    /// Sent and not yet added to the statistics.
    messages: u64,
    bytes: u64,
    /// The same, requests by queue; a queue may come several times.
    requests: SmallVec<[(i32, u32); 4]>,
}

/// What an entry has to add to the counters of the broker.
#[derive(Debug, Default)]
struct Sums {
    messages: u64,
    bytes: u64,
    /// Messages that count as traffic of users.
    user: u64,
}

impl Target {
    /// The queue, and the counter of the time that its sends take. The id has been checked against the topic's number of
    /// queues.
    pub(super) fn queue(&mut self, store: &Store, id: i32) -> (&Queue, &Counter<2>) {
        let seat = match self.topic.seat(store, id) {
            Some(seat) => seat,
            None => {
                let kept = self.stray.take().filter(|seat| seat.queue.id() == id && !seat.queue.is_deleted());
                self.stray.insert(kept.unwrap_or_else(|| Seat::find(store, &self.topic.topic_name, id)))
            }
        };
        (&seat.queue, seat.latency(&self.topic.stats))
    }

    /// Notes what one request has put into a queue.
    pub(super) fn count(&mut self, id: i32, messages: u64, bytes: u64) {
        self.messages += messages;
        self.bytes += bytes;
        match self.requests.iter_mut().rev().take(COUNTS_NEAR).find(|(known, _)| *known == id) {
            Some((_, requests)) => *requests += 1,
            None => self.requests.push((id, 1)),
        }
    }

    /// Adds what was noted to the statistics of the topic.
    fn flush(&mut self, sums: &mut Sums) {
        if self.requests.is_empty() {
            return;
        }
        let (messages, bytes) = (std::mem::take(&mut self.messages), std::mem::take(&mut self.bytes));
        let mut all = 0;
        for (id, requests) in self.requests.drain(..) {
            all += u64::from(requests);
            let counted = self.topic.seats.known(id).or(self.stray.as_ref().filter(|seat| seat.queue.id() == id));
            match counted {
                Some(seat) => seat.latency(&self.topic.stats).add_to(1, requests.into()),
                None => self.topic.stats.latency.add(id, [0, requests.into()]),
            }
        }
        self.topic.stats.put.add([messages, bytes, all]);
        sums.messages += messages;
        sums.bytes += bytes;
        sums.user += if self.topic.seats.user { messages } else { 0 };
    }
}

/// Whether the queues of a topic are batch consume queues.
pub(crate) fn is_batch(topic: &Topic) -> bool {
    topic.seats.batch_queues
}

/// The entries of one thread, all of one broker.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// Each at the place that its name's mark says, or beside it; none before the first.
    entries: Vec<Option<Target>>,
    /// Entries that were handed out since the last [`Targets::flush`], a bit each.
    touched: u128,
    /// Tells the brokers of a process apart.
    owner: u64,
    stats: Option<Arc<Stats>>,
}

/// A number that names have to share to be the same. Names that follow a pattern differ in their length or their last bytes.
fn mark(name: &str) -> u64 {
    let tail = match name.as_bytes().last_chunk::<8>() {
        Some(tail) => u64::from_le_bytes(*tail),
        None => name.bytes().fold(0, |tail, byte| (tail << 8) | u64::from(byte)),
    };
    (tail ^ ((name.len() as u64) << 56)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn place(mark: u64) -> usize {
    (mark >> 57) as usize % KEPT
}

impl Targets {
    /// The entry of a topic, when it is still true. `owner` is the broker.
    pub(super) fn find(&mut self, owner: u64, generation: u64, name: &str) -> Option<usize> {
        let mark = mark(name);
        let fits = |at: usize| {
            let entry = self.entries.get(at)?.as_ref()?;
            let same = entry.mark == mark && entry.generation == generation && entry.topic.topic_name == name;
            (same && self.owner == owner).then_some(at)
        };
        fits(place(mark)).or_else(|| fits(place(mark) ^ 1))
    }

    /// Adds an entry; `generation` was read before the topic was.
    pub(super) fn add(&mut self, topic: Arc<Topic>, stats: &Arc<Stats>, owner: u64, generation: u64) -> usize {
        if self.owner != owner || self.stats.is_none() {
            self.flush();
            self.entries.clear();
            self.entries.resize_with(KEPT, || None);
            (self.owner, self.stats) = (owner, Some(stats.clone()));
        }
        let mark = mark(&topic.topic_name);
        let (at, beside) = (place(mark), place(mark) ^ 1);
        // What was there moves aside; what was there has to go.
        let mut sums = Sums::default();
        if let Some(gone) = &mut self.entries[beside] {
            gone.flush(&mut sums);
        }
        self.note(&sums);
        self.entries.swap(at, beside);
        self.touched |= 1 << at | 1 << beside;
        let (stray, requests) = (None, SmallVec::new());
        self.entries[at] =
            Some(Target { topic, mapping: None, mark, generation, stray, messages: 0, bytes: 0, requests });
        at
    }

    /// The entry at a position that [`Targets::find`] or [`Targets::add`] gave.
    pub(super) fn get(&mut self, at: usize) -> &mut Target {
        self.touched |= 1 << at;
        self.entries[at].as_mut().expect("an entry that was just found")
    }

    /// The topic at a position where one was, if there is any now.
    pub(super) fn peek(&self, at: usize) -> Option<&Topic> {
        self.entries.get(at)?.as_ref().map(|target| &*target.topic)
    }

    /// Adds what was noted to the statistics.
    pub(super) fn flush(&mut self) {
        let mut sums = Sums::default();
        let mut touched = std::mem::take(&mut self.touched);
        while touched != 0 {
            if let Some(Some(entry)) = self.entries.get_mut(touched.trailing_zeros() as usize) {
                entry.flush(&mut sums);
            }
            touched &= touched - 1;
        }
        self.note(&sums);
    }

    fn note(&self, sums: &Sums) {
        if let Some(stats) = self.stats.as_ref().filter(|_| sums.messages > 0) {
            stats.put_all(sums.messages, sums.bytes, sums.user);
        }
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use config::{BrokerConfig, Live, MessageStoreConfig};
    use remoting::body::topic::{PERM_READ, PERM_WRITE, TopicConfig};

    use super::*;
    use crate::stats::{BYTES, MESSAGES};
    use crate::topics::TopicTable;

    /// More topics than places: every message is counted, with its own topic and broker.
    #[test]
    fn nothing_is_lost_of_what_is_pushed_out() {
        let dir = tempfile::tempdir().unwrap();
        let topics =
            TopicTable::load(dir.path(), Arc::new(Live::new(BrokerConfig::default())), &MessageStoreConfig::default())
                .unwrap();
        let named = |number| TopicConfig::new(format!("T{number}"), 4, PERM_READ | PERM_WRITE);
        let all = topics.update((0..500).map(named).collect()).unwrap();
        let stats = [Arc::new(Stats::default()), Arc::new(Stats::default())];
        let mut targets = Targets::default();
        for round in 0..4 {
            let owner = round % 2;
            for (number, topic) in all.iter().enumerate() {
                let name = &topic.topic_name;
                let at = targets
                    .find(owner, 1, name)
                    .unwrap_or_else(|| targets.add(topic.clone(), &stats[owner as usize], owner, 1));
                assert_eq!((targets.find(owner, 1, name), targets.find(owner, 2, name)), (Some(at), None));
                assert_eq!(targets.find(owner + 1, 1, name), None);
                let target = targets.get(at);
                assert_eq!(target.topic.topic_name, *name);
                (0..12).for_each(|id| target.count(id, 2, 100));
                if number % 50 == 0 {
                    targets.flush();
                }
            }
        }
        targets.flush();
        for topic in &all {
            let sums = [MESSAGES, BYTES, 2].map(|which| topic.stats.put.sum(which));
            assert_eq!(sums, [4 * 24, 4 * 1200, 4 * 12], "{}", topic.topic_name);
            assert_eq!(topic.stats.latency.of(11).sum(1), 4);
        }
        for stats in stats {
            assert_eq!((stats.puts.sum(MESSAGES), stats.user_puts.sum(0)), (500 * 48, 500 * 48));
        }
    }
}
