//! The wheel: for every tick of two weeks the chain of timer records that is due then.
//!
//! Layout, big-endian: [`SLOTS`] slots of 32 bytes: time divided by the precision (8), position of the chain's first record
//! (8), of its last (8), number of messages (4), 0 (4). A time's slot is its tick modulo the number of slots. A slot that
//! names another time, or none, is empty.
//!
//! Invariant: of a time that has not been delivered the slot's chain is whole; what else a slot says is of the past. Which
//! slots those are is kept in memory ([`Slots`]).
//! Threads: one changes slots; any number ask for the number of messages. A slot's time is written last.
//! Crash: a slot may be behind the log, never ahead of what [`super::recover`] checks.
//!
//! The file is sparse: blocks are reserved a megabyte at a time before something is written there.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rustix::fs::{SeekFrom, seek};

use super::slots::Slots;
use crate::error::StoreError;
use crate::segment::Cells;

/// Slots of a wheel: twice seven days of seconds, whatever the precision is.
pub const SLOTS: usize = 2 * 7 * 86_400;
/// Bytes of a slot.
const SLOT_LEN: usize = 32;
/// Bytes of the file.
pub const WHEEL_LEN: usize = SLOTS * SLOT_LEN;
/// Blocks are reserved, and pages written back, in pieces of so many bytes.
const PIECE: usize = 1 << 20;

/// One tick with messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Milliseconds since the epoch, a multiple of the precision.
    pub time: i64,
    /// Position of the first record of the chain.
    pub first: i64,
    /// Position of the last.
    pub last: i64,
    /// Messages; one less for each that recalls another.
    pub number: i32,
}

/// See the module's text.
#[derive(Debug)]
pub struct Wheel {
    cells: Cells,
    precision: i64,
    live: Slots,
    /// Sum of the numbers of live slots.
    total: AtomicI64,
    /// One bit a piece.
    reserved: AtomicU64,
    dirty: AtomicU64,
}

impl Wheel {
    /// Opens or makes the file. A file of another length is replaced by an empty one. Also returns whether the file was
    /// there. No slot is live yet.
    ///
    /// # Errors
    /// The disk.
    pub fn open(path: &Path, precision: i64) -> Result<(Wheel, bool), StoreError> {
        let error = |source| StoreError::Io { path: path.to_owned(), source };
        let found = std::fs::metadata(path).map(|meta| meta.len()).ok();
        if found.is_some_and(|len| len != WHEEL_LEN as u64) {
            tracing::warn!(path = %path.display(), "the timer wheel has another length: it is made anew");
            std::fs::remove_file(path).map_err(error)?;
        }
        let there = found == Some(WHEEL_LEN as u64);
        let cells = match there {
            true => Cells::open(path, WHEEL_LEN),
            false => Cells::create_reserved(path, WHEEL_LEN, 0),
        };
        let cells = cells.map_err(error)?;
        // Slots that follow one another are in use at the same time.
        cells.advise_read_ahead(true);
        let wheel = Wheel {
            cells,
            precision: precision.max(1),
            live: Slots::new(SLOTS),
            total: AtomicI64::new(0),
            reserved: AtomicU64::new(0),
            dirty: AtomicU64::new(0),
        };
        Ok((wheel, there))
    }

    /// Milliseconds of a tick.
    pub fn precision(&self) -> i64 {
        self.precision
    }

    /// The tick that a time lies in, as its first millisecond.
    pub fn floor(&self, time: i64) -> i64 {
        time - time.rem_euclid(self.precision)
    }

    /// All slots that say a time, live or not, from the parts of the file that hold something.
    pub fn written(&self, mut each: impl FnMut(Slot)) -> Result<(), StoreError> {
        let error = |source| StoreError::Io { path: self.cells.path().to_owned(), source };
        let file = File::open(self.cells.path()).map_err(error)?;
        let mut at = 0;
        while at < WHEEL_LEN as u64 {
            // A file system without holes says that all of it is data.
            let Ok(data) = seek(&file, SeekFrom::Data(at)) else { break };
            let hole = seek(&file, SeekFrom::Hole(data)).unwrap_or(WHEEL_LEN as u64);
            let range = data as usize / SLOT_LEN..(hole as usize).div_ceil(SLOT_LEN).min(SLOTS);
            for slot in range.filter_map(|index| self.read(index)) {
                each(slot);
            }
            at = hole.max(at + 1);
        }
        Ok(())
    }

    /// Makes exactly these slots live, which the file must say already; for the start.
    pub(super) fn set_live(&self, slots: &[Slot]) {
        let mut total = 0;
        for slot in slots {
            self.live.set(self.index(slot.time));
            total += i64::from(slot.number);
        }
        self.total.store(total, Ordering::Release);
    }

    /// The live slot of a time.
    pub fn slot(&self, time: i64) -> Option<Slot> {
        let index = self.index(time);
        if !self.live.has(index) {
            return None;
        }
        self.read(index).filter(|slot| slot.time == self.floor(time))
    }

    /// Messages that are due at a time's tick.
    pub fn number(&self, time: i64) -> i32 {
        self.slot(time).map_or(0, |slot| slot.number)
    }

    /// Messages of all live slots.
    pub fn total(&self) -> i64 {
        self.total.load(Ordering::Acquire)
    }

    /// The earliest live slot, when none is before `from`: a time at or before all of them.
    pub fn next(&self, from: i64) -> Option<Slot> {
        let first = self.read(self.live.next(self.index(from))?)?;
        let span = SLOTS as i64 * self.precision;
        if self.floor(from) <= first.time && first.time - self.floor(from) < span {
            return Some(first);
        }
        // The clock was set by weeks: the order in the file is not that of time.
        self.live_slots().min_by_key(|slot| slot.time)
    }

    /// All live slots, in no order.
    pub fn live_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.live.all().filter_map(|index| self.read(index))
    }

    /// The time at which a message that is due at `time` can be put: that tick, or a later one when its slot is taken by
    /// another time, and reserves room for it.
    ///
    /// # Errors
    /// The disk is full.
    pub fn prepare(&self, time: i64) -> Result<i64, StoreError> {
        let mut time = self.floor(time);
        for _ in 0..SLOTS {
            let index = self.index(time);
            if !self.live.has(index) || self.slot(time).is_some() {
                self.reserve(index)?;
                return Ok(time);
            }
            time += self.precision;
        }
        let source = std::io::Error::other("every slot of the timer wheel is taken");
        Err(StoreError::Io { path: self.cells.path().to_owned(), source })
    }

    fn reserve(&self, index: usize) -> Result<(), StoreError> {
        let piece = index * SLOT_LEN / PIECE;
        if self.reserved.load(Ordering::Relaxed) >> piece & 1 == 0 {
            self.cells
                .reserve(piece * PIECE..(piece + 1) * PIECE)
                .map_err(|source| StoreError::Io { path: self.cells.path().to_owned(), source })?;
            self.reserved.fetch_or(1 << piece, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Adds the record at a position to the chain of a time that [`Wheel::prepare`] gave. `number`: what it counts for.
    pub fn add(&self, time: i64, position: i64, number: i32) {
        let slot = match self.slot(time) {
            Some(slot) => Slot { last: position, number: slot.number.saturating_add(number), ..slot },
            None => Slot { time: self.floor(time), first: position, last: position, number },
        };
        self.write(&slot);
        self.live.set(self.index(time));
        self.total.fetch_add(i64::from(number), Ordering::AcqRel);
    }

    /// Says that a time's messages are delivered. The file keeps the slot as it is.
    pub fn done(&self, time: i64) {
        if let Some(slot) = self.slot(time) {
            self.live.clear(self.index(time));
            self.total.fetch_sub(i64::from(slot.number), Ordering::AcqRel);
        }
    }

    /// Takes a time that is not live out of the file: it lies in the future again, the clock was set back.
    pub fn forget(&self, time: i64) -> Result<(), StoreError> {
        let index = self.index(time);
        if !self.live.has(index) && self.read(index).is_some_and(|slot| slot.time == self.floor(time)) {
            self.reserve(index)?;
            self.write_words(index, [0; 4]);
        }
        Ok(())
    }

    /// Empties the slots that are given, and makes none live.
    pub(super) fn empty(&self, times: impl Iterator<Item = i64>) -> Result<(), StoreError> {
        for index in self.live.all().collect::<Vec<_>>() {
            self.live.clear(index);
        }
        self.total.store(0, Ordering::Release);
        times.into_iter().try_for_each(|time| self.forget(time))
    }

    fn index(&self, time: i64) -> usize {
        (time.div_euclid(self.precision)).rem_euclid(SLOTS as i64) as usize
    }

    /// What the file says at an index, when it names a time that belongs there.
    fn read(&self, index: usize) -> Option<Slot> {
        let at = index * SLOT_LEN;
        let tick = self.cells.load_u64(at) as i64;
        if tick <= 0 || (tick % SLOTS as i64) as usize != index {
            return None;
        }
        Some(Slot {
            time: tick.checked_mul(self.precision)?,
            first: self.cells.load_u64(at + 8) as i64,
            last: self.cells.load_u64(at + 16) as i64,
            number: self.cells.load_u32(at + 24) as i32,
        })
    }

    fn write(&self, slot: &Slot) {
        let tick = slot.time.div_euclid(self.precision);
        let number = u64::from(slot.number as u32) << 32;
        self.write_words(self.index(slot.time), [tick as u64, slot.first as u64, slot.last as u64, number]);
    }

    /// The time last: until then the slot is another time's, and nobody looks at what else it says.
    fn write_words(&self, index: usize, [tick, first, last, number]: [u64; 4]) {
        let at = index * SLOT_LEN;
        self.cells.store_u64(at + 8, first);
        self.cells.store_u64(at + 16, last);
        self.cells.store_u64(at + 24, number);
        if self.cells.load_u64(at) != tick {
            self.cells.store_u64(at, tick);
        }
        self.dirty.fetch_or(1 << (at / PIECE), Ordering::Release);
    }

    /// Puts what was changed on disk.
    ///
    /// # Errors
    /// The device failed; what was changed is tried again the next time.
    pub fn flush(&self) -> Result<(), StoreError> {
        let dirty = self.dirty.swap(0, Ordering::AcqRel);
        for piece in (0..64).filter(|piece| dirty >> piece & 1 == 1) {
            if let Err(source) = self.cells.flush(piece * PIECE..(piece + 1) * PIECE) {
                self.dirty.fetch_or(dirty, Ordering::Release);
                return Err(StoreError::Io { path: self.cells.path().to_owned(), source });
            }
        }
        Ok(())
    }

    /// Copies bytes of the file out.
    pub(super) fn copy(&self, at: usize, out: &mut [u8]) {
        self.cells.read(at, out);
    }

    /// Where the file is.
    pub(super) fn path(&self) -> &Path {
        self.cells.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    fn wheel(dir: &tempfile::TempDir) -> Wheel {
        Wheel::open(&dir.path().join("timerwheel"), 1000).unwrap().0
    }

    #[test]
    fn slots_lie_where_java_looks() {
        let dir = tempfile::tempdir().unwrap();
        let wheel = wheel(&dir);
        let time = 1_795_972_475_000;
        assert_eq!(wheel.prepare(time + 999).unwrap(), time);
        wheel.add(time, 52, 1);
        wheel.add(time, 104, 1);
        wheel.add(time, 156, -1);
        assert_eq!(wheel.slot(time + 5), Some(Slot { time, first: 52, last: 156, number: 1 }));
        assert_eq!((wheel.number(time), wheel.number(time + 1000), wheel.total()), (1, 0, 1));
        wheel.flush().unwrap();
        let file = std::fs::read(dir.path().join("timerwheel")).unwrap();
        assert_eq!(file.len(), 38_707_200);
        let at = (1_795_972_475 % 1_209_600) * 32;
        let words: Vec<u64> =
            file[at..at + 32].as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word)).collect();
        assert_eq!(words, [1_795_972_475, 52, 156, 1 << 32]);
        assert_eq!(
            file.iter().filter(|byte| **byte != 0).count(),
            file[at..at + 32].iter().filter(|b| **b != 0).count()
        );
    }

    #[test]
    fn done_slots_stay_in_the_file_and_are_empty() {
        let dir = tempfile::tempdir().unwrap();
        let wheel = wheel(&dir);
        for time in [5000, 7000, 6000] {
            let time = wheel.prepare(time).unwrap();
            wheel.add(time, time, 1);
        }
        assert_eq!(wheel.next(1000).unwrap().time, 5000);
        wheel.done(5000);
        wheel.done(5000);
        assert_eq!((wheel.next(1000).unwrap().time, wheel.total(), wheel.slot(5000)), (6000, 2, None));
        let mut written = Vec::new();
        wheel.written(|slot| written.push(slot.time)).unwrap();
        assert_eq!(written, [5000, 6000, 7000]);
        wheel.forget(5000).unwrap();
        wheel.forget(6000).unwrap();
        written.clear();
        wheel.written(|slot| written.push(slot.time)).unwrap();
        assert_eq!(written, [6000, 7000]);
        // A new message of that tick begins a new chain.
        wheel.prepare(5000).unwrap();
        wheel.add(5000, 99, 1);
        assert_eq!(wheel.slot(5000), Some(Slot { time: 5000, first: 99, last: 99, number: 1 }));
    }

    #[test]
    fn a_taken_slot_is_passed_by() {
        let dir = tempfile::tempdir().unwrap();
        let wheel = wheel(&dir);
        wheel.prepare(5000).unwrap();
        wheel.add(5000, 0, 1);
        let round = 14 * DAY;
        assert_eq!(wheel.prepare(5000 + round).unwrap(), 6000 + round);
        wheel.add(6000 + round, 52, 1);
        assert_eq!(wheel.next(5000).unwrap().time, 5000);
        wheel.done(5000);
        assert_eq!(wheel.next(6000 + round).unwrap().time, 6000 + round);
        assert_eq!(wheel.next(1000).unwrap().time, 6000 + round);
        assert_eq!(wheel.prepare(5000 + round).unwrap(), 5000 + round);
    }

    #[test]
    fn another_length_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("timerwheel");
        std::fs::write(&path, "short").unwrap();
        assert!(!Wheel::open(&path, 1000).unwrap().1);
        assert!(Wheel::open(&path, 1000).unwrap().1);
    }
}
