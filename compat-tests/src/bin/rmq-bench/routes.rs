//! Routes at scale: what the registrations of large brokers cost a name server, and what route queries take meanwhile.
//!
//! Two brokers of many topics are played on raw sockets. A full registration is what a broker sends each 30 seconds: the
//! whole table, with the present time in the version of its mappings as Java writes it. A changed topic comes alone under
//! the next version, and stands in the table of the next full registration.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use compat_tests::harness::servers::{Namesrv, Whose};
use hdrhistogram::Histogram;
use memchr::memmem;
use remoting::body::data_version::DataVersion;
use remoting::body::register::RegisterBrokerBody;
use remoting::body::topic::TopicConfig;
use remoting::frame::{self, Split};
use remoting::{Request, RequestCode, SerializeType};
use structopt::StructOpt;

use crate::figures::{Usage, median};
use crate::frames::Template;
use crate::servers::NAMESRV_JVM;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Connections that query.
const CONNECTIONS: usize = 4;
/// Between two changes of a topic on one broker.
const CHANGE_EACH: Duration = Duration::from_millis(100);
/// A full registration comes with each so manieth change.
const FULL_EACH: u64 = 10;
/// Versions count from here: their text has as many digits to the end.
const FIRST_VERSION: u64 = 1_000_000_000;
/// The longest wait for an answer.
const LIMIT: Duration = Duration::from_secs(30);

/// How to measure.
#[derive(StructOpt)]
pub struct Options {
    /// Topics of each broker, at most 100,000
    #[structopt(long, default_value = "20000")]
    topics: usize,
    /// Queues of a topic, 1 to 8
    #[structopt(long, default_value = "8")]
    queues: i32,
    /// Unchanged registrations that are timed; ten times as many of one changed topic
    #[structopt(long, default_value = "200")]
    times: usize,
    /// Route queries a second
    #[structopt(long, default_value = "10000")]
    rate: u32,
    /// Seconds of queries
    #[structopt(long, default_value = "10")]
    secs: u32,
    /// The same with the Java name server
    #[structopt(long)]
    java: bool,
}

/// Measures and prints the table.
///
/// # Errors
/// A name server that does not start or does not answer, or no Java reference.
pub fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    if !(1..=8).contains(&options.queues) || !(1..=100_000).contains(&options.topics) {
        return Err("1 to 8 queues and 1 to 100,000 topics".into());
    }
    let mut columns = Vec::new();
    for whose in [Whose::Ours, Whose::Java].into_iter().filter(|whose| *whose == Whose::Ours || options.java) {
        eprintln!("{whose:?}");
        let mut server = Namesrv::start_on(whose, &NAMESRV_JVM, "JSON", &[]);
        columns.push((whose, measure(&server, options).map_err(|error| error.to_string())?));
        server.stop();
    }
    let head: Vec<&str> =
        columns.iter().map(|(whose, _)| if *whose == Whose::Ours { "FerroMQ" } else { "Java 5.5.0" }).collect();
    println!(
        "{} topics of {} queues on 2 brokers; {} queries/s over {CONNECTIONS} connections for {} s\n",
        options.topics, options.queues, options.rate, options.secs
    );
    println!("| figure | {} |\n| --- |{}", head.join(" | "), " ---: |".repeat(head.len()));
    for row in 0..columns.first().map_or(0, |(_, rows)| rows.len()) {
        let name = columns[0].1[row].0;
        let values: Vec<String> = columns.iter().map(|(_, rows)| text(rows[row].1)).collect();
        println!("| {name} | {} |", values.join(" | "));
    }
    Ok(())
}

fn text(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn usage(server: &Namesrv) -> Usage {
    Usage::of(server.pid())
}

type Rows = Vec<(&'static str, f64)>;

fn measure(server: &Namesrv, options: &Options) -> Result<Rows, Error> {
    let mut brokers =
        [Broker::new("broker-a", "10.0.0.1:10911", options)?, Broker::new("broker-b", "10.0.0.2:10911", options)?];
    let mut links = [Peer::connect(&server.address())?, Peer::connect(&server.address())?];
    let mut rows = Rows::new();
    for (broker, link) in brokers.iter_mut().zip(&mut links) {
        link.call(&broker.full())?;
    }
    rows.push(("full registration, KiB", brokers[0].body.len() as f64 / 1024.0));

    // The Java side compiles its code while it runs.
    let (warm, times) = (options.times.div_ceil(4), options.times);
    let (a, link) = (&mut brokers[0], &mut links[0]);
    let (round, cpu) = timed(server, warm, times, || link.call(&a.full()))?;
    rows.extend([("unchanged: round trip us", round), ("unchanged: server cpu us", cpu)]);
    let compressed = a.full_compressed()?;
    let (round, cpu) = timed(server, warm, times, || link.call(&compressed))?;
    rows.push(("compressed, KiB", compressed.len() as f64 / 1024.0));
    rows.extend([("compressed, unchanged: round trip us", round), ("compressed, unchanged: server cpu us", cpu)]);
    let (round, cpu) = timed(server, warm * 10, times * 10, || link.call(&a.change()?))?;
    rows.extend([("one topic changed: round trip us", round), ("one topic changed: server cpu us", cpu)]);
    let (mut rounds, mut cpu) = (Vec::new(), 0.0);
    for _ in 0..times.div_ceil(10) {
        link.call(&a.change()?)?;
        let (frame, before) = (a.full(), usage(server));
        rounds.push(micros(link.call(&frame)?));
        cpu += usage(server).cpu - before.cpu;
    }
    let count = rounds.len() as f64;
    rows.push(("full after a change: round trip us", median(rounds)));
    rows.push(("full after a change: server cpu us", cpu * 1e6 / count));

    let quiet = queries(server, options, Vec::new())?;
    rows.extend([
        ("query: p50 us", quiet.at(0.5)),
        ("query: p99 us", quiet.at(0.99)),
        ("query: p99.9 us", quiet.at(0.999)),
        ("query: max us", quiet.at(1.0)),
        ("query: server cpu us", quiet.cpu * 1e6 / quiet.micros.len() as f64),
    ]);
    let busy = queries(server, options, brokers.into_iter().zip(links).collect())?;
    rows.extend([
        ("query while both register: p50 us", busy.at(0.5)),
        ("query while both register: p99 us", busy.at(0.99)),
        ("query while both register: p99.9 us", busy.at(0.999)),
        ("query while both register: max us", busy.at(1.0)),
        ("over 1 ms while both register, of a million", busy.slow * 1e6),
        ("server cpu while both register, % of a core", busy.cpu / f64::from(options.secs) * 100.0),
        ("registrations meanwhile, each second", busy.registrations as f64 / f64::from(options.secs)),
        ("server anonymous memory MiB", usage(server).anonymous / 1024.0),
    ]);
    Ok(rows)
}

/// Median time and server CPU of a call in microseconds.
fn timed(
    server: &Namesrv,
    warm: usize,
    times: usize,
    mut call: impl FnMut() -> Result<Duration, Error>,
) -> Result<(f64, f64), Error> {
    for _ in 0..warm {
        call()?;
    }
    let before = usage(server);
    let rounds: Vec<f64> = (0..times).map(|_| call().map(micros)).collect::<Result<_, _>>()?;
    let cpu = usage(server).cpu - before.cpu;
    Ok((median(rounds), cpu * 1e6 / times as f64))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// What queries took.
struct Queries {
    micros: Histogram<u64>,
    /// Share that took more than a millisecond.
    slow: f64,
    /// Server CPU seconds.
    cpu: f64,
    registrations: usize,
}

impl Queries {
    fn at(&self, quantile: f64) -> f64 {
        self.micros.value_at_quantile(quantile) as f64
    }
}

/// Queries at a fixed rate, whatever the answers take; time counts from the write of a query to the arrival of its answer.
fn queries(server: &Namesrv, options: &Options, registering: Vec<(Broker, Peer)>) -> Result<Queries, Error> {
    let total = options.rate as usize * options.secs as usize;
    let start = Instant::now();
    let sent: Vec<AtomicU64> = (0..total).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);
    let streams: Vec<TcpStream> =
        (0..CONNECTIONS).map(|_| connect(&server.address())).collect::<Result<_, std::io::Error>>()?;
    let before = usage(server);
    thread::scope(|scope| {
        let (sent, done) = (&sent, &done);
        let registrars: Vec<_> = registering
            .into_iter()
            .map(|(mut broker, mut link)| scope.spawn(move || register_until(done, &mut broker, &mut link)))
            .collect();
        let mut readers = Vec::new();
        for (at, stream) in streams.iter().enumerate() {
            let mut peer = Peer::over(stream.try_clone()?)?;
            let count = (at..total).step_by(CONNECTIONS).len();
            readers.push(scope.spawn(move || -> Result<Histogram<u64>, Error> {
                let mut micros = Histogram::new_with_bounds(1, 60_000_000, 3)?;
                for _ in 0..count {
                    let number = peer.answer()?;
                    let sent = sent.get(number).ok_or("an answer to no query")?.load(Ordering::Acquire);
                    micros.saturating_record((start.elapsed().as_nanos() as u64).saturating_sub(sent) / 1000);
                }
                Ok(micros)
            }));
        }
        let mut late = Duration::ZERO;
        let result = (|| -> Result<(), Error> {
            let fields = [("topic", topic(0))];
            let mut template = Template::new(RequestCode::GET_ROUTEINFO_BY_TOPIC, &fields, &[]);
            let place = template.place("topic") + topic(0).len() - 5;
            let (first, mut out) = (Instant::now(), Vec::new());
            for number in 0..total {
                let due = first + Duration::from_secs_f64(number as f64 / f64::from(options.rate));
                thread::sleep(due.saturating_duration_since(Instant::now()));
                late = late.max(due.elapsed());
                // A step that has no factor in common with the number of topics comes to all of them.
                template.set(place, 5, (number * 7919 % options.topics) as u64);
                out.clear();
                template.write(number as u32, &mut out);
                sent[number].store(start.elapsed().as_nanos() as u64, Ordering::Release);
                (&streams[number % CONNECTIONS]).write_all(&out)?;
            }
            Ok(())
        })();
        let mut micros = Histogram::new_with_bounds(1, 60_000_000, 3)?;
        let mut outcome = result;
        for reader in readers {
            match reader.join().map_err(|_| "a reader failed")? {
                Ok(one) => micros.add(one)?,
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        done.store(true, Ordering::Release);
        let mut registrations = 0;
        for registrar in registrars {
            registrations += registrar.join().map_err(|_| "a registrar failed")??;
        }
        outcome?;
        eprintln!("the generator was late by {late:?} at the most");
        let slow = 1.0 - micros.quantile_below(1000);
        Ok(Queries { micros, slow, cpu: usage(server).cpu - before.cpu, registrations })
    })
}

/// Changes a topic ten times a second and registers in full each second; returns how many registrations that were.
fn register_until(done: &AtomicBool, broker: &mut Broker, link: &mut Peer) -> Result<usize, Error> {
    let (first, mut count) = (Instant::now(), 0);
    for tick in 0.. {
        thread::sleep((first + CHANGE_EACH * tick).saturating_duration_since(Instant::now()));
        if done.load(Ordering::Acquire) {
            break;
        }
        link.call(&broker.change()?)?;
        count += 1;
        if u64::from(tick) % FULL_EACH == FULL_EACH - 1 {
            link.call(&broker.full())?;
            count += 1;
        }
    }
    Ok(count)
}

fn topic(number: usize) -> String {
    format!("some-department.some-service.topic-{number:05}")
}

/// A broker: its table as it stands in the body of a full registration, changed in place.
struct Broker {
    name: &'static str,
    addr: &'static str,
    queues: i32,
    body: Vec<u8>,
    /// Where the version's counter stands in the body.
    counter_at: usize,
    /// Where the mapping version's timestamp stands.
    stamp_at: usize,
    /// Where the digit of each topic's write queues stands.
    queues_at: Vec<usize>,
    counter: u64,
    /// Topic that changes next.
    next: usize,
}

impl Broker {
    fn new(name: &'static str, addr: &'static str, options: &Options) -> Result<Broker, Error> {
        let mut body = registration(FIRST_VERSION);
        for number in 0..options.topics {
            let config = TopicConfig::new(topic(number), options.queues, 6);
            body.topic_config_serialize_wrapper.topic_config_table.insert(topic(number), config);
        }
        let body = body.to_plain()?;
        let after = |from: usize, what: &str| {
            let at = memmem::find(&body[from..], what.as_bytes());
            at.map(|at| from + at + what.len()).ok_or_else(|| format!("no {what} in a registration"))
        };
        let counter_at = after(0, "\"dataVersion\":{\"counter\":")?;
        let stamp_at = after(after(0, "\"mappingDataVersion\":{")?, "\"timestamp\":")?;
        let mut queues_at = Vec::with_capacity(options.topics);
        let mut from = 0;
        for number in 0..options.topics {
            from = after(from, &format!("\"topicName\":\"{}\"", topic(number)))?;
            from = after(from, "\"writeQueueNums\":")?;
            queues_at.push(from);
        }
        let queues = options.queues;
        Ok(Broker { name, addr, queues, body, counter_at, stamp_at, queues_at, counter: FIRST_VERSION, next: 0 })
    }

    /// The frame of a full registration of now.
    fn full(&mut self) -> Vec<u8> {
        digits(&mut self.body[self.stamp_at..][..13], now_millis() as u64);
        self.frame(&self.body, false)
    }

    /// The same as `compressedRegister` makes brokers send it.
    fn full_compressed(&self) -> Result<Vec<u8>, Error> {
        let body = RegisterBrokerBody::read(&self.body, false, remoting::VERSION)?.to_compressed()?;
        Ok(self.frame(&body, true))
    }

    /// Changes a topic; returns the frame that tells this topic only.
    fn change(&mut self) -> Result<Vec<u8>, Error> {
        let number = self.next;
        self.next = (number + 1) % self.queues_at.len();
        self.counter += 1;
        digits(&mut self.body[self.counter_at..][..10], self.counter);
        let digit = &mut self.body[self.queues_at[number]];
        // Between the given number and one more.
        let queues = 2 * self.queues + 1 - i32::from(*digit - b'0');
        *digit = b'0' + queues as u8;
        let mut body = registration(self.counter);
        let config = TopicConfig { write_queue_nums: queues, ..TopicConfig::new(topic(number), self.queues, 6) };
        body.topic_config_serialize_wrapper.topic_config_table.insert(topic(number), config);
        Ok(self.frame(&body.to_plain()?, false))
    }

    fn frame(&self, body: &[u8], compressed: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(body.len() + 1024);
        remoting::Command::request(RequestCode::REGISTER_BROKER)
            .field("brokerName", self.name)
            .field("brokerAddr", self.addr)
            .field("clusterName", "DefaultCluster")
            .field("haServerAddr", "10.0.0.1:10912")
            .field("brokerId", 0)
            .field("enableActingMaster", false)
            .field("compressed", compressed)
            .field("bodyCrc32", crc32fast::hash(body) & 0x7FFF_FFFF)
            .body(body.to_vec())
            .encode(SerializeType::Json, &mut out);
        out
    }
}

/// A registration of no topic under that version.
fn registration(counter: u64) -> RegisterBrokerBody {
    let mut body = RegisterBrokerBody { filter_server_list: Some(Vec::new()), ..RegisterBrokerBody::default() };
    let wrapper = &mut body.topic_config_serialize_wrapper;
    wrapper.data_version = DataVersion { counter: counter as i64, state_version: 0, timestamp: now_millis() };
    wrapper.mapping_data_version = DataVersion::new();
    body
}

fn now_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

fn digits(place: &mut [u8], mut value: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

fn connect(addr: &str) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// A connection with the answers that came over it.
struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    used: usize,
}

impl Peer {
    fn connect(addr: &str) -> Result<Peer, Error> {
        Peer::over(connect(addr)?)
    }

    fn over(stream: TcpStream) -> Result<Peer, Error> {
        Ok(Peer { stream, buffer: vec![0; 1 << 16], filled: 0, used: 0 })
    }

    /// Sends a frame and waits for the answer.
    fn call(&mut self, frame: &[u8]) -> Result<Duration, Error> {
        let start = Instant::now();
        self.stream.write_all(frame)?;
        self.answer()?;
        Ok(start.elapsed())
    }

    /// Waits for an answer, which must be a success; returns the number in its opaque, as [`Template`] writes it.
    fn answer(&mut self) -> Result<usize, Error> {
        loop {
            if let Split::Frame { total, header, serialize, body } =
                frame::split(&self.buffer[self.used..self.filled], frame::DEFAULT_MAX_FRAME)?
            {
                let answer = Request::decode(serialize, header, body)?;
                if answer.code != 0 {
                    return Err(format!("answer {}: {:?}", answer.code, answer.remark).into());
                }
                let number = answer.opaque.wrapping_sub(1_000_000_000) as usize;
                self.used += total;
                return Ok(number);
            }
            self.buffer.copy_within(self.used..self.filled, 0);
            self.filled -= self.used;
            self.used = 0;
            if self.filled == self.buffer.len() {
                self.buffer.resize(self.filled * 2, 0);
            }
            match self.stream.read(&mut self.buffer[self.filled..])? {
                0 => return Err("the name server has closed the connection".into()),
                more => self.filled += more,
            }
        }
    }
}
