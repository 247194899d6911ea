//! Puts on disk how far the timer has come.
//!
//! Order: timer log, wheel, then the log of messages up to where the deliveries lie that the checkpoint stands for, then the
//! checkpoint. So a checkpoint on disk never says more than the disk has, and after a crash only what was delivered since
//! has to be looked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use store::timer::{Found, Marks, Ours};
use store::{Store, StoreError};

use super::repeated::Repeated;
use super::service::Timer;
use crate::stats::now_millis;

/// The checkpoint is renewed so often when the log of messages grows: the part of it to look through stays short.
const RENEW: Duration = Duration::from_secs(10);
/// Files of the timer log are looked at so often.
const CLEAN: Duration = Duration::from_secs(30);
/// The longest wait for the log of messages to be on disk.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);

/// What a broker that does not deliver knows of the timer that does: that of its master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Followed {
    /// Time (ms) of the first slot that is not delivered.
    pub(super) read_time: i64,
    /// The next message of the topic to take.
    pub(super) queue_offset: i64,
    /// State version, time and counter of the version.
    pub(super) version: [i64; 3],
    /// End of our log of messages when it was asked for: all deliveries before it are known.
    pub(super) phys: u64,
}

/// How far the timer has come. Consistent: changed under its lock by the worker alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Time (ms) of the first slot that is not delivered.
    pub(super) read_time: i64,
    /// Messages of that slot that are.
    pub(super) delivered: u64,
    /// The next message of the topic to take.
    pub(super) queue_offset: i64,
    /// End of the timer log.
    pub(super) log_end: u64,
    /// See [`Ours::handled`].
    pub(super) handled: i64,
    /// See [`Ours::logged_from`].
    pub(super) logged_from: u64,
    /// Everything above lies before this offset of the log of messages, and what is delivered later behind it.
    pub(super) phys: u64,
    /// Everything from before the start has been looked at.
    pub(super) caught_up: bool,
    /// The worker sleeps: nothing is due, nothing to be taken, nothing half done.
    pub(super) idle: bool,
    /// Set while another broker delivers.
    pub(super) followed: Option<Followed>,
}

impl Progress {
    pub(super) fn of(found: &Found, store: &Store) -> Progress {
        Progress {
            read_time: found.marks.read_time,
            delivered: found.delivered,
            queue_offset: found.resume,
            log_end: u64::try_from(found.marks.log_end).unwrap_or(0),
            handled: found.handled,
            logged_from: found.logged_from,
            phys: Repeated::start(store, found.since).unwrap_or_else(|| store.wrote().get()),
            caught_up: false,
            idle: false,
            followed: None,
        }
    }

    /// As it is at this moment: while the worker sleeps, time goes on without it.
    pub(super) fn now(&self, timer: &Timer) -> Progress {
        let mut now = *self;
        if self.idle {
            let wheel = &timer.files.wheel;
            let floor = wheel.floor(now_millis());
            let next = wheel.next(self.read_time).map_or(floor, |slot| slot.time.min(floor));
            now.read_time = self.read_time.max(next);
            now.phys = timer.parts.store.wrote().get();
        }
        now
    }
}

/// See the module's text.
pub(super) struct Saver {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    stop: bool,
    /// Something has been done since the last save.
    dirty: bool,
    version: [i64; 3],
    /// What was saved last: time, offset of the queue, offset in the log of messages.
    saved: (i64, i64, u64),
}

impl Saver {
    pub(super) fn new(marks: Marks) -> Saver {
        let state = State { stop: false, dirty: false, version: marks.version, saved: (0, 0, 0) };
        Saver { state: Mutex::new(state), wake: Condvar::new() }
    }

    /// Something was done that is to be saved.
    pub(super) fn note(&self) {
        let mut state = self.state.lock();
        if !state.dirty {
            state.dirty = true;
            self.wake.notify_all();
        }
    }

    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.wake.notify_all();
    }

    /// Saves each `timerFlushIntervalMs` while something is done.
    pub(super) fn run(&self, timer: &Arc<Timer>) {
        let mut cleaned = Instant::now();
        let mut snapshot = Instant::now();
        loop {
            {
                let mut state = self.state.lock();
                if !state.dirty && !state.stop {
                    self.wake.wait_for(&mut state, RENEW);
                }
                if state.dirty {
                    let interval = timer.parts.store_config.load().timer_flush_interval_ms;
                    let until = Instant::now() + Duration::from_millis(u64::try_from(interval).unwrap_or(0).max(10));
                    while !state.stop && !self.wake.wait_until(&mut state, until).timed_out() {}
                }
                if state.stop {
                    return;
                }
            }
            if let Err(error) = self.save(timer, &mut snapshot) {
                tracing::error!(%error, "cannot save how far the timer has come");
                self.state.lock().dirty = true;
            }
            if cleaned.elapsed() >= CLEAN && timer.files.log.files() > 1 {
                cleaned = Instant::now();
                match timer.files.log.clean(timer.parts.store.log_range().start) {
                    Ok(0) => {}
                    Ok(files) => tracing::info!(files, "deleted old files of the timer log"),
                    Err(error) => tracing::error!(%error, "old files of the timer log could not be deleted"),
                }
            }
        }
    }

    fn save(&self, timer: &Timer, snapshot: &mut Instant) -> Result<(), StoreError> {
        let dirty = std::mem::take(&mut self.state.lock().dirty);
        let now = timer.progress.lock().now(timer);
        if !dirty && (now.read_time, now.queue_offset, now.phys) == self.state.lock().saved {
            return Ok(());
        }
        self.write(timer, false)?;
        let config = timer.parts.store_config.load();
        let interval = Duration::from_millis(u64::try_from(config.timer_wheel_snapshot_interval_ms).unwrap_or(0));
        if config.timer_wheel_snapshot_flush && dirty && snapshot.elapsed() >= interval {
            *snapshot = Instant::now();
            timer.files.wheel.snapshot(timer.files.log.flushed())?;
        }
        Ok(())
    }

    /// Writes everything; `stopped`: nothing will be done any more.
    pub(super) fn write(&self, timer: &Timer, stopped: bool) -> Result<(), StoreError> {
        let now = timer.progress.lock().now(timer);
        timer.files.log.flush()?;
        timer.files.wheel.flush()?;
        timer.counts.persist();
        let store = &timer.parts.store;
        store.request_flush();
        if !store.flushed().wait(now.phys, FLUSH_LIMIT) {
            let source = std::io::Error::other("the log of messages is not on disk");
            return Err(StoreError::Io { path: timer.parts.store_config.load().root_dir(), source });
        }
        let ours = Ours {
            delivered: now.delivered,
            phys: now.phys,
            handled: now.handled,
            logged_from: now.logged_from,
            // What the master delivers from now on is to be looked for.
            stopped: stopped && now.caught_up && now.followed.is_none(),
        };
        let marks = Marks { ours: Some(ours), ..self.marks(&now) };
        timer.files.checkpoint.write(&marks)?;
        let mut state = self.state.lock();
        state.version = marks.version;
        state.saved = (now.read_time, now.queue_offset, now.phys);
        Ok(())
    }

    /// The last save, when the worker has ended.
    pub(super) fn finish(&self, timer: &Timer) {
        let saved = self.write(timer, true).and_then(|()| {
            if !timer.parts.store_config.load().timer_wheel_snapshot_flush {
                return Ok(());
            }
            timer.files.wheel.snapshot(timer.files.log.flushed())
        });
        if let Err(error) = saved {
            tracing::error!(%error, "the timer's last steps are not on disk: the next start looks for them");
        }
    }

    /// The part of the checkpoint that Java knows. The version goes on with each change.
    pub(super) fn marks(&self, now: &Progress) -> Marks {
        if let Some(master) = now.followed {
            return Marks {
                read_time: now.read_time,
                log_end: now.log_end as i64,
                queue_offset: now.queue_offset.min(master.queue_offset),
                master_queue_offset: master.queue_offset,
                version: master.version,
                ours: None,
            };
        }
        let state = self.state.lock();
        let changed = (now.read_time, now.queue_offset) != (state.saved.0, state.saved.1);
        let version = if changed { [0, now_millis(), state.version[2].wrapping_add(1)] } else { state.version };
        Marks {
            read_time: now.read_time,
            log_end: now.log_end as i64,
            queue_offset: now.queue_offset,
            master_queue_offset: now.queue_offset,
            version,
            ours: None,
        }
    }
}
