//! Appending, under the one lock.
//!
//! In the lock, in this order: queue offset, physical offset, store timestamp, bytes, publish. Everything that needs
//! no position (checks, lengths, crc of the body) is done before.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::MutexGuard;

use super::{CommitLog, Tail};
use crate::error::AppendError;
use crate::failpoint::{self, Point};
use crate::record::{BLANK_MIN, NewRecord, Version, crc32, sys_flag, write_blank};
use crate::segment::{Segment, SegmentWriter, Stage};
use crate::store::{Appended, Inner, NewMessage};

/// The longest property string that its 2-byte length field allows (signed, in Java).
const MAX_PROPERTIES: usize = i16::MAX as usize;
/// Java allows a record this much more than the longest body.
const OUTSIDE_BODY: usize = 64 * 1024;

/// The queue that a message goes to, as the appender needs it.
#[derive(Clone, Copy, Debug)]
pub struct NextOffset<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The queue id.
    pub queue_id: i32,
    /// The queue offset that the next message gets. Touched under the append lock only.
    pub next: &'a AtomicI64,
}

/// What limits and shapes a record.
#[derive(Clone, Copy, Debug)]
pub struct AppendLimits {
    /// `maxMessageSize`: longest body in bytes.
    pub max_body: usize,
    /// `autoMessageVersionOnTopicLen`: V2 records for long topics.
    pub long_topics: bool,
    /// `enabledAppendPropCRC`.
    pub crc_property: bool,
    /// The store host that records carry.
    pub store_host: SocketAddr,
}

/// Several messages for one queue that become consecutive records.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// What all have in common. Its body is the whole batch body, for the size limit; its properties are not looked at.
    pub common: &'a NewMessage<'a>,
    /// The messages.
    pub inner: &'a [Inner<'a>],
}

impl CommitLog {
    /// Appends one message. On return it is published.
    ///
    /// # Errors
    /// See [`AppendError`]; nothing was appended, and no queue offset was used.
    pub fn append(
        &self,
        queue: NextOffset<'_>,
        message: &NewMessage<'_>,
        limits: &AppendLimits,
    ) -> Result<Appended, AppendError> {
        let mut record = new_record(queue, message, limits)?;
        record.prepared_transaction_offset = message.prepared_transaction_offset;
        let len = checked_len(&record, limits)?;

        let mut tail = self.lock_tail()?;
        // Half and rolled-back messages are in no queue: they carry 0 and use no offset.
        let in_queue = !matches!(
            message.sys_flag & sys_flag::TRANSACTION,
            sys_flag::TRANSACTION_PREPARED | sys_flag::TRANSACTION_ROLLBACK
        );
        let queue_offset = if in_queue { queue.next.load(Ordering::Relaxed) } else { 0 };
        let writer = self.writer_with_room(&mut tail, len)?;
        let phys_offset = writer.end();
        record.queue_offset = queue_offset;
        record.phys_offset = phys_offset as i64;
        record.store_timestamp = self.stamp();
        let written = writer.append(len, |out| record.encode(out));
        failpoint::pass(Point::AppendPublished);
        if in_queue && written.is_ok() {
            queue.next.store(queue_offset + 1, Ordering::Relaxed);
        }
        self.unlock(tail);
        written.map_err(AppendError::NoSpace)?;

        let appended = Appended {
            phys_offset,
            end: phys_offset + len as u64,
            queue_offset,
            store_timestamp: record.store_timestamp,
        };
        self.published(&appended);
        Ok(appended)
    }

    /// Appends a batch as consecutive records with one store timestamp, all in one file. Calls `each` with the offset
    /// of every record.
    ///
    /// # Errors
    /// As [`CommitLog::append`], for the whole batch.
    pub fn append_batch(
        &self,
        queue: NextOffset<'_>,
        batch: &Batch<'_>,
        limits: &AppendLimits,
        each: &mut dyn FnMut(u64),
    ) -> Result<Appended, AppendError> {
        let mut records = smallvec::SmallVec::<[(NewRecord<'_>, usize); 8]>::with_capacity(batch.inner.len());
        let mut total = 0;
        for inner in batch.inner {
            let message =
                NewMessage { flag: inner.flag, properties: inner.properties, body: inner.body, ..*batch.common };
            let record = new_record(queue, &message, limits)?;
            let len = checked_len(&record, limits)?;
            total += len;
            records.push((record, len));
        }
        if records.is_empty() || batch.common.body.len() > limits.max_body {
            return Err(AppendError::TooLarge { size: batch.common.body.len(), limit: limits.max_body });
        }

        let mut tail = self.lock_tail()?;
        let first = queue.next.load(Ordering::Relaxed);
        let writer = self.writer_with_room(&mut tail, total)?;
        let phys_offset = writer.end();
        let store_timestamp = self.stamp();
        // One append for all: a reader sees the whole batch or nothing of it.
        let fill = |mut out: &mut [u8]| {
            let mut phys = phys_offset;
            for (number, (record, len)) in (0..).zip(&mut records) {
                record.queue_offset = first + number;
                record.phys_offset = phys as i64;
                record.store_timestamp = store_timestamp;
                let (now, rest) = out.split_at_mut(*len);
                record.encode(now);
                out = rest;
                phys += *len as u64;
            }
        };
        let written = writer.append(total, fill);
        failpoint::pass(Point::AppendPublished);
        if written.is_ok() {
            queue.next.store(first + batch.inner.len() as i64, Ordering::Relaxed);
        }
        self.unlock(tail);
        written.map_err(AppendError::NoSpace)?;

        let mut phys = phys_offset;
        for (_, len) in &records {
            each(phys);
            phys += *len as u64;
        }
        let appended = Appended { phys_offset, end: phys, queue_offset: first, store_timestamp };
        self.published(&appended);
        Ok(appended)
    }

    /// From now on every append fails with this reason. The first reason stays.
    pub fn refuse(&self, reason: &'static str) {
        self.refusal.lock().get_or_insert(reason);
        self.closed.store(true, Ordering::SeqCst);
        // Whoever holds the lock saw the flag unset: when this returns, nobody appends any more.
        drop(self.tail.lock());
    }

    /// Why appends fail, when they do for good.
    pub fn refusal(&self) -> Option<&'static str> {
        *self.refusal.lock()
    }

    /// Refuses appends for as long as the disk is too full; returns what was set before.
    pub fn set_disk_full(&self, full: bool) -> bool {
        self.disk_full.swap(full, Ordering::Relaxed)
    }

    /// Whether appends are refused because the disk is too full.
    pub fn disk_full(&self) -> bool {
        self.disk_full.load(Ordering::Relaxed)
    }

    /// For how long (ms) the append lock has been held by one append; `None` while it is free. A large value says that the
    /// device cannot keep up and the kernel holds the writer back.
    #[inline]
    pub fn locked_for(&self) -> Option<i64> {
        match self.locked_at.load(Ordering::Relaxed) {
            0 => None,
            since => Some((now_millis() - since).max(0)),
        }
    }

    pub(super) fn lock_tail(&self) -> Result<MutexGuard<'_, Tail>, AppendError> {
        let tail = self.tail.lock();
        if self.closed.load(Ordering::Relaxed) {
            drop(tail);
            return Err(AppendError::NotWritable(self.refusal().unwrap_or("closed")));
        }
        if self.disk_full.load(Ordering::Relaxed) {
            return Err(AppendError::NotWritable("the disk is full"));
        }
        Ok(tail)
    }

    /// The clock, once an append, in the lock: store timestamps are in the order of the log.
    #[inline]
    pub(super) fn stamp(&self) -> i64 {
        let now = now_millis();
        self.locked_at.store(now, Ordering::Relaxed);
        now
    }

    pub(super) fn unlock(&self, tail: MutexGuard<'_, Tail>) {
        self.locked_at.store(0, Ordering::Relaxed);
        drop(tail);
    }

    #[inline]
    pub(super) fn published(&self, appended: &Appended) {
        if let Some(pool) = &self.pool {
            return self.pooled(pool, appended);
        }
        self.wrote.advance(appended.end);
        // Behind the watermark: whoever reads this first and the watermark then has that record below the watermark.
        self.last_timestamp.store(appended.store_timestamp, Ordering::Release);
        self.next.passed(appended.end);
        self.flush_bell.passed(appended.end);
    }

    /// The writer of a file that takes `len` bytes: the current one, or a new one after the current was closed with a
    /// blank record.
    #[inline]
    pub(super) fn writer_with_room<'t>(
        &self,
        tail: &'t mut Tail,
        len: usize,
    ) -> Result<&'t mut SegmentWriter, AppendError> {
        let has_room = |writer: &SegmentWriter| len + BLANK_MIN <= writer.room();
        if !tail.writer.as_ref().is_some_and(has_room) {
            self.roll(tail, len)?;
        }
        match &mut tail.writer {
            Some(writer) => Ok(writer),
            None => Err(AppendError::NotWritable("no file")),
        }
    }

    #[cold]
    fn roll(&self, tail: &mut Tail, len: usize) -> Result<(), AppendError> {
        let limit = self.segments.segment_len();
        if len + BLANK_MIN > limit {
            return Err(AppendError::TooLarge { size: len, limit });
        }
        if tail.writer.is_none()
            && let Some(last) = self.segments.last()
        {
            tail.writer = last.writer().map(|writer| writer.staged(self.stage()));
            if tail.writer.is_none() {
                return Err(AppendError::NotWritable("the last file has another writer"));
            }
        }
        let base = match &mut tail.writer {
            Some(writer) if len + BLANK_MIN <= writer.room() => return Ok(()),
            Some(writer) => writer.segment().end(),
            None => self.wrote.get(),
        };
        // The new file first: without one the old stays as it is, and a shorter message may still fit.
        let segment = self.next_segment(base)?;
        let Some(next) = segment.writer() else {
            return Err(AppendError::NotWritable("the new file has another writer"));
        };
        if let Some(old) = &mut tail.writer {
            close_file(old)?;
        }
        failpoint::pass(Point::RollBlank);
        self.segments.push(segment);
        tail.writer = Some(next.staged(self.stage()));
        if self.pool.is_none() {
            self.wrote.advance(base);
        }
        Ok(())
    }

    fn stage(&self) -> Option<&Arc<Stage>> {
        self.pool.as_ref().map(|pool| &pool.stage)
    }

    pub(super) fn next_segment(&self, base: u64) -> Result<Arc<Segment>, AppendError> {
        let make = || Segment::create(&self.segments.path_of(base), self.segments.segment_len());
        self.next.take(base, make).map_err(AppendError::NoSpace)
    }
}

/// Writes the blank record over what is left.
fn close_file(writer: &mut SegmentWriter) -> Result<(), AppendError> {
    let rest = writer.room() as u32;
    if rest as usize >= BLANK_MIN {
        let blank = |out: &mut [u8]| {
            if let Some(head) = out.first_chunk_mut() {
                write_blank(head, rest);
            }
        };
        writer.append(BLANK_MIN, blank).map_err(AppendError::NoSpace)?;
    }
    writer.seal();
    Ok(())
}

pub(super) fn new_record<'a>(
    queue: NextOffset<'a>,
    message: &NewMessage<'a>,
    limits: &AppendLimits,
) -> Result<NewRecord<'a>, AppendError> {
    if message.body.len() > limits.max_body {
        return Err(AppendError::TooLarge { size: message.body.len(), limit: limits.max_body });
    }
    let version = if limits.long_topics { Version::for_topic(queue.topic.len()) } else { Version::V1 };
    if queue.topic.len() > if version == Version::V1 { i8::MAX as usize } else { i16::MAX as usize } {
        return Err(AppendError::TopicTooLong(queue.topic.len()));
    }
    Ok(NewRecord {
        version,
        body_crc: crc32(message.body),
        queue_id: queue.queue_id,
        flag: message.flag,
        queue_offset: 0,
        phys_offset: 0,
        sys_flag: message.sys_flag,
        born_timestamp: message.born_timestamp,
        born_host: message.born_host,
        store_timestamp: 0,
        store_host: limits.store_host,
        reconsume_times: message.reconsume_times,
        prepared_transaction_offset: 0,
        body: message.body,
        topic: queue.topic,
        properties: message.properties,
        crc_property: limits.crc_property,
    })
}

pub(super) fn checked_len(record: &NewRecord<'_>, limits: &AppendLimits) -> Result<usize, AppendError> {
    if record.properties_len() > MAX_PROPERTIES {
        return Err(AppendError::PropertiesTooLong(record.properties_len()));
    }
    let len = record.encoded_len();
    let limit = limits.max_body.saturating_add(OUTSIDE_BODY);
    if len > limit { Err(AppendError::TooLarge { size: len, limit }) } else { Ok(len) }
}

/// Milliseconds since the epoch.
pub(crate) fn now_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
