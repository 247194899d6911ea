use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const GEOMETRY: Geometry = Geometry { slots: 100, capacity: 400 };

fn writer(dir: &Path, geometry: Geometry) -> (Arc<Index>, IndexWriter) {
    let index = Arc::new(Index::load(dir.join("index"), geometry, None).unwrap());
    (Arc::clone(&index), IndexWriter::new(index))
}

fn found(index: &Index, key: &str, begin: i64, end: i64) -> Vec<i64> {
    let mut found = Vec::new();
    index.visit(Index::hash("T", key, KeyKind::Key), begin, end, |phys| {
        found.push(phys);
        ControlFlow::Continue(())
    });
    found
}

fn prefix() -> KeyHash {
    KeyHash::new().push(b"T#")
}

#[test]
fn newest_first_over_several_files() {
    let dir = tempfile::tempdir().unwrap();
    let (index, mut writer) = writer(dir.path(), Geometry { slots: 7, capacity: 10 });
    for i in 0..25 {
        writer.put_hash(prefix().push(b"dup"), i * 100, 1_000_000 + i * 1000).unwrap();
    }
    assert_eq!(index.files().len(), 3);
    assert_eq!(found(&index, "dup", 0, i64::MAX), (0..25).rev().map(|i| i * 100).collect::<Vec<_>>());
    assert_eq!(found(&index, "dup", 1_005_000, 1_007_000), [700, 600, 500]);
    assert_eq!(found(&index, "none", 0, i64::MAX), [0i64; 0]);
    assert_eq!(index.end_phys(), 2400);
    // Names are the order, although all were made in the same few milliseconds.
    let names: Vec<_> = index.files().iter().map(|file| file.path().to_owned()).collect();
    assert!(names.is_sorted() && names.iter().all(|path| is_name(path)));
    // The header of a file begins with the end of the one before until it has an entry of its own.
    assert_eq!(index.files()[1].begin_phys(), 900);
    assert_eq!(index.flush_full().unwrap(), 1_017_000);
    drop(writer);
    let again = Index::load(dir.path().join("index"), Geometry { slots: 7, capacity: 10 }, None).unwrap();
    assert_eq!(found(&again, "dup", 0, i64::MAX).len(), 25);
    assert_eq!(again.delete_expired(901).unwrap(), 1);
    assert_eq!(found(&again, "dup", 0, i64::MAX).last(), Some(&900));
}

/// Three files with entries 1 to 9, 9 to 18 and 18 to 25 of one key.
fn three_files(dir: &Path) -> Vec<PathBuf> {
    let (index, mut writer) = writer(dir, Geometry { slots: 7, capacity: 10 });
    for i in 0..25 {
        writer.put_hash(prefix().push(b"dup"), i * 100, 1_000_000 + i * 1000).unwrap();
    }
    index.files().iter().map(|file| file.path().to_owned()).collect()
}

/// Opens what a kill left; the checkpoint covers the first file.
fn after_a_kill(dir: &Path) -> Index {
    Index::load(dir.join("index"), Geometry { slots: 7, capacity: 10 }, Some(1_008_000)).unwrap()
}

fn overwrite(path: &Path, at: usize, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at as u64).unwrap();
}

#[test]
fn after_an_unclean_stop_whole_files_stay_and_become_durable() {
    let dir = tempfile::tempdir().unwrap();
    three_files(dir.path());
    let again = after_a_kill(dir.path());
    assert_eq!((again.files().len(), again.end_phys(), again.is_damaged()), (3, 2400, false));
    assert_eq!(found(&again, "dup", 0, i64::MAX).len(), 25);
    // Nobody knew whether the second one was on the device.
    assert_eq!(again.flush_full().unwrap(), 1_017_000);
}

#[test]
fn entries_that_do_not_fit_together_are_found_at_the_start() {
    // The fields of the fourth entry of the second file: hash, physical offset, next older one.
    let other = Index::hash("T", "dup", KeyKind::Key) as u32 + 1;
    for (field, value) in [(0, other), (8, 0), (8, 9999), (16, 2), (16, 4), (16, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let files = three_files(dir.path());
        overwrite(&files[1], 40 + 7 * 4 + 4 * 20 + field, &u32::to_be_bytes(value));
        let again = after_a_kill(dir.path());
        assert_eq!((again.files().len(), again.end_phys(), again.is_damaged()), (1, 800, true), "{field} {value}");
        assert!(!files[2].exists());
    }
}

#[test]
fn a_slot_that_leads_elsewhere_is_set_right() {
    for value in [0, 1, 8, 9, u32::MAX] {
        let dir = tempfile::tempdir().unwrap();
        let files = three_files(dir.path());
        for slot in 0..7 {
            overwrite(&files[2], 40 + slot * 4, &u32::to_be_bytes(value));
        }
        let (index, mut writer) = writer(dir.path(), Geometry { slots: 7, capacity: 10 });
        writer.put_hash(prefix().push(b"dup"), 2500, 1_025_000).unwrap();
        assert_eq!(found(&index, "dup", 0, i64::MAX).len(), 26, "{value}");
    }
}

#[test]
fn the_next_file_is_made_ahead_and_only_shown_when_it_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let geometry = Geometry { slots: 1000, capacity: 100_000 };
    let (index, mut writer) = writer(dir.path(), geometry);
    let mut put = |range: std::ops::Range<i64>| {
        range.for_each(|i| writer.put_hash(prefix().push(&i.to_be_bytes()), i, 1_000_000 + i).unwrap());
    };
    put(1..74_000);
    index.flush_full().unwrap();
    assert!(!dir.path().join("index.next").exists());
    put(74_000..80_000);
    index.flush_full().unwrap();
    assert!(dir.path().join("index.next").exists());
    assert_eq!(fs::read_dir(dir.path().join("index")).unwrap().count(), 1);
    put(80_000..101_000);
    assert!(!dir.path().join("index.next").exists());
    assert_eq!((index.files().len(), index.files()[1].begin_phys()), (2, 100_000));
    put(101_000..190_000);
    index.flush_full().unwrap();
    // At the end it goes, and what a crash left goes at the start.
    index.flush_all().unwrap();
    assert!(!dir.path().join("index.next").exists());
    fs::write(dir.path().join("index.next"), "x").unwrap();
    let again = Index::load(dir.path().join("index"), geometry, None).unwrap();
    assert_eq!((again.files().len(), again.end_phys()), (2, 189_999));
    assert!(!dir.path().join("index.next").exists());
}

#[test]
fn foreign_files_are_passed_over_and_damaged_ones_removed() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("index")).unwrap();
    fs::write(dir.path().join("index/20261129165122100"), "short").unwrap();
    fs::write(dir.path().join("index/note.txt"), "x").unwrap();
    let index = Index::load(dir.path().join("index"), GEOMETRY, None).unwrap();
    assert!(index.files().is_empty() && index.is_damaged());
    assert!(!dir.path().join("index/20261129165122100").exists() && dir.path().join("index/note.txt").exists());
}

#[test]
fn a_garbled_file_never_loops() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("20261129165122100");
    // Every word the same: slots and chains point at one entry, which points at itself.
    for word in [1u32, 2, 399, 400, u32::MAX, 0x8000_0000] {
        let bytes: Vec<u8> = std::iter::repeat_n(word.to_be_bytes(), GEOMETRY.file_len() / 4).flatten().collect();
        fs::write(&path, bytes).unwrap();
        let file = IndexFile::open(&path, GEOMETRY).unwrap();
        let mut visited = 0;
        let _ = file.visit(word as i32 & i32::MAX, i64::MIN, i64::MAX, |_| {
            visited += 1;
            ControlFlow::Continue(())
        });
        assert!(visited <= 400);
        let _ = file.put(5, 1, 1);
    }
}

proptest! {
    #[test]
    fn everything_that_was_put_is_found(keys in prop::collection::vec((0..50u8, 0..5i64), 1..300)) {
        let dir = tempfile::tempdir().unwrap();
        let (index, mut writer) = writer(dir.path(), Geometry { slots: 13, capacity: 64 });
        let mut expected: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
        let mut time = 1_000_000;
        for (phys, (key, step)) in keys.iter().enumerate() {
            time += step * 700;
            writer.put_hash(prefix().push(format!("key{key}").as_bytes()), phys as i64, time).unwrap();
            expected.entry(*key).or_default().insert(0, phys as i64);
        }
        for (key, expected) in expected {
            prop_assert_eq!(found(&index, &format!("key{key}"), 0, i64::MAX), expected);
        }
    }

    #[test]
    fn any_bytes_in_the_file(bytes in prop::collection::vec(any::<u8>(), 40 + 8 * 4 + 16 * 20)) {
        let geometry = Geometry { slots: 8, capacity: 16 };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("20261129165122100");
        fs::write(&path, bytes).unwrap();
        let file = IndexFile::open(&path, geometry).unwrap();
        for hash in 0..8 {
            let _ = file.visit(hash, i64::MIN, i64::MAX, |_| ControlFlow::Continue(()));
            let _ = file.put(hash, 7, 7);
        }
    }
}
