//! A recorded session: the lines of one `golden/wire/AREA/NAME.jsonl`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use remoting::RequestCode;
use serde::Deserialize;
use serde_json::Value;

/// Who was at the server end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// The name server.
    Namesrv,
    /// The broker.
    Broker,
    /// Any other server; its connections are not replayed.
    #[serde(other)]
    Other,
}

/// A frame as it was recorded.
#[derive(Clone, Debug)]
pub struct Frame {
    /// From the client to the server.
    pub to_server: bool,
    /// Request or response code.
    pub code: i32,
    /// Name of the request code; in an answer, of the request's.
    pub request: String,
    /// Pairs answers with requests.
    pub opaque: i32,
    /// Bit 0: response; bit 1: one-way.
    pub flag: i32,
    /// The remark.
    pub remark: Option<String>,
    /// The header fields.
    pub fields: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// The whole frame with its length.
    pub raw: Vec<u8>,
    /// Version of the sender.
    pub version: i32,
}

impl Frame {
    /// Whether it answers a request.
    pub fn is_response(&self) -> bool {
        self.flag & 1 != 0
    }

    /// A header field; empty when it is not there.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// What happened on a connection.
#[derive(Clone, Debug)]
pub enum Event {
    /// The client connected.
    Open,
    /// The client closed.
    Close,
    /// A frame in either direction.
    Frame(Box<Frame>),
}

/// One line of a session.
#[derive(Clone, Debug)]
pub struct Line {
    /// Number of the connection in the session.
    pub conn: u64,
    /// Which server.
    pub peer: Peer,
    /// Milliseconds since the session began.
    pub at: u64,
    /// What happened.
    pub event: Event,
}

/// A whole session in the order of time.
#[derive(Clone, Debug)]
pub struct Session {
    /// The file's name without its ending.
    pub name: String,
    /// The lines.
    pub lines: Vec<Line>,
}

impl Session {
    /// Requests of the client and their answers, in the order of the answers.
    pub fn exchanges(&self) -> Vec<(&Frame, &Frame)> {
        let mut asked: BTreeMap<(u64, i32), &Frame> = BTreeMap::new();
        let mut found = Vec::new();
        for line in self.lines.iter().filter(|line| line.peer != Peer::Other) {
            let Event::Frame(frame) = &line.event else { continue };
            let key = (line.conn, frame.opaque);
            if frame.to_server && !frame.is_response() {
                asked.insert(key, frame);
            } else if let (false, true, Some(request)) = (frame.to_server, frame.is_response(), asked.get(&key)) {
                found.push((*request, frame.as_ref()));
            }
        }
        found
    }

    /// Messages that were sent without waiting for an answer.
    pub fn one_way_sends(&self) -> impl Iterator<Item = &Frame> {
        self.lines.iter().filter_map(|line| match &line.event {
            Event::Frame(frame) if RequestCode(frame.code) == RequestCode::SEND_MESSAGE_V2 && frame.flag == 2 => {
                Some(frame.as_ref())
            }
            _ => None,
        })
    }

    /// The answer to a request on a connection.
    pub fn answer(&self, conn: u64, request: &Frame) -> Option<&Frame> {
        self.lines.iter().filter(|line| line.conn == conn).find_map(|line| match &line.event {
            Event::Frame(frame) if !frame.to_server && frame.is_response() && frame.opaque == request.opaque => {
                Some(frame.as_ref())
            }
            _ => None,
        })
    }
}

#[derive(Deserialize)]
struct Raw {
    conn: u64,
    peer: Peer,
    t_ms: u64,
    event: Option<String>,
    dir: Option<String>,
    code: Option<i32>,
    /// A name, or the number where the recorder knew no name.
    code_name: Option<Value>,
    response_to: Option<Value>,
    opaque: Option<i32>,
    flag: Option<i32>,
    version: Option<i32>,
    remark: Option<String>,
    ext_fields: Option<BTreeMap<String, String>>,
    body_b64: Option<String>,
    raw_b64: Option<String>,
}

/// Reads all sessions of a directory, grouped by the client process that made them: one process met one broker. In a
/// group they stand in the order in which they were recorded (a process numbers its requests on).
///
/// # Panics
/// On a file that is not a recorded session: the test data is broken.
pub fn load_area(directory: &Path) -> Vec<Vec<Session>> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut groups: BTreeMap<String, Vec<Session>> = BTreeMap::new();
    for entry in entries {
        let session = load(&entry.expect("directory entry").path());
        groups.entry(client_process(&session)).or_default().push(session);
    }
    // A client with an instance name of its own does not tell its process: it ran in that of most sessions.
    let nameless = groups.remove("").unwrap_or_default();
    match groups.values_mut().max_by_key(|group| group.len()) {
        Some(largest) => largest.extend(nameless),
        None => drop(groups.insert(String::new(), nameless)),
    }
    for group in groups.values_mut() {
        group.sort_by_key(|session| (first_opaque(session), session.name.clone()));
    }
    groups.into_values().collect()
}

/// The process id in a client id (`ADDRESS@PID#NUMBER`), or nothing.
fn client_process(session: &Session) -> String {
    for line in &session.lines {
        let Event::Frame(frame) = &line.event else { continue };
        let body = String::from_utf8_lossy(&frame.body);
        let in_body = body.split("\"clientID\":\"").skip(1).filter_map(|text| text.split('"').next());
        let in_header = frame.fields.get("clientID").map(String::as_str);
        let numbered = in_body.chain(in_header).filter_map(|id| id.split_once('@')?.1.split_once('#'));
        let mut processes = numbered.map(|(process, _)| process);
        if let Some(process) = processes.find(|process| process.bytes().all(|c| c.is_ascii_digit())) {
            return process.to_owned();
        }
    }
    String::new()
}

fn first_opaque(session: &Session) -> i32 {
    let opaque = session.lines.iter().find_map(|line| match &line.event {
        Event::Frame(frame) if frame.to_server && !frame.is_response() => Some(frame.opaque),
        _ => None,
    });
    opaque.unwrap_or(i32::MAX)
}

fn load(path: &Path) -> Session {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().filter_map(|line| {
        let raw: Raw = serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (conn, peer, at) = (raw.conn, raw.peer, raw.t_ms);
        let event = match raw.event.as_deref() {
            Some("open") => Event::Open,
            Some("close_c2s") => Event::Close,
            Some(_) => return None,
            None => Event::Frame(Box::new(frame(raw)?)),
        };
        Some(Line { conn, peer, at, event })
    });
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Session { name, lines: lines.collect() }
}

fn frame(raw: Raw) -> Option<Frame> {
    let bytes = |text: Option<String>| STANDARD.decode(text.unwrap_or_default()).expect("base64");
    Some(Frame {
        to_server: raw.dir.as_deref() == Some("c2s"),
        code: raw.code?,
        request: raw
            .response_to
            .or(raw.code_name)
            .map(|name| name.as_str().map_or(name.to_string(), str::to_owned))
            .unwrap_or_default(),
        opaque: raw.opaque?,
        flag: raw.flag?,
        version: raw.version.unwrap_or_default(),
        remark: raw.remark,
        fields: raw.ext_fields.unwrap_or_default(),
        body: bytes(raw.body_b64),
        raw: bytes(raw.raw_b64),
    })
}
