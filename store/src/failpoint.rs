//! Steps at which a test makes the disk fail or the process die, and word of what is known to be on the device.
//!
//! Only with the feature `failpoints`, which tests enable and release builds do not: without it the functions here are
//! empty and vanish.
//!
//! One point is armed at a time, for the whole process.

use std::fs::File;
#[cfg(not(feature = "failpoints"))]
use std::io;
use std::path::Path;

#[cfg(feature = "failpoints")]
pub use armed::*;

macro_rules! points {
    ($($name:ident $kind:ident $what:literal;)*) => {
        /// A step that may be the last one, or fail.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(not(feature = "failpoints"), allow(dead_code))]
        pub enum Point {
            $(#[doc = $what] $name,)*
        }

        #[cfg(feature = "failpoints")]
        impl Point {
            /// All of them.
            pub const ALL: &[Point] = &[$(Point::$name,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Point::$name => stringify!($name),)* }
            }

            /// Whether it is a step of a compacted log.
            pub fn is_of_compaction(self) -> bool {
                self.name().starts_with("Compact")
            }

            /// Whether the step can fail; at the others only the process can end.
            pub fn can_fail(self) -> bool {
                match self { $(Point::$name => points!(@ $kind),)* }
            }
        }
    };
    (@ fails) => { true };
    (@ ends) => { false };
}

points! {
    AppendRecord fails "A record is about to be written into the log.";
    AppendHalf ends "Half of a record is written.";
    AppendBytes ends "A record is written and not yet published.";
    AppendPublished ends "A record is published, its queue offset not yet taken.";
    RollBlank ends "A log file is closed, the next one not yet in the row.";
    LogCreate fails "A log file is about to be made.";
    LogPrepared ends "The next log file is made ahead.";
    FileSize fails "A file of any kind is made and has no size yet.";
    FileReserve fails "A file of any kind has its size and no blocks yet.";
    FlushFile fails "Size and blocks of a new log file are about to be synced.";
    FlushDir fails "The name of a new log file is about to be synced.";
    FlushPages fails "Pages of the log are about to be synced.";
    FlushDone ends "Pages of the log are synced, and nobody knows.";
    DispatchRecord fails "A record is about to be fed to its queue and the index.";
    DispatchQueue ends "A record is in its queue and not yet in the index.";
    QueueCreate fails "A queue file is about to be made.";
    QueueReserve fails "Blocks of a queue file are about to be reserved.";
    QueueUnit ends "A unit is written and not yet published.";
    QueueSpill fails "Units that were gathered in memory are about to be written.";
    QueueFlush fails "Units are about to be synced.";
    QueueSync fails "The file system of many changed queues is about to be synced.";
    QueueFile fails "Size and blocks of a new queue file are about to be synced.";
    QueueDir fails "The name of a new queue file is about to be synced.";
    IndexCreate fails "An index file is about to be made.";
    IndexPlace fails "An index file that was made ahead is about to get its name.";
    IndexReserve fails "Blocks of an index file are about to be reserved.";
    IndexEntry ends "An entry is written, its slot not yet.";
    IndexSlot ends "An entry and its slot are written, the header not yet.";
    IndexHeader ends "The header counts an entry and does not know yet of its record.";
    IndexFlush fails "An index file is about to be synced.";
    IndexDir fails "The name of an index file is about to be synced.";
    CheckpointWrite fails "The checkpoint is about to be written.";
    CheckpointHash fails "The integers of the checkpoint are written, their hash not yet.";
    CheckpointSync fails "The checkpoint is written and about to be synced.";
    CheckpointFiles fails "The fingerprints of the files are about to be written.";
    AbortBackup fails "The file abort.bak is about to be written.";
    AbortWrite fails "The file abort is about to be written.";
    AbortDir fails "The name of the file abort is about to be synced.";
    AbortRemove fails "The file abort is about to be removed.";
    AbortRemoved fails "The file abort is removed, and the directory not yet synced.";
    JsonWrite fails "A text is about to be written beside its file.";
    JsonHalf fails "Half of a text is written beside its file.";
    JsonSync fails "A text is written beside its file and about to be synced.";
    JsonBackup fails "The text before is about to become the backup.";
    JsonReplace fails "A new text is about to take its place.";
    JsonDir fails "A new text is in its place, and the directory not yet synced.";
    OpenLoaded fails "The files of a store are loaded, nothing is changed yet.";
    OpenCut fails "Log, queues and index are cut at the end of the log.";
    OpenRecord fails "A record is about to be fed again, in recovery.";
    OpenDispatched fails "Everything is fed again, and recovery not yet noted.";
    OpenNoted fails "Recovery is noted, and the file abort not yet made.";
    CloseFlushed fails "The log is on the device, at the end.";
    CloseDispatched fails "Everything is dispatched, at the end.";
    CloseDerived fails "Queues, index and checkpoint are on the device, at the end.";
    CompactPart fails "The log file of a part is about to be made.";
    CompactPair fails "The log file of a part is made, its queue file not yet.";
    CompactReserve fails "Blocks of a part are about to be reserved.";
    CompactRecord ends "A record is in a part, its unit not yet.";
    CompactUnit ends "A record and its unit are in a part, and not yet counted.";
    CompactPut ends "A record is in a compacted log and not yet in its queue.";
    CompactClose fails "A full part is about to be closed.";
    CompactEnd ends "The queue file of a full part is closed, the log file not yet.";
    CompactFlush fails "A part is about to be synced.";
    CompactFlushUnits fails "The records of a part are synced, its units not yet.";
    CompactFlushNames fails "Sizes and names of a part are about to be synced.";
    CompactMap fails "The keys of a compaction are about to be gathered.";
    CompactMapped ends "The keys of a compaction are gathered.";
    CompactNothing fails "A compaction has nothing to drop, and is about to say so.";
    CompactClear fails "What lies in the directories of a compaction is about to be removed.";
    CompactStage fails "A message that stays is about to be copied.";
    CompactStaged fails "What stays is copied and on the device, without a plan yet.";
    CompactPlan fails "The plan is about to be written.";
    CompactPlanned ends "The plan is on the device.";
    CompactStep fails "A file is about to go or to come by the plan.";
    CompactSync fails "What went or came is about to be synced.";
    CompactOpen fails "The new files are in their place and about to be opened.";
    CompactSwap ends "The new parts are read, and it is not noted.";
    CompactPosition fails "The position is about to be noted.";
    CompactNoted ends "The position is noted, and the plan still there.";
    CompactCleared ends "The plan is removed, its directories not yet.";
    CompactLoad fails "The directories of a compacted log are about to be looked at.";
    CompactRecover fails "An interrupted replacement is about to be carried out.";
    CompactQueueFile fails "A queue file is about to be made from its log file.";
    CompactQueueName fails "A queue file is made and not yet in its place.";
    CompactCut fails "A compacted log is about to be cut where it differs from the log.";
    CompactCutPart fails "Parts behind the cut are gone, the last one is about to be cut.";
    CompactCutHalf fails "The queue file of a part is cut, its log file not yet.";
    CompactCatchUp fails "A record that the compacted log misses is about to be added.";
    CompactDelete fails "The files of a deleted topic are about to go.";
    CompactDeleteHalf fails "The queue files of a deleted topic are gone, its log files not yet.";
}

/// Something that happened to a file, for a model of the device.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "failpoints"), allow(dead_code))]
pub enum Event<'a> {
    /// A range of bytes is about to be synced.
    Syncing(&'a File, u64, u64),
    /// The last [`Event::Syncing`] of this thread succeeded.
    Synced(&'a File),
    /// All of a file system is about to be synced; the path lies on it.
    SyncingAll(&'a Path),
    /// The last [`Event::SyncingAll`] of this thread succeeded.
    SyncedAll(&'a Path),
    /// The entries of a directory are synced.
    SyncedDir(&'a Path),
    /// A file was made.
    Created(&'a Path),
    /// A file got another name.
    Renamed(&'a Path, &'a Path),
    /// A name was removed.
    Removed(&'a Path),
    /// A directory was removed with all that was in it.
    RemovedDir(&'a Path),
}

/// Fails, or ends the process, when the point is armed.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn hit(_: Point) -> io::Result<()> {
    Ok(())
}

/// Ends the process when the point is armed.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn pass(_: Point) {}

/// Ends the process when the point is armed, after a last act.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn end_with(_: Point, _: impl FnOnce()) {}

/// Tells the observer, when there is one.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn tell(_: Event<'_>) {}

#[cfg(feature = "failpoints")]
mod armed {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use parking_lot::{Mutex, RwLock};

    use super::{Event, Point};

    /// What an armed point does.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Action {
        /// Ends the process as SIGKILL does.
        End,
        /// Fails with this error number of the system's.
        Fail(i32),
    }

    /// A point to arm.
    #[derive(Clone, Copy, Debug)]
    pub struct Plan {
        /// Which.
        pub point: Point,
        /// What it does.
        pub action: Action,
        /// So many times it does nothing.
        pub after: u64,
        /// Then it acts so many times.
        pub times: u64,
    }

    struct Armed {
        plan: Plan,
        seen: u64,
    }

    /// Whether a point is armed or hits are counted: keeps an unarmed process from taking the lock.
    static WATCHED: AtomicBool = AtomicBool::new(false);
    static ARMED: Mutex<Option<Armed>> = Mutex::new(None);
    static HITS: [AtomicU64; Point::ALL.len()] = [const { AtomicU64::new(0) }; Point::ALL.len()];
    static OBSERVED: AtomicBool = AtomicBool::new(false);
    static OBSERVER: RwLock<Option<Observer>> = RwLock::new(None);

    /// Hears of every [`Event`], on the thread that made it.
    pub type Observer = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

    /// Arms a point instead of the one that was armed; with `None` none, but hits are counted.
    pub fn arm(plan: Option<Plan>) {
        *ARMED.lock() = plan.map(|plan| Armed { plan, seen: 0 });
        WATCHED.store(true, Ordering::SeqCst);
    }

    /// How often a point was reached since the first [`arm`].
    pub fn hits(point: Point) -> u64 {
        HITS[point as usize].load(Ordering::Relaxed)
    }

    /// Sets the observer.
    pub fn observe(observer: Option<Observer>) {
        OBSERVED.store(observer.is_some(), Ordering::SeqCst);
        *OBSERVER.write() = observer;
    }

    fn action(point: Point) -> Option<Action> {
        if !WATCHED.load(Ordering::Relaxed) {
            return None;
        }
        HITS[point as usize].fetch_add(1, Ordering::Relaxed);
        let mut armed = ARMED.lock();
        let Armed { plan, seen } = armed.as_mut().filter(|armed| armed.plan.point == point)?;
        *seen += 1;
        (*seen > plan.after && *seen - plan.after <= plan.times).then_some(plan.action)
    }

    fn end() -> ! {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }

    /// Fails, or ends the process, when the point is armed.
    pub(crate) fn hit(point: Point) -> io::Result<()> {
        match action(point) {
            None => Ok(()),
            Some(Action::End) => end(),
            Some(Action::Fail(number)) => Err(io::Error::from_raw_os_error(number)),
        }
    }

    /// Ends the process when the point is armed.
    pub(crate) fn pass(point: Point) {
        end_with(point, || ());
    }

    /// Ends the process when the point is armed, after a last act.
    pub(crate) fn end_with(point: Point, last: impl FnOnce()) {
        if action(point) == Some(Action::End) {
            last();
            end();
        }
    }

    /// Tells the observer, when there is one.
    pub(crate) fn tell(event: Event<'_>) {
        if OBSERVED.load(Ordering::Relaxed)
            && let Some(observer) = OBSERVER.read().clone()
        {
            observer(&event);
        }
    }
}
