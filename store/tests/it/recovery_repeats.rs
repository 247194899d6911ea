//! A recovery is not done twice: a broker that is killed as soon as it is up, or while it starts, begins where the last
//! recovery came to. Alone in its file: fed records are counted for the whole process.

use std::fs;

use crate::faults_support::{Dir, check, made, messages, zero};
use store::checkpoint::Checkpoint;
use store::failpoint::{self, Point};

/// Opens what a kill left and kills again at once; returns what that leaves, and how many records were fed.
fn start_and_kill(dir: &Dir) -> (Dir, u64) {
    let before = failpoint::hits(Point::OpenRecord);
    let store = dir.open();
    let fed = failpoint::hits(Point::OpenRecord) - before;
    // Before any thread of the store has come round.
    let left = dir.copy();
    store.close();
    (left, fed)
}

#[test]
fn what_was_recovered_is_not_recovered_again() {
    failpoint::arm(None);
    let (dir, known) = made(false);
    let all = known.len() as u64;
    let files = fs::read_dir(dir.path("commitlog")).unwrap().count() as u64;
    for (name, fault) in [
        ("no checkpoint", (|dir| fs::remove_file(dir.path("checkpoint")).unwrap()) as fn(&Dir)),
        ("a checkpoint of zeros", |dir| zero(&dir.path("checkpoint"), 0)),
        ("no queues", |dir| fs::remove_dir_all(dir.path("consumequeue")).unwrap()),
        ("no index", |dir| fs::remove_dir_all(dir.path("index")).unwrap()),
        ("everything", |dir| {
            fs::remove_file(dir.path("checkpoint")).unwrap();
            fs::remove_dir_all(dir.path("consumequeue")).unwrap();
            fs::remove_dir_all(dir.path("index")).unwrap();
        }),
    ] {
        let dir = dir.copy();
        fault(&dir);
        let (left, first) = start_and_kill(&dir);
        if name != "no index" {
            assert_eq!(first, all, "{name}: everything is fed");
        }
        let checkpoint = Checkpoint::open(&left.path("checkpoint")).unwrap();
        assert_eq!(checkpoint.logics_phys_offset.get(), known.last().unwrap().phys as i64, "{name}");
        let (left, second) = start_and_kill(&left);
        assert!(second < all * 2 / files, "{name}: {second} of {all} records are fed again");
        let store = left.open();
        assert_eq!(messages(&store), known, "{name}");
        store.close();
        drop(store);
        check(name, &left, &known, &[], &[]);
    }
}
