//! Bytes a second over one connection: counted, and held below a limit.

/// Length of the window in milliseconds.
const WINDOW: u64 = 1000;

/// Counts bytes in windows of a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    since: u64,
    now: u64,
    last: u64,
}

impl Flow {
    /// Counts bytes.
    pub fn add(&mut self, bytes: u64, now: u64) {
        self.turn(now);
        self.now += bytes;
    }

    /// How many more bytes may go in this window.
    pub fn left(&mut self, limit: Option<u64>, now: u64) -> u64 {
        self.turn(now);
        limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.now))
    }

    /// When the next window begins (ms).
    pub fn turns_at(&self) -> u64 {
        self.since + WINDOW
    }

    /// Bytes in the last whole second.
    pub fn per_second(&self, now: u64) -> u64 {
        match now.saturating_sub(self.since) {
            0..WINDOW => self.last,
            past if past < 2 * WINDOW => self.now,
            _ => 0,
        }
    }

    fn turn(&mut self, now: u64) {
        let past = now.saturating_sub(self.since);
        if past >= WINDOW {
            self.last = if past < 2 * WINDOW { self.now } else { 0 };
            (self.since, self.now) = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_by_the_second() {
        let mut flow = Flow::default();
        assert_eq!(flow.left(None, 5000), u64::MAX);
        assert_eq!(flow.left(Some(100), 5000), 100);
        flow.add(70, 5100);
        assert_eq!(flow.left(Some(100), 5200), 30);
        flow.add(50, 5300);
        assert_eq!((flow.left(Some(100), 5999), flow.turns_at()), (0, 6000));
        assert_eq!(flow.left(Some(100), 6000), 100);
        assert_eq!((flow.per_second(6500), flow.per_second(7000), flow.per_second(9000)), (120, 0, 0));
    }
}
