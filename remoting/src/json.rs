//! The JSON header, read in one pass.
//!
//! Read: an object with `code`, `flag`, `language`, `opaque`, `remark`, `version` and `extFields` in any order.
//! `extFields` holds strings; numbers and booleans count as their text, null as missing, an object or array as its
//! JSON text. Other members are checked and skipped. Stricter than fastjson 2.0.59 in what no client writes: no single
//! quotes, no comments, no escapes of its own, no nesting over 64 levels, and bytes that are not UTF-8 are refused (it
//! refuses most of them).

mod write;

use crate::command::Language;
use crate::fields::{Fields, MAX_FIELDS, Text};
use crate::request::{HeaderParseError, Request};

pub(crate) use write::write;

/// How deep a value may be nested; deeper ones are refused before they cost stack.
const MAX_DEPTH: usize = 64;

/// Reads a header into `request`.
///
/// # Errors
/// Bytes that are not UTF-8, not JSON, or not an object of the right shape.
pub(crate) fn read<'a>(header: &'a [u8], request: &mut Request<'a>) -> Result<(), HeaderParseError> {
    let text = std::str::from_utf8(header).map_err(|_| HeaderParseError::Utf8)?;
    let mut scanner = Scanner { text, bytes: text.as_bytes(), at: 0, escaped: false, expected: "", fields: 0 };
    scanner.header(request).map_err(|Malformed| HeaderParseError::Json { at: scanner.at, expected: scanner.expected })
}

/// A position in the header. What was expected where it failed is kept here, so that results stay small.
struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Whether the last string had escapes.
    escaped: bool,
    expected: &'static str,
    /// Members of `extFields` so far.
    fields: usize,
}

struct Malformed;

type Parsed<T> = Result<T, Malformed>;

impl<'a> Scanner<'a> {
    fn header(&mut self, request: &mut Request<'a>) -> Parsed<()> {
        self.members(|scanner, name| scanner.member(request, name))?;
        self.blanks();
        if self.at < self.bytes.len() { self.fail("the end") } else { Ok(()) }
    }

    #[inline]
    fn member(&mut self, request: &mut Request<'a>, name: &str) -> Parsed<()> {
        match name.as_bytes() {
            b"code" => request.code = self.int()?,
            b"flag" => request.flag = self.int()?,
            b"opaque" => request.opaque = self.int()?,
            b"version" => request.version = self.int()?,
            b"language" => request.language = self.language()?,
            b"remark" => request.remark = self.value()?.map(Text::to_cow),
            b"extFields" => self.ext_fields(&mut request.fields)?,
            b"serializeTypeCurrentRPC" => self.skip(0)?,
            _ => return self.other_member(request, name),
        }
        Ok(())
    }

    /// A member that nobody knows, or one whose name has escapes.
    #[cold]
    fn other_member(&mut self, request: &mut Request<'a>, name: &str) -> Parsed<()> {
        let resolved = Text::escaped(name).to_cow();
        if *resolved == *name { self.skip(0) } else { self.member(request, &resolved) }
    }

    fn ext_fields(&mut self, fields: &mut Fields<'a>) -> Parsed<()> {
        fields.begin_json();
        if self.eat_word(b"null") {
            return Ok(());
        }
        self.members(|scanner, name| {
            scanner.fields += 1;
            if scanner.fields > MAX_FIELDS {
                return scanner.fail("fewer fields");
            }
            if scanner.eat(b'"') {
                let raw = scanner.string()?;
                fields.push(name, scanner.text_of(raw));
            } else if let Some(value) = scanner.value()? {
                fields.push(name, value);
            } else {
                fields.remove(name);
            }
            Ok(())
        })
    }

    #[cold]
    fn fail<T>(&mut self, expected: &'static str) -> Parsed<T> {
        self.expected = expected;
        Err(Malformed)
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[cold]
    fn blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Steps over `byte`, if it is next.
    #[inline(always)]
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Steps over `byte`, if it is next but for blanks. Headers hardly ever have blanks, so they are looked for last.
    #[inline(always)]
    fn find(&mut self, byte: u8) -> bool {
        if self.peek() == Some(byte) {
            self.at += 1;
            return true;
        }
        self.blanks();
        self.eat(byte)
    }

    /// Steps over `word`, if it is next.
    fn eat_word(&mut self, word: &[u8]) -> bool {
        let found = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word));
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// An object; `member` reads the value of each name.
    #[inline(always)]
    fn members(&mut self, mut member: impl FnMut(&mut Self, &'a str) -> Parsed<()>) -> Parsed<()> {
        if !self.find(b'{') {
            return self.fail("an object");
        }
        if !self.find(b'"') {
            return if self.eat(b'}') { Ok(()) } else { self.fail("a name in double quotes") };
        }
        loop {
            let name = self.string()?;
            if !self.find(b':') {
                return self.fail("a colon");
            }
            if self.peek().is_some_and(|byte| byte <= b' ') {
                self.blanks();
            }
            member(self, name)?;
            if !self.find(b',') {
                return if self.eat(b'}') { Ok(()) } else { self.fail("a comma or the end of the object") };
            }
            // A comma behind the last member is one of fastjson's liberties.
            if !self.find(b'"') {
                return if self.eat(b'}') { Ok(()) } else { self.fail("a name in double quotes") };
            }
        }
    }

    /// The rest of a string whose opening quote has been read, and whether it has escapes in `self.escaped`: a slice
    /// alone stays in registers. Escapes are checked, not resolved.
    #[inline(always)]
    fn string(&mut self) -> Parsed<&'a str> {
        let start = self.at;
        self.at = quote_or_backslash(self.bytes, start);
        self.escaped = false;
        if self.peek() != Some(b'"') {
            self.escapes()?;
        }
        let Some(raw) = self.text.get(start..self.at) else { return self.fail("a string") };
        self.at += 1;
        Ok(raw)
    }

    /// Goes on from the first backslash of a string to its closing quote.
    fn escapes(&mut self) -> Parsed<()> {
        self.escaped = true;
        loop {
            match self.peek() {
                Some(b'"') => return Ok(()),
                Some(_) => self.escape()?,
                None => return self.fail("the end of the string"),
            }
            self.at = quote_or_backslash(self.bytes, self.at);
        }
    }

    /// The string that has just been read as a text.
    #[inline(always)]
    fn text_of(&self, raw: &'a str) -> Text<'a> {
        if self.escaped { Text::escaped(raw) } else { Text::plain(raw) }
    }

    /// Steps over one escape, which begins at the backslash.
    #[inline]
    fn escape(&mut self) -> Parsed<()> {
        match self.bytes.get(self.at + 1) {
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 2..).and_then(|rest| rest.first_chunk::<4>());
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return self.fail("four hexadecimal digits");
                }
                self.at += 6;
            }
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            _ => return self.fail("an escape"),
        }
        Ok(())
    }

    /// Any value as the text that a string field gets from it; `None` for null.
    fn value(&mut self) -> Parsed<Option<Text<'a>>> {
        if self.eat(b'"') {
            let raw = self.string()?;
            return Ok(Some(self.text_of(raw)));
        }
        if self.eat_word(b"null") {
            return Ok(None);
        }
        let start = self.at;
        self.skip(0)?;
        match self.text.get(start..self.at) {
            Some(raw) => Ok(Some(Text::plain(raw))),
            None => self.fail("a value"),
        }
    }

    /// An integer as fastjson reads one: a number (cut to its whole part), its text in quotes, true for 1, null and no
    /// text for 0.
    fn int(&mut self) -> Parsed<i32> {
        let start = self.at;
        let negative = self.eat(b'-');
        let mut number: i64 = 0;
        let first = self.at;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            number = number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
            self.at += 1;
        }
        // Eighteen digits cannot have wrapped.
        if (1..=18).contains(&(self.at - first)) && !matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            let number = if negative { -number } else { number };
            return i32::try_from(number).or_else(|_| self.fail("an integer of 32 bits"));
        }
        self.at = start;
        self.loose_int()
    }

    #[cold]
    fn loose_int(&mut self) -> Parsed<i32> {
        let Some(text) = self.value()? else { return Ok(0) };
        let text = text.to_cow();
        let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
        match &*text {
            "" | "false" => return Ok(0),
            "true" => return Ok(1),
            _ => {}
        }
        match (text.parse::<i32>(), text.parse::<f64>()) {
            (Ok(number), _) => Ok(number),
            (_, Ok(number)) if range.contains(&number) => Ok(number as i32),
            _ => self.fail("an integer of 32 bits"),
        }
    }

    /// A language by name or by number; an unknown one is OTHER.
    fn language(&mut self) -> Parsed<Language> {
        if self.eat_word(b"\"JAVA\"") {
            return Ok(Language::JAVA);
        }
        if let Some(b'0'..=b'9' | b'-') = self.peek() {
            let number = u8::try_from(self.int()?).unwrap_or(u8::MAX);
            return Ok(if usize::from(number) < Language::NAMES.len() { Language(number) } else { Language::OTHER });
        }
        Ok(self.value()?.map_or(Language::OTHER, |name| Language::from_name(&name.to_cow())))
    }

    /// Steps over a value of any kind.
    fn skip(&mut self, depth: usize) -> Parsed<()> {
        if depth > MAX_DEPTH {
            return self.fail("less nesting");
        }
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                self.string().map(drop)
            }
            Some(b'{') => self.members(|scanner, _| scanner.skip(depth + 1)),
            Some(b'[') => self.skip_array(depth),
            Some(b'-' | b'0'..=b'9') => self.skip_number(),
            _ if self.eat_word(b"true") || self.eat_word(b"false") || self.eat_word(b"null") => Ok(()),
            _ => self.fail("a value"),
        }
    }

    fn skip_array(&mut self, depth: usize) -> Parsed<()> {
        self.at += 1;
        if self.find(b']') {
            return Ok(());
        }
        loop {
            self.blanks();
            self.skip(depth + 1)?;
            if self.find(b',') {
                continue;
            }
            return if self.eat(b']') { Ok(()) } else { self.fail("a comma or the end of the array") };
        }
    }

    fn skip_number(&mut self) -> Parsed<()> {
        self.eat(b'-');
        self.skip_digits()?;
        if self.eat(b'.') {
            self.skip_digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.skip_digits()?;
        }
        Ok(())
    }

    fn skip_digits(&mut self) -> Parsed<()> {
        let first = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == first { self.fail("a digit") } else { Ok(()) }
    }
}

/// Where the next quote or backslash at or behind `at` stands, or the end. Eight bytes a step.
#[inline(always)]
fn quote_or_backslash(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * b'"' as u64);
        let slash = word ^ (ONES * b'\\' as u64);
        // The lowest byte that is zero has its top bit set in `x - 1 & !x`; bits above it may be wrong, none below.
        let found = ((quote.wrapping_sub(ONES) & !quote) | (slash.wrapping_sub(ONES) & !slash)) & HIGHS;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|byte| !matches!(byte, b'"' | b'\\')) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::SerializeType;

    fn decode(header: &str) -> Result<Request<'_>, HeaderParseError> {
        Request::decode(SerializeType::Json, header.as_bytes(), &[])
    }

    fn field(header: &str) -> String {
        let request = decode(header).expect(header);
        request.fields.get("a").expect(header).to_cow().into_owned()
    }

    #[test]
    fn whole_headers() {
        let text = r#"{"code":105,"extFields":{"topic":"T"},"flag":2,"language":"GO","opaque":-3,"remark":"r\n","version":317}"#;
        let request = decode(text).unwrap();
        assert_eq!((request.code, request.flag, request.opaque, request.version), (105, 2, -3, 317));
        assert_eq!((request.language.name(), request.remark.as_deref()), ("GO", Some("r\n")));
        assert_eq!(request.fields.get("topic").unwrap().as_plain(), Some("T"));

        let request = decode(" \n\t{ \"code\" : 10 ,\r\n \"extFields\" : { \"a\" : \"b\" } , \"flag\" : 2 } ").unwrap();
        assert_eq!((request.code, request.flag, request.fields.len()), (10, 2, 1));

        let request = decode("{}").unwrap();
        assert_eq!((request.code, request.language, request.opaque), (0, Language::JAVA, 0));
    }

    /// As fastjson 2.0.59 reads them for Java 5.5.0.
    #[test]
    fn integers() {
        let code = |value: &str| decode(&format!("{{\"code\":{value}}}")).map(|request| request.code);
        for (value, expected) in [
            ("10", 10),
            ("-7", -7),
            ("007", 7),
            ("\"10\"", 10),
            ("\"\"", 0),
            ("10.9", 10),
            ("1e2", 100),
            ("null", 0),
            ("true", 1),
            ("2147483647", i32::MAX),
            ("-2147483648", i32::MIN),
        ] {
            assert_eq!(code(value), Ok(expected), "{value}");
        }
        for value in
            ["2147483648", "99999999999", "99999999999999999999999", "\"abc\"", "1e99", "-", "--1", "1.", "NaN", ""]
        {
            assert!(code(value).is_err(), "{value}");
        }
    }

    #[test]
    fn languages() {
        let language = |value: &str| decode(&format!("{{\"language\":{value}}}")).unwrap().language.name();
        assert_eq!(language("\"CPP\""), "CPP");
        assert_eq!(language("3"), "PYTHON");
        assert_eq!(language("\"NOPE\""), "OTHER");
        assert_eq!(language("99"), "OTHER");
        assert_eq!(language("-1"), "OTHER");
        assert_eq!(language("null"), "OTHER");
    }

    #[test]
    fn fields_of_other_kinds_are_their_text() {
        let text = r#"{"extFields":{"a":1,"b":1.50,"c":true,"d":null,"e":{"x":1},"f":[1,"y"],"g":-0}}"#;
        let request = decode(text).unwrap();
        let pairs: Vec<_> = request.fields.iter().map(|field| (field.name, field.value.as_plain().unwrap())).collect();
        let expected = [("a", "1"), ("b", "1.50"), ("c", "true"), ("e", "{\"x\":1}"), ("f", "[1,\"y\"]"), ("g", "-0")];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn the_last_of_two_members_counts() {
        assert_eq!(field(r#"{"extFields":{"a":"1","a":"2"}}"#), "2");
        assert_eq!(decode(r#"{"code":1,"code":2}"#).unwrap().code, 2);
        assert!(decode(r#"{"extFields":{"a":"1","a":null}}"#).unwrap().fields.get("a").is_none());
        assert!(decode(r#"{"extFields":{"a":"1"},"extFields":{"b":"2"}}"#).unwrap().fields.get("a").is_none());
        assert!(decode(r#"{"extFields":{"a":"1"},"extFields":null}"#).unwrap().fields.is_empty());
    }

    #[test]
    fn escapes() {
        assert_eq!(field(r#"{"extFields":{"a":"x\u0001\n\/\\\"\b\f\r\t"}}"#), "x\u{1}\n/\\\"\u{8}\u{c}\r\t");
        assert_eq!(field(r#"{"extFields":{"a":"\ud83d\ude00 \ud800 \ude00"}}"#), "\u{1F600} ? ?");
        assert_eq!(field("{\"extFields\":{\"a\":\"\u{1}raw\n\"}}"), "\u{1}raw\n");
        assert_eq!(decode(r#"{"c\u006fde":10}"#).unwrap().code, 10);
        for escape in ["\\q", "\\u00g1", "\\u12", "\\"] {
            assert!(decode(&format!("{{\"extFields\":{{\"a\":\"{escape}\"}}}}")).is_err(), "{escape}");
        }
    }

    #[test]
    fn unknown_members_are_skipped() {
        let request = decode(r#"{"x":{"a":[1,{"b":null}]},"y":"\"}","z":[],"code":1,"w":{},"flag":2,}"#).unwrap();
        assert_eq!((request.code, request.flag), (1, 2));
    }

    #[test]
    fn b_01_malformed_headers() {
        for header in [
            "",
            "null",
            "[]",
            "5",
            "{",
            "{\"code\":30,",
            "{\"code\":1",
            "{code:10}",
            "{\"code\" 1}",
            "{\"code\":1;}",
            "{\"code\":1,,\"flag\":1}",
            "{\"code\":10} x",
            "{\"code\":10}{}",
            "{\"a\":tru}",
            "{\"a\":1.}",
            "{\"a\":[1,]}",
            "{\"a\":\"b}",
            "{\"extFields\":5}",
            "{\"extFields\":[]}",
            "{\"extFields\":{1:\"1\"}}",
        ] {
            assert!(matches!(decode(header), Err(HeaderParseError::Json { .. })), "{header}");
        }
        let bytes = b"{\"extFields\":{\"a\":\"\xff\"}}";
        assert_eq!(Request::decode(SerializeType::Json, bytes, &[]).unwrap_err(), HeaderParseError::Utf8);
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth: usize| format!("{{\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(decode(&nested(MAX_DEPTH)).is_ok());
        assert!(decode(&nested(MAX_DEPTH + 2)).is_err());
    }

    #[test]
    fn quotes_are_found_at_every_place() {
        for length in 0..40 {
            for at in 0..length {
                for special in [b'"', b'\\'] {
                    let mut bytes = vec![b'!'; length];
                    bytes[at] = special;
                    assert_eq!(quote_or_backslash(&bytes, 0), at);
                    assert_eq!(quote_or_backslash(&bytes, at + 1), length);
                }
            }
        }
        assert_eq!(quote_or_backslash(&[0xA2, 0xDC, 0x21, 0x23, 0x5B, 0x5D, 0xFF, 0x00, b'"'], 0), 8);
    }
}
