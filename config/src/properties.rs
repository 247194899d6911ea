//! Java's `.properties` format: reading with line numbers, and changing single keys without touching the rest.
//!
//! The rules are those of `java.util.Properties`:
//!
//! - a file is ISO 8859-1; other characters are written `\uXXXX`, in UTF-16 units;
//! - a line whose first character that is not blank is `#` or `!` is a comment; blank lines do not count;
//! - an odd number of backslashes at the end joins the next line, whose leading blanks are dropped; what follows a
//!   joined line end is never a comment;
//! - the key ends at the first `=`, `:` or blank that no backslash precedes; then blanks, at most one `=` or `:`, and
//!   blanks again are skipped; the rest, trailing blanks included, is the value;
//! - `\t`, `\n`, `\r`, `\f` are control characters; a backslash before any other character is dropped;
//! - the last of several lines with the same key counts.
//!
//! Blank means space, tab or form feed.

use thiserror::Error;

/// A file that is not in the format. The only way to get there is a wrong `\uXXXX`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: malformed \\uXXXX escape")]
pub struct SyntaxError {
    /// Line of the file, from 1.
    pub line: usize,
}

/// One key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, escapes resolved.
    pub key: String,
    /// The value, escapes resolved.
    pub value: String,
    /// Line of the file on which it begins, from 1.
    pub line: usize,
}

/// The content of a file, in its order, with comments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    parts: Vec<Part>,
}

/// A comment, a blank line or an entry: the text as it stands in the file, its line ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    raw: Vec<u8>,
    entry: Option<Entry>,
}

impl Properties {
    /// Reads the content of a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, SyntaxError> {
        let mut parts = Vec::new();
        let mut lines = Lines { rest: bytes, number: 0 };
        while let Some((first, number)) = lines.next() {
            let mut raw = first.to_vec();
            let mut logical = trim_start(content(first)).to_vec();
            if logical.is_empty() || matches!(logical.first(), Some(b'#' | b'!')) {
                parts.push(Part { raw, entry: None });
                continue;
            }
            while ends_with_escape(&logical) {
                logical.pop();
                let Some((next, _)) = lines.next() else { break };
                raw.extend_from_slice(next);
                logical.extend_from_slice(trim_start(content(next)));
            }
            // A lone backslash joined to nothing leaves nothing: Java skips it like a blank line.
            let entry = if logical.is_empty() { None } else { Some(split(&logical, number)?) };
            parts.push(Part { raw, entry });
        }
        Ok(Self { parts })
    }

    /// All entries in the order of the file, also those that a later line replaces.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.parts.iter().filter_map(|part| part.entry.as_ref())
    }

    /// The entry that counts for `key`.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.parts.iter().rev().filter_map(|part| part.entry.as_ref()).find(|entry| entry.key == key)
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entry(key).map(|entry| entry.value.as_str())
    }

    /// Changes the value of `key` where it stands, or adds it at the end. All other lines keep their text.
    pub fn set(&mut self, key: &str, value: &str) {
        let at = self.parts.iter().rposition(|part| part.entry.as_ref().is_some_and(|entry| entry.key == key));
        if let Some(part) = at.and_then(|at| self.parts.get_mut(at)) {
            if part.entry.as_ref().is_some_and(|entry| entry.value == value) {
                return;
            }
            let line = part.entry.as_ref().map_or(0, |entry| entry.line);
            let end = part.raw[content(&part.raw).len()..].to_vec();
            part.raw = written(key, value);
            part.raw.extend_from_slice(&end);
            part.entry = Some(Entry { key: key.to_owned(), value: value.to_owned(), line });
            return;
        }
        self.close_last_line();
        let line = 1 + self.parts.iter().map(|part| line_ends(&part.raw)).sum::<usize>();
        let mut raw = written(key, value);
        raw.push(b'\n');
        self.parts.push(Part { raw, entry: Some(Entry { key: key.to_owned(), value: value.to_owned(), line }) });
    }

    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.parts.iter().flat_map(|part| part.raw.iter().copied()).collect()
    }

    /// Ends the last line, so that another can follow it without becoming part of it.
    fn close_last_line(&mut self) {
        let Some(last) = self.parts.last_mut() else { return };
        let comment = matches!(trim_start(&last.raw).first(), Some(b'#' | b'!'));
        let text = content(&last.raw);
        let open = !comment && ends_with_escape(text);
        if open {
            // The file ends inside a joined line. Java drops that backslash.
            let length = text.len() - 1;
            last.raw.truncate(length);
            // What is left may itself end in a joined line: an empty line ends that, too.
            last.raw.push(b'\n');
        } else if !last.raw.is_empty() && !matches!(last.raw.last(), Some(b'\n' | b'\r')) {
            last.raw.push(b'\n');
        }
    }
}

/// Natural lines with their line ends, numbered from 1.
struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<(&'a [u8], usize)> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).map_or(self.rest.len(), |at| {
            let pair = self.rest[at] == b'\r' && self.rest.get(at + 1) == Some(&b'\n');
            at + if pair { 2 } else { 1 }
        });
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.number += 1;
        Some((line, self.number))
    }
}

/// A line without the line end.
fn content(line: &[u8]) -> &[u8] {
    match line {
        [text @ .., b'\r', b'\n'] | [text @ .., b'\n'] | [text @ .., b'\r'] => text,
        text => text,
    }
}

fn line_ends(raw: &[u8]) -> usize {
    let mut lines = Lines { rest: raw, number: 0 };
    while lines.next().is_some() {}
    lines.number
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0c)
}

fn trim_start(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_blank(*first)
    {
        text = rest;
    }
    text
}

fn ends_with_escape(text: &[u8]) -> bool {
    text.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

fn split(logical: &[u8], line: usize) -> Result<Entry, SyntaxError> {
    let mut escaped = false;
    let key_end = logical
        .iter()
        .position(|byte| {
            let ends = !escaped && (matches!(byte, b'=' | b':') || is_blank(*byte));
            escaped = !escaped && *byte == b'\\';
            ends
        })
        .unwrap_or(logical.len());
    let (key, rest) = logical.split_at(key_end);
    let rest = trim_start(rest);
    let value = match rest {
        [b'=' | b':', value @ ..] => trim_start(value),
        value => value,
    };
    Ok(Entry { key: unescape(key, line)?, value: unescape(value, line)?, line })
}

fn unescape(text: &[u8], line: usize) -> Result<String, SyntaxError> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            units.push(u16::from(byte));
            continue;
        }
        let unit = match bytes.next() {
            Some(b'u') => {
                let mut unit = 0;
                for _ in 0..4 {
                    let digit = bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                    unit = unit << 4 | digit.ok_or(SyntaxError { line })?;
                }
                u16::try_from(unit).map_err(|_| SyntaxError { line })?
            }
            Some(b't') => 0x09,
            Some(b'n') => 0x0a,
            Some(b'r') => 0x0d,
            Some(b'f') => 0x0c,
            Some(other) => u16::from(other),
            None => break,
        };
        units.push(unit);
    }
    Ok(String::from_utf16_lossy(&units))
}

fn written(key: &str, value: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + value.len() + 1);
    escape(key, &mut out, |_, char| matches!(char, ' ' | '=' | ':' | '#' | '!'));
    out.push(b'=');
    escape(value, &mut out, |first, char| first && char == ' ');
    out
}

fn escape(text: &str, out: &mut Vec<u8>, protect: impl Fn(bool, char) -> bool) {
    for (at, char) in text.char_indices() {
        match char {
            '\t' => out.extend_from_slice(b"\\t"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\\' => out.extend_from_slice(b"\\\\"),
            ' '..='~' => {
                if protect(at == 0, char) {
                    out.push(b'\\');
                }
                out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04X}").as_bytes());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String, usize)> {
        let properties = Properties::parse(text.as_bytes()).unwrap();
        properties.entries().map(|entry| (entry.key.clone(), entry.value.clone(), entry.line)).collect()
    }

    fn pair(key: &str, value: &str, line: usize) -> (String, String, usize) {
        (key.to_owned(), value.to_owned(), line)
    }

    #[test]
    fn separators_and_blanks() {
        let text = "a=1\nb:2\nc 3\n\t d \t = 4 \ne\nf==5\n=6\ng\\==7\n";
        let expected =
            [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4 "), ("e", ""), ("f", "=5"), ("", "6"), ("g=", "7")];
        let expected: Vec<_> = expected.iter().zip(1..).map(|((key, value), line)| pair(key, value, line)).collect();
        assert_eq!(pairs(text), expected);
    }

    #[test]
    fn comments_and_line_ends() {
        assert_eq!(pairs("# a=1\r\n  ! b=2\rc=3\r\n\r\n\nd=4"), [pair("c", "3", 3), pair("d", "4", 6)]);
        // A comment does not continue.
        assert_eq!(pairs("# a \\\nb=1"), [pair("b", "1", 2)]);
    }

    #[test]
    fn joined_lines() {
        assert_eq!(pairs("a=1,\\\n   2,\\\r\n\t3\nb=4"), [pair("a", "1,2,3", 1), pair("b", "4", 4)]);
        assert_eq!(pairs("a=1\\\\\nb=2"), [pair("a", "1\\", 1), pair("b", "2", 2)]);
        assert_eq!(pairs("a=1\\\n# not a comment"), [pair("a", "1# not a comment", 1)]);
        assert_eq!(pairs("a=1\\\n\nb=2"), [pair("a", "1", 1), pair("b", "2", 3)]);
        assert_eq!(pairs("a=1\\"), [pair("a", "1", 1)]);
        assert_eq!(pairs("\\\n\na=1"), [pair("a", "1", 3)]);
    }

    #[test]
    fn escapes() {
        assert_eq!(pairs("a\\ b=\\u4f60\\uD83D\\uDE00\\t\\q\\:"), [pair("a b", "你😀\tq:", 1)]);
        let latin = Properties::parse(b"dir=/donn\xe9es").unwrap();
        assert_eq!(latin.get("dir"), Some("/données"));
        for text in ["a=1\nb=\\u12", "a=1\nb=\\u12g4", "\n\\u=1"] {
            assert_eq!(Properties::parse(text.as_bytes()), Err(SyntaxError { line: 2 }), "{text}");
        }
    }

    #[test]
    fn a_key_added_after_an_open_joined_line_stands_alone() {
        for (text, value) in [("a=1\\\n\\", "1"), ("a=1\\\n", "1"), ("a=1\\", "1"), ("a=1\\\n 2\\\n\\", "12")] {
            let mut properties = Properties::parse(text.as_bytes()).unwrap();
            properties.set("b", "2");
            let again = Properties::parse(&properties.to_bytes()).unwrap();
            assert_eq!((again.get("a"), again.get("b")), (Some(value), Some("2")), "{text:?}");
        }
    }

    #[test]
    fn a_change_keeps_everything_else() {
        let text = "# head\r\n\r\n  a : 1\r\nb=2 \\\n  3\nb=4\n!tail";
        let mut properties = Properties::parse(text.as_bytes()).unwrap();
        assert_eq!(properties.to_bytes(), text.as_bytes());
        properties.set("a", "1");
        assert_eq!(properties.to_bytes(), text.as_bytes());
        properties.set("a", " x\\ü");
        properties.set("b", "5");
        properties.set("new key", "7");
        let changed = "# head\r\n\r\na=\\ x\\\\\\u00FC\r\nb=2 \\\n  3\nb=5\n!tail\nnew\\ key=7\n";
        assert_eq!(String::from_utf8(properties.to_bytes()).unwrap(), changed);
        assert_eq!(Properties::parse(changed.as_bytes()).unwrap().entry("new key"), properties.entry("new key"));
    }

    #[test]
    fn a_key_added_behind_an_open_line_is_a_line_of_its_own() {
        for text in ["a=1\\", "a=1\\\n", "a=1", "# note\\", "\\"] {
            let mut properties = Properties::parse(text.as_bytes()).unwrap();
            properties.set("b", "2");
            let again = Properties::parse(&properties.to_bytes()).unwrap();
            assert_eq!(again.get("b"), Some("2"), "{text:?}");
            assert_eq!(again.get("a"), text.starts_with('a').then_some("1"), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_name_a_line_and_are_kept(bytes in proptest::collection::vec(
            prop_oneof![Just(b'\\'), Just(b'\n'), Just(b'\r'), Just(b'='), Just(b' '), Just(b'#'), Just(b'u'), any::<u8>()],
            0..200,
        )) {
            match Properties::parse(&bytes) {
                Ok(properties) => prop_assert_eq!(properties.to_bytes(), bytes),
                Err(error) => prop_assert!(error.line >= 1),
            }
        }

        #[test]
        fn what_is_set_is_read_again(
            bytes in proptest::collection::vec(
                prop_oneof![Just(b'\\'), Just(b'\n'), Just(b'='), Just(b' '), Just(b'#'), Just(b'a'), Just(b'b')], 0..60),
            changes in proptest::collection::vec(("[ab =:#!\\\\]{0,3}|\\PC{0,4}", any::<String>()), 1..6),
        ) {
            let Ok(mut properties) = Properties::parse(&bytes) else { return Ok(()) };
            let mut expected: HashMap<String, String> =
                properties.entries().map(|entry| (entry.key.clone(), entry.value.clone())).collect();
            for (key, value) in changes {
                properties.set(&key, &value);
                expected.insert(key, value);
            }
            let again = Properties::parse(&properties.to_bytes()).unwrap();
            let read: HashMap<_, _> =
                again.entries().map(|entry| (entry.key.clone(), entry.value.clone())).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
