//! Plays a session at running servers: recorded requests go out in their order, and every recorded frame of the
//! server is waited for and compared.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use remoting::{Command, RequestCode};

use super::compare::{Addresses, Difference, compare};
use super::contents::property;
use super::ledger::Ledger;
use super::memory::Memory;
use super::outgoing::outgoing;
use super::session::{Event, Frame, Peer, Session};
use super::surroundings::Surroundings;
use super::wire::Wire;

/// How long a frame may be late beyond the time that the reference took.
const PATIENCE: Duration = Duration::from_secs(8);
/// The same for a frame that the ledger allows to be missing.
const BRIEF: Duration = Duration::from_millis(300);
/// How long a new topic may take to the name server.
const SOON: Duration = Duration::from_secs(1);
const TOPIC_NOT_EXIST: i32 = 17;

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

/// The replay of sessions, one after the other, at the same servers.
pub struct Replay<'a> {
    /// The servers.
    pub target: Target,
    /// What may differ.
    pub ledger: &'a Ledger,
    /// What earlier sessions left.
    pub memory: Memory,
    /// What the name server is told besides.
    pub surroundings: Option<Surroundings>,
}

impl Replay<'_> {
    /// Plays one session and compares every frame that the server had sent. `place` is its name in the ledger.
    pub fn play(&mut self, place: &str, session: &Session) -> Vec<Verdict> {
        let mut wires: HashMap<u64, Wire> = HashMap::new();
        let mut asked: HashMap<(u64, i32), &Frame> = HashMap::new();
        // Numbers of the server's own requests: recorded and now.
        let mut numbers: HashMap<(u64, i32), i32> = HashMap::new();
        let mut verdicts = Vec::new();
        let mut before = 0;
        for line in &session.lines {
            let addr = match line.peer {
                Peer::Namesrv => &self.target.namesrv,
                Peer::Broker if !self.target.broker.is_empty() => &self.target.broker,
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
                    let key = (line.conn, frame.opaque);
                    if frame.to_server {
                        if !frame.is_response() {
                            asked.insert(key, frame);
                        }
                        let answer = session.answer(line.conn, frame).filter(|_| !frame.is_response());
                        if let (Some(surroundings), Some(answer)) = (&mut self.surroundings, answer) {
                            surroundings.before(frame, answer);
                        }
                        let number = numbers.get(&key).copied().filter(|_| frame.is_response());
                        if let Err(error) = wire.send(&outgoing(frame, answer, &self.memory, number)) {
                            verdicts.push(lost(&frame.request, &error.to_string()));
                        }
                    } else {
                        // A frame that may be missing is not waited for as long.
                        let rare = self.ledger.lists(place, &frame.request, "missing");
                        let limit = if rare { BRIEF } else { pause + PATIENCE };
                        let request = asked.get(&key).copied().filter(|_| frame.is_response());
                        let got = expect(wire, frame, limit).and_then(|got| route_soon(wire, request, frame, got));
                        let Some(got) = got else {
                            verdicts.push(lost(&frame.request, "the server sent nothing"));
                            continue;
                        };
                        if !frame.is_response() {
                            numbers.insert(key, got.opaque);
                        }
                        self.memory.learn(request, frame, &got);
                        let differences = compare(frame, &got, &self.target.addresses, &self.memory.stripped);
                        verdicts.push(Verdict { request: frame.request.clone(), differences });
                    }
                }
            }
        }
        for (_, wire) in wires {
            verdicts.extend(extra(wire));
        }
        verdicts
    }
}

fn lost(request: &str, what: &str) -> Verdict {
    let difference = Difference { kind: "missing".into(), what: what.to_owned() };
    Verdict { request: request.to_owned(), differences: vec![difference] }
}

/// The frame that the server sends where it sent the recorded one. Java's questions about transactions come in any order.
fn expect(wire: &mut Wire, frame: &Frame, limit: Duration) -> Option<Command> {
    let recorded_correlation = property(frame.field("properties"), "CORRELATION_ID");
    let got = wire.take(limit, |command| {
        if frame.is_response() {
            command.is_response() && command.opaque == frame.opaque
        } else {
            !command.is_response()
                && command.code == frame.code
                && correlation(command) == recorded_correlation
                && command.get("transactionId").unwrap_or_default() == frame.field("transactionId")
        }
    });
    got.map(|received| received.command)
}

/// Which question a reply that is pushed to a client answers: several may be under way.
fn correlation(command: &Command) -> Option<&str> {
    property(command.get("properties")?, "CORRELATION_ID")
}

/// A new topic finds its way to the name server beside the answer to what made it, and the recorded client asked a
/// while later: asks again for a route that is not there yet.
fn route_soon(wire: &mut Wire, request: Option<&Frame>, recorded: &Frame, mut got: Command) -> Option<Command> {
    let Some(request) = request.filter(|asked| RequestCode(asked.code) == RequestCode::GET_ROUTEINFO_BY_TOPIC) else {
        return Some(got);
    };
    let end = Instant::now() + SOON;
    while recorded.code == 0 && got.code == TOPIC_NOT_EXIST && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
        wire.send(&request.raw).ok()?;
        got = expect(wire, recorded, PATIENCE)?;
    }
    Some(got)
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
