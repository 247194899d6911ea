//! Milliseconds that only grow, for time-outs; their start means nothing.

use std::sync::OnceLock;
use std::time::Instant;

/// The time now.
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}
