//! Opening the timer's files: what of them is to be believed, and from where the timer goes on.
//!
//! The timer log is believed up to the first record that is none, or whose message the commitlog has lost. Slots of the wheel
//! are believed when their last record is in the log and says their time; records behind the checkpoint are added. If one
//! slot is wrong, or the wheel is not there, all slots are made again from the log. Messages that the log lost are taken from
//! the topic again.
//!
//! What was done since the checkpoint was written is not known from these files: [`Found`] says where in the commitlog to
//! look for it, so that nothing is delivered twice.

use std::collections::HashSet;
use std::path::Path;
use std::time::SystemTime;

use super::checkpoint::{Marks, TimerCheckpoint};
use super::log::TimerLog;
use super::record::TimerRecord;
use super::snapshot;
use super::take::counts_for;
use super::wheel::{Slot, WHEEL_LEN, Wheel};
use crate::error::StoreError;

/// Without a checkpoint the slots of so long a time (ms) before the last record are taken as not delivered.
const UNSURE: i64 = 60_000;
/// A slot further away than this (ms) from the checkpoint was written with another precision.
const FAR: i64 = 10 * 365 * 86_400_000;
/// Records before the checkpoint's end of the log whose messages may stand behind its offset of the queue.
const IN_FLIGHT: u64 = 64 * 52;

/// What the commitlog holds of the timer's topic.
pub trait Held {
    /// The end of the commitlog.
    fn end(&self) -> u64;
    /// The queue offset of the message that stands at a physical offset, when one of the timer's topic does.
    fn queue_offset(&self, phys: u64) -> Option<i64>;
}

/// What to open.
#[derive(Clone, Copy)]
pub struct TimerOptions<'a> {
    /// The store's directory.
    pub root: &'a Path,
    /// `mappedFileSizeTimerLog`.
    pub log_file_len: usize,
    /// `timerPrecisionMs`.
    pub precision: i64,
    /// `timerWheelSnapshotFlush`.
    pub snapshots: bool,
    /// The messages.
    pub held: &'a dyn Held,
}

/// The open files.
#[derive(Debug)]
pub struct TimerFiles {
    /// What is due when.
    pub wheel: Wheel,
    /// What was taken.
    pub log: TimerLog,
    /// How far the timer has come.
    pub checkpoint: TimerCheckpoint,
}

/// Where deliveries may lie that the checkpoint does not know of: from the earlier of both on. Neither: there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// At or behind this offset of the commitlog.
    pub offset: Option<u64>,
    /// Among records stored at or after this time (ms).
    pub time: Option<i64>,
}

/// How the files were found.
#[derive(Debug)]
pub struct Found {
    /// What the checkpoint says, corrected.
    pub marks: Marks,
    /// The first message of the topic to take.
    pub resume: i64,
    /// Messages of the topic before this offset whose slot lies before `marks.read_time` were delivered.
    pub handled: i64,
    /// Physical offsets of messages at or behind `resume` that the log has already.
    pub logged: HashSet<i64>,
    /// Where those begin in the timer log.
    pub logged_from: u64,
    /// Messages of the first slot that were delivered, in the order of its chain.
    pub delivered: u64,
    /// Where to look for what was delivered besides.
    pub since: Since,
    /// The checkpoint is of a stop in order, of a broker like this.
    pub stopped: bool,
}

impl TimerFiles {
    /// Opens or makes the files.
    ///
    /// # Errors
    /// Files of the log that do not fit the configuration, or the disk.
    pub fn open(options: &TimerOptions<'_>) -> Result<(TimerFiles, Found), StoreError> {
        let (checkpoint, mut marks) = TimerCheckpoint::open(&options.root.join("config").join("timercheck"))?;
        let path = options.root.join("timerwheel");
        let replay = restore_snapshot(&path, options.snapshots, &marks)?;
        let (wheel, there) = Wheel::open(&path, options.precision)?;
        let log = TimerLog::load(options.root.join("timerlog"), options.log_file_len)?;
        let files = TimerFiles { wheel, log, checkpoint };

        let known = u64::try_from(marks.log_end).unwrap_or(0);
        let end = files.cut_log(replay.unwrap_or(known).min(known), options.held)?;
        let lost = end < known;
        let without_marks = marks.read_time == 0;
        if without_marks {
            // Or the timer is new.
            let last = files.last_record();
            marks.read_time = last.map_or(0, |last| last.write_time.saturating_sub(UNSURE).max(0));
        }
        marks.read_time = files.wheel.floor(marks.read_time);
        let rebuilt = files.revive_slots(&marks, there, replay.unwrap_or(known))?;
        if lost || rebuilt {
            tracing::warn!(lost, rebuilt, end, known, "the timer's files did not fit one another and were corrected");
        }

        let last_taken = || {
            let last = files.last_record()?;
            Some(options.held.queue_offset(u64::try_from(last.phys).ok()?)? + 1)
        };
        let resume = match (without_marks, lost) {
            (true, _) => last_taken().unwrap_or(0),
            (false, true) => last_taken().unwrap_or(0).min(marks.queue_offset),
            (false, false) => marks.queue_offset,
        };
        let mut logged = HashSet::new();
        let logged_from = match marks.ours {
            // The message to resume with is behind the last record.
            _ if without_marks => end,
            Some(ours) => ours.logged_from.min(end),
            None => known.saturating_sub(IN_FLIGHT).max(files.log.start_of_file(known)).min(end),
        };
        files.log.walk(logged_from, |_, record| {
            logged.insert(record.phys);
            true
        });
        let stopped = marks.ours.is_some_and(|ours| ours.stopped);
        let since = Since {
            offset: marks.ours.filter(|ours| !ours.stopped).map(|ours| ours.phys),
            // The order of a chain that is taken again need not be that of before, so its part that is delivered is looked
            // for as well.
            time: (lost || marks.ours.is_none()).then_some(marks.read_time),
        };
        let delivered = marks.ours.filter(|_| !lost).map_or(0, |ours| ours.delivered);
        let taken_once = marks.ours.map_or(0, |ours| ours.handled).max(marks.queue_offset);
        let handled = if without_marks { 0 } else { taken_once };
        marks.log_end = end as i64;
        marks.queue_offset = resume;
        Ok((files, Found { marks, resume, handled, logged, logged_from, delivered, since, stopped }))
    }

    fn last_record(&self) -> Option<TimerRecord> {
        self.log.last_position().and_then(|position| self.log.record(position))
    }

    /// Finds the end of the log and cuts it there.
    fn cut_log(&self, known: u64, held: &dyn Held) -> Result<u64, StoreError> {
        let mut end = self.log.find_end(known);
        self.log.truncate(end)?;
        let beyond = |record: &TimerRecord| record.phys.saturating_add(i64::from(record.size)) > held.end() as i64;
        if self.last_record().is_some_and(|last| beyond(&last)) {
            let mut gone = 0u64;
            end = self.log.walk(0, |_, record| !beyond(record));
            self.log.walk(end, |_, _| {
                gone += 1;
                true
            });
            tracing::warn!(gone, "the commitlog has lost timed messages: the timer forgets them");
            self.log.truncate(end)?;
        }
        self.log.set_flushed(end.min(known));
        Ok(end)
    }

    /// Makes the slots live that are not delivered. Returns whether they had to be made again.
    fn revive_slots(&self, marks: &Marks, there: bool, replay: u64) -> Result<bool, StoreError> {
        let mut live: Vec<Slot> = Vec::new();
        let mut odd = false;
        self.wheel.written(|slot| {
            odd |= marks.read_time > 0 && (slot.time - marks.read_time).abs() > FAR;
            if slot.time >= marks.read_time {
                live.push(slot);
            }
        })?;
        let mut log = self.log.reader();
        let fits = |slot: &Slot| {
            let last = log.record(slot.last);
            slot.first <= slot.last && last.is_some_and(|last| self.wheel.floor(last.slot_time()) == slot.time)
        };
        let replay = replay.min(self.log.end());
        if !odd && (there || self.log.is_empty()) && live.iter().all(fits) {
            self.wheel.set_live(&live);
            if self.knows_last(replay, marks.read_time) {
                self.add_records(replay, marks.read_time)?;
                return Ok(false);
            }
        }
        self.wheel.empty(live.iter().map(|slot| slot.time))?;
        self.add_records(0, marks.read_time)?;
        Ok(true)
    }

    /// Whether the wheel has any of the last records before a position, which the checkpoint says it has: a wheel that is empty
    /// for whatever reason is not believed. Some it may lack: those that were delivered before the clock was set back.
    fn knows_last(&self, replay: u64, read_time: i64) -> bool {
        let (mut wanted, mut known) = (false, false);
        let first = self.log.start_of_file(replay.saturating_sub(1));
        self.log.walk(replay.saturating_sub(IN_FLIGHT).max(first), |position, record| {
            let time = self.wheel.floor(record.slot_time());
            if position < replay && time >= read_time {
                wanted = true;
                known |= self.wheel.slot(time).is_some_and(|slot| slot.last >= position as i64);
            }
            position < replay && !known
        });
        known || !wanted
    }

    /// Adds the records from a position on to their slots, unless they are there or delivered.
    fn add_records(&self, from: u64, read_time: i64) -> Result<(), StoreError> {
        let mut result = Ok(());
        self.log.walk(from, |position, record| {
            let time = self.wheel.floor(record.slot_time());
            if time < read_time {
                return true;
            }
            let known = self.wheel.slot(time).is_some_and(|slot| slot.last >= position as i64);
            if !known {
                result = self.wheel.prepare(time).map(|time| self.wheel.add(time, position as i64, counts_for(record)));
            }
            result.is_ok()
        });
        result
    }
}

/// Puts the newest snapshot in the wheel's place when a Java broker kept its wheel there. Returns the position of the log
/// that it belongs to.
fn restore_snapshot(wheel: &Path, wanted: bool, marks: &Marks) -> Result<Option<u64>, StoreError> {
    // We write the wheel itself in either mode.
    if marks.ours.is_some() {
        return Ok(None);
    }
    let Some((position, path)) = snapshot::newest(wheel) else { return Ok(None) };
    let changed =
        |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let whole = std::fs::metadata(&path).is_ok_and(|meta| meta.len() == WHEEL_LEN as u64);
    if !whole || !wanted && changed(wheel) >= changed(&path) {
        return Ok(None);
    }
    let fresh = wheel.with_extension("restored");
    std::fs::copy(&path, &fresh)
        .and_then(|_| std::fs::rename(&fresh, wheel))
        .map_err(|source| StoreError::Io { path, source })?;
    Ok(Some(position))
}
