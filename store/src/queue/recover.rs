//! What a restart makes of the files of a queue, and how a queue follows a log that was cut at either end.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ext::{QueueExt, is_address};
use super::files::UnitFiles;
use super::unit::Entry;
use super::{Places, Queue, Writer, fill};
use crate::error::StoreError;

/// How many files from the end are looked through; the ones before were complete when the store was last open.
const FILES_CHECKED: usize = 3;

impl Queue {
    /// The queue as its directory has it: readable up to the first unit, in the last three files, that was not written.
    /// Files behind that are removed.
    ///
    /// With a first file that is not full no other is looked for. Whoever has found that one has to see to it that the
    /// queues have no other files than they are known to have.
    pub(super) fn load(
        topic: Arc<str>,
        id: i32,
        places: Arc<Places>,
        batch: bool,
        first_file: Option<File>,
    ) -> Result<Queue, StoreError> {
        let (dir, shape) = places.of(batch);
        let dir = dir.join(&*topic).join(id.to_string());
        let listed = first_file.is_none();
        let (files, mut opened) = match first_file {
            Some(file) => (UnitFiles::first(dir, shape), Some(file)),
            None => UnitFiles::load(dir, shape)?,
        };
        let list = files.snapshot();
        let mut floor = 0;
        let hole = list.windows(2).position(|pair| pair[0].end() != pair[1].base());
        if let (Some(at), Some(last)) = (hole, list.last()) {
            tracing::error!(file = %last.path().display(), "a queue file before this one is missing: made again from the log");
            last.walk(last.base(), |index, bytes| {
                floor = index;
                Entry::decode(index, bytes).is_some_and(|entry| entry.is_written())
            })?;
            files.cut(list[at].end(), list[at].end())?;
            opened = None;
        }
        if hole.is_some() || files.lost_last() {
            places.lost.store(true, Ordering::Release);
        }
        let list = files.snapshot();
        let from = list.len().saturating_sub(FILES_CHECKED);
        let mut end = list.get(from).map_or(0, |file| file.base());
        let (mut last, mut address, mut first, mut stale) = (None, None, None, false);
        for (at, file) in list.iter().enumerate().skip(from) {
            let opened = if at + 1 == list.len() { opened.take() } else { None };
            (end, stale) = file.walk_to_end(opened, |index, bytes| {
                let entry = Entry::decode(index, bytes).filter(Entry::is_written);
                if from == 0 && index == list[0].base() {
                    first = entry;
                }
                last = entry.filter(|entry| !entry.unit.is_filler()).or(last);
                address = entry.map(|entry| entry.unit.tags_code).filter(|code| is_address(*code)).or(address);
                entry.is_some()
            })?;
            if end < file.end() {
                break;
            }
        }
        if !listed && list.last().is_some_and(|file| file.end() == end) {
            return Queue::load(topic, id, places, batch, None);
        }
        if list.last().is_some_and(|file| file.base() > end) {
            files.cut(end, end)?;
        }
        let queue = Queue::new(topic, id, places, batch);
        queue.first.store(list.first().map_or(0, |file| file.base()), Ordering::Relaxed);
        {
            let mut writer = queue.writer.lock();
            queue.flushed.store(end, Ordering::Relaxed);
            writer.max_phys = last.map_or(-1, |entry| entry.unit.end());
            writer.floor = floor;
            (writer.first, writer.stale) = (first, stale);
        }
        // Nobody else has the queue yet. Without files it is a new one.
        if !list.is_empty() {
            let _ = queue.files.set(files);
            queue.recount();
        }
        queue.load_ext(address)?;
        queue.set_end(end)?;
        Ok(queue)
    }

    /// Loads the extension when there is one, also when entries get no units any more. `last` is the last address.
    fn load_ext(&self, last: Option<i64>) -> Result<(), StoreError> {
        if last.is_none() && !self.places.ext_found {
            return Ok(());
        }
        let dir = self.ext_dir();
        if last.is_some() || dir.is_dir() {
            let ext = match dir.is_dir() {
                true => QueueExt::load(dir, self.places.ext, last)?,
                false => QueueExt::behind(dir, self.places.ext, last),
            };
            let _ = self.ext.set(Arc::new(ext));
        }
        Ok(())
    }

    /// Sets the end and what follows from it: the highest offset, the lowest, the next.
    fn set_end(&self, end: i64) -> Result<(), StoreError> {
        let first = self.first.load(Ordering::Relaxed);
        self.end.store(end, Ordering::Release);
        let (min, max) = match self.is_batch() {
            false => (first, end),
            true => (
                self.at_index(first)?.filter(|_| first < end).map_or(0, |entry| entry.offset),
                self.at_index(end - 1)?.filter(|_| first < end).map_or(0, |entry| entry.next_offset()),
            ),
        };
        self.max.store(max, Ordering::Release);
        self.min.store(min.min(max), Ordering::Release);
        self.next.store(max, Ordering::Relaxed);
        Ok(())
    }

    /// Forgets the units of records at or behind `phys`, the new end of the log. Before there are readers and writers.
    ///
    /// What is cut off becomes zeros: a unit left there could pass for a new one after the next crash. A queue that
    /// loses everything keeps the position of its first file.
    pub(crate) fn truncate_dirty(&self, phys: i64) -> Result<(), StoreError> {
        let mut writer = self.writer.lock();
        let Some(files) = self.files.get() else { return Ok(()) };
        if writer.max_phys <= phys {
            return Ok(());
        }
        let old_end = self.end.load(Ordering::Relaxed);
        let mut end = old_end;
        let (mut last, mut address) = (None, None);
        for file in files.snapshot().iter().rev().filter(|file| file.base() < old_end) {
            (last, address) = (None, None);
            end = file.walk(file.base(), |index, bytes| {
                let entry = Entry::decode(index, bytes).filter(|_| index < end);
                let keep =
                    entry.filter(|entry| entry.is_written() && (entry.unit.phys < phys || entry.unit.is_filler()));
                last = keep.filter(|entry| !entry.unit.is_filler()).or(last);
                address = keep.map(|entry| entry.unit.tags_code).filter(|code| is_address(*code)).or(address);
                keep.is_some()
            })?;
            if end > file.base() {
                break;
            }
        }
        (writer.last, writer.first) = (None, None);
        files.cut(end, old_end)?;
        self.recount();
        writer.max_phys = last.map_or(-1, |entry| entry.unit.end());
        self.flushed.fetch_min(end, Ordering::Relaxed);
        if let (Some(ext), Some(address)) = (self.ext.get(), address) {
            ext.truncate_behind(address)?;
        }
        let first = self.first.load(Ordering::Relaxed).min(end);
        self.first.store(first, Ordering::Relaxed);
        self.set_end(end)
    }

    /// When files before the queue's first one are missing, which only shows when a record comes that belongs there,
    /// the queue is emptied and made again from here on.
    #[cold]
    pub(super) fn begin_anew_before(&self, entry: &Entry, writer: &mut Writer) -> Result<(), StoreError> {
        let Some(files) = self.files.get().filter(|_| !self.is_deleted()) else { return Ok(()) };
        let first = files.snapshot().first().map_or(0, |file| file.base());
        let first_offset = if self.is_batch() { self.min_offset() } else { first };
        if first == 0 || entry.offset >= first_offset {
            return Ok(());
        }
        tracing::error!(
            topic = &*self.topic,
            queue = self.id,
            first,
            "the first queue files are missing: made again from the log"
        );
        writer.floor = writer.floor.max(self.max_offset());
        (writer.max_phys, writer.last, writer.first) = (-1, None, None);
        files.delete_all()?;
        self.ext.get().map_or(Ok(()), |ext| ext.delete_all())?;
        self.recount();
        for value in [&self.first, &self.end, &self.min, &self.max, &self.next, &self.flushed] {
            value.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// After the log was dispatched again: offsets that were given, to records that the log has no more, are not given
    /// again.
    pub(crate) fn keep_floor(&self) -> Result<(), StoreError> {
        let mut writer = self.writer.lock();
        let (floor, max) = (std::mem::take(&mut writer.floor), self.max_offset());
        let Some(files) = self.files.get().filter(|_| floor > max && !self.is_batch()) else { return Ok(()) };
        writer.last = None;
        match files.is_empty() {
            true => self.begin_at(files, floor)?,
            false => fill(files, max, floor)?,
        }
        self.recount();
        self.publish(floor, floor);
        Ok(())
    }

    /// Moves the lowest readable offset to the first unit whose record the log, which starts at `min_phys`, still has.
    /// It is the highest offset when there is none.
    pub(crate) fn correct_min(&self, min_phys: i64) -> Result<(), StoreError> {
        let (first, end) = (self.first.load(Ordering::Relaxed), self.end.load(Ordering::Acquire));
        let Some(files) = self.files.get().filter(|_| first < end) else { return Ok(()) };
        let kept = |entry: &Entry| entry.unit.phys >= min_phys && !entry.unit.is_filler();
        // Of very many queues nearly all are as they were found: nothing is read for those.
        let found_first = self.writer.lock().first.filter(|entry| !self.is_batch() && entry.offset == first);
        if found_first.is_some_and(|entry| kept(&entry)) {
            return Ok(());
        }
        let found = if self.at_index(end - 1)?.is_some_and(|entry| entry.unit.phys < min_phys) {
            end
        } else if self.at_index(first)?.is_some_and(|entry| kept(&entry)) {
            first
        } else {
            let start = files.snapshot().first().map_or(first, |file| file.base().max(first));
            self.first_kept(start, end, min_phys)?
        };
        let offset = match self.is_batch() {
            false => found,
            true if found == end => self.max_offset(),
            true => self.at_index(found)?.map_or(0, |entry| entry.offset),
        };
        self.first.store(found, Ordering::Release);
        self.min.store(offset, Ordering::Release);
        Ok(())
    }

    /// The first unit of a range that belongs to a record at or behind `min_phys`. Offsets grow with the index, but
    /// fillers, which may stand anywhere, say nothing: they count as what follows them.
    fn first_kept(&self, mut from: i64, mut to: i64, min_phys: i64) -> Result<i64, StoreError> {
        while from < to {
            let middle = from + (to - from) / 2;
            let mut at = middle;
            let mut entry = self.at_index(at)?;
            while at + 1 < to && entry.is_some_and(|entry| entry.unit.is_filler()) {
                at += 1;
                entry = self.at_index(at)?;
            }
            match entry {
                Some(entry) if entry.unit.is_filler() || entry.unit.phys >= min_phys => to = middle,
                _ => from = at + 1,
            }
        }
        let end = self.end.load(Ordering::Acquire);
        while from < end && self.at_index(from)?.is_some_and(|entry| entry.unit.is_filler()) {
            from += 1;
        }
        Ok(from)
    }

    /// After an unclean stop: removes what stands behind a unit that never reached the device. A unit left there could pass
    /// for a new one after the next crash.
    pub(crate) fn clear_behind(&self) -> Result<(), StoreError> {
        match self.files.get() {
            Some(files) if std::mem::take(&mut self.writer.lock().stale) => {
                files.clear_behind(self.end.load(Ordering::Acquire))
            }
            _ => Ok(()),
        }
    }

    /// Takes units of records at or behind `phys` for not being on the device yet. True when there are any.
    pub(crate) fn distrust(&self, phys: i64) -> Result<bool, StoreError> {
        let (first, end) = (self.first.load(Ordering::Relaxed), self.end.load(Ordering::Acquire));
        let Some(files) = self.files.get().filter(|_| first < end && self.max_phys() > phys) else { return Ok(false) };
        // Of a short queue all: a sync of what is on the device already costs little.
        let from = if files.count() < FILES_CHECKED { first } else { self.first_kept(first, end, phys)? };
        let _writer = self.writer.lock();
        self.flushed.fetch_min(from, Ordering::AcqRel);
        files.distrust();
        Ok(from < end)
    }

    /// Deletes files whose records the log, which starts at `min_phys`, has no more, except the last file. Returns how
    /// many went.
    pub(crate) fn delete_expired(&self, min_phys: i64) -> Result<usize, StoreError> {
        let Some(files) = self.files.get() else { return Ok(0) };
        let end = self.end.load(Ordering::Acquire);
        let gone = files.delete_first(|file| {
            let last = self.at_index(file.end() - 1).ok().flatten();
            file.end() <= end && last.is_some_and(|entry| entry.unit.phys < min_phys)
        })?;
        if gone > 0 {
            let _writer = self.writer.lock();
            self.recount();
        }
        if gone > 0
            && let Some(base) = files.snapshot().first().map(|file| file.base())
        {
            self.first.fetch_max(base, Ordering::AcqRel);
        }
        self.correct_min(min_phys)?;
        if let Some(ext) = self.ext.get()
            && let Some(first) = self.at_index(self.first.load(Ordering::Acquire))?
        {
            ext.delete_before(first.unit.tags_code)?;
        }
        Ok(gone)
    }
}
