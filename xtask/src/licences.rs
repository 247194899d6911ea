//! The licence of every dependency against the list in deny.toml.
//!
//! With cargo-deny installed, it decides, and checks bans and sources as well. Without it, the licence expressions that
//! `cargo tree` prints are evaluated here, so that the check never silently drops out.

use std::collections::BTreeSet;

use crate::cargo::{cargo, output, root, run};

/// Checks all dependencies. The error names those that fail.
pub(crate) fn check() -> Result<(), String> {
    if output(cargo().args(["deny", "--version"])).is_ok() {
        return run(cargo().args(["deny", "--locked", "check", "licenses", "bans", "sources"]));
    }
    let file = root().join("deny.toml");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let allowed = allowed(&text);
    if allowed.is_empty() {
        return Err(format!("{}: no list `allow` under [licenses]", file.display()));
    }
    let tree = output(cargo().args([
        "tree",
        "--locked",
        "--workspace",
        "--edges=normal,build,dev",
        "--target=all",
        "--prefix=none",
        "--format={p}|{l}",
    ]))?;
    let packages = packages(&tree);
    let refused: Vec<String> = packages
        .iter()
        .filter(|(_, licence)| !is_allowed(licence, &allowed))
        .map(|(package, licence)| format!("{package}: {}", if licence.is_empty() { "no licence" } else { licence }))
        .collect();
    if !refused.is_empty() {
        return Err(format!("licences that deny.toml does not allow:\n{}", refused.join("\n")));
    }
    println!("{} packages, all with a licence that deny.toml allows", packages.len());
    Ok(())
}

/// The strings of the list `allow` in the table `[licenses]`.
fn allowed(deny: &str) -> Vec<String> {
    let mut lines = deny.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.by_ref().find(|line| *line == "[licenses]");
    let table: String = lines.take_while(|line| !line.starts_with('[')).collect::<Vec<_>>().join("\n");
    let list = table.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']')).map_or("", |(list, _)| list);
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Packages with their licence expressions, from the output of `cargo tree`.
fn packages(tree: &str) -> BTreeSet<(&str, &str)> {
    let lines = tree.lines().filter_map(|line| line.split_once('|'));
    // The mark stands behind a package whose dependencies were listed before.
    lines.map(|(package, licence)| (package.trim(), licence.trim_end_matches("(*)").trim())).collect()
}

/// True when an SPDX expression can be satisfied by the allowed licences alone.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { rest: &tokens, allowed };
    parser.any() == Some(true) && parser.rest.is_empty()
}

/// Evaluates while reading: WITH binds closest, then AND, then OR. `None` is an expression that makes no sense.
struct Parser<'a> {
    rest: &'a [&'a str],
    allowed: &'a [String],
}

impl Parser<'_> {
    fn next_is(&mut self, token: &str) -> bool {
        match self.rest {
            [first, rest @ ..] if *first == token => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn any(&mut self) -> Option<bool> {
        let mut result = self.all()?;
        while self.next_is("OR") {
            result |= self.all()?;
        }
        Some(result)
    }

    fn all(&mut self) -> Option<bool> {
        let mut result = self.one()?;
        while self.next_is("AND") {
            result &= self.one()?;
        }
        Some(result)
    }

    fn one(&mut self) -> Option<bool> {
        if self.next_is("(") {
            let result = self.any()?;
            return self.next_is(")").then_some(result);
        }
        let (licence, rest) = self.rest.split_first()?;
        self.rest = rest;
        if matches!(*licence, "OR" | "AND" | "WITH" | ")") {
            return None;
        }
        let mut name = (*licence).to_owned();
        if self.next_is("WITH") {
            let (exception, rest) = self.rest.split_first()?;
            self.rest = rest;
            name = format!("{name} WITH {exception}");
        }
        Some(self.allowed.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_follow_spdx() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-2.0) AND Unicode-3.0",
            "GPL-2.0 AND Zlib OR Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT OR", "MIT MIT", "MIT WITH x", "AND", "MIT)"] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn the_list_is_read_from_its_table() {
        let text = "[bans]\nallow = [\"x\"]\n[licenses] # here\nconfidence = 1\nallow = [\n  \"MIT\", # \"Zlib\"\n  \"A WITH B\",\n]\n[sources]\nallow = [\"y\"]\n";
        assert_eq!(allowed(text), ["MIT", "A WITH B"]);
        assert!(allowed(include_str!("../../deny.toml")).contains(&"Apache-2.0".to_owned()));
        assert!(allowed("[licenses]\n").is_empty());
    }

    #[test]
    fn the_tree_is_read_without_its_marks() {
        let tree = "a v1.0.0|MIT\nb v2.0.0|MIT OR Apache-2.0 (*)\n\nb v2.0.0|MIT OR Apache-2.0\nc v1 (/path)|\n";
        let expected = BTreeSet::from([("a v1.0.0", "MIT"), ("b v2.0.0", "MIT OR Apache-2.0"), ("c v1 (/path)", "")]);
        assert_eq!(packages(tree), expected);
    }
}
