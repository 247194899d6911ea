//! Answers as whole frames: written straight into the output, or owned for everything that is not on the hot path.

use bytes::Bytes;

use crate::binary::{self, Head};
use crate::code::ResponseCode;
use crate::command::{PairSink, SerializeType, write_header};
use crate::header::WriteHeader;
use crate::{frame, json};

/// Appends a whole response frame: no allocation but the growth of `out`.
///
/// An answer that no frame can carry (a header over 16 MiB, a frame over 2 GiB) becomes a SYSTEM_ERROR.
pub fn encode(
    out: &mut Vec<u8>,
    serialize: SerializeType,
    opaque: i32,
    code: i32,
    remark: Option<&str>,
    header: &dyn WriteHeader,
    body: impl FnOnce(&mut Vec<u8>),
) {
    let head = Head::response(opaque, code, remark);
    let write = |out: &mut Vec<u8>| match serialize {
        SerializeType::Json => json::write(out, &head, |sink| header.write(sink)),
        SerializeType::RocketMq => binary::write(out, &head, |sink| header.write(sink)),
    };
    if !frame::append(out, serialize, write, body) {
        encode_too_large(out, serialize, opaque);
    }
}

#[cold]
fn encode_too_large(out: &mut Vec<u8>, serialize: SerializeType, opaque: i32) {
    let remark = "the answer is too large for a frame";
    let head = Head::response(opaque, ResponseCode::SYSTEM_ERROR.0, Some(remark));
    frame::append(out, serialize, |out| write_header(out, serialize, &head, &[]), |_| {});
}

/// An answer to be sent: code, remark, header fields and body. The server adds opaque, language and version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// A [`ResponseCode`].
    pub code: i32,
    /// A text for people and tools.
    pub remark: Option<String>,
    /// Header fields.
    pub fields: Vec<(String, String)>,
    /// The body; empty when there is none.
    pub body: Bytes,
}

impl Reply {
    /// SUCCESS, without fields and body.
    pub fn ok() -> Reply {
        Reply::default()
    }

    /// Any code with a remark.
    pub fn error(code: ResponseCode, remark: impl Into<String>) -> Reply {
        Reply { code: code.0, remark: Some(remark.into()), ..Reply::default() }
    }

    /// Any code without a remark.
    pub fn code(code: ResponseCode) -> Reply {
        Reply { code: code.0, ..Reply::default() }
    }

    /// Appends the answer as a whole frame, as [`encode`] does.
    pub fn encode(&self, serialize: SerializeType, opaque: i32, out: &mut Vec<u8>) {
        let head = Head::response(opaque, self.code, self.remark.as_deref());
        let header = |out: &mut Vec<u8>| write_header(out, serialize, &head, &self.fields);
        if !frame::append(out, serialize, header, |out| out.extend_from_slice(&self.body)) {
            encode_too_large(out, serialize, opaque);
        }
    }

    /// Sets the remark.
    pub fn remark(mut self, remark: impl Into<String>) -> Reply {
        self.remark = Some(remark.into());
        self
    }

    /// Adds all fields of a header.
    pub fn header(mut self, header: &dyn WriteHeader) -> Reply {
        header.write(&mut PairSink(&mut self.fields));
        self
    }

    /// Adds one field.
    pub fn field(mut self, name: &str, value: impl ToString) -> Reply {
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Reply {
        self.body = body.into();
        self
    }
}
