//! The extension of a consume queue (`enableConsumeQueueExt`): tags code, store time and filter bits of each entry.
//!
//! Files of `mappedFileSizeConsumeQueueExt` bytes under `consumequeue_ext/TOPIC/QUEUE/`, named by the offset of their first
//! byte. A unit, big-endian: its length (2 bytes, itself included), tags code (8), store time in ms (8), length of the bits
//! (2), bits. Units stand one behind the other, none spans two files; a length of -1 says that the rest of the file is
//! unused, and every unit leaves at least four bytes for that.
//!
//! The queue's own entry has the address of the unit in place of its tags code: the least 64-bit integer plus the unit's
//! offset, which no hash of a tag and no time comes near.
//!
//! What is here can be done without: when an entry's unit is missing or damaged, its record says the same.
//!
//! Threads: written under the queue's lock; readers only follow addresses of published entries.
//! Crash: the last entry of the queue says where the units end; what stands behind is cleared.

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};

use super::files::{Shape, UnitFiles};
use crate::error::StoreError;

/// Bytes of a unit without bits.
const HEAD: usize = 20;
/// The longest unit: its length is a signed 16-bit integer.
const MAX_UNIT: usize = i16::MAX as usize;
/// Every unit leaves so many bytes of its file.
const END_MARK: i64 = 4;
/// The highest tags code that is an address. Hashes of tags are 32-bit integers, times are positive.
const MAX_ADDRESS: i64 = i32::MIN as i64 - 1;

/// Whether the tags code of an entry is the address of a unit.
#[inline]
pub(crate) fn is_address(tags_code: i64) -> bool {
    tags_code <= MAX_ADDRESS
}

fn offset_of(address: i64) -> i64 {
    address.wrapping_sub(i64::MIN)
}

/// Where the file behind the one with an offset begins.
fn behind(offset: i64, shape: Shape) -> i64 {
    (offset / shape.per_file).saturating_add(1).saturating_mul(shape.per_file)
}

/// A unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtUnit {
    /// Hash of the tags; for delayed messages the delivery time (ms).
    pub tags_code: i64,
    /// When the record was stored, ms.
    pub store_timestamp: i64,
    /// The filter bits; empty for none.
    pub bits: Vec<u8>,
}

/// The units of one queue.
#[derive(Debug)]
pub(super) struct QueueExt {
    files: UnitFiles,
    /// Where the next unit goes.
    end: AtomicI64,
    /// Everything before is on the device.
    flushed: AtomicI64,
}

impl QueueExt {
    /// The files count in bytes: a unit of a [`Shape`] is one.
    pub(super) fn shape(file_size: i32) -> Shape {
        Shape::new(1, file_size)
    }

    /// No units. The directory need not exist.
    pub(super) fn empty(dir: PathBuf, shape: Shape) -> QueueExt {
        QueueExt { files: UnitFiles::empty(dir, shape), end: AtomicI64::new(0), flushed: AtomicI64::new(0) }
    }

    /// Finds the files of a directory. `last` is the last address in the queue.
    ///
    /// # Errors
    /// A file that does not fit the configuration, or the disk.
    pub(super) fn load(dir: PathBuf, shape: Shape, last: Option<i64>) -> Result<QueueExt, StoreError> {
        let ext = QueueExt { files: UnitFiles::load(dir, shape)?.0, ..QueueExt::empty(PathBuf::new(), shape) };
        let mut unit = ExtUnit::default();
        let end = match last.map(|last| (offset_of(last), ext.read(last, &mut unit))) {
            Some((offset, true)) => offset + unit.len() as i64,
            // Units are missing. What an address of the queue stands for must not change.
            Some((offset, false)) => ext.walk_end().max(behind(offset, shape)),
            None => ext.walk_end(),
        };
        ext.cut(end)?;
        Ok(ext)
    }

    /// No units, although the queue has addresses, the last of which is `last`.
    pub(super) fn behind(dir: PathBuf, shape: Shape, last: Option<i64>) -> QueueExt {
        let ext = QueueExt::empty(dir, shape);
        ext.end.store(last.map_or(0, |last| behind(offset_of(last), shape)), Ordering::Relaxed);
        ext
    }

    /// Reads the unit with an address. False: there is no sound one.
    pub(super) fn read(&self, address: i64, unit: &mut ExtUnit) -> bool {
        is_address(address) && self.try_read(offset_of(address), unit).unwrap_or(false)
    }

    fn try_read(&self, offset: i64, unit: &mut ExtUnit) -> Result<bool, StoreError> {
        let Some(file) = self.files.find(offset) else { return Ok(false) };
        let mut head = [0; HEAD];
        if file.read(offset, file.end(), &mut head)? < HEAD {
            return Ok(false);
        }
        let [l0, l1, t0, t1, t2, t3, t4, t5, t6, t7, s0, s1, s2, s3, s4, s5, s6, s7, b0, b1] = head;
        let (len, bits) = (i16::from_be_bytes([l0, l1]), i16::from_be_bytes([b0, b1]));
        let Ok(bits) = usize::try_from(bits) else { return Ok(false) };
        if usize::try_from(len) != Ok(HEAD + bits) {
            return Ok(false);
        }
        unit.tags_code = i64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
        unit.store_timestamp = i64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        unit.bits.clear();
        unit.bits.resize(bits, 0);
        Ok(file.read(offset + HEAD as i64, file.end(), &mut unit.bits)? == bits)
    }

    /// Adds a unit. Returns its address; `None` for one that is too long, or when there are no more addresses.
    ///
    /// # Errors
    /// The disk; nothing was added.
    pub(super) fn put(&self, unit: &ExtUnit) -> Result<Option<i64>, StoreError> {
        let (len, per_file) = (unit.len() as i64, self.files.shape().per_file);
        let mut at = self.end.load(Ordering::Relaxed);
        if unit.len() > MAX_UNIT || len + END_MARK > per_file || at > offset_of(MAX_ADDRESS) - 2 * per_file {
            return Ok(None);
        }
        let used = at % per_file;
        if used + len + END_MARK > per_file {
            self.files.write(at, &(-1i16).to_be_bytes())?;
            at += per_file - used;
        }
        self.files.write(at, &unit.encode())?;
        self.end.store(at + len, Ordering::Release);
        Ok(Some(at.wrapping_add(i64::MIN)))
    }

    /// Forgets what stands behind the unit with an address.
    ///
    /// # Errors
    /// The disk.
    pub(super) fn truncate_behind(&self, address: i64) -> Result<(), StoreError> {
        let mut unit = ExtUnit::default();
        if self.read(address, &mut unit) { self.cut(offset_of(address) + unit.len() as i64) } else { Ok(()) }
    }

    /// Deletes files that end before the unit with an address. Returns how many went.
    ///
    /// # Errors
    /// The disk.
    pub(super) fn delete_before(&self, address: i64) -> Result<usize, StoreError> {
        if !is_address(address) {
            return Ok(0);
        }
        self.files.delete_first(|file| file.end() < offset_of(address))
    }

    /// Removes everything; the next unit is the first again.
    ///
    /// # Errors
    /// The disk.
    pub(super) fn delete_all(&self) -> Result<(), StoreError> {
        self.end.store(0, Ordering::Release);
        self.flushed.store(0, Ordering::Relaxed);
        self.files.delete_all()
    }

    /// Puts everything on the device.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        let (from, end) = (self.flushed.load(Ordering::Relaxed), self.end.load(Ordering::Acquire));
        if from < end {
            self.files.flush(from, end)?;
            self.flushed.fetch_max(end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.bytes()
    }

    /// Unmaps files that were not used since the last call; returns how many stay mapped.
    pub(super) fn unmap_idle(&self) -> usize {
        self.files.unmap_idle()
    }

    /// End of the units in the last file.
    fn walk_end(&self) -> i64 {
        self.files.snapshot().last().map_or(0, |last| self.end_of_units(last.base()))
    }

    /// The end of a row of units that begins at an offset, within its file.
    fn end_of_units(&self, mut at: i64) -> i64 {
        let Some(file) = self.files.find(at) else { return at };
        let mut len = [0; 2];
        while file.read(at, file.end(), &mut len).is_ok_and(|read| read == len.len()) {
            match i16::from_be_bytes(len) {
                len if usize::try_from(len).is_ok_and(|len| len >= HEAD) && at + i64::from(len) <= file.end() => {
                    at += i64::from(len);
                }
                _ => break,
            }
        }
        at
    }

    /// Makes `end` the end: units behind it could be taken for new ones after the next crash.
    fn cut(&self, end: i64) -> Result<(), StoreError> {
        let stale = self.end_of_units(end).max(end);
        // A mark that the file is full, too.
        self.files.cut(end, stale.saturating_add(2))?;
        self.end.store(end, Ordering::Release);
        self.flushed.fetch_min(end, Ordering::Relaxed);
        Ok(())
    }
}

impl ExtUnit {
    /// Its length in the file, in bytes.
    pub fn length(&self) -> i16 {
        i16::try_from(self.len()).unwrap_or(i16::MAX)
    }

    fn len(&self) -> usize {
        HEAD + self.bits.len()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        bytes.extend((self.len() as i16).to_be_bytes());
        bytes.extend(self.tags_code.to_be_bytes());
        bytes.extend(self.store_timestamp.to_be_bytes());
        bytes.extend((self.bits.len() as i16).to_be_bytes());
        bytes.extend(&self.bits);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(number: usize) -> ExtUnit {
        ExtUnit { tags_code: number as i64, store_timestamp: 7, bits: vec![number as u8; number % 5] }
    }

    fn read(ext: &QueueExt, address: i64) -> Option<ExtUnit> {
        let mut found = ExtUnit::default();
        ext.read(address, &mut found).then_some(found)
    }

    #[test]
    fn addresses() {
        assert!(is_address(i64::MIN) && is_address(i64::from(i32::MIN) - 1));
        assert!(!is_address(i64::from(i32::MIN)) && !is_address(0) && !is_address(i64::MAX));
        assert_eq!(offset_of(i64::MIN + 7), 7);
    }

    #[test]
    fn units_go_over_files_and_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (path, shape) = (dir.path().join("T/0"), QueueExt::shape(64));
        let ext = QueueExt::empty(path.clone(), shape);
        let addresses: Vec<_> = (0..20).map(|number| ext.put(&unit(number)).unwrap().unwrap()).collect();
        // Two units of 20 to 24 bytes, and what marks the end.
        assert_eq!(addresses[..4], [0, 20, 64, 86].map(|offset| i64::MIN + offset));
        let first = std::fs::read(path.join(format!("{:020}", 0))).unwrap();
        assert_eq!(first[..20], [0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0]);
        assert_eq!((&first[20..22], &first[38..43]), (&[0, 21][..], &[0, 1, 1, 0xff, 0xff][..]));
        ext.flush().unwrap();
        let before = |path: &std::path::Path| {
            let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.sort();
            files.iter().map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>()
        };
        let bytes = before(&path);
        for last in [addresses.last().copied(), None] {
            let again = QueueExt::load(path.clone(), shape, last).unwrap();
            for (number, address) in addresses.iter().enumerate() {
                assert_eq!(read(&again, *address), Some(unit(number)));
            }
            assert_eq!(again.end.load(Ordering::Relaxed), ext.end.load(Ordering::Relaxed));
            assert_eq!(before(&path), bytes);
        }
        // Cut in the middle; what comes next is where it was before.
        let again = QueueExt::load(path.clone(), shape, None).unwrap();
        again.truncate_behind(addresses[4]).unwrap();
        assert_eq!(read(&again, addresses[5]), None);
        assert_eq!(before(&path).len(), 3);
        for (number, address) in addresses.iter().enumerate().skip(5) {
            assert_eq!(again.put(&unit(number)).unwrap(), Some(*address));
        }
        assert_eq!(before(&path), bytes);
        assert!(again.delete_before(addresses[7]).unwrap() > 0);
        assert_eq!((read(&again, addresses[0]), read(&again, addresses[7])), (None, Some(unit(7))));
        assert_eq!(again.delete_before(5).unwrap(), 0);
        again.delete_all().unwrap();
        assert_eq!(again.put(&unit(3)).unwrap(), Some(i64::MIN));
    }

    #[test]
    fn what_is_damaged_or_missing_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let (path, shape) = (dir.path().join("T/0"), QueueExt::shape(64));
        let ext = QueueExt::empty(path.clone(), shape);
        let addresses: Vec<_> = (0..6).map(|number| ext.put(&unit(number)).unwrap().unwrap()).collect();
        ext.flush().unwrap();
        for (at, value) in [(0, 0x7f), (1, 3), (18, 0xff), (19, 200)] {
            let file = path.join(format!("{:020}", 0));
            let whole = std::fs::read(&file).unwrap();
            let mut bytes = whole.clone();
            bytes[at] = value;
            std::fs::write(&file, &bytes).unwrap();
            let again = QueueExt::load(path.clone(), shape, addresses.last().copied()).unwrap();
            assert_eq!((read(&again, addresses[0]), read(&again, addresses[5])), (None, Some(unit(5))));
            std::fs::write(&file, whole).unwrap();
        }
        for address in [0, 64, i64::MAX, i64::MIN + 1000, MAX_ADDRESS, addresses[0] + 1] {
            assert_eq!(read(&ext, address), None, "{address}");
        }
        // All files are lost: an address that the queue has never gets another meaning.
        std::fs::remove_dir_all(&path).unwrap();
        std::fs::create_dir_all(&path).unwrap();
        let again = QueueExt::load(path, shape, addresses.last().copied()).unwrap();
        let next = again.put(&unit(9)).unwrap().unwrap();
        assert!(next > addresses[5]);
        assert!(addresses.iter().all(|address| read(&again, *address).is_none()));
        assert_eq!(read(&again, next), Some(unit(9)));
    }

    #[test]
    fn too_long_a_unit_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let ext = QueueExt::empty(dir.path().join("T/0"), QueueExt::shape(1 << 20));
        let long = |len| ExtUnit { bits: vec![1; len], ..ExtUnit::default() };
        assert_eq!(ext.put(&long(MAX_UNIT)).unwrap(), None);
        let address = ext.put(&long(MAX_UNIT - HEAD)).unwrap().unwrap();
        assert_eq!(read(&ext, address), Some(long(MAX_UNIT - HEAD)));
        let small = QueueExt::empty(dir.path().join("T/1"), QueueExt::shape(32));
        assert_eq!(small.put(&long(9)).unwrap(), None);
        assert!(small.put(&long(8)).unwrap().is_some());
    }
}
