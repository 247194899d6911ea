//! Both brokers under the same loads, alternately; medians and ratios.

use std::collections::BTreeMap;
use std::process::Command;

use compat_tests::harness::servers::Whose;
use serde_json::Value;
use structopt::StructOpt;

use crate::figures::{Usage, median};
use crate::servers::{Servers, scratch};
use crate::warm::Filler;

type Error = Box<dyn std::error::Error>;

/// How to compare.
#[derive(StructOpt)]
pub struct Options {
    /// Rounds of each broker, alternating
    #[structopt(long, default_value = "3")]
    rounds: usize,
    /// Seconds of each load
    #[structopt(long, default_value = "10")]
    secs: f64,
    /// Only FerroMQ: no Java is needed
    #[structopt(long)]
    ours: bool,
    /// ASYNC_FLUSH or SYNC_FLUSH
    #[structopt(long, default_value = "ASYNC_FLUSH")]
    flush: String,
    /// Leave the page cache as it is
    #[structopt(long)]
    cold: bool,
}

/// Requests of one message that each of four connections sends to the topic that is pulled.
const PULLED: &str = "500000";

/// One row of the table: name, and whether more is better.
const ROWS: &[(&str, bool)] = &[
    ("start ms", false),
    ("memory after start MiB", false),
    ("idle cpu %", false),
    ("send 128 B messages/s", true),
    ("send 128 B cpu us", false),
    ("send 128 B p99 us", false),
    ("send 128 B keys messages/s", true),
    ("send 128 B keys cpu us", false),
    ("send 1 KiB messages/s", true),
    ("send 1 KiB cpu us", false),
    ("send batch 32 messages/s", true),
    ("send batch 32 cpu us", false),
    ("one in flight p50 us", false),
    ("one in flight p99 us", false),
    ("one in flight cpu us", false),
    ("pull 32 messages/s", true),
    ("pull 32 cpu us", false),
    ("orderly messages/s", true),
    ("orderly cpu us", false),
    ("filtered pull messages/s", true),
    ("filtered pull cpu us", false),
    ("transaction messages/s", true),
    ("transaction cpu us", false),
    ("end to end p50 us", false),
    ("end to end p99 us", false),
    ("memory after load MiB", false),
    ("idle connection KiB", false),
];

/// Runs the rounds and prints the table.
///
/// # Errors
/// A server that does not start, a load that fails, or no Java reference.
pub fn run(options: &Options) -> Result<(), Error> {
    let filling = scratch().with_extension("cache");
    let filler = if options.cold { None } else { Some(Filler::new(&filling)?) };
    if let Some(filler) = &filler {
        eprintln!("the page cache is filled with {} MiB before each round", filler.bytes() >> 20);
    }
    let sides: &[Whose] = if options.ours { &[Whose::Ours] } else { &[Whose::Java, Whose::Ours] };
    let mut all: BTreeMap<(bool, &str), Vec<f64>> = BTreeMap::new();
    for round in 1..=options.rounds {
        for whose in sides {
            eprintln!("round {round} of {}: {whose:?}", options.rounds);
            filler.as_ref().map(Filler::fill).transpose()?;
            for (name, value) in one_round(*whose, options)? {
                all.entry((*whose == Whose::Ours, name)).or_default().push(value);
            }
        }
    }
    print(&all, options);
    let _ = std::fs::remove_dir_all(scratch());
    drop(filler);
    let _ = std::fs::remove_dir(filling);
    Ok(())
}

fn print(all: &BTreeMap<(bool, &str), Vec<f64>>, options: &Options) {
    println!("\nmedians of {} rounds, {}, cpu: the broker's CPU time a message", options.rounds, options.flush);
    println!("| figure | Java 5.5.0 | FerroMQ | better by |\n| --- | ---: | ---: | ---: |");
    for (name, more_is_better) in ROWS {
        let of = |ours| all.get(&(ours, *name)).cloned().map(median);
        let text = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.*}", decimals(value)));
        let ratio = match (of(false), of(true)) {
            (Some(java), Some(ours)) if java > 0.0 && ours > 0.0 => {
                format!("{:.1} x", if *more_is_better { ours / java } else { java / ours })
            }
            _ => "-".into(),
        };
        println!("| {name} | {} | {} | {ratio} |", text(of(false)), text(of(true)));
    }
}

fn decimals(value: f64) -> usize {
    if value < 10.0 { 2 } else { usize::from(value < 100.0) }
}

fn one_round(whose: Whose, options: &Options) -> Result<Vec<(&'static str, f64)>, Error> {
    let servers = Servers::start(whose, &[("flushDiskType", &options.flush)])?;
    let pid = servers.broker_pid();
    let secs = options.secs.to_string();
    let load = |arguments: &[&str]| load(&servers, pid, arguments);
    let mut rows = vec![("start ms", servers.start_ms())];
    std::thread::sleep(std::time::Duration::from_secs(2));
    let quiet = Usage::of(pid);
    rows.push(("memory after start MiB", quiet.anonymous / 1024.0));
    std::thread::sleep(std::time::Duration::from_secs(5));
    rows.push(("idle cpu %", (Usage::of(pid).cpu - quiet.cpu) / 5.0 * 100.0));
    // The Java side compiles its code while it runs: it gets the time for that.
    load(&["--secs", if whose == Whose::Java { "15" } else { "2" }, "send"])?;
    let x = load(&["--secs", &secs, "send"])?;
    rows.push(("send 128 B messages/s", get(&x, "messages_a_second")));
    rows.push(("send 128 B cpu us", get(&x, "server_cpu_us_a_message")));
    rows.push(("send 128 B p99 us", get(&x, "p99_us")));
    let x = load(&["--secs", &secs, "--topic", "BenchKeys", "send", "--keys"])?;
    rows.push(("send 128 B keys messages/s", get(&x, "messages_a_second")));
    rows.push(("send 128 B keys cpu us", get(&x, "server_cpu_us_a_message")));
    let x = load(&["--secs", &secs, "--topic", "Bench1k", "send", "--size", "1024"])?;
    rows.push(("send 1 KiB messages/s", get(&x, "messages_a_second")));
    rows.push(("send 1 KiB cpu us", get(&x, "server_cpu_us_a_message")));
    let x = load(&["--secs", &secs, "--topic", "BenchBatch", "send", "--batch", "32", "--window", "4"])?;
    rows.push(("send batch 32 messages/s", get(&x, "messages_a_second")));
    rows.push(("send batch 32 cpu us", get(&x, "server_cpu_us_a_message")));
    let x = load(&["--secs", &secs, "--topic", "BenchOne", "send", "--conns", "1", "--window", "1"])?;
    rows.push(("one in flight p50 us", get(&x, "p50_us")));
    rows.push(("one in flight p99 us", get(&x, "p99_us")));
    rows.push(("one in flight cpu us", get(&x, "server_cpu_us_a_message")));
    // The same messages on both sides, just stored: from the page cache.
    load(&["--secs", "60", "--topic", "BenchPull", "send", "--requests", PULLED])?;
    load(&["--secs", &secs, "--topic", "BenchPull", "pull", "--again"])?;
    let x = load(&["--secs", &secs, "--topic", "BenchPull", "pull", "--again"])?;
    rows.push(("pull 32 messages/s", get(&x, "messages_a_second")));
    rows.push(("pull 32 cpu us", get(&x, "server_cpu_us_a_message")));
    load(&["--secs", &secs, "--topic", "BenchPull", "orderly"])?;
    let x = load(&["--secs", &secs, "--topic", "BenchPull", "orderly"])?;
    rows.push(("orderly messages/s", get(&x, "messages_a_second")));
    rows.push(("orderly cpu us", get(&x, "server_cpu_us_a_message")));
    load(&["--topic", "BenchFilter", "filtered-send"])?;
    load(&["--secs", &secs, "--topic", "BenchFilter", "filtered-pull"])?;
    let x = load(&["--secs", &secs, "--topic", "BenchFilter", "filtered-pull"])?;
    rows.push(("filtered pull messages/s", get(&x, "messages_a_second")));
    rows.push(("filtered pull cpu us", get(&x, "server_cpu_us_a_message")));
    load(&["--secs", &secs, "--topic", "BenchTx", "transaction"])?;
    let x = load(&["--secs", &secs, "--topic", "BenchTx", "transaction"])?;
    rows.push(("transaction messages/s", get(&x, "messages_a_second")));
    rows.push(("transaction cpu us", get(&x, "server_cpu_us_a_message")));
    load(&["--secs", "2", "--topic", "BenchE2e", "send", "--window", "1"])?;
    load(&["--secs", &secs, "--topic", "BenchE2e", "end-to-end"])?;
    let x = load(&["--secs", &secs, "--topic", "BenchE2e", "end-to-end"])?;
    rows.push(("end to end p50 us", get(&x, "p50_us")));
    rows.push(("end to end p99 us", get(&x, "p99_us")));
    rows.push(("memory after load MiB", Usage::of(pid).anonymous / 1024.0));
    let x = load(&["--secs", "8", "--topic", "BenchE2e", "idle", "--conns", "5000"])?;
    rows.push(("idle connection KiB", get(&x, "kib_a_connection")));
    servers.stop();
    Ok(rows)
}

fn get(figures: &Value, name: &str) -> f64 {
    figures.get(name).and_then(Value::as_f64).unwrap_or_default()
}

/// Runs the load generator as a process of its own.
fn load(servers: &Servers, pid: u32, arguments: &[&str]) -> Result<Value, Error> {
    let output = Command::new(std::env::current_exe()?)
        .args(["load", "--broker", &servers.address(), "--pid", &pid.to_string()])
        .args(arguments)
        .output()?;
    if !output.status.success() {
        return Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let figures: Value = serde_json::from_slice(&output.stdout)?;
    let (bad, messages) = (get(&figures, "bad"), get(&figures, "messages"));
    if bad > messages / 1000.0 {
        eprintln!("! {arguments:?}: {bad} requests failed beside {messages} messages");
    }
    Ok(figures)
}
