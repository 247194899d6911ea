//! Senders that write down what they were told, line by line, and whether a store keeps to that.
//!
//! Lines: `I key` before a message is appended, then `A key topic id offset phys` for one that counts as stored, `F key` for
//! a refused one; nothing more for one that nobody knows about. With SYNC_FLUSH a message counts once it is on the device.
#![allow(dead_code)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use store::record::{RecordView, properties};
use store::{Inner, Store};

use super::faults_support::{Message, message, messages};

pub const TOPICS: [&str; 2] = ["Load", "Busy"];

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// What a message with a key says.
fn body(key: &str) -> Vec<u8> {
    let sum = key.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(131).wrapping_add(byte.into()));
    let mut body = key.as_bytes().to_vec();
    body.resize(key.len() + (sum % 600) as usize, b'a' + (sum % 26) as u8);
    body
}

fn padding(key: &str, len: usize) -> Vec<u8> {
    key.bytes().cycle().take(len).collect()
}

/// How to send.
pub struct Load<'a> {
    /// Begins every key; must not have been used on this store.
    pub name: &'a str,
    pub threads: u64,
    /// Queues of each topic.
    pub queues: u64,
    /// Messages of each thread.
    pub count: u64,
    /// Keys of a message besides the one that names it.
    pub more_keys: u64,
    /// Bytes of a further property.
    pub padding: usize,
    /// Wait until each message is on the device.
    pub sync: bool,
    /// Ends the load early.
    pub stop: &'a AtomicBool,
    pub report: &'a (dyn Fn(&str) + Sync),
}

/// Sends with several threads until all is sent.
pub fn send_all(store: &Store, load: &Load<'_>, seed: u64) {
    std::thread::scope(|scope| {
        for thread in 0..load.threads {
            let mut random = Random(seed + thread);
            scope.spawn(move || {
                let mut number = 0;
                while number < load.count && !load.stop.load(Ordering::Relaxed) {
                    let count = if random.below(5) == 0 { 2 + random.below(4) } else { 1 };
                    let keys: Vec<_> =
                        (number..number + count).map(|at| format!("{}-{thread}-{at}", load.name)).collect();
                    send_some(store, load, &keys, &mut random);
                    number += count;
                }
            });
        }
    });
}

fn send_some(store: &Store, load: &Load<'_>, keys: &[String], random: &mut Random) {
    let (topic, id) = (TOPICS[random.below(2) as usize], random.below(load.queues) as i32);
    keys.iter().for_each(|key| (load.report)(&format!("I {key}\n")));
    let bodies: Vec<_> = keys.iter().map(|key| body(key)).collect();
    let all_keys = |key: &str| (0..load.more_keys).fold(key.to_owned(), |all, at| format!("{all} {key}.{at}"));
    let props: Vec<_> = keys
        .iter()
        .map(|key| {
            let mut props = Vec::new();
            properties::push(&mut props, "KEYS", all_keys(key).as_bytes());
            if load.padding > 0 {
                properties::push(&mut props, "PAD", &padding(key, load.padding));
            }
            properties::push(&mut props, "TAGS", b"TagA");
            props
        })
        .collect();
    let message = message(&props[0], &bodies[0]);
    let queue = store.queue_or_create(topic, id);
    let mut starts = Vec::new();
    let appended = if keys.len() == 1 {
        store.append(&queue, &message).inspect(|appended| starts.push(appended.phys_offset))
    } else {
        let inner: Vec<_> =
            bodies.iter().zip(&props).map(|(body, properties)| Inner { flag: 0, properties, body }).collect();
        store.append_batch(&queue, &message, &inner, &mut |phys| starts.push(phys))
    };
    let Ok(appended) = appended else {
        keys.iter().for_each(|key| (load.report)(&format!("F {key}\n")));
        return;
    };
    if load.sync {
        store.request_flush();
        if !store.flushed().wait(appended.end, Duration::from_millis(500)) {
            return;
        }
    }
    store.dispatch();
    for ((key, phys), offset) in keys.iter().zip(starts).zip(appended.queue_offset..) {
        (load.report)(&format!("A {key} {topic} {id} {offset} {phys}\n"));
    }
}

/// What was counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub acked: usize,
    pub failed: usize,
    pub unknown: usize,
    pub unknown_stored: usize,
}

/// Holds a store against the lines of all loads that it had, and against messages that it had before. Returns its messages.
///
/// # Panics
/// An acknowledged message is lost, in another place, or there twice; a refused one is there; a queue has a gap; something
/// was never sent; a key does not lead to its message.
pub fn verify(what: &str, store: &Store, lines: &str, before: &[Message]) -> (Told, Vec<Message>) {
    let found = messages(store);
    let mut stored: HashMap<&str, &Message> = HashMap::new();
    let mut next: BTreeMap<(&str, i32), i64> = BTreeMap::new();
    for message in &found {
        let end = next.entry((&message.topic, message.id)).or_insert(0);
        assert_eq!(message.offset, *end, "{what}: a gap or a second message in {} {}", message.topic, message.id);
        *end += 1;
        let twin = message.keys.first().and_then(|key| stored.insert(key, message));
        assert!(twin.is_none(), "{what}: {message:?} is also {twin:?}");
        for key in &message.keys {
            let records = store.query(&message.topic, key, 64, 0..i64::MAX).records;
            let hits = records.iter().filter(|record| record.offset() == message.phys).count();
            assert_eq!(hits, 1, "{what}: {key} of {message:?}");
        }
    }
    for message in before {
        assert!(found.contains(message), "{what}: {message:?} was there before");
    }
    let mut told = Told::default();
    let mut sent = HashMap::new();
    let mut places = HashSet::new();
    for line in lines.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let [kind, key, ..] = parts[..] else { panic!("{what}: {line}") };
        sent.insert(key, kind);
        match (kind, stored.get(key)) {
            ("A", Some(message)) => {
                let place = format!("{} {} {} {}", message.topic, message.id, message.offset, message.phys);
                assert_eq!(place, parts[2..].join(" "), "{what}: {key} is elsewhere");
                assert!(places.insert(place), "{what}: {line}: the place was given before");
                told.acked += 1;
            }
            ("A", None) => panic!("{what}: {line}: lost"),
            ("F", Some(message)) => panic!("{what}: {key} was refused, and is there: {message:?}"),
            ("F", None) => told.failed += 1,
            _ => {}
        }
    }
    for (key, _) in sent.iter().filter(|(_, kind)| **kind == "I") {
        told.unknown += 1;
        told.unknown_stored += usize::from(stored.contains_key(key));
    }
    for message in found.iter().filter(|message| !before.contains(message)) {
        let key = message.keys.first().expect("a key");
        assert!(sent.contains_key(&**key), "{what}: nobody has sent {message:?}");
        let record = store.record_at(message.phys).expect("a record");
        let view = RecordView::parse(&record).expect("a record");
        assert!(view.body() == body(key) && view.keys() == Some(&*message.keys.join(" ")), "{what}: {key} is garbled");
        let property = |wanted: &[u8]| view.properties().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        assert!(property(b"TAGS") == Some(b"TagA"), "{what}: {key} has lost its tag");
        let pad = property(b"PAD").unwrap_or_default();
        assert!(pad == padding(key, pad.len()), "{what}: {key} has a garbled property");
    }
    (told, found)
}
