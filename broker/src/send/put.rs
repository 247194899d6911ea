//! From a checked message to a record in the log: where it goes, and what is counted.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Instant;

use store::record::sys_flag;
use store::{AppendError, Appended, NewMessage, Queue};

use super::properties::{Known, Properties};
use super::targets::Target;
use super::{Refusal, Sender, delay, may_be_delayed};
use crate::names;
use crate::reply_code;
use crate::stats::now_millis;

/// A message apart from its topic, queue and properties.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The user's flag.
    pub flag: i32,
    /// See `MessageSysFlag`.
    pub sys_flag: i32,
    /// Milliseconds since the epoch at the producer.
    pub born_timestamp: i64,
    /// The producer's address.
    pub born_host: SocketAddr,
    /// How often the message was consumed before.
    pub reconsume_times: i32,
    /// The body as it came.
    pub body: &'a [u8],
}

/// A message that is in the log.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    /// Where it went.
    pub appended: Appended,
    /// Whether it waits in the schedule topic.
    pub delayed: bool,
}

/// Every n-th append of a thread is timed and stands for the others: two looks at the clock cost as much as the append's
/// lock.
const TIMED: u64 = 8;

impl Sender {
    /// Puts a message into any queue, or into the schedule topic when its properties ask for a delay.
    ///
    /// # Errors
    /// Properties that contradict the message, and what the store refuses.
    pub fn put(
        &self,
        topic: &str,
        queue_id: i32,
        message: &Message<'_>,
        properties: &mut Properties,
    ) -> Result<Put, Refusal> {
        if self.parts.store.page_cache_busy() {
            return Err(Refusal::page_cache_busy());
        }
        if let Some(level_queue) = self.place(topic, queue_id, message, properties)? {
            return self.put_delayed(level_queue, message, properties);
        }
        let queue = self.parts.store.queue_or_create(topic, queue_id);
        let appended = self.append(&queue, message, properties)?;
        if let Some(found) = self.parts.topics.get(topic) {
            let user = !self.parts.topics.system.contains(topic);
            self.parts.stats.put(&found.stats, 1, appended.end - appended.phys_offset, user);
        }
        Ok(Put { appended, delayed: false })
    }

    /// As [`Sender::put`], for a topic that the thread keeps.
    pub(super) fn put_to(
        &self,
        target: &mut Target,
        topic: &str,
        queue_id: i32,
        message: &Message<'_>,
        properties: &mut Properties,
    ) -> Result<Put, Refusal> {
        if let Some(level_queue) = self.place(topic, queue_id, message, properties)? {
            return self.put_delayed(level_queue, message, properties);
        }
        let appended = self.append(target.queue(&self.parts.store, queue_id), message, properties)?;
        self.parts.stats.put(&target.topic.stats, 1, appended.end - appended.phys_offset, target.user);
        Ok(Put { appended, delayed: false })
    }

    /// Checks what concerns every message, and returns the queue of the schedule topic for a delayed one.
    fn place(
        &self,
        topic: &str,
        queue_id: i32,
        message: &Message<'_>,
        properties: &mut Properties,
    ) -> Result<Option<i32>, Refusal> {
        let inner_batch = message.sys_flag & sys_flag::INNER_BATCH != 0;
        if inner_batch || properties.get(Known::InnerNum).is_some() {
            // A batch in one record needs batch consume queues; without the flag the property is a lie.
            return Err(Refusal::illegal(self.parts.store_config.load().max_message_size));
        }
        if !may_be_delayed(message.sys_flag) {
            return Ok(None);
        }
        let level = delay::level_of(properties)?;
        self.check_timer(properties, level)?;
        if level <= 0 {
            return Ok(None);
        }
        Ok(Some(delay::to_level(properties, level, &self.parts.levels, topic, queue_id)))
    }

    /// See [`delay::check_timer`].
    pub(super) fn check_timer(&self, properties: &mut Properties, level: i32) -> Result<(), Refusal> {
        const TIMES: [Known; 3] = [Known::TimerDelaySec, Known::TimerDelayMs, Known::TimerDeliverMs];
        if TIMES.iter().all(|time| properties.get(*time).is_none()) {
            return Ok(());
        }
        delay::check_timer(properties, level, now_millis(), &self.parts.store_config.load())
    }

    fn put_delayed(&self, queue_id: i32, message: &Message<'_>, properties: &Properties) -> Result<Put, Refusal> {
        let queue = self.parts.store.queue_or_create(names::SCHEDULE_TOPIC, queue_id);
        let appended = self.append(&queue, message, properties)?;
        if let Some(topic) = self.parts.topics.get(names::SCHEDULE_TOPIC) {
            self.parts.stats.put(&topic.stats, 1, appended.end - appended.phys_offset, false);
        }
        Ok(Put { appended, delayed: true })
    }

    fn append(&self, queue: &Queue, message: &Message<'_>, properties: &Properties) -> Result<Appended, Refusal> {
        let new = new_message(message, properties.as_bytes());
        self.timed(|| self.parts.store.append(queue, &new))
    }

    /// Runs an append, times every [`TIMED`]-th, and turns a failure into its answer.
    pub(super) fn timed(&self, append: impl FnOnce() -> Result<Appended, AppendError>) -> Result<Appended, Refusal> {
        thread_local! {
            static SINCE: Cell<u64> = const { Cell::new(TIMED - 1) };
        }
        let since = SINCE.get() + 1;
        let result = if since < TIMED {
            SINCE.set(since);
            append()
        } else {
            SINCE.set(0);
            let start = Instant::now();
            let result = append();
            self.parts.stats.put_times.record(start.elapsed(), since);
            result
        };
        result.map_err(|error| reply_code::of_append_error(&error, &self.parts.store_config.load()))
    }
}

/// The store's form of a message.
pub(super) fn new_message<'a>(message: &Message<'a>, properties: &'a [u8]) -> NewMessage<'a> {
    NewMessage {
        flag: message.flag,
        sys_flag: message.sys_flag,
        born_timestamp: message.born_timestamp,
        born_host: message.born_host,
        reconsume_times: message.reconsume_times,
        prepared_transaction_offset: 0,
        properties,
        body: message.body,
    }
}
