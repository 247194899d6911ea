//! How long appends took: the distribution and the percentiles of GET_BROKER_RUNTIME_INFO.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Upper bounds (ms, exclusive) of the coarse buckets and their names; the last one has no bound.
const COARSE: [(u64, &str); 13] = [
    (1, "[<=0ms]"),
    (10, "[0~10ms]"),
    (50, "[10~50ms]"),
    (100, "[50~100ms]"),
    (200, "[100~200ms]"),
    (500, "[200~500ms]"),
    (1000, "[500ms~1s]"),
    (2000, "[1~2s]"),
    (3000, "[2~3s]"),
    (4000, "[3~4s]"),
    (5000, "[4~5s]"),
    (10_000, "[5~10s]"),
    (u64::MAX, "[10s~]"),
];

/// Widths (ms) and counts of the fine buckets, up to 10 s; one more takes the rest.
const FINE: [(u64, usize); 7] = [(1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1000, 9)];
const FINE_BUCKETS: usize = 76;

/// Counts of appends by duration. Reported is the last whole minute, as in Java.
#[derive(Debug)]
pub struct PutTimes {
    fine: [AtomicU64; FINE_BUCKETS],
    coarse: [AtomicU64; COARSE.len()],
    max: AtomicU64,
    last: Mutex<Option<Minute>>,
}

#[derive(Clone, Debug)]
struct Minute {
    fine: [u64; FINE_BUCKETS],
    coarse: [u64; COARSE.len()],
}

impl Default for PutTimes {
    fn default() -> Self {
        PutTimes {
            fine: [const { AtomicU64::new(0) }; FINE_BUCKETS],
            coarse: [const { AtomicU64::new(0) }; COARSE.len()],
            max: AtomicU64::new(0),
            last: Mutex::new(None),
        }
    }
}

impl PutTimes {
    /// Counts `count` appends that took `elapsed` each.
    pub fn record(&self, elapsed: Duration, count: u64) {
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.fine.get(fine_bucket(millis)) {
            bucket.fetch_add(count, Ordering::Relaxed);
        }
        if let Some(at) = COARSE.iter().position(|(bound, _)| millis < *bound) {
            self.coarse[at].fetch_add(count, Ordering::Relaxed);
        }
        if millis > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(millis, Ordering::Relaxed);
        }
    }

    /// The longest one since the start, in milliseconds.
    pub fn max_millis(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Ends the minute that is being counted.
    pub fn roll(&self) {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        *self.last.lock() =
            Some(Minute { fine: self.fine.each_ref().map(take), coarse: self.coarse.each_ref().map(take) });
    }

    /// The coarse distribution of the last minute: `[<=0ms]:0 [0~10ms]:0 ...`, each part followed by a blank.
    pub fn distribution(&self) -> String {
        let counts = self.last.lock().as_ref().map_or([0; COARSE.len()], |minute| minute.coarse);
        let mut text = String::new();
        for ((_, name), count) in COARSE.iter().zip(counts) {
            let _ = write!(text, "{name}:{count} ");
        }
        text
    }

    /// The duration (ms) that a share of the last minute's appends did not exceed, by interpolation in its bucket.
    pub fn percentile(&self, share: f64) -> f64 {
        let Some(minute) = self.last.lock().clone() else { return 0.0 };
        let wanted = (minute.fine.iter().sum::<u64>() as f64 * share) as u64;
        let (mut passed, mut low) = (0, 0);
        let bounds = FINE.iter().flat_map(|(width, count)| std::iter::repeat_n(*width, *count));
        for (count, width) in minute.fine.iter().copied().zip(bounds) {
            if wanted <= passed + count {
                let part = if count == 0 { 0.0 } else { (width * (wanted - passed)) as f64 / count as f64 };
                return low as f64 + part;
            }
            passed += count;
            low += width;
        }
        low as f64
    }
}

/// Buckets include their upper bound: up to 1 ms, up to 2 ms, ...
fn fine_bucket(millis: u64) -> usize {
    let (mut index, mut low) = (0, 0);
    for (width, count) in FINE {
        let high = low + width * count as u64;
        if millis <= high {
            return index + (millis.saturating_sub(low).div_ceil(width).max(1) - 1) as usize;
        }
        index += count;
        low = high;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets() {
        let buckets: Vec<_> = [0, 1, 2, 20, 21, 22, 23, 9_999, 10_000, 10_001].into_iter().map(fine_bucket).collect();
        assert_eq!(buckets, [0, 0, 1, 19, 20, 20, 21, 74, 74, 75]);
    }

    #[test]
    fn the_last_minute_is_reported() {
        let times = PutTimes::default();
        times.record(Duration::from_micros(300), 98);
        times.record(Duration::from_millis(15), 2);
        assert!(times.distribution().starts_with("[<=0ms]:0 [0~10ms]:0 "));
        times.roll();
        assert!(times.distribution().starts_with("[<=0ms]:98 [0~10ms]:0 [10~50ms]:2 "));
        assert_eq!((times.percentile(0.99), times.max_millis()), (14.5, 15));
    }
}
