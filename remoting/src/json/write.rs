//! The JSON header, written: fastjson's order of members (alphabetical), `extFields` and `remark` left out when there
//! are none.

use crate::binary::Head;
use crate::header::FieldSink;

/// Appends a header; `fields` writes the members of `extFields`.
pub(crate) fn write(out: &mut Vec<u8>, head: &Head<'_>, fields: impl FnOnce(&mut JsonSink<'_>)) {
    let mut digits = itoa::Buffer::new();
    out.extend_from_slice(b"{\"code\":");
    out.extend_from_slice(digits.format(head.code).as_bytes());
    let mut sink = JsonSink { out, any: false };
    fields(&mut sink);
    if sink.any {
        out.push(b'}');
    }
    out.extend_from_slice(b",\"flag\":");
    out.extend_from_slice(digits.format(head.flag).as_bytes());
    out.extend_from_slice(b",\"language\":\"");
    out.extend_from_slice(head.language.name().as_bytes());
    out.extend_from_slice(b"\",\"opaque\":");
    out.extend_from_slice(digits.format(head.opaque).as_bytes());
    if let Some(remark) = head.remark {
        out.extend_from_slice(b",\"remark\":\"");
        write_escaped(out, remark);
        out.push(b'"');
    }
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    out.extend_from_slice(digits.format(head.version).as_bytes());
    out.push(b'}');
}

/// Writes fields as members of `extFields`.
pub(crate) struct JsonSink<'o> {
    out: &'o mut Vec<u8>,
    any: bool,
}

impl JsonSink<'_> {
    /// What stands in front of a name.
    fn open(&mut self) {
        let open: &[u8] = if self.any { b",\"" } else { b",\"extFields\":{\"" };
        self.out.extend_from_slice(open);
        self.any = true;
    }

    /// A member with a name that is not known at compile time.
    pub(crate) fn pair(&mut self, name: &str, value: &str) {
        self.open();
        write_escaped(self.out, name);
        self.out.extend_from_slice(b"\":\"");
        write_escaped(self.out, value);
        self.out.push(b'"');
    }

    /// A member whose name and value need no escapes.
    fn clean(&mut self, name: &'static str, value: &str) {
        self.open();
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":\"");
        self.out.extend_from_slice(value.as_bytes());
        self.out.push(b'"');
    }
}

impl FieldSink for JsonSink<'_> {
    fn text(&mut self, name: &'static str, value: &str) {
        self.pair(name, value);
    }
    fn number(&mut self, name: &'static str, value: i64) {
        self.clean(name, itoa::Buffer::new().format(value));
    }
    fn flag(&mut self, name: &'static str, value: bool) {
        self.clean(name, if value { "true" } else { "false" });
    }
}

/// What follows the backslash for each byte; 0: the byte stands for itself.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = b'u';
        byte += 1;
    }
    table[8] = b'b';
    table[9] = b't';
    table[10] = b'n';
    table[12] = b'f';
    table[13] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

/// Appends the content of a JSON string, escaped as fastjson does.
pub(crate) fn write_escaped(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let escape = ESCAPES[usize::from(*byte)];
        if escape == 0 {
            continue;
        }
        out.extend_from_slice(&bytes[start..at]);
        start = at + 1;
        out.extend_from_slice(&[b'\\', escape]);
        if escape == b'u' {
            out.extend_from_slice(&[b'0', b'0', b'0' + (byte >> 4), HEX[usize::from(byte & 15)]]);
        }
    }
    out.extend_from_slice(&bytes[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Java 5.5.0 writes for the same remark and fields.
    #[test]
    fn written_as_java_does() {
        let remark: String =
            (0..0x23u8).map(char::from).chain("/'<>&\\\u{7f}\u{80}\u{2028}\u{feff}\u{4e2d}\u{1F600}".chars()).collect();
        let mut out = Vec::new();
        write(&mut out, &Head::response(7, 1, Some(&remark)), |sink| sink.pair("k\"1", "\0\u{1}\u{2}"));
        let expected = concat!(
            r#"{"code":1,"extFields":{"k\"1":"\u0000\u0001\u0002"},"flag":1,"language":"JAVA","opaque":7,"remark":""#,
            r"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f\u0010\u0011\u0012\u0013\u0014",
            r#"\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f !\"/'<>&\\"#,
            "\u{7f}\u{80}\u{2028}\u{feff}\u{4e2d}\u{1F600}",
            r#"","serializeTypeCurrentRPC":"JSON","version":513}"#
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
