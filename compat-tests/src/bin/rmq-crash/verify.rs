//! Looks for what was sent, after the broker is back.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

use remoting::{Command, RequestCode};
use store::ctl::{self, StoreDir};
use store::record::RecordView;

use crate::connection::Connection;
use crate::load::{Place, Sent, Told};
use crate::{QUEUES, TOPICS};

/// Queries in flight.
const WINDOW: usize = 64;
/// Of each kind of problem so many are printed.
const SHOWN: u64 = 10;
const FOUND: i32 = 0;

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub acked: u64,
    pub failed: u64,
    pub unknown: u64,
    /// Of the unknown: those that are stored.
    pub unknown_stored: u64,
    /// Acknowledged and not there.
    pub lost: u64,
    /// There more than once.
    pub duplicates: u64,
    /// Acknowledged with an offset that another message was acknowledged with, or not where the answer said.
    pub misplaced: u64,
    /// Refused and there nevertheless.
    pub failed_stored: u64,
    /// Offsets of queues without a message.
    pub gaps: u64,
    /// Stored, but not found by a key.
    pub keys_missing: u64,
    /// What `store-ctl check` says at the end.
    pub file_errors: u64,
}

impl Counts {
    /// Whether nothing is wrong, and there was something to look at.
    pub fn is_good(&self) -> bool {
        let wrong = [
            self.lost,
            self.duplicates,
            self.misplaced,
            self.failed_stored,
            self.gaps,
            self.keys_missing,
            self.file_errors,
        ];
        wrong.iter().sum::<u64>() == 0 && self.acked > 0
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        self.acked += other.acked;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.unknown_stored += other.unknown_stored;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.misplaced += other.misplaced;
        self.failed_stored += other.failed_stored;
        self.gaps += other.gaps;
        self.keys_missing += other.keys_missing;
        self.file_errors += other.file_errors;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "acked={} failed={} unknown={} (stored {}) lost={} duplicates={} misplaced={} failedButStored={} gaps={} \
             keysNotFound={} fileErrors={}",
            self.acked,
            self.failed,
            self.unknown,
            self.unknown_stored,
            self.lost,
            self.duplicates,
            self.misplaced,
            self.failed_stored,
            self.gaps,
            self.keys_missing,
            self.file_errors
        )
    }
}

/// What is known of the store so far.
pub struct Verifier {
    /// Every message that is stored, by key.
    stored: HashMap<String, Place>,
    /// Places that were acknowledged.
    acked: HashSet<(usize, i32, i64)>,
    /// How far each queue was read.
    read: HashMap<(usize, i32), i64>,
    counts: Counts,
}

impl Verifier {
    /// An empty store.
    pub fn new() -> Verifier {
        Verifier { stored: HashMap::new(), acked: HashSet::new(), read: HashMap::new(), counts: Counts::default() }
    }

    /// What came out so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Compares what is new in the store with what was sent since the last call.
    ///
    /// # Panics
    /// When the broker does not answer.
    pub fn round(&mut self, address: &str, sent: Vec<Sent>) {
        let mut connection = Connection::open(address).expect("the broker is back");
        let fresh = self.read_on(&mut connection);
        for Sent { key, told } in &sent {
            let stored = self.stored.get(key).copied();
            match (*told, stored) {
                (Told::Acked(place), stored) => {
                    self.counts.acked += 1;
                    let reused = !self.acked.insert((place.topic, place.queue, place.offset));
                    if reused || stored.is_some_and(|stored| stored != place) {
                        problem(&mut self.counts.misplaced, || format!("{key}: told {place:?}, stored {stored:?}"));
                    }
                    if stored.is_none() {
                        problem(&mut self.counts.lost, || format!("{key}: told {place:?}, not there"));
                    }
                }
                (Told::Failed(code), stored) => {
                    self.counts.failed += 1;
                    if stored.is_some() {
                        problem(&mut self.counts.failed_stored, || {
                            format!("{key}: refused with {code}, stored {stored:?}")
                        });
                    }
                }
                (Told::Unknown, stored) => {
                    self.counts.unknown += 1;
                    self.counts.unknown_stored += u64::from(stored.is_some());
                }
            }
        }
        self.find_by_key(&mut connection, &fresh);
    }

    /// Reads every queue from its beginning once more, and looks for every key: later rounds changed nothing.
    ///
    /// # Panics
    /// When the broker does not answer.
    pub fn all_again(&mut self, address: &str) {
        let mut connection = Connection::open(address).expect("the broker runs");
        let before = std::mem::take(&mut self.stored);
        self.read.clear();
        let all = self.read_on(&mut connection);
        for (key, place) in &before {
            if self.stored.get(key) != Some(place) {
                let now = self.stored.get(key);
                problem(&mut self.counts.lost, || format!("{key}: was at {place:?}, is at {now:?}"));
            }
        }
        self.find_by_key(&mut connection, &all);
    }

    /// What `store-ctl check` says of the closed store.
    ///
    /// # Panics
    /// When the files cannot be read.
    pub fn files(&mut self, store: &Path) {
        let mut out = Vec::new();
        let found = ctl::check(&StoreDir::open(store, None).expect("a store"), &mut out).expect("readable files");
        let text = String::from_utf8_lossy(&out);
        text.lines().take(SHOWN as usize).filter(|_| found.errors > 0).for_each(|line| println!("{line}"));
        println!("{}", text.lines().last().unwrap_or_default());
        self.counts.file_errors += found.errors as u64;
    }

    /// Reads all queues from where the last call ended. The keys that are new.
    fn read_on(&mut self, connection: &mut Connection) -> Vec<String> {
        let mut fresh = Vec::new();
        for (topic, name) in TOPICS.iter().enumerate() {
            for queue in 0..QUEUES {
                let offset = |connection: &mut Connection, code| {
                    let request = Command::request(code).field("topic", name).field("queueId", queue);
                    let answer = connection.call(request).expect("an offset");
                    answer.get("offset").and_then(|offset| offset.parse::<i64>().ok()).unwrap_or(0)
                };
                let max = offset(connection, RequestCode::GET_MAX_OFFSET);
                let min = offset(connection, RequestCode::GET_MIN_OFFSET);
                let mut next = self.read.get(&(topic, queue)).copied().unwrap_or(0);
                if min > 0 {
                    problem(&mut self.counts.gaps, || format!("{name} {queue} begins at {min}"));
                }
                if max < next {
                    problem(&mut self.counts.gaps, || format!("{name} {queue} ends at {max}, before {next}"));
                }
                while next < max {
                    let answer = connection.call(pull(topic, queue, next)).expect("a pull");
                    let after = answer.get("nextBeginOffset").and_then(|offset| offset.parse().ok()).unwrap_or(next);
                    let mut body = &answer.body[..];
                    while let Ok(view) = RecordView::parse(body) {
                        if view.queue_offset() != next {
                            let found = view.queue_offset();
                            problem(&mut self.counts.gaps, || format!("{name} {queue}: {found} follows {}", next - 1));
                        }
                        next = view.queue_offset() + 1;
                        fresh.extend(self.found(topic, queue, &view));
                        body = &body[view.size()..];
                    }
                    if after != next || answer.code != FOUND {
                        let code = answer.code;
                        problem(&mut self.counts.gaps, || {
                            format!("{name} {queue}: a pull at {next} of {max} answers {code} and goes on at {after}")
                        });
                        next = after.max(next + 1);
                    }
                }
                self.read.insert((topic, queue), next);
            }
        }
        fresh
    }

    /// Notes a record.
    fn found(&mut self, topic: usize, queue: i32, view: &RecordView<'_>) -> Option<String> {
        let place = Place { topic, queue, offset: view.queue_offset(), phys: view.phys_offset() };
        let key = view.keys().unwrap_or_default().to_owned();
        let whole = view.body_crc_fits() && view.body().starts_with(key.as_bytes()) && view.topic() == TOPICS[topic];
        if !whole || key.is_empty() {
            problem(&mut self.counts.misplaced, || format!("{key} at {place:?} is not what was sent"));
        }
        if let Some(other) = self.stored.insert(key.clone(), place) {
            problem(&mut self.counts.duplicates, || format!("{key} is at {other:?} and at {place:?}"));
        }
        Some(key)
    }

    /// Looks for messages by their key and their unique key.
    fn find_by_key(&mut self, connection: &mut Connection, keys: &[String]) {
        for keys in keys.chunks(WINDOW) {
            let wanted: Vec<(String, Place)> = keys
                .iter()
                .flat_map(|key| [key.clone(), format!("U{key}")].map(|name| (name, self.stored[key])))
                .collect();
            let requests = wanted.iter().map(|(key, place)| {
                Command::request(RequestCode::QUERY_MESSAGE)
                    .field("topic", TOPICS[place.topic])
                    .field("key", key)
                    .field("maxNum", 8)
                    .field("beginTimestamp", 0)
                    .field("endTimestamp", i64::MAX)
            });
            let counts = &mut self.counts;
            let answered = connection.call_all(requests.collect(), |at, answer| {
                let (key, place) = &wanted[at];
                let mut body = &answer.body[..];
                let mut hits = 0;
                while let Ok(view) = RecordView::parse(body) {
                    hits += u64::from(view.phys_offset() == place.phys);
                    body = &body[view.size()..];
                }
                if hits != 1 {
                    problem(&mut counts.keys_missing, || {
                        format!("{key}: {hits} times found instead of once at {place:?}")
                    });
                }
            });
            answered.expect("answers to queries");
        }
    }
}

/// Counts a problem, and prints the first ones.
fn problem(count: &mut u64, what: impl FnOnce() -> String) {
    *count += 1;
    if *count <= SHOWN {
        println!("PROBLEM {}", what());
    }
}

fn pull(topic: usize, queue: i32, offset: i64) -> Command {
    Command::request(RequestCode::PULL_MESSAGE)
        .field("consumerGroup", "crash_consumers")
        .field("topic", TOPICS[topic])
        .field("queueId", queue)
        .field("queueOffset", offset)
        .field("maxMsgNums", 512)
        // The subscription is in the request.
        .field("sysFlag", 4)
        .field("commitOffset", 0)
        .field("suspendTimeoutMillis", 0)
        .field("subscription", "*")
        .field("subVersion", 1)
        .field("expressionType", "TAG")
}
