//! Frames that Java clients, brokers and name servers of 4.9.8, 5.3.3 and 5.5.0 have sent, read and written again.
//!
//! `data/frames.jsonl`: one frame a line, `raw` in base64 with the length word, beside it what the recorder read from
//! it: at least one frame of each code, direction, layout and set of fields that was seen.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use remoting::frame::{DEFAULT_MAX_FRAME, Split, split};
use remoting::{Command, Language, Request, SerializeType};
use serde::Deserialize;

#[derive(Deserialize)]
struct Recorded {
    serialize: String,
    code: i32,
    language: serde_json::Value,
    version: i32,
    opaque: i32,
    flag: i32,
    remark: Option<String>,
    fields: Option<BTreeMap<String, String>>,
    raw: String,
}

fn recorded() -> Vec<(Recorded, Vec<u8>)> {
    let parse = |line| {
        let recorded: Recorded = serde_json::from_str(line).expect("a line of frames.jsonl");
        let raw = BASE64_STANDARD.decode(&recorded.raw).expect("base64");
        (recorded, raw)
    };
    include_str!("data/frames.jsonl").lines().map(parse).collect()
}

/// Header, layout and body of a buffer that holds exactly one frame.
fn parts(raw: &[u8]) -> (&[u8], SerializeType, &[u8]) {
    match split(raw, DEFAULT_MAX_FRAME) {
        Ok(Split::Frame { total, header, serialize, body }) if total == raw.len() => (header, serialize, body),
        other => panic!("{other:?}"),
    }
}

#[test]
fn read_as_the_recorder_read_them() {
    let frames = recorded();
    assert!(frames.len() > 200);
    for (expected, raw) in &frames {
        let (header, serialize, body) = parts(raw);
        let request = Request::decode(serialize, header, body).expect(&expected.raw);
        assert_eq!(serialize == SerializeType::Json, expected.serialize == "JSON");
        let language = match &expected.language {
            serde_json::Value::String(name) => Language::from_name(name),
            number => Language(number.as_u64().expect("a number") as u8),
        };
        assert_eq!(
            (request.code, request.language, request.version, request.opaque, request.flag),
            (expected.code, language, expected.version, expected.opaque, expected.flag)
        );
        assert_eq!(request.remark.as_deref(), expected.remark.as_deref());
        let fields: BTreeMap<_, _> =
            request.fields.iter().map(|field| (field.name.to_owned(), field.value.to_cow().into_owned())).collect();
        let mut expected = expected.fields.clone().unwrap_or_default();
        if serialize == SerializeType::RocketMq {
            expected.retain(|_, value| !value.is_empty()); // null to Java
        }
        assert_eq!(fields, expected);
        assert_eq!(request.body, body);
    }
}

#[test]
fn written_again_byte_for_byte() {
    let mut frames = 0;
    for (recorded, raw) in recorded() {
        let (header, serialize, body) = parts(&raw);
        // An object without members is left out by us, and empty values of the binary layout are not read.
        let empty = |fields: BTreeMap<_, String>| match serialize {
            SerializeType::Json => fields.is_empty(),
            SerializeType::RocketMq => fields.values().any(String::is_empty),
        };
        if recorded.fields.is_some_and(empty) {
            continue;
        }
        let command = Command::decode(serialize, header, Bytes::copy_from_slice(body)).expect("a command");
        let mut again = Vec::new();
        command.encode(serialize, &mut again);
        assert_eq!(String::from_utf8_lossy(&again), String::from_utf8_lossy(&raw));
        assert_eq!(again, raw);
        frames += 1;
    }
    assert!(frames > 200);
}

#[test]
fn one_layout_read_and_the_other_written() {
    for (_, raw) in recorded() {
        let (header, serialize, body) = parts(&raw);
        let mut command = Command::decode(serialize, header, Bytes::copy_from_slice(body)).expect("a command");
        command.fields.retain(|(_, value)| !value.is_empty());
        let other = if serialize == SerializeType::Json { SerializeType::RocketMq } else { SerializeType::Json };
        let mut frame = Vec::new();
        command.encode(other, &mut frame);
        let (header, serialize, body) = parts(&frame);
        let again = Command::decode(serialize, header, Bytes::copy_from_slice(body)).expect("a command");
        if other == SerializeType::RocketMq {
            command.code = i32::from(command.code as i16);
            command.remark = command.remark.filter(|remark| !remark.is_empty());
        }
        assert_eq!(again, command);
    }
}
