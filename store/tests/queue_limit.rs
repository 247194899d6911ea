//! More queues than may be mapped: what is added to the others is gathered in memory, and everything else is as before.
//! Alone in its file: the limit is the process's.

mod faults_support;
mod load_support;

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use faults_support::{Dir, check, messages};
use load_support::{Load, send_all, verify};
use store::queue::files::{Shape, UnitFiles};
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
    the_end_of_a_queue_is_read_from_memory();
}

/// A file beyond the limit: what was lately added is found without it, whether the file has it by now or not.
fn the_end_of_a_queue_is_read_from_memory() {
    limit_mapped_files(0);
    let dir = tempfile::tempdir().unwrap();
    let files = UnitFiles::empty(dir.path().join("T/0"), Shape::new(20, 20_000));
    let unit = |index: i64| [index as u8; 20];
    let read = |index: i64| {
        let mut out = [0; 20];
        files.read(index, &mut out).ok().filter(|there| *there).map(|_| out)
    };
    for index in 0..300 {
        files.write(index, &unit(index)).unwrap();
        for back in [0, 31] {
            let back = (index - back).max(0);
            assert_eq!(read(back), Some(unit(back)), "{back} of {index}");
        }
    }
    assert_eq!(read(7), Some(unit(7)));
    files.flush(0, 300).unwrap();
    let path = files.snapshot()[0].path().to_owned();
    let there = std::fs::read(&path).unwrap();
    assert!((0..300).all(|index| there[index * 20..][..20] == unit(index as i64)) && there[6000] == 0);
    std::fs::remove_file(path).unwrap();
    for index in 300 - 32..300 {
        assert_eq!(read(index), Some(unit(index)), "{index}");
    }
    assert_eq!(read(7), None);
}
