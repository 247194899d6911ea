//! What only one broker of a group does at a time: delivering delayed and timed messages, and asking for the ends of
//! transactions. The master does it; a slave keeps what is needed for it at hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::schedule::Schedule;
use crate::timer::Timer;
use crate::transaction::CheckService;

/// The services that run on one broker of a group.
pub struct Duties {
    schedule: Arc<Schedule>,
    timer: Option<Arc<Timer>>,
    checks: Arc<CheckService>,
    on: AtomicBool,
    /// Held while they are taken on or laid down. Whether that is over: the broker stops.
    closed: Mutex<bool>,
}

impl Duties {
    /// The services; none delivers anything before [`Duties::set`].
    pub fn new(schedule: Arc<Schedule>, timer: Option<Arc<Timer>>, checks: Arc<CheckService>) -> Duties {
        if let Some(timer) = &timer {
            timer.set_delivering(false);
        }
        Duties { schedule, timer, checks, on: AtomicBool::new(false), closed: Mutex::new(false) }
    }

    /// Takes the duties on, or lays them down. Waits for what is under way: not for a worker of the runtime.
    ///
    /// # Errors
    /// The system gives no thread; what does not run then is tried again by the next call.
    pub fn set(&self, on: bool) -> std::io::Result<()> {
        let closed = self.closed.lock();
        if *closed || self.are_on() == on {
            return Ok(());
        }
        if let Some(timer) = &self.timer {
            timer.set_delivering(on);
        }
        if on {
            self.schedule.start()?;
            self.checks.start()?;
        } else {
            self.schedule.stop();
            self.checks.pause();
        }
        self.on.store(on, Ordering::SeqCst);
        Ok(())
    }

    /// Lays them down for good. What is to be saved is.
    pub fn close(&self) {
        *self.closed.lock() = true;
        self.schedule.stop();
        self.checks.stop();
    }

    /// Whether this broker does them.
    pub fn are_on(&self) -> bool {
        self.on.load(Ordering::SeqCst)
    }
}
