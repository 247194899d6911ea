//! The list of allowed differences: `AREA/SESSION REQUEST KIND  reason`, one a line; `*` stands for anything.
//!
//! A difference that no line allows fails the test, and so does a line that allows nothing: the list only shrinks.

use std::sync::atomic::{AtomicU64, Ordering};

/// One allowed kind of difference.
#[derive(Debug)]
struct Rule {
    place: String,
    request: String,
    kind: String,
    line: String,
    used: AtomicU64,
}

/// All allowed differences.
#[derive(Debug)]
pub struct Ledger {
    rules: Vec<Rule>,
}

impl Ledger {
    /// Reads the list.
    ///
    /// # Panics
    /// On a line without a reason.
    pub fn parse(text: &str) -> Ledger {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let rules = lines.map(|line| {
            let mut words = line.splitn(4, char::is_whitespace);
            let mut word = || words.next().unwrap_or_default().trim().to_owned();
            let rule =
                Rule { place: word(), request: word(), kind: word(), line: line.to_owned(), used: AtomicU64::new(0) };
            assert!(!word().is_empty(), "a line of the ledger needs a reason: {line}");
            rule
        });
        Ledger { rules: rules.collect() }
    }

    /// Whether a difference is allowed.
    pub fn allows(&self, place: &str, request: &str, kind: &str) -> bool {
        let rule = self.rule(place, request, kind);
        if let Some(rule) = rule {
            rule.used.fetch_add(1, Ordering::Relaxed);
        }
        rule.is_some()
    }

    /// As [`Ledger::allows`], without counting it as used.
    pub fn lists(&self, place: &str, request: &str, kind: &str) -> bool {
        self.rule(place, request, kind).is_some()
    }

    fn rule(&self, place: &str, request: &str, kind: &str) -> Option<&Rule> {
        let fits = |rule: &&Rule| like(&rule.place, place) && like(&rule.request, request) && like(&rule.kind, kind);
        self.rules.iter().find(fits)
    }

    /// Lines that allowed nothing.
    pub fn unused(&self) -> Vec<&str> {
        self.rules.iter().filter(|rule| rule.used.load(Ordering::Relaxed) == 0).map(|rule| rule.line.as_str()).collect()
    }
}

/// Whether `text` is `pattern`, in which each `*` stands for any text.
fn like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => {
            let Some(rest) = text.strip_prefix(head) else { return false };
            (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| like(tail, &rest[at..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(like("clients-*/prod", "clients-5.5.0/prod"));
        assert!(like("*", ""));
        assert!(!like("clients-*/prod", "clients-5.5.0/prod_sync"));
        let ledger = Ledger::parse("# comment\na/* SEND field:x  because\nb/c PULL *  never\n");
        assert!(ledger.allows("a/b", "SEND", "field:x"));
        assert!(!ledger.allows("a/b", "SEND", "field:y"));
        assert_eq!(ledger.unused(), ["b/c PULL *  never"]);
    }
}
