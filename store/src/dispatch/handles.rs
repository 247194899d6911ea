//! Handles of the queues that records are for, without a look into the table of all queues.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::lmq::is_lmq;
use crate::queue::{ByMark, Queue, QueueTable, mark};
use crate::record::RecordView;
use crate::segment::ask_for;

/// With fewer handles nothing is looked for that was deleted.
const FEW: usize = 1024;
/// Records that appenders say something about, the last ones.
const HINTS: usize = 4096;
/// Bits of a hint that are a place; the others are those of the record's offset.
const PLACE_BITS: u32 = 24;

/// What appenders know and the dispatch would have to look for: the places of the queues in [`Kept`]. One need not be there,
/// and need not be true: it is checked.
#[derive(Debug)]
pub(super) struct Hints {
    hints: Box<[AtomicU64; HINTS]>,
    /// Where in memory the list of [`Kept`] begins, or began.
    list: AtomicUsize,
}

impl Hints {
    pub(super) fn new() -> Hints {
        Hints { hints: Box::new([const { AtomicU64::new(0) }; HINTS]), list: AtomicUsize::new(0) }
    }

    /// Of a record. Of those in 256 KiB of the log no two have the same.
    fn slot(&self, phys: u64) -> &AtomicU64 {
        &self.hints[(phys / 64) as usize % HINTS]
    }

    /// Says where the list is.
    pub(super) fn list_is(&self, kept: &Kept) {
        self.list.store(kept.list.as_ptr().addr(), Ordering::Relaxed);
    }

    /// Says which queue the record at `phys` is for, and asks for the handle's memory.
    #[inline]
    pub(super) fn put(&self, phys: u64, queue: &Queue) {
        let place = u64::from(queue.place().load(Ordering::Relaxed));
        if place != 0 && place < 1 << PLACE_BITS {
            self.slot(phys).store(phys << PLACE_BITS | place, Ordering::Relaxed);
            let handle = (place as usize - 1) * size_of::<Arc<Queue>>();
            ask_for(self.list.load(Ordering::Relaxed).wrapping_add(handle));
        }
    }

    #[inline]
    pub(super) fn get(&self, phys: u64) -> Option<usize> {
        let hint = self.slot(phys).load(Ordering::Relaxed);
        let place = hint & ((1 << PLACE_BITS) - 1);
        (hint ^ place == phys << PLACE_BITS).then_some(place as usize)
    }
}

/// Handles of all queues that records were for, by a hash of topic and id. Of queues with the same hash it has one.
pub(super) struct Kept {
    /// Each at the place that [`Queue::place`] says, counted from 1.
    list: Vec<Arc<Queue>>,
    by_mark: ByMark<usize>,
    /// With more of them those go whose topic was deleted.
    most: usize,
    /// The last light queue: these come and go, and are forgotten when nobody holds them.
    light: Option<Arc<Queue>>,
}

/// Tells a queue where it is in the list.
fn place_at(queue: &Queue, at: usize) {
    queue.place().store(u32::try_from(at + 1).unwrap_or(0), Ordering::Relaxed);
}

fn is_of(queue: &Queue, topic: &[u8], id: i32) -> bool {
    queue.id() == id && queue.topic().as_bytes() == topic && !queue.is_deleted()
}

impl Kept {
    pub(super) fn new() -> Kept {
        Kept { list: Vec::new(), by_mark: ByMark::default(), most: FEW, light: None }
    }

    /// The queue of a record, made when it is not there. `place` is where it may be.
    #[inline]
    pub(super) fn queue(&mut self, queues: &QueueTable, record: &RecordView<'_>, place: Option<usize>) -> &Arc<Queue> {
        let (topic, id) = (record.topic_bytes(), record.queue_id());
        match place.and_then(|place| place.checked_sub(1)) {
            Some(at) if self.list.get(at).is_some_and(|queue| is_of(queue, topic, id)) => &self.list[at],
            _ => self.look_up(queues, topic, id),
        }
    }

    fn look_up(&mut self, queues: &QueueTable, topic: &[u8], id: i32) -> &Arc<Queue> {
        let mark = mark(topic, id);
        if self.list.len() > self.most {
            self.forget_deleted();
        }
        match self.by_mark.entry(mark) {
            Entry::Occupied(kept) if is_of(&self.list[*kept.get()], topic, id) => &self.list[*kept.get()],
            entry => {
                let topic = String::from_utf8_lossy(topic);
                let queue = queues.get_or_create(&topic, id);
                if is_lmq(&topic) {
                    return self.light.insert(queue);
                }
                let at = match entry {
                    Entry::Occupied(kept) => {
                        let at = *kept.get();
                        self.list[at].place().store(0, Ordering::Relaxed);
                        self.list[at] = queue;
                        at
                    }
                    Entry::Vacant(vacant) => {
                        self.list.push(queue);
                        *vacant.insert(self.list.len() - 1)
                    }
                };
                place_at(&self.list[at], at);
                &self.list[at]
            }
        }
    }

    #[cold]
    fn forget_deleted(&mut self) {
        self.list.retain(|queue| !queue.is_deleted());
        self.by_mark.clear();
        for (at, queue) in self.list.iter().enumerate() {
            place_at(queue, at);
            self.by_mark.insert(mark(queue.topic().as_bytes(), queue.id()), at);
        }
        self.most = FEW.max(2 * self.list.len());
    }
}
