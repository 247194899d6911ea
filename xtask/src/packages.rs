//! Tools that come from the system's package manager.

use std::process::Command;

use crate::cargo::{output, run};

/// Tools that a step needs, and the packages that have them.
pub(crate) struct Tools {
    /// What is needed, as a sentence without its full stop.
    pub(crate) need: &'static str,
    /// What to do when they cannot be installed.
    pub(crate) advice: &'static str,
    /// Names of those that are not there.
    pub(crate) missing: fn() -> Vec<&'static str>,
    /// Packages for each manager; the first choice that the system has is taken.
    pub(crate) apt: Choices,
    /// As `apt`.
    pub(crate) dnf: Choices,
    /// As `apt`.
    pub(crate) apk: Choices,
    /// As `apt`.
    pub(crate) brew: Choices,
}

/// Sets of packages, each of which would do.
pub(crate) type Choices = &'static [&'static [&'static str]];

impl Tools {
    /// Makes sure that they are there, through the system's package manager if they are not.
    pub(crate) fn provide(&self) -> Result<(), String> {
        let missing = (self.missing)();
        if missing.is_empty() {
            return Ok(());
        }
        println!("{} not found; installing through the system's package manager", missing.join(" and "));
        let manager = MANAGERS
            .iter()
            .find(|manager| output(Command::new(manager.name).arg("--version")).is_ok())
            .ok_or_else(|| self.give_up("none of apt-get, dnf, apk and brew is here"))?;
        manager.install((manager.choices)(self)).map_err(|why| self.give_up(&why))?;
        let missing = (self.missing)();
        if missing.is_empty() { Ok(()) } else { Err(self.give_up(&format!("still no {}", missing.join(" and ")))) }
    }

    fn give_up(&self, why: &str) -> String {
        format!("{}, and they could not be installed: {why}.\n{}", self.need, self.advice)
    }
}

struct Manager {
    name: &'static str,
    refresh: &'static [&'static str],
    install: &'static [&'static str],
    choices: fn(&Tools) -> Choices,
    /// False for a manager that refuses to run as root.
    as_root: bool,
}

const MANAGERS: &[Manager] = &[
    Manager {
        name: "apt-get",
        refresh: &["update"],
        install: &["install", "--yes", "--no-install-recommends"],
        choices: |tools| tools.apt,
        as_root: true,
    },
    Manager {
        name: "dnf",
        refresh: &[],
        install: &["install", "--assumeyes"],
        choices: |tools| tools.dnf,
        as_root: true,
    },
    Manager { name: "apk", refresh: &["update"], install: &["add"], choices: |tools| tools.apk, as_root: true },
    Manager { name: "brew", refresh: &[], install: &["install"], choices: |tools| tools.brew, as_root: false },
];

impl Manager {
    fn install(&self, choices: Choices) -> Result<(), String> {
        let sudo = self.as_root && output(Command::new("id").arg("-u"))?.trim() != "0";
        if !self.refresh.is_empty() {
            run(&mut self.command(sudo, self.refresh))?;
        }
        let mut failure = String::new();
        for packages in choices {
            let arguments: Vec<&str> = self.install.iter().chain(*packages).copied().collect();
            match run(&mut self.command(sudo, &arguments)) {
                Ok(()) => return Ok(()),
                Err(why) => failure = why,
            }
        }
        Err(failure)
    }

    fn command(&self, sudo: bool, arguments: &[&str]) -> Command {
        let mut command = if sudo {
            let mut sudo = Command::new("sudo");
            // Without a terminal a question for the password would wait for ever.
            sudo.args(["--non-interactive", self.name]);
            sudo
        } else {
            Command::new(self.name)
        };
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_go_through_sudo_only_when_asked() {
        let manager = &MANAGERS[0];
        let plain = manager.command(false, &["update"]);
        assert_eq!(plain.get_program(), "apt-get");
        let raised = manager.command(true, &["update"]);
        assert_eq!(raised.get_program(), "sudo");
        assert_eq!(raised.get_args().collect::<Vec<_>>(), ["--non-interactive", "apt-get", "update"]);
    }

    #[test]
    fn what_is_there_is_not_installed() {
        let none = Tools {
            need: "Nothing is needed",
            advice: "",
            missing: Vec::new,
            apt: &[&["no-such-package"]],
            dnf: &[],
            apk: &[],
            brew: &[],
        };
        assert_eq!(none.provide(), Ok(()));
    }
}
