//! Recovery: a broker of ours takes messages until its log is long, is killed, and both brokers start in turn on what it left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::harness::servers::{Broker, BrokerOptions, Whose};
use structopt::StructOpt;

use crate::figures::median;
use crate::servers::scratch;

type Error = Box<dyn std::error::Error>;

/// What to measure.
#[derive(StructOpt)]
pub struct Options {
    /// Length of the log in GiB
    #[structopt(long, default_value = "10")]
    gib: u64,
    /// Bytes of a body
    #[structopt(long, default_value = "1024")]
    size: usize,
    /// Starts of each broker
    #[structopt(long, default_value = "3")]
    rounds: usize,
    /// Only FerroMQ: no Java is needed
    #[structopt(long)]
    ours: bool,
    /// Only with the whole log to be read
    #[structopt(long)]
    whole: bool,
}

/// Fills a store, kills, measures, prints.
///
/// # Errors
/// The disk, or a load that fails.
pub fn run(options: &Options) -> Result<(), Error> {
    let left = scratch().join("recovery-left");
    let copy = scratch().join("recovery");
    for dir in [&left, &copy] {
        let _ = fs::remove_dir_all(dir);
    }
    fs::create_dir_all(&left)?;
    fill(&left, options)?;
    println!("log of {} GiB, bodies of {} B; seconds from the start to the first answer", options.gib, options.size);
    println!("| what the kill left | Java 5.5.0 | FerroMQ | shorter by |\n| --- | ---: | ---: | ---: |");
    let sides: &[Whose] = if options.ours { &[Whose::Ours] } else { &[Whose::Java, Whose::Ours] };
    let faults: [(&str, &[&str]); 3] = [
        ("all files", &[]),
        ("no checkpoint", &["checkpoint"]),
        ("log only", &["checkpoint", "consumequeue", "index"]),
    ];
    for (name, without) in faults.into_iter().skip(usize::from(options.whole)) {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..options.rounds {
            for whose in sides {
                copy_store(&left, &copy, without)?;
                let seconds = start(*whose, &copy)?;
                eprintln!("{name}, {whose:?}: {seconds:.2} s");
                times[usize::from(*whose == Whose::Ours)].push(seconds);
                fs::remove_dir_all(&copy)?;
            }
        }
        let [java, ours] = times.map(median);
        let (java_text, ratio) = match options.ours {
            true => ("-".to_owned(), "-".to_owned()),
            false => (format!("{java:.2}"), format!("{:.1} x", java / ours)),
        };
        println!("| {name} | {java_text} | {ours:.2} | {ratio} |");
    }
    fs::remove_dir_all(&left)?;
    Ok(())
}

fn options(whose: Whose, store: &Path) -> BrokerOptions {
    BrokerOptions::new("recovery")
        .whose(whose)
        .jvm(&["-Xms4g", "-Xmx4g", "-Drmq.logback.configurationFile=/dev/null"])
        .store(store)
        .start_limit(Duration::from_secs(900))
        .set("mappedFileSizeCommitLog", "1073741824")
        .set("diskMaxUsedSpaceRatio", "95")
}

/// Sends until the log is long enough, and kills the broker under load.
fn fill(store: &Path, wanted: &Options) -> Result<(), Error> {
    let mut broker = Broker::start(&options(Whose::Ours, store), &[]);
    let size = wanted.size.to_string();
    let mut load = Command::new(std::env::current_exe()?)
        .args(["load", "--broker", &broker.address(), "--secs", "3600", "send", "--keys", "--size", &size])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()?;
    let started = Instant::now();
    // The last file is made ahead: one more than the length asks for.
    let last = store.join(format!("commitlog/{:020}", wanted.gib << 30));
    while !last.exists() {
        if started.elapsed() > Duration::from_secs(1800) || load.try_wait()?.is_some() {
            let _ = load.kill();
            return Err("the log does not grow".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // And half of a file more.
    std::thread::sleep(Duration::from_secs(1));
    broker.kill();
    let _ = load.kill();
    let _ = load.wait();
    Ok(())
}

/// Copies a store; files of the log, which a recovery does not change, are linked, except the last two.
fn copy_store(from: &Path, to: &Path, without: &[&str]) -> Result<(), Error> {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to.join("commitlog"))?;
    let mut log: Vec<PathBuf> =
        fs::read_dir(from.join("commitlog"))?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    log.sort();
    let changed = log.split_off(log.len().saturating_sub(2));
    for path in &log {
        fs::hard_link(path, to.join("commitlog").join(path.file_name().unwrap_or_default()))?;
    }
    let mut copied = changed.into_iter().map(|path| (path, to.join("commitlog"))).collect::<Vec<_>>();
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if name != "commitlog" && !without.contains(&name.as_str()) {
            copied.push((path, to.to_owned()));
        }
    }
    for (path, into) in copied {
        let status = Command::new("cp").args(["-r", "--sparse=always"]).arg(path).arg(into).status()?;
        if !status.success() {
            return Err("a part of the store could not be copied".into());
        }
    }
    // What the copy has left to write must not be in the way of the start.
    rustix::fs::sync();
    Ok(())
}

/// Seconds from the start to the first answer; then the broker is killed.
fn start(whose: Whose, store: &Path) -> Result<f64, Error> {
    let mut broker = Broker::start(&options(whose, store), &[]);
    let seconds = broker.start_time().as_secs_f64();
    broker.kill();
    Ok(seconds)
}
