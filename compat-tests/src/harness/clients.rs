//! Runs the scenario programs of `java-clients`, and reads the verdicts of these and of the Go programs.

use std::process::Command;
use std::time::{Duration, Instant};

use super::maven;
use super::process::Process;
use super::scratch::Scratch;

/// A version of the official Java client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientVersion {
    /// The newest 4.9 client.
    V4_9_8,
    /// The newest 5.3 client.
    V5_3_3,
    /// The client of the server version that we stand in for.
    V5_5_0,
}

impl ClientVersion {
    fn number(self) -> &'static str {
        match self {
            Self::V4_9_8 => "4.9.8",
            Self::V5_3_3 => "5.3.3",
            Self::V5_5_0 => "5.5.0",
        }
    }
}

/// A scenario's last word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The scenario.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// What it says about it.
    pub details: String,
}

/// How scenarios are run: one Java process for all that are named together.
#[derive(Clone, Debug)]
pub struct Scenarios {
    version: ClientVersion,
    jvm: Vec<String>,
    arguments: Vec<String>,
    limit: Duration,
}

impl Scenarios {
    /// With the newest client, against these name servers (`host:port`, several parted by `;`).
    pub fn new(namesrv: &str) -> Self {
        Self {
            version: ClientVersion::V5_5_0,
            jvm: Vec::new(),
            arguments: vec!["--namesrv".to_owned(), namesrv.to_owned()],
            limit: Duration::from_secs(240),
        }
    }

    /// With another client.
    pub fn version(mut self, version: ClientVersion) -> Self {
        self.version = version;
        self
    }

    /// An option of the Java process (`-Dkey=value`).
    pub fn jvm(mut self, option: &str) -> Self {
        self.jvm.push(option.to_owned());
        self
    }

    /// An option of the scenario.
    pub fn option(mut self, key: &str, value: impl ToString) -> Self {
        self.arguments.push(format!("--{key}"));
        self.arguments.push(value.to_string());
        self
    }

    /// The time for all of them together; 240 s else.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
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
        let mut command = Command::new("java");
        command.args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]).args(&self.jvm);
        command.arg(format!("-Duser.home={}", scratch.path().display()));
        command.arg(format!("-Drocketmq.client.localOffsetStoreDir={}", scratch.join("offsets").display()));
        command.args(["-cp", &maven::scenarios(self.version.number()), "compat.Scenario", names]);
        command.args(&self.arguments).current_dir(scratch.path());
        let process = Process::start(&format!("scenario {names}"), command, &scratch.join("scenario.log"));
        Running::new(process, names, self.version.number(), self.limit, scratch)
    }
}

/// Scenarios that run.
pub struct Running {
    process: Process,
    count: Option<usize>,
    limit: Duration,
    begin: Instant,
    client: &'static str,
    _scratch: Scratch,
}

impl Running {
    /// Scenarios `names` in a process with this client, which has to end within `limit` from now.
    pub(super) fn new(process: Process, names: &str, client: &'static str, limit: Duration, scratch: Scratch) -> Self {
        let count = if names == "core" { None } else { Some(names.split(',').count()) };
        Self { process, count, limit, begin: Instant::now(), client, _scratch: scratch }
    }

    /// Whether the process runs still.
    pub fn is_running(&mut self) -> bool {
        self.process.ended().is_none()
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Waits for the end and returns the verdicts.
    ///
    /// # Panics
    /// When one did not pass, when a verdict is missing, and when the time is over.
    #[track_caller]
    pub fn finish(mut self) -> Vec<Verdict> {
        let left = self.limit.saturating_sub(self.begin.elapsed());
        let status = self.process.wait(left);
        let log = self.process.log();
        let verdicts = verdicts(&log);
        for verdict in &verdicts {
            let word = if verdict.passed { "PASS" } else { "FAIL" };
            println!("VERDICT [{}] {} {word} {}", self.client, verdict.name, verdict.details);
        }
        let failed: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.passed).collect();
        assert!(failed.is_empty(), "{failed:#?}");
        assert_eq!(status.code(), Some(0), "the scenarios' exit code\n{log}");
        assert!(
            !verdicts.is_empty() && self.count.is_none_or(|count| count == verdicts.len()),
            "a verdict is missing\n{log}"
        );
        verdicts
    }
}

fn verdicts(log: &str) -> Vec<Verdict> {
    let lines = log.lines().filter_map(|line| line.strip_prefix("VERDICT "));
    lines
        .filter_map(|line| {
            let (name, rest) = line.split_once(' ')?;
            let (word, details) = rest.split_once(' ')?;
            Some(Verdict { name: name.to_owned(), passed: word == "PASS", details: details.to_owned() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_found_among_other_lines() {
        let found = verdicts("noise\nVERDICT a PASS 3 messages (5 ms)\n\tat x\nVERDICT b FAIL lost 1\n");
        assert_eq!(found.len(), 2);
        assert!(found[0].passed && !found[1].passed);
        assert_eq!((found[1].name.as_str(), found[1].details.as_str()), ("b", "lost 1"));
    }
}
