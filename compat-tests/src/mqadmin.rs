//! The table of mqadmin's commands (`golden/mqadmin/commands.txt`): what is run, how it is compared with what Java's servers
//! said, and the page that is made of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::harness::Output;

/// Where the table and the recorded outputs are.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/mqadmin")
}

/// What we say of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `same`, `differs` or `later`.
    pub status: String,
    /// Why.
    pub remark: String,
}

/// How an output is compared: `lines` and nothing else, or one or two of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// In any order.
    pub sorted: bool,
    /// With `N` for every number.
    pub numbers: bool,
    /// Only what stands in front of the first `=` or `:`, in any order.
    pub keys: bool,
    /// Only the first line.
    pub head: bool,
    /// Not at all.
    pub not: bool,
}

impl Mode {
    fn of(text: &str) -> Mode {
        let mut mode = Mode::default();
        for word in text.split_whitespace() {
            match word {
                "lines" => {}
                "sorted" => mode.sorted = true,
                "numbers" => mode.numbers = true,
                "keys" => mode.keys = true,
                "head" => mode.head = true,
                "not" => mode.not = true,
                other => panic!("{other} in {text}"),
            }
        }
        mode
    }
}

/// One run of a command.
#[derive(Clone, Debug)]
pub struct Run {
    /// How its output is compared.
    pub mode: Mode,
    /// Its words.
    pub words: Vec<String>,
}

impl Run {
    /// The command's name, `None` for what is no command.
    pub fn command(&self) -> Option<&str> {
        self.words.iter().map(String::as_str).find(|word| !word.starts_with('@')).filter(|word| !word.starts_with('!'))
    }

    /// The words of the line that the Java program gets: with the name server's address.
    pub fn line(&self) -> String {
        let mut words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        if let Some(at) = words.iter().position(|word| !word.starts_with('@')).filter(|_| self.command().is_some()) {
            words.splice(at + 1..at + 1, ["-n", "{namesrv}"]);
        }
        words.join("\t")
    }
}

/// The table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// By command.
    pub claims: BTreeMap<String, Claim>,
    /// In order.
    pub runs: Vec<Run>,
}

impl Table {
    /// Reads the table.
    ///
    /// # Panics
    /// When a line is not of one of its forms.
    pub fn load() -> Table {
        let text = std::fs::read_to_string(directory().join("commands.txt")).expect("the table of commands");
        let mut table = Table::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(claim) = line.strip_prefix("= ") {
                let mut cells = claim.splitn(3, '|').map(str::trim);
                let name = cells.next().unwrap_or_default().to_owned();
                let status = cells.next().unwrap_or_default().to_owned();
                let remark = cells.next().unwrap_or_default().to_owned();
                assert!(["same", "differs", "later"].contains(&status.as_str()), "{line}");
                assert!(status == "same" || !remark.is_empty(), "{line}: why?");
                assert!(table.claims.insert(name, Claim { status, remark }).is_none(), "{line}: twice");
                continue;
            }
            let (mode, words) = line.split_once('|').unwrap_or_else(|| panic!("{line}"));
            table.runs.push(Run { mode: Mode::of(mode), words: words_of(words) });
        }
        table
    }

    /// The page `docs/mqadmin.md`.
    pub fn page(&self) -> String {
        let mut page = String::from(HEAD);
        for (name, claim) in &self.claims {
            let runs = self.runs.iter().filter(|run| run.command() == Some(name)).collect::<Vec<_>>();
            let compared = runs.iter().filter(|run| !run.mode.not).count();
            let test = match (claim.status.as_str(), compared) {
                ("later", _) | (_, 0) => "-".to_owned(),
                (_, 1) => format!("1 run of `{TEST}`"),
                (_, runs) => format!("{runs} runs of `{TEST}`"),
            };
            // Writing to a String does not fail.
            let _ = writeln!(page, "| {name} | {} | {} | {test} |", claim.status, claim.remark);
        }
        page
    }
}

/// The test that runs all commands.
const TEST: &str = "mqadmin_all";

const HEAD: &str = "# mqadmin

Java's mqadmin (5.5.0) against FerroMQ, command by command. Made from `compat-tests/golden/mqadmin/commands.txt` by the test `mqadmin_all` of
`compat-tests`, which runs the commands there and compares what they print with what they printed against the Java servers; do not edit it here.
`MQADMIN_PAGE=write cargo test -p compat-tests mqadmin_all::the_page` writes it anew.

*same*: the same lines with the same values; times, addresses and rates are those of the run. *differs*: as the remark says. *later*: the command
asks for something that is not there yet, and is told so (`CODE: 3`).

Operators should know besides: a value that a key cannot take is refused by `updateBrokerConfig`, where Java answers with success and keeps the old
one; the configuration file keeps its comments and order, only the changed keys are written.

| command | status | remark | tested by |
| --- | --- | --- | --- |
";

/// Words apart by blanks; quotes keep blanks together.
fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// What of an output counts.
pub fn counted(mode: Mode, output: &Output) -> Vec<String> {
    if mode.not {
        return Vec::new();
    }
    let key = |line: &str| line.split(['=', ':']).next().unwrap_or_default().trim().to_owned();
    let mut counted: Vec<String> = output.stdout.lines().map(str::to_owned).collect();
    if mode.head {
        counted.truncate(1);
    }
    if mode.numbers {
        counted.iter_mut().for_each(|line| *line = without_numbers(line));
    }
    if mode.keys {
        counted.iter_mut().for_each(|line| *line = key(&line.replace("{broker}", "BROKER")));
    }
    if mode.sorted || mode.keys {
        counted.sort();
    }
    if mode.keys {
        counted.dedup();
    }
    if !output.stderr.is_empty() {
        counted.push("[stderr]".to_owned());
        counted.extend(output.stderr.lines().map(str::to_owned));
    }
    counted
}

/// A line with `N` for each number and one blank for several: columns are as wide as what stands in them.
fn without_numbers(line: &str) -> String {
    let mut out = String::new();
    for word in line.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        let mut number = false;
        for char in word.chars() {
            let digit = char.is_ascii_digit() || (number && char == '.');
            if digit && !number {
                out.push('N');
            } else if !digit {
                out.push(char);
            }
            number = digit;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers() {
        assert_eq!(words_of(" updateTopic -t 'bad topic!' -r 3"), ["updateTopic", "-t", "bad topic!", "-r", "3"]);
        assert_eq!(without_numbers("broker-a   0  0.00(0,0ms)  V5_5_0 NaN"), "broker-a N N(N,Nms) VN_N_N NaN");
        let run = Run { mode: Mode::default(), words: words_of("@100 clusterRT -a 1") };
        assert_eq!((run.command(), run.line().as_str()), (Some("clusterRT"), "@100\tclusterRT\t-n\t{namesrv}\t-a\t1"));
        assert_eq!(Run { mode: Mode::default(), words: words_of("!cat a") }.command(), None);
    }
}
