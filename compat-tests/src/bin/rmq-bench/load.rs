//! The load: sends, pulls, end-to-end latency, idle long-polling connections.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use remoting::RequestCode;
use serde_json::{Map, Value, json};
use structopt::StructOpt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, LocalSet};

use crate::figures::Usage;
use crate::frames::{Answers, Template, records};
use crate::transaction::{Templates, transactions};
use crate::{orderly, sql};

/// What load, on which broker.
#[derive(StructOpt)]
pub struct Options {
    /// Address of the broker
    #[structopt(long, default_value = "127.0.0.1:10911")]
    broker: String,
    /// Process of the broker: its CPU time and memory are reported
    #[structopt(long)]
    pid: Option<u32>,
    /// Topic; it is created by the first send
    #[structopt(long, default_value = "BenchTopic")]
    topic: String,
    /// Queues of the topic that are used
    #[structopt(long, default_value = "4")]
    queues: u32,
    /// Seconds
    #[structopt(long, default_value = "10")]
    secs: f64,
    #[structopt(subcommand)]
    kind: Kind,
}

#[derive(StructOpt)]
enum Kind {
    /// Send, with a number of requests in flight on each connection
    Send {
        #[structopt(long, default_value = "4")]
        conns: usize,
        /// Requests in flight on a connection
        #[structopt(long, default_value = "64")]
        window: usize,
        /// Bytes of a body
        #[structopt(long, default_value = "128")]
        size: usize,
        /// Messages in a request; above 1 as SEND_BATCH_MESSAGE
        #[structopt(long, default_value = "1")]
        batch: usize,
        /// Give every message a key and a unique key
        #[structopt(long)]
        keys: bool,
        /// Stop after so many requests on each connection, or when the time is over
        #[structopt(long)]
        requests: Option<u32>,
    },
    /// Pull every queue from its beginning, one connection a queue, one request in flight
    Pull {
        /// Messages a request
        #[structopt(long, default_value = "32")]
        max: u32,
        /// From the beginning again at the end, until the time is over
        #[structopt(long)]
        again: bool,
    },
    /// Consume every queue in order, over and over: lock, pull, commit
    Orderly {
        /// Messages a pull
        #[structopt(long, default_value = "32")]
        max: u32,
    },
    /// Send at a rate to long-polling pulls: time from send to arrival
    EndToEnd {
        /// Messages a second
        #[structopt(long, default_value = "2000")]
        rate: f64,
    },
    /// Send first halves of transactions and commit each when it is answered
    Transaction {
        #[structopt(long, default_value = "4")]
        conns: usize,
        /// Transactions in flight on a connection
        #[structopt(long, default_value = "64")]
        window: usize,
        /// Bytes of a body
        #[structopt(long, default_value = "128")]
        size: usize,
    },
    /// Send messages of which one in a hundred passes the filter of `filtered-pull`
    FilteredSend {
        /// Messages to each queue
        #[structopt(long, default_value = "250000")]
        requests: u32,
    },
    /// Pull by an SQL92 expression, one connection a queue, over and over; counted is what the broker looks at
    FilteredPull,
    /// Hold long-polling connections and report the memory of one
    Idle {
        #[structopt(long, default_value = "5000")]
        conns: usize,
    },
}

/// Everything that a run counts. One thread: no atomics.
pub(crate) struct Counters {
    messages: Cell<u64>,
    bad: Cell<u64>,
    micros: RefCell<Histogram<u64>>,
}

impl Counters {
    fn new() -> Rc<Counters> {
        let micros = Histogram::new_with_bounds(1, 60_000_000, 3).expect("fixed bounds");
        Rc::new(Counters { messages: Cell::new(0), bad: Cell::new(0), micros: RefCell::new(micros) })
    }

    pub(crate) fn took(&self, micros: u128) {
        self.micros.borrow_mut().saturating_record(micros.max(1) as u64);
    }

    pub(crate) fn failed(&self) {
        self.bad.set(self.bad.get() + 1);
    }

    pub(crate) fn add(&self, messages: u64) {
        self.messages.set(self.messages.get() + messages);
    }
}

/// Runs one load and prints its figures as one line of JSON.
///
/// # Errors
/// No connection to the broker, or a broken one.
pub fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let figures = LocalSet::new().block_on(&runtime, one(options))?;
    println!("{}", Value::Object(figures));
    Ok(())
}

async fn one(options: &Options) -> std::io::Result<Map<String, Value>> {
    let counters = Counters::new();
    let before = options.pid.map(Usage::of).unwrap_or_default();
    let started = Instant::now();
    let mut figures = Map::new();
    match &options.kind {
        Kind::Send { conns, window, size, batch, keys, requests } => {
            let tasks = (0..*conns).map(|at| {
                let template = send_template(&options.topic, *size, *batch, *keys);
                let end = started + Duration::from_secs_f64(options.secs);
                let requests = requests.unwrap_or(u32::MAX);
                let sending = Sending { window: *window, queues: options.queues, first: at as u32, requests, end };
                tokio::task::spawn_local(send(options.broker.clone(), template, sending, *batch, counters.clone()))
            });
            all(tasks.collect()).await?;
        }
        Kind::Pull { max, again } => {
            let end = started + Duration::from_secs_f64(options.secs);
            let tasks = (0..options.queues).map(|queue| {
                let template = pull_template(&options.topic, queue, *max, 0);
                tokio::task::spawn_local(pull(options.broker.clone(), template, end, *again, counters.clone()))
            });
            all(tasks.collect()).await?;
        }
        Kind::Transaction { conns, window, size } => {
            let end = started + Duration::from_secs_f64(options.secs);
            let tasks = (0..*conns).map(|at| {
                let templates = Templates::new(&options.topic, *size, at as u32 % options.queues);
                let work = transactions(options.broker.clone(), templates, *window, end, counters.clone());
                tokio::task::spawn_local(work)
            });
            all(tasks.collect()).await?;
        }
        Kind::FilteredSend { requests } => {
            let send =
                |queue| sql::send(options.broker.clone(), options.topic.clone(), queue, *requests, counters.clone());
            all((0..options.queues).map(|queue| tokio::task::spawn_local(send(queue))).collect()).await?;
        }
        Kind::FilteredPull => {
            let end = started + Duration::from_secs_f64(options.secs);
            let pull = |queue| sql::pull(options.broker.clone(), options.topic.clone(), queue, end, counters.clone());
            all((0..options.queues).map(|queue| tokio::task::spawn_local(pull(queue))).collect()).await?;
        }
        Kind::Orderly { max } => {
            let end = started + Duration::from_secs_f64(options.secs);
            let consume = |queue| {
                let (broker, topic) = (options.broker.clone(), options.topic.clone());
                tokio::task::spawn_local(orderly::consume(broker, topic, queue, *max, end, counters.clone()))
            };
            all((0..options.queues).map(consume).collect()).await?;
        }
        Kind::EndToEnd { rate } => end_to_end(options, *rate, &counters).await?,
        Kind::Idle { conns } => {
            let held = idle(options, *conns).await?;
            // Java sets buffers aside a while after the connect: both sides get the same time to settle.
            tokio::time::sleep(Duration::from_secs_f64(options.secs)).await;
            if let Some(pid) = options.pid {
                let kib = (Usage::of(pid).anonymous - before.anonymous) / *conns as f64;
                figures.insert("kib_a_connection".into(), json!(kib));
            }
            drop(held);
        }
    }
    let (seconds, messages) = (started.elapsed().as_secs_f64(), counters.messages.get());
    figures.insert("messages".into(), json!(messages));
    figures.insert("bad".into(), json!(counters.bad.get()));
    figures.insert("messages_a_second".into(), json!(messages as f64 / seconds));
    let micros = counters.micros.borrow();
    if !micros.is_empty() {
        for (name, quantile) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
            figures.insert(name.into(), json!(micros.value_at_quantile(quantile)));
        }
    }
    if let Some(pid) = options.pid {
        let after = Usage::of(pid);
        let cpu = after.cpu - before.cpu;
        figures.insert("server_cpu_s".into(), json!(cpu));
        figures.insert("server_cpu_us_a_message".into(), json!(cpu * 1e6 / messages.max(1) as f64));
        figures.insert("anonymous_mib".into(), json!(after.anonymous / 1024.0));
        figures.insert("resident_mib".into(), json!(after.resident / 1024.0));
    }
    Ok(figures)
}

async fn all(tasks: Vec<JoinHandle<std::io::Result<()>>>) -> std::io::Result<()> {
    for task in tasks {
        task.await.map_err(std::io::Error::other)??;
    }
    Ok(())
}

pub(crate) async fn connect(broker: &str) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect(broker).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn send_template(topic: &str, size: usize, batch: usize, keys: bool) -> Template {
    let mut properties = String::from("WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}");
    if keys {
        properties.push_str("KEYS\u{1}order-1234567\u{2}UNIQ_KEY\u{1}7F00000100002A9F0000000000000001\u{2}");
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
    let batched = batch > 1;
    let fields = [
        ("a", "bench_producers".to_owned()),
        ("b", topic.to_owned()),
        ("c", "TBW102".to_owned()),
        ("d", "4".to_owned()),
        ("e", "00000".to_owned()),
        ("f", "0".to_owned()),
        ("g", now.to_string()),
        ("h", "0".to_owned()),
        ("i", if batched { String::new() } else { properties.clone() }),
        ("j", "0".to_owned()),
        ("k", "false".to_owned()),
        ("l", "16".to_owned()),
        ("m", batched.to_string()),
    ];
    let one: Vec<u8> = (0..size).map(|at| b'a' + (at % 26) as u8).collect();
    if !batched {
        return Template::new(RequestCode::SEND_MESSAGE_V2, &fields, &one);
    }
    let mut body = Vec::new();
    for _ in 0..batch {
        let total = 4 * 5 + one.len() + 2 + properties.len();
        body.extend((total as u32).to_be_bytes());
        // Magic, body CRC and flag are not looked at.
        body.extend([0; 12]);
        body.extend((one.len() as u32).to_be_bytes());
        body.extend(&one);
        body.extend((properties.len() as u16).to_be_bytes());
        body.extend(properties.as_bytes());
    }
    Template::new(RequestCode::SEND_BATCH_MESSAGE, &fields, &body)
}

struct Sending {
    window: usize,
    queues: u32,
    first: u32,
    requests: u32,
    end: Instant,
}

async fn send(
    broker: String,
    mut template: Template,
    sending: Sending,
    batch: usize,
    counters: Rc<Counters>,
) -> std::io::Result<()> {
    let mut socket = connect(&broker).await?;
    let queue = template.place("e");
    let (mut answers, mut out) = (Answers::new(), Vec::new());
    let mut sent_at = vec![Instant::now(); 1 << 16];
    let (mut next, mut in_flight) = (0u32, 0);
    loop {
        let now = Instant::now();
        if now < sending.end && next < sending.requests {
            while in_flight < sending.window && next < sending.requests {
                template.set(queue, 5, u64::from((next + sending.first) % sending.queues));
                template.write(next, &mut out);
                sent_at[(next & 0xffff) as usize] = now;
                next += 1;
                in_flight += 1;
            }
            socket.write_all(&out).await?;
            out.clear();
        } else if in_flight == 0 {
            return Ok(());
        }
        in_flight -= answers
            .read(&mut socket, |answer| {
                match answer.code() {
                    0 => counters.add(batch as u64),
                    _ => counters.failed(),
                }
                counters.took(sent_at[(answer.request() & 0xffff) as usize].elapsed().as_micros());
            })
            .await?;
    }
}

fn pull_template(topic: &str, queue: u32, max: u32, hold: u64) -> Template {
    // sysFlag: subscription in the request (4), suspend (2).
    let flags = 4 | if hold > 0 { 2 } else { 0 };
    let fields = [
        ("consumerGroup", "bench_consumers".to_owned()),
        ("topic", topic.to_owned()),
        ("queueId", queue.to_string()),
        ("queueOffset", format!("{:020}", 0)),
        ("maxMsgNums", max.to_string()),
        ("sysFlag", flags.to_string()),
        ("commitOffset", "0".to_owned()),
        ("suspendTimeoutMillis", hold.to_string()),
        ("subscription", "*".to_owned()),
        ("subVersion", "1".to_owned()),
        ("expressionType", "TAG".to_owned()),
        ("maxMsgBytes", i32::MAX.to_string()),
    ];
    Template::new(RequestCode::PULL_MESSAGE, &fields, &[])
}

/// One pull: code, next offset, messages.
async fn pull_once(
    socket: &mut TcpStream,
    answers: &mut Answers,
    template: &mut Template,
    number: u32,
    offset: u64,
    mut each: impl FnMut(&[u8]),
) -> std::io::Result<(i64, u64, u64)> {
    let place = template.place("queueOffset");
    template.set(place, 20, offset);
    let mut out = Vec::new();
    template.write(number, &mut out);
    socket.write_all(&out).await?;
    let mut got = None;
    while got.is_none() {
        answers
            .read(socket, |answer| {
                let next = answer.field("nextBeginOffset").unwrap_or_default() as u64;
                got = Some((answer.code(), next, records(answer.body, &mut each)));
            })
            .await?;
    }
    Ok(got.unwrap_or_default())
}

async fn pull(
    broker: String,
    mut template: Template,
    end: Instant,
    again: bool,
    counters: Rc<Counters>,
) -> std::io::Result<()> {
    let mut socket = connect(&broker).await?;
    let (mut answers, mut offset) = (Answers::new(), 0);
    for number in 0.. {
        if Instant::now() >= end {
            break;
        }
        let (code, next, messages) =
            pull_once(&mut socket, &mut answers, &mut template, number, offset, |_| {}).await?;
        counters.add(messages);
        offset = match code {
            0 | 20 | 21 if next > offset => next,
            _ if again && offset > 0 => 0,
            _ => break,
        };
    }
    Ok(())
}

async fn max_offset(socket: &mut TcpStream, topic: &str, queue: u32) -> std::io::Result<u64> {
    let fields = [("topic", topic.to_owned()), ("queueId", queue.to_string())];
    let mut out = Vec::new();
    Template::new(RequestCode::GET_MAX_OFFSET, &fields, &[]).write(0, &mut out);
    socket.write_all(&out).await?;
    let (mut answers, mut offset) = (Answers::new(), None);
    while offset.is_none() {
        answers.read(socket, |answer| offset = Some(answer.field("offset").unwrap_or_default() as u64)).await?;
    }
    Ok(offset.unwrap_or_default())
}

/// Offset of the body in a record with IPv4 addresses: the fixed part and the body's length.
const BODY_AT: usize = 88;

async fn end_to_end(options: &Options, rate: f64, counters: &Rc<Counters>) -> std::io::Result<()> {
    let zero = Instant::now();
    let stop = Rc::new(Cell::new(false));
    let mut pulls = Vec::new();
    for queue in 0..options.queues {
        let mut socket = connect(&options.broker).await?;
        let mut offset = max_offset(&mut socket, &options.topic, queue).await?;
        let mut template = pull_template(&options.topic, queue, 32, 15_000);
        let (counters, stop) = (counters.clone(), stop.clone());
        pulls.push(tokio::task::spawn_local(async move {
            let mut answers = Answers::new();
            for number in 0.. {
                let each = |record: &[u8]| {
                    let sent = record[BODY_AT..].first_chunk().map_or(0, |stamp| u64::from_be_bytes(*stamp));
                    counters.took(zero.elapsed().as_micros().saturating_sub(u128::from(sent)));
                };
                let once = pull_once(&mut socket, &mut answers, &mut template, number, offset, each);
                let Ok(got) = tokio::time::timeout(Duration::from_secs(3), once).await else { break };
                let (_, next, messages) = got?;
                counters.add(messages);
                offset = next.max(offset);
                if stop.get() && messages == 0 {
                    break;
                }
            }
            Ok(())
        }));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut socket = connect(&options.broker).await?;
    let (mut reader, mut writer) = socket.split();
    let total = (rate * options.secs) as u32;
    let reading = async {
        let (mut answers, mut got) = (Answers::new(), 0);
        while got < total as usize {
            got += answers.read(&mut reader, |_| {}).await?;
        }
        std::io::Result::Ok(())
    };
    let writing = async {
        let mut template = send_template(&options.topic, 128, 1, false);
        let queue = template.place("e");
        let (mut out, first) = (Vec::new(), Instant::now());
        for n in 0..total {
            let due = first + Duration::from_secs_f64(f64::from(n) / rate);
            tokio::time::sleep_until(due.into()).await;
            template.set(queue, 5, u64::from(n % options.queues));
            template.stamp(zero.elapsed().as_micros() as u64);
            out.clear();
            template.write(n, &mut out);
            writer.write_all(&out).await?;
        }
        std::io::Result::Ok(())
    };
    let (read, written) = tokio::join!(reading, writing);
    read.and(written)?;
    stop.set(true);
    all(pulls).await
}

async fn idle(options: &Options, conns: usize) -> std::io::Result<Vec<TcpStream>> {
    let mut held = Vec::with_capacity(conns);
    for at in 0..conns {
        let queue = at as u32 % options.queues;
        let mut socket = connect(&options.broker).await?;
        let offset = max_offset(&mut socket, &options.topic, queue).await?;
        let mut template = pull_template(&options.topic, queue, 32, 30_000);
        let place = template.place("queueOffset");
        template.set(place, 20, offset);
        let mut out = Vec::new();
        template.write(1, &mut out);
        socket.write_all(&out).await?;
        held.push(socket);
    }
    Ok(held)
}
