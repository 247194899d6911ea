//! The client's recorded frames, with what depends on the recorded server's files and clock put right.

use std::time::{SystemTime, UNIX_EPOCH};

use remoting::frame::{Split, split};
use remoting::{Command, RequestCode};

use super::memory::Memory;
use super::session::Frame;

/// Times after this (2001, in ms) are of the recording's clock; smaller ones mean themselves.
const CLOCK: i64 = 1_000_000_000_000;
const PULL_NOT_FOUND: i32 = 19;
const HOUR: i64 = 3_600_000;
const DELIVER: &str = "TIMER_DELIVER_MS\u{1}";

/// The bytes to write. `answer` is what the recorded server answered; `opaque` the number of the server's request that
/// the frame answers itself.
pub fn outgoing(frame: &Frame, answer: Option<&Frame>, memory: &Memory, opaque: Option<i32>) -> Vec<u8> {
    let Ok(Split::Frame { header, serialize, body, .. }) = split(&frame.raw, usize::MAX >> 1) else {
        return frame.raw.clone();
    };
    let Ok(mut command) = Command::decode(serialize, header, bytes::Bytes::copy_from_slice(body)) else {
        return frame.raw.clone();
    };
    let mut changed = opaque.is_some_and(|opaque| opaque != command.opaque);
    command.opaque = opaque.unwrap_or(command.opaque);
    let code = if frame.is_response() { RequestCode(-1) } else { RequestCode(frame.code) };
    for (name, value) in &mut command.fields {
        let now = match (code, name.as_str()) {
            (RequestCode::CONSUMER_SEND_MSG_BACK | RequestCode::VIEW_MESSAGE_BY_ID, "offset")
            | (RequestCode::END_TRANSACTION, "commitLogOffset") => {
                value.parse().ok().and_then(|offset| memory.physical.get(&offset)).map(u64::to_string)
            }
            (RequestCode::END_TRANSACTION, "tranStateTableOffset") => {
                frame.field("commitLogOffset").parse().ok().and_then(|place| memory.told.get(&place)).cloned()
            }
            // Both clients asked for "now" and "not long ago".
            (RequestCode::SEARCH_OFFSET_BY_TIMESTAMP, "timestamp") => is_clock(value).then(|| now().to_string()),
            (RequestCode::QUERY_MESSAGE, "beginTimestamp") => is_clock(value).then(|| (now() - HOUR).to_string()),
            // Nothing came: that is as true after a second.
            (RequestCode::PULL_MESSAGE, "suspendTimeoutMillis") => {
                answer.filter(|answer| answer.code == PULL_NOT_FOUND).map(|_| "1000".to_owned())
            }
            (RequestCode::RECALL_MESSAGE, "recallHandle") => memory.handles.get(value.as_str()).cloned(),
            (RequestCode::SEND_MESSAGE_V2, "i") => as_far_from_now(value, frame.field("g")),
            _ => None,
        };
        if let Some(now) = now {
            *value = now;
            changed = true;
        }
    }
    if !changed {
        return frame.raw.clone();
    }
    let mut out = Vec::new();
    command.encode(serialize, &mut out);
    out
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

fn is_clock(time: &str) -> bool {
    time.parse::<i64>().is_ok_and(|time| time > CLOCK)
}

/// Moves the time of delivery in a message's properties, so that it is as far from now as it was from its birth.
fn as_far_from_now(properties: &str, born: &str) -> Option<String> {
    let (head, tail) = properties.split_once(DELIVER)?;
    let (time, rest) = tail.split_at(tail.find('\u{2}').unwrap_or(tail.len()));
    let moved = time.parse::<i64>().ok()? - born.parse::<i64>().ok()? + now();
    Some(format!("{head}{DELIVER}{moved}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_delivery_keeps_its_distance() {
        let moved = as_far_from_now("A\u{1}b\u{2}TIMER_DELIVER_MS\u{1}5000\u{2}C\u{1}d", "2000").unwrap();
        let time: i64 = moved.strip_prefix("A\u{1}b\u{2}TIMER_DELIVER_MS\u{1}").unwrap()[..13].parse().unwrap();
        assert!((time - now() - 3000).abs() < 60_000, "{moved}");
        assert!(moved.ends_with("\u{2}C\u{1}d"));
        assert_eq!(as_far_from_now("A\u{1}b", "1"), None);
    }
}
