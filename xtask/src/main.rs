//! The project's tasks: `cargo xtask` lists them.

mod cargo;
mod go;
mod java;
mod licences;
mod packages;
mod steps;
mod task;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask TASK

  test [STEP...]   everything that must pass, or only these steps and what they need; writes nothing but build output
  fix              formats the code and applies clippy's suggestions
  compat [ARG...]  builds the binaries and the clients' programs and runs the compatibility tests; ARG goes to cargo test
  bench [ARG...]   measures FerroMQ beside the Java broker; --help shows its arguments
  crash [ARG...]   kills a broker under load many times and checks what it kept; --rounds 300 for the long run

Steps of test, in their order:
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next();
    let rest: Vec<String> = arguments.collect();
    let done = match task.as_deref() {
        Some("test") => steps::choose(&rest).map(|steps| task::run_all(&steps, &[])),
        Some("compat") => compat(&rest),
        Some("crash") => Ok(task::program("rmq-crash", &rest)),
        Some("fix") => Ok(task::fix()),
        Some("bench") => Ok(task::program("rmq-bench", &rest)),
        Some("help" | "-h" | "--help") | None => {
            print!("{USAGE}{}", steps::list());
            Ok(true)
        }
        Some(other) => Err(format!("no task is called {other}\n\n{USAGE}{}", steps::list())),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// Runs the compatibility tests with arguments for cargo test, after building what they drive.
fn compat(arguments: &[String]) -> Result<bool, String> {
    steps::choose(&["compat".to_owned()]).map(|steps| task::run_all(&steps, arguments))
}
