//! Messages that are not for now: delay levels, and properties that name a time.

use remoting::ResponseCode;

use super::properties::{Known, Properties};
use super::refusal::Refusal;
use crate::schedule::DelayLevels;

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

/// Looks at the properties that name a time. `Ok`: the message goes on (none is there, its time has passed, or a delay
/// level goes before it).
///
/// # Errors
/// A time that is no number or too far away, and any other time in the future: without a running timer it could not
/// be kept.
pub(super) fn check_timer(
    properties: &mut Properties,
    level: i32,
    now: i64,
    config: &config::MessageStoreConfig,
) -> Result<(), Refusal> {
    const TIMES: [Known; 3] = [Known::TimerDelaySec, Known::TimerDelayMs, Known::TimerDeliverMs];
    if TIMES.iter().all(|time| properties.get(*time).is_none()) {
        return Ok(());
    }
    if level > 0 {
        TIMES.into_iter().for_each(|time| properties.remove(time));
        return Ok(());
    }
    if properties.get(Known::TimerOutMs).is_some() {
        return Ok(());
    }
    if !config.timer_wheel_enable {
        return Err(not_enabled());
    }
    let limit = i64::from(config.timer_max_delay_sec) * 1000;
    let illegal = || {
        Refusal::new(
            ResponseCode::MESSAGE_ILLEGAL,
            format!(
                "timer message illegal, the delay time should not be bigger than the max delay {limit}ms; \
                 or if set del msg, the delay time should be bigger than the current time"
            ),
        )
    };
    let number = |known| properties.text(known).map(|text| text.parse::<i64>().map_err(|_| illegal())).transpose();
    let deliver = match (number(Known::TimerDelaySec), number(Known::TimerDelayMs), number(Known::TimerDeliverMs)) {
        (Ok(Some(seconds)), ..) => seconds.saturating_mul(1000).saturating_add(now),
        (Ok(None), Ok(Some(millis)), _) => millis.saturating_add(now),
        (Ok(None), Ok(None), Ok(Some(at))) => at,
        _ => return Err(illegal()),
    };
    if deliver <= now {
        return Ok(());
    }
    if deliver.saturating_sub(now) > limit {
        return Err(illegal());
    }
    Err(not_enabled())
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
    fn times() {
        let config = config::MessageStoreConfig::default();
        let check = |text: &str, level| check_timer(&mut properties(text), level, 1_000_000, &config);
        assert_eq!(check("A=b;", 0), Ok(()));
        assert_eq!(check("TIMER_DELIVER_MS=999;", 0), Ok(()));
        assert_eq!(check("TIMER_DELAY_SEC=10;", 2), Ok(()));
        assert_eq!(check("TIMER_DELAY_SEC=10;", 0).unwrap_err().code, ResponseCode::SYSTEM_ERROR);
        for illegal in ["TIMER_DELAY_SEC=400000;", "TIMER_DELAY_MS=x;", "TIMER_DELAY_SEC=9223372036854775807;"] {
            assert_eq!(check(illegal, 0).unwrap_err().code, ResponseCode::MESSAGE_ILLEGAL, "{illegal}");
        }
        let mut both = properties("TIMER_DELAY_SEC=10;DELAY=1;");
        check_timer(&mut both, 1, 0, &config).unwrap();
        assert_eq!(both.as_bytes(), b"DELAY\x011\x02");
    }
}
