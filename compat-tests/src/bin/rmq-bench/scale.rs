//! A broker with very many queues: one topic with 16,384, and 50,000 topics with 4 each. How fast it takes and gives
//! messages beside one topic with 4 queues, how long it takes to start again, and what it holds open.

use std::fs;
use std::time::{Duration, Instant};

use compat_tests::harness::servers::{Broker, BrokerOptions, Whose};
use remoting::RequestCode;
use structopt::StructOpt;
use tokio::io::AsyncWriteExt;
use tokio::task::LocalSet;

use crate::figures::{Usage, median};
use crate::frames::{Answers, Template, records};
use crate::load::connect;
use crate::servers::scratch;

type Error = Box<dyn std::error::Error>;

/// Connections of a load.
const CONNECTIONS: u64 = 4;
/// Requests in flight on each when sending.
const WINDOW: usize = 64;
/// Messages that a pull asks for, and that each queue gets at a time.
const PULL: u64 = 32;
/// Digits of a topic's number.
const DIGITS: usize = 5;

/// What to measure.
#[derive(StructOpt)]
pub struct Options {
    /// Queues of the topic with many
    #[structopt(long, default_value = "16384")]
    queues: u64,
    /// Topics of 4 queues
    #[structopt(long, default_value = "50000")]
    topics: u64,
    /// Rounds of the loads, one topic and many in turn
    #[structopt(long, default_value = "3")]
    rounds: usize,
    /// The Java broker instead of FerroMQ
    #[structopt(long)]
    java: bool,
}

/// Topics of a name with a number, all with as many queues.
#[derive(Clone)]
struct Shape {
    name: &'static str,
    topics: u64,
    queues: u64,
}

impl Shape {
    fn all(&self) -> u64 {
        self.topics * self.queues
    }

    fn topic(&self, number: u64) -> String {
        format!("{}{number:0DIGITS$}", self.name)
    }
}

/// Runs both shapes and prints their figures.
///
/// # Errors
/// The disk, or a broken connection.
pub fn run(options: &Options) -> Result<(), Error> {
    let whose = if options.java { Whose::Java } else { Whose::Ours };
    println!("| figure | one topic | {} queues | {} topics of 4 |", options.queues, options.topics);
    println!("| --- | ---: | ---: | ---: |");
    let one = Shape { name: "One", topics: 1, queues: 4 };
    let wide = Shape { name: "Wide", topics: 1, queues: options.queues };
    let many = Shape { name: "Many", topics: options.topics, queues: 4 };
    let [wide, many] = [wide, many].map(|shape| measure(whose, &one, &shape, options.rounds));
    let (wide, many) = (wide?, many?);
    let decimals = |value: f64| if value < 10.0 { 2 } else { 0 };
    for (row, (name, _, _)) in wide.iter().enumerate() {
        let text = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.*}", decimals(value)) };
        println!("| {name} | {} | {} | {} |", text(wide[row].1), text(wide[row].2), text(many[row].2));
    }
    Ok(())
}

/// Rows: name, of one topic, of the shape.
fn measure(whose: Whose, one: &Shape, shape: &Shape, rounds: usize) -> Result<Vec<(String, f64, f64)>, Error> {
    let store = scratch().join("scale");
    let _ = fs::remove_dir_all(&store);
    fs::create_dir_all(store.join("config"))?;
    fs::write(store.join("config/topics.json"), topics_json(&[one, shape]))?;
    let options = BrokerOptions::new("scale")
        .whose(whose)
        .jvm(&["-Xms4g", "-Xmx4g", "-Drmq.logback.configurationFile=/dev/null"])
        .store(&store)
        .set("mappedFileSizeCommitLog", "1073741824")
        .set("diskMaxUsedSpaceRatio", "95")
        .set("sendThreadPoolQueueCapacity", "100000")
        .set("maxTransferCountOnMessageInMemory", "64");
    let mut broker = Broker::start(&options, &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Every queue gets as many messages as a pull takes, in each round, and one topic as many as all together.
    let once = shape.all() * PULL;
    let (mut send, mut pull) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..rounds as u64 {
        for (at, (which, each)) in [(one, once / one.all()), (shape, PULL)].into_iter().enumerate() {
            send[at].push(send_to(&runtime, &broker, which, each)?);
            eprintln!("{} round {round}: send {:.0}", which.name, send[at][round as usize]);
            let started = Instant::now();
            while undispatched(&runtime, &broker)? > 0 {
                if started.elapsed() > Duration::from_secs(60) {
                    return Err("the queues are not filled".into());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            pull[at].push(pull_from(&runtime, &broker, which, round * each, each)?);
            eprintln!("{} round {round}: pull {:.0}", which.name, pull[at][round as usize]);
        }
    }
    let mut rows = vec![
        ("send messages/s".to_owned(), median(send[0].clone()), median(send[1].clone())),
        ("pull messages/s".to_owned(), median(pull[0].clone()), median(pull[1].clone())),
    ];
    held(&broker, "under load", &mut rows);
    broker.stop();
    broker.start_again(&[]);
    rows.push(("start after a stop, s".to_owned(), f64::NAN, broker.start_time().as_secs_f64()));
    held(&broker, "after the start", &mut rows);
    send_to(&runtime, &broker, shape, 1)?;
    broker.kill();
    broker.start_again(&[]);
    rows.push(("start after a kill, s".to_owned(), f64::NAN, broker.start_time().as_secs_f64()));
    broker.stop();
    drop(broker);
    fs::remove_dir_all(&store)?;
    Ok(rows)
}

/// What the process holds now.
fn held(broker: &Broker, when: &str, rows: &mut Vec<(String, f64, f64)>) {
    let pid = broker.pid();
    let files = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default().lines().count();
    let usage = Usage::of(pid);
    rows.push((format!("open files {when}"), f64::NAN, files as f64));
    rows.push((format!("memory maps {when}"), f64::NAN, maps as f64));
    rows.push((format!("resident MiB {when}"), f64::NAN, usage.resident / 1024.0));
    rows.push((format!("anonymous MiB {when}"), f64::NAN, usage.anonymous / 1024.0));
}

/// The broker's list of topics.
fn topics_json(shapes: &[&Shape]) -> String {
    let mut entries = Vec::new();
    for shape in shapes {
        for number in 0..shape.topics {
            let (name, queues) = (shape.topic(number), shape.queues);
            entries.push(format!(
                "\"{name}\":{{\"attributes\":{{}},\"order\":false,\"perm\":6,\"readQueueNums\":{queues},\
                 \"topicFilterType\":\"SINGLE_TAG\",\"topicName\":\"{name}\",\"topicSysFlag\":0,\"writeQueueNums\":{queues}}}"
            ));
        }
    }
    let entries = entries.join(",");
    format!(
        "{{\"dataVersion\":{{\"counter\":1,\"stateVersion\":0,\"timestamp\":1}},\"topicConfigTable\":{{{entries}}}}}"
    )
}

fn send_template(topic: &str) -> Template {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
    let fields = [
        ("a", "bench_producers".to_owned()),
        ("b", topic.to_owned()),
        ("c", "TBW102".to_owned()),
        ("d", "4".to_owned()),
        ("e", "00000".to_owned()),
        ("f", "0".to_owned()),
        ("g", now.to_string()),
        ("h", "0".to_owned()),
        ("i", "WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}".to_owned()),
        ("j", "0".to_owned()),
        ("k", "false".to_owned()),
        ("l", "16".to_owned()),
        ("m", "false".to_owned()),
    ];
    Template::new(RequestCode::SEND_MESSAGE_V2, &fields, &[b'x'; 128])
}

fn pull_template(topic: &str) -> Template {
    let fields = [
        ("consumerGroup", "bench_consumers".to_owned()),
        ("topic", topic.to_owned()),
        ("queueId", "00000".to_owned()),
        ("queueOffset", format!("{:020}", 0)),
        ("maxMsgNums", PULL.to_string()),
        ("sysFlag", "4".to_owned()),
        ("commitOffset", "0".to_owned()),
        ("suspendTimeoutMillis", "0".to_owned()),
        ("subscription", "*".to_owned()),
        ("subVersion", "1".to_owned()),
        ("expressionType", "TAG".to_owned()),
        ("maxMsgBytes", i32::MAX.to_string()),
    ];
    Template::new(RequestCode::PULL_MESSAGE, &fields, &[])
}

/// Sends `each` messages to every queue, one after the other through all queues; messages a second.
fn send_to(runtime: &tokio::runtime::Runtime, broker: &Broker, shape: &Shape, each: u64) -> std::io::Result<f64> {
    let started = Instant::now();
    let one = |connection| send(broker.address(), shape.clone(), each, connection);
    LocalSet::new().block_on(runtime, all(one))?;
    Ok((shape.all() * each) as f64 / started.elapsed().as_secs_f64())
}

/// Runs a task for each connection.
async fn all<F: Future<Output = std::io::Result<()>> + 'static>(task: impl Fn(u64) -> F) -> std::io::Result<()> {
    let tasks: Vec<_> = (0..CONNECTIONS).map(|connection| tokio::task::spawn_local(task(connection))).collect();
    for task in tasks {
        task.await.map_err(std::io::Error::other)??;
    }
    Ok(())
}

async fn send(broker: String, shape: Shape, each: u64, connection: u64) -> std::io::Result<()> {
    let mut socket = connect(&broker).await?;
    let mut template = send_template(&shape.topic(0));
    let topic = template.place("b") + shape.name.len();
    let queue = template.place("e");
    let (mut answers, mut out) = (Answers::new(), Vec::new());
    let (mut next, mut in_flight, all) = (connection, 0, shape.all());
    while next < all * each || in_flight > 0 {
        while next < all * each && in_flight < WINDOW {
            // All queues of a topic, then the next topic.
            template.set(topic, DIGITS, next % all / shape.queues);
            template.set(queue, 5, next % shape.queues);
            template.write((next % 1_000_000_000) as u32, &mut out);
            next += CONNECTIONS;
            in_flight += 1;
        }
        socket.write_all(&out).await?;
        out.clear();
        let mut refused = None;
        in_flight -=
            answers.read(&mut socket, |answer| refused = Some(answer.code()).filter(|code| *code != 0)).await?;
        if let Some(code) = refused {
            return Err(std::io::Error::other(format!("a send is answered with {code}")));
        }
    }
    Ok(())
}

/// Pulls `each` messages of every queue from an offset on, one request in flight on each connection; messages a second.
fn pull_from(
    runtime: &tokio::runtime::Runtime,
    broker: &Broker,
    shape: &Shape,
    from: u64,
    each: u64,
) -> std::io::Result<f64> {
    let started = Instant::now();
    let one = |connection| pull(broker.address(), shape.clone(), from, each, connection);
    LocalSet::new().block_on(runtime, all(one))?;
    Ok((shape.all() * each) as f64 / started.elapsed().as_secs_f64())
}

async fn pull(broker: String, shape: Shape, from: u64, each: u64, connection: u64) -> std::io::Result<()> {
    let mut socket = connect(&broker).await?;
    let mut template = pull_template(&shape.topic(0));
    let topic = template.place("topic") + shape.name.len();
    let (queue, offset) = (template.place("queueId"), template.place("queueOffset"));
    let (mut answers, mut out) = (Answers::new(), Vec::new());
    for target in (connection..shape.all()).step_by(CONNECTIONS as usize) {
        let mut next = from;
        while next < from + each {
            template.set(topic, DIGITS, target / shape.queues);
            template.set(queue, 5, target % shape.queues);
            template.set(offset, 20, next);
            out.clear();
            template.write(1, &mut out);
            socket.write_all(&out).await?;
            let mut got = None;
            while got.is_none() {
                answers.read(&mut socket, |answer| got = Some((answer.code(), records(answer.body, |_| ())))).await?;
            }
            let (code, count) = got.unwrap_or_default();
            if code != 0 || count == 0 {
                let what = format!("queue {target} at {next}: code {code}, {count} messages");
                return Err(std::io::Error::other(what));
            }
            next += count;
        }
    }
    Ok(())
}

/// Bytes of the log that are not in the queues yet.
fn undispatched(runtime: &tokio::runtime::Runtime, broker: &Broker) -> std::io::Result<u64> {
    let mut out = Vec::new();
    Template::new(RequestCode::GET_BROKER_RUNTIME_INFO, &[], &[]).write(0, &mut out);
    runtime.block_on(async {
        let mut socket = connect(&broker.address()).await?;
        socket.write_all(&out).await?;
        let (mut answers, mut body) = (Answers::new(), None);
        while body.is_none() {
            answers.read(&mut socket, |answer| body = Some(answer.body.to_vec())).await?;
        }
        let table: serde_json::Value = serde_json::from_slice(&body.unwrap_or_default())?;
        let behind = table.pointer("/table/dispatchBehindBytes").and_then(|value| value.as_str()?.parse().ok());
        behind.ok_or_else(|| std::io::Error::other("the broker does not say how far it is"))
    })
}
