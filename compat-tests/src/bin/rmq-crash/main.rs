//! `cargo xtask crash`: a real broker is killed with SIGKILL at random moments under load and while it starts, started again, and everything
//! that it acknowledged is looked for: by queue offset, by physical offset, by key.
//!
//! What a producer was told decides: *acknowledged* messages must be there exactly once and in the place that the answer
//! said; *failed* ones must not be; of those without an answer, *unknown*, each may be there once or not at all.

mod connection;
mod load;
mod random;
mod verify;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use compat_tests::harness::{Broker, BrokerOptions, Whose};
use structopt::StructOpt;

use crate::random::Random;
use crate::verify::{Counts, Verifier};

/// Topics of the load.
const TOPICS: [&str; 3] = ["CrashA", "CrashB", "CrashC"];
/// Queues of each.
const QUEUES: i32 = 4;

#[derive(StructOpt)]
#[structopt(name = "rmq-crash", about = "Kills a broker under load and checks what it kept")]
struct Options {
    /// How often the broker is killed, all together
    #[structopt(long, default_value = "30")]
    rounds: u32,
    /// ASYNC_FLUSH, SYNC_FLUSH, or both: half of the rounds each
    #[structopt(long, default_value = "both")]
    flush: String,
    /// Producers, each with a connection of its own
    #[structopt(long, default_value = "6")]
    producers: u32,
    /// Longest time under load before a kill, in milliseconds
    #[structopt(long, default_value = "700")]
    longest: u64,
    /// Makes the same choices again
    #[structopt(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let options = Options::from_args();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = options.seed.unwrap_or(now.as_nanos() as u64);
    println!("seed={seed}");
    let mut random = Random::new(seed);
    let mut total = Counts::default();
    let modes: Vec<(&str, u32)> = match options.flush.as_str() {
        "both" => vec![("ASYNC_FLUSH", options.rounds.div_ceil(2)), ("SYNC_FLUSH", options.rounds / 2)],
        one => vec![(one, options.rounds)],
    };
    for (mode, rounds) in modes.into_iter().filter(|(_, rounds)| *rounds > 0) {
        let counts = run(mode, rounds, &options, &mut random);
        println!("{mode}: rounds={rounds} {counts}");
        total.add(&counts);
    }
    println!("rounds={} seed={seed} {total}", options.rounds);
    if total.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// All rounds with one broker and one store.
fn run(mode: &str, rounds: u32, options: &Options, random: &mut Random) -> Counts {
    // Small files: kills meet rolls of all three kinds. `flushConsumeQueueThoroughInterval`: the checkpoint moves often.
    let settings = BrokerOptions::new("broker-crash").whose(Whose::Ours).settings(&[
        ("flushDiskType", mode),
        ("mappedFileSizeCommitLog", "1048576"),
        ("mappedFileSizeConsumeQueue", "20000"),
        ("maxHashSlotNum", "10000"),
        ("maxIndexNum", "40000"),
        ("flushConsumeQueueThoroughInterval", "300"),
        // A full disk must not look like a loss.
        ("cleanFileForciblyEnable", "false"),
    ]);
    let mut broker = Broker::start(&settings, &[]);
    let mut verifier = Verifier::new();
    for round in 1..=rounds {
        let pause = Duration::from_millis(50 + random.below(options.longest.max(60) - 50));
        let running = load::start(&broker.address(), options.producers, round, random);
        std::thread::sleep(pause);
        broker.kill();
        let sent = running.finish();
        // Now and then it is killed while it recovers as well, or right after.
        let starts = random.below(3);
        (0..starts).for_each(|_| broker.start_and_kill(Duration::from_micros(random.below(30_000))));
        let begin = Instant::now();
        broker.start_again(&[]);
        let back = begin.elapsed();
        verifier.round(&broker.address(), sent);
        println!(
            "{mode} round {round}: killed after {pause:?}, and {starts} more times while it started, back after {back:?}; {}",
            verifier.counts()
        );
    }
    verifier.all_again(&broker.address());
    broker.stop();
    verifier.files(broker.store());
    verifier.counts().clone()
}
