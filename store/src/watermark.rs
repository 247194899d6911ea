//! A log position that only grows, and everybody who waits for it.
//!
//! Four of them carry every durability rule: wrote, flushed, replicated, confirmed.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// A position in the commitlog in bytes.
///
/// Invariant: the value never decreases while anybody waits; a waiter for `n` is woken by the first `advance(m)` with
/// `m >= n`. Any thread may advance or wait.
#[derive(Debug, Default)]
pub struct Watermark {
    at: AtomicU64,
    /// How many waiters there are, so that an advance without any costs one load. Raised before a waiter's last look
    /// at the position, lowered when it is gone.
    waiting: AtomicU64,
    waiters: Mutex<Waiters>,
    threads: Condvar,
}

#[derive(Debug, Default)]
struct Waiters {
    next: u64,
    /// By target, then in the order of arrival.
    list: BTreeMap<(u64, u64), Waker>,
}

impl Watermark {
    /// A watermark at a position.
    pub fn new(at: u64) -> Watermark {
        Watermark { at: AtomicU64::new(at), ..Watermark::default() }
    }

    /// The position now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.at.load(Ordering::Acquire)
    }

    /// Moves up to `to` (a lower value changes nothing) and wakes whoever waited for it.
    #[inline]
    pub fn advance(&self, to: u64) {
        let before = self.at.fetch_max(to, Ordering::SeqCst);
        if to > before && self.waiting.load(Ordering::SeqCst) != 0 {
            self.wake(to);
        }
    }

    #[cold]
    fn wake(&self, to: u64) {
        let ready = {
            let mut waiters = self.waiters.lock();
            let Some(above) = to.checked_add(1) else { return self.wake_all() };
            let later = waiters.list.split_off(&(above, 0));
            std::mem::replace(&mut waiters.list, later)
        };
        self.threads.notify_all();
        ready.into_values().for_each(Waker::wake);
    }

    fn wake_all(&self) {
        let ready = std::mem::take(&mut self.waiters.lock().list);
        self.threads.notify_all();
        ready.into_values().for_each(Waker::wake);
    }

    /// Sets the position whatever it was: truncation, before anybody can wait.
    pub fn reset(&self, to: u64) {
        self.at.store(to, Ordering::SeqCst);
    }

    /// A future that ends once the position is at least `target`. Combine it with a time-out of the runtime.
    pub fn reached(&self, target: u64) -> Reached<'_> {
        Reached { mark: self, target, id: None }
    }

    /// Blocks the thread until the position is at least `target`; false when `timeout` came first.
    pub fn wait(&self, target: u64, timeout: Duration) -> bool {
        if self.get() >= target {
            return true;
        }
        let deadline = Instant::now().checked_add(timeout);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut waiters = self.waiters.lock();
        while self.at.load(Ordering::SeqCst) < target {
            match deadline {
                None => self.threads.wait(&mut waiters),
                Some(deadline) if self.threads.wait_until(&mut waiters, deadline).timed_out() => break,
                Some(_) => {}
            }
        }
        drop(waiters);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.get() >= target
    }
}

/// See [`Watermark::reached`].
#[derive(Debug)]
pub struct Reached<'w> {
    mark: &'w Watermark,
    target: u64,
    /// Set while it counts as waiting.
    id: Option<u64>,
}

impl Future for Reached<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.mark.get() >= self.target {
            return Poll::Ready(());
        }
        let mark = self.mark;
        if self.id.is_none() {
            mark.waiting.fetch_add(1, Ordering::SeqCst);
        }
        let mut waiters = mark.waiters.lock();
        let id = *self.id.get_or_insert_with(|| {
            waiters.next += 1;
            waiters.next
        });
        // Counted before this look: an advance after it sees the count and takes the lock.
        if mark.at.load(Ordering::SeqCst) >= self.target {
            return Poll::Ready(());
        }
        waiters.list.insert((self.target, id), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Reached<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.mark.waiters.lock().list.remove(&(self.target, id));
            self.mark.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_waiter_is_woken_by_the_first_advance_that_reaches_it() {
        let mark = Watermark::new(5);
        let counts: Vec<_> = (0..3).map(|_| Arc::new(Count::default())).collect();
        let mut futures: Vec<_> = [7, 10, 7].iter().map(|&target| Box::pin(mark.reached(target))).collect();
        for (future, count) in futures.iter_mut().zip(&counts) {
            let waker = Waker::from(Arc::clone(count));
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let woken = || counts.iter().map(|count| count.0.load(Ordering::SeqCst)).collect::<Vec<_>>();
        mark.advance(6);
        mark.advance(3);
        assert_eq!((woken(), mark.get()), (vec![0, 0, 0], 6));
        mark.advance(7);
        assert_eq!(woken(), [1, 0, 1]);
        let waker = Waker::noop();
        assert!(futures[0].as_mut().poll(&mut Context::from_waker(waker)).is_ready());
        drop(futures);
        assert_eq!((mark.waiting.load(Ordering::SeqCst), mark.waiters.lock().list.len()), (0, 0));
        mark.advance(u64::MAX);
    }

    #[test]
    fn threads_wait_and_give_up() {
        let mark = Watermark::new(0);
        assert!(!mark.wait(1, Duration::from_millis(5)));
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..8)
                .map(|i| {
                    scope.spawn({
                        let mark = &mark;
                        move || mark.wait(i * 100, Duration::MAX)
                    })
                })
                .collect();
            for i in 0..=700 {
                mark.advance(i);
            }
            assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
        });
        assert_eq!(mark.waiting.load(Ordering::SeqCst), 0);
    }

    /// Polls from one thread, advances from another: no wake may be lost.
    #[test]
    fn no_wake_is_lost() {
        struct Thread(std::thread::Thread);
        impl Wake for Thread {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let mark = Watermark::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=50_000).for_each(|i| mark.advance(i)));
            let waker = Waker::from(Arc::new(Thread(std::thread::current())));
            let mut target = 1;
            while target <= 50_000 {
                let mut future = Box::pin(mark.reached(target));
                while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                    std::thread::park();
                }
                target = mark.get() + 1;
            }
        });
        assert_eq!(mark.waiting.load(Ordering::SeqCst), 0);
    }
}
