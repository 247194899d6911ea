//! The spans that statistics cover, and when their samples were taken.
//!
//! Every window has a clock of its own: the minute one ticks each 10 s, the hour one each 10 minutes, the day one each
//! hour. All counters are sampled at a tick, so the times are kept once and a sample only says which tick it belongs to.

use std::collections::VecDeque;

use parking_lot::RwLock;

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

    /// Seconds between two ticks.
    pub fn period(self) -> u64 {
        match self {
            Window::Minute => 10,
            Window::Hour => 600,
            Window::Day => 3600,
        }
    }

    /// Ticks from the first to the last sample of a full window.
    pub(super) fn span(self) -> u32 {
        match self {
            Window::Minute | Window::Hour => 6,
            Window::Day => 24,
        }
    }
}

/// The ticks of all windows.
#[derive(Debug, Default)]
pub(super) struct Ticks([RwLock<Ring>; 3]);

#[derive(Debug, Default)]
struct Ring {
    /// Number of the last tick; 0 before the first one.
    last: u32,
    /// Times (ms since the epoch) of the last ticks.
    times: VecDeque<i64>,
}

impl Ticks {
    /// The next tick of a window, at `now`. Returns its number.
    pub(super) fn advance(&self, window: Window, now: i64) -> u32 {
        let mut ring = self.0[window as usize].write();
        ring.last = ring.last.saturating_add(1);
        ring.times.push_back(now);
        while ring.times.len() > window.span() as usize + 1 {
            ring.times.pop_front();
        }
        ring.last
    }

    /// Number of the last tick of a window.
    pub(super) fn last(&self, window: Window) -> u32 {
        self.0[window as usize].read().last
    }

    /// Milliseconds from a tick to the last one. A tick that is too long ago counts as the oldest one that is known.
    pub(super) fn millis_since(&self, window: Window, tick: u32) -> i64 {
        let ring = self.0[window as usize].read();
        let back = usize::try_from(ring.last.saturating_sub(tick)).unwrap_or(usize::MAX);
        let at = ring.times.len().saturating_sub(back.saturating_add(1));
        match (ring.times.get(at), ring.times.back()) {
            (Some(then), Some(now)) => now - then,
            _ => 0,
        }
    }
}
