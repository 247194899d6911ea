//! A timed message as it leaves the timer: appended to where it really goes, or to the timer's topic once more.

use itoa::Buffer;
use store::record::RecordView;
use store::record::properties::{name, push};
use store::{AppendError, NewMessage};

use super::property;
use super::service::TimerParts;
use crate::names;

/// The longest property string that a record can have.
const MOST_PROPERTIES: usize = i16::MAX as usize;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    /// It is in the log.
    Done,
    /// It can never be: passed over, with an error in the log.
    Never,
    /// Not now.
    Later,
}

/// Appends copies, with memory that is reused.
#[derive(Default)]
pub(super) struct Copier {
    properties: Vec<u8>,
}

/// Where a copy goes, and what it says of its time in the timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// The tick at which the message was taken; the largest number: not at all.
    pub(super) taken_at: i64,
    /// To the timer's topic once more.
    pub(super) roll: bool,
    /// Now (ms since the epoch).
    pub(super) now: i64,
}

impl Copier {
    /// Appends a copy of a message.
    pub(super) fn put(&mut self, parts: &TimerParts, view: &RecordView<'_>, way: Way) -> Copied {
        let properties = view.properties();
        let place = match way.roll {
            true => Some((names::TIMER_TOPIC, view.queue_id())),
            false => properties.get(property::REAL_TOPIC).zip(queue_of(view)),
        };
        let Some((topic, queue_id)) = place.filter(|(topic, _)| *topic != names::HALF_TOPIC) else {
            tracing::error!(offset = view.phys_offset(), "a timed message does not say where it goes");
            return Copied::Never;
        };
        self.fill(view, way);
        let message = NewMessage {
            flag: view.flag(),
            sys_flag: view.sys_flag(),
            born_timestamp: view.born_timestamp(),
            born_host: view.born_host(),
            reconsume_times: view.reconsume_times(),
            prepared_transaction_offset: 0,
            properties: &self.properties,
            body: view.body(),
        };
        if let Some(escape) = &parts.escape {
            return if escape.put_or_wait("timed", view.queue_offset(), topic, &message) {
                Copied::Done
            } else {
                Copied::Later
            };
        }
        let queue = parts.store.queue_or_create(topic, queue_id);
        match parts.store.append(&queue, &message) {
            Ok(appended) => {
                if let Some(found) = parts.topics.get(topic) {
                    let user = !parts.topics.system.contains(topic);
                    parts.stats.put(&found.stats, 1, appended.end - appended.phys_offset, user);
                }
                Copied::Done
            }
            Err(error @ (AppendError::NotWritable(_) | AppendError::NoSpace(_))) => {
                tracing::warn!(topic, queue_id, %error, "a timed message could not be delivered, trying again");
                Copied::Later
            }
            Err(error) => {
                tracing::error!(topic, queue_id, offset = view.phys_offset(), %error, "a timed message cannot be delivered");
                Copied::Never
            }
        }
    }

    /// The properties of the copy. When there is no room for what the timer adds, it is left out rather than the message.
    fn fill(&mut self, view: &RecordView<'_>, way: Way) {
        const OWN: [&str; 3] = [property::ENQUEUE_MS, property::DEQUEUE_MS, name::CRC32];
        self.properties.clear();
        for (key, value) in view.properties() {
            let dropped =
                OWN.iter().any(|own| own.as_bytes() == key) || way.roll && key == property::ROLL_TIMES.as_bytes();
            if let (false, Ok(key)) = (dropped, std::str::from_utf8(key)) {
                push(&mut self.properties, key, value);
            }
        }
        let before = self.properties.len();
        let mut number = Buffer::new();
        push(&mut self.properties, property::ENQUEUE_MS, number.format(way.taken_at).as_bytes());
        if way.roll {
            let rolls = super::repeated::rolls(view).saturating_add(1);
            push(&mut self.properties, property::ROLL_TIMES, number.format(rolls).as_bytes());
        }
        push(&mut self.properties, property::DEQUEUE_MS, number.format(way.now).as_bytes());
        if self.properties.len() > MOST_PROPERTIES {
            self.properties.truncate(before);
        }
    }
}

/// The queue that a message goes to.
fn queue_of(view: &RecordView<'_>) -> Option<i32> {
    view.properties().get(property::REAL_QUEUE)?.parse().ok().filter(|id| *id >= 0)
}
