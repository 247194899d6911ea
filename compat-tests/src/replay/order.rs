//! Puts the lines of a session into the order in which the recorded server worked on them.
//!
//! The Java broker takes requests of one connection with several threads, each kind with its own: what was written
//! first may be done last. Where the answers show that, the replay writes in the order of the work; and where later
//! requests depend on an earlier one, it waits for that one's answer first.

use std::collections::{BTreeMap, HashMap};

use remoting::RequestCode;

use super::arrange::Queue;
use super::contents::destination;
use super::session::{Event, Frame, Session};

/// Code of an answer to a request that waited too long in an overloaded server.
const SYSTEM_BUSY: i32 = 2;
/// Answers to requests that need a heartbeat to have been done: "subscription not latest" and "no consumer".
const TOO_EARLY: [(RequestCode, i32); 2] =
    [(RequestCode::PULL_MESSAGE, 25), (RequestCode::GET_CONSUMER_LIST_BY_GROUP, 1)];

/// Orders a session.
pub fn put_in_order(session: &mut Session) {
    drop_refused(session);
    order_sends(session);
    while delay_heartbeat(session) {}
    wait_for_effects(session);
}

/// Places of requests and their answers.
fn pairs(session: &Session) -> Vec<(usize, usize)> {
    let mut asked = HashMap::new();
    let mut found = Vec::new();
    for (at, line) in session.lines.iter().enumerate() {
        let Event::Frame(frame) = &line.event else { continue };
        let key = (line.conn, frame.opaque);
        if frame.to_server && !frame.is_response() {
            asked.insert(key, at);
        } else if let (false, true, Some(request)) = (frame.to_server, frame.is_response(), asked.get(&key)) {
            found.push((*request, at));
        }
    }
    found
}

fn frame(session: &Session, at: usize) -> Option<&Frame> {
    match &session.lines.get(at)?.event {
        Event::Frame(frame) => Some(frame),
        _ => None,
    }
}

/// Requests that the recorded server was too busy for are not played: they did nothing.
fn drop_refused(session: &mut Session) {
    let refused = |at: usize| frame(session, at).is_some_and(|answer| answer.code == SYSTEM_BUSY);
    let gone: Vec<usize> =
        pairs(session).into_iter().filter(|(_, answer)| refused(*answer)).flat_map(|(q, a)| [q, a]).collect();
    let mut at = 0;
    session.lines.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
}

/// Messages that were on their way to one queue at the same time are sent in the order of their offsets.
fn order_sends(session: &mut Session) {
    let mut queues: BTreeMap<Queue, Vec<(u64, usize)>> = BTreeMap::new();
    for (request, answer) in pairs(session) {
        let (Some(sent), Some(answer)) = (frame(session, request), frame(session, answer)) else { continue };
        let batch = RequestCode(sent.code) == RequestCode::SEND_BATCH_MESSAGE;
        let single = [RequestCode::SEND_MESSAGE_V2, RequestCode::SEND_REPLY_MESSAGE_V2];
        if !batch && !single.contains(&RequestCode(sent.code)) {
            continue;
        }
        if let (Ok(offset), Some(queue)) = (answer.field("queueOffset").parse(), destination(sent, answer)) {
            queues.entry(queue).or_default().push((offset, request));
        }
    }
    for mut sends in queues.into_values() {
        let mut places: Vec<usize> = sends.iter().map(|(_, at)| *at).collect();
        places.sort_unstable();
        sends.sort_unstable();
        let lines: Vec<_> = sends.iter().map(|(_, at)| session.lines[*at].clone()).collect();
        for (place, mut line) in places.into_iter().zip(lines) {
            line.at = session.lines[place].at;
            session.lines[place] = line;
        }
    }
}

/// A heartbeat that was done after requests that need what it brings goes behind their answers. False: there is none.
fn delay_heartbeat(session: &mut Session) -> bool {
    let pairs = pairs(session);
    let late = pairs.iter().find_map(|&(request, answer)| {
        let heartbeat = frame(session, request)?;
        let refused = |at: &usize| {
            let asked = pairs.iter().find(|(_, answer)| answer == at).and_then(|(request, _)| frame(session, *request));
            let codes = asked.zip(frame(session, *at)).map(|(asked, answer)| (RequestCode(asked.code), answer.code));
            codes.is_some_and(|codes| TOO_EARLY.contains(&codes))
        };
        let last = (request..answer).rev().find(refused)?;
        (RequestCode(heartbeat.code) == RequestCode::HEART_BEAT).then_some((request, last))
    });
    if let Some((from, to)) = late {
        let at = session.lines[to].at;
        session.lines[from..=to].rotate_left(1);
        session.lines[to].at = at;
    }
    late.is_some()
}

/// The answer to a heartbeat is waited for before the next pull is written, and that to a message before the next
/// message: a pull needs the subscription, and the queue offset of a message tells how many came before it.
fn wait_for_effects(session: &mut Session) {
    let sends = [RequestCode::SEND_MESSAGE_V2, RequestCode::SEND_BATCH_MESSAGE];
    let pulls = [RequestCode::PULL_MESSAGE, RequestCode::LITE_PULL_MESSAGE];
    for at in 0..session.lines.len() {
        let asks = |at: usize, codes: &[RequestCode]| {
            let request = frame(session, at).filter(|frame| frame.to_server && !frame.is_response());
            request.is_some_and(|request| codes.contains(&RequestCode(request.code)))
        };
        let next = if asks(at, &[RequestCode::HEART_BEAT]) {
            &pulls[..]
        } else if asks(at, &sends) {
            &sends[..]
        } else {
            continue;
        };
        let Some((_, answer)) = pairs(session).into_iter().find(|(asked, _)| *asked == at) else { continue };
        if let Some(next) = (at + 1..answer).find(|at| asks(*at, next)) {
            session.lines[next..=answer].rotate_right(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::session::{Line, Peer};

    fn line(to_server: bool, opaque: i32, request: i32, code: i32, fields: &[(&str, &str)]) -> Line {
        let frame = Frame {
            to_server,
            code: if to_server { request } else { code },
            request: String::new(),
            opaque,
            flag: i32::from(!to_server),
            remark: None,
            fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: Vec::new(),
            raw: Vec::new(),
            version: 0,
        };
        Line { conn: 1, peer: Peer::Broker, at: 0, event: Event::Frame(Box::new(frame)) }
    }

    fn played(lines: Vec<Line>) -> Vec<(bool, i32)> {
        let mut session = Session { name: String::new(), lines };
        put_in_order(&mut session);
        (0..session.lines.len()).filter_map(|at| frame(&session, at)).map(|f| (f.to_server, f.opaque)).collect()
    }

    #[test]
    fn sends_follow_their_offsets() {
        let answer = |opaque, offset| line(false, opaque, 310, 0, &[("queueId", "0"), ("queueOffset", offset)]);
        let send = |opaque| line(true, opaque, 310, 0, &[("b", "T")]);
        let lines = vec![send(1), send(2), send(3), answer(3, "7"), answer(1, "9"), answer(2, "8")];
        let expected = [(true, 3), (false, 3), (true, 2), (false, 2), (true, 1), (false, 1)];
        assert_eq!(played(lines), expected);
    }

    #[test]
    fn a_slow_heartbeat_comes_after_the_pulls_it_was_slower_than() {
        let lines = vec![
            line(true, 1, 34, 0, &[]),
            line(true, 2, 11, 0, &[]),
            line(false, 2, 11, 25, &[]),
            line(true, 3, 11, 0, &[]),
            line(false, 1, 34, 0, &[]),
            line(false, 3, 11, 0, &[]),
        ];
        assert_eq!(played(lines), [(true, 2), (false, 2), (true, 1), (false, 1), (true, 3), (false, 3)]);
    }

    #[test]
    fn what_was_refused_is_left_out() {
        let lines = vec![line(true, 1, 310, 0, &[]), line(true, 2, 34, 0, &[]), line(false, 1, 310, 2, &[])];
        assert_eq!(played(lines), [(true, 2)]);
    }
}
