//! Records that say in their properties which offsets they have: batches that stay one record, and messages that go to
//! light queues.
//!
//! The offsets are known in the append lock only, so the properties are finished there; their memory is made before.

use std::sync::atomic::{AtomicI64, Ordering};

use super::append::{checked_len, new_record};
use super::{AppendLimits, CommitLog, NextOffset};
use crate::error::AppendError;
use crate::lmq;
use crate::record::properties::{self, Properties, name};
use crate::record::{NewRecord, sys_flag};
use crate::store::{Appended, NewMessage};

/// Digits of the longest offset, and a separator.
const OFFSET_LEN: usize = 20;

/// What a record says of its offsets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers<'a> {
    /// The body holds so many messages, each with an offset: adds `INNER_BASE`. At least 1.
    pub inner: Option<i16>,
    /// The next offsets of the queues that `INNER_MULTI_DISPATCH` names, in its order; `None` for a name that is no light
    /// queue. Adds `INNER_MULTI_QUEUE_OFFSET` and moves each by one, also one that is named twice.
    pub also: &'a [Option<&'a AtomicI64>],
}

impl CommitLog {
    /// Appends a message whose properties get [`Numbers`]. On return it is published.
    ///
    /// # Errors
    /// As [`CommitLog::append`].
    pub fn append_numbered(
        &self,
        queue: NextOffset<'_>,
        message: &NewMessage<'_>,
        numbers: &Numbers<'_>,
        limits: &AppendLimits,
    ) -> Result<Appended, AppendError> {
        let mut text = Vec::with_capacity(message.properties.len() + 64 + OFFSET_LEN * (1 + numbers.also.len()));
        for (name, value) in Properties::new(message.properties).filter(|(name, _)| !numbers.replaces(name)) {
            for part in [name, &[properties::NAME_END], value, &[properties::VALUE_END]] {
                text.extend_from_slice(part);
            }
        }
        let mut record = new_record(queue, message, limits)?;
        record.prepared_transaction_offset = message.prepared_transaction_offset;
        let in_queue = !matches!(
            message.sys_flag & sys_flag::TRANSACTION,
            sys_flag::TRANSACTION_PREPARED | sys_flag::TRANSACTION_ROLLBACK
        );

        let mut tail = self.lock_tail()?;
        let queue_offset = if in_queue { queue.next.load(Ordering::Relaxed) } else { 0 };
        numbers.write(queue_offset, &mut text);
        let mut record = NewRecord { properties: &text, ..record };
        let len = checked_len(&record, limits)?;
        let writer = self.writer_with_room(&mut tail, len)?;
        let phys_offset = writer.end();
        record.queue_offset = queue_offset;
        record.phys_offset = phys_offset as i64;
        record.store_timestamp = self.stamp();
        let written = writer.append(len, |out| record.encode(out));
        if in_queue && written.is_ok() {
            queue.next.store(queue_offset + i64::from(numbers.inner.unwrap_or(1)), Ordering::Relaxed);
        }
        if written.is_ok() {
            numbers.count();
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
}

impl Numbers<'_> {
    /// Whether a property of the message goes: the same name is written with what is true. Java does not store `WAIT` of a
    /// message for light queues.
    fn replaces(&self, property: &[u8]) -> bool {
        self.inner.is_some() && property == name::INNER_BASE.as_bytes()
            || !self.also.is_empty()
                && [name::INNER_MULTI_QUEUE_OFFSET, name::WAIT].iter().any(|name| name.as_bytes() == property)
    }

    /// In the lock.
    fn write(&self, queue_offset: i64, text: &mut Vec<u8>) {
        if self.inner.is_some() {
            properties::push(text, name::INNER_BASE, queue_offset.to_string().as_bytes());
        }
        if !self.also.is_empty() {
            let mut offsets = Vec::with_capacity(OFFSET_LEN * self.also.len());
            for (number, next) in self.also.iter().enumerate() {
                if number > 0 {
                    offsets.push(lmq::SEPARATOR);
                }
                if let Some(next) = next {
                    offsets.extend_from_slice(next.load(Ordering::Relaxed).to_string().as_bytes());
                }
            }
            properties::push(text, name::INNER_MULTI_QUEUE_OFFSET, &offsets);
        }
    }

    /// Moves the light queues on. In the lock.
    fn count(&self) {
        for (number, next) in self.also.iter().enumerate() {
            let again = |other: &&AtomicI64| next.is_some_and(|next| std::ptr::eq(*other, next));
            if let Some(next) = next
                && !self.also[..number].iter().flatten().any(again)
            {
                next.store(next.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        }
    }
}
