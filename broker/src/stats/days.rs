//! Totals since yesterday's and today's morning.

use parking_lot::Mutex;

/// Sums of puts and gets at the last two midnights.
#[derive(Debug, Default)]
pub(super) struct Mornings(Mutex<[[u64; 2]; 2]>);

/// Totals of days, as GET_BROKER_RUNTIME_INFO names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DayTotals {
    pub yesterday_morning: u64,
    pub today_morning: u64,
    pub today_now: u64,
}

impl Mornings {
    /// A day ends with these sums.
    pub(super) fn turn(&self, sums: [u64; 2]) {
        let mut mornings = self.0.lock();
        *mornings = [mornings[1], sums];
    }

    /// The totals of puts (0) or gets (1) when the sum is now `today_now`.
    pub(super) fn totals(&self, which: usize, today_now: u64) -> DayTotals {
        let [yesterday, today] = *self.0.lock();
        let sum = |sums: [u64; 2]| sums.get(which).copied().unwrap_or(0);
        DayTotals { yesterday_morning: sum(yesterday), today_morning: sum(today), today_now }
    }
}
