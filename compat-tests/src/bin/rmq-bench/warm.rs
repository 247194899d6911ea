//! Puts the machine into the state of one that has been up for a while: all memory has been used before and the page
//! cache is full.
//!
//! Memory that a virtual machine has never touched, or has given back to its host, costs several microseconds a page at
//! the first touch, more than a broker spends on the messages that fill the page. Both sides would pay it, at random.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A file that fills the page cache; removed at the end.
pub struct Filler {
    path: PathBuf,
    bytes: u64,
}

const CHUNK: usize = 1 << 20;

impl Filler {
    /// Makes a file of the size of the available memory. It is one hole: it takes no room on the disk.
    ///
    /// # Errors
    /// The disk.
    pub fn new(directory: &Path) -> std::io::Result<Filler> {
        fs::create_dir_all(directory)?;
        let filler = Filler { path: directory.join("page-cache-filler"), bytes: memory() };
        File::create(&filler.path)?.set_len(filler.bytes)?;
        Ok(filler)
    }

    /// Reads the file, so that the page cache is full again.
    ///
    /// # Errors
    /// The disk.
    pub fn fill(&self) -> std::io::Result<()> {
        let mut file = File::open(&self.path)?;
        let mut chunk = vec![0; CHUNK];
        while file.read(&mut chunk)? > 0 {}
        Ok(())
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"));
    let kib: u64 = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_default();
    kib * 1024
}
