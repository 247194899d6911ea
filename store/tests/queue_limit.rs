//! More queues than may be mapped: what is added to the others is gathered in memory, and everything else is as before.
//! Alone in its file: the limit is the process's.

mod faults_support;
mod load_support;

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use faults_support::{Dir, check, messages};
use load_support::{Load, send_all, verify};
use store::queue::limit_mapped_files;

const CONF: &str =
    "flushIntervalConsumeQueue=20\nflushConsumeQueueLeastPages=0\nflushConsumeQueueThoroughInterval=40\n";

fn load(dir: &Dir, name: &str, queues: u64, close: bool) -> (Dir, String) {
    let store = dir.open();
    let (lines, stop) = (Mutex::new(String::new()), AtomicBool::new(false));
    let report = |line: &str| lines.lock().unwrap().push_str(line);
    let load = Load {
        name,
        threads: 2,
        queues,
        count: 300,
        more_keys: 0,
        padding: 0,
        sync: false,
        stop: &stop,
        report: &report,
    };
    send_all(&store, &load, 3);
    let left = dir.copy();
    store.close();
    let dir = if close { dir.copy() } else { left };
    (dir, lines.into_inner().unwrap())
}

#[test]
fn queues_beyond_the_limit() {
    let mut dir = Dir::new().with(CONF);
    let mut known = Vec::new();
    for (life, (limit, queues, close)) in
        [(5, 3, false), (0, 150, false), (3, 150, true), (0, 2, true), (1000, 2, false)].into_iter().enumerate()
    {
        limit_mapped_files(limit);
        let (left, lines) = load(&dir, &format!("life{life}"), queues, close);
        dir = left;
        let store = dir.open();
        let what = format!("life {life}");
        let (told, found) = verify(&what, &store, &lines, &known);
        assert!(told.acked >= 600 && told.unknown == 0);
        known = found;
        // By other ways to read than from the front.
        for queue in store.topics().iter().flat_map(|topic| store.queues_of(topic)) {
            let last = queue.max_offset() - 1;
            let mine = || known.iter().filter(|message| message.topic == queue.topic() && message.id == queue.id());
            for message in mine().skip(last as usize / 2).step_by(7) {
                let entry = queue.entry(message.offset).unwrap();
                assert_eq!(entry.unit.phys as u64, message.phys, "{what}");
            }
        }
        store.close();
        drop(store);
        assert_eq!(dir.complaints(), None, "{what}");
    }
    limit_mapped_files(2);
    check("at the end", &dir, &known, &[], &[]);
    let store = dir.open();
    assert_eq!(
        messages(&store).len(),
        known.len() + 2 * store.topics().iter().map(|t| store.queues_of(t).len()).sum::<usize>()
    );
}
