//! A first half as its record shows it.

use store::record::{Properties, RecordView};

/// The properties of a half that decide what becomes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Half<'a> {
    /// The producer's group.
    pub group: Option<&'a str>,
    /// The topic that the message is for.
    pub topic: Option<&'a str>,
    /// The queue that the message is for.
    pub queue_id: Option<i32>,
    /// The producer's unique key, which is the transaction's id.
    pub unique_key: Option<&'a str>,
    /// How often the producer was asked, as the property says it.
    pub check_times: Option<&'a str>,
    /// Seconds during which the producer is not asked, as the property says it.
    pub immunity: Option<&'a str>,
    /// Queue offset of the half that this one is a copy of, as the property says it.
    pub prepared_offset: Option<&'a str>,
}

impl<'a> Half<'a> {
    /// Reads the properties of a record.
    pub fn of(view: &RecordView<'a>) -> Half<'a> {
        Half::read(view.properties())
    }

    fn read(properties: Properties<'a>) -> Half<'a> {
        let mut half = Half::default();
        for (name, value) in properties {
            let text = || std::str::from_utf8(value).ok();
            match name {
                b"PGROUP" => half.group = text(),
                b"REAL_TOPIC" => half.topic = text(),
                b"REAL_QID" => half.queue_id = text().and_then(|id| id.parse().ok()),
                b"UNIQ_KEY" => half.unique_key = text(),
                b"TRANSACTION_CHECK_TIMES" => half.check_times = text(),
                b"CHECK_IMMUNITY_TIME_IN_SECONDS" => half.immunity = text(),
                b"TRAN_PREPARED_QUEUE_OFFSET" => half.prepared_offset = text(),
                _ => {}
            }
        }
        half
    }

    /// Where the message goes once it is committed; `None` when the record does not say.
    pub fn destination(&self) -> Option<(&'a str, i32)> {
        let topic = self.topic.filter(|topic| !topic.is_empty())?;
        Some((topic, self.queue_id.filter(|id| *id >= 0)?))
    }

    /// How often the producer was asked; what is no number counts as Java counts it.
    pub fn times_checked(&self) -> i32 {
        self.check_times.map_or(0, |times| times.parse().unwrap_or(-1))
    }

    /// Milliseconds from its birth during which the producer is not asked, when the half asks for a time of its own.
    pub fn own_immunity(&self, time_out: i64) -> Option<i64> {
        let seconds = self.immunity?.parse::<i64>().unwrap_or(-1);
        Some(if seconds == -1 { time_out } else { seconds.saturating_mul(1000) })
    }

    /// Milliseconds from its birth during which a producer may end it without having been asked, when the half asks for
    /// an immunity of its own.
    pub fn own_time_to_end(&self, time_out: i64) -> Option<i64> {
        let seconds = self.immunity?.parse::<i64>().unwrap_or(0);
        Some(seconds.saturating_mul(1000).max(time_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(text: &str) -> String {
        text.replace('=', "\x01").replace(';', "\x02")
    }

    #[test]
    fn reads_what_is_there() {
        let text = half("PGROUP=G;REAL_TOPIC=T;REAL_QID=3;UNIQ_KEY=u;TRANSACTION_CHECK_TIMES=2;X=y");
        let read = Half::read(Properties::new(text.as_bytes()));
        assert_eq!((read.group, read.destination(), read.unique_key), (Some("G"), Some(("T", 3)), Some("u")));
        assert_eq!((read.times_checked(), read.immunity, read.prepared_offset), (2, None, None));
    }

    #[test]
    fn no_destination() {
        for text in ["", "REAL_TOPIC=T", "REAL_QID=1", "REAL_TOPIC=T;REAL_QID=x", "REAL_TOPIC=T;REAL_QID=-1"] {
            assert_eq!(Half::read(Properties::new(half(text).as_bytes())).destination(), None, "{text}");
        }
    }

    #[test]
    fn immunity() {
        let read = |value: &'static str| Half { immunity: Some(value), ..Half::default() };
        assert_eq!((Half::default().own_immunity(6000), Half::default().own_time_to_end(6000)), (None, None));
        for (value, asked, ended) in
            [("60", 60_000, 60_000), ("1", 1000, 6000), ("-1", 6000, 6000), ("x", 6000, 6000), ("0", 0, 6000)]
        {
            assert_eq!(read(value).own_immunity(6000), Some(asked), "{value}");
            assert_eq!(read(value).own_time_to_end(6000), Some(ended), "{value}");
        }
    }
}
