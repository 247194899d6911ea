//! One compaction of a queue: of each key only the last message stays.
//!
//! All parts but the last are read twice: once for the last offset of each key, from the parts that the compaction before
//! has not seen; once to copy what stays. A message stays when its key has none later and it has a body; one behind
//! the last offset that was looked at stays in any case. A message without body, which deletes its key, goes when it has
//! done so.

use std::sync::Arc;

use super::appender::{Appender, Place};
use super::log::{CompactionLog, key};
use super::offset_map::OffsetMap;
use super::part::Part;
use super::position::Positions;
use super::replace::{self, Plan};
use crate::error::StoreError;
use crate::failpoint::{self, Point};
use crate::queue::unit::Entry;
use crate::record::RecordView;
use crate::segment::SegmentSlice;

/// What a compaction came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// Messages that were read.
    pub(crate) read: usize,
    /// Messages that stay.
    pub(crate) kept: usize,
}

/// How a compaction is done.
pub(super) struct Job<'a> {
    /// Up to where queues have been compacted.
    pub(super) positions: &'a Positions,
    /// Bytes that the map of keys may take.
    pub(super) map_bytes: usize,
    /// Whether to give up: the store closes.
    pub(super) stopped: &'a dyn Fn() -> bool,
}

impl Job<'_> {
    /// Compacts a queue when there is something to do, or finishes what the last call could not.
    ///
    /// # Errors
    /// The disk, or a record that cannot be read; what can be read stays as it is.
    pub(super) fn run(&self, log: &CompactionLog) -> Result<Option<Compacted>, StoreError> {
        let mut pending = log.pending();
        if let Some(plan) = pending.take() {
            self.carry_out(log, plan, &mut pending)?;
        }
        let parts = log.parts();
        let Some((_, old)) = parts.split_last() else { return Ok(None) };
        let position = self.positions.get(log.topic(), log.id());
        let fresh: Vec<_> = old.iter().filter(|part| part.last_offset().is_some_and(|last| last > position)).collect();
        if fresh.is_empty() || self.ends(log) {
            return Ok(None);
        }
        let point =
            |point| failpoint::hit(point).map_err(|source| StoreError::Io { path: log.dirs.log.clone(), source });
        point(Point::CompactMap)?;
        let map = self.map(log, &fresh, position)?;
        failpoint::pass(Point::CompactMapped);
        let mut done = Compacted::default();
        for part in old {
            self.each(log, part, |_, record| {
                done.read += 1;
                done.kept += usize::from(stays(record, &map));
                Ok(())
            })?;
        }
        if self.ends(log) {
            return Ok(None);
        }
        if done.kept == done.read {
            point(Point::CompactNothing)?;
            self.positions.set(log.topic(), log.id(), map.last())?;
            return Ok(Some(done));
        }
        match self.stage(log, old, &map) {
            Ok(Some(plan)) => self.carry_out(log, plan, &mut pending).map(|()| Some(done)),
            stopped => {
                // What cannot be removed now the next compaction removes, or the next start.
                replace::clear_if_possible(&log.dirs);
                stopped.map(|_| None)
            }
        }
    }

    /// Whether to give up.
    fn ends(&self, log: &CompactionLog) -> bool {
        (self.stopped)() || log.is_deleted()
    }

    /// The last offset of each key; as far as memory goes: the next compaction goes on there.
    fn map(&self, log: &CompactionLog, fresh: &[&Arc<Part>], position: i64) -> Result<OffsetMap, StoreError> {
        let units = fresh.iter().map(|part| part.units()).sum();
        let mut map = OffsetMap::new(units, self.map_bytes);
        let mut full = false;
        for part in fresh {
            self.each(log, part, |_, record| {
                if record.queue_offset() > position && !full {
                    full = !map.put(key(record).unwrap_or_default().as_bytes(), record.queue_offset());
                }
                Ok(())
            })?;
        }
        if full {
            tracing::info!(
                topic = log.topic(),
                last = map.last(),
                "the map of keys is full: more in the next compaction"
            );
        }
        Ok(map)
    }

    /// Writes what stays into new files, which are on the device then. `None` when it is to give up.
    fn stage(&self, log: &CompactionLog, old: &[Arc<Part>], map: &OffsetMap) -> Result<Option<Plan>, StoreError> {
        // Files beside a plan that was not removed would be taken for the ones that it means.
        replace::clear(&log.dirs)?;
        let point =
            |point| failpoint::hit(point).map_err(|source| StoreError::Io { path: log.dirs.log.clone(), source });
        let mut made: Vec<Arc<Part>> = Vec::new();
        let mut appender = Appender::new(log.dirs.staging(), log.sizes, None);
        for part in old {
            self.each(log, part, |unit, record| {
                if stays(record, map) {
                    point(Point::CompactStage)?;
                    if let Place::New(part) = appender.append(record, unit.unit.tags_code)? {
                        made.push(part);
                    }
                }
                Ok(())
            })?;
        }
        if self.ends(log) {
            return Ok(None);
        }
        appender.close()?;
        made.iter().try_for_each(|part| part.flush())?;
        point(Point::CompactStaged)?;
        let bases = |parts: &[Arc<Part>]| parts.iter().map(|part| part.base()).collect::<Vec<_>>();
        Ok(Some(Plan { old: bases(old), new: bases(&made), position: map.last() }))
    }

    /// Puts new files in the place of the old ones. On an error the plan is `pending`: each step may be done again.
    fn carry_out(&self, log: &CompactionLog, plan: Plan, pending: &mut Option<Plan>) -> Result<(), StoreError> {
        let open = |base: &u64| Part::open(&log.dirs, *base, log.sizes, true);
        let work = || {
            plan.write(&log.dirs)?;
            plan.apply(&log.dirs)?;
            failpoint::hit(Point::CompactOpen)
                .map_err(|source| StoreError::Io { path: log.dirs.log.clone(), source })?;
            log.replace(&plan.old, plan.new.iter().map(open).collect::<Result<Vec<_>, _>>()?);
            failpoint::pass(Point::CompactSwap);
            self.positions.set(log.topic(), log.id(), plan.position)?;
            failpoint::pass(Point::CompactNoted);
            replace::clear(&log.dirs)
        };
        work().inspect_err(|_| *pending = Some(plan.clone()))
    }

    /// Visits the records of a part, until it is to give up.
    fn each(
        &self,
        log: &CompactionLog,
        part: &Part,
        mut visit: impl FnMut(&Entry, &RecordView<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for index in 0..part.units() {
            if index % 1024 == 0 && self.ends(log) {
                return Ok(());
            }
            let Some(unit) = part.unit(index) else { return Ok(()) };
            let bytes = part.slice(&unit);
            match bytes.as_ref().and_then(|bytes: &SegmentSlice| RecordView::parse(bytes).ok()) {
                Some(record) if record.queue_offset() == unit.offset => visit(&unit, &record)?,
                _ => return Err(part.damaged(&unit)),
            }
        }
        Ok(())
    }
}

/// Whether a message stays.
fn stays(record: &RecordView<'_>, map: &OffsetMap) -> bool {
    let offset = record.queue_offset();
    if offset > map.last() {
        return true;
    }
    let replaced = key(record).is_none_or(|key| map.get(key.as_bytes()).is_some_and(|last| offset < last));
    !replaced && !record.body().is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Scratch, record};
    use super::*;

    /// Key and body of each message, by offset.
    fn content(log: &CompactionLog) -> Vec<(i64, String, String)> {
        let mut all = Vec::new();
        for part in log.parts().iter() {
            for unit in (0..part.units()).map(|index| part.unit(index).unwrap()) {
                let bytes = part.slice(&unit).unwrap();
                let record = RecordView::parse(&bytes).unwrap();
                assert_eq!((record.queue_offset(), record.phys_offset()), (unit.offset, unit.unit.phys));
                assert!(record.body_crc_fits());
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                all.push((unit.offset, record.keys().unwrap().to_owned(), text(record.body())));
            }
        }
        all
    }

    fn run(scratch: &Scratch, log: &CompactionLog, map_bytes: usize) -> Option<Compacted> {
        let positions = Positions::load(scratch.dir.path());
        Job { positions: &positions, map_bytes, stopped: &|| false }.run(log).unwrap()
    }

    fn put(log: &CompactionLog, offset: i64, key: &str, body: &str) {
        log.put(&RecordView::parse(&record("T", key, offset, body.as_bytes())).unwrap(), offset).unwrap();
    }

    fn kept(log: &CompactionLog) -> Vec<(i64, String)> {
        content(log).into_iter().map(|(offset, key, _)| (offset, key)).collect()
    }

    fn expect(pairs: &[(i64, &str)]) -> Vec<(i64, String)> {
        pairs.iter().map(|(offset, key)| (*offset, (*key).to_owned())).collect()
    }

    #[test]
    fn the_last_value_of_each_key_stays() {
        let scratch = Scratch::new();
        let log = scratch.log("T", 0);
        assert_eq!(run(&scratch, &log, 4096), None);
        // Four a file: a b a c | b a d d | e
        for (offset, key) in (0..).zip("abacbadd".chars()) {
            put(&log, offset, &key.to_string(), &offset.to_string());
        }
        assert_eq!(run(&scratch, &log, 4096).map(|done| (done.read, done.kept)), Some((4, 3)));
        assert_eq!(kept(&log)[..3], expect(&[(1, "b"), (2, "a"), (3, "c")]));
        put(&log, 8, "e", "8");
        assert_eq!(run(&scratch, &log, 4096).map(|done| (done.read, done.kept)), Some((7, 4)));
        assert_eq!(kept(&log), expect(&[(3, "c"), (4, "b"), (5, "a"), (7, "d"), (8, "e")]));
        assert_eq!(run(&scratch, &log, 4096), None, "nothing new");
        let parts: Vec<u64> = log.parts().iter().map(|part| part.base()).collect();
        assert_eq!(parts, [0, 2 * scratch.sizes.log as u64]);
        assert!(!log.dirs.staging().log.exists() && !log.dirs.staging().cq.exists());
        // The units keep their tags codes.
        assert_eq!(log.parts()[0].unit(0).unwrap().unit.tags_code, 3);
        let before = content(&log);
        put(&log, 9, "e", "9");
        drop(log);
        let log = scratch.log("T", 0);
        assert_eq!(content(&log)[..5], before);
        assert_eq!(log.next_offset(), 10);
    }

    #[test]
    fn a_message_without_body_deletes_its_key_and_goes() {
        let scratch = Scratch::new();
        let log = scratch.log("T", 0);
        for (offset, (key, body)) in (0..).zip([("a", "1"), ("b", "1"), ("a", ""), ("c", "1")]) {
            put(&log, offset, key, body);
        }
        put(&log, 4, "x", "");
        run(&scratch, &log, 4096);
        assert_eq!(kept(&log), expect(&[(1, "b"), (3, "c"), (4, "x")]));
        // Everything goes.
        for offset in 5..8 {
            put(&log, offset, ["b", "c", "b"][offset as usize - 5], "");
        }
        put(&log, 8, "d", "");
        assert_eq!(run(&scratch, &log, 4096).map(|done| done.kept), Some(0));
        assert_eq!(kept(&log), expect(&[(8, "d")]));
        drop(log);
        let log = scratch.log("T", 0);
        assert_eq!(kept(&log), expect(&[(8, "d")]));
        put(&log, 9, "e", "1");
        assert_eq!(log.parts().len(), 1);
    }

    #[test]
    fn nothing_to_drop_is_only_noted() {
        let scratch = Scratch::new();
        let log = scratch.log("T", 0);
        (0..5).for_each(|offset| put(&log, offset, &offset.to_string(), "x"));
        let before = log.parts();
        assert_eq!(run(&scratch, &log, 4096), Some(Compacted { read: 4, kept: 4 }));
        assert!(Arc::ptr_eq(&before[0], &log.parts()[0]));
        assert_eq!(run(&scratch, &log, 4096), None);
    }

    #[test]
    fn more_keys_than_memory_take_several_compactions() {
        let scratch = Scratch::with_records(40);
        let log = scratch.log("T", 0);
        // The map takes no fewer than 88.
        for offset in 0..400 {
            put(&log, offset, &format!("k{}", offset % 180), &offset.to_string());
        }
        put(&log, 400, "end", "x");
        let mut runs = 0;
        while run(&scratch, &log, 0).is_some() {
            runs += 1;
        }
        assert!(runs > 2, "{runs}");
        let last: Vec<i64> = content(&log).iter().map(|(offset, ..)| *offset).collect();
        let expected: Vec<i64> = (220..401).collect();
        assert_eq!(last, expected);
    }

    #[test]
    fn a_store_that_closes_leaves_everything_as_it_was() {
        let scratch = Scratch::new();
        let log = scratch.log("T", 0);
        (0..9).for_each(|offset| put(&log, offset, "a", "x"));
        let positions = Positions::load(scratch.dir.path());
        for after in 0..40 {
            let left = std::cell::Cell::new(after);
            let stopped = || left.replace(left.get() - 1) <= 0;
            let job = Job { positions: &positions, map_bytes: 4096, stopped: &stopped };
            job.run(&log).unwrap();
            if content(&log).len() != 9 {
                assert!(after > 3);
                return;
            }
            assert_eq!(positions.get("T", 0), -1, "{after}");
        }
        panic!("never done");
    }

    #[test]
    fn readers_keep_what_they_have() {
        let scratch = Scratch::new();
        let log = scratch.log("T", 0);
        (0..9).for_each(|offset| put(&log, offset, "a", &offset.to_string()));
        let parts = log.parts();
        let first = parts[0].slice(&parts[0].unit(0).unwrap()).unwrap();
        drop(parts);
        run(&scratch, &log, 4096);
        assert_eq!(RecordView::parse(&first).unwrap().body(), b"0");
        assert_eq!(kept(&log), expect(&[(7, "a"), (8, "a")]));
    }
}
