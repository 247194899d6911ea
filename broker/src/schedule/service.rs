//! Delivers delayed messages: one thread for all levels, which sleeps until the next message is due.
//!
//! Every queue of the schedule topic is in order of time, as all its messages wait equally long. So a level is a cursor:
//! everything before it has been delivered, and only its next message matters. The cursors are saved every
//! `flushDelayOffsetInterval` and at the stop. After a crash the messages since the last save are delivered again: never
//! lost, perhaps twice, as with Java.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use config::{Live, MessageStoreConfig};
use parking_lot::{Condvar, Mutex};
use remoting::body::fastjson;
use remoting::body::topic::DataVersion;
use serde::{Deserialize, Serialize};
use store::{Arrival, Queue, Store, StoreError};

use super::DelayLevels;
use super::deliver::{Delivery, Next};
use crate::config_file::{ConfigFile, encode};
use crate::names;
use crate::slave::Escape;
use crate::stats::{Stats, now_millis};
use crate::topics::TopicTable;

/// The longest sleep while a message waits: the system's clock may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// After a delivery that failed.
const RETRY_AFTER: i64 = 100;

/// What a [`Schedule`] works with.
pub struct ScheduleParts {
    /// Store keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// The store.
    pub store: Arc<Store>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// The delay levels.
    pub levels: Arc<DelayLevels>,
    /// Where messages go on a slave that stands in for its master.
    pub escape: Option<Arc<Escape>>,
}

/// The delivery of delayed messages.
pub struct Schedule {
    parts: ScheduleParts,
    file: ConfigFile,
    version: Mutex<DataVersion>,
    /// Level n stands at n - 1.
    cursors: Vec<Cursor>,
    changed: AtomicBool,
    sleep: Mutex<Sleep>,
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How far a level has come.
struct Cursor {
    queue: Arc<Queue>,
    /// Queue offset of the next message to deliver.
    offset: AtomicI64,
    /// Whether anything has been delivered or loaded: only such levels are in the file.
    known: AtomicBool,
}

struct Sleep {
    stop: bool,
    /// Levels whose queue has nothing: only an arrival makes them busy.
    idle: Vec<bool>,
}

/// The shape of `config/delayOffset.json` and of the answer to GET_ALL_DELAY_OFFSET.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DelayOffsets {
    /// Version of the table.
    pub data_version: DataVersion,
    /// The next offset to deliver, by level.
    pub offset_table: BTreeMap<i32, i64>,
}

impl Schedule {
    /// Loads the cursors from `dir` (`config/` of the store).
    ///
    /// # Errors
    /// The file and its backup are damaged.
    pub fn load(dir: &Path, parts: ScheduleParts) -> Result<Schedule, StoreError> {
        let file = ConfigFile::new(dir.join("delayOffset.json"));
        let shape = file
            .load(|text| fastjson::from_slice::<DelayOffsets>(text).map_err(|error| error.to_string()))?
            .unwrap_or_default();
        let cursors: Vec<_> = (1..=parts.levels.max())
            .map(|level| {
                let queue = parts.store.queue_or_create(names::SCHEDULE_TOPIC, level - 1);
                let saved = shape.offset_table.get(&level).copied();
                Cursor { queue, offset: AtomicI64::new(saved.unwrap_or(0)), known: AtomicBool::new(saved.is_some()) }
            })
            .collect();
        Ok(Schedule {
            sleep: Mutex::new(Sleep { stop: false, idle: vec![false; cursors.len()] }),
            version: Mutex::new(shape.data_version),
            file,
            cursors,
            changed: AtomicBool::new(false),
            wake: Condvar::new(),
            thread: Mutex::new(None),
            parts,
        })
    }

    /// Starts the thread, unless it runs. A cursor outside its queue is moved to the queue's end or beginning first.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(self: &Arc<Schedule>) -> std::io::Result<()> {
        let mut running = self.thread.lock();
        if running.is_some() {
            return Ok(());
        }
        self.correct();
        *self.sleep.lock() = Sleep { stop: false, idle: vec![false; self.cursors.len()] };
        let schedule = Arc::clone(self);
        let thread = std::thread::Builder::new().name("schedule".into()).spawn(move || schedule.run())?;
        *running = Some(thread);
        Ok(())
    }

    fn correct(&self) {
        for (level, cursor) in (1..).zip(&self.cursors) {
            let saved = cursor.offset.load(Ordering::Acquire);
            let offset = saved.max(cursor.queue.min_offset()).min(cursor.queue.max_offset());
            if saved != offset {
                tracing::warn!(level, saved, offset, "moved a delay level to its queue");
                cursor.offset.store(offset, Ordering::Release);
            }
        }
    }

    /// Stops the thread and saves the cursors. Nothing is delivered afterwards.
    pub fn stop(&self) {
        let mut running = self.thread.lock();
        let Some(thread) = running.take() else { return };
        self.sleep.lock().stop = true;
        self.wake.notify_all();
        if thread.join().is_err() {
            tracing::error!("the delivery of delayed messages has panicked");
        }
        self.persist();
    }

    /// A queue of the schedule topic has new messages. Called by the store on its dispatching thread.
    pub fn arrived(&self, arrival: &Arrival<'_>) {
        let Ok(index) = usize::try_from(arrival.queue.id()) else { return };
        let mut sleep = self.sleep.lock();
        if let Some(idle) = sleep.idle.get_mut(index).filter(|idle| **idle) {
            *idle = false;
            self.wake.notify_all();
        }
    }

    /// Level, next offset to deliver, and end of the queue, of every level that has been in use.
    pub fn progress(&self) -> Vec<(i32, i64, i64)> {
        let used = (1..).zip(&self.cursors).filter(|(_, cursor)| cursor.known.load(Ordering::Acquire));
        used.map(|(level, cursor)| (level, cursor.offset.load(Ordering::Acquire), cursor.queue.max_offset())).collect()
    }

    /// The version of the cursors' table.
    pub fn data_version(&self) -> DataVersion {
        *self.version.lock()
    }

    /// The cursors as `delayOffset.json` has them, on one line or indented by tabs: also the answer to
    /// GET_ALL_DELAY_OFFSET.
    pub fn encode(&self, pretty: bool) -> Vec<u8> {
        let offset_table = self.progress().into_iter().map(|(level, offset, _)| (level, offset)).collect();
        encode(&DelayOffsets { data_version: *self.version.lock(), offset_table }, pretty)
    }

    /// Takes over the cursors of the master that this broker copies, and saves them; levels that it does not name stay. Does
    /// nothing while this broker delivers.
    pub fn take_over(&self, of_master: &DelayOffsets) {
        let running = self.thread.lock();
        if running.is_some() {
            return;
        }
        let mut version = self.version.lock();
        let mut changed = self.changed.swap(false, Ordering::AcqRel) || *version != of_master.data_version;
        for (level, offset) in &of_master.offset_table {
            let cursor = level
                .checked_sub(1)
                .and_then(|index| usize::try_from(index).ok())
                .and_then(|index| self.cursors.get(index));
            let Some(cursor) = cursor else { continue };
            changed |= cursor.offset.swap(*offset, Ordering::AcqRel) != *offset;
            changed |= !cursor.known.swap(true, Ordering::AcqRel);
        }
        *version = of_master.data_version;
        drop(version);
        if changed {
            self.save();
        }
    }

    /// Writes the file when it is behind. A failure is logged; the next call tries again.
    pub fn persist(&self) {
        if !self.changed.swap(false, Ordering::AcqRel) {
            return;
        }
        {
            let mut version = self.version.lock();
            *version = version.next(0);
        }
        self.save();
    }

    fn save(&self) {
        if let Err(error) = self.file.save(&self.encode(true)) {
            self.changed.store(true, Ordering::Release);
            tracing::error!(file = %self.file.path().display(), %error, "cannot save the delay levels' offsets");
        }
    }

    fn run(&self) {
        for cursor in &self.cursors {
            // The store tells of arrivals only while somebody waits: we always do.
            cursor.queue.waiters().fetch_add(1, Ordering::SeqCst);
        }
        self.work();
        for cursor in &self.cursors {
            cursor.queue.waiters().fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn work(&self) {
        let mut delivery = Delivery::new(&self.parts);
        let mut due: Vec<Option<i64>> = vec![Some(0); self.cursors.len()];
        let mut save = Instant::now() + self.save_interval();
        loop {
            let now = now_millis();
            for (index, due) in due.iter_mut().enumerate() {
                if due.is_some_and(|due| due <= now) {
                    *due = self.deliver(index, &mut delivery);
                }
                if self.sleep.lock().stop {
                    return;
                }
            }
            if save <= Instant::now() {
                self.persist();
                save = Instant::now() + self.save_interval();
            }
            if !self.sleep_until(&mut due, save) {
                return;
            }
        }
    }

    /// Delivers what is due of a level; returns when to look again, `None` when nothing waits.
    fn deliver(&self, index: usize, delivery: &mut Delivery<'_>) -> Option<i64> {
        let cursor = self.cursors.get(index)?;
        let delay = self.parts.levels.millis(index as i32 + 1)?;
        let mut offset = cursor.offset.load(Ordering::Acquire);
        let next = delivery.level(&cursor.queue, &mut offset, delay, &|| self.sleep.lock().stop);
        if cursor.offset.swap(offset, Ordering::AcqRel) != offset || !cursor.known.load(Ordering::Acquire) {
            // An empty queue that was only looked at is not in use.
            if cursor.queue.max_offset() > 0 {
                cursor.known.store(true, Ordering::Release);
                self.changed.store(true, Ordering::Release);
            }
        }
        match next {
            Next::Idle => None,
            Next::At(time) => Some(time),
            Next::Failed => Some(now_millis() + RETRY_AFTER),
        }
    }

    /// Sleeps until something is due, arrives, or is to be saved. False: stop.
    fn sleep_until(&self, due: &mut [Option<i64>], save: Instant) -> bool {
        let mut sleep = self.sleep.lock();
        for (index, cursor) in self.cursors.iter().enumerate() {
            // Looked at under the lock that an arrival takes after it has moved the end: one of us sees the other.
            let nothing = due[index].is_none() && cursor.queue.max_offset() <= cursor.offset.load(Ordering::Acquire);
            sleep.idle[index] = nothing;
            if due[index].is_none() && !nothing {
                due[index] = Some(0);
            }
        }
        let first = due.iter().flatten().min().copied();
        let until_due = first.map(|first| {
            let millis = u64::try_from(first.saturating_sub(now_millis())).unwrap_or(0);
            Instant::now() + Duration::from_millis(millis).min(LONGEST_SLEEP)
        });
        let until_save = self.changed.load(Ordering::Acquire).then_some(save);
        let was_idle: Vec<bool> = sleep.idle.clone();
        let woken = |sleep: &Sleep| sleep.stop || sleep.idle != was_idle;
        while !woken(&sleep) {
            match until_due.into_iter().chain(until_save).min() {
                Some(until) if self.wake.wait_until(&mut sleep, until).timed_out() => break,
                Some(_) => {}
                None => self.wake.wait(&mut sleep),
            }
        }
        for (index, due) in due.iter_mut().enumerate() {
            if was_idle[index] && !sleep.idle[index] {
                *due = Some(0);
            }
        }
        !sleep.stop
    }

    fn save_interval(&self) -> Duration {
        let millis = self.parts.store_config.load().flush_delay_offset_interval;
        Duration::from_millis(u64::try_from(millis).unwrap_or(10_000).max(100))
    }
}
