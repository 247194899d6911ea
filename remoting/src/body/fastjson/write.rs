//! A serde serializer for the dialect.

use serde::ser::{self, Serialize};

use super::JsonError;

/// How to lay a value out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Keys like values.
    Dialect,
    /// Quoted keys, large integers as strings.
    Standard,
    /// The dialect, indented.
    Pretty,
}

pub(super) fn write<T: Serialize + ?Sized>(value: &T, style: Style) -> Result<Vec<u8>, JsonError> {
    let mut writer = Writer { out: Vec::with_capacity(128), style, depth: 0, flat: false, missing: false };
    value.serialize(&mut writer)?;
    Ok(writer.out)
}

struct Writer {
    out: Vec<u8>,
    style: Style,
    depth: usize,
    /// Inside a tuple: Java's arrays of numbers, which stay on one line.
    flat: bool,
    /// The value just written was a missing one, so that its field is left out.
    missing: bool,
}

impl Writer {
    fn line(&mut self) {
        if self.style == Style::Pretty && !self.flat {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + self.depth, b'\t');
        }
    }

    fn open(&mut self, bracket: u8) -> Level<'_> {
        self.out.push(bracket);
        self.depth += 1;
        let bracket = if bracket == b'{' { b'}' } else { b']' };
        Level { writer: self, bracket, empty: true, extra: false, mark: 0 }
    }

    /// `{"variant":` of an enum with data; the caller closes it.
    fn variant(&mut self, variant: &str) {
        self.out.push(b'{');
        string(&mut self.out, variant);
        self.out.push(b':');
    }

    fn integer(&mut self, value: impl itoa::Integer) {
        let mut buffer = itoa::Buffer::new();
        self.out.extend_from_slice(buffer.format(value).as_bytes());
    }

    /// An integer whose size may be beyond what a JavaScript number holds.
    fn long(&mut self, value: impl itoa::Integer, exact: bool) {
        let quoted = self.style == Style::Standard && !exact;
        if quoted {
            self.out.push(b'"');
        }
        self.integer(value);
        if quoted {
            self.out.push(b'"');
        }
    }
}

/// An object or array being written.
struct Level<'w> {
    writer: &'w mut Writer,
    bracket: u8,
    empty: bool,
    /// Inside the object of an enum variant, which is closed too.
    extra: bool,
    /// Where the current member began.
    mark: usize,
}

impl Level<'_> {
    fn next(&mut self) {
        self.mark = self.writer.out.len();
        if !self.empty {
            self.writer.out.push(b',');
        }
        self.writer.line();
    }

    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), JsonError> {
        self.next();
        let start = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        if self.writer.style == Style::Standard && matches!(self.writer.out.get(start), Some(byte) if *byte != b'"') {
            self.writer.out.insert(start, b'"');
            self.writer.out.push(b'"');
        }
        self.writer.out.push(b':');
        Ok(())
    }

    /// The value of a member; the whole member goes away when the value is missing.
    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        self.writer.missing = false;
        value.serialize(&mut *self.writer)?;
        if std::mem::take(&mut self.writer.missing) {
            self.writer.out.truncate(self.mark);
        } else {
            self.empty = false;
        }
        Ok(())
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        self.next();
        value.serialize(&mut *self.writer)?;
        self.writer.missing = false;
        self.empty = false;
        Ok(())
    }

    fn finish(mut self) -> Result<(), JsonError> {
        self.close();
        Ok(())
    }

    fn close(&mut self) {
        self.writer.depth -= 1;
        if !self.empty {
            self.writer.line();
        }
        self.writer.out.push(self.bracket);
        if self.extra {
            self.writer.out.push(b'}');
        }
    }
}

/// Appends a quoted string, escaped as fastjson2 does by default: controls, quote and backslash only.
fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            8 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            12 => b'f',
            b'\r' => b'r',
            0..0x20 => b'u',
            _ => continue,
        };
        out.extend_from_slice(&bytes[copied..at]);
        copied = at + 1;
        out.extend_from_slice(&[b'\\', short]);
        if short == b'u' {
            let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0') as u8;
            out.extend_from_slice(&[b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

/// Appends a number as Java's `Double.toString` prints it.
fn double(out: &mut Vec<u8>, scientific: &str, value: f64) {
    let size = value.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        let plain = plain(scientific);
        out.extend_from_slice(plain.as_bytes());
        return;
    }
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    out.extend_from_slice(digits.as_bytes());
    if !digits.contains('.') {
        out.extend_from_slice(b".0");
    }
    out.push(b'E');
    out.extend_from_slice(exponent.as_bytes());
}

/// `1.25e-3` as `0.00125`, always with a fraction.
fn plain(scientific: &str) -> String {
    let value = scientific.parse::<f64>().unwrap_or_default();
    let text = value.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

impl<'w> ser::Serializer for &'w mut Writer {
    type Ok = ();
    type Error = JsonError;
    type SerializeSeq = Level<'w>;
    type SerializeTuple = Level<'w>;
    type SerializeTupleStruct = Level<'w>;
    type SerializeTupleVariant = Level<'w>;
    type SerializeMap = Level<'w>;
    type SerializeStruct = Level<'w>;
    type SerializeStructVariant = Level<'w>;

    fn serialize_bool(self, value: bool) -> Result<(), JsonError> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }
    fn serialize_i8(self, value: i8) -> Result<(), JsonError> {
        self.integer(value);
        Ok(())
    }
    fn serialize_i16(self, value: i16) -> Result<(), JsonError> {
        self.integer(value);
        Ok(())
    }
    fn serialize_i32(self, value: i32) -> Result<(), JsonError> {
        self.integer(value);
        Ok(())
    }
    fn serialize_i64(self, value: i64) -> Result<(), JsonError> {
        self.long(value, value.unsigned_abs() < 1 << 53);
        Ok(())
    }
    fn serialize_u8(self, value: u8) -> Result<(), JsonError> {
        self.integer(value);
        Ok(())
    }
    fn serialize_u16(self, value: u16) -> Result<(), JsonError> {
        self.integer(value);
        Ok(())
    }
    fn serialize_u32(self, value: u32) -> Result<(), JsonError> {
        self.integer(value);
        Ok(())
    }
    fn serialize_u64(self, value: u64) -> Result<(), JsonError> {
        self.long(value, value < 1 << 53);
        Ok(())
    }
    fn serialize_f32(self, value: f32) -> Result<(), JsonError> {
        if value.is_finite() {
            double(&mut self.out, &format!("{value:e}"), f64::from(value));
        } else {
            self.out.extend_from_slice(b"null");
        }
        Ok(())
    }
    fn serialize_f64(self, value: f64) -> Result<(), JsonError> {
        if value.is_finite() {
            double(&mut self.out, &format!("{value:e}"), value);
        } else {
            self.out.extend_from_slice(b"null");
        }
        Ok(())
    }
    fn serialize_char(self, value: char) -> Result<(), JsonError> {
        string(&mut self.out, value.encode_utf8(&mut [0; 4]));
        Ok(())
    }
    fn serialize_str(self, value: &str) -> Result<(), JsonError> {
        string(&mut self.out, value);
        Ok(())
    }
    fn serialize_bytes(self, value: &[u8]) -> Result<(), JsonError> {
        let mut level = self.open(b'[');
        for byte in value {
            level.element(byte)?;
        }
        level.finish()
    }
    fn serialize_none(self) -> Result<(), JsonError> {
        self.out.extend_from_slice(b"null");
        self.missing = true;
        Ok(())
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), JsonError> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), JsonError> {
        self.serialize_none()
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), JsonError> {
        self.serialize_none()
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), JsonError> {
        self.serialize_str(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), JsonError> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), JsonError> {
        self.variant(variant);
        value.serialize(&mut *self)?;
        self.missing = false;
        self.out.push(b'}');
        Ok(())
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Level<'w>, JsonError> {
        Ok(self.open(b'['))
    }
    fn serialize_tuple(self, _: usize) -> Result<Level<'w>, JsonError> {
        self.flat = true;
        Ok(self.open(b'['))
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Level<'w>, JsonError> {
        Ok(self.open(b'['))
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Level<'w>, JsonError> {
        self.variant(variant);
        let mut level = self.open(b'[');
        level.extra = true;
        Ok(level)
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Level<'w>, JsonError> {
        Ok(self.open(b'{'))
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Level<'w>, JsonError> {
        Ok(self.open(b'{'))
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Level<'w>, JsonError> {
        self.variant(variant);
        let mut level = self.open(b'{');
        level.extra = true;
        Ok(level)
    }
}

impl ser::SerializeSeq for Level<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        self.element(value)
    }
    fn end(self) -> Result<(), JsonError> {
        self.finish()
    }
}

impl ser::SerializeTuple for Level<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        self.element(value)
    }
    fn end(mut self) -> Result<(), JsonError> {
        self.close();
        self.writer.flat = false;
        Ok(())
    }
}

impl ser::SerializeTupleStruct for Level<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        self.element(value)
    }
    fn end(self) -> Result<(), JsonError> {
        self.finish()
    }
}

impl ser::SerializeTupleVariant for Level<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        self.element(value)
    }
    fn end(self) -> Result<(), JsonError> {
        self.finish()
    }
}

impl ser::SerializeMap for Level<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), JsonError> {
        self.key(key)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        self.value(value)
    }
    fn end(self) -> Result<(), JsonError> {
        self.finish()
    }
}

impl ser::SerializeStruct for Level<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), JsonError> {
        self.key(key)?;
        self.value(value)
    }
    fn end(self) -> Result<(), JsonError> {
        self.finish()
    }
}

impl ser::SerializeStructVariant for Level<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), JsonError> {
        self.key(key)?;
        self.value(value)
    }
    fn end(self) -> Result<(), JsonError> {
        self.finish()
    }
}
