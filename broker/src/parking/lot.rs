//! Requests that wait for something to happen to a queue, as plain data: no task and no timer a request.
//!
//! A waiter stands in two places: in the list of its queue, and in a wheel of deadlines with one slot every
//! [`TICK`]. Both hold numbers of entries of one slab, so that a waiter that is taken by one side is gone from the
//! other at once, and a hundred thousand of them are three flat vectors.
//!
//! **No arrival is lost.** Whoever parks (1) counts itself at the queue, (2) puts itself into the list, and (3) only
//! then looks at the queue's end again ([`Lot::take`] gets the waiter back if it moved). The dispatcher first moves the
//! end and then looks at the count. Both sides have a sequentially consistent fence between their store and their load,
//! so at least one of them sees the other's store: either the dispatcher sees the count and finds the waiter in the
//! list, or (3) sees the new end. When the dispatcher comes between (1) and (2) it finds nothing, and (3) sees the end.
//! If both see each other, the lock makes one of them the taker.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The grain of deadlines: a waiter is taken within this time after its deadline, never before.
pub const TICK: Duration = Duration::from_millis(100);

/// Slots of the wheel; a deadline further away is looked at once a turn.
const SLOTS: u64 = 1024;

/// What the lot must know of a waiter.
pub trait Waiting {
    /// A number that is the queue's own while the waiter lives.
    fn queue(&self) -> usize;
    /// The queue's count of waiters.
    fn count(&self) -> &AtomicUsize;
    /// The waiter is ready once the queue's end is above this offset.
    fn behind(&self) -> i64;
    /// Whether somebody still wants the answer.
    fn is_wanted(&self) -> bool;
}

/// Names a parked waiter.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    index: u32,
    generation: u32,
}

/// All parked waiters of one kind.
pub struct Lot<W> {
    inner: Mutex<Inner<W>>,
    /// Wakes the timer when an earlier deadline than the one it sleeps for has come.
    earlier: Notify,
    start: Instant,
}

struct Inner<W> {
    entries: Vec<Entry<W>>,
    free: Vec<u32>,
    queues: HashMap<usize, SmallVec<[u32; 2]>>,
    wheel: Vec<Vec<u32>>,
    /// Slots up to this tick have been emptied.
    cursor: u64,
    /// The tick that the timer sleeps for.
    alarm: u64,
}

struct Entry<W> {
    waiter: Option<W>,
    generation: u32,
    /// Tick of the deadline.
    deadline: u64,
    /// Where it stands in the wheel.
    slot: u32,
    position: u32,
}

impl<W: Waiting> Default for Lot<W> {
    fn default() -> Self {
        Lot::new()
    }
}

impl<W: Waiting> Lot<W> {
    /// An empty lot.
    pub fn new() -> Lot<W> {
        Lot {
            inner: Mutex::new(Inner {
                entries: Vec::new(),
                free: Vec::new(),
                queues: HashMap::new(),
                wheel: (0..SLOTS).map(|_| Vec::new()).collect(),
                cursor: 0,
                alarm: u64::MAX,
            }),
            earlier: Notify::new(),
            start: Instant::now(),
        }
    }

    /// Parks a waiter. The caller must look at the queue's end afterwards and call [`Lot::take`] when it has moved
    /// beyond the waiter's offset.
    pub fn park(&self, waiter: W, deadline: Instant) -> Ticket {
        waiter.count().fetch_add(1, Ordering::SeqCst);
        let tick = self.tick_after(deadline);
        let now = self.tick_now();
        let (ticket, wake) = {
            let mut inner = self.inner.lock();
            if inner.entries.len() == inner.free.len() {
                // Nobody waited: the slots in between are empty.
                inner.cursor = inner.cursor.max(now);
            }
            let ticket = inner.insert(waiter, tick);
            (ticket, tick < inner.alarm)
        };
        if wake {
            self.earlier.notify_one();
        }
        // Between the count above and the caller's look at the end; the dispatcher has the other half.
        fence(Ordering::SeqCst);
        ticket
    }

    /// Takes a waiter back, unless somebody else has taken it.
    pub fn take(&self, ticket: Ticket) -> Option<W> {
        let mut inner = self.inner.lock();
        let entry = inner.entries.get(ticket.index as usize)?;
        if entry.generation != ticket.generation || entry.waiter.is_none() {
            return None;
        }
        inner.remove(ticket.index)
    }

    /// Takes the waiters of a queue whose end is now `end`, in the order in which they came.
    pub fn take_ready(&self, queue: usize, end: i64) -> Vec<W> {
        let mut inner = self.inner.lock();
        let Some(list) = inner.queues.get(&queue) else { return Vec::new() };
        let ready: SmallVec<[u32; 16]> =
            list.iter().copied().filter(|index| inner.behind(*index).is_some_and(|offset| offset < end)).collect();
        ready.into_iter().filter_map(|index| inner.remove(index)).collect()
    }

    /// Takes the waiters whose deadline has come, and drops those that nobody wants any more as far as it meets them.
    pub fn take_expired(&self) -> Vec<W> {
        let now = self.tick_now();
        let mut expired = Vec::new();
        let mut inner = self.inner.lock();
        if inner.entries.len() == inner.free.len() {
            inner.cursor = inner.cursor.max(now);
        }
        // After a long sleep one turn sees every slot.
        inner.cursor = inner.cursor.max(now.saturating_sub(SLOTS));
        while inner.cursor < now {
            inner.cursor += 1;
            let slot = (inner.cursor % SLOTS) as usize;
            for index in std::mem::take(&mut inner.wheel[slot]) {
                let Some(entry) = inner.entries.get(index as usize) else { continue };
                let deadline = entry.deadline;
                let wanted = entry.waiter.as_ref().is_some_and(W::is_wanted);
                if deadline > now && wanted {
                    inner.enter_wheel(index, deadline);
                } else {
                    inner.leave_queue(index);
                    expired.extend(inner.free_entry(index).filter(|_| wanted));
                }
            }
        }
        expired
    }

    /// Takes all waiters that somebody still wants.
    pub fn take_all(&self) -> Vec<W> {
        let mut inner = self.inner.lock();
        let all: Vec<_> =
            (0..inner.entries.len()).filter_map(|index| inner.remove(u32::try_from(index).ok()?)).collect();
        all.into_iter().filter(W::is_wanted).collect()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        let inner = self.inner.lock();
        inner.entries.len() - inner.free.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands expired waiters to `expired` until `stop`. Sleeps while nobody waits, and else for the next deadline.
    pub async fn run(&self, stop: CancellationToken, expired: impl Fn(W)) {
        loop {
            let alarm = self.set_alarm();
            let sleep = async {
                match alarm {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.earlier.notified() => {}
                () = sleep => self.take_expired().into_iter().for_each(&expired),
            }
        }
    }

    /// When the next occupied slot is due.
    fn set_alarm(&self) -> Option<Instant> {
        let mut inner = self.inner.lock();
        let cursor = inner.cursor;
        let next = (cursor + 1..=cursor + SLOTS).find(|tick| !inner.wheel[(tick % SLOTS) as usize].is_empty());
        inner.alarm = next.unwrap_or(u64::MAX);
        next.map(|tick| self.start + TICK * u32::try_from(tick).unwrap_or(u32::MAX))
    }

    /// The last tick that has begun.
    fn tick_now(&self) -> u64 {
        ticks(self.start.elapsed())
    }

    /// The first tick that does not begin before `deadline`.
    fn tick_after(&self, deadline: Instant) -> u64 {
        let since = deadline.saturating_duration_since(self.start);
        ticks(since.saturating_add(TICK - Duration::from_nanos(1)))
    }
}

fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX)
}

impl<W: Waiting> Inner<W> {
    fn insert(&mut self, waiter: W, deadline: u64) -> Ticket {
        let queue = waiter.queue();
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.entries.push(Entry { waiter: None, generation: 0, deadline: 0, slot: 0, position: 0 });
                (self.entries.len() - 1) as u32
            }
        };
        let entry = &mut self.entries[index as usize];
        entry.waiter = Some(waiter);
        entry.deadline = deadline;
        let ticket = Ticket { index, generation: entry.generation };
        self.queues.entry(queue).or_default().push(index);
        self.enter_wheel(index, deadline);
        ticket
    }

    fn behind(&self, index: u32) -> Option<i64> {
        self.entries.get(index as usize)?.waiter.as_ref().map(W::behind)
    }

    fn remove(&mut self, index: u32) -> Option<W> {
        self.leave_queue(index);
        self.leave_wheel(index);
        self.free_entry(index)
    }

    fn free_entry(&mut self, index: u32) -> Option<W> {
        let entry = self.entries.get_mut(index as usize)?;
        let waiter = entry.waiter.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
        waiter.count().fetch_sub(1, Ordering::SeqCst);
        Some(waiter)
    }

    fn leave_queue(&mut self, index: u32) {
        let Some(queue) = self.entries.get(index as usize).and_then(|entry| Some(entry.waiter.as_ref()?.queue()))
        else {
            return;
        };
        if let Some(list) = self.queues.get_mut(&queue) {
            list.retain(|listed| *listed != index);
            if list.is_empty() {
                self.queues.remove(&queue);
            }
        }
    }

    /// Slots hold ticks from behind the cursor to one turn ahead; a deadline beyond that stands in the last one.
    fn enter_wheel(&mut self, index: u32, deadline: u64) {
        let tick = deadline.clamp(self.cursor + 1, self.cursor + SLOTS - 1);
        let slot = (tick % SLOTS) as usize;
        let position = self.wheel[slot].len();
        self.wheel[slot].push(index);
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.slot = slot as u32;
            entry.position = position as u32;
        }
    }

    fn leave_wheel(&mut self, index: u32) {
        let Some(entry) = self.entries.get(index as usize) else { return };
        let (slot, position) = (entry.slot as usize, entry.position as usize);
        if self.wheel[slot].get(position) != Some(&index) {
            return;
        }
        self.wheel[slot].swap_remove(position);
        if let Some(moved) = self.wheel[slot].get(position).copied()
            && let Some(entry) = self.entries.get_mut(moved as usize)
        {
            entry.position = position as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicI64};

    use super::*;

    struct Waiter {
        queue: Arc<FakeQueue>,
        offset: i64,
        name: u32,
        wanted: Arc<AtomicBool>,
    }

    #[derive(Default)]
    struct FakeQueue {
        end: AtomicI64,
        waiters: AtomicUsize,
    }

    impl Waiting for Waiter {
        fn queue(&self) -> usize {
            Arc::as_ptr(&self.queue) as usize
        }
        fn count(&self) -> &AtomicUsize {
            &self.queue.waiters
        }
        fn behind(&self) -> i64 {
            self.offset
        }
        fn is_wanted(&self) -> bool {
            self.wanted.load(Ordering::SeqCst)
        }
    }

    fn waiter(queue: &Arc<FakeQueue>, offset: i64, name: u32) -> Waiter {
        Waiter { queue: Arc::clone(queue), offset, name, wanted: Arc::new(AtomicBool::new(true)) }
    }

    fn key(queue: &Arc<FakeQueue>) -> usize {
        Arc::as_ptr(queue) as usize
    }

    fn names(waiters: Vec<Waiter>) -> Vec<u32> {
        waiters.into_iter().map(|waiter| waiter.name).collect()
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn only_ready_waiters_of_the_queue_are_taken_in_order() {
        let lot = Lot::new();
        let (one, two) = (Arc::new(FakeQueue::default()), Arc::new(FakeQueue::default()));
        for (name, offset) in [(1, 5), (2, 7), (3, 5), (4, 6)] {
            lot.park(waiter(&one, offset, name), later());
        }
        lot.park(waiter(&two, 0, 9), later());
        assert_eq!(one.waiters.load(Ordering::SeqCst), 4);
        assert!(lot.take_ready(key(&one), 5).is_empty());
        assert_eq!(names(lot.take_ready(key(&one), 7)), [1, 3, 4]);
        assert_eq!(names(lot.take_ready(key(&one), 8)), [2]);
        assert_eq!(one.waiters.load(Ordering::SeqCst), 0);
        assert_eq!(lot.len(), 1);
    }

    #[test]
    fn a_ticket_takes_its_waiter_once() {
        let lot = Lot::new();
        let queue = Arc::new(FakeQueue::default());
        let ticket = lot.park(waiter(&queue, 0, 1), later());
        assert!(lot.take(ticket).is_some());
        let again = lot.park(waiter(&queue, 0, 2), later());
        assert!(lot.take(ticket).is_none());
        assert_eq!(names(lot.take_ready(key(&queue), 1)), [2]);
        assert!(lot.take(again).is_none());
        assert!(lot.is_empty());
    }

    #[test]
    fn deadlines_are_kept_and_never_early() {
        let lot = Lot::new();
        let queue = Arc::new(FakeQueue::default());
        let deadline = Instant::now() + Duration::from_millis(250);
        lot.park(waiter(&queue, 0, 1), deadline);
        lot.park(waiter(&queue, 0, 2), later());
        lot.park(waiter(&queue, 0, 3), Instant::now() + Duration::from_secs(100_000));
        let gone = waiter(&queue, 0, 4);
        let wanted = Arc::clone(&gone.wanted);
        lot.park(gone, deadline);
        wanted.store(false, Ordering::SeqCst);
        let limit = deadline + Duration::from_secs(20);
        loop {
            let expired = names(lot.take_expired());
            let now = Instant::now();
            if !expired.is_empty() {
                assert_eq!(expired, [1]);
                assert!(now >= deadline);
                break;
            }
            assert!(now < limit);
            std::thread::yield_now();
        }
        assert_eq!(lot.len(), 2);
        assert_eq!(queue.waiters.load(Ordering::SeqCst), 2);
        assert_eq!(names(lot.take_ready(key(&queue), 1)), [2, 3]);
        assert!(lot.inner.lock().wheel.iter().all(Vec::is_empty));
    }

    #[test]
    fn a_hundred_thousand_waiters_come_and_go() {
        let lot = Lot::new();
        let queues: Vec<_> = (0..1000).map(|_| Arc::new(FakeQueue::default())).collect();
        for name in 0..100_000u32 {
            let queue = &queues[name as usize % queues.len()];
            lot.park(waiter(queue, i64::from(name) / 1000, name), later());
        }
        assert_eq!(lot.len(), 100_000);
        let taken: usize = queues.iter().map(|queue| lot.take_ready(key(queue), 50).len()).sum();
        assert_eq!(taken, 50_000);
        let rest: usize = queues.iter().map(|queue| lot.take_ready(key(queue), 100).len()).sum();
        assert_eq!(rest, 50_000);
        assert!(lot.is_empty() && lot.inner.lock().queues.is_empty());
    }

    /// A producer moves the end as the store does; consumers read to the end and park. With a lost wake-up a consumer
    /// would stay parked although the end has moved, and the test would not end.
    #[test]
    fn no_arrival_is_lost() {
        const MESSAGES: i64 = 30_000;
        let lot = Arc::new(Lot::new());
        let queue = Arc::new(FakeQueue::default());
        let done = Arc::new(AtomicUsize::new(0));
        let resume = |lot: &Lot<Waiter>, done: &AtomicUsize, queue: &Arc<FakeQueue>, mut waiter: Waiter| loop {
            waiter.offset = queue.end.load(Ordering::Acquire);
            if waiter.offset == MESSAGES {
                done.fetch_add(1, Ordering::SeqCst);
                return;
            }
            let offset = waiter.offset;
            let ticket = lot.park(waiter, later());
            if queue.end.load(Ordering::Acquire) <= offset {
                return;
            }
            match lot.take(ticket) {
                Some(back) => waiter = back,
                None => return,
            }
        };
        let started = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for end in 1..=MESSAGES {
                    queue.end.store(end, Ordering::Release);
                    fence(Ordering::SeqCst);
                    if queue.waiters.load(Ordering::Relaxed) > 0 {
                        for waiter in lot.take_ready(key(&queue), end) {
                            resume(&lot, &done, &queue, waiter);
                        }
                    }
                }
            });
            for name in 0..3 {
                let (lot, queue, done) = (&lot, &queue, &done);
                scope.spawn(move || resume(lot, done, queue, waiter(queue, 0, name)));
            }
            while done.load(Ordering::SeqCst) < 3 {
                assert!(started.elapsed() < Duration::from_secs(60), "a waiter was left behind");
                std::thread::yield_now();
            }
        });
        assert!(lot.is_empty());
    }

    #[tokio::test]
    async fn the_timer_sleeps_and_is_woken_by_earlier_deadlines() {
        let lot = Arc::new(Lot::new());
        let queue = Arc::new(FakeQueue::default());
        let stop = CancellationToken::new();
        let (send, mut expired) = tokio::sync::mpsc::unbounded_channel();
        let timer = tokio::spawn({
            let (lot, stop) = (Arc::clone(&lot), stop.clone());
            async move { lot.run(stop, move |waiter: Waiter| send.send(waiter.name).unwrap_or_default()).await }
        });
        lot.park(waiter(&queue, 0, 1), later());
        tokio::task::yield_now().await;
        lot.park(waiter(&queue, 0, 2), Instant::now() + Duration::from_millis(50));
        let name = tokio::time::timeout(Duration::from_secs(20), expired.recv()).await.unwrap();
        assert_eq!(name, Some(2));
        stop.cancel();
        timer.await.unwrap();
    }
}
