//! An owned command: what we send to a peer on our own account, and what comes back. The cold path; requests that a
//! server handles are read as a borrowed [`Request`].

use bytes::Bytes;
use thiserror::Error;

use crate::binary::{self, Head};
use crate::code::RequestCode;
use crate::fields::Field;
use crate::header::{FieldSink, WriteHeader};
use crate::request::{HeaderParseError, Request};
use crate::{frame, json};

/// The version number that we announce: Java's `MQVersion` ordinal of V5_5_0.
pub const VERSION: i32 = 513;

/// Bit 0 of the flag: the command is a response.
pub const FLAG_RESPONSE: i32 = 1;
/// Bit 1 of the flag: nobody waits for an answer.
pub const FLAG_ONEWAY: i32 = 2;

/// How a header is laid out in bytes: the top byte of a frame's second word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SerializeType {
    /// A JSON object.
    #[default]
    Json = 0,
    /// The ROCKETMQ binary layout.
    RocketMq = 1,
}

/// A value of [`SerializeType::VARIABLE`] that is none of the names. The operator's fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("ROCKETMQ_SERIALIZE_TYPE={0}: expected JSON or ROCKETMQ")]
pub struct UnknownSerializeType(pub String);

impl SerializeType {
    /// The environment variable that says how a server lays out its own headers.
    pub const VARIABLE: &str = "ROCKETMQ_SERIALIZE_TYPE";

    /// What the environment says; JSON when it says nothing.
    ///
    /// # Errors
    /// Another value than the two names.
    pub fn from_env() -> Result<SerializeType, UnknownSerializeType> {
        match std::env::var_os(Self::VARIABLE) {
            Some(name) => Self::from_name(&name.to_string_lossy()),
            None => Ok(SerializeType::Json),
        }
    }

    /// The layout of a name, in any case; JSON for a blank one.
    ///
    /// # Errors
    /// Another name.
    pub fn from_name(name: &str) -> Result<SerializeType, UnknownSerializeType> {
        match name {
            name if name.trim().is_empty() || name.eq_ignore_ascii_case("JSON") => Ok(SerializeType::Json),
            name if name.eq_ignore_ascii_case("ROCKETMQ") => Ok(SerializeType::RocketMq),
            name => Err(UnknownSerializeType(name.to_owned())),
        }
    }
}

/// The language of a peer, by its number in the binary layout (Java's `LanguageCode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Language(pub u8);

impl Language {
    /// What we say: clients and tools take a server for a Java one.
    pub const JAVA: Language = Language(0);
    /// The C++ client.
    pub const CPP: Language = Language(1);
    /// Any that has no name of its own.
    pub const OTHER: Language = Language(7);
    /// Names in the order of their numbers.
    pub const NAMES: [&'static str; 14] = [
        "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
        "NODE_JS",
    ];

    /// The language of that name; an unknown one is OTHER.
    pub fn from_name(name: &str) -> Language {
        Self::NAMES.iter().position(|known| *known == name).map_or(Self::OTHER, |at| Language(at as u8))
    }

    /// The name; an unknown number is OTHER.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0)).copied().unwrap_or("OTHER")
    }
}

/// An owned request or response.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// A [`RequestCode`] in a request, a [`ResponseCode`](crate::ResponseCode) in a response.
    pub code: i32,
    /// Language of the sender.
    pub language: Language,
    /// Version of the sender.
    pub version: i32,
    /// Pairs a response with its request.
    pub opaque: i32,
    /// [`FLAG_RESPONSE`], [`FLAG_ONEWAY`].
    pub flag: i32,
    /// A text for people; tools print it.
    pub remark: Option<String>,
    /// The header fields.
    pub fields: Vec<(String, String)>,
    /// The body; empty when there is none.
    pub body: Bytes,
}

impl Command {
    /// A request of ours without fields and body. The opaque is given when it is sent.
    pub fn request(code: RequestCode) -> Command {
        Command {
            code: code.0,
            language: Language::JAVA,
            version: VERSION,
            opaque: 0,
            flag: 0,
            remark: None,
            fields: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// Adds all fields of a header.
    pub fn header(mut self, header: &dyn WriteHeader) -> Command {
        header.write(&mut PairSink(&mut self.fields));
        self
    }

    /// Adds one field.
    pub fn field(mut self, name: &str, value: impl ToString) -> Command {
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Command {
        self.body = body.into();
        self
    }

    /// The value of a field: the last one when it is there twice.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Appends the command as a whole frame.
    ///
    /// A header over 16 MiB or a frame over 2 GiB has no form on the wire: nothing is appended then, and it is logged.
    pub fn encode(&self, serialize: SerializeType, out: &mut Vec<u8>) {
        let head = Head {
            code: self.code,
            language: self.language,
            version: self.version,
            opaque: self.opaque,
            flag: self.flag,
            remark: self.remark.as_deref(),
        };
        let header = |out: &mut Vec<u8>| write_header(out, serialize, &head, &self.fields);
        if !frame::append(out, serialize, header, |out| out.extend_from_slice(&self.body)) {
            tracing::error!(code = self.code, "a command too large for a frame is not sent");
        }
    }

    /// Reads a frame's header into an owned command.
    ///
    /// # Errors
    /// As [`Request::decode`].
    pub fn decode(serialize: SerializeType, header: &[u8], body: Bytes) -> Result<Command, HeaderParseError> {
        let request = Request::decode(serialize, header, &[])?;
        let fields = &request.fields;
        let pair = |field: &Field<'_>| (fields.name(field).into_owned(), field.value.to_cow().into_owned());
        Ok(Command {
            code: request.code,
            language: request.language,
            version: request.version,
            opaque: request.opaque,
            flag: request.flag,
            remark: request.remark.as_deref().map(str::to_owned),
            fields: fields.iter().map(pair).collect(),
            body,
        })
    }

    /// Whether this answers a request.
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether nobody waits for an answer.
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }
}

/// Appends a header with owned fields.
pub(crate) fn write_header(out: &mut Vec<u8>, serialize: SerializeType, head: &Head<'_>, pairs: &[(String, String)]) {
    match serialize {
        SerializeType::Json => {
            json::write(out, head, |sink| pairs.iter().for_each(|(name, value)| sink.pair(name, value)));
        }
        SerializeType::RocketMq => {
            binary::write(out, head, |sink| pairs.iter().for_each(|(name, value)| sink.pair(name, value)));
        }
    }
}

/// Collects header fields as owned pairs.
pub struct PairSink<'v>(pub &'v mut Vec<(String, String)>);

impl FieldSink for PairSink<'_> {
    fn text(&mut self, name: &'static str, value: &str) {
        self.0.push((name.to_owned(), value.to_owned()));
    }
    fn number(&mut self, name: &'static str, value: i64) {
        self.0.push((name.to_owned(), value.to_string()));
    }
}
