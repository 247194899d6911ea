//! What was delivered, or rolled, after the last checkpoint that reached the disk: found again in the log after a crash,
//! so that it is not delivered twice.

use std::collections::HashMap;
use std::net::SocketAddr;

use store::Store;
use store::record::RecordView;
use store::timer::Since;

use super::property;
use crate::names;

/// The clock may have been set back a little (ms) since a delivery.
const CLOCK_MARGIN: i64 = 60_000;

/// What tells one timed message from another, in the topic of the timer and where it was delivered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    topic: Vec<u8>,
    queue_id: i32,
    unique_key: Option<Vec<u8>>,
    due: Vec<u8>,
    born_timestamp: i64,
    born_host: SocketAddr,
    body_crc: u32,
    /// How often it has rolled.
    rolls: i32,
    /// Whether it rolled now, or was delivered.
    roll: bool,
}

impl Identity {
    /// Of a message that waits. `None` when it does not say what it is.
    pub(super) fn of_waiting(view: &RecordView<'_>, roll: bool) -> Option<Identity> {
        let properties = view.properties();
        let topic = properties.get_bytes(property::REAL_TOPIC)?;
        let queue_id = properties.get(property::REAL_QUEUE)?.parse().ok()?;
        Identity::new(view, topic, queue_id, rolls(view), roll)
    }

    /// Of a message as it came out of the timer; `None` when it did not.
    pub(super) fn of_delivered(view: &RecordView<'_>) -> Option<Identity> {
        view.properties().get_bytes(property::DEQUEUE_MS)?;
        if view.topic() == names::TIMER_TOPIC {
            let waiting = Identity::of_waiting(view, true)?;
            return Some(Identity { rolls: waiting.rolls - 1, ..waiting });
        }
        Identity::new(view, view.topic_bytes(), view.queue_id(), rolls(view), false)
    }

    fn new(view: &RecordView<'_>, topic: &[u8], queue_id: i32, rolls: i32, roll: bool) -> Option<Identity> {
        let properties = view.properties();
        Some(Identity {
            topic: topic.to_vec(),
            queue_id,
            unique_key: view.uniq_key().map(|key| key.as_bytes().to_vec()),
            due: properties.get_bytes(property::OUT_MS)?.to_vec(),
            born_timestamp: view.born_timestamp(),
            born_host: view.born_host(),
            body_crc: view.body_crc(),
            rolls,
            roll,
        })
    }
}

/// How often a message has rolled.
pub(super) fn rolls(view: &RecordView<'_>) -> i32 {
    view.properties().get(property::ROLL_TIMES).and_then(|times| times.parse().ok()).unwrap_or(0)
}

/// Messages that came out of the timer, each as often as it did.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    times: HashMap<Identity, usize>,
}

impl Repeated {
    /// Where in the log to look, as an offset.
    pub(super) fn start(store: &Store, since: Since) -> Option<u64> {
        let of_time = since.time.map(|time| file_before(store, time));
        since.offset.into_iter().chain(of_time).min()
    }

    /// Looks through the log from where [`Repeated::start`] says to `to`. It may find more than needed: a message that is
    /// delivered already and waits still, with the same unique key for the same time, is the same message.
    pub(super) fn scan(store: &Store, since: Since, from: u64, to: u64) -> Repeated {
        let counts = |phys: u64, view: &RecordView<'_>| {
            since.offset.is_some_and(|offset| phys >= offset)
                || since.time.is_some_and(|time| view.store_timestamp() >= time - CLOCK_MARGIN)
        };
        let mut times: HashMap<Identity, usize> = HashMap::new();
        let mut walk = store.log().walk(from);
        loop {
            while let Some((phys, view)) = walk.next_record().filter(|(phys, _)| *phys < to) {
                if counts(phys, &view)
                    && let Some(identity) = Identity::of_delivered(&view)
                {
                    *times.entry(identity).or_default() += 1;
                }
            }
            if walk.error().is_none() {
                break;
            }
            walk.skip_file();
        }
        tracing::info!(from, to, found = times.len(), "looked for timed messages that were delivered before");
        Repeated { times }
    }

    /// Whether a message that is to be delivered, or to roll, did so before. Answers so once for each time.
    pub(super) fn take(&mut self, view: &RecordView<'_>, roll: bool) -> bool {
        if self.times.is_empty() {
            return false;
        }
        let Some(identity) = Identity::of_waiting(view, roll) else { return false };
        let Some(times) = self.times.get_mut(&identity) else { return false };
        *times -= 1;
        if *times == 0 {
            self.times.remove(&identity);
        }
        true
    }
}

/// The start of the last file of the log whose first record was stored before a time (ms).
fn file_before(store: &Store, time: i64) -> u64 {
    let files = store.log().segments().snapshot();
    let before = files
        .iter()
        .rev()
        .find(|file| RecordView::parse(file.bytes()).is_ok_and(|first| first.store_timestamp() < time));
    before.or(files.first()).map_or(0, |file| file.base())
}
