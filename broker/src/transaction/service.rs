//! The thread that looks at open transactions every `transactionCheckInterval`.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::check::{Checker, CheckerParts};

/// The look at open transactions, by the clock.
pub struct CheckService {
    parts: Arc<CheckerParts>,
    stopped: Mutex<bool>,
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl CheckService {
    /// The service; nothing runs yet.
    pub fn new(parts: CheckerParts) -> CheckService {
        CheckService {
            parts: Arc::new(parts),
            stopped: Mutex::new(false),
            wake: Condvar::new(),
            thread: Mutex::new(None),
        }
    }

    /// Starts the thread, unless it runs; the first look is one interval away.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(self: &Arc<CheckService>) -> std::io::Result<()> {
        let mut running = self.thread.lock();
        if running.is_some() {
            return Ok(());
        }
        *self.stopped.lock() = false;
        let service = Arc::clone(self);
        let thread = std::thread::Builder::new().name("transactions".into()).spawn(move || service.run())?;
        *running = Some(thread);
        Ok(())
    }

    /// Stops the thread.
    pub fn pause(&self) {
        let mut running = self.thread.lock();
        *self.stopped.lock() = true;
        self.wake.notify_all();
        if running.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the look at open transactions has panicked");
        }
    }

    /// Stops the thread, and writes down which halves have been ended and the counts. No transaction may end afterwards.
    pub fn stop(&self) {
        self.pause();
        self.parts.ops.flush();
        self.parts.counts.persist();
    }

    fn run(&self) {
        let mut checker = Checker::new(self.parts.clone());
        while self.sleep() {
            checker.pass(&|| *self.stopped.lock());
        }
    }

    /// Sleeps for an interval. False: stop.
    fn sleep(&self) -> bool {
        let begin = Instant::now();
        let mut stopped = self.stopped.lock();
        while !*stopped {
            // The interval may be changed meanwhile.
            let millis = u64::try_from(self.parts.config.load().transaction_check_interval).unwrap_or(0).max(1);
            let until = begin + Duration::from_millis(millis);
            let now = Instant::now();
            if now >= until {
                return true;
            }
            self.wake.wait_for(&mut stopped, (until - now).min(Duration::from_secs(1)));
        }
        false
    }
}
