//! Delay levels: `messageDelayLevel`, a list of durations such as `1s 5s 10s 1m 2h`.

/// The delays in ms; level 1 is the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelayLevels(Vec<i64>);

impl DelayLevels {
    /// Reads the configured text. As in Java reading ends at the first word that is no duration (`s`, `m`, `h`, `d`).
    pub fn parse(text: &str) -> DelayLevels {
        let duration = |word: &str| {
            let unit = word.chars().last()?;
            let millis = match unit {
                's' => 1000,
                'm' => 60_000,
                'h' => 3_600_000,
                'd' => 86_400_000,
                _ => return None,
            };
            word.strip_suffix(unit)?.parse::<i64>().ok()?.checked_mul(millis)
        };
        DelayLevels(text.split(' ').map_while(duration).collect())
    }

    /// The highest level.
    pub fn max_level(&self) -> usize {
        self.0.len()
    }

    /// When a message of a level is due, in ms, if it was stored at `store_timestamp`. A level above the highest is
    /// the highest. `None` for a level that is not positive.
    pub fn due(&self, level: i32, store_timestamp: i64) -> Option<i64> {
        let level = usize::try_from(level).ok().filter(|level| *level > 0)?.min(self.max_level());
        let delay = level.checked_sub(1).and_then(|index| self.0.get(index)).copied();
        (level > 0).then(|| store_timestamp.saturating_add(delay.unwrap_or(1000)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_levels() {
        let levels = DelayLevels::parse("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h");
        assert_eq!(levels.max_level(), 18);
        assert_eq!(levels.due(1, 100), Some(1100));
        assert_eq!(levels.due(18, 0), Some(7_200_000));
        assert_eq!(levels.due(99, 0), Some(7_200_000));
        assert_eq!((levels.due(0, 0), levels.due(-1, 0)), (None, None));
        assert_eq!(DelayLevels::parse("1s x 2s").max_level(), 1);
        assert_eq!(DelayLevels::parse("").due(3, 5), None);
    }
}
