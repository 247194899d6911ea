//! Says how far a long walk through the log is.

use std::time::{Duration, Instant};

/// Between two lines, and before the first.
const PAUSE: Duration = Duration::from_secs(2);
/// The clock is looked at after so many bytes.
const STEP: u64 = 16 << 20;

/// A walk from one offset to another.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    from: u64,
    to: u64,
    look_at: u64,
    said: Instant,
}

impl Progress {
    /// A walk that begins now; `what` is what has been done with the part behind.
    pub fn new(what: &'static str, from: u64, to: u64) -> Progress {
        Progress { what, from, to, look_at: from + STEP, said: Instant::now() }
    }

    /// The walk is at an offset.
    #[inline]
    pub fn at(&mut self, offset: u64) {
        if offset >= self.look_at {
            self.look(offset);
        }
    }

    #[cold]
    fn look(&mut self, offset: u64) {
        self.look_at = offset + STEP;
        if self.said.elapsed() >= PAUSE {
            self.said = Instant::now();
            tracing::info!(percent = self.percent(offset), offset, to = self.to, "recovery: the log is {}", self.what);
        }
    }

    fn percent(&self, offset: u64) -> u64 {
        let all = self.to.saturating_sub(self.from).max(1);
        offset.saturating_sub(self.from).min(all) * 100 / all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents() {
        let progress = Progress::new("read", 1000, 2000);
        assert_eq!([0, 1000, 1500, 2000, 9000].map(|at| progress.percent(at)), [0, 0, 50, 100, 100]);
        assert_eq!(Progress::new("read", 5, 5).percent(5), 0);
    }
}
