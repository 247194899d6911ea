//! A model of what a disk has of a directory while a store works in it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use store::failpoint::{self, Event};

use super::faults_support::Image;
use super::load_support::Random;

/// Configuration of a store that flushes as often as it can.
pub const QUICK: &str = "flushIntervalCommitLog=4\nflushCommitLogLeastPages=0\nflushIntervalConsumeQueue=10\n\
    flushConsumeQueueLeastPages=0\nflushConsumeQueueThoroughInterval=25\n";

const PAGE: u64 = 4096;
/// Smaller writes than a page are torn at these.
const SECTOR: u64 = 512;

/// Plays rounds, `usual` many when `POWER_LOSS_ROUNDS` says nothing else; the same few each time, and some that nobody has tried
/// yet. `None` when `POWER_LOSS_SEED` had one repeated.
pub fn play<T: std::fmt::Debug>(usual: u64, round: impl Fn(u64) -> T) -> Option<Vec<T>> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let round = |seed| {
        println!("POWER_LOSS_SEED={seed}");
        round(seed)
    };
    if let Some(seed) = number("POWER_LOSS_SEED") {
        println!("{:?}", round(seed));
        return None;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_nanos() as u64;
    let rounds = number("POWER_LOSS_ROUNDS").unwrap_or(usual);
    Some((1..=rounds.min(4)).chain((4..rounds).map(|at| now + at)).map(round).collect())
}

/// See the module's text. Hears of the store from its making until it is dropped.
pub struct Device {
    root: PathBuf,
    /// Held by whoever makes a durable change; a cut waits for all and stops the next ones.
    power: Arc<RwLock<()>>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// By inode.
    files: HashMap<u64, Synced>,
    /// Inodes by the names that are durable.
    names: BTreeMap<PathBuf, u64>,
    dirs: HashSet<PathBuf>,
    /// Changes of names that are not durable yet, in order.
    changes: Vec<Change>,
    /// What each thread is syncing.
    syncing: HashMap<ThreadId, Syncing>,
    clock: u64,
}

/// A sync under way.
struct Syncing {
    inode: u64,
    /// When it began.
    time: u64,
    /// Pages as they were then.
    pages: BTreeMap<u64, Vec<u8>>,
}

/// What is durable of a file.
#[derive(Clone, Default)]
struct Synced {
    len: Option<u64>,
    /// Content by page, with the time of the sync that brought it.
    pages: BTreeMap<u64, (u64, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum Change {
    Created(PathBuf, u64),
    Renamed(PathBuf, PathBuf, u64),
    Removed(PathBuf),
    /// A directory went with these files.
    RemovedDir(PathBuf, Vec<(PathBuf, u64)>),
}

impl Change {
    fn dir(&self) -> &Path {
        let (Change::Created(path, _)
        | Change::Renamed(_, path, _)
        | Change::Removed(path)
        | Change::RemovedDir(path, _)) = self;
        path.parent().expect("a file lies in a directory")
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Change::Created(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            Change::Renamed(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
            Change::Removed(path) => {
                names.remove(path);
            }
            Change::RemovedDir(_, files) => names.retain(|path, inode| !files.contains(&(path.clone(), *inode))),
        }
    }
}

impl Device {
    /// Everything below the directory is durable now.
    pub fn over(root: &Path) -> Device {
        let mut state = State::default();
        let mut todo = vec![root.to_owned()];
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten() {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    todo.push(path);
                    continue;
                }
                let file = File::open(&path).expect("a file");
                let meta = file.metadata().expect("its size");
                let pages = pages(&file, 0, meta.len()).into_iter().map(|(at, bytes)| (at, (0, bytes))).collect();
                state.files.insert(meta.ino(), Synced { len: Some(meta.len()), pages });
                state.names.insert(path, meta.ino());
            }
            state.dirs.insert(dir);
        }
        let device = Device { root: root.to_owned(), power: Arc::default(), state: Arc::new(Mutex::new(state)) };
        let (power, state, root) = (Arc::clone(&device.power), Arc::clone(&device.state), device.root.clone());
        failpoint::observe(Some(Arc::new(move |event| {
            let _on = power.read();
            state.lock().hear(&root, event);
        })));
        device
    }

    /// Takes the power away: hands over what the disk has then, with a random part of what it may have, by the names of
    /// files below the root. The store waits meanwhile, and goes on afterwards.
    pub fn cut<T>(&self, random: &mut Random, with: impl FnOnce(&BTreeMap<PathBuf, Image>) -> T) -> T {
        let _off = self.power.write();
        let image = self.state.lock().image(&self.root, random);
        with(&image)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        failpoint::observe(None);
    }
}

impl State {
    fn hear(&mut self, root: &Path, event: &Event<'_>) {
        self.clock += 1;
        let thread = std::thread::current().id();
        match event {
            Event::Syncing(file, from, to) => {
                let inode = file.metadata().expect("an open file").ino();
                let begun = Syncing { inode, time: self.clock, pages: pages(file, *from, *to) };
                self.syncing.insert(thread, begun);
            }
            Event::Synced(file) => {
                let Some(Syncing { inode, time, pages }) = self.syncing.remove(&thread) else { return };
                let known = self.files.entry(inode).or_default();
                known.len = Some(file.metadata().expect("an open file").len());
                for (at, bytes) in pages {
                    if known.pages.get(&at).is_none_or(|(before, _)| *before < time) {
                        known.pages.insert(at, (time, bytes));
                    }
                }
            }
            Event::SyncingAll(_) | Event::SyncedAll(_) => self.sync_all(root, matches!(event, Event::SyncedAll(_))),
            Event::SyncedDir(dir) => self.sync_dir(dir),
            Event::Created(path) => {
                let Ok(meta) = fs::metadata(path) else { return };
                self.note_lengths();
                if self.names.get(*path).is_none_or(|inode| *inode != meta.ino()) {
                    self.files.remove(&meta.ino());
                }
                // The file system may give the same number again.
                for change in &mut self.changes {
                    if let Change::RemovedDir(_, files) = change {
                        files.retain(|(gone, inode)| gone != path || *inode != meta.ino());
                    }
                }
                self.changes.push(Change::Created((*path).to_owned(), meta.ino()));
            }
            Event::Renamed(from, to) => {
                let Ok(meta) = fs::metadata(to) else { return };
                self.changes.push(Change::Renamed((*from).to_owned(), (*to).to_owned(), meta.ino()));
            }
            Event::Removed(path) => self.changes.push(Change::Removed((*path).to_owned())),
            Event::RemovedDir(dir) => {
                let mut names = self.names.clone();
                self.changes.iter().for_each(|change| change.apply(&mut names));
                let files: Vec<_> = names.into_iter().filter(|(path, _)| path.starts_with(dir)).collect();
                // One after the other, and then the directory: of those any number may be gone.
                self.changes.extend(files.iter().map(|(path, _)| Change::Removed(path.clone())));
                self.changes.push(Change::RemovedDir((*dir).to_owned(), files));
            }
        }
    }

    /// Everything that was there when it began is durable when it is done. (It is taken as it is now: what came between may
    /// be on the disk as well.)
    fn sync_all(&mut self, root: &Path, done: bool) {
        if !done {
            return;
        }
        let mut todo = vec![root.to_owned()];
        while let Some(dir) = todo.pop() {
            self.sync_dir(&dir);
            for path in fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
                if path.is_dir() {
                    todo.push(path);
                } else if let Ok(file) = File::open(&path) {
                    let meta = file.metadata().expect("an open file");
                    let all = pages(&file, 0, meta.len()).into_iter().map(|(at, bytes)| (at, (self.clock, bytes)));
                    self.files.insert(meta.ino(), Synced { len: Some(meta.len()), pages: all.collect() });
                }
            }
        }
    }

    /// The length of a new file is on its way to the disk before any later file is, and before the names are synced; also of
    /// one that is removed before its content was synced.
    fn note_lengths(&mut self) {
        for change in &self.changes {
            if let Change::Created(path, inode) = change
                && let Some(meta) = fs::metadata(path).ok().filter(|meta| meta.ino() == *inode && meta.len() > 0)
            {
                self.files.entry(*inode).or_default().len.get_or_insert(meta.len());
            }
        }
    }

    fn sync_dir(&mut self, dir: &Path) {
        self.note_lengths();
        self.dirs
            .extend(fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).filter(|p| p.is_dir()));
        let (now, later) = self.changes.drain(..).partition(|change| change.dir() == dir);
        self.changes = later;
        let now: Vec<Change> = now;
        now.iter().for_each(|change| change.apply(&mut self.names));
        // What has come from another directory, or went with one, is not there as well.
        for change in &now {
            match change {
                Change::Renamed(from, _, inode) => {
                    self.changes.retain(
                        |change| !matches!(change, Change::Created(path, file) if path == from && file == inode),
                    );
                }
                Change::RemovedDir(gone, files) => {
                    self.changes.retain(|change| !matches!(change, Change::Created(path, file) if files.contains(&(path.clone(), *file))));
                    self.dirs.retain(|dir| !dir.starts_with(gone) || dir.is_dir());
                }
                _ => {}
            }
        }
    }

    fn image(&mut self, root: &Path, random: &mut Random) -> BTreeMap<PathBuf, Image> {
        // Sometimes nothing more, sometimes nearly everything.
        let odds = [0, 1, 4, 7, 8][random.below(5) as usize];
        let mut names = self.names.clone();
        let mut cuts: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for change in &self.changes {
            *cuts.entry(change.dir().to_owned()).or_default() += 1;
        }
        for count in cuts.values_mut() {
            *count = random.below(*count as u64 + 1) as usize;
        }
        let mut newest: HashMap<PathBuf, u64> = HashMap::new();
        for change in &self.changes {
            let left = cuts.get_mut(change.dir()).expect("counted");
            if *left == 0 {
                continue;
            }
            *left -= 1;
            change.apply(&mut names);
            match change {
                Change::Created(_, inode) => newest.insert(change.dir().to_owned(), *inode),
                _ => newest.remove(change.dir()),
            };
        }
        let mut gone: HashMap<PathBuf, bool> = HashMap::new();
        let mut image = BTreeMap::new();
        for (path, inode) in names {
            // A directory whose name is not durable may be missing with everything in it.
            let lost = path.ancestors().skip(1).take_while(|dir| dir.starts_with(root)).any(|dir| {
                !self.dirs.contains(dir)
                    && dir != root
                    && *gone.entry(dir.to_owned()).or_insert_with(|| random.below(2) == 0)
            });
            if lost {
                continue;
            }
            let synced = self.files.get(&inode).cloned().unwrap_or_default();
            let now = current(root, &path, inode);
            let len = match (synced.len, &now) {
                (Some(len), _) => len,
                (None, _) if newest.values().any(|newest| *newest == inode) && random.below(2) == 0 => 0,
                (None, Some(now)) => now.metadata().expect("an open file").len(),
                (None, None) => 0,
            };
            let mut parts: BTreeMap<u64, Vec<u8>> =
                synced.pages.into_iter().map(|(at, (_, bytes))| (at, bytes)).collect();
            if let Some(now) = now {
                let unit = if len <= PAGE { SECTOR } else { PAGE };
                for (at, bytes) in pages(&now, 0, len) {
                    for (at, bytes) in (at..).step_by(unit as usize).zip(bytes.chunks(unit as usize)) {
                        if random.below(8) < odds {
                            put(&mut parts, at, bytes);
                        }
                    }
                }
            }
            image.insert(path.strip_prefix(root).expect("below the root").to_owned(), Image { len, parts });
        }
        image
    }
}

/// Replaces a part of a page, or adds it.
fn put(parts: &mut BTreeMap<u64, Vec<u8>>, at: u64, bytes: &[u8]) {
    let page = parts.entry(at / PAGE * PAGE).or_default();
    let (from, to) = ((at % PAGE) as usize, (at % PAGE) as usize + bytes.len());
    if page.len() < to {
        page.resize(to, 0);
    }
    page[from..to].copy_from_slice(bytes);
}

/// The file with an inode, under that name or another.
fn current(root: &Path, path: &Path, inode: u64) -> Option<File> {
    let right =
        |path: &Path| File::open(path).ok().filter(|file| file.metadata().is_ok_and(|meta| meta.ino() == inode));
    right(path).or_else(|| {
        let mut todo = vec![root.to_owned()];
        while let Some(dir) = todo.pop() {
            for path in fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
                if path.is_dir() {
                    todo.push(path);
                } else if let Some(file) = right(&path) {
                    return Some(file);
                }
            }
        }
        None
    })
}

/// The pages that a range touches.
fn pages(file: &File, from: u64, to: u64) -> BTreeMap<u64, Vec<u8>> {
    let mut found = BTreeMap::new();
    // It may be open for writing only.
    let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("an open file");
    for at in (from / PAGE * PAGE..to).step_by(PAGE as usize) {
        let mut bytes = vec![0; PAGE as usize];
        let count = read_some(&file, &mut bytes, at).expect("readable");
        bytes.truncate(count);
        found.insert(at, bytes);
    }
    found
}

fn read_some(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], at + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}
