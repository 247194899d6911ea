//! Puts the files that a compaction made in the place of the old ones, so that a crash leaves either.
//!
//! New files are complete and on the device, in the `compacting` directories, before a plan is written there; from the
//! plan on a start goes on where the last one ended. Without a plan what lies in `compacting` is thrown away.
//!
//! Each step between is one that Java refuses to start with (a log file without a queue file), not one that it would
//! read wrongly.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::layout::Dirs;
use crate::abort::sync_dir;
use crate::error::StoreError;
use crate::failpoint::{self, Event, Point};
use crate::json_file::{JsonFile, Parsed};
use crate::segment::{file_name, remove, remove_dir};

/// Name of the plan's file, in the logs' `compacting`.
const PLAN: &str = "replace.json";

/// What takes whose place. Files are named by their offsets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Files that go.
    pub(super) old: Vec<u64>,
    /// Files that come, by a name that one of the old has.
    pub(super) new: Vec<u64>,
    /// The last queue offset that the compaction looked at.
    pub(super) position: i64,
}

/// What was found of an interrupted replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The position of a plan that has now been carried out.
    pub(super) position: Option<i64>,
    /// Queue files may not belong to the log files of their names.
    pub(super) distrust_queue_files: bool,
}

impl Plan {
    /// Writes the plan. From here on there is no way back.
    ///
    /// # Errors
    /// The disk.
    pub(super) fn write(&self, dirs: &Dirs) -> Result<(), StoreError> {
        let staging = dirs.staging();
        for dir in [&staging.log, &staging.cq] {
            fs::create_dir_all(dir).and_then(|()| sync_dir(dir)).map_err(|source| io_error(dir, source))?;
        }
        for dir in [&dirs.log, &dirs.cq] {
            sync_dir(dir).map_err(|source| io_error(dir, source))?;
        }
        let text = serde_json::to_string(self).unwrap_or_default();
        point(Point::CompactPlan, &staging.log)?;
        JsonFile::new(staging.log.join(PLAN)).save(&text)?;
        failpoint::pass(Point::CompactPlanned);
        Ok(())
    }

    /// Carries the plan out, or what is left of it.
    ///
    /// # Errors
    /// The disk; try again.
    pub(super) fn apply(&self, dirs: &Dirs) -> Result<(), StoreError> {
        self.steps(dirs, &mut || point(Point::CompactStep, &dirs.log))
    }

    /// Calls `step` before each change of a directory.
    fn steps(&self, dirs: &Dirs, step: &mut dyn FnMut() -> Result<(), StoreError>) -> Result<(), StoreError> {
        let staging = dirs.staging();
        let staged = |base: &u64| staging.log.join(file_name(*base)).exists();
        if self.new.iter().all(staged) {
            for base in &self.old {
                step()?;
                gone(&dirs.cq.join(file_name(*base)))?;
            }
            sync(&dirs.cq)?;
        }
        for base in self.old.iter().filter(|base| !self.new.contains(base)) {
            step()?;
            gone(&dirs.log.join(file_name(*base)))?;
        }
        for (from, to) in [(&staging.log, &dirs.log), (&staging.cq, &dirs.cq)] {
            for base in &self.new {
                let name = file_name(*base);
                step()?;
                moved(&from.join(&name), &to.join(&name))?;
            }
            sync(to)?;
        }
        Ok(())
    }
}

/// Finishes or takes back what a crash interrupted, of ours or of Java's.
///
/// # Errors
/// The disk.
pub(super) fn recover(dirs: &Dirs) -> Result<Found, StoreError> {
    let mut found = Found::default();
    let plan = JsonFile::new(dirs.staging().log.join(PLAN));
    let parse = |text: &str| serde_json::from_str::<Plan>(text).map_err(|error| error.to_string());
    if let Parsed::Text { value: plan, .. } = plan.load_with(parse)? {
        tracing::info!(dir = %dirs.log.display(), "a compaction was interrupted while it put its files in place: done now");
        point(Point::CompactRecover, &dirs.log)?;
        plan.apply(dirs)?;
        found.position = Some(plan.position);
    } else {
        found.distrust_queue_files = take_back(dirs)?;
        clear_if_possible(dirs);
    }
    Ok(found)
}

/// Java puts `.delete` behind the names of the old files, moves the new ones in, and removes the old ones: the log files
/// first, then the queue files. True when it was interrupted there.
fn take_back(dirs: &Dirs) -> Result<bool, StoreError> {
    let logs = files(&dirs.log)?;
    let (marked, queue_marked) = (renamed(&logs), renamed(&files(&dirs.cq)?));
    // New log files that have not been moved: the old ones are all there.
    let before = !files(&dirs.staging().log)?.is_empty();
    for (path, name) in &marked {
        if before {
            moved(path, &dirs.log.join(name))?;
        } else {
            gone(path)?;
        }
    }
    for (path, _) in &queue_marked {
        gone(path)?;
    }
    // All log files are in place, and not all queue files. (One that we were making has a suffix.)
    let between = !before && files(&dirs.staging().cq)?.iter().any(|path| path.extension().is_none());
    let interrupted = !marked.is_empty() || !queue_marked.is_empty() || between;
    if interrupted {
        tracing::warn!(dir = %dirs.log.display(), "a compaction was interrupted: queue files are made again");
        sync(&dirs.log)?;
        sync(&dirs.cq)?;
    }
    Ok(interrupted)
}

/// Files of a directory; none when there is no directory.
pub(super) fn files(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|source| io_error(dir, source))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|source| io_error(dir, source))?.path();
        if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Those with `.delete` behind their names, and the names before.
fn renamed(files: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.strip_suffix(".delete")?.to_owned());
    files.iter().filter_map(|path| Some((path.clone(), name(path)?))).collect()
}

/// Removes the staging directories with what is in them, the plan first; on the device when it returns.
///
/// # Errors
/// The disk. A plan may still be there: it may be carried out again, and no file may come beside it.
pub(super) fn clear(dirs: &Dirs) -> Result<(), StoreError> {
    let staging = dirs.staging();
    if !staging.log.exists() && !staging.cq.exists() {
        return Ok(());
    }
    point(Point::CompactClear, &staging.log)?;
    let plan = staging.log.join(PLAN);
    for path in [plan.with_extension("json.tmp"), plan.with_extension("json.bak"), plan] {
        gone(&path)?;
    }
    sync(&staging.log)?;
    failpoint::pass(Point::CompactCleared);
    // Queue files without log files look as if Java had been interrupted: see `take_back`.
    for (dir, above) in [(&staging.cq, &dirs.cq), (&staging.log, &dirs.log)] {
        remove_dir(dir).map_err(|source| io_error(dir, source))?;
        sync(above)?;
    }
    Ok(())
}

/// As [`clear`], for whom it does not matter whether it succeeds.
pub(super) fn clear_if_possible(dirs: &Dirs) {
    if let Err(error) = clear(dirs) {
        tracing::error!(dir = %dirs.log.display(), %error, "what a compaction left could not be removed");
    }
}

fn point(point: Point, path: &Path) -> Result<(), StoreError> {
    failpoint::hit(point).map_err(|source| io_error(path, source))
}

fn gone(path: &Path) -> Result<(), StoreError> {
    remove(path).map_err(|source| io_error(path, source))
}

/// Gives a file another name; one that has it already is not there any more.
fn moved(from: &Path, to: &Path) -> Result<(), StoreError> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(io_error(from, source)),
        Ok(()) => {
            failpoint::tell(Event::Renamed(from, to));
            Ok(())
        }
    }
}

fn sync(dir: &Path) -> Result<(), StoreError> {
    match failpoint::hit(Point::CompactSync).and_then(|()| sync_dir(dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(|source| io_error(dir, source)),
    }
}

fn io_error(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs(dir: &tempfile::TempDir) -> Dirs {
        let dirs = Dirs::of_queue(dir.path(), "T", 0);
        let staging = dirs.staging();
        for dir in [&staging.log, &staging.cq] {
            fs::create_dir_all(dir).unwrap();
        }
        dirs
    }

    fn put(dir: &Path, name: &str, text: &str) {
        fs::write(dir.join(name), text).unwrap();
    }

    fn content(dir: &Path) -> Vec<(String, String)> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().trim_start_matches('0').to_owned();
        files(dir).unwrap().iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
    }

    fn row(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    /// Old files 0, 5 and 9 (which stays), new ones 0.
    fn half(dir: &tempfile::TempDir, new: &[u64]) -> (Dirs, Plan) {
        let dirs = dirs(dir);
        for (at, staging) in [(&dirs.log, &dirs.staging().log), (&dirs.cq, &dirs.staging().cq)] {
            [0, 5, 9].iter().for_each(|base| put(at, &file_name(*base), "old"));
            new.iter().for_each(|base| put(staging, &file_name(*base), "new"));
        }
        (dirs, Plan { old: vec![0, 5], new: new.to_vec(), position: 77 })
    }

    #[test]
    fn without_a_plan_everything_is_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let (dirs, _) = half(&dir, &[0]);
        let found = recover(&dirs).unwrap();
        assert_eq!(found.position, None);
        for at in [&dirs.log, &dirs.cq] {
            assert_eq!(content(at), row(&[("", "old"), ("5", "old"), ("9", "old")]));
        }
        assert!(!dirs.staging().log.exists() && !dirs.staging().cq.exists());
        assert_eq!(recover(&dirs).unwrap(), Found::default());
    }

    #[test]
    fn with_a_plan_it_is_carried_out_from_wherever_it_stood() {
        for new in [&[0][..], &[0, 5], &[]] {
            // Each number of steps that were done before the crash.
            for steps in 0.. {
                let dir = tempfile::tempdir().unwrap();
                let (dirs, plan) = half(&dir, new);
                plan.write(&dirs).unwrap();
                let mut left = steps;
                let mut step = || {
                    left -= 1;
                    if left < 0 { Err(io_error(Path::new(""), io::ErrorKind::Interrupted.into())) } else { Ok(()) }
                };
                let whole = plan.steps(&dirs, &mut step).is_ok();
                assert_eq!(recover(&dirs).unwrap(), Found { position: Some(77), distrust_queue_files: false });
                let mut expected: Vec<_> = new.iter().map(|base| (if *base == 0 { "" } else { "5" }, "new")).collect();
                expected.push(("9", "old"));
                for at in [&dirs.log, &dirs.cq] {
                    assert_eq!(content(at), row(&expected), "{new:?} after {steps}");
                }
                clear(&dirs).unwrap();
                assert!(!dirs.staging().log.exists());
                if whole {
                    assert!(steps > 2);
                    break;
                }
            }
        }
    }

    #[test]
    fn what_java_left_is_taken_back_or_carried_on() {
        // It renamed one, then both; moved one in.
        let dir = tempfile::tempdir().unwrap();
        let (dirs, _) = half(&dir, &[0, 5]);
        let name = |base, suffix: &str| format!("{}{suffix}", file_name(base));
        let rename = |dir: &Path, from: &str, to: &str| fs::rename(dir.join(from), dir.join(to)).unwrap();
        rename(&dirs.log, &name(0, ""), &name(0, ".delete"));
        rename(&dirs.log, &name(5, ""), &name(5, ".delete"));
        rename(&dirs.staging().log, &name(0, ""), &format!("../{}", name(0, "")));
        assert!(recover(&dirs).unwrap().distrust_queue_files);
        assert_eq!(content(&dirs.log), row(&[("", "old"), ("5", "old"), ("9", "old")]));
        assert_eq!(content(&dirs.cq).len(), 3);

        // All log files are in place, and one of the queue files.
        let dir = tempfile::tempdir().unwrap();
        let (dirs, _) = half(&dir, &[0]);
        rename(&dirs.log, &name(5, ""), &name(5, ".delete"));
        rename(&dirs.staging().log, &name(0, ""), &format!("../{}", name(0, "")));
        rename(&dirs.cq, &name(0, ""), &name(0, ".delete"));
        assert!(recover(&dirs).unwrap().distrust_queue_files);
        assert_eq!(content(&dirs.log), row(&[("", "new"), ("9", "old")]));
        assert_eq!(content(&dirs.cq), row(&[("5", "old"), ("9", "old")]));
    }
}
