//! Wakes one sleeping thread when the log reaches an offset, or at once; costs the appender one load.
//!
//! A [`Watermark`](crate::Watermark) wakes many waiters at exact positions; a bell serves a thread of the store that
//! sleeps until there is enough to do.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// See the module's text.
///
/// Invariant: a thread in [`Bell::wait`] returns once [`Bell::passed`] was called with its offset or more, even when
/// that call came between its last look and its sleep. It may return for nothing.
#[derive(Debug)]
pub(crate) struct Bell {
    /// Wakes when the log reaches this; `u64::MAX` while nobody sleeps.
    at: AtomicU64,
    rung: Mutex<bool>,
    wake: Condvar,
}

impl Default for Bell {
    fn default() -> Bell {
        Bell { at: AtomicU64::new(u64::MAX), rung: Mutex::new(false), wake: Condvar::new() }
    }
}

impl Bell {
    /// The log has reached an offset, and everybody can see that (the watermark was moved before, with SeqCst).
    #[inline]
    pub(crate) fn passed(&self, offset: u64) {
        if offset >= self.at.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    /// Wakes the sleeper, or whoever sleeps next.
    #[cold]
    pub(crate) fn ring(&self) {
        *self.rung.lock() = true;
        self.wake.notify_one();
    }

    /// Sleeps until the log reaches `at`, somebody rings, or the time is over. `position` tells where the log is.
    pub(crate) fn wait(&self, at: u64, timeout: Option<Duration>, position: impl Fn() -> u64) {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut rung = self.rung.lock();
        self.at.store(at, Ordering::SeqCst);
        // Pairs with the appender's order (move the watermark, then look at the mark): one of the two sees the other.
        fence(Ordering::SeqCst);
        while !*rung && position() < at {
            match deadline {
                None => self.wake.wait(&mut rung),
                Some(deadline) if self.wake.wait_until(&mut rung, deadline).timed_out() => break,
                Some(_) => {}
            }
        }
        self.at.store(u64::MAX, Ordering::SeqCst);
        *rung = false;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Watermark;

    #[test]
    fn no_wake_is_lost() {
        let bell = Arc::new(Bell::default());
        let log = Arc::new(Watermark::new(0));
        let appender = {
            let (bell, log) = (Arc::clone(&bell), Arc::clone(&log));
            std::thread::spawn(move || {
                for offset in 1..=20_000 {
                    log.advance(offset);
                    bell.passed(offset);
                }
            })
        };
        // A ring that comes late wakes the next sleep for nothing; a lost one lets it go on for ever.
        let start = Instant::now();
        let mut seen = 0;
        while seen < 20_000 {
            bell.wait(seen + 1, Some(Duration::from_secs(30)), || log.get());
            assert!(start.elapsed() < Duration::from_secs(25), "a wake is lost at {seen}");
            seen = log.get();
        }
        appender.join().unwrap();
        // A ring before the sleep counts, and time-outs end it.
        bell.ring();
        bell.wait(u64::MAX, None, || log.get());
        bell.wait(u64::MAX, Some(Duration::from_millis(1)), || log.get());
    }
}
