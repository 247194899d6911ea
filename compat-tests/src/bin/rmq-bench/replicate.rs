//! Replication: a master that waits for its slave (`SYNC_MASTER`), both of the same make, and a slave that comes back to a
//! long log.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::harness::servers::{Broker, BrokerOptions, Namesrv, Whose};
use compat_tests::harness::{Connection, Frame, until};
use serde_json::Value;
use structopt::StructOpt;

use crate::figures::{Usage, median};
use crate::servers::{BROKER_JVM, NAMESRV_JVM, scratch};

type Error = Box<dyn std::error::Error>;

const GET_BROKER_HA_STATUS: i32 = 907;
const LIMIT: Duration = Duration::from_secs(600);

/// What to measure.
#[derive(StructOpt)]
pub struct Options {
    /// Rounds of each pair, in turn
    #[structopt(long, default_value = "3")]
    rounds: usize,
    /// Seconds of a load
    #[structopt(long, default_value = "10")]
    secs: u64,
    /// MiB that the slave has to catch up
    #[structopt(long, default_value = "2048")]
    backlog: u64,
    /// Only FerroMQ: no Java is needed
    #[structopt(long)]
    ours: bool,
}

const ROWS: [(&str, bool); 6] = [
    ("sync master messages/s", true),
    ("sync master cpu us, both processes", false),
    ("sync master p99 us", false),
    ("catch up MiB/s", true),
    ("send beside no slave messages/s", true),
    ("send beside a slave that catches up messages/s", true),
];

/// Runs the rounds and prints the table.
///
/// # Errors
/// A load that fails, or the disk.
pub fn run(options: &Options) -> Result<(), Error> {
    let sides: &[Whose] = if options.ours { &[Whose::Ours] } else { &[Whose::Java, Whose::Ours] };
    let mut all: BTreeMap<(bool, &str), Vec<f64>> = BTreeMap::new();
    for round in 1..=options.rounds {
        for whose in sides {
            eprintln!("round {round} of {}: {whose:?}", options.rounds);
            let rows = [in_step(*whose, options)?, catch_up(*whose, options)?].concat();
            for (name, value) in rows {
                eprintln!("  {name}: {value:.1}");
                all.entry((*whose == Whose::Ours, name)).or_default().push(value);
            }
        }
    }
    println!("\nmedians of {} rounds, 1 KiB, 64 in flight, backlog {} MiB", options.rounds, options.backlog);
    println!("| figure | Java 5.5.0 | FerroMQ | better by |\n| --- | ---: | ---: | ---: |");
    for (name, more_is_better) in ROWS {
        let of = |ours| all.get(&(ours, name)).cloned().map(median);
        let text = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
        let ratio = match (of(false), of(true)) {
            (Some(java), Some(ours)) if java > 0.0 && ours > 0.0 => {
                format!("{:.1} x", if more_is_better { ours / java } else { java / ours })
            }
            _ => "-".into(),
        };
        println!("| {name} | {} | {} | {ratio} |", text(of(false)), text(of(true)));
    }
    let _ = fs::remove_dir_all(scratch());
    Ok(())
}

/// A master and its slave, of one make.
struct Pair {
    namesrv: Namesrv,
    master: Broker,
    slave: Broker,
}

impl Pair {
    fn start(whose: Whose, role: &str) -> Result<Pair, Error> {
        let root = scratch().join("replicate");
        let _ = fs::remove_dir_all(&root);
        let namesrv = Namesrv::start_on(whose, &NAMESRV_JVM, "JSON", &[]);
        let start = |id: &str, role: &str, copies: &str| -> Result<Broker, Error> {
            let store = root.join(id);
            fs::create_dir_all(&store)?;
            let options = BrokerOptions::new("bench").whose(whose).jvm(&BROKER_JVM).store(&store).settings(&[
                ("brokerId", id),
                ("brokerRole", role),
                ("totalReplicas", copies),
                ("inSyncReplicas", copies),
                ("mappedFileSizeCommitLog", "1073741824"),
                ("diskMaxUsedSpaceRatio", "95"),
                ("sendThreadPoolQueueCapacity", "100000"),
            ]);
            Ok(Broker::start(&options, &[&namesrv]))
        };
        let master = start("0", role, if role == "SYNC_MASTER" { "2" } else { "1" })?;
        let slave = start("1", "SLAVE", "1")?;
        let pair = Pair { namesrv, master, slave };
        pair.wait_for_slave();
        Ok(pair)
    }

    fn wait_for_slave(&self) {
        until("the slave's copy", LIMIT, || {
            let status = status(&self.master);
            status["haConnectionInfo"].as_array().is_some_and(|links| links.iter().any(|link| link["diff"] == 0))
        });
    }

    fn end(&self) -> f64 {
        status(&self.master)["masterCommitLogMaxOffset"].as_f64().unwrap_or(0.0)
    }

    fn load(&self, arguments: &[&str]) -> Result<Value, Error> {
        let output = Command::new(std::env::current_exe()?)
            .args(["load", "--broker", &self.master.address()])
            .args(arguments)
            .output()?;
        if !output.status.success() {
            return Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let figures: Value = serde_json::from_slice(&output.stdout)?;
        if get(&figures, "bad") > 0.0 {
            eprintln!("! {} requests failed", figures["bad"]);
        }
        Ok(figures)
    }

    /// Both are only killed: their stores are thrown away.
    fn end_it(mut self) {
        self.slave.kill();
        self.master.kill();
        self.namesrv.kill();
        let _ = fs::remove_dir_all(scratch().join("replicate"));
    }
}

fn status(broker: &Broker) -> Value {
    let Ok(mut connection) = Connection::try_open(&broker.address()) else { return Value::Null };
    connection.write(&Frame::request(GET_BROKER_HA_STATUS).encode());
    let answer = connection.receive(Duration::from_secs(10)).map(|answer| answer.body).unwrap_or_default();
    serde_json::from_slice(&answer).unwrap_or(Value::Null)
}

fn get(figures: &Value, name: &str) -> f64 {
    figures.get(name).and_then(Value::as_f64).unwrap_or_default()
}

fn in_step(whose: Whose, options: &Options) -> Result<Vec<(&'static str, f64)>, Error> {
    let pair = Pair::start(whose, "SYNC_MASTER")?;
    let send = |secs: &str| pair.load(&["--secs", secs, "send", "--size", "1024", "--conns", "4", "--window", "16"]);
    // The Java side compiles its code while it runs: it gets the time for that.
    send(if whose == Whose::Java { "15" } else { "2" })?;
    let cpu = || Usage::of(pair.master.pid()).cpu + Usage::of(pair.slave.pid()).cpu;
    let before = cpu();
    let figures = send(&options.secs.to_string())?;
    // What the load began is finished: queues of the slave included.
    std::thread::sleep(Duration::from_millis(500));
    let used = cpu() - before;
    let messages = get(&figures, "messages");
    let rows = vec![
        (ROWS[0].0, get(&figures, "messages_a_second")),
        (ROWS[1].0, used * 1e6 / messages.max(1.0)),
        (ROWS[2].0, get(&figures, "p99_us")),
    ];
    pair.end_it();
    Ok(rows)
}

fn catch_up(whose: Whose, options: &Options) -> Result<Vec<(&'static str, f64)>, Error> {
    let mut pair = Pair::start(whose, "ASYNC_MASTER")?;
    // The first message, so that the slave's log begins where the master's does.
    pair.load(&["--secs", "1", "send", "--size", "1024"])?;
    pair.wait_for_slave();
    pair.slave.kill();
    let send = |pair: &Pair, secs: u64| pair.load(&["--secs", &secs.to_string(), "send", "--size", "1024"]);
    let alone = get(&send(&pair, options.secs)?, "messages_a_second");
    let from = status(&pair.master)["masterCommitLogMaxOffset"].as_f64().unwrap_or(0.0);
    let wanted = (options.backlog << 20) as f64;
    while pair.end() < wanted {
        send(&pair, 2)?;
    }
    pair.slave.start_again(&[]);
    let begin = Instant::now();
    let beside = get(&send(&pair, options.secs.min(5))?, "messages_a_second");
    pair.wait_for_slave();
    let seconds = begin.elapsed().as_secs_f64();
    let end = pair.end();
    eprintln!("  {:.0} MiB in {seconds:.1} s, {:.0} MiB before the start", end / 1048576.0, from / 1048576.0);
    let rows = vec![(ROWS[3].0, end / 1048576.0 / seconds), (ROWS[4].0, alone), (ROWS[5].0, beside)];
    pair.end_it();
    Ok(rows)
}
