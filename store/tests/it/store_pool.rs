//! `transientStorePoolEnable`: a message is readable once it is committed, a stop commits all, a kill loses what was not.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::faults_support::{Dir, check, messages, send};
use crate::load_support::{Load, send_all, verify};

const POOL: &str = "transientStorePoolEnable=true\ntransientStorePoolSize=3\n";
const NEVER: &str = "commitIntervalCommitLog=3600000\ncommitCommitLogThoroughInterval=3600000\n";

fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn lives_of(dir: &Dir, name: &str) -> String {
    let store = dir.open();
    let (lines, stop) = (Mutex::new(String::new()), AtomicBool::new(false));
    let report = |line: &str| lines.lock().unwrap().push_str(line);
    let load = Load {
        name,
        threads: 3,
        queues: 2,
        count: 300,
        more_keys: 1,
        padding: 0,
        sync: false,
        stop: &stop,
        report: &report,
    };
    send_all(&store, &load, 7);
    store.close();
    lines.into_inner().unwrap()
}

#[test]
fn messages_become_readable_by_a_commit() {
    let dir = Dir::new().with(&format!("{POOL}commitIntervalCommitLog=20\n"));
    let store = dir.open();
    let appended = send(&store, "T", 0, "first", b"x");
    assert_eq!((appended.phys_offset, appended.queue_offset), (0, 0));
    until("the commit", || store.dispatched() == appended.end);
    until("the flush", || store.flushed().get() == appended.end || store.uncommitted() == 0);
    assert_eq!(messages(&store).len(), 1);
    assert_eq!((store.uncommitted(), store.pool_remaining()), (0, Some(3)));
}

#[test]
fn nothing_is_readable_before_and_a_stop_commits_all() {
    let dir = Dir::new().with(&format!("{POOL}{NEVER}"));
    let store = dir.open();
    for number in 0..20 {
        let appended = send(&store, "T", 0, &format!("k{number}"), b"x");
        assert_eq!(appended.queue_offset, number);
    }
    assert_eq!((store.wrote().get(), store.dispatched(), messages(&store).len()), (0, 0, 0));
    assert!(store.uncommitted() > 0 && store.pool_remaining() == Some(2));
    let killed = dir.copy();
    store.close();
    drop(store);
    let store = dir.open();
    let all = messages(&store);
    assert_eq!(all.len(), 20);
    store.close();
    drop(store);
    check("after a stop", &dir.with("commitIntervalCommitLog=1\ntransientStorePoolEnable=false\n"), &all, &[], &[]);
    // As with Java: what was acknowledged and not committed is gone with the process.
    let store = killed.open();
    assert_eq!((store.log_range(), messages(&store).len()), (0..0, 0));
}

#[test]
fn more_than_the_buffers_hold_is_written_at_once() {
    let dir = Dir::new().with(&format!("{POOL}{NEVER}"));
    let lines = lives_of(&dir, "one");
    // Without a pool it is the same store.
    let dir = dir.with("transientStorePoolEnable=false\n");
    let store = dir.open();
    let (told, found) = verify("written through the pool", &store, &lines, &[]);
    assert_eq!((told.acked, told.failed, told.unknown), (found.len(), 0, 0));
    assert!(found.len() >= 900);
    store.close();
    drop(store);
    check("through the pool", &dir, &found, &[], &[]);
    // And on with it.
    let dir = dir.with(&format!("{POOL}commitIntervalCommitLog=2\n"));
    let lines = lives_of(&dir, "two");
    let dir = dir.with("transientStorePoolEnable=false\n");
    let store = dir.open();
    let found = messages(&store).into_iter().filter(|message| !message.keys[0].starts_with("two")).collect::<Vec<_>>();
    let told = verify("with both", &store, &lines, &found).0;
    assert!(told.acked >= 900 && told.unknown == 0);
}

#[test]
fn without_a_free_buffer_sends_are_refused_if_so_configured() {
    let conf = format!("{POOL}{NEVER}transientStorePoolSize=1\nfastFailIfNoBufferInStorePool=true\n");
    let dir = Dir::new().with(&conf);
    let store = dir.open();
    send(&store, "T", 0, "k", b"x");
    // The only buffer is being filled.
    assert!(store.page_cache_busy());
    let refused = AtomicBool::new(false);
    let report = |line: &str| refused.store(line.starts_with("F "), Ordering::Relaxed);
    let stop = AtomicBool::new(false);
    let load = Load {
        name: "no",
        threads: 1,
        queues: 2,
        count: 1,
        more_keys: 0,
        padding: 0,
        sync: false,
        stop: &stop,
        report: &report,
    };
    send_all(&store, &load, 1);
    assert!(refused.load(Ordering::Relaxed));
}

#[test]
fn with_synchronous_flush_there_is_no_pool() {
    let dir = Dir::new().with(&format!("{POOL}flushDiskType=SYNC_FLUSH\n"));
    let store = dir.open();
    assert_eq!(store.pool_remaining(), None);
    let appended = send(&store, "T", 0, "k", b"x");
    assert_eq!(store.wrote().get(), appended.end);
}
