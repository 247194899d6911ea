//! One request as it stands in the read buffer: every part borrows from the frame.

use std::borrow::Cow;

use thiserror::Error;

use crate::command::{FLAG_ONEWAY, FLAG_RESPONSE, Language, SerializeType};
use crate::fields::Fields;
use crate::{binary, json};

/// A decoded frame that borrows from the bytes of the frame.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// A request code, or a response code when [`Request::is_response`].
    pub code: i32,
    /// Language of the peer.
    pub language: Language,
    /// Version of the peer (Java's `MQVersion` ordinal).
    pub version: i32,
    /// Pairs the answer with the request.
    pub opaque: i32,
    /// Bit 0: a response; bit 1: one-way.
    pub flag: i32,
    /// How the peer laid out its header.
    pub serialize: SerializeType,
    /// Remark, `None` when missing or null.
    pub remark: Option<Cow<'a, str>>,
    /// The header fields.
    pub fields: Fields<'a>,
    /// The body; empty when there is none.
    pub body: &'a [u8],
}

/// A header that cannot be read at all. The peer's fault; the connection is closed, as Java does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderParseError {
    /// Bytes that are not UTF-8. (Java replaces some of them and refuses others.)
    #[error("the header is not UTF-8")]
    Utf8,
    /// Not the JSON that a header can be.
    #[error("the JSON header is malformed at byte {at}: expected {expected}")]
    Json {
        /// Where, in bytes from the header's beginning.
        at: usize,
        /// What could have stood there.
        expected: &'static str,
    },
    /// A binary header that ends early or contradicts itself.
    #[error("the binary header is malformed: {0}")]
    Binary(&'static str),
}

impl<'a> Request<'a> {
    /// Reads a frame's header; nothing is copied.
    ///
    /// Missing members are zero (the language: JAVA), unknown ones are skipped, a field with the value null counts as
    /// missing.
    ///
    /// # Errors
    /// Bytes that are no header.
    pub fn decode(serialize: SerializeType, header: &'a [u8], body: &'a [u8]) -> Result<Request<'a>, HeaderParseError> {
        let mut request = Request::empty(serialize, body);
        match serialize {
            SerializeType::Json => json::read(header, &mut request)?,
            SerializeType::RocketMq => binary::read(header, &mut request)?,
        }
        Ok(request)
    }

    fn empty(serialize: SerializeType, body: &'a [u8]) -> Request<'a> {
        Request {
            code: 0,
            language: Language::JAVA,
            version: 0,
            opaque: 0,
            flag: 0,
            serialize,
            remark: None,
            fields: Fields::new(),
            body,
        }
    }

    /// Whether this is an answer to a request of ours.
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether nobody waits for an answer.
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }
}
