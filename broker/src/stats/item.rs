//! One counted thing (messages of a topic, bytes read by a group) and its recent past.
//!
//! Adding is two relaxed atomic additions. Samples are taken by the housekeeping: every 10 s for the last minute, every
//! 10 minutes for the last hour, every hour for the last day. What mqadmin prints is the difference of the outermost
//! samples of a window, as in Java.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// A sum, how often it was added to, and samples of both.
#[derive(Debug, Default)]
pub struct Item {
    sum: AtomicU64,
    times: AtomicU64,
    windows: Mutex<[VecDeque<Sample>; 3]>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: i64,
    sum: u64,
    times: u64,
}

/// A span that samples cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The last minute.
    Minute,
    /// The last hour.
    Hour,
    /// The last day.
    Day,
}

impl Window {
    /// All windows, shortest first.
    pub const ALL: [Window; 3] = [Window::Minute, Window::Hour, Window::Day];

    /// Samples that cover the window.
    fn capacity(self) -> usize {
        match self {
            Window::Minute | Window::Hour => 7,
            Window::Day => 25,
        }
    }
}

/// What a window of an item shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// What was added in the window.
    pub sum: u64,
    /// How often something was added in the window.
    pub times: u64,
    /// [`Rate::sum`] a second.
    pub per_second: f64,
}

impl Item {
    /// Adds `value` once.
    pub fn add(&self, value: u64) {
        self.add_times(value, 1);
    }

    /// Adds `value` in `times` portions.
    pub fn add_times(&self, value: u64, times: u64) {
        self.sum.fetch_add(value, Ordering::Relaxed);
        self.times.fetch_add(times, Ordering::Relaxed);
    }

    /// Everything added since the start.
    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// Takes a sample for a window at `now` (ms).
    pub fn sample(&self, window: Window, now: i64) {
        let sample = Sample { at: now, sum: self.sum(), times: self.times.load(Ordering::Relaxed) };
        let mut windows = self.windows.lock();
        let samples = &mut windows[window as usize];
        if samples.is_empty() {
            // Java's first sample is that of the moment before the first count.
            samples.push_back(Sample { at: now - 10_000, sum: 0, times: 0 });
        }
        samples.push_back(sample);
        while samples.len() > window.capacity() {
            samples.pop_front();
        }
    }

    /// What was added in a window, by its samples.
    pub fn rate(&self, window: Window) -> Rate {
        let windows = self.windows.lock();
        let samples = &windows[window as usize];
        let (Some(first), Some(last)) = (samples.front(), samples.back()) else { return Rate::default() };
        let sum = last.sum - first.sum;
        let millis = last.at - first.at;
        let per_second = if millis > 0 { sum as f64 * 1000.0 / millis as f64 } else { 0.0 };
        Rate { sum, times: last.times - first.times, per_second }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_window() {
        let item = Item::default();
        assert_eq!(item.rate(Window::Minute), Rate::default());
        for tick in 0..20 {
            item.add(30);
            item.sample(Window::Minute, tick * 10_000);
        }
        assert_eq!(item.rate(Window::Minute), Rate { sum: 180, times: 6, per_second: 3.0 });
        assert_eq!((item.sum(), item.rate(Window::Hour)), (600, Rate::default()));
    }
}
