//! Random lives of a store against a model: messages, flushes, clean ends, kills, and kills that take the end of the log
//! or of a queue along. A failure names its seed; `FAULT_SEED=n` runs that one alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::faults_support::{Dir, LOG_FILE, Message, QUEUE_FILE, check, message, messages, overwrite, zero};
use store::record::properties;
use store::{Inner, Store};

const TOPICS: [&str; 3] = ["A", "Bee", "Sea"];
const STEPS: u64 = 60;

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// A store and what must be in it.
struct Life {
    dir: Dir,
    store: Option<Arc<Store>>,
    known: Vec<Message>,
    /// How many of `known` are on disk with all that belongs to them.
    synced: usize,
    count: u64,
}

impl Life {
    fn new() -> Life {
        let dir = Dir::new();
        let store = Some(dir.open());
        Life { dir, store, known: Vec::new(), synced: 0, count: 0 }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn end(&self) -> u64 {
        self.known.last().map_or(0, Message::end)
    }

    fn next(&self, topic: &str, id: i32) -> i64 {
        let mine = self.known.iter().rev().find(|message| message.topic == topic && message.id == id);
        mine.map_or(0, |message| message.offset + 1)
    }

    /// One message, or several in a batch.
    fn send(&mut self, random: &mut Random, count: u64) {
        let topic = TOPICS[random.below(TOPICS.len() as u64) as usize];
        let id = random.below(2) as i32;
        let bodies: Vec<Vec<u8>> = (0..count).map(|_| vec![b'x'; random.below(900) as usize]).collect();
        let keys: Vec<String> = (0..count).map(|i| format!("key{}", self.count + i)).collect();
        self.count += count;
        let props: Vec<Vec<u8>> = keys
            .iter()
            .map(|key| {
                let mut props = Vec::new();
                properties::push(&mut props, "KEYS", key.as_bytes());
                props
            })
            .collect();
        let message = message(&props[0], &bodies[0]);
        let store = Arc::clone(self.store.as_ref().unwrap());
        let queue = store.queue_or_create(topic, id);
        let mut starts = Vec::new();
        let appended = if count == 1 {
            let appended = store.append(&queue, &message).unwrap();
            starts.push(appended.phys_offset);
            appended
        } else {
            let inner: Vec<Inner<'_>> =
                bodies.iter().zip(&props).map(|(body, properties)| Inner { flag: 0, properties, body }).collect();
            store.append_batch(&queue, &message, &inner, &mut |phys| starts.push(phys)).unwrap()
        };
        store.dispatch();
        let end = self.end();
        assert_eq!(appended.queue_offset, self.next(topic, id), "{topic} {id}");
        let next_file = end.next_multiple_of(LOG_FILE);
        assert!(appended.phys_offset == end || appended.phys_offset == next_file, "{} at {end}", appended.phys_offset);
        let ends = starts[1..].iter().copied().chain([appended.end]);
        for (((phys, end), key), offset) in starts.iter().zip(ends).zip(keys).zip(appended.queue_offset..) {
            let size = end - phys;
            self.known.push(Message { phys: *phys, size, topic: topic.to_owned(), id, offset, keys: vec![key] });
        }
    }

    fn end_clean(&mut self) {
        self.store.take().unwrap().close();
        self.reopen();
    }

    /// A kill; `fault` works on what it leaves.
    fn kill(&mut self, fault: impl FnOnce(&Dir)) {
        let left = self.dir.copy();
        self.store.take().unwrap().close();
        self.dir = left;
        fault(&self.dir);
        self.reopen();
    }

    fn reopen(&mut self) {
        self.store = Some(self.dir.open());
        self.synced = self.known.len();
        let found = messages(self.store());
        assert_eq!(found.len(), self.known.len());
        assert_eq!(found, self.known);
    }

    /// The log is zeros from `at` on: the machine died before the rest was written.
    fn tear(&mut self, at: u64) {
        self.known.retain(|message| message.end() <= at);
        self.kill(|dir| {
            let mut base = at / LOG_FILE * LOG_FILE;
            let mut from = at - base;
            while dir.log_file(base).exists() {
                zero(&dir.log_file(base), from);
                (base, from) = (base + LOG_FILE, 0);
            }
        });
    }

    /// Units that were not flushed are zeros from some place on.
    fn tear_queue(&mut self, random: &mut Random) {
        let Some(message) = self
            .known
            .get(self.synced..)
            .and_then(|fresh| (!fresh.is_empty()).then(|| fresh[random.below(fresh.len() as u64) as usize].clone()))
        else {
            return;
        };
        self.kill(|dir| {
            let per_file = QUEUE_FILE / 20;
            let (mut file, mut at) = (message.offset as u64 / per_file, message.offset as u64 % per_file * 20);
            while dir.queue_file(&message.topic, message.id, file).exists() {
                overwrite(&dir.queue_file(&message.topic, message.id, file), at, &vec![0; (QUEUE_FILE - at) as usize]);
                (file, at) = (file + 1, 0);
            }
        });
    }

    fn step(&mut self, random: &mut Random) -> &'static str {
        match random.below(20) {
            0..12 => {
                for _ in 0..1 + random.below(25) {
                    let count = if random.below(4) == 0 { 2 + random.below(5) } else { 1 };
                    self.send(random, count);
                }
                "send"
            }
            12 | 13 => {
                self.store().sync_all().unwrap();
                self.synced = self.known.len();
                "sync"
            }
            14 => {
                self.end_clean();
                "clean end"
            }
            15 | 16 => {
                self.kill(|_| {});
                "kill"
            }
            17 => {
                let end = self.end();
                self.tear(end - random.below(3000.min(end + 1)));
                "tear at a byte"
            }
            18 => {
                let end = self.end();
                self.tear((end - random.below(40_000.min(end + 1))) / 4096 * 4096);
                "zero pages"
            }
            _ => {
                self.tear_queue(random);
                "tear a queue"
            }
        }
    }
}

fn live(seed: u64) {
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut life = Life::new();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..STEPS {
        let step = life.step(&mut random);
        println!("  {step}: {} messages, end {}", life.known.len(), life.end());
        *counts.entry(step).or_default() += 1;
    }
    life.store.take().unwrap().close();
    check(&format!("seed {seed}"), &life.dir, &life.known, &[], &[]);
    println!("seed {seed}: {counts:?}");
}

#[test]
fn random_lives() {
    if let Some(seed) = std::env::var("FAULT_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return live(seed);
    }
    // Always the same few, and some that nobody has tried yet.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    (1..=5).chain([now, now + 1, now + 2]).for_each(live);
}
