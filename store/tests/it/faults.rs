//! Faults: a good store, one thing broken in it, and then the start. Never a panic; either the start is refused with the
//! file's name and nothing is changed, or everything that is still whole in the log is there, in its place, and new
//! messages go on exactly behind.

use std::fs;
use std::path::Path;

use crate::faults_support::{Dir, LOG_FILE, Message, QUEUE_FILE, check, invert, made, messages, overwrite, zero};
use store::record::RecordView;

/// Both ways to end: the store and its messages.
fn both() -> [(&'static str, Dir, Vec<Message>); 2] {
    let (clean, clean_messages) = made(true);
    let (killed, killed_messages) = made(false);
    [("clean", clean, clean_messages), ("killed", killed, killed_messages)]
}

/// Breaks a copy of each store with `fault`; all messages must still be there.
fn loses_nothing(name: &str, fault: impl Fn(&Dir)) {
    for (end, dir, known) in both() {
        fault(&dir);
        check(&format!("{name}, {end}"), &dir, &known, &[], &[]);
    }
}

/// The start is refused with the name of the file, and changes nothing.
fn is_refused(name: &str, file: &str, fault: impl Fn(&Dir)) {
    for (end, dir, _) in both() {
        fault(&dir);
        let before = dir.contents();
        let error = dir.try_open().map(drop).unwrap_err().to_string();
        assert!(error.contains(file), "{name}, {end}: {error}");
        let after = dir.contents();
        let changed: Vec<_> = after.iter().filter(|(path, bytes)| before.get(*path) != Some(bytes)).collect();
        assert!(changed.is_empty() && before.len() == after.len(), "{name}, {end}: {:?}", changed.first().map(|c| c.0));
    }
}

#[test]
fn the_unbroken_store() {
    loses_nothing("nothing", |_| {});
}

/// The place of a record in its file, and the file's length.
type Break = fn(&Path, at: u64, size: u64);

/// What can stand at the place of a record. Everything from that record on is lost.
const BROKEN_RECORDS: [(&str, Break); 17] = [
    ("zeros", |path, at, _| zero(path, at)),
    ("zeros behind the head", |path, at, _| zero(path, at + 8)),
    ("the first half", |path, at, size| zero(path, at + size / 2)),
    ("all but a byte of the body", |path, at, size| zero(path, at + size - 40)),
    ("all but the last byte", |path, at, size| zero(path, at + size - 1)),
    ("an unknown magic", |path, at, _| overwrite(path, at + 4, &0x1234_5678i32.to_be_bytes())),
    ("a negative size", |path, at, _| overwrite(path, at, &(-5i32).to_be_bytes())),
    ("the smallest size", |path, at, _| overwrite(path, at, &i32::MIN.to_be_bytes())),
    ("the largest size", |path, at, _| overwrite(path, at, &i32::MAX.to_be_bytes())),
    ("no size", |path, at, _| overwrite(path, at, &0i32.to_be_bytes())),
    ("a size below the fixed parts", |path, at, _| overwrite(path, at, &20i32.to_be_bytes())),
    ("a size across the file's end", |path, at, _| {
        overwrite(path, at, &((LOG_FILE - at % LOG_FILE + 100) as i32).to_be_bytes());
    }),
    ("a size that takes in the next record", |path, at, size| {
        overwrite(path, at, &((2 * size) as i32).to_be_bytes());
    }),
    ("a negative length of the body", |path, at, _| overwrite(path, at + 84, &(-1i32).to_be_bytes())),
    ("a huge length of the body", |path, at, _| overwrite(path, at + 84, &i32::MAX.to_be_bytes())),
    ("another physical offset", |path, at, _| overwrite(path, at + 28, &77i64.to_be_bytes())),
    ("an inverted byte of the body", |path, at, _| invert(path, at + 90)),
];

#[test]
fn broken_records_at_the_end_of_the_log() {
    for (end, dir, known) in both() {
        for (name, fault) in BROKEN_RECORDS {
            let dir = dir.copy();
            let back = if end == "clean" { 1 } else { 5 };
            if name == "all but the last byte" && end == "clean" {
                // No crc covers the properties: after a clean stop, when nothing can be torn, this is not seen.
                continue;
            }
            let at = known.len() - back;
            let base = known[at].phys / LOG_FILE * LOG_FILE;
            assert!(base > 0 && base == known.last().unwrap().phys / LOG_FILE * LOG_FILE);
            fault(&dir.log_file(base), known[at].phys - base, known[at].size);
            let (whole, gone) = known.split_at(at);
            check(&format!("{name} {back} before the end, {end}"), &dir, whole, gone, &[]);
        }
    }
}

/// Everything of the last file, as when its pages were never written.
#[test]
fn zeros_from_the_start_of_the_last_log_file() {
    for (end, dir, known) in both() {
        let base = known.last().unwrap().phys / LOG_FILE * LOG_FILE;
        zero(&dir.log_file(base), 0);
        let (whole, gone) = known.split_at(known.partition_point(|message| message.phys < base));
        check(&format!("a last file of zeros, {end}"), &dir, whole, gone, &[]);
    }
}

#[test]
fn a_further_log_file_of_zeros() {
    loses_nothing("a file made ahead", |dir| {
        let next = fs::read_dir(dir.path("commitlog")).unwrap().count() as u64 * LOG_FILE;
        fs::write(dir.log_file(next), vec![0; LOG_FILE as usize]).unwrap();
    });
}

/// Without a log file in the middle its messages are gone, the others stay where they are.
#[test]
fn a_missing_log_file() {
    for (end, dir, known) in both() {
        for base in [0, LOG_FILE] {
            let dir = dir.copy();
            fs::remove_file(dir.log_file(base)).unwrap();
            let (gone, whole): (Vec<_>, Vec<_>) =
                known.iter().cloned().partition(|message| message.phys / LOG_FILE * LOG_FILE == base);
            check(&format!("no log file {base}, {end}"), &dir, &whole, &gone, &[("Quiet", 0, 130)]);
        }
    }
}

#[test]
fn empty_and_wrongly_sized_log_files() {
    let size = |base: u64, len: u64| {
        move |dir: &Dir| fs::OpenOptions::new().write(true).open(dir.log_file(base)).unwrap().set_len(len).unwrap()
    };
    is_refused("an empty first file", "commitlog/00000000000000000000", size(0, 0));
    is_refused("an empty middle file", "commitlog/00000000000000065536", size(LOG_FILE, 0));
    for len in [1, LOG_FILE - 1, LOG_FILE + 10, 2 * LOG_FILE] {
        for base in [0, LOG_FILE, 2 * LOG_FILE] {
            is_refused("a wrong size", &format!("commitlog/{base:020}"), size(base, len));
        }
    }
    for (end, dir, known) in both() {
        let base = known.last().unwrap().phys / LOG_FILE * LOG_FILE;
        // One that is made ahead: the empty one would not be the last.
        let _ = fs::remove_file(dir.log_file(base + LOG_FILE));
        size(base, 0)(&dir);
        let (whole, gone) = known.split_at(known.partition_point(|message| message.phys < base));
        check(&format!("an empty last file, {end}"), &dir, whole, gone, &[]);
    }
}

#[test]
fn lost_queues() {
    for lost in ["consumequeue", "consumequeue/Quiet", "consumequeue/Busy", "consumequeue/Busy/1"] {
        loses_nothing(lost, |dir| fs::remove_dir_all(dir.path(lost)).unwrap());
    }
}

#[test]
fn lost_queue_files() {
    for (topic, id, file) in [("Quiet", 0, 0), ("Quiet", 0, 1), ("Busy", 0, 0), ("Busy", 1, 1)] {
        loses_nothing(&format!("no file {file} of {topic} {id}"), |dir| {
            fs::remove_file(dir.queue_file(topic, id, file)).unwrap();
        });
    }
}

#[test]
fn empty_and_wrongly_sized_queue_files() {
    loses_nothing("an empty last file", |dir| fs::write(dir.queue_file("Quiet", 0, 1), "").unwrap());
    loses_nothing("an empty further file", |dir| fs::write(dir.queue_file("Quiet", 0, 2), "").unwrap());
    loses_nothing("a further file of zeros", |dir| {
        fs::write(dir.queue_file("Quiet", 0, 2), vec![0; QUEUE_FILE as usize]).unwrap();
    });
    is_refused("an empty first file", "consumequeue/Quiet/0/00000000000000000000", |dir| {
        fs::write(dir.queue_file("Quiet", 0, 0), "").unwrap();
    });
    is_refused("a short last file", "consumequeue/Quiet/0/00000000000000002000", |dir| {
        fs::write(dir.queue_file("Quiet", 0, 1), "short").unwrap();
    });
}

/// Units of records that the log does not have.
#[test]
fn queues_ahead_of_the_log() {
    for (end, dir, known) in both() {
        let last = known.last().unwrap().end();
        for phys in [last, last + 1000, last + 10 * LOG_FILE, i64::MAX as u64 - 10_000] {
            let dir = dir.copy();
            for i in 0..3 {
                let mut unit = (phys + 200 * i).to_be_bytes().to_vec();
                unit.extend(200i32.to_be_bytes());
                unit.extend(0i64.to_be_bytes());
                overwrite(&dir.queue_file("Quiet", 0, 1), (30 + i) * 20, &unit);
            }
            check(&format!("units at {phys}, {end}"), &dir, &known, &[], &[]);
        }
    }
}

#[test]
fn lost_index() {
    loses_nothing("no index", |dir| fs::remove_dir_all(dir.path("index")).unwrap());
    loses_nothing("no last index file", |dir| {
        let mut files: Vec<_> = fs::read_dir(dir.path("index")).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        assert!(files.len() > 1);
        fs::remove_file(files.pop().unwrap()).unwrap();
    });
    loses_nothing("no first index file", |dir| fs::remove_file(index_file(dir, 0)).unwrap());
}

fn index_file(dir: &Dir, at: usize) -> std::path::PathBuf {
    let mut files: Vec<_> = fs::read_dir(dir.path("index")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.swap_remove(at)
}

#[test]
fn bad_index_headers() {
    for file in [0, 1] {
        for (name, at, bytes) in [
            ("an end before the start", 24, &[0xff; 8][..]),
            ("an end far ahead", 24, &[0x7f; 8]),
            ("no end", 24, &[0; 8]),
            ("an end time far ahead", 8, &[0x7f; 8]),
            ("no count", 36, &[0; 4]),
            ("a negative count", 36, &[0xff; 4]),
            ("a huge count", 36, &[0x7f; 4]),
            ("zeros", 0, &[0; 40]),
            ("noise", 0, &[0xa5; 40]),
        ] {
            loses_nothing(&format!("{name} in index file {file}"), |dir| overwrite(&index_file(dir, file), at, bytes));
        }
    }
}

#[test]
fn garbled_index_chains() {
    loses_nothing("a short file", |dir| fs::write(index_file(dir, 0), "short").unwrap());
    // Below a sound header.
    type Fault = fn(&Path);
    let wild: [(&str, Fault); 5] = [
        ("wild slots", |file| overwrite(file, 40, &[0x7f; 400])),
        ("no slots", |file| overwrite(file, 40, &[0; 400])),
        ("chains to one entry", |file| {
            (2..399u64).for_each(|entry| overwrite(file, 440 + entry * 20 + 16, &399u32.to_be_bytes()));
        }),
        ("an entry of zeros", |file| overwrite(file, 440 + 200 * 20, &[0; 20])),
        ("another hash", |file| overwrite(file, 440 + 200 * 20 + 3, &[0x55])),
    ];
    for (name, fault) in wild {
        for file in [0, 1] {
            loses_nothing(&format!("{name} in index file {file}"), |dir| fault(&index_file(dir, file)));
        }
    }
}

#[test]
fn damaged_checkpoints() {
    loses_nothing("none", |dir| fs::remove_file(dir.path("checkpoint")).unwrap());
    for content in [vec![], vec![1; 20], vec![0; 4096], vec![0xff; 4096], vec![0x7f; 4096], vec![0x11; 5000]] {
        loses_nothing(&format!("{} bytes {:?}", content.len(), content.first()), |dir| {
            fs::write(dir.path("checkpoint"), &content).unwrap();
        });
    }
    // A time that is far ahead, with and without the offset that newer versions look at.
    for offset in [0, i64::MAX] {
        loses_nothing(&format!("absurd times and offset {offset}"), |dir| {
            for at in [0, 8, 16] {
                overwrite(&dir.path("checkpoint"), at, &(i64::MAX - 5).to_be_bytes());
            }
            overwrite(&dir.path("checkpoint"), 40, &offset.to_be_bytes());
        });
    }
    // The same with what a checkpoint is there for.
    for lost in ["consumequeue/Quiet", "consumequeue", "index"] {
        loses_nothing(&format!("an absurd checkpoint and no {lost}"), |dir| {
            for at in (0..48).step_by(8) {
                overwrite(&dir.path("checkpoint"), at, &(i64::MAX - 5).to_be_bytes());
            }
            fs::remove_dir_all(dir.path(lost)).unwrap();
        });
    }
}

#[test]
fn an_abort_file_with_clean_data_and_none_after_a_kill() {
    let (dir, known) = made(true);
    fs::write(dir.path("abort"), "1").unwrap();
    check("an abort file", &dir, &known, &[], &[]);
    let (dir, known) = made(false);
    fs::remove_file(dir.path("abort")).unwrap();
    check("no abort file", &dir, &known, &[], &[]);
}

/// The same faults on stores that a Java broker left.
#[test]
fn recorded_stores_lose_nothing() {
    for name in ["basic", "unclean_sigkill"] {
        let golden = Dir::golden(name);
        let known = messages(&golden.copy().open());
        assert!(known.len() > 100);
        type Fault = fn(&Dir);
        let faults: [(&str, Fault); 5] = [
            ("queues", |dir| fs::remove_dir_all(dir.path("consumequeue")).unwrap()),
            ("index", |dir| fs::remove_dir_all(dir.path("index")).unwrap()),
            ("checkpoint", |dir| fs::remove_file(dir.path("checkpoint")).unwrap()),
            ("all three", |dir| {
                fs::remove_dir_all(dir.path("consumequeue")).unwrap();
                fs::remove_dir_all(dir.path("index")).unwrap();
                fs::remove_file(dir.path("checkpoint")).unwrap();
            }),
            ("abort file", |dir| fs::write(dir.path("abort"), "").unwrap()),
        ];
        for (what, fault) in faults {
            let dir = golden.copy();
            fault(&dir);
            let store = dir.open();
            let found = messages(&store);
            let missing: Vec<_> = known.iter().filter(|message| !found.contains(message)).take(3).collect();
            assert!(missing.is_empty(), "{name} without {what}: {missing:?}");
            for message in &found {
                for key in &message.keys {
                    let records = store.query(&message.topic, key, 64, 0..i64::MAX).records;
                    assert!(
                        records.len() == 64 || records.iter().any(|record| record.offset() == message.phys),
                        "{name} without {what}: {key} of {message:?}"
                    );
                }
                let record = store.record_at(message.phys).unwrap();
                assert_eq!(RecordView::parse(&record).unwrap().queue_offset(), message.offset);
            }
        }
    }
}
