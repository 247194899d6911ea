//! SQL92 filters: messages of which one in a hundred matches, and pulls of a group that subscribed by that expression. What is counted
//! is messages that the broker looked at.

use std::rc::Rc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use remoting::RequestCode;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::frames::{Answers, Template, records};
use crate::load::{Counters, connect};

const GROUP: &str = "bench_filters";
const EXPRESSION: &str = "number = 7 AND color IS NOT NULL";
/// The version of the subscription; any, as long as it stays the same.
const VERSION: i64 = 1;
/// Requests in flight of a sender.
const WINDOW: usize = 64;
/// The property that differs stands first: `number` and its end, which is escaped.
const NUMBER_AT: usize = "number\\u0001".len();

fn send_template(topic: &str, queue: u32) -> Template {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let properties = "number\u{1}0000\u{2}color\u{1}red\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}\
                      UNIQ_KEY\u{1}7F00000100002A9F0000000000000001\u{2}";
    let fields = [
        ("a", "bench_producers".to_owned()),
        ("b", topic.to_owned()),
        ("c", "TBW102".to_owned()),
        ("d", "4".to_owned()),
        ("e", queue.to_string()),
        ("f", "0".to_owned()),
        ("g", now.to_string()),
        ("h", "0".to_owned()),
        ("i", properties.to_owned()),
        ("j", "0".to_owned()),
        ("k", "false".to_owned()),
        ("l", "16".to_owned()),
        ("m", "false".to_owned()),
    ];
    Template::new(RequestCode::SEND_MESSAGE_V2, &fields, &[b'x'; 128])
}

/// Sends `requests` messages to a queue, the numbers 0 to 99 in turn.
pub async fn send(
    broker: String,
    topic: String,
    queue: u32,
    requests: u32,
    counters: Rc<Counters>,
) -> std::io::Result<()> {
    let mut template = send_template(&topic, queue);
    let number = template.place("i") + NUMBER_AT;
    let mut socket = connect(&broker).await?;
    let (mut answers, mut out) = (Answers::new(), Vec::new());
    let (mut next, mut in_flight) = (0, 0);
    while next < requests || in_flight > 0 {
        while next < requests && in_flight < WINDOW {
            template.set(number, 4, u64::from(next % 100));
            template.write(next, &mut out);
            next += 1;
            in_flight += 1;
        }
        socket.write_all(&out).await?;
        out.clear();
        in_flight -= answers
            .read(&mut socket, |answer| match answer.code() {
                0 => counters.add(1),
                _ => counters.failed(),
            })
            .await?;
    }
    Ok(())
}

/// Pulls a queue over and over until `end`.
pub async fn pull(
    broker: String,
    topic: String,
    queue: u32,
    end: Instant,
    counters: Rc<Counters>,
) -> std::io::Result<()> {
    let mut socket = connect(&broker).await?;
    let mut answers = Answers::new();
    subscribe(&mut socket, &mut answers, &topic, queue).await?;
    let fields = [
        ("consumerGroup", GROUP.to_owned()),
        ("topic", topic),
        ("queueId", queue.to_string()),
        ("queueOffset", format!("{:020}", 0)),
        ("maxMsgNums", "32".to_owned()),
        ("sysFlag", "0".to_owned()),
        ("commitOffset", "0".to_owned()),
        ("suspendTimeoutMillis", "0".to_owned()),
        ("subVersion", VERSION.to_string()),
        ("expressionType", "SQL92".to_owned()),
        ("maxMsgBytes", i32::MAX.to_string()),
    ];
    let mut template = Template::new(RequestCode::PULL_MESSAGE, &fields, &[]);
    let place = template.place("queueOffset");
    let (mut offset, mut looked_at, mut found) = (0, 0, 0);
    for number in 0.. {
        if Instant::now() >= end {
            break;
        }
        template.set(place, 20, offset);
        let mut out = Vec::new();
        template.write(number, &mut out);
        socket.write_all(&out).await?;
        let mut next = None;
        while next.is_none() {
            answers
                .read(&mut socket, |answer| {
                    found += records(answer.body, |_| {});
                    next = Some((answer.code(), answer.field("nextBeginOffset").unwrap_or_default() as u64));
                })
                .await?;
        }
        offset = match next {
            Some((0 | 20, next)) if next > offset => {
                counters.add(next - offset);
                looked_at += next - offset;
                next
            }
            // The end, or the broker has not taken the subscription yet.
            Some((19, _)) => 0,
            _ => {
                counters.failed();
                0
            }
        };
    }
    if looked_at > 1000 && (found * 100).abs_diff(looked_at) > looked_at / 10 {
        return Err(std::io::Error::other(format!("{found} of {looked_at} messages matched")));
    }
    Ok(())
}

/// Tells the broker the subscription; each connection is a member of the group.
async fn subscribe(socket: &mut TcpStream, answers: &mut Answers, topic: &str, queue: u32) -> std::io::Result<()> {
    let subscription = json!({"topic": topic, "subString": EXPRESSION, "expressionType": "SQL92", "subVersion": VERSION,
        "tagsSet": [], "codeSet": [], "classFilterMode": false});
    let heartbeat = json!({"clientID": format!("bench@{queue}"), "producerDataSet": [], "consumerDataSet": [{
        "groupName": GROUP, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "unitMode": false,
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription]}]});
    let mut out = Vec::new();
    Template::new(RequestCode::HEART_BEAT, &[], heartbeat.to_string().as_bytes()).write(u32::MAX >> 8, &mut out);
    socket.write_all(&out).await?;
    let mut taken = false;
    while !taken {
        // Notices that the group has changed come in between.
        answers.read(socket, |answer| taken |= answer.code() == 0).await?;
    }
    Ok(())
}
