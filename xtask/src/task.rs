//! Running steps and the other tasks.

use std::time::{Duration, Instant};

use crate::cargo::{cargo, run, target};
use crate::steps::Step;

/// How a step ended.
enum End {
    Passed(Duration),
    Failed(Duration, String),
    Skipped(&'static str),
}

/// Runs all steps, also after one has failed, and prints a table at the end. True when all passed.
pub(crate) fn run_all(steps: &[&Step], arguments: &[String]) -> bool {
    let start = Instant::now();
    let mut ends: Vec<(&'static str, End)> = Vec::new();
    for step in steps {
        let missing = step
            .needs
            .iter()
            .find(|need| ends.iter().any(|(name, end)| name == *need && !matches!(end, End::Passed(_))));
        let end = match missing {
            Some(need) => End::Skipped(need),
            None => {
                println!("\n=== {}: {}", step.name, step.about);
                let start = Instant::now();
                match (step.run)(arguments) {
                    Ok(()) => End::Passed(start.elapsed()),
                    Err(message) => {
                        println!("{message}");
                        End::Failed(start.elapsed(), message)
                    }
                }
            }
        };
        ends.push((step.name, end));
    }
    print!("\n{}", table(&ends, start.elapsed()));
    ends.iter().all(|(_, end)| matches!(end, End::Passed(_)))
}

fn table(ends: &[(&'static str, End)], total: Duration) -> String {
    let mut out = String::new();
    for (name, end) in ends {
        let (time, verdict) = match end {
            End::Passed(time) => (seconds(*time), "passed".to_owned()),
            End::Failed(time, why) => (seconds(*time), format!("FAILED  {}", why.lines().next().unwrap_or_default())),
            End::Skipped(need) => (String::new(), format!("skipped, {need} did not pass")),
        };
        out.push_str(&format!("{name:<10} {time:>9}  {verdict}\n"));
    }
    out.push_str(&format!("{:<10} {:>9}\n", "total", seconds(total)));
    out
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Formats the code and applies clippy's suggestions. True when both worked.
pub(crate) fn fix() -> bool {
    // Clippy first: its suggestions are not formatted.
    let clippy =
        report(cargo().args(["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged"]));
    report(cargo().args(["fmt", "--all"])) && clippy
}

/// Builds the binaries, and builds and runs a program of the package `compat-tests`. True when it succeeded.
pub(crate) fn program(name: &str, arguments: &[String]) -> bool {
    report(cargo().args(["build", "--release", "--workspace"]))
        && report(
            cargo()
                .args(["run", "--release", "--package", "compat-tests", "--bin", name, "--"])
                .args(arguments)
                .env("FERROMQ_BIN_DIR", target().join("release")),
        )
}

fn report(command: &mut std::process::Command) -> bool {
    run(command).inspect_err(|message| eprintln!("{message}")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Step = Step { name: "good", about: "", needs: &[], run: |_| Ok(()) };
    const BAD: Step = Step { name: "bad", about: "", needs: &[], run: |_| Err("it broke\nin detail".into()) };
    const NEEDY: Step = Step { name: "needy", about: "", needs: &["bad"], run: |_| Ok(()) };

    #[test]
    fn one_failure_fails_the_run() {
        assert!(run_all(&[&GOOD], &[]));
        assert!(!run_all(&[&GOOD, &BAD, &GOOD], &[]));
        assert!(!run_all(&[&BAD, &NEEDY], &[]));
    }

    #[test]
    fn the_table_says_what_passed_failed_and_was_left_out() {
        let ends = [
            ("good", End::Passed(Duration::from_millis(1250))),
            ("bad", End::Failed(Duration::from_secs(60), "it broke\nin detail".into())),
            ("needy", End::Skipped("bad")),
        ];
        assert_eq!(
            table(&ends, Duration::from_secs(62)),
            "\
good           1.2 s  passed
bad           60.0 s  FAILED  it broke
needy                 skipped, bad did not pass
total         62.0 s
"
        );
    }

    #[test]
    fn a_step_gets_the_arguments() {
        let step = Step {
            name: "picky",
            about: "",
            needs: &[],
            run: |arguments| if arguments == ["x"] { Ok(()) } else { Err("no x".into()) },
        };
        assert!(run_all(&[&step], &["x".to_owned()]));
        assert!(!run_all(&[&step], &[]));
    }
}
