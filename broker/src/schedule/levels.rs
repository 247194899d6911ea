//! The delay levels of `messageDelayLevel`: `1s 5s 10s .. 2h`, numbered from 1.

use thiserror::Error;

/// The levels' delays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayLevels {
    /// Milliseconds; level n stands at n - 1.
    millis: Vec<i64>,
}

/// An operator's mistake in `messageDelayLevel`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("messageDelayLevel: {0:?} is not a number with s, m, h or d behind it")]
pub struct BadDelayLevel(String);

impl DelayLevels {
    /// Reads the configured text: numbers with a unit (s, m, h, d), separated by single blanks.
    ///
    /// # Errors
    /// A part that is not a number with a unit.
    pub fn parse(text: &str) -> Result<DelayLevels, BadDelayLevel> {
        let level = |part: &str| {
            let unit = match part.as_bytes().last()? {
                b's' => 1000,
                b'm' => 60_000,
                b'h' => 3_600_000,
                b'd' => 86_400_000,
                _ => return None,
            };
            part[..part.len() - 1].parse::<i64>().ok()?.checked_mul(unit)
        };
        // Java's split drops empty parts at the end only.
        let parts = text.trim_end_matches(' ').split(' ');
        let millis: Result<_, _> =
            parts.map(|part| level(part).ok_or_else(|| BadDelayLevel(part.to_owned()))).collect();
        Ok(DelayLevels { millis: millis? })
    }

    /// The highest level.
    pub fn max(&self) -> i32 {
        i32::try_from(self.millis.len()).unwrap_or(i32::MAX)
    }

    /// The delay of a level in milliseconds; `None` when there is no such level.
    pub fn millis(&self, level: i32) -> Option<i64> {
        let index = usize::try_from(level).ok()?.checked_sub(1)?;
        self.millis.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_has_eighteen_levels() {
        let levels = DelayLevels::parse("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h").unwrap();
        assert_eq!(levels.max(), 18);
        assert_eq!(
            (levels.millis(1), levels.millis(5), levels.millis(18)),
            (Some(1000), Some(60_000), Some(7_200_000))
        );
        assert_eq!((levels.millis(0), levels.millis(19), levels.millis(-1)), (None, None, None));
        assert_eq!(DelayLevels::parse("2d").unwrap().millis(1), Some(172_800_000));
    }

    #[test]
    fn mistakes_are_named() {
        for bad in ["", "1s 5", "1s  5s", "xs", "s", "9223372036854775807d", "1s 5é"] {
            assert!(DelayLevels::parse(bad).is_err(), "{bad}");
        }
    }
}
