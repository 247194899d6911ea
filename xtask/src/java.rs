//! The Java programs of the compatibility tests, and the JDK and Maven that they are built with.

use std::process::Command;

use crate::cargo::{output, program, root, run};
use crate::packages::Tools;

/// Oldest JDK that compiles the programs.
const OLDEST: u32 = 11;

/// Profiles of `java-clients/pom.xml`, one for each version of the client.
const PROFILES: [&str; 3] = ["client-5.5.0", "client-5.3.3", "client-4.9.8"];

const TOOLS: Tools = Tools {
    need: "The compatibility tests need a JDK of version 11 or newer and Maven",
    advice: "Install them and put `javac` and `mvn` on the PATH.",
    missing,
    apt: &[&["default-jdk-headless", "maven"]],
    dnf: &[
        &["java-21-openjdk-devel", "maven"],
        &["java-17-openjdk-devel", "maven"],
        &["java-latest-openjdk-devel", "maven"],
    ],
    apk: &[&["openjdk21", "maven"], &["openjdk17", "maven"]],
    brew: &[&["openjdk", "maven"]],
};

/// Builds the programs with each version of the client, into `java-clients/target/`.
pub(crate) fn build(_: &[String]) -> Result<(), String> {
    TOOLS.provide()?;
    for profile in PROFILES {
        run(program("mvn".as_ref())
            .args(["--quiet", "--batch-mode", "--no-transfer-progress", "--file"])
            .arg(root().join("java-clients/pom.xml"))
            .args(["package", "--activate-profiles", profile]))?;
    }
    Ok(())
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
    fn the_profiles_are_those_of_the_project() {
        let pom = std::fs::read_to_string(root().join("java-clients/pom.xml")).unwrap();
        for profile in PROFILES {
            assert!(pom.contains(&format!("<id>{profile}</id>")), "{profile}");
        }
        assert_eq!(pom.matches("<id>client-").count(), PROFILES.len());
    }
}
