//! What a header costs: read from JSON and from the binary layout, turned into its typed form, and an answer written.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use remoting::frame::{DEFAULT_MAX_FRAME, Split, split};
use remoting::header::{PullMessageResponse, SendMessageResponse, SendMessageV2, SendRequest};
use remoting::{Command, Header, Request, RequestCode, SerializeType, reply};

/// A SEND_MESSAGE_V2 of 13 fields and a body of 128 bytes.
fn send(properties: &str, serialize: SerializeType) -> Vec<u8> {
    let mut command = Command::request(RequestCode::SEND_MESSAGE_V2).body(vec![b'x'; 128]);
    command.opaque = 1_000_000_000;
    let fields = [
        ("a", "bench_group"),
        ("b", "BenchTopic"),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "00003"),
        ("f", "0"),
        ("g", "1764442000123"),
        ("h", "0"),
        ("i", properties),
        ("j", "0"),
        ("k", "false"),
        ("l", "16"),
        ("m", "false"),
    ];
    for (name, value) in fields {
        command = command.field(name, value);
    }
    let mut frame = Vec::new();
    command.encode(serialize, &mut frame);
    frame
}

fn decode(frame: &[u8]) -> Request<'_> {
    match split(frame, DEFAULT_MAX_FRAME) {
        Ok(Split::Frame { header, serialize, body, .. }) => Request::decode(serialize, header, body).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn reading(c: &mut Criterion) {
    let short = "WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}";
    let long =
        "KEYS\u{1}k1234567\u{2}TAGS\u{1}TagA\u{2}UNIQ_KEY\u{1}7F000001000000000000000000000001\u{2}WAIT\u{1}true\u{2}";
    for (name, properties) in [("short", short), ("with keys", long)] {
        for serialize in [SerializeType::Json, SerializeType::RocketMq] {
            let frame = send(properties, serialize);
            c.bench_function(&format!("decode {serialize:?}, {name}"), |b| {
                b.iter(|| decode(black_box(&frame)).opaque);
            });
            c.bench_function(&format!("decode {serialize:?} to a typed header, {name}"), |b| {
                b.iter(|| {
                    let request = decode(black_box(&frame));
                    black_box(SendRequest::from(SendMessageV2::read(&request.fields).unwrap()));
                });
            });
        }
    }
    let frame = send(long, SerializeType::Json);
    let request = decode(&frame);
    c.bench_function("typed header", |b| {
        b.iter(|| black_box(SendMessageV2::read(black_box(&request.fields)).unwrap()));
    });
    let properties = request.fields.get("i").unwrap();
    let mut out = Vec::new();
    c.bench_function("properties without escapes", |b| {
        b.iter(|| {
            out.clear();
            black_box(properties).write_to(&mut out);
            black_box(out.len())
        });
    });
}

fn writing(c: &mut Criterion) {
    let sent = SendMessageResponse {
        msg_id: "7F0000010000000000000000000000017F000001".into(),
        queue_id: 3,
        queue_offset: 123_456_789,
        ..Default::default()
    };
    let pulled = PullMessageResponse {
        next_begin_offset: 123_456_789,
        max_offset: 123_456_999,
        topic_sys_flag: Some(0),
        group_sys_flag: Some(0),
        ..Default::default()
    };
    let mut out = Vec::with_capacity(4096);
    for serialize in [SerializeType::Json, SerializeType::RocketMq] {
        c.bench_function(&format!("answer to a send, {serialize:?}"), |b| {
            b.iter(|| {
                out.clear();
                reply::encode(&mut out, serialize, black_box(1_000_000_000), 0, None, &sent, |_| {});
                black_box(out.len())
            });
        });
        c.bench_function(&format!("answer to a pull, {serialize:?}"), |b| {
            b.iter(|| {
                out.clear();
                reply::encode(&mut out, serialize, black_box(1_000_000_000), 0, Some("FOUND"), &pulled, |_| {});
                black_box(out.len())
            });
        });
    }
}

criterion_group!(benches, reading, writing);
criterion_main!(benches);
