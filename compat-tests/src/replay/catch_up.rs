//! Before each session: messages that the recorded broker's queues held by then and ours do not.
//!
//! They came from sessions that are not played here, or were made by a part of the broker that the one under test
//! does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use remoting::RequestCode;

use super::arrange::{Arranger, Queue};
use super::contents::{Contents, dead_letters_of, destination, filler, physical_of_id, property};
use super::memory::Memory;
use super::prepare::consume_stats;
use super::session::Session;

/// How long a delayed message that the broker took may be due.
const LATE: Duration = Duration::from_secs(12);

/// How many messages the queues that a session touches held when it began.
pub fn levels(session: &Session, contents: &Contents) -> BTreeMap<Queue, u64> {
    let (mut sent, mut seen) = (BTreeMap::new(), BTreeMap::new());
    // Nothing is answered to a one-way message; it may have been seen later.
    for id in session.one_way_sends().filter_map(|request| property(request.field("i"), "UNIQ_KEY")) {
        if let Some((queue, offset)) = contents.find(id) {
            let first = sent.entry(queue.clone()).or_insert(offset);
            *first = offset.min(*first);
        }
    }
    for (request, answer) in session.exchanges() {
        let number = |name: &str| answer.field(name).parse::<u64>().ok();
        match RequestCode(request.code) {
            RequestCode::SEND_MESSAGE_V2 | RequestCode::SEND_BATCH_MESSAGE | RequestCode::SEND_REPLY_MESSAGE_V2 => {
                if let (Some(queue), Some(offset)) = (destination(request, answer), number("queueOffset")) {
                    let first = sent.entry(queue).or_insert(offset);
                    *first = offset.min(*first);
                }
            }
            RequestCode::PULL_MESSAGE | RequestCode::LITE_PULL_MESSAGE | RequestCode::GET_MAX_OFFSET => {
                let queue = request.field("queueId").parse();
                let max = number("maxOffset").or_else(|| number("offset"));
                if let (Ok(queue), Some(max)) = (queue, max) {
                    seen.entry((request.field("topic").to_owned(), queue)).or_insert(max);
                }
            }
            RequestCode::GET_CONSUME_STATS => {
                for stats in consume_stats(&answer.body) {
                    seen.entry(stats.queue).or_insert(stats.max);
                }
            }
            _ => {}
        }
    }
    // What a session sends itself counts later: its first message shows how many there were.
    seen.extend(sent);
    seen
}

/// Fills the broker's queues up to the levels, messages in the order in which the recorded broker stored them.
///
/// # Panics
/// When the broker does not answer.
pub fn catch_up(levels: &BTreeMap<Queue, u64>, contents: &Contents, broker: &Arranger, memory: &mut Memory) {
    let mut missing = Vec::new();
    for (queue, level) in levels {
        // Where nothing is known of a message it goes right behind the one before it.
        let mut place = 0;
        for offset in broker.max_offset(queue)..*level {
            place = contents.get(queue, offset).map_or(place, |known| known.physical);
            missing.push((place, queue, offset));
        }
    }
    missing.sort_by_key(|(place, ..)| *place);
    let dead = missing.iter().filter_map(|(_, (topic, _), _)| dead_letters_of(topic));
    dead.collect::<BTreeSet<_>>().into_iter().for_each(|group| broker.create_group(group));
    for (_, queue, offset) in missing {
        let known = contents.get(queue, offset);
        let command = match known {
            Some(known) if known.is_late() && memory.accepted.contains(known.id()) && later(broker, queue, offset) => {
                continue;
            }
            Some(known) => known.send(queue),
            None => filler(queue, offset),
        };
        let answer = broker.call(command);
        let Some(known) = known else { continue };
        if known.would_wait() {
            memory.stripped.insert(known.id().to_owned());
        }
        if let Some(now) = answer.get("msgId").and_then(physical_of_id) {
            memory.physical.insert(known.physical, now);
        }
    }
}

/// Waits for a message that the broker holds back; false when it does not come.
fn later(broker: &Arranger, queue: &Queue, held: u64) -> bool {
    let end = Instant::now() + LATE;
    while broker.max_offset(queue) <= held {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
