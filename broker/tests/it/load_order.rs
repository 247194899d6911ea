//! Nothing is saved before everything is loaded.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use crate::common::{LIMIT, Peer, setup};
use broker::start;
use rustix::fs::{CWD, Mode, mkfifoat};

/// A slow load: the file of the groups is a pipe that nobody has written into yet. Meanwhile the saves of the delay levels
/// come due many times.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f_05_config_write_before_load() {
    let dir = tempfile::tempdir().unwrap();
    let config = |setup: &mut config::BrokerSetup| {
        setup.store.flush_delay_offset_interval = 20;
        setup.store.message_delay_level = "1s 5s".into();
    };
    let running = start(setup(dir.path(), config)).await.unwrap();
    let mut peer = Peer::connect(running.addr()).await;
    peer.create_topic("T", 1, 6).await;
    for number in 0..5 {
        peer.put("T", 0, "DELAY=1;", &format!("m{number}")).await;
    }
    peer.wait_for_offset("T", 0, 5).await;
    running.stop().await;

    let delays = dir.path().join("config/delayOffset.json");
    let before = fs::read(&delays).unwrap();
    assert_eq!(level_one(&before), 5);
    let groups = dir.path().join("config/subscriptionGroup.json");
    let content = fs::read(&groups).unwrap();
    fs::remove_file(&groups).unwrap();
    mkfifoat(CWD, &groups, Mode::from_raw_mode(0o600)).unwrap();
    let starting = tokio::spawn(start(setup(dir.path(), config)));
    // Opens when the broker has come to read it.
    let pipe = tokio::task::spawn_blocking({
        let groups = groups.clone();
        move || fs::OpenOptions::new().write(true).open(groups).unwrap()
    });
    let mut pipe = tokio::time::timeout(LIMIT, pipe).await.expect("the file is read").unwrap();
    // Nothing while the file is being replaced.
    let inode = || fs::metadata(&delays).ok().map(|found| found.ino());
    let old = inode().unwrap();
    let watched = Instant::now();
    while watched.elapsed() < Duration::from_millis(400) {
        assert_eq!(fs::read(&delays).unwrap(), before, "saved while loading");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!starting.is_finished());
    pipe.write_all(&content).unwrap();
    drop(pipe);

    let running = starting.await.unwrap().unwrap();
    // Every text that is saved from now on says at least 5.
    let deadline = Instant::now() + LIMIT;
    let mut peer = Peer::connect(running.addr()).await;
    peer.put("T", 0, "DELAY=1;", "m5").await;
    while inode().is_none_or(|now| now == old) {
        assert!(Instant::now() < deadline, "nothing is saved");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(level_one(&fs::read(&delays).unwrap()) >= 5);
    peer.wait_for_offset("T", 0, 6).await;
    assert_eq!(peer.max_offset("T", 0).await, 6, "a message was delivered twice");
    running.stop().await;
    assert_eq!(level_one(&fs::read(&delays).unwrap()), 6);
}

/// Where level 1 is, by the file's text.
fn level_one(text: &[u8]) -> i64 {
    let text: String = String::from_utf8_lossy(text).split_whitespace().collect();
    let digits = text.split_once("1:").expect("level 1").1;
    digits.split(|char: char| !char.is_ascii_digit()).next().unwrap().parse().unwrap()
}
