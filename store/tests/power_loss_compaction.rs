//! The machine loses power while compacted logs are written, compacted and replaced: see `power_loss.rs` for what of
//! the files stays. Then, of each key the last message is there, every offset leads to its message, the files are as Java wants
//! them, and nothing that an interrupted step left stays.
//!
//! `POWER_LOSS_SEED=n` repeats a round, `POWER_LOSS_ROUNDS=n` plays so many.

#[path = "compaction_support/mod.rs"]
mod compaction_support;
mod device;
mod faults_support;
mod load_support;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use compaction_support::checks::{CONF, check_names, check_offsets, check_parts, check_reads, logged, next};
use compaction_support::{COMPACTED, Message, try_send};
use device::{Device, QUICK, play};
use faults_support::Dir;
use load_support::Random;
use store::Store;

const KEYS: u64 = 7;
const TOPIC: &str = "C";
const QUEUES: [(&str, i32); 2] = [(TOPIC, 0), (TOPIC, 1)];
/// Power losses of one store.
const LIVES: u64 = 4;

/// Messages by queue.
type ByQueue = BTreeMap<(&'static str, i32), Vec<Message>>;

/// A message that was sent: queue, end in the log, and what it says.
struct Sent((&'static str, i32), u64, Message);

fn declare(store: &Store) {
    store.set_topic_policy(TOPIC, COMPACTED).unwrap();
}

/// Sends a message with one of few keys; the body is a new one, or empty, which deletes the key.
fn send(store: &Store, queue: (&'static str, i32), life: u64, random: &mut Random) -> Sent {
    let (topic, id) = queue;
    let key = format!("key{}", random.below(KEYS));
    let body = if random.below(9) == 0 { String::new() } else { format!("body-{life}-{}", random.next()) };
    let offset = try_send(store, topic, id, &key, &body).unwrap();
    Sent(queue, store.wrote().get(), (offset, key, body))
}

/// Sends and compacts until told to stop.
fn work(store: &Store, life: u64, stop: &AtomicBool, sent: &Mutex<Vec<Sent>>, random: &mut Random) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                store.compact_now();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        while !stop.load(Ordering::Relaxed) {
            let queue = QUEUES[random.below(QUEUES.len() as u64) as usize];
            let one = send(store, queue, life, random);
            sent.lock().unwrap().push(one);
            if random.below(4) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

/// Lets a store live until the power goes; what is left, and what is known of it.
fn life(dir: &Dir, number: u64, random: &mut Random) -> (Dir, Vec<Sent>) {
    let device = Device::over(&dir.root());
    let store = dir.open();
    declare(&store);
    let (stop, sent) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let wanted = random.below(160) as usize;
    let mut sender = Random(random.next());
    let left = std::thread::scope(|scope| {
        scope.spawn(|| work(&store, number, &stop, &sent, &mut sender));
        let start = Instant::now();
        while sent.lock().unwrap().len() < wanted {
            assert!(start.elapsed() < Duration::from_secs(60), "the load stands still");
            std::thread::sleep(Duration::from_micros(200));
        }
        let left = device.cut(random, |image| {
            let mut sent = std::mem::take(&mut *sent.lock().unwrap());
            let flushed = store.flushed().get();
            sent.retain(|Sent(_, end, _)| *end <= flushed);
            (Dir::new().holding(image), sent)
        });
        stop.store(true, Ordering::Relaxed);
        left
    });
    store.close();
    left
}

fn check_all(what: &str, store: &Store, known: &ByQueue) {
    for ((topic, id), known) in known {
        let found = logged(store, topic, *id);
        for message in known {
            assert_eq!(found.get(message.0 as usize), Some(message), "{what}: {topic} {id} is lost");
        }
    }
    check_reads(what, store, &QUEUES);
    check_offsets(what, store, &QUEUES);
}

fn round(seed: u64) -> usize {
    let mut random = Random(seed);
    let conf = format!("{CONF}{QUICK}");
    let mut dir = Dir::new().with(&conf);
    let mut total = 0;
    let mut known = ByQueue::new();
    for number in 0..LIVES {
        let what = format!("seed {seed}, life {number}");
        let (left, sent) = life(&dir, number, &mut random);
        dir = left.with(&conf);
        total += sent.len();
        for Sent(queue, _, message) in sent {
            known.entry(queue).or_default().push(message);
        }
        let store = dir.try_open().unwrap_or_else(|error| panic!("{what}: {error}"));
        declare(&store);
        check_all(&what, &store, &known);
        for (topic, id) in QUEUES {
            let offset = next(&store, topic, id);
            for at in 0..12 {
                let Sent(_, _, message) = send(&store, (topic, id), LIVES, &mut random);
                assert_eq!(message.0, offset + at, "{what}: {topic} {id}");
            }
            known.insert((topic, id), logged(&store, topic, id));
        }
        store.compact_now();
        check_all(&format!("{what}, compacted"), &store, &known);
        check_names(&what, &dir, &QUEUES);
        // Either way to end, before the next life.
        let left = (random.below(2) == 0).then(|| dir.copy());
        store.close();
        drop(store);
        assert_eq!(dir.complaints(), None, "{what}");
        check_parts(&what, &dir, &QUEUES);
        dir = left.map_or(dir, |left| left.with(&conf));
    }
    total
}

#[test]
fn compacted_logs_survive_a_loss_of_power() {
    let Some(rounds) = play(8, round) else { return };
    let total: usize = rounds.iter().sum();
    println!("{} rounds of {LIVES} losses: {total} messages on the device, lost 0", rounds.len());
    assert!(total > 0);
}
