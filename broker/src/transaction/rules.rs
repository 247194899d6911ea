//! What becomes of a half that nobody has ended, by its age and what it asks for.

use super::Half;

/// What becomes of an open half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is too young, and so is what comes behind it.
    Wait,
    /// It is not asked for yet, but what comes behind it may be.
    PutBack,
    /// Its producer is asked.
    Ask,
    /// It was asked for too often, or is older than messages are kept.
    GiveUp,
}

/// The clock and the settings of one pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Milliseconds since the epoch.
    pub(super) now: i64,
    /// Milliseconds from its birth before a half is asked for that wishes nothing else.
    pub(super) time_out: i64,
    /// Questions before a half is given up.
    pub(super) check_max: i32,
    /// Milliseconds after which messages are deleted.
    pub(super) kept: i64,
}

impl Rules {
    /// What becomes of a half that was born then and has not been ended.
    pub(super) fn judge(&self, half: &Half<'_>, born: i64) -> Verdict {
        let age = self.now.saturating_sub(born);
        if half.check_times.is_some() && half.times_checked() >= self.check_max || age > self.kept {
            return Verdict::GiveUp;
        }
        match half.own_immunity(self.time_out) {
            Some(immunity) if age < immunity && half.prepared_offset.is_none_or(|of| of.parse() != Ok(-1)) => {
                Verdict::PutBack
            }
            None if (0..=self.time_out).contains(&age) => Verdict::Wait,
            _ => Verdict::Ask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { now: 1_000_000, time_out: 6000, check_max: 3, kept: 100_000 };

    fn judged(half: Half<'_>, age: i64) -> Verdict {
        RULES.judge(&half, RULES.now - age)
    }

    #[test]
    fn young_halves_wait_and_old_ones_go() {
        let plain = Half::default();
        for (age, expected) in [
            (0, Verdict::Wait),
            (6000, Verdict::Wait),
            (6001, Verdict::Ask),
            (100_000, Verdict::Ask),
            (100_001, Verdict::GiveUp),
            // A producer whose clock is ahead.
            (-1, Verdict::Ask),
        ] {
            assert_eq!(judged(plain, age), expected, "{age}");
        }
    }

    #[test]
    fn as_many_questions_as_configured() {
        for (times, expected) in
            [(None, Verdict::Ask), (Some("2"), Verdict::Ask), (Some("3"), Verdict::GiveUp), (Some("x"), Verdict::Ask)]
        {
            assert_eq!(judged(Half { check_times: times, ..Half::default() }, 7000), expected, "{times:?}");
        }
    }

    #[test]
    fn x_04_an_immunity_of_its_own() {
        let immune = Half { immunity: Some("60"), ..Half::default() };
        for (age, expected) in [(0, Verdict::PutBack), (59_999, Verdict::PutBack), (60_000, Verdict::Ask)] {
            assert_eq!(judged(immune, age), expected, "{age}");
            assert_eq!(judged(Half { prepared_offset: Some("4"), ..immune }, age), expected, "{age}");
        }
        assert_eq!(judged(Half { prepared_offset: Some("-1"), ..immune }, 0), Verdict::Ask);
        assert_eq!(judged(Half { immunity: Some("x"), ..Half::default() }, 5999), Verdict::PutBack);
    }
}
