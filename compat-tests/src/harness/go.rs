//! Runs the scenario programs of `go-clients`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::binaries::{target, workspace};
use super::clients::{Running, Verdict};
use super::maven::{lock, newest};
use super::process::Process;
use super::scratch::Scratch;
use super::servers::Servers;

/// How the Go scenarios are run: one process for all that are named together.
#[derive(Clone, Debug)]
pub struct GoScenarios {
    arguments: Vec<String>,
    limit: Duration,
}

impl GoScenarios {
    /// Against these servers.
    pub fn new(servers: &Servers) -> Self {
        let arguments = ["--namesrv".to_owned(), servers.namesrv(), "--broker".to_owned(), servers.broker()].into();
        Self { arguments, limit: Duration::from_secs(180) }
    }

    /// An option of the scenario.
    pub fn option(mut self, key: &str, value: impl ToString) -> Self {
        self.arguments.push(format!("--{key}"));
        self.arguments.push(value.to_string());
        self
    }

    /// Runs scenarios (`a,b,c`, or `core` for all that need nothing but the servers) to their end.
    ///
    /// # Panics
    /// When one does not pass.
    #[track_caller]
    pub fn run(&self, names: &str) -> Vec<Verdict> {
        self.start(names).finish()
    }

    /// Starts scenarios and lets them run.
    pub fn start(&self, names: &str) -> Running {
        let scratch = Scratch::new();
        let mut command = Command::new(program());
        command.arg(names).args(&self.arguments).current_dir(scratch.path());
        // Offsets of broadcasting groups go below the home directory.
        command.env("HOME", scratch.path());
        let process = Process::start(&format!("Go scenario {names}"), command, &scratch.join("scenario.log"));
        Running::new(process, names, "go", self.limit, scratch)
    }
}

/// Builds `go-clients`, if a source is newer than the program, and returns the program's path.
fn program() -> PathBuf {
    let sources = workspace().join("go-clients");
    let program = target().join("go-clients").join("scenarios");
    let _lock = lock("go-clients");
    let built = fs::metadata(&program).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    if newest(&sources) > built {
        let mut command = Command::new("go");
        command.args(["build", "-buildvcs=false", "-trimpath", "-o"]).arg(&program).arg(".");
        command.current_dir(&sources).env("CGO_ENABLED", "0");
        match command.status() {
            Ok(status) => assert!(status.success(), "{command:?}: {status}"),
            Err(error) => panic!("{command:?}: {error}. The compatibility tests need Go 1.18 or newer."),
        }
    }
    program
}
