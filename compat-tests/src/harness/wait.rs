//! Waiting for a condition, with a limit.

use std::time::{Duration, Instant};

/// Polls `condition` until it holds.
///
/// # Panics
/// When it does not hold within `limit`.
#[track_caller]
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < end, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
