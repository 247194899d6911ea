//! The dialect turned into standard JSON.
//!
//! One pass over the bytes. Members that are `null` are dropped, keys that are numbers are quoted, and a key that is an
//! object becomes a string with its JSON text. Of members with the same name only the last one stays.

use std::collections::HashSet;
use std::ops::Range;

use super::{JsonError, MAX_DEPTH};

/// Rewrites one value of the dialect as standard JSON. Blank input is `null`.
pub(super) fn to_standard(input: &[u8]) -> Result<Vec<u8>, JsonError> {
    let mut rewriter = Rewriter { input, at: 0, out: Vec::with_capacity(input.len() + input.len() / 8) };
    rewriter.blank()?;
    if rewriter.peek().is_none() {
        return Ok(b"null".to_vec());
    }
    rewriter.value(0)?;
    rewriter.blank()?;
    match rewriter.peek() {
        None => Ok(rewriter.out),
        Some(_) => Err(rewriter.expected("the end")),
    }
}

/// The members of an object in the output. Of those with the same name the last counts, also when it is `null`.
#[derive(Default)]
struct Members {
    list: Vec<Member>,
    /// Names of members that are not in the output.
    null_names: Vec<u8>,
}

struct Member {
    /// In the output, or in the names of the missing ones.
    name: Range<usize>,
    /// Behind its value in the output; `None` for a `null`.
    end: Option<usize>,
}

impl Members {
    fn add(&mut self, name: Range<usize>, end: usize) {
        self.list.push(Member { name, end: Some(end) });
    }

    fn add_null(&mut self, name: &[u8]) {
        let start = self.null_names.len();
        self.null_names.extend_from_slice(name);
        self.list.push(Member { name: start..self.null_names.len(), end: None });
    }

    /// What stands between the braces when a name occurs twice; `None` when none does.
    fn without_repeated(&self, out: &[u8]) -> Option<Vec<u8>> {
        let name = |member: &Member| match member.end {
            Some(_) => &out[member.name.clone()],
            None => &self.null_names[member.name.clone()],
        };
        let mut seen = HashSet::with_capacity(self.list.len());
        // From the end: the first that is met of a name is its last.
        let last: Vec<&Member> = self.list.iter().rev().filter(|member| seen.insert(name(member))).collect();
        if last.len() == self.list.len() {
            return None;
        }
        let mut kept = Vec::new();
        for (member, end) in last.into_iter().rev().filter_map(|member| Some((member, member.end?))) {
            if !kept.is_empty() {
                kept.push(b',');
            }
            kept.extend_from_slice(&out[member.name.start..end]);
        }
        Some(kept)
    }
}

struct Rewriter<'a> {
    input: &'a [u8],
    at: usize,
    out: Vec<u8>,
}

impl Rewriter<'_> {
    fn peek(&self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    fn expected(&self, expected: &'static str) -> JsonError {
        JsonError::Syntax { at: self.at, expected }
    }

    /// Skips white space and comments.
    fn blank(&mut self) -> Result<(), JsonError> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(b'/') => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) -> Result<(), JsonError> {
        let rest = self.input.get(self.at + 1..).unwrap_or_default();
        let length = match rest.first() {
            Some(b'/') => memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
            Some(b'*') => {
                let body = rest.get(1..).unwrap_or_default();
                let end = memchr::memmem::find(body, b"*/").ok_or_else(|| self.expected("the end of a comment"))?;
                end + 3
            }
            _ => return Err(self.expected("a value")),
        };
        self.at += 1 + length;
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth > MAX_DEPTH {
            return Err(JsonError::TooDeep(self.at));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"' | b'\'') => self.string(),
            Some(_) => self.word(),
            None => Err(self.expected("a value")),
        }
    }

    /// Takes a comma or the closing bracket; a trailing comma is allowed. True: closed.
    fn closed(&mut self, bracket: u8, first: bool) -> Result<bool, JsonError> {
        self.blank()?;
        let comma = !first && self.peek() == Some(b',');
        if comma {
            self.at += 1;
            self.blank()?;
        }
        if self.peek() == Some(bracket) {
            self.at += 1;
            self.out.push(bracket);
            return Ok(true);
        }
        if first || comma { Ok(false) } else { Err(self.expected("a comma or a closing bracket")) }
    }

    fn object(&mut self, depth: usize) -> Result<(), JsonError> {
        self.at += 1;
        self.out.push(b'{');
        let start = self.out.len();
        let mut members = Members::default();
        let mut first = true;
        while !self.closed(b'}', first)? {
            first = false;
            let mark = self.out.len();
            if mark > start {
                self.out.push(b',');
            }
            let name = self.out.len();
            self.key(depth)?;
            let name = name..self.out.len();
            self.blank()?;
            if self.peek() != Some(b':') {
                return Err(self.expected("a colon"));
            }
            self.at += 1;
            self.out.push(b':');
            self.blank()?;
            let value = self.out.len();
            self.value(depth + 1)?;
            if &self.out[value..] == b"null" {
                members.add_null(&self.out[name]);
                self.out.truncate(mark);
            } else {
                members.add(name, self.out.len());
            }
        }
        if let Some(kept) = members.without_repeated(&self.out) {
            self.out.truncate(start);
            self.out.extend_from_slice(&kept);
            self.out.push(b'}');
        }
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), JsonError> {
        self.at += 1;
        self.out.push(b'[');
        let mut first = true;
        while !self.closed(b']', first)? {
            if !first {
                self.out.push(b',');
            }
            first = false;
            self.value(depth + 1)?;
        }
        Ok(())
    }

    fn key(&mut self, depth: usize) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'"' | b'\'') => self.string(),
            Some(b'{' | b'[') => {
                let mark = self.out.len();
                self.value(depth + 1)?;
                let text = self.out.split_off(mark);
                self.out.push(b'"');
                for byte in text {
                    if matches!(byte, b'"' | b'\\') {
                        self.out.push(b'\\');
                    }
                    self.out.push(byte);
                }
                self.out.push(b'"');
                Ok(())
            }
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                self.out.push(b'"');
                self.word()?;
                self.out.push(b'"');
                Ok(())
            }
            _ => Err(self.expected("a field name")),
        }
    }

    /// A number, `true`, `false` or `null`; serde checks the number.
    fn word(&mut self) -> Result<(), JsonError> {
        let rest = self.input.get(self.at..).unwrap_or_default();
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let length = rest.iter().take_while(|byte| is_word(byte)).count();
        let word = &rest[..length];
        let known = matches!(word, b"true" | b"false" | b"null");
        if !known && !word.first().is_some_and(|byte| matches!(byte, b'-' | b'0'..=b'9')) {
            return Err(self.expected("a value"));
        }
        self.out.extend_from_slice(word);
        self.at += length;
        Ok(())
    }

    fn string(&mut self) -> Result<(), JsonError> {
        let quote = self.input[self.at];
        self.at += 1;
        self.out.push(b'"');
        loop {
            let byte = self.peek().ok_or_else(|| self.expected("the end of a string"))?;
            self.at += 1;
            match byte {
                byte if byte == quote => break,
                b'\\' => self.escape()?,
                b'"' => self.out.extend_from_slice(b"\\\""),
                0..0x20 => self.code_unit(u32::from(byte)),
                other => self.out.push(other),
            }
        }
        self.out.push(b'"');
        Ok(())
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        let kind = self.peek().ok_or_else(|| self.expected("an escape"))?;
        self.at += 1;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u' => self.out.extend_from_slice(&[b'\\', kind]),
            b'\'' => self.out.push(b'\''),
            b'v' => self.code_unit(0x0B),
            b'0'..=b'7' => self.code_unit(u32::from(kind - b'0')),
            b'x' => {
                let digits = self.input.get(self.at..self.at + 2).ok_or_else(|| self.expected("two digits"))?;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let value = digit(digits[0]).zip(digit(digits[1])).ok_or_else(|| self.expected("two digits"))?;
                self.at += 2;
                self.code_unit(value.0 * 16 + value.1);
            }
            _ => return Err(self.expected("an escape")),
        }
        Ok(())
    }

    /// Writes a character below 256 as an escape.
    fn code_unit(&mut self, value: u32) {
        self.out.extend_from_slice(format!("\\u{value:04x}").as_bytes());
    }
}
