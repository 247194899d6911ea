//! The timer on a broker that does not deliver: it keeps up with the one that does, so that it can go on for it at any time.
//!
//! It takes the messages that the other has taken, up to the same offset of the topic, and lets go of the slots that the other
//! has delivered. What the other delivered after it was last asked is found in the log, which holds its deliveries as well.

use store::record::RecordView;
use store::timer::{Since, Taken, slot_of};

use super::property;
use super::repeated::Repeated;
use super::saver::Followed;
use super::service::topic_hash;
use super::worker::{BATCH, Worker};

impl Worker<'_> {
    /// Keeps up with the broker that delivers: whether there was something to take.
    pub(super) fn follow(&mut self, master: &Followed) -> bool {
        let timer = self.timer;
        let wheel = &timer.files.wheel;
        let read_time = wheel.floor(master.read_time);
        let mut from = self.progress.read_time.min(read_time);
        self.run = None;
        (self.progress.read_time, self.progress.delivered) = (read_time, 0);
        (self.progress.followed, self.progress.phys) = (Some(*master), master.phys);
        while let Some(slot) = wheel.next(from).filter(|slot| slot.time < read_time) {
            wheel.done(slot.time);
            from = slot.time;
        }
        let begin = self.progress.queue_offset.max(timer.queue.min_offset());
        let end = master.queue_offset.min(timer.queue.max_offset());
        self.progress.queue_offset = begin;
        if begin >= end || self.is_stopped() {
            self.progress.caught_up |= begin >= end && self.logged.is_empty();
            return false;
        }
        let Some(entries) = timer.queue.entries(begin) else {
            tracing::error!(offset = begin, "the timer's queue has no entry where it should: passed over");
            self.progress.queue_offset += 1;
            return true;
        };
        for entry in entries.take(BATCH).take_while(|entry| entry.offset < end) {
            if entry.is_written() && !entry.unit.is_filler() && !self.take_after(entry.unit.phys) {
                return false;
            }
            self.progress.queue_offset = entry.next_offset();
        }
        self.progress.queue_offset > begin
    }

    /// Takes a message that the other broker has taken, unless that has delivered it as well; false: not now.
    fn take_after(&mut self, phys: i64) -> bool {
        let timer = self.timer;
        let record = u64::try_from(phys).ok().and_then(|phys| timer.parts.store.record_at(phys));
        let Some(view) = record.as_ref().and_then(|record| RecordView::parse(record).ok()) else { return true };
        let properties = view.properties();
        let due = properties.get(property::OUT_MS).and_then(|due| due.parse::<i64>().ok()).filter(|due| *due >= 0);
        let (Some(due), Some(topic)) = (due, properties.get(property::REAL_TOPIC)) else { return true };
        let wheel = &timer.files.wheel;
        // The other took it in the tick in which it was stored, or soon after: with that it rolls when the other's does.
        let write_time = wheel.floor(view.store_timestamp());
        let (time, _) = slot_of(due, write_time, timer.window, wheel.precision());
        if wheel.floor(time) < self.progress.read_time || self.logged.remove(&phys) {
            return true;
        }
        let message = Taken {
            due,
            write_time,
            phys,
            size: i32::try_from(view.size()).unwrap_or(i32::MAX),
            deletes: properties.get_bytes(property::DELETE_KEY).is_some(),
            topic_hash: topic_hash(topic),
        };
        let taken = timer.files.take(&message, timer.window);
        if let Err(error) = &taken {
            tracing::error!(%error, "the timer's files cannot be written, trying again");
        }
        taken.is_ok()
    }

    /// Begins to deliver where the other broker has come to, but for what it delivered since it was asked.
    pub(super) fn take_up(&mut self) {
        let Some(master) = self.progress.followed.take() else { return };
        let store = &self.timer.parts.store;
        let since = Since { offset: Some(master.phys), time: None };
        self.repeated = Repeated::scan(store, since, master.phys.max(store.log_range().start), store.wrote().get());
        self.progress.caught_up = false;
        tracing::info!(
            queue_offset = self.progress.queue_offset,
            read_time = self.progress.read_time,
            "the timer begins to deliver"
        );
    }
}
