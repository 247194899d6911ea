//! The machine loses power under load: of every file stays what was synced, and of later pages any; of new, renamed and
//! removed names those whose directory was synced, and of later changes the first few. Then the store recovers: every
//! message that was on the device is there in its place, and nothing that was not sent.
//!
//! The model hears of syncs and names through `store::failpoint`, so that this program runs one store at a time.
//! `POWER_LOSS_SEED=n` repeats a round, `POWER_LOSS_ROUNDS=n` plays so many.

mod device;
mod faults_support;
mod load_support;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use device::{Device, QUICK, play};
use faults_support::{Dir, Message, check};
use load_support::{Load, Random, Told, send_all, verify};
use store::json_file::{JsonFile, Loaded};

/// Power losses of one store.
const LIVES: u64 = 3;

/// What a life left behind.
struct Loss {
    dir: Dir,
    lines: String,
    saved: (u64, u64),
}

/// Opens a store, loads it, and takes its power away.
fn life(dir: &Dir, name: &str, sync: bool, random: &mut Random) -> Loss {
    let device = Device::over(&dir.root());
    let store = dir.open();
    let lines = Mutex::new(String::new());
    let first = number_in(&dir.path("config/saved.json"));
    let saved = Mutex::new((first, first));
    let stop = AtomicBool::new(false);
    let report = |line: &str| lines.lock().unwrap().push_str(line);
    let wanted = random.below(160) as usize;
    let closes = random.below(6) == 0;
    let seed = random.next();
    // Properties of some bytes, or of more than a page.
    let padding = [0, 6000][random.below(2) as usize];
    let load =
        Load { name, threads: 2, queues: 2, count: 70, more_keys: 1, padding, sync, stop: &stop, report: &report };
    let loss = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send_all(&store, &load, seed));
        scope.spawn(|| save_all(&dir.path("config/saved.json"), &stop, &saved));
        let start = Instant::now();
        while !sender.is_finished() && lines.lock().unwrap().lines().count() < wanted {
            assert!(start.elapsed() < Duration::from_secs(60), "the load stands still");
            std::thread::sleep(Duration::from_micros(200));
        }
        if closes {
            stop.store(true, Ordering::Relaxed);
            sender.join().unwrap();
            store.close();
        }
        let loss = device.cut(random, |image| {
            let all = lines.lock().unwrap().clone();
            let flushed = store.flushed().get();
            let lines = if sync { all } else { on_the_device(&all, flushed) };
            Loss { dir: Dir::new().holding(image), lines, saved: *saved.lock().unwrap() }
        });
        stop.store(true, Ordering::Relaxed);
        loss
    });
    store.close();
    loss
}

/// Of acknowledged messages only what lies before `flushed` counts; nobody knows of the others.
fn on_the_device(lines: &str, flushed: u64) -> String {
    let keep = |line: &&str| {
        let phys = line.rsplit(' ').next().and_then(|phys| phys.parse::<u64>().ok());
        !line.starts_with("A ") || phys.is_some_and(|phys| phys < flushed)
    };
    lines.lines().filter(keep).map(|line| format!("{line}\n")).collect()
}

/// Saves one text after the other; notes the last that was begun and the last that was on disk.
fn save_all(path: &Path, stop: &AtomicBool, saved: &Mutex<(u64, u64)>) {
    let file = JsonFile::new(path);
    let first = number_in(path);
    for number in first + 1.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        saved.lock().unwrap().0 = number;
        file.save(&format!("{{\"number\":{number},\"pad\":\"{}\"}}", "x".repeat(5000))).unwrap();
        saved.lock().unwrap().1 = number;
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn number_in(path: &Path) -> u64 {
    match JsonFile::new(path).load().unwrap() {
        Loaded::Text { text, .. } => {
            serde_json::from_str::<serde_json::Value>(&text).unwrap()["number"].as_u64().unwrap()
        }
        Loaded::Missing => 0,
        Loaded::Damaged => panic!("a damaged file without a backup"),
    }
}

/// Loads and losses of one store, one after the other.
fn round(seed: u64) -> Told {
    let mut random = Random(seed);
    let sync = random.below(2) == 0;
    let mode = if sync { "SYNC_FLUSH" } else { "ASYNC_FLUSH" };
    let conf = format!("{QUICK}flushDiskType={mode}\n");
    let mut dir = Dir::new().with(&conf);
    let mut known: Vec<Message> = Vec::new();
    let mut total = Told::default();
    for number in 0..LIVES {
        let what = format!("seed {seed}, life {number}, {mode}");
        let loss = life(&dir, &format!("life{number}"), sync, &mut random);
        dir = loss.dir.with(&conf);
        let saved = number_in(&dir.path("config/saved.json"));
        let (begun, done) = loss.saved;
        assert!(done <= saved && saved <= begun, "{what}: text {done} of {begun} was saved, found {saved}");
        let store = dir.try_open().unwrap_or_else(|error| panic!("{what}: {error}"));
        let (told, found) = verify(&what, &store, &loss.lines, &known);
        known = found;
        total.acked += told.acked;
        total.unknown += told.unknown;
        total.unknown_stored += told.unknown_stored;
        // Either way to end, before the next life.
        if random.below(2) == 0 {
            store.close();
            drop(store);
            assert_eq!(dir.complaints(), None, "{what}");
        } else {
            let left = dir.copy();
            store.close();
            dir = left;
        }
    }
    check(&format!("seed {seed}"), &dir.with("flushDiskType=ASYNC_FLUSH\n"), &known, &[], &[]);
    total
}

#[test]
fn what_was_on_the_device_survives_a_loss_of_power() {
    let Some(rounds) = play(14, round) else { return };
    let mut total = Told::default();
    for told in &rounds {
        total.acked += told.acked;
        total.unknown += told.unknown;
        total.unknown_stored += told.unknown_stored;
    }
    println!("{} rounds of {LIVES} losses: {total:?}, lost 0", rounds.len());
    assert!(total.acked > 0);
}
