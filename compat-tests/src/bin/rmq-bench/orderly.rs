//! Consumption in order: each round renews the lock of the queue, pulls what follows and commits what was consumed before, both with the
//! pull and by itself. One member of the group and one connection a queue, as when a group has as many members as queues.
//!
//! A Java client renews its locks each 20 s and commits each 5 s; here every round does both, so that a run of some seconds measures them.

use std::rc::Rc;
use std::time::Instant;

use memchr::memmem;
use remoting::RequestCode;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::frames::{Answers, Template, records};
use crate::load::{Counters, connect};

const GROUP: &str = "bench_orderly";
/// What is committed with the pull (1), and the subscription is in the request (4).
const FLAGS: u32 = 1 | 4;
/// The requests of a round, by their number modulo this.
const REQUESTS: u32 = 3;
/// Opaques up to the rounds'.
const HEARTBEAT: u32 = u32::MAX >> 8;

/// The three requests of a round.
struct Round {
    lock: Template,
    pull: Template,
    commit: Template,
    /// Places of offsets: where to pull, what is committed with it, and by itself.
    places: [usize; 3],
}

impl Round {
    fn new(topic: &str, queue: u32, max: u32) -> Round {
        let queues = json!([{"topic": topic, "brokerName": "bench", "queueId": queue}]);
        let lock = json!({"consumerGroup": GROUP, "clientId": client(queue), "mqSet": queues});
        let offset = format!("{:020}", 0);
        let pull = [
            ("consumerGroup", GROUP.to_owned()),
            ("topic", topic.to_owned()),
            ("queueId", queue.to_string()),
            ("queueOffset", offset.clone()),
            ("maxMsgNums", max.to_string()),
            ("sysFlag", FLAGS.to_string()),
            ("commitOffset", offset.clone()),
            ("suspendTimeoutMillis", "0".to_owned()),
            ("subscription", "*".to_owned()),
            ("subVersion", "1".to_owned()),
            ("expressionType", "TAG".to_owned()),
            ("maxMsgBytes", i32::MAX.to_string()),
        ];
        let commit = [
            ("consumerGroup", GROUP.to_owned()),
            ("topic", topic.to_owned()),
            ("queueId", queue.to_string()),
            ("commitOffset", offset),
        ];
        let pull = Template::new(RequestCode::PULL_MESSAGE, &pull, &[]);
        let commit = Template::new(RequestCode::UPDATE_CONSUMER_OFFSET, &commit, &[]);
        let places = [pull.place("queueOffset"), pull.place("commitOffset"), commit.place("commitOffset")];
        let lock = Template::new(RequestCode::LOCK_BATCH_MQ, &[], lock.to_string().as_bytes());
        Round { lock, pull, commit, places }
    }

    fn write(&mut self, number: u32, offset: u64, out: &mut Vec<u8>) {
        let [from, with_pull, alone] = self.places;
        self.pull.set(from, 20, offset);
        self.pull.set(with_pull, 20, offset);
        self.commit.set(alone, 20, offset);
        self.lock.write(number, out);
        self.pull.write(number + 1, out);
        self.commit.write(number + 2, out);
    }
}

fn client(queue: u32) -> String {
    format!("bench@{queue}")
}

/// Consumes a queue from its beginning, over and over, until `end`.
pub async fn consume(
    broker: String,
    topic: String,
    queue: u32,
    max: u32,
    end: Instant,
    counters: Rc<Counters>,
) -> std::io::Result<()> {
    let mut socket = connect(&broker).await?;
    let mut answers = Answers::new();
    join(&mut socket, &mut answers, &topic, queue).await?;
    let mut round = Round::new(&topic, queue, max);
    let (mut offset, mut out) = (0, Vec::new());
    for number in (0..HEARTBEAT - REQUESTS).step_by(REQUESTS as usize) {
        if Instant::now() >= end {
            return Ok(());
        }
        out.clear();
        round.write(number, offset, &mut out);
        socket.write_all(&out).await?;
        let (mut answered, mut next) = (0, 0);
        while answered < REQUESTS {
            answers
                .read(&mut socket, |answer| {
                    // Notices about the group are requests with numbers of their own.
                    let of_round = answer.request().wrapping_sub(number);
                    let fine = match of_round {
                        0 => answer.code() == 0 && memmem::find(answer.body, b"queueId").is_some(),
                        1 => {
                            counters.add(records(answer.body, |_| {}));
                            next = answer.field("nextBeginOffset").unwrap_or_default() as u64;
                            // 19 is the end of the queue.
                            matches!(answer.code(), 0 | 19)
                        }
                        2 => answer.code() == 0,
                        _ => return,
                    };
                    answered += 1;
                    if !fine {
                        counters.failed();
                    }
                })
                .await?;
        }
        offset = if next > offset { next } else { 0 };
    }
    Ok(())
}

/// Makes the connection a member of the group.
async fn join(socket: &mut TcpStream, answers: &mut Answers, topic: &str, queue: u32) -> std::io::Result<()> {
    let subscription = json!({"topic": topic, "subString": "*", "expressionType": "TAG", "subVersion": 1,
        "tagsSet": [], "codeSet": [], "classFilterMode": false});
    let heartbeat = json!({"clientID": client(queue), "producerDataSet": [], "consumerDataSet": [{
        "groupName": GROUP, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "unitMode": false,
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription]}]});
    let mut out = Vec::new();
    Template::new(RequestCode::HEART_BEAT, &[], heartbeat.to_string().as_bytes()).write(HEARTBEAT, &mut out);
    socket.write_all(&out).await?;
    let mut taken = false;
    while !taken {
        answers.read(socket, |answer| taken |= answer.request() == HEARTBEAT && answer.code() == 0).await?;
    }
    Ok(())
}
