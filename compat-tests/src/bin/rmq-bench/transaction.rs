//! Transactions: a first half, and its commit as soon as the half is answered. Both are answered, so that what is counted is done.

use std::rc::Rc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use remoting::RequestCode;
use tokio::io::AsyncWriteExt;

use crate::frames::{Answers, Template};
use crate::load::{Counters, connect};

const GROUP: &str = "bench_transactions";

/// The two requests of a transaction.
pub struct Templates {
    half: Template,
    commit: Template,
}

impl Templates {
    /// Transactions of one message of `size` bytes to a queue of a topic.
    pub fn new(topic: &str, size: usize, queue: u32) -> Templates {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let properties = format!(
            "WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}TRAN_MSG\u{1}true\u{2}PGROUP\u{1}{GROUP}\u{2}\
             UNIQ_KEY\u{1}7F00000100002A9F0000000000000001\u{2}"
        );
        let half = [
            ("a", GROUP.to_owned()),
            ("b", topic.to_owned()),
            ("c", "TBW102".to_owned()),
            ("d", "4".to_owned()),
            ("e", queue.to_string()),
            ("f", "4".to_owned()),
            ("g", now.to_string()),
            ("h", "0".to_owned()),
            ("i", properties),
            ("j", "0".to_owned()),
            ("k", "false".to_owned()),
            ("m", "false".to_owned()),
        ];
        let commit = [
            ("topic", topic.to_owned()),
            ("producerGroup", GROUP.to_owned()),
            ("tranStateTableOffset", format!("{:019}", 0)),
            ("commitLogOffset", format!("{:019}", 0)),
            ("commitOrRollback", "8".to_owned()),
            ("fromTransactionCheck", "false".to_owned()),
            ("msgId", "7F00000100002A9F0000000000000001".to_owned()),
            ("transactionId", "7F00000100002A9F0000000000000001".to_owned()),
        ];
        let body: Vec<u8> = (0..size).map(|at| b'a' + (at % 26) as u8).collect();
        Templates {
            half: Template::new(RequestCode::SEND_MESSAGE_V2, &half, &body),
            commit: Template::new(RequestCode::END_TRANSACTION, &commit, &[]),
        }
    }
}

/// Requests with an odd number are commits of the half before them.
pub async fn transactions(
    broker: String,
    templates: Templates,
    window: usize,
    end: Instant,
    counters: Rc<Counters>,
) -> std::io::Result<()> {
    let Templates { mut half, mut commit } = templates;
    let places = [commit.place("tranStateTableOffset"), commit.place("commitLogOffset")];
    let mut socket = connect(&broker).await?;
    let (mut answers, mut out) = (Answers::new(), Vec::new());
    let mut sent_at = vec![Instant::now(); 1 << 16];
    let (mut next, mut in_flight) = (0u32, 0);
    loop {
        let now = Instant::now();
        while now < end && in_flight < window {
            half.write(next, &mut out);
            sent_at[(next & 0xffff) as usize] = now;
            next += 2;
            in_flight += 1;
        }
        if in_flight == 0 {
            return Ok(());
        }
        socket.write_all(&out).await?;
        out.clear();
        answers
            .read(&mut socket, |answer| {
                let number = answer.request();
                let is_half = number.is_multiple_of(2);
                match (answer.code(), is_half, answer.field("queueOffset"), answer.log_offset()) {
                    (0, true, Some(queue_offset), Some(log_offset)) => {
                        commit.set(places[0], 19, queue_offset as u64);
                        commit.set(places[1], 19, log_offset);
                        commit.write(number + 1, &mut out);
                        return;
                    }
                    (0, false, ..) => counters.add(1),
                    _ => counters.failed(),
                }
                in_flight -= 1;
                counters.took(sent_at[(number & 0xfffe) as usize].elapsed().as_micros());
            })
            .await?;
    }
}
