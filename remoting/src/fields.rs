//! The `extFields` of one request, borrowed from the frame that carried them.
//!
//! Nothing is allocated per field: a name and a value are slices of the frame. A JSON value with escapes stays raw
//! until somebody asks for its text.

use std::borrow::Cow;

use arrayvec::ArrayVec;
use thiserror::Error;

/// A string value as it stands in the frame: JSON string content whose escapes may still be unresolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text<'a> {
    raw: &'a str,
    escaped: bool,
}

impl<'a> Text<'a> {
    /// Text that stands for itself.
    pub const fn plain(raw: &'a str) -> Self {
        Text { raw, escaped: false }
    }

    /// The content of a JSON string (without its quotes) that holds at least one backslash.
    ///
    /// The caller has checked that every escape in it is well formed.
    pub const fn escaped(raw: &'a str) -> Self {
        Text { raw, escaped: true }
    }

    /// The text with escapes resolved; borrows when there are none.
    #[inline]
    pub fn to_cow(self) -> Cow<'a, str> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut out = Vec::with_capacity(self.raw.len());
        self.write_to(&mut out);
        // `write_to` copies whole characters of a `str` and encodes the others itself.
        Cow::Owned(String::from_utf8(out).unwrap_or_default())
    }

    /// Appends the text with escapes resolved (UTF-8) to `out`, without an allocation of its own.
    pub fn write_to(self, out: &mut Vec<u8>) {
        if self.escaped {
            unescape(self.raw, out);
        } else {
            out.extend_from_slice(self.raw.as_bytes());
        }
    }

    /// The slice of the frame when it needs no unescaping.
    pub fn as_plain(self) -> Option<&'a str> {
        (!self.escaped).then_some(self.raw)
    }

    fn eq_ignore_ascii_case(self, word: &str) -> bool {
        match self.as_plain() {
            Some(plain) => plain.eq_ignore_ascii_case(word),
            None => self.to_cow().eq_ignore_ascii_case(word),
        }
    }

    /// Whether there is no text at all.
    pub fn is_empty(self) -> bool {
        self.raw.is_empty()
    }
}

/// Resolves JSON escapes of `raw` into `out`. A lone surrogate becomes a question mark, which is what Java's encoder
/// makes of one.
fn unescape(raw: &str, out: &mut Vec<u8>) {
    let bytes = raw.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let Some(skip) = memchr::memchr(b'\\', &bytes[at..]) else {
            out.extend_from_slice(&bytes[at..]);
            return;
        };
        out.extend_from_slice(&bytes[at..at + skip]);
        at += skip + 1;
        let kind = bytes.get(at).copied().unwrap_or(b'\\');
        at += 1;
        match kind {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'u' => {
                // The separators of message properties: by far the most frequent.
                if let Some([b'0', b'0', b'0', low @ b'0'..=b'9']) = bytes.get(at..at + 4) {
                    out.push(low - b'0');
                    at += 4;
                    continue;
                }
                let mut unit = hex4(bytes, at);
                at += 4;
                if (0xD800..0xDC00).contains(&unit) && bytes[at.min(bytes.len())..].starts_with(b"\\u") {
                    let low = hex4(bytes, at + 2);
                    if (0xDC00..0xE000).contains(&low) {
                        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                        at += 6;
                    }
                }
                let c = char::from_u32(unit).unwrap_or('?');
                if (c as u32) < 0x80 {
                    out.push(c as u8);
                } else {
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            other => out.push(other),
        }
    }
}

/// Four hexadecimal digits at `at`, or a lone surrogate when they are not there.
fn hex4(bytes: &[u8], at: usize) -> u32 {
    const NONE: u32 = 0xDFFF;
    let Some(digits) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) else { return NONE };
    let mut value = 0;
    for digit in digits {
        let Some(digit) = char::from(*digit).to_digit(16) else { return NONE };
        value = value * 16 + digit;
    }
    value
}

/// One pair of `extFields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name. A JSON name with escapes is never one that we know: it is kept raw (see [`Fields::name`]).
    pub name: &'a str,
    /// The value.
    pub value: Text<'a>,
}

/// The most pairs that a header may have; the largest of Java's has 20. It bounds what a hostile header can cost.
pub(crate) const MAX_FIELDS: usize = 1024;

/// Pairs that need no heap.
const INLINE: usize = 20;

/// The pairs of one request in the order of the frame.
///
/// With a name twice the last one counts, as in Java's map. Up to 20 pairs need no heap.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a> {
    first: ArrayVec<Field<'a>, INLINE>,
    more: Vec<Field<'a>>,
    /// Whether a backslash in a name begins an escape.
    json: bool,
}

impl<'a> Fields<'a> {
    /// No pairs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes out all pairs; names that are added from now on may have escapes.
    pub(crate) fn begin_json(&mut self) {
        self.first.clear();
        self.more.clear();
        self.json = true;
    }

    /// Adds a pair at the end.
    #[inline(always)]
    pub fn push(&mut self, name: &'a str, value: Text<'a>) {
        let field = Field { name, value };
        if self.first.is_full() || !self.more.is_empty() {
            self.push_more(field);
        } else {
            self.first.push(field);
        }
    }

    #[cold]
    fn push_more(&mut self, field: Field<'a>) {
        self.more.push(field);
    }

    /// Takes out the pairs of that name: a null is as good as no pair.
    #[cold]
    pub(crate) fn remove(&mut self, name: &str) {
        self.first.retain(|field| field.name != name);
        self.more.retain(|field| field.name != name);
    }

    /// The name of one of these fields with its escapes resolved.
    pub fn name(&self, field: &Field<'a>) -> Cow<'a, str> {
        let escaped = self.json && field.name.contains('\\');
        Text { raw: field.name, escaped }.to_cow()
    }

    /// The value of `name`: the last one when it is there twice.
    pub fn get(&self, name: &str) -> Option<Text<'a>> {
        self.more.iter().rev().chain(self.first.iter().rev()).find(|field| field.name == name).map(|field| field.value)
    }

    /// All pairs in the order of the frame.
    pub fn iter(&self) -> impl Iterator<Item = &Field<'a>> {
        self.first.iter().chain(&self.more)
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.more.is_empty()
    }
}

/// Why a typed header could not be read. The peer's fault; answered with SYSTEM_ERROR and this text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FieldError {
    /// A required field is not there (or null).
    #[error("the custom field <{0}> is null")]
    Missing(&'static str),
    /// The value is not of the field's type.
    #[error("the field <{name}> is not {expected}: {value:?}")]
    Malformed {
        /// Name of the field on the wire.
        name: &'static str,
        /// The type in Java's words: `Integer`, `Long`, ...
        expected: &'static str,
        /// What came, cut at 64 characters.
        value: String,
    },
}

/// What a SEARCH_OFFSET_BY_TIMESTAMP looks for among messages of the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoundaryType {
    /// The first one.
    #[default]
    Lower,
    /// The last one.
    Upper,
}

/// A type that a header field can have.
pub trait FromField<'a>: Sized {
    /// Java's name of the type: `String`, `Integer`, `Long`, `Boolean`, `BoundaryType`.
    const JAVA_TYPE: &'static str;

    /// Reads the value, or `None` when it is not of this type.
    fn from_text(text: Text<'a>) -> Option<Self>;
}

/// What a declared field accepts: a [`FromField`] type is required, an `Option` of one may be missing.
pub trait Slot<'a>: Sized {
    /// Java's name of the type.
    const JAVA_TYPE: &'static str;
    /// Whether a request without the field is refused.
    const REQUIRED: bool;

    /// The field's value from the text found under `name`. Where the field may be missing, a value of the wrong type
    /// is an error only when `strict`.
    ///
    /// # Errors
    /// Missing though required, or of the wrong type.
    fn take(name: &'static str, text: Option<Text<'a>>, strict: bool) -> Result<Self, FieldError>;
}

impl<'a, T: FromField<'a>> Slot<'a> for T {
    const JAVA_TYPE: &'static str = T::JAVA_TYPE;
    const REQUIRED: bool = true;
    #[inline]
    fn take(name: &'static str, text: Option<Text<'a>>, _strict: bool) -> Result<Self, FieldError> {
        let Some(text) = text else { return Err(FieldError::Missing(name)) };
        T::from_text(text).ok_or_else(|| malformed(name, T::JAVA_TYPE, text))
    }
}

impl<'a, T: FromField<'a>> Slot<'a> for Option<T> {
    const JAVA_TYPE: &'static str = T::JAVA_TYPE;
    const REQUIRED: bool = false;
    #[inline]
    fn take(name: &'static str, text: Option<Text<'a>>, strict: bool) -> Result<Self, FieldError> {
        let Some(text) = text else { return Ok(None) };
        match T::from_text(text) {
            None if strict => Err(malformed(name, T::JAVA_TYPE, text)),
            value => Ok(value),
        }
    }
}

#[cold]
fn malformed(name: &'static str, expected: &'static str, text: Text<'_>) -> FieldError {
    FieldError::Malformed { name, expected, value: text.to_cow().chars().take(64).collect() }
}

impl<'a> FromField<'a> for Text<'a> {
    const JAVA_TYPE: &'static str = "String";
    fn from_text(text: Text<'a>) -> Option<Self> {
        Some(text)
    }
}

impl<'a> FromField<'a> for Cow<'a, str> {
    const JAVA_TYPE: &'static str = "String";
    fn from_text(text: Text<'a>) -> Option<Self> {
        Some(text.to_cow())
    }
}

impl<'a> FromField<'a> for i32 {
    const JAVA_TYPE: &'static str = "Integer";
    fn from_text(text: Text<'a>) -> Option<Self> {
        i32::try_from(parse_long(text)?).ok()
    }
}

impl<'a> FromField<'a> for i64 {
    const JAVA_TYPE: &'static str = "Long";
    fn from_text(text: Text<'a>) -> Option<Self> {
        parse_long(text)
    }
}

impl<'a> FromField<'a> for bool {
    const JAVA_TYPE: &'static str = "Boolean";
    /// Java's rule: "true" in any case is true, everything else is false.
    fn from_text(text: Text<'a>) -> Option<Self> {
        Some(text.eq_ignore_ascii_case("true"))
    }
}

impl<'a> FromField<'a> for BoundaryType {
    const JAVA_TYPE: &'static str = "BoundaryType";
    /// Java's rule: "upper" in any case is the upper boundary, everything else the lower.
    fn from_text(text: Text<'a>) -> Option<Self> {
        let upper = text.eq_ignore_ascii_case("upper");
        Some(if upper { BoundaryType::Upper } else { BoundaryType::Lower })
    }
}

/// A decimal integer as Java's `Long.parseLong` takes it: a sign or none, then digits only.
fn parse_long(text: Text<'_>) -> Option<i64> {
    match text.as_plain() {
        Some(plain) => plain.parse().ok(),
        None => text.to_cow().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_resolved() {
        for (raw, text) in [
            ("a\\u0001b\\u0002", "a\u{1}b\u{2}"),
            ("\\u0009\\u000a\\u0010\\u00e9\\u4e2d", "\t\n\u{10}\u{e9}\u{4e2d}"),
            ("\\uD83D\\uDE00", "\u{1F600}"),
            ("\\ud83d", "?"),
            ("\\ud83dx", "?x"),
            ("\\ud83d\\u0041", "?A"),
            ("\\ude00\\ud83d", "??"),
            ("\\\"\\\\\\/\\n", "\"\\/\n"),
        ] {
            assert_eq!(Text::escaped(raw).to_cow(), text, "{raw}");
        }
        assert_eq!(Text::plain("a\\u0001").to_cow(), "a\\u0001");
    }

    /// Nothing hands such texts out; they must not hurt all the same.
    #[test]
    fn malformed_escapes_do_no_harm() {
        for raw in
            ["\\", "\\u", "\\u0", "\\u000", "\\uzzzz", "\\ud83d\\u", "\\ud83d\\u1", "\\\u{e9}", "\\u\u{e9}\u{e9}"]
        {
            drop(Text::escaped(raw).to_cow());
        }
    }

    #[test]
    fn numbers_as_java_reads_them() {
        let long = |text| i64::from_text(Text::plain(text));
        let int = |text| i32::from_text(Text::plain(text));
        assert_eq!((long("9223372036854775807"), long("-9223372036854775808")), (Some(i64::MAX), Some(i64::MIN)));
        assert_eq!((long("+5"), long("007"), long("-0")), (Some(5), Some(7), Some(0)));
        for text in ["", "+", "-", " 1", "1 ", "1.0", "0x1", "1_000", "9223372036854775808", "null"] {
            assert_eq!(long(text), None, "{text}");
        }
        assert_eq!((int("2147483647"), int("2147483648")), (Some(i32::MAX), None));
        assert_eq!(i64::from_text(Text::escaped("\\u0031\\u0032")), Some(12));
    }

    #[test]
    fn flags_as_java_reads_them() {
        let flag = |text| bool::from_text(Text::plain(text));
        assert_eq!(
            (flag("true"), flag("TRUE"), flag("1"), flag("")),
            (Some(true), Some(true), Some(false), Some(false))
        );
        assert_eq!(BoundaryType::from_text(Text::plain("Upper")), Some(BoundaryType::Upper));
        assert_eq!(BoundaryType::from_text(Text::plain("?")), Some(BoundaryType::Lower));
    }

    #[test]
    fn more_pairs_than_fit_inline() {
        let names: Vec<String> = (0..50).map(|at| format!("n{at}")).collect();
        let mut fields = Fields::new();
        names.iter().for_each(|name| fields.push(name, Text::plain(name)));
        assert!(fields.iter().map(|field| field.name).eq(names.iter().map(String::as_str)));
        assert_eq!(fields.len(), 50);
        fields.remove("n3");
        fields.remove("n40");
        assert!(fields.get("n3").is_none() && fields.get("n40").is_none());
        // Behind those that are there, though there is room inline again.
        fields.push("n45", Text::plain("last"));
        assert_eq!(fields.get("n45").unwrap().as_plain(), Some("last"));
        assert_eq!(fields.iter().last().unwrap().value.as_plain(), Some("last"));
    }
}
