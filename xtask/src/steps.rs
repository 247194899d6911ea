//! The steps of `cargo xtask test`.

use crate::cargo::{cargo, run, target};
use crate::{go, java, licences};

/// One step.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// What it does, for the list of steps.
    pub(crate) about: &'static str,
    /// Steps that must have passed before.
    pub(crate) needs: &'static [&'static str],
    /// Does it. The arguments come from the command line; only the step `compat` uses them.
    pub(crate) run: fn(&[String]) -> Result<(), String>,
}

/// All steps: the cheap ones first, so that a slip shows early.
pub(crate) const STEPS: &[Step] = &[
    Step { name: "format", about: "rustfmt would change nothing", needs: &[], run: format },
    Step { name: "licences", about: "every dependency's licence is in deny.toml", needs: &[], run: check_licences },
    Step { name: "clippy", about: "clippy has nothing to say", needs: &[], run: clippy },
    Step { name: "docs", about: "rustdoc has nothing to say", needs: &[], run: docs },
    Step { name: "unit", about: "unit, property and golden tests of all crates", needs: &[], run: unit },
    Step { name: "binaries", about: "builds the binaries that users run", needs: &[], run: binaries },
    Step {
        name: "java",
        about: "builds the Java programs; installs JDK and Maven if need be",
        needs: &[],
        run: java::build,
    },
    Step { name: "go", about: "builds the Go programs; installs Go if need be", needs: &[], run: go::build },
    Step {
        name: "compat",
        about: "official Java and Go clients, mqadmin and recorded sessions against the binaries",
        needs: &["binaries", "java", "go"],
        run: compat,
    },
];

/// The chosen steps and those that they need, in their order; all when none is chosen.
pub(crate) fn choose(names: &[String]) -> Result<Vec<&'static Step>, String> {
    for name in names {
        if !STEPS.iter().any(|step| step.name == name) {
            return Err(format!("no step is called {name}; the steps are\n{}", list()));
        }
    }
    let chosen = |step: &Step| names.is_empty() || names.iter().any(|name| name == step.name);
    // Needs go one level deep, and a need stands before what needs it.
    let needed = |step: &Step| STEPS.iter().filter(|other| chosen(other)).any(|other| other.needs.contains(&step.name));
    Ok(STEPS.iter().filter(|step| chosen(step) || needed(step)).collect())
}

/// The steps with what they do, a line each.
pub(crate) fn list() -> String {
    STEPS.iter().map(|step| format!("  {:<10} {}\n", step.name, step.about)).collect()
}

fn format(_: &[String]) -> Result<(), String> {
    run(cargo().args(["fmt", "--all", "--check"]))
}

fn check_licences(_: &[String]) -> Result<(), String> {
    licences::check()
}

fn clippy(_: &[String]) -> Result<(), String> {
    run(cargo().args(["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn docs(_: &[String]) -> Result<(), String> {
    run(cargo().args(["doc", "--locked", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn unit(_: &[String]) -> Result<(), String> {
    run(cargo()
        .args(["test", "--locked", "--no-fail-fast", "--workspace", "--exclude", "compat-tests"])
        .env("RUST_TEST_THREADS", threads()))
}

fn binaries(_: &[String]) -> Result<(), String> {
    run(cargo().args(["build", "--locked", "--release", "--workspace"]))
}

fn compat(arguments: &[String]) -> Result<(), String> {
    run(cargo()
        .args(["test", "--locked", "--no-fail-fast", "--package", "compat-tests"])
        .args(arguments)
        .env("RUST_TEST_THREADS", threads())
        .env("FERROMQ_BIN_DIR", target().join("release")))
}

/// One test more at a time than there are processors, unless `RUST_TEST_THREADS` says otherwise: many tests wait.
fn threads() -> String {
    let more = || (std::thread::available_parallelism().map_or(1, usize::from) + 1).to_string();
    std::env::var("RUST_TEST_THREADS").unwrap_or_else(|_| more())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(chosen: &[&str]) -> Vec<&'static str> {
        let chosen: Vec<String> = chosen.iter().map(ToString::to_string).collect();
        choose(&chosen).unwrap().iter().map(|step| step.name).collect()
    }

    #[test]
    fn a_step_brings_what_it_needs_before_it() {
        assert_eq!(names(&["compat"]), ["binaries", "java", "go", "compat"]);
        assert_eq!(names(&["unit", "format"]), ["format", "unit"]);
        assert_eq!(names(&[]).len(), STEPS.len());
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_list() {
        let error = choose(&["lint".to_owned()]).err().unwrap();
        assert!(error.contains("lint") && error.contains("clippy"), "{error}");
    }

    #[test]
    fn needs_are_earlier_steps_without_needs() {
        for (at, step) in STEPS.iter().enumerate() {
            for need in step.needs {
                let earlier = STEPS[..at].iter().find(|earlier| earlier.name == *need).unwrap();
                assert!(earlier.needs.is_empty());
            }
        }
    }
}
