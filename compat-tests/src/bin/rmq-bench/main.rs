//! `cargo xtask bench`: FerroMQ and the Java broker under the same load on the same machine.
//!
//! `compare` starts both in turn and prints medians and ratios; `load` is the load generator that it uses, as a process
//! of its own: raw frames from templates, so cheap that the server is the bottleneck. `routes` measures name servers.

mod compare;
mod figures;
mod frames;
mod load;
mod routes;
mod servers;
mod warm;

use structopt::StructOpt;

#[derive(StructOpt)]
#[structopt(name = "rmq-bench", about = "Load generator, and a comparison with the Java broker")]
enum Command {
    /// Run FerroMQ and the Java broker alternately and print the figures side by side
    Compare(compare::Options),
    /// Put load on one broker and print the figures as JSON
    Load(load::Options),
    /// Registrations and route queries at a name server with very many topics
    Routes(routes::Options),
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
        Command::Routes(options) => routes::run(&options),
    }
}
