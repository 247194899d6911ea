//! Commands with arbitrary texts survive both layouts; arbitrary bytes are read or refused, never more.

use bytes::Bytes;
use proptest::prelude::*;
use remoting::frame::{DEFAULT_MAX_FRAME, Split, split};
use remoting::{Command, Language, Reply, Request, SerializeType, header, reply};

/// Texts with what is hard about texts: controls, quotes, backslashes, text that looks like escapes, all planes.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ -~]{0,12}",
        2 => prop::sample::select(vec!["\u{1}", "\u{2}", "\"", "\\", "\\u0001", "\n\r\t\u{8}\u{c}", "\u{0}", "\u{1f}"])
            .prop_map(str::to_owned),
        1 => prop::sample::select(vec!["😀", "中文", "\u{2028}", "\u{feff}", "\u{7f}", "\u{10ffff}"]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// A command as JSON can carry any; with `binary` only what the binary layout can say.
fn command(binary: bool) -> impl Strategy<Value = Command> {
    let least = usize::from(binary);
    let field = (text(), text()).prop_filter("an empty text is none", move |(name, value)| {
        !binary || (name.len() >= least && value.len() >= least)
    });
    let head = (any::<i32>(), 0u8..14, any::<i32>(), any::<i32>(), any::<i32>());
    let remark = prop::option::of(text()).prop_map(move |remark| remark.filter(|text| !binary || !text.is_empty()));
    (head, remark, prop::collection::vec(field, 0..40), prop::collection::vec(any::<u8>(), 0..64)).prop_map(
        move |((code, language, version, opaque, flag), remark, mut fields, body)| {
            let mut names = std::collections::HashSet::new();
            fields.retain(|(name, _)| names.insert(name.clone()));
            Command {
                code: if binary { i32::from(code as i16) } else { code },
                language: Language(language),
                version: if binary { i32::from(version as i16) } else { version },
                opaque,
                flag,
                remark,
                fields,
                body: Bytes::from(body),
            }
        },
    )
}

fn json_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        (-1e9f64..1e9).prop_map(serde_json::Value::from),
        text().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::vec((text(), inner), 0..4)
                .prop_map(|pairs| pairs.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

fn decode(frame: &[u8]) -> Command {
    match split(frame, DEFAULT_MAX_FRAME) {
        Ok(Split::Frame { total, header, serialize, body }) if total == frame.len() => {
            Command::decode(serialize, header, Bytes::copy_from_slice(body)).expect("what we wrote")
        }
        other => panic!("{other:?}"),
    }
}

fn encode(command: &Command, serialize: SerializeType) -> Vec<u8> {
    let mut frame = Vec::new();
    command.encode(serialize, &mut frame);
    frame
}

proptest! {
    #[test]
    fn json_round_trip(command in command(false)) {
        let frame = encode(&command, SerializeType::Json);
        prop_assert_eq!(decode(&frame), command);
    }

    #[test]
    fn binary_round_trip(command in command(true)) {
        let frame = encode(&command, SerializeType::RocketMq);
        prop_assert_eq!(decode(&frame), command);
    }

    /// Another parser of JSON reads the same from what we write.
    #[test]
    fn json_is_json(command in command(false)) {
        let frame = encode(&command, SerializeType::Json);
        let Ok(Split::Frame { header, .. }) = split(&frame, DEFAULT_MAX_FRAME) else { panic!("no frame") };
        let value: serde_json::Value = serde_json::from_slice(header).expect("JSON");
        prop_assert_eq!(value["code"].as_i64(), Some(i64::from(command.code)));
        prop_assert_eq!(value["opaque"].as_i64(), Some(i64::from(command.opaque)));
        prop_assert_eq!(value["language"].as_str(), Some(command.language.name()));
        prop_assert_eq!(value.get("remark").and_then(|remark| remark.as_str()), command.remark.as_deref());
        let fields = value.get("extFields").and_then(|fields| fields.as_object());
        prop_assert_eq!(fields.map_or(0, |fields| fields.len()), command.fields.len());
        for (name, text) in &command.fields {
            prop_assert_eq!(fields.and_then(|fields| fields[name].as_str()), Some(text.as_str()));
        }
    }

    /// We read the same as another parser of JSON from what it writes (pretty or not).
    #[test]
    fn json_of_others(command in command(false), pretty: bool) {
        let fields: serde_json::Map<_, _> =
            command.fields.iter().map(|(name, text)| (name.clone(), text.clone().into())).collect();
        let value = serde_json::json!({
            "version": command.version, "unknown": [{"a": null}, -1.5e3, "x\\\""], "opaque": command.opaque,
            "flag": command.flag, "remark": command.remark, "extFields": fields, "language": command.language.0,
            "code": command.code, "serializeTypeCurrentRPC": "JSON",
        });
        let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.expect("JSON");
        let read = Command::decode(SerializeType::Json, &text, command.body.clone()).expect("a header");
        prop_assert_eq!(read, command);
    }

    #[test]
    fn replies_of_both_kinds_are_the_same(code: i32, opaque: i32, remark in prop::option::of(text()), body: Vec<u8>) {
        for serialize in [SerializeType::Json, SerializeType::RocketMq] {
            let mut owned = b"before".to_vec();
            let reply = Reply { code, remark: remark.clone(), body: Bytes::from(body.clone()), ..Reply::default() };
            reply.encode(serialize, opaque, &mut owned);
            let mut direct = b"before".to_vec();
            let write = |out: &mut Vec<u8>| out.extend_from_slice(&body);
            reply::encode(&mut direct, serialize, opaque, code, remark.as_deref(), &header::Empty, write);
            prop_assert_eq!(&owned, &direct);
            prop_assert!(decode(&direct[6..]).is_response());
        }
    }

    /// Values of any kind in `extFields`: a string is itself, null is nothing, everything else is its JSON text.
    #[test]
    fn json_values(values in prop::collection::vec(json_value(), 0..8)) {
        let fields: serde_json::Map<_, _> =
            values.iter().enumerate().map(|(at, value)| (format!("f{at}"), value.clone())).collect();
        let text = serde_json::json!({ "extFields": fields, "unknown": values }).to_string();
        let request = Request::decode(SerializeType::Json, text.as_bytes(), &[]).expect("a header");
        for (name, value) in &fields {
            let expected = match value {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            prop_assert_eq!(request.fields.get(name).map(|text| text.to_cow().into_owned()), expected);
        }
    }

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = split(&bytes, DEFAULT_MAX_FRAME);
        for serialize in [SerializeType::Json, SerializeType::RocketMq] {
            let _ = Request::decode(serialize, &bytes, &[]);
        }
    }

    /// Text made of what JSON is made of. What another parser takes for an object of objects is read by us as well.
    #[test]
    fn almost_json(text in r#"([\{\}\[\]",:\\]|"a":|"b":"c"|1|-0\.5e2|true|null|\\u00[0-9a-g]1| ){0,12}"#) {
        let header = format!("{{\"extFields\":{{{text}}}}}");
        let ours = Request::decode(SerializeType::Json, header.as_bytes(), &[]);
        if serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&header).is_ok() {
            let request = ours.expect(&header);
            request.fields.iter().for_each(|field| drop(field.value.to_cow()));
        }
    }
}
