//! The Java programs of the compatibility tests, and the JDK and Maven that they are built with.

use std::process::Command;

use crate::cargo::{output, program, root, run};

/// Oldest JDK that compiles the programs.
const OLDEST: u32 = 11;

/// Profiles of `java-clients/pom.xml`, one for each version of the client.
const PROFILES: [&str; 2] = ["client-5.5.0", "client-4.9.8"];

/// Builds the programs with each version of the client, into `java-clients/target/`.
pub(crate) fn build(_: &[String]) -> Result<(), String> {
    provide()?;
    for profile in PROFILES {
        run(program("mvn".as_ref())
            .args(["--quiet", "--batch-mode", "--no-transfer-progress", "--file"])
            .arg(root().join("java-clients/pom.xml"))
            .args(["package", "--activate-profiles", profile]))?;
    }
    Ok(())
}

/// Makes sure that a JDK and Maven are there, through the system's package manager if they are not.
fn provide() -> Result<(), String> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    println!("{} not found; installing through the system's package manager", missing.join(" and "));
    let manager = MANAGERS
        .iter()
        .find(|manager| output(Command::new(manager.name).arg("--version")).is_ok())
        .ok_or_else(|| advice("none of apt-get, dnf, apk and brew is here"))?;
    install(manager).map_err(|why| advice(&why))?;
    let missing = self::missing();
    if missing.is_empty() { Ok(()) } else { Err(advice(&format!("still no {}", missing.join(" and ")))) }
}

fn advice(why: &str) -> String {
    format!(
        "The compatibility tests need a JDK of version {OLDEST} or newer and Maven, and they could not be installed: {why}.\nInstall them and put `javac` and `mvn` on the PATH."
    )
}

fn missing() -> Vec<&'static str> {
    let jdk = output(Command::new("javac").arg("-version")).ok().and_then(|text| version(&text));
    let jdk = jdk.is_some_and(|version| version >= OLDEST);
    let maven = output(Command::new("mvn").arg("--version")).is_ok();
    [(jdk, "JDK"), (maven, "Maven")].iter().filter(|(there, _)| !there).map(|(_, name)| *name).collect()
}

/// The feature version in `javac 17.0.9` or `javac 1.8.0_392`.
fn version(text: &str) -> Option<u32> {
    let number = text.lines().find_map(|line| line.trim().strip_prefix("javac "))?;
    let mut parts = number.split(|char: char| !char.is_ascii_digit()).map(str::parse::<u32>);
    match parts.next()?.ok()? {
        1 => parts.next()?.ok(),
        feature => Some(feature),
    }
}

struct Manager {
    name: &'static str,
    refresh: &'static [&'static str],
    install: &'static [&'static str],
    /// Names of the packages; the first choice that the system has is taken.
    choices: &'static [&'static [&'static str]],
    /// False for a manager that refuses to run as root.
    as_root: bool,
}

const MANAGERS: &[Manager] = &[
    Manager {
        name: "apt-get",
        refresh: &["update"],
        install: &["install", "--yes", "--no-install-recommends"],
        choices: &[&["default-jdk-headless", "maven"]],
        as_root: true,
    },
    Manager {
        name: "dnf",
        refresh: &[],
        install: &["install", "--assumeyes"],
        choices: &[
            &["java-21-openjdk-devel", "maven"],
            &["java-17-openjdk-devel", "maven"],
            &["java-latest-openjdk-devel", "maven"],
        ],
        as_root: true,
    },
    Manager {
        name: "apk",
        refresh: &["update"],
        install: &["add"],
        choices: &[&["openjdk21", "maven"], &["openjdk17", "maven"]],
        as_root: true,
    },
    Manager { name: "brew", refresh: &[], install: &["install"], choices: &[&["openjdk", "maven"]], as_root: false },
];

fn install(manager: &Manager) -> Result<(), String> {
    let sudo = manager.as_root && output(Command::new("id").arg("-u"))?.trim() != "0";
    if !manager.refresh.is_empty() {
        run(&mut command(manager, sudo, manager.refresh))?;
    }
    let mut failure = String::new();
    for packages in manager.choices {
        let arguments: Vec<&str> = manager.install.iter().chain(*packages).copied().collect();
        match run(&mut command(manager, sudo, &arguments)) {
            Ok(()) => return Ok(()),
            Err(why) => failure = why,
        }
    }
    Err(failure)
}

fn command(manager: &Manager, sudo: bool, arguments: &[&str]) -> Command {
    let mut command = if sudo {
        let mut sudo = Command::new("sudo");
        // Without a terminal a question for the password would wait for ever.
        sudo.args(["--non-interactive", manager.name]);
        sudo
    } else {
        Command::new(manager.name)
    };
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_old_and_new_compilers() {
        assert_eq!(version("javac 17.0.9\n"), Some(17));
        assert_eq!(version("Picked up JAVA_TOOL_OPTIONS: -Dx\njavac 1.8.0_392\n"), Some(8));
        assert_eq!(version("javac 22-ea"), Some(22));
        assert_eq!(version("sh: javac: not found"), None);
    }

    #[test]
    fn commands_go_through_sudo_only_when_asked() {
        let manager = &MANAGERS[0];
        let plain = command(manager, false, &["update"]);
        assert_eq!(plain.get_program(), "apt-get");
        let raised = command(manager, true, &["update"]);
        assert_eq!(raised.get_program(), "sudo");
        assert_eq!(raised.get_args().collect::<Vec<_>>(), ["--non-interactive", "apt-get", "update"]);
    }

    #[test]
    fn the_profiles_are_those_of_the_project() {
        let pom = std::fs::read_to_string(root().join("java-clients/pom.xml")).unwrap();
        for profile in PROFILES {
            assert!(pom.contains(&format!("<id>{profile}</id>")), "{profile}");
        }
    }
}
