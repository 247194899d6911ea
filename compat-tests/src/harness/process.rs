//! One child process with its log.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A running program. Dropped, it is killed; dropped by a panic, its log is printed.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; both of its outputs are appended to `log`.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).expect("a log file");
        let errors = file.try_clone().expect("a second handle of the log");
        let child = command
            .stdout(file)
            .stderr(errors)
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} ({:?}) does not start: {error}", command.get_program()));
        Self { name: name.to_owned(), child, log: log.to_owned() }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the state of a child")
    }

    /// What it wrote so far, without the start-up chatter of the Java servers' logging library.
    pub fn log(&self) -> String {
        let text = String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned();
        let lines = text.lines().filter(|line| !line.contains(" |-INFO in "));
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process id");
        // It may have ended by itself; the wait that follows tells.
        let _ = kill_process(pid, signal);
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Panics
    /// When it still runs after `limit`.
    #[track_caller]
    pub fn terminate(&mut self, limit: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait(limit)
    }

    /// Kills it at once, as a crash would.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let status = self.child.wait().expect("a killed child ends");
        assert_eq!(status.signal(), Some(9), "{} ended before it was killed: {status}\n{}", self.name, self.log());
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When it still runs after `limit`.
    #[track_caller]
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(Instant::now() < end, "{} still runs after {limit:?}\n{}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("---- the last lines of {} ----", self.name);
            for line in &lines[lines.len().saturating_sub(80)..] {
                eprintln!("{line}");
            }
        }
    }
}
