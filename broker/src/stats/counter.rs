//! Sums that are counted together (messages, bytes and requests of a topic, say) and their recent past.
//!
//! Adding is a relaxed atomic addition a sum. Samples are taken by the housekeeping at the ticks of [`super::Window`]; what
//! mqadmin prints is the difference of the outermost samples of a window, as in Java. A sample is kept only when it
//! differs from the one before, and only counters that have counted keep any: a broker may have 100,000 topics, few of
//! which are busy.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::window::{Ticks, Window};

/// `N` sums.
#[derive(Debug)]
pub struct Counter<const N: usize> {
    sums: [AtomicU64; N],
    history: Mutex<Option<Box<History<N>>>>,
}

/// The samples of the three windows, oldest first.
type History<const N: usize> = [Vec<Sample<N>>; 3];

/// The sums at a tick, and at those behind it up to the next sample.
#[derive(Clone, Copy, Debug)]
struct Sample<const N: usize> {
    tick: u32,
    sums: [u64; N],
}

/// What a window shows of one sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// What was added in the window.
    pub sum: u64,
    /// How often something was added in the window.
    pub times: u64,
    /// [`Rate::sum`] a second.
    pub per_second: f64,
}

impl<const N: usize> Default for Counter<N> {
    fn default() -> Self {
        Counter { sums: [const { AtomicU64::new(0) }; N], history: Mutex::new(None) }
    }
}

impl<const N: usize> Counter<N> {
    /// Adds to all sums.
    pub fn add(&self, values: [u64; N]) {
        for (sum, value) in self.sums.iter().zip(values) {
            sum.fetch_add(value, Ordering::Relaxed);
        }
    }

    /// Adds to one sum.
    pub fn add_to(&self, which: usize, value: u64) {
        if let Some(sum) = self.sums.get(which) {
            sum.fetch_add(value, Ordering::Relaxed);
        }
    }

    /// What was added to a sum since the start.
    pub fn sum(&self, which: usize) -> u64 {
        self.sums.get(which).map_or(0, |sum| sum.load(Ordering::Relaxed))
    }

    /// Whether anything was added.
    pub fn is_used(&self) -> bool {
        self.sums.iter().any(|sum| sum.load(Ordering::Relaxed) != 0)
    }

    /// Takes the sample of a tick.
    pub(super) fn sample(&self, window: Window, tick: u32) {
        let sums = self.sums.each_ref().map(|sum| sum.load(Ordering::Relaxed));
        let mut history = self.history.lock();
        if history.is_none() && sums.iter().all(|sum| *sum == 0) {
            return;
        }
        let samples = &mut history.get_or_insert_default()[window as usize];
        let oldest = tick.saturating_sub(window.span());
        // The last sample that is not in the window any more says where the window begins.
        let past = samples.iter().take_while(|sample| sample.tick <= oldest).count();
        samples.drain(..past.saturating_sub(1));
        if samples.last().is_none_or(|last| last.sums != sums) {
            if samples.is_empty() {
                // Most topics never have a second one.
                samples.reserve_exact(1);
            }
            samples.push(Sample { tick, sums });
        }
    }

    /// What a window shows of a sum, whose additions are counted by the sum `times`.
    pub(super) fn rate(&self, which: usize, times: Option<usize>, window: Window, ticks: &Ticks) -> Rate {
        let history = self.history.lock();
        let Some(samples) = history.as_ref().map(|history| &history[window as usize]) else { return Rate::default() };
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Rate::default() };
        let start = ticks.last(window).saturating_sub(window.span());
        let (base, millis) = if first.tick <= start {
            let base = samples.iter().rev().find(|sample| sample.tick <= start).unwrap_or(first);
            (base.sums, ticks.millis_since(window, start))
        } else {
            // Java's first sample is one of the moment a period before the first tick.
            ([0; N], ticks.millis_since(window, first.tick) + window.period() as i64 * 1000)
        };
        let difference = |at: usize| match (base.get(at), last.sums.get(at)) {
            (Some(base), Some(last)) => last.saturating_sub(*base),
            _ => 0,
        };
        let sum = difference(which);
        Rate {
            sum,
            times: times.map_or(0, difference),
            per_second: if millis > 0 { sum as f64 * 1000.0 / millis as f64 } else { 0.0 },
        }
    }

    /// Bytes of samples that are held.
    #[cfg(test)]
    fn held(&self) -> usize {
        let history = self.history.lock();
        let samples = |history: &History<N>| history.iter().map(|window| window.capacity()).sum::<usize>();
        history.as_ref().map_or(0, |history| size_of::<History<N>>() + samples(history) * size_of::<Sample<N>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts at every tick of a window as `add` says, and tells what the window shows at the end.
    fn run(window: Window, adds: &[u64]) -> (Rate, usize) {
        let (counter, ticks) = (Counter::<2>::default(), Ticks::default());
        for (number, add) in adds.iter().enumerate() {
            if *add > 0 {
                counter.add([*add, 1]);
            }
            let tick = ticks.advance(window, number as i64 * window.period() as i64 * 1000);
            counter.sample(window, tick);
        }
        (counter.rate(0, Some(1), window, &ticks), counter.held())
    }

    #[test]
    fn rates_are_those_of_the_window() {
        assert_eq!(run(Window::Minute, &[]).0, Rate::default());
        assert_eq!(run(Window::Minute, &[0, 0]), (Rate::default(), 0));
        // Counted before the first tick: one period.
        assert_eq!(run(Window::Minute, &[30]).0, Rate { sum: 30, times: 1, per_second: 3.0 });
        assert_eq!(run(Window::Minute, &[0, 0, 30, 30]).0, Rate { sum: 60, times: 2, per_second: 3.0 });
        assert_eq!(run(Window::Minute, &[30; 6]).0, Rate { sum: 180, times: 6, per_second: 3.0 });
        assert_eq!(run(Window::Minute, &[30; 7]).0, Rate { sum: 180, times: 6, per_second: 3.0 });
        assert_eq!(run(Window::Minute, &[30; 20]).0, Rate { sum: 180, times: 6, per_second: 3.0 });
        assert_eq!(run(Window::Day, &[3600; 100]).0, Rate { sum: 86_400, times: 24, per_second: 1.0 });
    }

    #[test]
    fn what_was_before_the_window_does_not_count() {
        let mut adds = [0; 20];
        adds[1] = 60;
        assert_eq!(run(Window::Hour, &adds[..7]).0.sum, 60);
        assert_eq!(run(Window::Hour, &adds[..8]).0, Rate::default());
        assert_eq!(run(Window::Hour, &adds).0, Rate::default());
        adds[16] = 6;
        assert_eq!(run(Window::Hour, &adds).0, Rate { sum: 6, times: 1, per_second: 0.001_666_666_666_666_666_7 });
    }

    #[test]
    fn memory_follows_activity() {
        let mut adds = [0; 500];
        adds[3] = 1;
        let once = run(Window::Day, &adds).1;
        let busy = run(Window::Day, &[1; 500]).1;
        assert!(once <= 104, "{once}");
        assert!(busy <= 1700, "{busy}");
    }

    #[test]
    fn a_hundred_thousand_topics() {
        let ticks = Ticks::default();
        let counters: Vec<Counter<3>> = (0..100_000).map(|_| Counter::default()).collect();
        counters.iter().for_each(|counter| counter.add([1, 100, 1]));
        for number in 0..3 {
            for window in Window::ALL {
                let tick = ticks.advance(window, number * 1000);
                counters.iter().for_each(|counter| counter.sample(window, tick));
            }
        }
        let bytes: usize = counters.iter().map(|counter| size_of::<Counter<3>>() + counter.held()).sum();
        assert!(bytes <= 25_000_000, "{bytes}");
    }
}
