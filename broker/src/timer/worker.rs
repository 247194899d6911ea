//! The thread that takes messages from the timer's topic and delivers what is due.
//!
//! One thread does both, in turns of at most [`BATCH`] messages: so there is one order of things, and neither waits long for
//! the other. A slot is delivered when its tick is over by the system's clock, which may be set at any time: time that goes
//! back takes nothing back, and nothing is delivered before its time by the new clock.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use store::RecordSlice;
use store::record::RecordView;
use store::timer::{Found, Slot, Taken, TimerRecord};

use super::copy::{Copied, Copier, Way};
use super::property;
use super::repeated::{Identity, Repeated};
use super::saver::Progress;
use super::service::{Lead, Timer, topic_hash};
use crate::names;
use crate::stats::now_millis;

/// Messages of one turn.
pub(super) const BATCH: usize = 256;
/// The longest sleep while a message waits: the system's clock may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Arrivals wake the worker only so long after it went to sleep: what comes fast is taken together.
const QUIET: Duration = Duration::from_millis(5);
/// After a failure.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// A slot that is being delivered at the stop is finished, within this time.
const FINISH: Duration = Duration::from_secs(10);

/// What a turn has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// There may be more.
    Busy,
    /// Nothing is left to do before this time (ms); `None`: before something arrives.
    Idle(Option<i64>),
    /// The store does not take messages now.
    Failed,
}

/// The slot that is being delivered.
pub(super) struct Run {
    time: i64,
    /// Positions of its records, those that recall others left out.
    positions: Vec<i64>,
    next: usize,
    /// Keys of messages that are recalled.
    recalled: HashSet<Vec<u8>>,
}

/// See the module's text.
pub(super) struct Worker<'t> {
    pub(super) timer: &'t Timer,
    pub(super) progress: Progress,
    pub(super) run: Option<Run>,
    copier: Copier,
    /// Messages that the timer log has although they stand behind `progress.queue_offset`.
    pub(super) logged: HashSet<i64>,
    /// What was delivered after the checkpoint was written.
    pub(super) repeated: Repeated,
    /// Messages before `progress.handled` that have rolled.
    rolled: HashSet<Identity>,
    appended: bool,
}

impl<'t> Worker<'t> {
    /// A worker that goes on where the files say. Looks through the log for what they do not know.
    pub(super) fn new(timer: &'t Timer, found: Found) -> Worker<'t> {
        let progress = *timer.progress.lock();
        let store = &timer.parts.store;
        let repeated = match Repeated::start(store, found.since) {
            Some(from) => Repeated::scan(store, found.since, from, store.wrote().get()),
            None => Repeated::default(),
        };
        let mut worker = Worker {
            timer,
            progress,
            run: None,
            copier: Copier::default(),
            logged: found.logged,
            repeated,
            rolled: HashSet::new(),
            appended: false,
        };
        if progress.queue_offset < progress.handled {
            worker.find_rolled();
        }
        worker
    }

    /// Messages that have rolled stand in the topic once more, behind.
    fn find_rolled(&mut self) {
        let mut offset = self.progress.queue_offset;
        tracing::warn!(
            from = offset,
            to = self.progress.handled,
            "the timer takes messages again that its log has lost"
        );
        while offset < self.timer.queue.max_offset() {
            let Some(entries) = self.timer.queue.entries(offset) else { break };
            let before = offset;
            for entry in entries {
                offset = entry.next_offset();
                let record =
                    u64::try_from(entry.unit.phys).ok().and_then(|phys| self.timer.parts.store.record_at(phys));
                let view = record.as_ref().and_then(|record| RecordView::parse(record).ok());
                self.rolled.extend(view.and_then(|view| Identity::of_delivered(&view)));
            }
            if offset <= before {
                break;
            }
        }
    }

    /// Works until the stop.
    pub(super) fn run(mut self) {
        loop {
            let turn = self.turn(now_millis());
            let stop = match turn {
                Turn::Busy => self.timer.sleep.lock().stop,
                Turn::Failed => self.pause(),
                Turn::Idle(due) => self.sleep(due),
            };
            if stop {
                break;
            }
        }
        let limit = Instant::now() + FINISH;
        while self.run.is_some() && Instant::now() < limit && self.deliver(now_millis()) == Some(true) {
            self.publish(false);
        }
        self.publish(false);
    }

    /// One turn at a time (ms since the epoch).
    pub(super) fn turn(&mut self, now: i64) -> Turn {
        self.timer.progress.lock().idle = false;
        let floor = self.timer.files.wheel.floor(now);
        let done = self.steps(now, floor);
        if std::mem::take(&mut self.appended) {
            self.timer.parts.store.dispatch();
        }
        let turn = match done {
            None => Turn::Failed,
            Some(true) => Turn::Busy,
            Some(false) => {
                let wheel = &self.timer.files.wheel;
                let due = wheel.next(self.progress.read_time).map(|slot| slot.time + wheel.precision());
                // What is stopped, or delivers elsewhere, may go on at any time.
                let looks = self.is_stopped() || self.progress.followed.is_some();
                Turn::Idle(due.or(looks.then_some(i64::MAX)))
            }
        };
        self.publish(matches!(turn, Turn::Idle(_)) && self.progress.followed.is_none());
        turn
    }

    /// Whether anything was done; `None`: something could not be done.
    fn steps(&mut self, now: i64, floor: i64) -> Option<bool> {
        match self.timer.lead() {
            Lead::Ours => {}
            Lead::Others(other) => return Some(self.follow(&other)),
            Lead::TakenUp(last) => {
                self.follow(&last);
                self.take_up();
            }
        }
        self.clock_set_back(floor)?;
        // What the log has lost, before time goes on: a slot that was delivered is known by its time.
        if self.progress.queue_offset < self.progress.handled {
            return self.take(now, floor).map(|_| true);
        }
        let delivered = self.deliver(now)?;
        let taken = !self.is_stopped() && self.take(now, floor)?;
        let untaken = self.progress.queue_offset < self.timer.queue.max_offset();
        if !delivered && !taken && !untaken && !self.progress.caught_up {
            self.progress.caught_up = true;
            self.repeated = Repeated::default();
            self.logged = HashSet::new();
            self.rolled = HashSet::new();
        }
        Some(delivered || taken)
    }

    /// A clock that was set back: slots that are delivered lie in the future again.
    fn clock_set_back(&mut self, floor: i64) -> Option<()> {
        let wheel = &self.timer.files.wheel;
        if self.run.is_some() || floor >= self.progress.read_time {
            return Some(());
        }
        tracing::warn!(by = self.progress.read_time - floor, "the clock was set back (ms)");
        let mut time = floor;
        let span = store::timer::SLOTS as i64 * wheel.precision();
        while time < self.progress.read_time && time < floor + span {
            if let Err(error) = wheel.forget(time) {
                tracing::error!(%error, "the timer wheel cannot be written");
                return None;
            }
            time += wheel.precision();
        }
        (self.progress.read_time, self.progress.delivered) = (floor, 0);
        Some(())
    }

    /// Delivers messages that are due: whether there was one.
    fn deliver(&mut self, now: i64) -> Option<bool> {
        let timer = self.timer;
        let floor = timer.files.wheel.floor(now);
        if self.run.is_none() {
            match timer.files.wheel.next(self.progress.read_time).filter(|slot| slot.time < floor) {
                Some(slot) => self.begin(&slot),
                None if self.progress.read_time < floor => {
                    (self.progress.read_time, self.progress.delivered) = (floor, 0);
                }
                None => {}
            }
        }
        let Some(mut run) = self.run.take() else { return Some(false) };
        let end = run.positions.len().min(run.next + BATCH);
        while run.next < end {
            if self.leave(&run, run.positions[run.next], now) == Copied::Later {
                self.run = Some(run);
                return None;
            }
            run.next += 1;
            self.progress.delivered += 1;
        }
        if run.next < run.positions.len() {
            self.run = Some(run);
        } else {
            timer.files.wheel.done(run.time);
            (self.progress.read_time, self.progress.delivered) = (run.time + timer.files.wheel.precision(), 0);
        }
        Some(true)
    }

    /// Begins with a slot: finds its records, and which messages are recalled.
    fn begin(&mut self, slot: &Slot) {
        let timer = self.timer;
        if slot.time > self.progress.read_time {
            (self.progress.read_time, self.progress.delivered) = (slot.time, 0);
        }
        let mut positions = timer.files.chain(slot);
        let mut recalled = HashSet::new();
        let mut log = timer.files.log.reader();
        positions.retain(|position| {
            let Some(record) = log.record(*position).filter(|record| record.deletes() && !record.rolls()) else {
                return true;
            };
            let message = self.message(&record);
            let view = message.as_ref().and_then(|message| RecordView::parse(message).ok());
            if let Some((view, key)) =
                view.and_then(|view| Some((view, view.properties().get_bytes(property::DELETE_KEY)?)))
            {
                recalled.insert(key.to_vec());
                timer.counts.add(real_topic(&view), 1);
            }
            false
        });
        let next = usize::try_from(self.progress.delivered).unwrap_or(usize::MAX).min(positions.len());
        self.run = Some(Run { time: slot.time, positions, next, recalled });
    }

    /// The message of a record, when it is still the one that was taken.
    fn message(&self, record: &TimerRecord) -> Option<RecordSlice> {
        let found = u64::try_from(record.phys).ok().and_then(|phys| self.timer.parts.store.record_at(phys));
        let same = |found: &RecordSlice| {
            let view = RecordView::parse(found);
            i64::try_from(found.len()) == Ok(i64::from(record.size))
                && view.is_ok_and(|view| view.topic() == names::TIMER_TOPIC)
        };
        let message = found.filter(same);
        if message.is_none() {
            tracing::warn!(offset = record.phys, "a timed message is not in the log any more");
        }
        message
    }

    /// Lets one message of a slot leave: it is delivered, rolls, or was recalled.
    fn leave(&mut self, run: &Run, position: i64, now: i64) -> Copied {
        let Some(record) = self.timer.files.log.record(position) else { return Copied::Never };
        let message = self.message(&record);
        let Some(view) = message.as_ref().and_then(|message| RecordView::parse(message).ok()) else {
            return Copied::Never;
        };
        let topic = real_topic(&view);
        if !run.recalled.is_empty() && self.is_recalled(run, &view) {
            self.timer.counts.add(topic, -1);
            return Copied::Done;
        }
        let copied = self.put(&view, Way { taken_at: record.write_time, roll: record.rolls(), now });
        if copied != Copied::Later {
            // What was added when it was taken.
            self.timer.counts.add(topic, if record.deletes() { 1 } else { -1 });
            self.timer.counts.delivered(topic);
        }
        copied
    }

    fn is_recalled(&self, run: &Run, view: &RecordView<'_>) -> bool {
        let Some(key) = view.uniq_key() else { return false };
        if self.timer.parts.store_config.load().append_topic_for_timer_delete_key {
            return run.recalled.contains(format!("{}+{key}", real_topic(view)).as_bytes());
        }
        run.recalled.contains(key.as_bytes())
    }

    /// Appends a copy, unless that was done before a crash.
    fn put(&mut self, view: &RecordView<'_>, way: Way) -> Copied {
        if self.repeated.take(view, way.roll) {
            return Copied::Done;
        }
        let copied = self.copier.put(&self.timer.parts, view, way);
        if copied == Copied::Done {
            self.appended = true;
            self.timer.delivered.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        copied
    }

    /// Whether an operator has stopped the taking of messages.
    pub(super) fn is_stopped(&self) -> bool {
        self.timer.parts.store_config.load().timer_stop_enqueue
    }

    /// Takes messages from the topic: whether there was one.
    fn take(&mut self, now: i64, floor: i64) -> Option<bool> {
        let timer = self.timer;
        if self.progress.queue_offset < timer.queue.min_offset() {
            tracing::warn!(
                from = self.progress.queue_offset,
                to = timer.queue.min_offset(),
                "timed messages are gone before they were taken"
            );
            self.progress.queue_offset = timer.queue.min_offset();
        }
        let offset = self.progress.queue_offset;
        if offset >= timer.queue.max_offset() {
            return Some(false);
        }
        let Some(entries) = timer.queue.entries(offset) else {
            tracing::error!(offset, "the timer's queue has no entry where it should: passed over");
            self.progress.queue_offset += 1;
            return Some(true);
        };
        for entry in entries.take(BATCH) {
            if entry.is_written() && !entry.unit.is_filler() && !self.take_one(entry.unit.phys, now, floor) {
                return None;
            }
            self.progress.queue_offset = entry.next_offset();
        }
        Some(self.progress.queue_offset > offset)
    }

    /// Takes one message; false: not now.
    fn take_one(&mut self, phys: i64, now: i64, floor: i64) -> bool {
        let timer = self.timer;
        let record = u64::try_from(phys).ok().and_then(|phys| timer.parts.store.record_at(phys));
        let Some(view) = record.as_ref().and_then(|record| RecordView::parse(record).ok()) else {
            tracing::warn!(offset = phys, "a timed message is not in the log any more");
            return true;
        };
        let properties = view.properties();
        let due = properties.get(property::OUT_MS).and_then(|due| due.parse::<i64>().ok()).filter(|due| *due >= 0);
        let (Some(due), Some(topic)) = (due, properties.get(property::REAL_TOPIC)) else {
            tracing::error!(
                offset = phys,
                "a message of the timer's topic does not say when or where it goes: passed over"
            );
            return true;
        };
        if self.is_taken(phys, due, &view) {
            return true;
        }
        let deletes = properties.get_bytes(property::DELETE_KEY).is_some();
        timer.counts.taken(topic);
        timer.record_ahead(topic, due.saturating_sub(view.born_timestamp()));
        timer.taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if timer.files.wheel.floor(due) < floor {
            // A recall that comes too late.
            return deletes || self.put(&view, Way { taken_at: i64::MAX, roll: false, now }) != Copied::Later;
        }
        let message = Taken {
            due,
            write_time: floor,
            phys,
            size: i32::try_from(view.size()).unwrap_or(i32::MAX),
            deletes,
            topic_hash: topic_hash(topic),
        };
        if let Err(error) = timer.files.take(&message, timer.window) {
            tracing::error!(%error, "the timer's files cannot be written, trying again");
            return false;
        }
        timer.counts.add(topic, if deletes { -1 } else { 1 });
        true
    }

    /// Whether a message was taken before the start.
    fn is_taken(&mut self, phys: i64, due: i64, view: &RecordView<'_>) -> bool {
        if self.progress.caught_up {
            return false;
        }
        if self.logged.remove(&phys) {
            return true;
        }
        if self.progress.queue_offset < self.progress.handled {
            let rolled = || Identity::of_waiting(view, true).is_some_and(|identity| self.rolled.contains(&identity));
            if self.timer.files.wheel.floor(due) < self.progress.read_time || rolled() {
                return true;
            }
        }
        // Rolled after the checkpoint: by now it may be near enough not to roll again.
        self.repeated.take(view, true)
    }

    /// Lets others see how far things have come.
    fn publish(&mut self, idle: bool) {
        let timer = self.timer;
        self.progress.log_end = timer.files.log.end();
        if self.progress.caught_up {
            self.progress.logged_from = self.progress.log_end;
            if self.progress.followed.is_none() {
                self.progress.phys = timer.parts.store.wrote().get();
            }
        }
        self.progress.idle = idle;
        let before = std::mem::replace(&mut *timer.progress.lock(), self.progress);
        // The other's clock goes on all the time: that alone is saved now and then.
        let time = |progress: &Progress| progress.followed.is_none().then_some(progress.read_time);
        let same = (time(&before), before.delivered, before.queue_offset, before.log_end)
            == (time(&self.progress), self.progress.delivered, self.progress.queue_offset, self.progress.log_end);
        if !same {
            timer.note();
        }
    }

    /// Sleeps until a time (ms), or until something arrives. True: stop.
    fn sleep(&mut self, due: Option<i64>) -> bool {
        let timer = self.timer;
        let until = due.map(|due| {
            let millis = u64::try_from(due.saturating_sub(now_millis())).unwrap_or(0);
            Instant::now() + Duration::from_millis(millis).min(LONGEST_SLEEP)
        });
        let mut sleep = timer.sleep.lock();
        let quiet = until.map_or(Instant::now() + QUIET, |until| until.min(Instant::now() + QUIET));
        while !sleep.stop && !timer.wake.wait_until(&mut sleep, quiet).timed_out() {}
        // An arrival moves the end of the queue before it comes here for the lock.
        sleep.waits = !std::mem::take(&mut sleep.arrived);
        while sleep.waits && !sleep.stop {
            match until {
                Some(until) if timer.wake.wait_until(&mut sleep, until).timed_out() => break,
                Some(_) => {}
                None => timer.wake.wait(&mut sleep),
            }
        }
        (sleep.waits, sleep.arrived) = (false, false);
        sleep.stop
    }

    /// Waits a little after a failure. True: stop.
    fn pause(&self) -> bool {
        let mut sleep = self.timer.sleep.lock();
        let until = Instant::now() + RETRY_AFTER;
        while !sleep.stop && !self.timer.wake.wait_until(&mut sleep, until).timed_out() {}
        sleep.stop
    }
}

/// The topic that a message is for; empty when it does not say.
fn real_topic<'a>(view: &RecordView<'a>) -> &'a str {
    view.properties().get(property::REAL_TOPIC).unwrap_or_default()
}
