//! Listing directories with few calls of the system: a start lists one for each queue.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, openat, statat};

/// A file of a directory.
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) len: u64,
    /// Opened, when it is the last by its name.
    pub(super) opened: Option<File>,
}

/// The files of a directory by name; the names of those that are no text are passed over.
pub(super) fn files(dir: &Path) -> io::Result<Vec<Listed>> {
    let dir = open_dir(dir)?;
    let mut names = names(&dir, FileType::RegularFile)?;
    names.sort();
    let count = names.len();
    let mut found = Vec::with_capacity(count);
    for (at, name) in names.into_iter().enumerate() {
        if at + 1 < count {
            let stat = statat(&dir, &name, AtFlags::empty())?;
            found.push(Listed { name, len: u64::try_from(stat.st_size).unwrap_or(0), opened: None });
        } else {
            let file = File::from(open(&dir, name.as_str(), OFlags::RDWR)?);
            found.push(Listed { name, len: file.metadata()?.len(), opened: Some(file) });
        }
    }
    Ok(found)
}

/// A directory, to look for what is in it.
pub(super) fn open_dir(dir: &Path) -> io::Result<OwnedFd> {
    open(rustix::fs::CWD, dir, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// The names of the directories in a directory.
pub(super) fn directories(dir: &OwnedFd) -> io::Result<Vec<String>> {
    names(dir, FileType::Directory)
}

/// The file of a name below a directory, and its length; `None` when it cannot be opened.
pub(super) fn file(dir: &OwnedFd, name: &str) -> Option<(File, u64)> {
    let file = File::from(open(dir, name, OFlags::RDWR).ok()?);
    let len = file.metadata().ok().filter(|metadata| metadata.is_file())?.len();
    Some((file, len))
}

/// Without a note of the access in what is opened: to write 200,000 of those takes a tenth of a start. Only an owner may ask
/// for that.
fn open<P: rustix::path::Arg + Copy>(at: impl AsFd, path: P, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    match openat(&at, path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(rustix::io::Errno::PERM) => Ok(openat(at, path, flags, Mode::empty())?),
        opened => Ok(opened?),
    }
}

/// The names of what is of a kind, or a link to it.
fn names(dir: &OwnedFd, wanted: FileType) -> io::Result<Vec<String>> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 8192];
    let mut list = RawDir::new(dir, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = list.next() {
        let entry = entry?;
        let kind = match entry.file_type() {
            FileType::Unknown | FileType::Symlink => {
                // A link to nothing is nothing.
                match statat(dir, entry.file_name(), AtFlags::empty()) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            kind => kind,
        };
        match entry.file_name().to_str() {
            Ok("." | "..") => {}
            Ok(name) if kind == wanted => names.push(name.to_owned()),
            Ok(_) => {}
            Err(_) => tracing::warn!(name = ?entry.file_name(), "the name is no text: passed over"),
        }
    }
    Ok(names)
}
