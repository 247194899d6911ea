//! Messages that are not for now: delay levels, and properties that name a time.

use config::MessageStoreConfig;
use remoting::ResponseCode;

use super::properties::{Known, Properties};
use super::random_queue;
use super::refusal::Refusal;
use crate::schedule::DelayLevels;
use crate::timer::Timer;

/// The delay level that the properties ask for; 0: none. It may be negative (a message for the dead letter topic) or
/// above the highest level.
///
/// # Errors
/// A value that is no number, which Java answers with SYSTEM_ERROR.
pub(super) fn level_of(properties: &Properties) -> Result<i32, Refusal> {
    let Some(value) = properties.get(Known::Delay) else { return Ok(0) };
    let text = String::from_utf8_lossy(value);
    text.parse().map_err(|_| Refusal::not_a_number(&text))
}

/// Marks a message for a level and notes where it really goes: returns the queue of the schedule topic.
pub(super) fn to_level(
    properties: &mut Properties,
    level: i32,
    levels: &DelayLevels,
    topic: &str,
    queue_id: i32,
) -> i32 {
    let clamped = level.min(levels.max());
    let mut number = itoa::Buffer::new();
    if clamped != level {
        properties.put(Known::Delay, number.format(clamped).as_bytes());
    }
    properties.put(Known::RealTopic, topic.as_bytes());
    properties.put(Known::RealQueueId, number.format(queue_id).as_bytes());
    clamped - 1
}

/// Properties that name a time. The first that is there counts.
const TIMES: [Known; 3] = [Known::TimerDelaySec, Known::TimerDelayMs, Known::TimerDeliverMs];

/// What the timer is asked for when a message names a time.
pub(super) struct Rules<'a> {
    /// Store keys.
    pub(super) config: &'a MessageStoreConfig,
    /// The timer, when it runs.
    pub(super) timer: Option<&'a Timer>,
    /// Now (ms since the epoch).
    pub(super) now: i64,
}

/// When a message is due whose properties name a time, cut to the tick that ends then; `None`: it goes on (no time is there, it
/// has passed, the timer had the message already, or a delay level goes before it).
///
/// # Errors
/// A time that is no number or too far away, a slot with too many messages, a recall whose time has passed, and every time
/// when no timer runs.
pub(super) fn due_of(properties: &mut Properties, level: i32, rules: &Rules<'_>) -> Result<Option<i64>, Refusal> {
    if TIMES.iter().all(|time| properties.get(*time).is_none()) {
        return Ok(None);
    }
    if level > 0 {
        TIMES.into_iter().for_each(|time| properties.remove(time));
        return Ok(None);
    }
    if properties.get(Known::TimerOutMs).is_some() {
        return Ok(None);
    }
    let Some(timer) = rules.timer.filter(|_| rules.config.timer_wheel_enable) else { return Err(not_enabled()) };
    let limit = i64::from(rules.config.timer_max_delay_sec) * 1000;
    let number = |known| properties.text(known).map(|text| text.parse::<i64>().map_err(|_| illegal(limit))).transpose();
    let deliver = match (number(Known::TimerDelaySec), number(Known::TimerDelayMs), number(Known::TimerDeliverMs)) {
        (Ok(Some(seconds)), ..) => seconds.saturating_mul(1000).saturating_add(rules.now),
        (Ok(None), Ok(Some(millis)), _) => millis.saturating_add(rules.now),
        (Ok(None), Ok(None), Ok(Some(at))) => at,
        _ => return Err(illegal(limit)),
    };
    if deliver <= rules.now {
        return if properties.get(Known::TimerDeleteKey).is_some() { Err(illegal(limit)) } else { Ok(None) };
    }
    if deliver.saturating_sub(rules.now) > limit {
        return Err(illegal(limit));
    }
    let due = timer.tick_before(deliver);
    let most = rules.config.timer_congest_num_each_slot;
    // A number from 0 to 999; without queues there would be none to choose.
    if timer.refuses(due, most, || random_queue(1000).map_or(0, i64::from)) {
        return Err(congested(i64::from(most)));
    }
    Ok(Some(due))
}

/// Marks a message for the timer and notes where it really goes.
pub(super) fn to_timer(properties: &mut Properties, due: i64, topic: &str, queue_id: i32) {
    let mut number = itoa::Buffer::new();
    properties.put(Known::TimerOutMs, number.format(due).as_bytes());
    properties.put(Known::RealTopic, topic.as_bytes());
    properties.put(Known::RealQueueId, number.format(queue_id).as_bytes());
}

fn illegal(limit: i64) -> Refusal {
    Refusal::new(
        ResponseCode::MESSAGE_ILLEGAL,
        format!(
            "timer message illegal, the delay time should not be bigger than the max delay {limit}ms; \
             or if set del msg, the delay time should be bigger than the current time"
        ),
    )
}

fn congested(most: i64) -> Refusal {
    let twice = 2 * most;
    Refusal::new(
        ResponseCode::SYSTEM_ERROR,
        format!(
            "timer message is under flow control, max num limit is {twice} or the current value is greater than {most} \
             and less than {twice}, trigger random flow control"
        ),
    )
}

fn not_enabled() -> Refusal {
    Refusal::new(ResponseCode::SYSTEM_ERROR, "accurate timer message is not enabled, timerWheelEnable is false")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(text: &str) -> Properties {
        let mut properties = Properties::default();
        properties.fill(&[], |out| out.extend_from_slice(text.replace('=', "\x01").replace(';', "\x02").as_bytes()));
        properties
    }

    #[test]
    fn t_01_levels() {
        let levels = DelayLevels::parse("1s 5s").unwrap();
        for (value, expected) in [("1", 1), ("19", 19), ("-1", -1), ("+2", 2)] {
            assert_eq!(level_of(&properties(&format!("DELAY={value};"))).unwrap(), expected);
        }
        assert_eq!(level_of(&properties("DELAY=;")).unwrap(), 0);
        let refusal = level_of(&properties("DELAY=abc;")).unwrap_err();
        assert_eq!(refusal.code, ResponseCode::SYSTEM_ERROR);
        let mut clamped = properties("DELAY=100;A=b;");
        assert_eq!(to_level(&mut clamped, 100, &levels, "T", 3), 1);
        assert_eq!(clamped.as_bytes(), b"A\x01b\x02DELAY\x012\x02REAL_TOPIC\x01T\x02REAL_QID\x013\x02");
    }

    #[test]
    fn times_without_a_timer() {
        let config = MessageStoreConfig::default();
        let rules = Rules { config: &config, timer: None, now: 1_000_000 };
        let due = |text: &str, level| due_of(&mut properties(text), level, &rules);
        assert_eq!(due("A=b;", 0), Ok(None));
        assert_eq!(due("TIMER_DELAY_SEC=10;", 2), Ok(None));
        assert_eq!(due("TIMER_DELAY_SEC=10;TIMER_OUT_MS=5;", 0), Ok(None));
        let refusal = due("TIMER_DELAY_SEC=10;", 0).unwrap_err();
        assert_eq!(refusal.code, ResponseCode::SYSTEM_ERROR);
        assert!(refusal.remark.contains("timerWheelEnable is false"));
        let mut both = properties("TIMER_DELAY_SEC=10;DELAY=1;");
        due_of(&mut both, 1, &rules).unwrap();
        assert_eq!(both.as_bytes(), b"DELAY\x011\x02");
    }

    #[test]
    fn what_the_timer_is_told() {
        let mut told = properties("TIMER_DELAY_SEC=10;A=b;");
        to_timer(&mut told, 5000, "T", 3);
        let text = b"TIMER_DELAY_SEC\x0110\x02A\x01b\x02TIMER_OUT_MS\x015000\x02REAL_TOPIC\x01T\x02REAL_QID\x013\x02";
        assert_eq!(told.as_bytes(), text);
    }
}
