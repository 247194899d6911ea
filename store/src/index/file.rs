//! One index file: a hash table in a file of fixed size.
//!
//! Layout, big-endian:
//!
//! ```text
//!  0   8   store timestamp of the first entry, ms      24  8   physical offset of the last entry
//!  8   8   store timestamp of the last entry, ms       32  4   slots in use
//! 16   8   physical offset of the first entry          36  4   entries + 1: entry 0 is never used
//! 40   slots x 4     the newest entry of the chain of hash % slots, 0 when empty
//! then capacity x 20 entries: key hash (4), physical offset (8), seconds since the first entry (4), the next older
//!                    entry of the chain (4)
//! ```
//!
//! Invariant: an entry never changes; the chain from a slot leads to ever smaller entry numbers, so a walk always ends,
//! in a damaged file as well.
//! Threads: one writer ([`super::IndexWriter`]), any number of readers. The slot is written after its entry, with a
//! fence between.
//! Crash: the slots may be ahead of the header or behind it: `IndexFile::verify` sets them right.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering, fence};

use crate::failpoint::{self, Event, Point};
use crate::segment::{Cells, ask_for, remove};

const HEADER_LEN: usize = 40;
const SLOT_LEN: usize = 4;
const ENTRY_LEN: usize = 20;
const BEGIN_TIMESTAMP: usize = 0;
const END_TIMESTAMP: usize = 8;
const BEGIN_PHYS: usize = 16;
const END_PHYS: usize = 24;
const SLOT_COUNT: usize = 32;
const ENTRY_COUNT: usize = 36;
/// Files of so many entries are made ahead.
const LARGE: u32 = 100_000;
/// Space is reserved this far ahead of the entries.
const RESERVE: usize = 256 << 10;

/// Sizes of an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// `maxHashSlotNum`.
    pub slots: u32,
    /// `maxIndexNum`: entries, of which the first is never used.
    pub capacity: u32,
}

impl Geometry {
    /// For configured numbers; what is not positive becomes 1.
    pub fn new(max_hash_slot_num: i32, max_index_num: i32) -> Geometry {
        let positive = |n: i32| u32::try_from(n).unwrap_or(0).max(1);
        Geometry { slots: positive(max_hash_slot_num), capacity: positive(max_index_num) }
    }

    fn entries_at(self) -> usize {
        HEADER_LEN + self.slots as usize * SLOT_LEN
    }

    /// Length of a file in bytes.
    pub fn file_len(self) -> usize {
        self.entries_at() + self.capacity as usize * ENTRY_LEN
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct IndexFile {
    path: PathBuf,
    cells: Cells,
    geometry: Geometry,
    begin_timestamp: AtomicI64,
    end_timestamp: AtomicI64,
    begin_phys: AtomicI64,
    end_phys: AtomicI64,
    slot_count: AtomicU32,
    count: AtomicU32,
    reserved: AtomicUsize,
}

impl IndexFile {
    /// Makes an empty file that follows another: its header begins with what the other ended with.
    pub(super) fn create(path: &Path, geometry: Geometry, before: Option<&IndexFile>) -> io::Result<IndexFile> {
        failpoint::hit(Point::IndexCreate)?;
        let mut file = IndexFile::make(path, geometry)?;
        file.place(path, before)?;
        Ok(file)
    }

    /// Makes an empty file that gets its name later.
    pub(super) fn make(path: &Path, geometry: Geometry) -> io::Result<IndexFile> {
        let reserved = geometry.file_len().min(geometry.entries_at() + RESERVE);
        let cells = Cells::create_reserved(path, geometry.file_len(), reserved)?;
        let file = IndexFile::over(path, cells, geometry);
        file.reserved.store(reserved, Ordering::Relaxed);
        Ok(file)
    }

    /// Makes the pages present that entries go to in no order.
    pub(super) fn prefault(&self) {
        self.cells.prefault(0..self.geometry.entries_at() + RESERVE);
    }

    /// Gives the file its name and its place behind another.
    pub(super) fn place(&mut self, path: &Path, before: Option<&IndexFile>) -> io::Result<()> {
        if self.path != path {
            failpoint::hit(Point::IndexPlace)?;
            fs::rename(&self.path, path)?;
            failpoint::tell(Event::Renamed(&self.path, path));
            path.clone_into(&mut self.path);
        }
        let Some(before) = before else { return Ok(()) };
        let (phys, timestamp) = (before.end_phys(), before.end_timestamp());
        if phys > 0 {
            self.set(&self.begin_phys, BEGIN_PHYS, phys);
            self.set(&self.end_phys, END_PHYS, phys);
        }
        if timestamp > 0 {
            self.set(&self.begin_timestamp, BEGIN_TIMESTAMP, timestamp);
            self.set(&self.end_timestamp, END_TIMESTAMP, timestamp);
        }
        Ok(())
    }

    /// Opens a file.
    ///
    /// # Errors
    /// No such file, or another length than the geometry says.
    pub fn open(path: &Path, geometry: Geometry) -> io::Result<IndexFile> {
        Ok(IndexFile::over(path, Cells::open(path, geometry.file_len())?, geometry))
    }

    /// Whether the header is true of the entries, and the file follows the one before.
    ///
    /// # Errors
    /// It is not: the file cannot be trusted.
    pub(super) fn check(&self, before: Option<&IndexFile>) -> io::Result<()> {
        let bad = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
        let (begin, end) = (self.begin_phys(), self.end_phys());
        let (from, to) = (self.begin_timestamp(), self.end_timestamp());
        let raw = self.cells.load_u32(ENTRY_COUNT);
        if raw > self.geometry.capacity.max(1) || begin < 0 || end < begin || from < 0 || to < from {
            return bad("impossible values in the header");
        }
        if before.is_some_and(|before| end < before.end_phys()) {
            return bad("the file ends before the one in front of it");
        }
        let count = self.count();
        let (Some(first), Some(last)) = (self.entry(1), self.entry(count.saturating_sub(1))) else {
            // Or none yet: then nothing is lost with it.
            return bad("no entries");
        };
        let seconds = (to - from) / 1000;
        if first.1 != begin || last.1 != end || i64::from(last.2) != seconds || self.slot_count() >= count {
            return bad("the header is not that of the entries");
        }
        Ok(())
    }

    /// Goes through the chains: every entry must follow the newest one before it that has its slot, and the records must be
    /// in order. Slots that do not lead to the newest entry are set right, since that follows from the entries: a
    /// process that was killed leaves one, a machine many. Returns how many were.
    ///
    /// # Errors
    /// The entries themselves are not to be believed.
    pub(super) fn verify(&self) -> io::Result<usize> {
        // From front to back, unlike all other access.
        self.cells.advise_read_ahead(true);
        let result = self.verify_entries();
        self.cells.advise_read_ahead(false);
        result
    }

    fn verify_entries(&self) -> io::Result<usize> {
        let mut newest = vec![0; self.geometry.slots as usize];
        let (mut phys, end) = (self.begin_phys(), self.end_phys());
        for number in 1..self.count() {
            let at = self.entry_at(number);
            let (hash, record) = (self.cells.load_u32(at), self.cells.load_u64(at + 4) as i64);
            let slot = &mut newest[(hash % self.geometry.slots) as usize];
            let older = std::mem::replace(slot, number);
            let good = i32::try_from(hash).is_ok() && phys <= record && record <= end;
            if !good || self.cells.load_u32(at + 16) != older {
                let what = format!("entry {number} does not follow from those before it");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            phys = record;
        }
        let mut wrong = 0;
        for (at, number) in (HEADER_LEN..).step_by(SLOT_LEN).zip(newest) {
            if self.cells.load_u32(at) != number {
                self.cells.store_u32(at, number);
                wrong += 1;
            }
        }
        Ok(wrong)
    }

    fn over(path: &Path, cells: Cells, geometry: Geometry) -> IndexFile {
        let long = |at| AtomicI64::new(cells.load_u64(at) as i64);
        let count = cells.load_u32(ENTRY_COUNT);
        let count = if i32::try_from(count).is_ok() { count.clamp(1, geometry.capacity.max(1)) } else { 1 };
        IndexFile {
            path: path.to_owned(),
            begin_timestamp: long(BEGIN_TIMESTAMP),
            end_timestamp: long(END_TIMESTAMP),
            begin_phys: long(BEGIN_PHYS),
            end_phys: long(END_PHYS),
            slot_count: AtomicU32::new(cells.load_u32(SLOT_COUNT)),
            count: AtomicU32::new(count),
            reserved: AtomicUsize::new(0),
            cells,
            geometry,
        }
    }

    fn set(&self, memory: &AtomicI64, at: usize, value: i64) {
        memory.store(value, Ordering::Relaxed);
        self.cells.store_u64(at, value as u64);
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Store timestamp of the first entry in ms.
    pub fn begin_timestamp(&self) -> i64 {
        self.begin_timestamp.load(Ordering::Relaxed)
    }

    /// Store timestamp of the last entry in ms.
    pub fn end_timestamp(&self) -> i64 {
        self.end_timestamp.load(Ordering::Relaxed)
    }

    /// Physical offset of the first entry's record.
    pub fn begin_phys(&self) -> i64 {
        self.begin_phys.load(Ordering::Relaxed)
    }

    /// Physical offset of the last entry's record.
    pub fn end_phys(&self) -> i64 {
        self.end_phys.load(Ordering::Relaxed)
    }

    /// Entries + 1, as the header has it.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Slots in use, as the header has it.
    pub fn slot_count(&self) -> u32 {
        self.slot_count.load(Ordering::Relaxed)
    }

    /// Whether it is time to make the next file, when that takes long.
    pub(super) fn is_nearly_full(&self) -> bool {
        let left = self.geometry.capacity.saturating_sub(self.count.load(Ordering::Relaxed));
        self.geometry.capacity >= LARGE && left < self.geometry.capacity / 4
    }

    /// Whether no entry fits any more.
    pub fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= self.geometry.capacity
    }

    fn slot_at(&self, hash: i32) -> usize {
        HEADER_LEN + (hash as u32 % self.geometry.slots) as usize * SLOT_LEN
    }

    fn entry_at(&self, number: u32) -> usize {
        self.geometry.entries_at() + number as usize * ENTRY_LEN
    }

    /// Asks for the memory of the slot of a key's hash.
    pub(super) fn ask_for(&self, hash: i32) {
        ask_for(self.cells.address(self.slot_at(hash)));
    }

    /// Adds an entry for a key's hash ([`super::KeyHash::index_value`]). False when the file is full.
    ///
    /// # Errors
    /// The disk is full; nothing was added.
    pub(super) fn put(&self, hash: i32, phys: i64, store_timestamp: i64) -> io::Result<bool> {
        let count = self.count.load(Ordering::Relaxed);
        if count >= self.geometry.capacity {
            return Ok(false);
        }
        let (slot_at, entry_at) = (self.slot_at(hash), self.entry_at(count));
        if entry_at + ENTRY_LEN > self.reserved.load(Ordering::Relaxed) {
            self.reserve(entry_at)?;
        }
        let older = match self.cells.load_u32(slot_at) {
            number if number < count => number,
            _ => 0,
        };
        let begin = self.begin_timestamp.load(Ordering::Relaxed);
        let seconds = match begin {
            ..=0 => 0,
            _ => (store_timestamp.saturating_sub(begin) / 1000).clamp(0, i32::MAX.into()) as u32,
        };
        self.cells.store_u32(entry_at, hash as u32);
        self.cells.store_u64(entry_at + 4, phys as u64);
        self.cells.store_u32(entry_at + 12, seconds);
        self.cells.store_u32(entry_at + 16, older);
        failpoint::pass(Point::IndexEntry);
        // A reader that finds the number in the slot finds the entry.
        fence(Ordering::Release);
        self.cells.store_u32(slot_at, count);
        failpoint::pass(Point::IndexSlot);
        if count <= 1 {
            self.set(&self.begin_phys, BEGIN_PHYS, phys);
            self.set(&self.begin_timestamp, BEGIN_TIMESTAMP, store_timestamp);
        }
        if older == 0 {
            let slots = self.slot_count.load(Ordering::Relaxed).wrapping_add(1);
            self.slot_count.store(slots, Ordering::Relaxed);
            self.cells.store_u32(SLOT_COUNT, slots);
        }
        self.cells.store_u32(ENTRY_COUNT, count + 1);
        self.count.store(count + 1, Ordering::Release);
        failpoint::pass(Point::IndexHeader);
        self.set(&self.end_phys, END_PHYS, phys);
        self.set(&self.end_timestamp, END_TIMESTAMP, store_timestamp);
        Ok(true)
    }

    #[cold]
    fn reserve(&self, entry_at: usize) -> io::Result<()> {
        failpoint::hit(Point::IndexReserve)?;
        let from = match self.reserved.load(Ordering::Relaxed) {
            // Not made by this process: the slots may be holes.
            0 => 0,
            _ => entry_at,
        };
        let to = (entry_at + RESERVE).min(self.geometry.file_len());
        self.cells.reserve(from..to)?;
        // Cheaper than a fault for each page, and not in the middle of an entry.
        self.cells.prefault(entry_at..to);
        self.reserved.store(to, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a time range (ms, ends included) touches what the file holds.
    pub fn overlaps(&self, begin: i64, end: i64) -> bool {
        begin <= self.end_timestamp() && end >= self.begin_timestamp()
    }

    /// Visits the physical offsets under a key's hash, newest first, stored within a time range (ms, ends included, to
    /// the second). Other keys with that hash are among them.
    pub fn visit(
        &self,
        hash: i32,
        begin: i64,
        end: i64,
        mut each: impl FnMut(i64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut number = self.cells.load_u32(self.slot_at(hash));
        fence(Ordering::Acquire);
        // Behind the load of the slot, so that a number that is just being added is not taken for a wild one.
        if number > self.count() {
            return ControlFlow::Continue(());
        }
        let first = self.begin_timestamp();
        while number > 0 && number < self.geometry.capacity {
            let at = self.entry_at(number);
            let Ok(seconds) = i32::try_from(self.cells.load_u32(at + 12)) else { break };
            let time = first.saturating_add(i64::from(seconds) * 1000);
            if self.cells.load_u32(at) == hash as u32 && begin <= time && time <= end {
                each(self.cells.load_u64(at + 4) as i64)?;
            }
            let older = self.cells.load_u32(at + 16);
            if older >= number || time < begin {
                break;
            }
            number = older;
        }
        ControlFlow::Continue(())
    }

    /// The entry with a number, 1 to `count - 1`: hash, physical offset, seconds, next older.
    pub fn entry(&self, number: u32) -> Option<(u32, i64, i32, u32)> {
        if number == 0 || number >= self.count() {
            return None;
        }
        let at = self.entry_at(number);
        Some((
            self.cells.load_u32(at),
            self.cells.load_u64(at + 4) as i64,
            self.cells.load_u32(at + 12) as i32,
            self.cells.load_u32(at + 16),
        ))
    }

    /// Puts the file on the device.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.cells.flush(0..self.entry_at(self.count()))
    }

    /// Makes name, size and blocks of the file durable.
    pub(super) fn sync_all(&self) -> io::Result<()> {
        self.cells.sync_all()
    }

    /// Removes the file's name; readers that hold it go on.
    pub(super) fn delete(&self) -> io::Result<()> {
        remove(&self.path)
    }
}
