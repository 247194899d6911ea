//! Taking a message into log and wheel, and finding the messages of a slot again.

use std::collections::HashMap;

use super::record::{DELETE, NORMAL, ROLL, TimerRecord};
use super::recover::TimerFiles;
use super::wheel::{SLOTS, Slot};
use crate::error::StoreError;

/// Slots at the end of a round that are kept free, as Java keeps them.
const BLANK_SLOTS: i32 = 60;

/// A message to take.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// When it is due (ms): it is delivered at the end of that tick.
    pub due: i64,
    /// The tick of now (ms).
    pub write_time: i64,
    /// Where its record is in the commitlog.
    pub phys: i64,
    /// Length of the record.
    pub size: i32,
    /// Whether it recalls another message.
    pub deletes: bool,
    /// Java's hash of the topic that it is for.
    pub topic_hash: i32,
}

/// How many slots ahead the wheel looks: `timerRollWindowSlot`, within its bounds.
pub fn roll_window(configured: i32) -> i32 {
    let most = SLOTS as i32 / 2 - BLANK_SLOTS;
    if (2..=most).contains(&configured) { configured } else { most }
}

/// The time of the slot that a message goes to, and whether it rolls there: what is due beyond the window goes round once
/// more after the window, or after half of it when little would be left then.
pub fn slot_of(due: i64, write_time: i64, window: i32, precision: i64) -> (i64, bool) {
    let ahead = due.saturating_sub(write_time);
    let window_ms = i64::from(window) * precision;
    if ahead < window_ms {
        return (due, false);
    }
    let slots = if ahead - window_ms < i64::from(window / 3) * precision { window / 2 } else { window };
    (write_time + i64::from(slots) * precision, true)
}

impl TimerFiles {
    /// Takes a message: its record is in the log and its slot knows it.
    ///
    /// # Errors
    /// The disk is full; nothing was taken.
    pub fn take(&self, message: &Taken, window: i32) -> Result<(), StoreError> {
        let (time, rolls) = slot_of(message.due, message.write_time, window, self.wheel.precision());
        let slot_time = self.wheel.prepare(time)?;
        // Within its tick the time is kept as it is, as Java keeps it.
        let time = if self.wheel.floor(time) == slot_time { time } else { slot_time };
        let flag = |set: bool, bit: i32| if set { bit } else { 0 };
        let record = TimerRecord {
            prev: self.wheel.slot(slot_time).map_or(-1, |slot| slot.last),
            magic: NORMAL | flag(rolls, ROLL) | flag(message.deletes, DELETE),
            write_time: message.write_time,
            delay: i32::try_from(time - message.write_time).unwrap_or(i32::MAX),
            phys: message.phys,
            size: message.size,
            topic_hash: message.topic_hash,
        };
        let position = self.log.append(&record)?;
        self.wheel.add(slot_time, position as i64, counts_for(&record));
        Ok(())
    }

    /// The positions of a slot's records, in the order in which they were taken. Records whose file is gone are not
    /// among them.
    pub fn chain(&self, slot: &Slot) -> Vec<i64> {
        let mut positions = Vec::with_capacity(usize::try_from(slot.number).unwrap_or(0).min(1 << 16));
        let mut log = self.log.reader();
        let mut at = slot.last;
        while at >= self.log.start() as i64 {
            let Some(record) = log.record(at).filter(|record| record.prev < at) else {
                tracing::error!(
                    time = slot.time,
                    position = at,
                    "a timer record is damaged: the ones before it are lost"
                );
                break;
            };
            positions.push(at);
            at = record.prev;
        }
        positions.reverse();
        positions
    }

    /// How many messages wait, by the hash of the topic that they are for. Of the slot at `read_time` the first `delivered`
    /// messages, those that recall others left out, do not.
    pub fn count_by_topic(&self, read_time: i64, delivered: u64) -> HashMap<i32, i64> {
        let mut counts: HashMap<i32, i64> = HashMap::new();
        let mut log = self.log.reader();
        for slot in self.wheel.live_slots() {
            let mut gone = if slot.time == read_time { delivered } else { 0 };
            for record in self.chain(&slot).into_iter().filter_map(|position| log.record(position)) {
                let leaves = record.rolls() || !record.deletes();
                if leaves && gone > 0 {
                    gone -= 1;
                } else {
                    *counts.entry(record.topic_hash).or_default() += i64::from(counts_for(&record));
                }
            }
        }
        counts
    }
}

/// What a record adds to the number of its slot.
pub(super) fn counts_for(record: &TimerRecord) -> i32 {
    if record.deletes() { -1 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn what_is_far_away_rolls_as_in_java() {
        let window = roll_window(172_800);
        assert_eq!(slot_of(1000 + 47 * HOUR, 1000, window, 1000), (1000 + 47 * HOUR, false));
        assert_eq!(slot_of(48 * HOUR - 1, 0, window, 1000), (48 * HOUR - 1, false));
        // 48 to 64 hours: after a day; beyond: after two.
        assert_eq!(slot_of(48 * HOUR, 0, window, 1000), (24 * HOUR, true));
        assert_eq!(slot_of(64 * HOUR - 1, 0, window, 1000), (24 * HOUR, true));
        assert_eq!(slot_of(64 * HOUR, 0, window, 1000), (48 * HOUR, true));
        assert_eq!(slot_of(1 << 50, 0, window, 100), (48 * HOUR / 10, true));
    }

    #[test]
    fn windows_have_bounds() {
        assert_eq!([1, 2, 604_740, 604_741, -5].map(roll_window), [604_740, 2, 604_740, 604_740, 604_740]);
    }
}
