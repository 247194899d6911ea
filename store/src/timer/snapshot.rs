//! Snapshots of the wheel (`timerWheelSnapshotFlush`): `timerwheel.N` is the whole wheel as it was when the timer log ended
//! at N. A Java broker in that mode keeps its wheel in memory and nowhere else; after a start it goes on from the
//! newest snapshot and the log behind it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::wheel::{WHEEL_LEN, Wheel};
use crate::abort::sync_dir;
use crate::error::StoreError;

/// Snapshots that are kept.
const KEPT: usize = 2;

impl Wheel {
    /// Writes a snapshot that belongs to a position of the log, and removes all but the newest two.
    ///
    /// # Errors
    /// The disk; older snapshots are as before.
    pub fn snapshot(&self, position: u64) -> Result<(), StoreError> {
        let path = named(self.path(), position);
        self.write_snapshot(&path).map_err(|source| StoreError::Io { path, source })?;
        for (_, old) in snapshots(self.path()).into_iter().skip(KEPT) {
            fs::remove_file(&old).map_err(|source| StoreError::Io { path: old, source })?;
        }
        Ok(())
    }

    fn write_snapshot(&self, path: &Path) -> io::Result<()> {
        let mut fresh = path.to_owned().into_os_string();
        fresh.push(".tmp");
        let mut file = File::create(&fresh)?;
        let mut piece = vec![0; 1 << 18];
        for at in (0..WHEEL_LEN).step_by(piece.len()) {
            let len = piece.len().min(WHEEL_LEN - at);
            self.copy(at, &mut piece[..len]);
            file.write_all(&piece[..len])?;
        }
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        path.parent().map_or(Ok(()), sync_dir)
    }
}

/// The newest snapshot beside a wheel: the position of the log that it belongs to, and the file.
pub(super) fn newest(wheel: &Path) -> Option<(u64, PathBuf)> {
    snapshots(wheel).into_iter().next().filter(|(position, _)| *position > 0)
}

/// All snapshots beside a wheel, newest first.
fn snapshots(wheel: &Path) -> Vec<(u64, PathBuf)> {
    let (Some(dir), Some(name)) = (wheel.parent(), wheel.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let position = |path: &Path| path.file_name()?.to_str()?.strip_prefix(name)?.strip_prefix('.')?.parse::<u64>().ok();
    let mut found: Vec<_> =
        entries.flatten().filter_map(|entry| Some((position(&entry.path())?, entry.path()))).collect();
    found.sort();
    found.reverse();
    found
}

fn named(wheel: &Path, position: u64) -> PathBuf {
    let mut name = wheel.to_owned().into_os_string();
    name.push(format!(".{position}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_kept_and_hold_the_wheel() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("timerwheel");
        let (wheel, _) = Wheel::open(&path, 1000).unwrap();
        assert_eq!(newest(&path), None);
        wheel.prepare(5000).unwrap();
        for position in [52, 104, 1040] {
            wheel.add(5000, position - 52, 1);
            wheel.snapshot(position as u64).unwrap();
        }
        assert_eq!(newest(&path), Some((1040, dir.path().join("timerwheel.1040"))));
        assert_eq!(snapshots(&path).len(), 2);
        wheel.flush().unwrap();
        assert!(fs::read(&path).unwrap() == fs::read(dir.path().join("timerwheel.1040")).unwrap());
        fs::write(dir.path().join("timerwheel.x"), "").unwrap();
        assert_eq!(snapshots(&path).len(), 2);
    }
}
