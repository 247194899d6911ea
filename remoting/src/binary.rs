//! The ROCKETMQ binary header, read and written.
//!
//! Layout, big-endian: code i16, language u8, version i16, opaque i32, flag i32, remark (i32 length, bytes), fields
//! (i32 length in bytes, then pairs of a name with an i16 length and a value with an i32 length). A string of length
//! 0 is none: a field with an empty value counts as missing, as in Java.
//!
//! The code has 16 bits only. Codes above 32,767 (the POP requests) arrive truncated, 200,050 as 3,442, and Java
//! answers such a request as an unknown one; that is copied here, not repaired.

use std::borrow::Cow;

use crate::command::{Language, VERSION};
use crate::fields::{MAX_FIELDS, Text};
use crate::header::FieldSink;
use crate::request::{HeaderParseError, Request};

/// Reads a header into `request`.
///
/// # Errors
/// String lengths that are negative, lengths that lead out of the header, and bytes that are not UTF-8 (where Java puts
/// replacement characters).
pub(crate) fn read<'a>(header: &'a [u8], request: &mut Request<'a>) -> Result<(), HeaderParseError> {
    let mut cursor = Cursor { bytes: header, at: 0, valid: "", valid_at: 0, problem: HeaderParseError::Utf8 };
    cursor.header(request).map_err(|Malformed| cursor.problem)
}

/// A position in the header.
///
/// Lengths below 128 are UTF-8 themselves, so one check usually covers the strings of a whole header.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The bytes from `valid_at` on that are known to be UTF-8.
    valid: &'a str,
    valid_at: usize,
    /// What is wrong, once something is: kept here, so that results stay small.
    problem: HeaderParseError,
}

struct Malformed;

type Parsed<T> = Result<T, Malformed>;

impl<'a> Cursor<'a> {
    fn header(&mut self, request: &mut Request<'a>) -> Parsed<()> {
        request.code = i32::from(self.short()?);
        request.language = Language(u8::from_be_bytes(self.chunk()?));
        request.version = i32::from(self.short()?);
        request.opaque = self.int()?;
        request.flag = self.int()?;
        let remark_len = self.int()?;
        let remark = self.text(remark_len)?;
        request.remark = (!remark.is_empty()).then_some(Cow::Borrowed(remark));
        // Java takes a negative length of the fields, unlike one of a string, for no fields.
        let fields_len = self.int()?.max(0);
        let end = self.end(fields_len)?;
        self.bytes = self.bytes.get(..end).unwrap_or_default();
        while self.at < end {
            let name_len = self.short()?;
            let name = self.text(i32::from(name_len))?;
            let value_len = self.int()?;
            let value = self.text(value_len)?;
            if name.is_empty() || value.is_empty() {
                continue;
            }
            if request.fields.len() >= MAX_FIELDS {
                return self.fail("too many fields");
            }
            request.fields.push(name, Text::plain(value));
        }
        Ok(())
    }

    #[cold]
    fn fail<T>(&mut self, problem: &'static str) -> Parsed<T> {
        self.problem = HeaderParseError::Binary(problem);
        Err(Malformed)
    }

    #[inline(always)]
    fn chunk<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        match self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => self.fail("it ends early"),
        }
    }

    #[inline(always)]
    fn short(&mut self) -> Parsed<i16> {
        Ok(i16::from_be_bytes(self.chunk()?))
    }

    #[inline(always)]
    fn int(&mut self) -> Parsed<i32> {
        Ok(i32::from_be_bytes(self.chunk()?))
    }

    /// Where `length` more bytes end.
    #[inline(always)]
    fn end(&mut self, length: i32) -> Parsed<usize> {
        let Ok(length) = usize::try_from(length) else { return self.fail("a negative length") };
        let end = self.at + length;
        if end > self.bytes.len() { self.fail("a length past the end") } else { Ok(end) }
    }

    #[inline(always)]
    fn text(&mut self, length: i32) -> Parsed<&'a str> {
        let end = self.end(length)?;
        // `at` never goes back, so it is at or behind `valid_at`.
        let text = match self.valid.get(self.at - self.valid_at..end - self.valid_at) {
            Some(text) => text,
            None => self.validate(end)?,
        };
        self.at = end;
        Ok(text)
    }

    /// Looks how far the bytes from here on are UTF-8, and takes the string that ends at `end`.
    #[cold]
    fn validate(&mut self, end: usize) -> Parsed<&'a str> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let known = match std::str::from_utf8(rest) {
            Ok(text) => Some(text),
            Err(error) => rest.get(..error.valid_up_to()).and_then(|valid| std::str::from_utf8(valid).ok()),
        };
        (self.valid, self.valid_at) = (known.unwrap_or_default(), self.at);
        self.problem = HeaderParseError::Utf8;
        self.valid.get(..end - self.at).ok_or(Malformed)
    }
}

/// What stands in front of the fields.
pub(crate) struct Head<'a> {
    pub(crate) code: i32,
    pub(crate) language: Language,
    pub(crate) version: i32,
    pub(crate) opaque: i32,
    pub(crate) flag: i32,
    pub(crate) remark: Option<&'a str>,
}

impl<'a> Head<'a> {
    /// The head of a response of ours.
    pub(crate) fn response(opaque: i32, code: i32, remark: Option<&'a str>) -> Head<'a> {
        let flag = crate::command::FLAG_RESPONSE;
        Head { code, language: Language::JAVA, version: VERSION, opaque, flag, remark }
    }
}

/// Appends a header; `fields` writes the pairs.
pub(crate) fn write(out: &mut Vec<u8>, head: &Head<'_>, fields: impl FnOnce(&mut BinarySink<'_>)) {
    out.extend_from_slice(&(head.code as i16).to_be_bytes());
    out.push(head.language.0);
    out.extend_from_slice(&(head.version as i16).to_be_bytes());
    out.extend_from_slice(&head.opaque.to_be_bytes());
    out.extend_from_slice(&head.flag.to_be_bytes());
    let remark = head.remark.unwrap_or_default();
    out.extend_from_slice(&(remark.len() as u32).to_be_bytes());
    out.extend_from_slice(remark.as_bytes());
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fields(&mut BinarySink { out });
    let length = (out.len() - start - 4) as u32;
    if let Some(word) = out.get_mut(start..start + 4) {
        word.copy_from_slice(&length.to_be_bytes());
    }
}

/// Writes fields as pairs of the binary layout.
pub(crate) struct BinarySink<'o> {
    out: &'o mut Vec<u8>,
}

impl BinarySink<'_> {
    /// A pair with a name that is not known at compile time. A name that its 16-bit length cannot say is left out.
    pub(crate) fn pair(&mut self, name: &str, value: &str) {
        let Ok(name_len) = i16::try_from(name.len()) else { return };
        self.out.extend_from_slice(&name_len.to_be_bytes());
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        self.out.extend_from_slice(value.as_bytes());
    }
}

impl FieldSink for BinarySink<'_> {
    fn text(&mut self, name: &'static str, value: &str) {
        self.pair(name, value);
    }
    fn number(&mut self, name: &'static str, value: i64) {
        self.pair(name, itoa::Buffer::new().format(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::SerializeType;

    /// A header with these lengths of remark and fields, and the bytes behind them.
    fn header(remark: i32, fields: i32, rest: &[u8]) -> Vec<u8> {
        let mut header = vec![0x0D, 0x72, 99, 2, 1, 0, 0, 0, 5, 0, 0, 0, 2];
        header.extend_from_slice(&remark.to_be_bytes());
        header.extend_from_slice(&fields.to_be_bytes());
        header.extend_from_slice(rest);
        header
    }

    fn pair(name: &str, value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        BinarySink { out: &mut out }.pair(name, value);
        out
    }

    fn decode(header: &[u8]) -> Result<Request<'_>, HeaderParseError> {
        Request::decode(SerializeType::RocketMq, header, &[])
    }

    #[test]
    fn the_parts_of_a_header() {
        let pairs = [pair("topic", "T"), pair("empty", ""), pair("", "x"), pair("n", "\u{4e2d}")].concat();
        let bytes = header(0, pairs.len() as i32, &pairs);
        let request = decode(&bytes).unwrap();
        assert_eq!((request.code, request.version, request.opaque, request.flag), (3442, 513, 5, 2));
        assert_eq!(
            (request.language, request.language.name(), request.remark.as_deref()),
            (Language(99), "OTHER", None)
        );
        let fields: Vec<_> = request.fields.iter().map(|field| (field.name, field.value.as_plain().unwrap())).collect();
        assert_eq!(fields, [("topic", "T"), ("n", "\u{4e2d}")]);
    }

    #[test]
    fn codes_have_sixteen_bits() {
        let mut out = Vec::new();
        write(&mut out, &Head::response(1, 200_050, None), |_| {});
        assert_eq!(decode(&out).unwrap().code, 3442);
        out.clear();
        write(&mut out, &Head::response(1, -1006, Some("late")), |_| {});
        let request = decode(&out).unwrap();
        assert_eq!((request.code, request.remark.as_deref()), (-1006, Some("late")));
    }

    #[test]
    fn long_and_short_strings_that_are_not_ascii() {
        let mut pairs = Vec::new();
        let values: Vec<String> = (0..300).step_by(7).map(|length| "\u{e9}x".repeat(length / 3 + 1)).collect();
        let names: Vec<String> = (0..values.len()).map(|at| format!("name{at}")).collect();
        names.iter().zip(&values).for_each(|(name, value)| pairs.extend(pair(name, value)));
        let bytes = header(0, pairs.len() as i32, &pairs);
        let request = decode(&bytes).unwrap();
        assert_eq!(request.fields.len(), values.len());
        for (field, (name, value)) in request.fields.iter().zip(names.iter().zip(&values)) {
            assert_eq!((field.name, field.value.as_plain()), (name.as_str(), Some(value.as_str())));
        }
    }

    #[test]
    fn strings_that_are_not_utf_8() {
        for value in [&b"\xff"[..], b"\xc3", b"ab\x80", b"\xe4\xb8"] {
            let mut pairs = vec![0, 1, b'a', 0, 0, 0, value.len() as u8];
            pairs.extend_from_slice(value);
            pairs.extend(pair("b", "c"));
            assert_eq!(
                decode(&header(0, pairs.len() as i32, &pairs)).unwrap_err(),
                HeaderParseError::Utf8,
                "{value:?}"
            );
        }
        // A length that would begin a character does not make its string one.
        let pairs = [vec![0, 1, b'a', 0, 0, 0, 0xC3], vec![0xA9; 0xC3]].concat();
        assert_eq!(decode(&header(0, pairs.len() as i32, &pairs)).unwrap_err(), HeaderParseError::Utf8);
    }

    #[test]
    fn b_01_lengths_that_cannot_be() {
        let pairs = pair("a", "1");
        let whole = header(0, pairs.len() as i32, &pairs);
        assert!(decode(&whole).is_ok());
        for cut in 0..whole.len() {
            assert!(matches!(decode(&whole[..cut]), Err(HeaderParseError::Binary(_))), "{cut} bytes");
        }
        let length = pairs.len() as i32;
        for bytes in [
            header(-1, 0, &[]),
            header(i32::MAX, 0, &[]),
            header(i32::MIN, 0, &[]),
            header(0, length + 1, &pairs),
            header(0, length - 1, &pairs),
            header(0, i32::MAX, &pairs),
            header(0, 7, &[0xFF, 0xFF, b'a', 0, 0, 0, 0]),
            header(0, 8, &[0, 1, b'a', 0xFF, 0xFF, 0xFF, 0xFF, b'1']),
            header(0, 8, &[0, 1, b'a', 0x7F, 0xFF, 0xFF, 0xFF, b'1']),
        ] {
            assert!(matches!(decode(&bytes), Err(HeaderParseError::Binary(_))), "{bytes:?}");
        }
        assert!(decode(&header(0, -1, &[])).unwrap().fields.is_empty());
    }
}
