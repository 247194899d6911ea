//! A million damaged frames: each is read, wants more bytes or is refused, and what is read can be used.
//!
//! The seed is fixed, so a failure comes back. The damage is done to recorded frames of real clients and servers.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use remoting::frame::{Split, split};
use remoting::header::{
    GetMaxOffset, Header, PopMessage, PullMessage, RegisterBroker, SearchOffset, SendMessage, SendMessageV2,
};
use remoting::{Request, SerializeType};

const FRAMES: usize = 1_000_000;
const MAX_FRAME: usize = 64 * 1024;

/// Marsaglia's xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let raw = |line| {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line of frames.jsonl");
        BASE64_STANDARD.decode(value["raw"].as_str().expect("raw")).expect("base64")
    };
    include_str!("data/frames.jsonl").lines().map(raw).collect()
}

/// What turns up in headers, and what hurts.
const TOKENS: [&[u8]; 20] = [
    b"{",
    b"}",
    b"[",
    b"\"",
    b"\\",
    b":",
    b",",
    b"null",
    b"true",
    b"-1",
    b"99999999999999999999",
    b"1e9",
    b"\\u0001",
    b"\\ud83d",
    b"\\u00",
    b"\xff\xfe",
    b"\xc3",
    b"\"extFields\":{",
    b"\x00\x00\x00\x00",
    b"\x7f\xff\xff\xff",
];

fn damage(frame: &mut Vec<u8>, random: &mut Random) {
    let body = match split(frame, MAX_FRAME) {
        Ok(Split::Frame { body, .. }) => body.len(),
        other => panic!("{other:?}"),
    };
    for _ in 0..1 + random.below(3) {
        let at = random.below(frame.len());
        match random.below(8) {
            0 => frame.truncate(at),
            1 => {
                if let Some(byte) = frame.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            2 => {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
            3 => {
                let token = TOKENS[random.below(TOKENS.len())];
                frame.splice(at..at, token.iter().copied());
            }
            4 => {
                let end = (at + random.below(16)).min(frame.len());
                frame.drain(at..end);
            }
            5 => {
                let end = (at + random.below(16)).min(frame.len());
                frame.extend_from_within(at..end);
            }
            6 => {
                let (token, end) = (TOKENS[random.below(TOKENS.len())], frame.len());
                frame.splice(at..end.min(at + token.len()), token.iter().copied());
            }
            _ => {
                // One of the lengths in front, and the 32-bit words of the binary layout.
                let at = random.below(40);
                let value = [0, -1, 1, 3, i32::MIN, i32::MAX, 1 << 24, 0x0100_0015][random.below(8)];
                if let Some(word) = frame.get_mut(at..at + 4) {
                    word.copy_from_slice(&value.to_be_bytes());
                }
            }
        }
    }
    // Mostly with lengths that fit again, or the damage would seldom be seen.
    if random.below(4) > 0 && frame.len() >= 8 {
        let grown = frame.len() - 4;
        frame[..4].copy_from_slice(&(grown as u32).to_be_bytes());
        if random.below(4) > 0 {
            let header = (grown - 4).saturating_sub(body);
            frame[5..8].copy_from_slice(&(header as u32).to_be_bytes()[1..]);
        }
    }
}

fn typed<'a, H: Header<'a>>(request: &Request<'a>, read: &mut usize) {
    *read += usize::from(H::read(&request.fields).is_ok());
}

#[test]
fn a_million_damaged_frames() {
    let corpus = corpus();
    let mut random = Random(0x5DEE_CE66_D1CE_4E5B);
    let (mut frame, mut text) = (Vec::new(), Vec::new());
    let (mut decoded, mut refused, mut cut, mut typed_reads) = (0, 0, 0, 0);
    for _ in 0..FRAMES {
        frame.clear();
        frame.extend_from_slice(&corpus[random.below(corpus.len())]);
        damage(&mut frame, &mut random);
        let (serialize, header, body) = match split(&frame, MAX_FRAME) {
            Ok(Split::Frame { total, header, serialize, body }) => {
                assert_eq!(total, 8 + header.len() + body.len());
                (serialize, header, body)
            }
            Ok(Split::NeedMore { total }) => {
                assert!(total.is_none_or(|total| total > frame.len() && total <= MAX_FRAME));
                cut += 1;
                continue;
            }
            Err(_) => {
                refused += 1;
                continue;
            }
        };
        let Ok(request) = Request::decode(serialize, header, body) else {
            refused += 1;
            continue;
        };
        decoded += 1;
        text.clear();
        request.fields.iter().for_each(|field| field.value.write_to(&mut text));
        assert!(text.len() <= header.len(), "a text is never longer than its escaped form");
        typed::<SendMessageV2<'_>>(&request, &mut typed_reads);
        typed::<SendMessage<'_>>(&request, &mut typed_reads);
        typed::<PullMessage<'_>>(&request, &mut typed_reads);
        typed::<GetMaxOffset<'_>>(&request, &mut typed_reads);
        typed::<SearchOffset<'_>>(&request, &mut typed_reads);
        typed::<PopMessage<'_>>(&request, &mut typed_reads);
        typed::<RegisterBroker<'_>>(&request, &mut typed_reads);
    }
    // The damage must leave some of each kind, or it tests little.
    println!("{decoded} decoded, {typed_reads} typed headers, {refused} refused, {cut} cut");
    for (what, count) in [("decoded", decoded), ("typed", typed_reads), ("refused", refused), ("cut", cut)] {
        assert!(count > FRAMES / 100, "{what}: {count}");
    }
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let header = format!("{{\"code\":1,\"x\":{}1{}}}", open.repeat(1_000_000), close.repeat(1_000_000));
        assert!(Request::decode(SerializeType::Json, header.as_bytes(), &[]).is_err());
    }
}

#[test]
fn a_flood_of_fields_is_refused() {
    let many = "\"a\":null,\"b\":\"\",".repeat(200_000);
    let json = format!("{{\"extFields\":{{{many}\"c\":1}}}}");
    assert!(Request::decode(SerializeType::Json, json.as_bytes(), &[]).is_err());
    let repeated = format!("{{{}\"code\":1}}", "\"extFields\":{\"a\":\"1\",\"b\":null},".repeat(200_000));
    assert!(Request::decode(SerializeType::Json, repeated.as_bytes(), &[]).is_err());
    let mut binary = vec![0; 17];
    let pair = [0, 1, b'a', 0, 0, 0, 1, b'b'];
    binary.extend_from_slice(&(pair.len() as u32 * 100_000).to_be_bytes());
    binary.extend(pair.repeat(100_000));
    assert!(Request::decode(SerializeType::RocketMq, &binary, &[]).is_err());
}
