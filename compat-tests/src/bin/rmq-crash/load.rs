//! Producers that send until the connection breaks, and remember what they were told.

use std::thread::JoinHandle;

use remoting::{Command, RequestCode};

use crate::connection::Connection;
use crate::random::Random;
use crate::{QUEUES, TOPICS};

/// Requests that a producer has in flight.
const WINDOW: u64 = 8;

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Index into [`TOPICS`].
    pub topic: usize,
    pub queue: i32,
    pub offset: i64,
    pub phys: i64,
}

/// What the producer knows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Stored, and where.
    Acked(Place),
    /// Refused with this code.
    Failed(i32),
    /// The connection broke before an answer came.
    Unknown,
}

/// A message that was sent.
pub struct Sent {
    pub key: String,
    pub told: Told,
}

/// Producers at work.
pub struct Load {
    threads: Vec<JoinHandle<Vec<Sent>>>,
}

/// Starts producers.
pub fn start(address: &str, producers: u32, round: u32, random: &mut Random) -> Load {
    let threads = (0..producers).map(|producer| {
        let address = address.to_owned();
        let random = Random::new(random.next());
        let name = format!("{round}-{producer}");
        std::thread::spawn(move || produce(&address, &name, random))
    });
    Load { threads: threads.collect() }
}

impl Load {
    /// Waits for the producers to see their connections break; what they sent.
    ///
    /// # Panics
    /// When a producer did.
    pub fn finish(self) -> Vec<Sent> {
        self.threads.into_iter().flat_map(|thread| thread.join().expect("a producer ends")).collect()
    }
}

/// A request and its messages.
struct Request {
    topic: usize,
    queue: i32,
    keys: Vec<String>,
    told: Option<Command>,
}

fn produce(address: &str, name: &str, mut random: Random) -> Vec<Sent> {
    let mut sent = Vec::new();
    let Ok(mut connection) = Connection::open(address) else { return sent };
    let mut number = 0;
    loop {
        let mut commands = Vec::new();
        let mut requests = Vec::new();
        for _ in 0..1 + random.below(WINDOW) {
            let (topic, queue) = (random.below(TOPICS.len() as u64) as usize, random.below(QUEUES as u64) as i32);
            // One in four is a batch.
            let count = if random.below(4) == 0 { 2 + random.below(10) } else { 1 };
            let keys: Vec<String> = (0..count).map(|at| format!("k-{name}-{}", number + at)).collect();
            number += count;
            commands.push(command(topic, queue, &keys, &mut random));
            requests.push(Request { topic, queue, keys, told: None });
        }
        let done = connection.call_all(commands, |at, answer| {
            if let Some(request) = requests.get_mut(at) {
                request.told = Some(answer);
            }
        });
        sent.extend(requests.into_iter().flat_map(told));
        if done.is_err() {
            return sent;
        }
    }
}

fn command(topic: usize, queue: i32, keys: &[String], random: &mut Random) -> Command {
    let properties =
        |key: &str| format!("KEYS\u{1}{key}\u{2}UNIQ_KEY\u{1}U{key}\u{2}TAGS\u{1}TagA\u{2}WAIT\u{1}true\u{2}");
    let mut body = |key: &str| {
        let mut body = key.as_bytes().to_vec();
        body.resize(key.len() + random.below(700) as usize, b'x');
        body
    };
    let (code, own, content) = match keys {
        [key] => (RequestCode::SEND_MESSAGE_V2, properties(key), body(key)),
        keys => {
            let mut content = Vec::new();
            for key in keys {
                let (body, properties) = (body(key), properties(key));
                content.extend(((22 + body.len() + properties.len()) as u32).to_be_bytes());
                // Magic, body crc and flag are not looked at.
                content.extend([0; 12]);
                content.extend((body.len() as u32).to_be_bytes());
                content.extend(body);
                content.extend((properties.len() as u16).to_be_bytes());
                content.extend(properties.as_bytes());
            }
            (RequestCode::SEND_BATCH_MESSAGE, String::new(), content)
        }
    };
    let fields = [
        ("a", "crash_producers".to_owned()),
        ("b", TOPICS[topic].to_owned()),
        ("c", "TBW102".to_owned()),
        ("d", QUEUES.to_string()),
        ("e", queue.to_string()),
        ("f", "0".to_owned()),
        ("g", "1700000000000".to_owned()),
        ("h", "0".to_owned()),
        ("i", own),
        ("j", "0".to_owned()),
        ("k", "false".to_owned()),
        ("l", "16".to_owned()),
        ("m", (keys.len() > 1).to_string()),
    ];
    fields.iter().fold(Command::request(code), |command, (name, value)| command.field(name, value)).body(content)
}

/// What the answer says of each message of a request. Ids are split by commas; their last 16 digits are the physical
/// offset.
fn told(request: Request) -> Vec<Sent> {
    // FLUSH_DISK_TIMEOUT: stored, but perhaps not on disk. A process that is killed loses nothing of that.
    const STORED: [i32; 2] = [0, 10];
    let places: Option<Vec<Told>> = match &request.told {
        None => Some(vec![Told::Unknown; request.keys.len()]),
        Some(answer) if !STORED.contains(&answer.code) => Some(vec![Told::Failed(answer.code); request.keys.len()]),
        Some(answer) => {
            let first: Option<i64> = answer.get("queueOffset").and_then(|offset| offset.parse().ok());
            let ids = answer.get("msgId").unwrap_or_default().split(',');
            ids.zip(0..)
                .map(|(id, at)| {
                    let digits = id.len().checked_sub(16).and_then(|from| id.get(from..))?;
                    let phys = i64::from_str_radix(digits, 16).ok()?;
                    let (topic, queue) = (request.topic, request.queue);
                    Some(Told::Acked(Place { topic, queue, offset: first? + at, phys }))
                })
                .collect()
        }
    };
    let places = places.unwrap_or_default();
    assert_eq!(places.len(), request.keys.len(), "an answer that does not fit: {:?}", request.told);
    request.keys.into_iter().zip(places).map(|(key, told)| Sent { key, told }).collect()
}
