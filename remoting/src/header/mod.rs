//! Typed headers: one declaration per request and response, read from [`Fields`] and written to a [`FieldSink`].

mod admin;
mod auth;
mod client;
mod common;
mod controller;
mod group;
mod ha;
mod lite;
mod macros;
mod namesrv;
mod offset;
mod pop;
mod pull;
mod query;
mod send;
mod send_request;
mod topic;
mod transaction;

use crate::fields::{BoundaryType, FieldError, Fields};

pub use admin::*;
pub use auth::*;
pub use client::*;
pub use common::*;
pub use controller::*;
pub use group::*;
pub use ha::*;
pub use lite::*;
pub use namesrv::*;
pub use offset::*;
pub use pop::*;
pub use pull::*;
pub use query::*;
pub use send::*;
pub use send_request::SendRequest;
pub use topic::*;
pub use transaction::*;

/// One declared field, for the comparison with Java's table of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    /// Name on the wire.
    pub name: &'static str,
    /// Java's name of the type.
    pub java_type: &'static str,
    /// Whether Java's table calls it required. A request without it is refused unless there is a default.
    pub required: bool,
    /// Whether a missing field has a value that is not "none".
    pub default: bool,
}

/// A header that can be read from the fields of a frame.
pub trait Header<'a>: Sized {
    /// The declared fields in order.
    const FIELDS: &'static [FieldSpec];

    /// Reads the header in one pass over the fields. Unknown fields are ignored.
    ///
    /// # Errors
    /// A required field that is missing or of the wrong type: the peer's fault.
    fn read(fields: &Fields<'a>) -> Result<Self, FieldError>;
}

/// A header that can be written into a frame.
pub trait WriteHeader {
    /// Writes every field that has a value.
    fn write(&self, sink: &mut dyn FieldSink);
}

/// Where header fields are written: a JSON object, the binary layout, or a list of pairs.
pub trait FieldSink {
    /// A string value.
    fn text(&mut self, name: &'static str, value: &str);
    /// An integer value (written as a decimal string, as Java does).
    fn number(&mut self, name: &'static str, value: i64);
    /// A boolean value.
    fn flag(&mut self, name: &'static str, value: bool) {
        self.text(name, if value { "true" } else { "false" });
    }
}

/// A type that a header field can be written from.
pub trait ToField {
    /// Writes the value under `name`, or nothing when there is none.
    fn to_field(&self, name: &'static str, sink: &mut dyn FieldSink);
}

impl ToField for str {
    fn to_field(&self, name: &'static str, sink: &mut dyn FieldSink) {
        sink.text(name, self);
    }
}
impl ToField for std::borrow::Cow<'_, str> {
    fn to_field(&self, name: &'static str, sink: &mut dyn FieldSink) {
        sink.text(name, self);
    }
}
impl ToField for crate::fields::Text<'_> {
    fn to_field(&self, name: &'static str, sink: &mut dyn FieldSink) {
        sink.text(name, &self.to_cow());
    }
}
impl ToField for String {
    fn to_field(&self, name: &'static str, sink: &mut dyn FieldSink) {
        sink.text(name, self);
    }
}
impl ToField for i32 {
    fn to_field(&self, name: &'static str, sink: &mut dyn FieldSink) {
        sink.number(name, i64::from(*self));
    }
}
impl ToField for i64 {
    fn to_field(&self, name: &'static str, sink: &mut dyn FieldSink) {
        sink.number(name, *self);
    }
}
impl ToField for bool {
    fn to_field(&self, name: &'static str, sink: &mut dyn FieldSink) {
        sink.flag(name, *self);
    }
}
impl ToField for BoundaryType {
    fn to_field(&self, name: &'static str, sink: &mut dyn FieldSink) {
        sink.text(name, if *self == BoundaryType::Upper { "UPPER" } else { "LOWER" });
    }
}
impl<T: ToField> ToField for Option<T> {
    fn to_field(&self, name: &'static str, sink: &mut dyn FieldSink) {
        if let Some(value) = self {
            value.to_field(name, sink);
        }
    }
}

/// Milliseconds since 1970: what Java gives a time that a request leaves out.
pub(crate) fn now_millis() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The header of a request or a response that has no fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Empty;

impl<'a> Header<'a> for Empty {
    const FIELDS: &'static [FieldSpec] = &[];
    fn read(_: &Fields<'a>) -> Result<Self, FieldError> {
        Ok(Empty)
    }
}
impl WriteHeader for Empty {
    fn write(&self, _: &mut dyn FieldSink) {}
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::fields::Text;

    crate::header! {
        /// A header with a field of each kind.
        pub struct Sample<'a> {
            "topic" topic: Cow<'a, str>,
            "queueId" queue_id: i32,
            "committed" committed: bool = true,
            required "popTime" pop_time: i64 = -1,
            "maxNum" max_num: Option<i32>,
            "bname" broker_name: Option<Cow<'a, str>>,
        }
    }

    crate::header! {
        /// Without a lifetime, and strict.
        pub struct Strict: strict {
            "maxNum" max_num: Option<i32>,
            "queueId" queue_id: i32 = 4,
        }
    }

    fn fields<'a>(pairs: &[(&'a str, &'a str)]) -> Fields<'a> {
        let mut fields = Fields::new();
        pairs.iter().for_each(|(name, value)| fields.push(name, Text::plain(value)));
        fields
    }

    #[test]
    fn required_optional_and_default() {
        assert_eq!(Sample::read(&fields(&[("topic", "T")])).unwrap_err(), FieldError::Missing("queueId"));
        let sample = Sample::read(&fields(&[("queueId", "7"), ("other", "x"), ("topic", "T")])).unwrap();
        let expected =
            Sample { topic: "T".into(), queue_id: 7, committed: true, pop_time: -1, max_num: None, broker_name: None };
        assert_eq!(sample, expected);
        let of = |pick: fn(&FieldSpec) -> bool| Sample::FIELDS.iter().map(pick).collect::<Vec<_>>();
        assert_eq!(of(|field| field.required), [true, true, false, true, false, false]);
        assert_eq!(of(|field| field.default), [false, false, true, true, false, false]);
    }

    #[test]
    fn the_last_of_two_values_counts() {
        let sample = Sample::read(&fields(&[("topic", "A"), ("queueId", "1"), ("topic", "B")])).unwrap();
        assert_eq!(sample.topic, "B");
    }

    #[test]
    fn a_malformed_value_counts_as_missing() {
        let error = Sample::read(&fields(&[("topic", "T"), ("queueId", "abc")])).unwrap_err();
        assert!(matches!(error, FieldError::Malformed { name: "queueId", .. }));
        let pairs = [("topic", "T"), ("queueId", "1"), ("maxNum", "many"), ("popTime", "now"), ("committed", "?")];
        let sample = Sample::read(&fields(&pairs)).unwrap();
        assert_eq!((sample.max_num, sample.pop_time, sample.committed), (None, -1, false));
    }

    #[test]
    fn a_strict_header_refuses_a_malformed_value() {
        for name in ["maxNum", "queueId"] {
            let error = Strict::read(&fields(&[(name, "many")])).unwrap_err();
            assert!(matches!(error, FieldError::Malformed { .. }), "{name}");
        }
        assert_eq!(Strict::read(&Fields::new()).unwrap(), Strict::default());
        assert_eq!(Strict::default().queue_id, 4);
    }

    #[test]
    fn shared_fields_are_read() {
        let request = TopicRequest::read(&fields(&[("bname", "b"), ("lo", "True"), ("oway", "1")])).unwrap();
        assert_eq!((request.bname.as_deref(), request.lo, request.oway), (Some("b"), Some(true), Some(false)));
    }
}
