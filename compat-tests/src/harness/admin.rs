//! Runs commands of Java's mqadmin (5.5.0), many in one Java process.

use std::process::Command;
use std::time::Duration;

use super::maven;
use super::process::Process;
use super::scratch::Scratch;

/// mqadmin against one name server.
pub struct Admin {
    namesrv: String,
}

/// What a command wrote.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The command line.
    pub command: String,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error; exceptions land here, mqadmin's exit code is 0 all the same.
    pub stderr: String,
}

impl Output {
    /// The lines of standard output that are not empty, each split at blanks.
    pub fn rows(&self) -> Vec<Vec<&str>> {
        let lines = self.stdout.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| line.split_whitespace().collect()).collect()
    }
}

impl Admin {
    /// Commands go to this name server (`-n` is added to each).
    pub fn new(namesrv: &str) -> Self {
        Self { namesrv: namesrv.to_owned() }
    }

    /// Runs commands one after the other.
    ///
    /// # Panics
    /// When the Java process does not end within two minutes, or loses an output.
    #[track_caller]
    pub fn run(&self, commands: &[&[&str]]) -> Vec<Output> {
        let scratch = Scratch::new();
        let lines = commands.iter().map(|words| {
            let (name, rest) = words.split_first().expect("a command has a name");
            [&[*name, "-n", &self.namesrv], rest].concat().join("\t")
        });
        let script = scratch.join("commands");
        std::fs::write(&script, lines.collect::<Vec<_>>().join("\n")).expect("a script");
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.arg(format!("-Duser.home={}", scratch.path().display()));
        command.args(["-cp", &maven::scenarios("5.5.0"), "compat.Admin"]).arg(script);
        command.current_dir(scratch.path());
        let mut process = Process::start("mqadmin", command, &scratch.join("admin.log"));
        let status = process.wait(Duration::from_secs(120));
        let log = process.log();
        assert_eq!(status.code(), Some(0), "mqadmin's exit code\n{log}");
        let outputs = parse(&log);
        assert_eq!(outputs.len(), commands.len(), "outputs\n{log}");
        outputs
    }
}

/// Reads blocks of `$ mqadmin ...`, `[stdout]`, `[stderr]`, `[end]`: the format of `golden/cli/`, too.
pub fn parse(text: &str) -> Vec<Output> {
    let mut outputs = Vec::new();
    let mut current = Output::default();
    let mut part = None;
    for line in text.lines() {
        match line {
            "[stdout]" => part = Some(0),
            "[stderr]" => part = Some(1),
            "[end]" => {
                part = None;
                outputs.push(std::mem::take(&mut current));
            }
            _ => match part {
                Some(0) => current.stdout += &format!("{line}\n"),
                Some(_) => current.stderr += &format!("{line}\n"),
                None => {
                    if let Some(command) = line.strip_prefix("$ mqadmin ") {
                        command.clone_into(&mut current.command);
                    }
                }
            },
        }
    }
    outputs
}
