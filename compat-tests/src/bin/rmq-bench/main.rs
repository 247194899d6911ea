//! `cargo xtask bench`: FerroMQ and the Java broker under the same load on the same machine.
//!
//! `compare` starts both in turn and prints medians and ratios; `load` is the load generator that it uses, as a process
//! of its own: raw frames from templates, so cheap that the server is the bottleneck. `routes` measures name servers.

mod compare;
mod figures;
mod frames;
mod load;
mod orderly;
mod recovery;
mod replicate;
mod routes;
mod scale;
mod servers;
mod sql;
mod timer;
mod timer_crash;
mod transaction;
mod warm;

use structopt::StructOpt;

#[derive(StructOpt)]
#[structopt(name = "rmq-bench", about = "Load generator, and a comparison with the Java broker")]
enum Command {
    /// Run FerroMQ and the Java broker alternately and print the figures side by side
    Compare(compare::Options),
    /// Put load on one broker and print the figures as JSON
    Load(load::Options),
    /// Time from the start after a kill to the first answer, with a long log, FerroMQ and Java in turn on copies of the files
    Recovery(recovery::Options),
    /// A master that waits for its slave, and a slave that catches up, FerroMQ's and Java's in turn
    Replicate(replicate::Options),
    /// Registrations and route queries at a name server with very many topics
    Routes(routes::Options),
    /// One topic with 16,384 queues, and 50,000 topics of 4
    Scale(scale::Options),
    /// How late timed messages come while millions of others wait, and how long such a broker takes to start
    Timer(timer::Options),
    /// Kill a broker on which timed messages wait, and while it delivers them: none lost, early or repeated
    TimerCrash(timer_crash::Options),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo xtask bench` without more is the comparison.
    let plain = arguments.get(1).is_none_or(|first| first.starts_with("--") && first != "--help");
    let command = if plain {
        let mut with_command = vec![arguments[0].clone(), "compare".to_owned()];
        with_command.extend_from_slice(&arguments[1..]);
        Command::from_iter(with_command)
    } else {
        Command::from_iter(arguments)
    };
    match command {
        Command::Compare(options) => compare::run(&options),
        Command::Load(options) => load::run(&options),
        Command::Recovery(options) => recovery::run(&options),
        Command::Replicate(options) => replicate::run(&options),
        Command::Routes(options) => routes::run(&options),
        Command::Scale(options) => scale::run(&options),
        Command::Timer(options) => timer::run(&options),
        Command::TimerCrash(options) => timer_crash::run(&options),
    }
}
