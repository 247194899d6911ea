//! Plays a session at running servers: recorded requests go out in their order, and every recorded frame of the
//! server is waited for and compared.

use std::collections::HashMap;
use std::time::Duration;

use remoting::frame::{Split, split};
use remoting::{Command, RequestCode};

use super::compare::{Addresses, Difference, compare, physical_offsets};
use super::session::{Event, Frame, Peer, Session};
use super::wire::Wire;

/// How long a frame may be late beyond the time that the reference took.
const PATIENCE: Duration = Duration::from_secs(8);

/// Where the servers are.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port` of the name server.
    pub namesrv: String,
    /// `host:port` of the broker; empty when only a name server runs.
    pub broker: String,
    /// Addresses that stand for each other.
    pub addresses: Addresses,
}

/// The comparison of one recorded frame of the server.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Name of the request (of the answered one).
    pub request: String,
    /// In what it differs.
    pub differences: Vec<Difference>,
}

/// What a session's replay remembers for the sessions after it: where records lie here that lay elsewhere there.
#[derive(Debug, Default)]
pub struct Memory {
    physical: HashMap<u64, u64>,
}

/// Plays one session and compares every frame that the server had sent.
pub fn play(session: &Session, target: &Target, memory: &mut Memory) -> Vec<Verdict> {
    let mut wires: HashMap<u64, Wire> = HashMap::new();
    let mut verdicts = Vec::new();
    let mut before = 0;
    for line in &session.lines {
        let addr = match line.peer {
            Peer::Namesrv => &target.namesrv,
            Peer::Broker if !target.broker.is_empty() => &target.broker,
            _ => continue,
        };
        let pause = Duration::from_millis(line.at.saturating_sub(before));
        before = line.at;
        match &line.event {
            Event::Open => match Wire::connect(addr) {
                Ok(wire) => drop(wires.insert(line.conn, wire)),
                Err(error) => verdicts.push(lost("connect", &error.to_string())),
            },
            Event::Close => {
                if let Some(wire) = wires.remove(&line.conn) {
                    verdicts.extend(extra(wire));
                }
            }
            Event::Frame(frame) => {
                let Some(wire) = wires.get_mut(&line.conn) else { continue };
                if frame.to_server {
                    if let Err(error) = wire.send(&outgoing(frame, memory)) {
                        verdicts.push(lost(&frame.request, &error.to_string()));
                    }
                } else {
                    verdicts.push(expect(wire, frame, pause, target, memory));
                }
            }
        }
    }
    for (_, wire) in wires {
        verdicts.extend(extra(wire));
    }
    verdicts
}

fn lost(request: &str, what: &str) -> Verdict {
    let difference = Difference { kind: "missing".into(), what: what.to_owned() };
    Verdict { request: request.to_owned(), differences: vec![difference] }
}

/// A recorded frame with what depends on the server's own files put right.
fn outgoing(frame: &Frame, memory: &Memory) -> Vec<u8> {
    if frame.is_response() || frame.code != RequestCode::CONSUMER_SEND_MSG_BACK.0 {
        return frame.raw.clone();
    }
    let Ok(Split::Frame { header, serialize, body, .. }) = split(&frame.raw, usize::MAX >> 1) else {
        return frame.raw.clone();
    };
    let Ok(mut command) = Command::decode(serialize, header, bytes::Bytes::copy_from_slice(body)) else {
        return frame.raw.clone();
    };
    for (name, value) in &mut command.fields {
        let known = value.parse().ok().and_then(|offset: u64| memory.physical.get(&offset));
        if let ("offset", Some(known)) = (name.as_str(), known) {
            *value = known.to_string();
        }
    }
    let mut out = Vec::new();
    command.encode(serialize, &mut out);
    out
}

fn expect(wire: &mut Wire, frame: &Frame, pause: Duration, target: &Target, memory: &mut Memory) -> Verdict {
    let got = wire.take(pause + PATIENCE, |command| {
        if frame.is_response() {
            command.is_response() && command.opaque == frame.opaque
        } else {
            !command.is_response() && command.code == frame.code
        }
    });
    let Some(got) = got else { return lost(&frame.request, "the server sent nothing") };
    memory.physical.extend(physical_offsets(&frame.body, &got.command.body));
    Verdict { request: frame.request.clone(), differences: compare(frame, &got.command, &target.addresses) }
}

/// Requests of the server that the reference had not sent. (Answers beyond the recording belong to requests whose
/// answer came after the recording's connection was closed.)
fn extra(wire: Wire) -> Vec<Verdict> {
    let beyond = wire.rest().into_iter().filter(|received| !received.command.is_response());
    let verdict = |command: Command| {
        let code = RequestCode(command.code);
        let difference = Difference { kind: "extra".into(), what: format!("{:?}", command.fields) };
        Verdict {
            request: code.name().map_or_else(|| code.0.to_string(), str::to_owned),
            differences: vec![difference],
        }
    };
    beyond.map(|received| verdict(received.command)).collect()
}
