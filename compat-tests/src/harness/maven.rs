//! What Maven brings: the scenario programs with their clients, and the Java servers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};

use super::binaries::{target, workspace};

/// Builds `java-clients` for one version of the client, if a source is newer than its jar, and returns the class path.
///
/// # Panics
/// When Maven is not there or fails.
pub fn scenarios(version: &str) -> String {
    let project = workspace().join("java-clients");
    let output = project.join("target").join(version);
    let jar = output.join("scenarios.jar");
    let _lock = lock("java-clients");
    let built = fs::metadata(&jar).and_then(|jar| jar.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    if newest(&project.join("src")).max(modified(&project.join("pom.xml"))) > built {
        let mut command = Command::new("mvn");
        command.args(["-q", "-B", "-f"]).arg(project.join("pom.xml")).arg("package");
        if version != "5.5.0" {
            command.arg(format!("-Pclient-{version}"));
        }
        run(command);
    }
    format!("{}:{}/lib/*", jar.display(), output.display())
}

/// Brings the jars of the Java servers (5.5.0), once, and returns the class path.
///
/// # Panics
/// When Maven is not there or fails.
pub fn reference() -> String {
    let directory = target().join("java-reference-5.5.0");
    let complete = directory.join(".complete");
    let _lock = lock("java-reference");
    if !complete.exists() {
        fs::create_dir_all(&directory).expect("a directory for the Java servers");
        let pom = directory.join("pom.xml");
        fs::write(&pom, include_str!("reference-pom.xml")).expect("a pom");
        let mut command = Command::new("mvn");
        command.args(["-q", "-B", "-f"]).arg(&pom).arg("dependency:copy-dependencies");
        command.arg(format!("-DoutputDirectory={}", directory.display()));
        run(command);
        fs::write(complete, "").expect("a mark");
    }
    format!("{}/*", directory.display())
}

fn run(mut command: Command) {
    match command.status() {
        Ok(status) => assert!(status.success(), "{command:?}: {status}"),
        Err(error) => panic!("{command:?}: {error}. The compatibility tests need a JDK (11 or newer) and Maven."),
    }
}

/// Held until dropped: two test processes do not build at once.
pub(super) fn lock(name: &str) -> File {
    let file = File::create(target().join(format!("{name}.lock"))).expect("a lock file");
    flock(&file, FlockOperation::LockExclusive).expect("a lock");
    file
}

pub(super) fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|file| file.modified()).expect("a source file")
}

pub(super) fn newest(directory: &Path) -> SystemTime {
    let entries = fs::read_dir(directory).expect("the sources of the scenarios");
    let paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a source").path()).collect();
    let times = paths.iter().map(|path| if path.is_dir() { newest(path) } else { modified(path) });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}
