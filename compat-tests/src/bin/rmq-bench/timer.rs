//! Messages for an arbitrary time: how late they come while very many others wait, and how long a broker with many of them
//! takes to start.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use compat_tests::harness::servers::Whose;
use hdrhistogram::Histogram;
use remoting::RequestCode;
use serde_json::{Value, json};
use structopt::StructOpt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::figures::Usage;
use crate::frames::{Answers, Template, records};
use crate::load::connect;
use crate::servers::Servers;

type Error = Box<dyn std::error::Error>;

/// What to measure.
#[derive(StructOpt)]
pub struct Options {
    /// Messages that wait for hours
    #[structopt(long, default_value = "5000000")]
    pending: u32,
    /// Messages that are due a second
    #[structopt(long, default_value = "5000")]
    rate: u32,
    /// Seconds
    #[structopt(long, default_value = "30")]
    secs: u32,
    /// The Java broker instead of FerroMQ
    #[structopt(long)]
    java: bool,
}

const TOPIC: &str = "BenchTimers";
/// Queues of the topic; each is filled over a connection of its own.
pub(crate) const QUEUES: u32 = 4;
/// The first message is due so long (ms) after it was sent.
const AHEAD: u64 = 5000;
/// Those that wait are due between two and twenty-six hours from now.
const FAR: u64 = 2 * 3_600_000;
const FAR_SPREAD: u64 = 24 * 3_600_000;
/// Requests in flight on a connection while the store is filled.
const WINDOW: u32 = 256;
/// Offsets in a record with IPv4 addresses: the store time, and the body behind its length.
const STORED_AT: usize = 56;
const BODY_AT: usize = 88;

/// Fills a store, measures, restarts, prints one line of JSON.
///
/// # Errors
/// No connection to the broker, or a broken one.
pub fn run(options: &Options) -> Result<(), Error> {
    let whose = if options.java { Whose::Java } else { Whose::Ours };
    let mut servers = Servers::start(whose, &[("flushDiskType", "ASYNC_FLUSH")])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let work = measure(options, servers.address(), servers.broker_pid());
    let mut figures = LocalSet::new().block_on(&runtime, work)?;
    let start_ms = servers.restart();
    figures["start_ms"] = json!(start_ms.round());
    println!("{figures}");
    servers.stop();
    Ok(())
}

async fn measure(options: &Options, broker: String, pid: u32) -> Result<Value, Error> {
    let started = Instant::now();
    let share = options.pending / QUEUES;
    let start = now() + FAR;
    let of = move |number: u32| (start + u64::from(number) * FAR_SPREAD / u64::from(share), 0);
    let fills: Vec<_> =
        (0..QUEUES).map(|queue| tokio::task::spawn_local(fill(broker.clone(), queue, share, of))).collect();
    for fill in fills {
        fill.await??;
    }
    eprintln!("{} messages wait after {:.0} s", share * QUEUES, started.elapsed().as_secs_f64());
    let mut socket = connect(&broker).await?;
    until_taken(&mut socket).await?;
    eprintln!("all are taken after {:.0} s", started.elapsed().as_secs_f64());
    let before = Usage::of(pid);
    let sent = send(&mut socket, options).await?;
    let mut delivered = 0;
    let end = Instant::now() + Duration::from_secs(120);
    while delivered < u64::from(sent) && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(200)).await;
        delivered = self::delivered(&mut socket).await?;
    }
    let cpu = Usage::of(pid).cpu - before.cpu;
    let (late, early) = lateness(&mut socket).await?;
    let after = Usage::of(pid);
    let quantile = |q: f64| late.value_at_quantile(q);
    Ok(json!({
        "pending": share * QUEUES,
        "sent": sent,
        "delivered": delivered,
        "early": early,
        "late_p50_ms": quantile(0.5),
        "late_p99_ms": quantile(0.99),
        "late_p999_ms": quantile(0.999),
        "late_max_ms": late.max(),
        "server_cpu_us_a_message": (cpu * 1e6 / f64::from(sent)).round(),
        "anonymous_mib": (after.anonymous / 1024.0).round(),
    }))
}

/// Milliseconds since the epoch.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A send whose time of delivery stands at the second value.
fn template(queue: u32) -> (Template, usize) {
    let due = "1000000000000";
    let properties =
        format!("WAIT\u{1}true\u{2}UNIQ_KEY\u{1}7F00000100002A9F0000000000000001\u{2}TIMER_DELIVER_MS\u{1}{due}\u{2}");
    let fields = [
        ("a", "bench_producers".to_owned()),
        ("b", TOPIC.to_owned()),
        ("c", "TBW102".to_owned()),
        ("d", QUEUES.to_string()),
        ("e", queue.to_string()),
        ("f", "0".to_owned()),
        ("g", now().to_string()),
        ("h", "0".to_owned()),
        ("i", properties),
        ("j", "0".to_owned()),
        ("k", "false".to_owned()),
        ("l", "16".to_owned()),
        ("m", "false".to_owned()),
    ];
    let body: Vec<u8> = (0..128).map(|at| b'a' + (at % 26) as u8).collect();
    let template = Template::new(RequestCode::SEND_MESSAGE_V2, &fields, &body);
    let place = template.find(due.as_bytes());
    (template, place)
}

/// Sends `count` messages to a queue; `of` gives the time of each (ms) and its stamp.
pub(crate) async fn fill(
    broker: String,
    queue: u32,
    count: u32,
    of: impl Fn(u32) -> (u64, u64),
) -> std::io::Result<()> {
    let mut socket = connect(&broker).await?;
    let (mut template, place) = template(queue);
    let (mut answers, mut out) = (Answers::new(), Vec::new());
    let (mut next, mut in_flight) = (0u32, 0);
    while next < count || in_flight > 0 {
        while in_flight < WINDOW && next < count {
            let (due, stamp) = of(next);
            template.set(place, 13, due);
            template.stamp(stamp);
            template.write(next, &mut out);
            next += 1;
            in_flight += 1;
        }
        socket.write_all(&out).await?;
        out.clear();
        let mut refused = None;
        in_flight -= answers
            .read(&mut socket, |answer| refused = Some(answer.code()).filter(|code| *code != 0).or(refused))
            .await? as u32;
        if let Some(code) = refused {
            return Err(std::io::Error::other(format!("a message was refused with {code}")));
        }
    }
    Ok(())
}

/// Waits until the broker has taken all messages that wait.
pub(crate) async fn until_taken(socket: &mut TcpStream) -> std::io::Result<()> {
    while figure(socket, "timerOffsetBehind").await? != Some(0) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// A number that the broker tells of itself.
pub(crate) async fn figure(socket: &mut TcpStream, name: &str) -> std::io::Result<Option<i64>> {
    let mut template = Template::new(RequestCode::GET_BROKER_RUNTIME_INFO, &[], &[]);
    let mut out = Vec::new();
    template.write(0, &mut out);
    socket.write_all(&out).await?;
    let (mut answers, mut value) = (Answers::new(), None);
    while value.is_none() {
        answers
            .read(socket, |answer| {
                let info: Value = serde_json::from_slice(answer.body).unwrap_or_default();
                value = Some(info["table"][name].as_str().and_then(|text| text.parse().ok()));
            })
            .await?;
    }
    Ok(value.flatten())
}

/// Sends at the rate; every message is due as long after it was sent. Returns how many were sent.
async fn send(socket: &mut TcpStream, options: &Options) -> std::io::Result<u32> {
    let mut templates: Vec<_> = (0..QUEUES).map(template).collect();
    let (start, first_due) = (Instant::now(), now() + AHEAD);
    let total = options.rate * options.secs;
    let (mut answers, mut out) = (Answers::new(), Vec::new());
    let (mut next, mut answered) = (0u32, 0);
    while answered < total {
        let due_by_now = (start.elapsed().as_secs_f64() * f64::from(options.rate)) as u32;
        while next < total.min(due_by_now + 1) {
            let due = first_due + u64::from(next) * 1000 / u64::from(options.rate);
            let (template, place) = &mut templates[(next % QUEUES) as usize];
            template.set(*place, 13, due);
            template.stamp(due);
            template.write(next, &mut out);
            next += 1;
        }
        socket.write_all(&out).await?;
        out.clear();
        let read = answers.read(socket, |_| {});
        if let Ok(read) = tokio::time::timeout(Duration::from_millis(5), read).await {
            answered += read? as u32;
        }
    }
    Ok(next)
}

/// Messages in the topic that they are for.
pub(crate) async fn delivered(socket: &mut TcpStream) -> std::io::Result<u64> {
    let mut sum = 0;
    for queue in 0..QUEUES {
        sum += max_offset(socket, queue).await?;
    }
    Ok(sum)
}

async fn max_offset(socket: &mut TcpStream, queue: u32) -> std::io::Result<u64> {
    let fields = [("topic", TOPIC.to_owned()), ("queueId", queue.to_string())];
    let mut out = Vec::new();
    Template::new(RequestCode::GET_MAX_OFFSET, &fields, &[]).write(0, &mut out);
    socket.write_all(&out).await?;
    let (mut answers, mut offset) = (Answers::new(), None);
    while offset.is_none() {
        answers.read(socket, |answer| offset = Some(answer.field("offset").unwrap_or_default() as u64)).await?;
    }
    Ok(offset.unwrap_or_default())
}

/// Milliseconds from when each message was due to when it was stored where it goes, and how many came early.
async fn lateness(socket: &mut TcpStream) -> std::io::Result<(Histogram<u64>, u64)> {
    let mut late = Histogram::new_with_bounds(1, 600_000, 3).map_err(std::io::Error::other)?;
    let mut early = 0;
    read(socket, |stored, due| {
        early += u64::from(stored < due);
        late.saturating_record(stored.saturating_sub(due));
    })
    .await?;
    Ok((late, early))
}

/// Reads everything that was delivered: calls `each` with the store time (ms) and the stamp of every message.
pub(crate) async fn read(socket: &mut TcpStream, mut each: impl FnMut(u64, u64)) -> std::io::Result<()> {
    for queue in 0..QUEUES {
        let fields = [
            ("consumerGroup", "bench_consumers".to_owned()),
            ("topic", TOPIC.to_owned()),
            ("queueId", queue.to_string()),
            ("queueOffset", format!("{:020}", 0)),
            ("maxMsgNums", "32".to_owned()),
            ("sysFlag", "4".to_owned()),
            ("commitOffset", "0".to_owned()),
            ("suspendTimeoutMillis", "0".to_owned()),
            ("subscription", "*".to_owned()),
            ("subVersion", "1".to_owned()),
            ("expressionType", "TAG".to_owned()),
        ];
        let mut template = Template::new(RequestCode::PULL_MESSAGE, &fields, &[]);
        let place = template.place("queueOffset");
        let (mut offset, mut more) = (0, true);
        while more {
            template.set(place, 20, offset);
            let mut out = Vec::new();
            template.write(0, &mut out);
            socket.write_all(&out).await?;
            let (mut answers, mut next) = (Answers::new(), None);
            while next.is_none() {
                answers
                    .read(socket, |answer| {
                        records(answer.body, |record| each(word(record, STORED_AT), word(record, BODY_AT)));
                        next = Some((answer.code(), answer.field("nextBeginOffset").unwrap_or_default() as u64));
                    })
                    .await?;
            }
            let (code, next) = next.unwrap_or_default();
            more = code == 0 && next > offset;
            offset = next;
        }
    }
    Ok(())
}

fn word(record: &[u8], at: usize) -> u64 {
    record.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_be_bytes(*word))
}
