//! From a checked message to a record in the log: where it goes, and what is counted.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Instant;

use store::record::sys_flag;
use store::{AppendError, Appended, NewMessage, Queue};

use super::properties::{Known, Properties};
use super::targets::{Target, is_batch};
use super::{Refusal, Sender, delay, may_be_delayed};
use crate::names;
use crate::reply_code;
use crate::stats::{Counter, now_millis};

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
    /// Whether it waits in the schedule topic or for the timer.
    pub delayed: bool,
    /// When the timer delivers it: at the end of the tick that begins then (ms since the epoch).
    pub due: Option<i64>,
}

/// Where a message goes.
enum Place {
    /// To its topic.
    Topic,
    /// To a queue of the schedule topic.
    Level(i32),
    /// To the timer, which delivers it at the end of the tick that begins then.
    Timer(i64),
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
        self.put_committed(topic, queue_id, message, 0, properties)
    }

    /// As [`Sender::put`], for what a transaction has committed: the record tells where its first half is in the log.
    ///
    /// # Errors
    /// As [`Sender::put`].
    pub fn put_committed(
        &self,
        topic: &str,
        queue_id: i32,
        message: &Message<'_>,
        half_offset: i64,
        properties: &mut Properties,
    ) -> Result<Put, Refusal> {
        if self.parts.store.page_cache_busy() {
            return Err(Refusal::page_cache_busy());
        }
        match self.place(topic, queue_id, message, properties)? {
            Place::Topic => {}
            Place::Level(queue) => return self.put_delayed(queue, None, message, half_offset, properties),
            Place::Timer(due) => return self.put_timed(due, None, message, half_offset, properties),
        }
        let queue = self.parts.store.queue_or_create(topic, queue_id);
        let appended = self.append(&queue, message, half_offset, properties)?;
        if let Some(found) = self.parts.topics.get(topic) {
            let user = !self.parts.topics.system.contains(topic);
            self.parts.stats.put(&found.stats, 1, appended.end - appended.phys_offset, user);
        }
        Ok(Put { appended, delayed: false, due: None })
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
        match self.place(topic, queue_id, message, properties)? {
            Place::Topic => {}
            Place::Level(queue) => return self.put_delayed(queue, Some(queue_id), message, 0, properties),
            Place::Timer(due) => return self.put_timed(due, Some(queue_id), message, 0, properties),
        }
        let (queue, latency) = target.queue(&self.parts.store, queue_id);
        let new = new_message(message, properties.as_bytes());
        let appended = self.timed(Some(latency), || self.parts.store.append(queue, &new))?;
        target.count(queue_id, 1, appended.end - appended.phys_offset);
        Ok(Put { appended, delayed: false, due: None })
    }

    /// Checks what concerns every message, and marks one that has to wait.
    fn place(
        &self,
        topic: &str,
        queue_id: i32,
        message: &Message<'_>,
        properties: &mut Properties,
    ) -> Result<Place, Refusal> {
        let inner_batch = message.sys_flag & sys_flag::INNER_BATCH != 0;
        if inner_batch || properties.get(Known::InnerNum).is_some() {
            // A batch in one record needs batch consume queues, and waits nowhere else; without the flag the property is a
            // lie.
            let batch_queues = self.parts.topics.get(topic).is_some_and(|topic| is_batch(&topic));
            if !inner_batch || !batch_queues || delay::level_of(properties)? > 0 {
                return Err(Refusal::illegal(self.parts.store_config.load().max_message_size));
            }
        }
        if !may_be_delayed(message.sys_flag) {
            return Ok(Place::Topic);
        }
        let level = delay::level_of(properties)?;
        if topic != names::TIMER_TOPIC
            && let Some(due) = self.due_of(properties, level)?
        {
            delay::to_timer(properties, due, topic, queue_id);
            return Ok(Place::Timer(due));
        }
        if level <= 0 {
            return Ok(Place::Topic);
        }
        Ok(Place::Level(delay::to_level(properties, level, &self.parts.levels, topic, queue_id)))
    }

    /// See [`delay::due_of`].
    pub(super) fn due_of(&self, properties: &mut Properties, level: i32) -> Result<Option<i64>, Refusal> {
        const TIMES: [Known; 3] = [Known::TimerDelaySec, Known::TimerDelayMs, Known::TimerDeliverMs];
        if TIMES.iter().all(|time| properties.get(*time).is_none()) {
            return Ok(None);
        }
        let config = self.parts.store_config.load();
        let rules = delay::Rules { config: &config, timer: self.parts.timer.as_deref(), now: now_millis() };
        delay::due_of(properties, level, &rules)
    }

    /// Puts a message into the timer's topic. `asked_for`: the queue that the producer named.
    fn put_timed(
        &self,
        due: i64,
        asked_for: Option<i32>,
        message: &Message<'_>,
        half_offset: i64,
        properties: &Properties,
    ) -> Result<Put, Refusal> {
        let queue = self.parts.store.queue_or_create(names::TIMER_TOPIC, 0);
        let appended = self.append(&queue, message, half_offset, properties)?;
        if let Some(topic) = self.parts.topics.get(names::TIMER_TOPIC) {
            self.parts.stats.put(&topic.stats, 1, appended.end - appended.phys_offset, false);
            if let Some(asked_for) = asked_for {
                topic.stats.latency.add(asked_for, [0, 1]);
            }
        }
        Ok(Put { appended, delayed: true, due: Some(due) })
    }

    /// Puts a message into a queue of the schedule topic. `asked_for`: the queue that the producer named.
    fn put_delayed(
        &self,
        queue_id: i32,
        asked_for: Option<i32>,
        message: &Message<'_>,
        half_offset: i64,
        properties: &Properties,
    ) -> Result<Put, Refusal> {
        let queue = self.parts.store.queue_or_create(names::SCHEDULE_TOPIC, queue_id);
        let appended = self.append(&queue, message, half_offset, properties)?;
        if let Some(topic) = self.parts.topics.get(names::SCHEDULE_TOPIC) {
            self.parts.stats.put_delayed(&topic.stats, queue_id, appended.end - appended.phys_offset);
            if let Some(asked_for) = asked_for {
                topic.stats.latency.add(asked_for, [0, 1]);
            }
        }
        Ok(Put { appended, delayed: true, due: None })
    }

    /// Appends a message. `half_offset` is 0 for all but those of transactions.
    pub(super) fn append(
        &self,
        queue: &Queue,
        message: &Message<'_>,
        half_offset: i64,
        properties: &Properties,
    ) -> Result<Appended, Refusal> {
        let new =
            NewMessage { prepared_transaction_offset: half_offset, ..new_message(message, properties.as_bytes()) };
        self.timed(None, || self.parts.store.append(queue, &new))
    }

    /// Runs an append, times every [`TIMED`]-th, and turns a failure into its answer. `latency` gets the
    /// milliseconds.
    pub(super) fn timed(
        &self,
        latency: Option<&Counter<2>>,
        append: impl FnOnce() -> Result<Appended, AppendError>,
    ) -> Result<Appended, Refusal> {
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
            let elapsed = start.elapsed();
            self.parts.stats.put_times.record(elapsed, since);
            let millis = u64::try_from(elapsed.as_millis()).unwrap_or(0);
            if let Some(latency) = latency.filter(|_| millis > 0) {
                latency.add_to(0, millis * since);
            }
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
