//! The Go programs of the compatibility tests, and the Go that they are built with.

use std::process::Command;

use crate::cargo::{output, program, root, run, target};
use crate::packages::Tools;

/// Oldest Go that compiles the programs: `1.` and this.
const OLDEST: u32 = 18;

const TOOLS: Tools = Tools {
    need: "The compatibility tests need Go 1.18 or newer",
    advice: "Install it and put `go` on the PATH.",
    missing,
    apt: &[&["golang-go"]],
    dnf: &[&["golang"]],
    apk: &[&["go"]],
    brew: &[&["go"]],
};

/// Checks the programs and builds them, into the target directory.
pub(crate) fn build(_: &[String]) -> Result<(), String> {
    TOOLS.provide()?;
    let go = |subcommand: &str| {
        let mut command = program("go".as_ref());
        // A C compiler is not needed.
        command.arg(subcommand).current_dir(root().join("go-clients")).env("CGO_ENABLED", "0");
        command
    };
    run(go("vet").arg("."))?;
    // The same place and flags as the compatibility tests' own: they build only what has changed since.
    let binary = target().join("go-clients").join("scenarios");
    run(go("build").args(["-buildvcs=false", "-trimpath", "-o"]).arg(binary).arg("."))
}

fn missing() -> Vec<&'static str> {
    let minor = output(Command::new("go").arg("version")).ok().and_then(|text| minor(&text));
    if minor.is_some_and(|minor| minor >= OLDEST) { Vec::new() } else { vec!["Go"] }
}

/// The second part of the version in `go version go1.24.1 linux/amd64`.
fn minor(text: &str) -> Option<u32> {
    let version = text.split_once("go version go1.")?.1;
    version.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_released_and_coming_compilers() {
        assert_eq!(minor("go version go1.24.1 linux/amd64\n"), Some(24));
        assert_eq!(minor("go version go1.19 linux/arm64"), Some(19));
        assert_eq!(minor("go version go1.27rc1 linux/amd64"), Some(27));
        assert_eq!(minor("sh: go: not found"), None);
    }

    #[test]
    fn the_module_asks_for_the_same_version() {
        let module = std::fs::read_to_string(root().join("go-clients/go.mod")).unwrap();
        assert!(module.contains(&format!("\ngo 1.{OLDEST}\n")), "{module}");
    }
}
