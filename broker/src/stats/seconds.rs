//! Rates of the last 10 s, minute and 10 minutes, from a sample a second.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Kinds of requests whose rate is reported.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Traffic {
    Put,
    GetFound,
    GetMiss,
    GetTotal,
    GetTransferred,
}

/// Sums at one second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Second {
    pub(super) at: i64,
    pub(super) puts: u64,
    pub(super) found: u64,
    pub(super) missed: u64,
    pub(super) transferred: u64,
}

/// The last [`KEPT`] seconds.
#[derive(Debug, Default)]
pub(super) struct Seconds(Mutex<VecDeque<Second>>);

/// Seconds of samples that are kept.
const KEPT: usize = 601;

impl Seconds {
    /// Adds a sample.
    pub(super) fn add(&self, second: Second) {
        let mut seconds = self.0.lock();
        seconds.push_back(second);
        while seconds.len() > KEPT {
            seconds.pop_front();
        }
    }

    /// Rates over the last 10, 60 and 600 seconds; 0 for a span that has not passed yet.
    pub(super) fn rates(&self, traffic: Traffic) -> [f64; 3] {
        let seconds = self.0.lock();
        [10, 60, 600].map(|span| {
            let Some(last) = seconds.back() else { return 0.0 };
            let Some(first) = seconds.len().checked_sub(span + 1).and_then(|at| seconds.get(at)) else { return 0.0 };
            let sum = |second: &Second| match traffic {
                Traffic::Put => second.puts,
                Traffic::GetFound => second.found,
                Traffic::GetMiss => second.missed,
                Traffic::GetTotal => second.found + second.missed,
                Traffic::GetTransferred => second.transferred,
            };
            let millis = (last.at - first.at).max(1);
            (sum(last) - sum(first)) as f64 * 1000.0 / millis as f64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_need_their_span() {
        let seconds = Seconds::default();
        for number in 0..11 {
            let sums = 100 * (number as u64 + 1);
            seconds.add(Second { at: number * 1000, puts: sums, found: 0, missed: 0, transferred: 0 });
        }
        assert_eq!(seconds.rates(Traffic::Put), [100.0, 0.0, 0.0]);
    }
}
