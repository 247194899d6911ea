//! JSON as Java's fastjson2 writes and reads it.
//!
//! Java 5.5.0 calls fastjson2 with its defaults, which is not quite JSON:
//! * a map key is written like a value: `{0:"addr"}` for an integer, `{{"brokerName":"b","queueId":0}:{..}}` for an object;
//! * fields without a value are left out; fields of an object stand in alphabetical order (so ours are declared in it);
//! * a floating number looks as `Double.toString` prints it (`1.0E7`); one that is not finite is `null`;
//! * route answers for newer clients use "browser compatible" JSON instead: integer keys are quoted, and integers beyond
//!   2^53 are strings ([`to_vec_standard`]).
//!
//! Reading takes both forms, and what fastjson2 takes beyond: single-quoted strings, comments, trailing commas, raw
//! control characters, a field twice (the last one counts). An object key reaches serde as a string that holds its JSON
//! text: see [`ObjectKey`]. Standard JSON goes straight to serde; only what serde refuses is rewritten and tried again.

mod read;
mod write;

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// Why a body could not be read. The peer's fault.
#[derive(Debug, Error)]
pub enum JsonError {
    /// Not the dialect either.
    #[error("expected {expected} at byte {at}")]
    Syntax {
        /// Offset in the input.
        at: usize,
        /// What would have been right there.
        expected: &'static str,
    },
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} at byte {0}")]
    TooDeep(usize),
    /// Well formed, but not of the wanted shape.
    #[error("{0}")]
    Shape(#[from] serde_json::Error),
    /// A value that JSON cannot hold; the fault of our own type.
    #[error("cannot be written: {0}")]
    Unwritable(String),
}

impl serde::ser::Error for JsonError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        JsonError::Unwritable(message.to_string())
    }
}

/// How deep objects and arrays may be nested.
pub const MAX_DEPTH: usize = 120;

/// Reads a body. An empty body reads as `null`, so ask for an `Option` where there may be none.
///
/// A field that is `null` counts as missing: give it a `#[serde(default)]`.
///
/// # Errors
/// Not JSON in either form, nested too deeply, or not of the shape of `T`.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(value),
        Err(_) => Ok(serde_json::from_slice(&read::to_standard(bytes)?)?),
    }
}

/// Writes the dialect: the body of most answers.
///
/// # Errors
/// None for types without a failing `Serialize`.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, JsonError> {
    write::write(value, write::Style::Dialect)
}

/// Writes with quoted integer keys: route answers for clients that ask for standard JSON.
///
/// # Errors
/// As [`to_vec`].
pub fn to_vec_standard<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, JsonError> {
    write::write(value, write::Style::Standard)
}

/// Writes the dialect over several lines, indented by tabs: the files below `config/`.
///
/// # Errors
/// As [`to_vec`].
pub fn to_vec_pretty<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, JsonError> {
    write::write(value, write::Style::Pretty)
}

/// A map key that is an object (a message queue, say): `BTreeMap<ObjectKey<MessageQueue>, _>`.
///
/// Written by this module only; serde_json refuses such keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey<T>(pub T);

impl<T: Serialize> Serialize for ObjectKey<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for ObjectKey<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        serde_json::from_str(&text).map(ObjectKey).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize, PartialOrd, Ord, Eq)]
    #[serde(rename_all = "camelCase")]
    struct Queue {
        broker_name: String,
        queue_id: i32,
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Body {
        addrs: BTreeMap<i64, String>,
        name: Option<String>,
        rate: f64,
        size: i64,
        table: BTreeMap<ObjectKey<Queue>, Vec<i32>>,
    }

    fn body() -> Body {
        let queue = Queue { broker_name: "b \"x\"".into(), queue_id: 3 };
        Body {
            addrs: [(0, "a".into()), (10, "c".into()), (2, "b".into())].into(),
            name: None,
            rate: 1e7,
            size: 9_007_199_254_740_993,
            table: [(ObjectKey(queue), vec![1, 2])].into(),
        }
    }

    #[test]
    fn dialect_round_trip() {
        let bytes = to_vec(&body()).unwrap();
        let text = r#"{"addrs":{0:"a",2:"b",10:"c"},"rate":1.0E7,"size":9007199254740993,"table":{{"brokerName":"b \"x\"","queueId":3}:[1,2]}}"#;
        assert_eq!(String::from_utf8_lossy(&bytes), text);
        assert_eq!(from_slice::<Body>(&bytes).unwrap(), body());
    }

    #[test]
    fn standard_quotes_integer_keys_and_large_integers() {
        let mut body = body();
        body.table.clear();
        let bytes = to_vec_standard(&body).unwrap();
        let text = r#"{"addrs":{"0":"a","2":"b","10":"c"},"rate":1.0E7,"size":"9007199254740993","table":{}}"#;
        assert_eq!(String::from_utf8_lossy(&bytes), text);
    }

    #[test]
    fn pretty_as_java_formats_files() {
        let value: BTreeMap<&str, BTreeMap<i32, Vec<i32>>> =
            [("a", [(2, vec![3])].into()), ("b", BTreeMap::new())].into();
        let text = "{\n\t\"a\":{\n\t\t2:[\n\t\t\t3\n\t\t]\n\t},\n\t\"b\":{}\n}";
        assert_eq!(String::from_utf8(to_vec_pretty(&value).unwrap()).unwrap(), text);
    }

    #[test]
    fn reads_what_fastjson_reads() {
        let body: Body =
            from_slice(b"/* c */{'name':'it\\'s \\x41',\"addrs\":{0:\"a\",\"1\":null,},\"rate\":null} ").unwrap();
        assert_eq!(body.name.as_deref(), Some("it's A"));
        assert_eq!(body.addrs, [(0, "a".to_owned())].into());
        let body: Body = from_slice(b"{\"name\":\"a\nb\"}").unwrap();
        assert_eq!(body.name.as_deref(), Some("a\nb"));
        assert_eq!(from_slice::<Option<Body>>(b"").unwrap(), None);
        assert_eq!(from_slice::<Option<Body>>(b"null").unwrap(), None);
    }

    #[test]
    fn the_last_of_a_repeated_field_counts() {
        let body: Body =
            from_slice(br#"{"name":"a","size":1,"addrs":{0:"x"},"name":"b","addrs":{1:"y",1:"z"}}"#).unwrap();
        assert_eq!((body.name.as_deref(), body.size), (Some("b"), 1));
        assert_eq!(body.addrs, [(1, "z".to_owned())].into());
        let body: Body = from_slice(br#"{"name":"a","name":null,"size":7,"size":8,"size":9}"#).unwrap();
        assert_eq!((body.name, body.size), (None, 9));
        let body: Body = from_slice(br#"{"name":null,'name':"a"}"#).unwrap();
        assert_eq!(body.name.as_deref(), Some("a"));
        let body: Body = from_slice(br#"{"name":"a","name":null}"#).unwrap();
        assert_eq!(body, Body::default());
        // Many of them take no longer than many others.
        let many: String = (0..100_000).map(|i| format!("\"k{i}\":null,\"size\":{i},")).collect();
        assert_eq!(from_slice::<Body>(format!("{{{many}}}").as_bytes()).unwrap().size, 99_999);
    }

    #[test]
    fn refuses_what_fastjson_refuses() {
        for bad in
            ["5", "{", "{\"name\":\"a\"", "{\"name\":\"a\"} x", "{name:1}", "{\"size\":\"abc\"}", "{'a", "{\"a\" 1}"]
        {
            assert!(from_slice::<Body>(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(from_slice::<Body>(b"{\"name\":\"\xff\xfe\"}").is_err());
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        assert!(matches!(from_slice::<Body>(&deep), Err(JsonError::TooDeep(_))));
    }

    #[test]
    fn strings_as_fastjson_escapes_them() {
        let text: String = "\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f}\"\\/<>\u{7f}\u{80}\u{2028}中😀".into();
        let bytes = to_vec(&text).unwrap();
        let expected = "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f\\\"\\\\/<>\u{7f}\u{80}\u{2028}中😀\"";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn numbers_as_java_prints_them() {
        let written = |value: f64| String::from_utf8(to_vec(&value).unwrap()).unwrap();
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (100.0, "100.0"),
            (0.001, "0.001"),
            (0.000_1, "1.0E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12_345_678.9, "1.23456789E7"),
            (1.234_567_5e16, "1.2345675E16"),
            (-1.5e-9, "-1.5E-9"),
            (f64::NAN, "null"),
            (f64::INFINITY, "null"),
        ];
        for (value, text) in cases {
            assert_eq!(written(value), text);
        }
    }
}
