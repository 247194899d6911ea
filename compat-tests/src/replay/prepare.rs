//! Brings a fresh broker to where the recorded one stood before a group of sessions: its topics, how many messages
//! their queues held, and how far groups had consumed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use remoting::body::fastjson;
use remoting::client::Client;
use remoting::{Command, RequestCode};
use serde_json::Value;

use super::session::{Event, Frame, Peer, Session};

/// One queue of a topic.
type Queue = (String, String);

/// What must be there first.
#[derive(Debug, Default)]
pub struct Preparation {
    /// Topics whose first route query found them, with the answer's queue data.
    topics: BTreeMap<String, Value>,
    /// Messages that a queue held before the first message of the sessions.
    filled: BTreeMap<Queue, u64>,
    /// Offsets that a group's first query found.
    committed: BTreeMap<(String, Queue), String>,
}

impl Preparation {
    /// Reads it off the sessions' answers.
    pub fn of(sessions: &[Session]) -> Preparation {
        let mut found = Preparation::default();
        let (mut routes, mut queues, mut offsets) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (request, answer) in sessions.iter().flat_map(exchanges) {
            let field = |name: &str| request.fields.get(name).cloned().unwrap_or_default();
            match request.code {
                105 if routes.insert(field("topic")) && answer.code == 0 => {
                    let route: Option<Value> = fastjson::from_slice(&answer.body).ok();
                    if let Some(queue_data) = route.and_then(|mut route| Some(route["queueDatas"].get_mut(0)?.take())) {
                        found.topics.insert(field("topic"), queue_data);
                    }
                }
                // SEND_MESSAGE_V2: topic and queue under their short names.
                310 if answer.code == 0 && !is_rerouted(request) => {
                    let queue = (field("b"), answer.fields.get("queueId").cloned().unwrap_or_default());
                    let held = answer.fields.get("queueOffset").and_then(|offset| offset.parse().ok());
                    if let (true, Some(held)) = (queues.insert(queue.clone()), held) {
                        found.filled.insert(queue, held);
                    }
                }
                14 if offsets.insert((field("consumerGroup"), field("topic"), field("queueId"))) && answer.code == 0 => {
                    let offset = answer.fields.get("offset").cloned().unwrap_or_default();
                    if offset != "0" {
                        let queue = (field("topic"), field("queueId"));
                        found.committed.insert((field("consumerGroup"), queue), offset);
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Puts it into the broker at `broker`.
    ///
    /// # Panics
    /// When the broker does not answer.
    pub fn apply(&self, broker: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let client = Client::new(None);
            let call = async |command: Command| {
                // A refusal (of a system topic, say) is no harm: the comparison will tell.
                client.call(broker, command, Duration::from_secs(10)).await.expect("an answer")
            };
            for (topic, queues) in &self.topics {
                if topic != "TBW102" {
                    call(create_topic(topic, queues)).await;
                }
            }
            for ((topic, queue), held) in &self.filled {
                for n in 0..*held {
                    call(filler(topic, queue, n)).await;
                }
            }
            for ((group, (topic, queue)), offset) in &self.committed {
                let heartbeat = format!(
                    "{{\"clientID\":\"prepare\",\"consumerDataSet\":[{{\"groupName\":\"{group}\",\"consumeType\":\
                     \"CONSUME_PASSIVELY\",\"messageModel\":\"CLUSTERING\",\"consumeFromWhere\":\
                     \"CONSUME_FROM_FIRST_OFFSET\",\"subscriptionDataSet\":[],\"unitMode\":false}}],\"producerDataSet\":[]}}"
                );
                call(Command::request(RequestCode::HEART_BEAT).body(heartbeat)).await;
                let commit = Command::request(RequestCode::UPDATE_CONSUMER_OFFSET)
                    .field("consumerGroup", group)
                    .field("topic", topic)
                    .field("queueId", queue)
                    .field("commitOffset", offset);
                call(commit).await;
            }
            client.close();
        });
    }
}

/// Delayed and transactional messages: the answer tells another topic's queue offset.
fn is_rerouted(request: &Frame) -> bool {
    let properties = request.fields.get("i").cloned().unwrap_or_default();
    ["DELAY\u{1}", "TIMER_", "TRAN_MSG\u{1}true"].iter().any(|mark| properties.contains(mark))
}

/// Requests of the client and their answers.
fn exchanges(session: &Session) -> Vec<(&Frame, &Frame)> {
    let mut asked: BTreeMap<(u64, i32), &Frame> = BTreeMap::new();
    let mut found = Vec::new();
    for line in session.lines.iter().filter(|line| line.peer != Peer::Other) {
        let Event::Frame(frame) = &line.event else { continue };
        if frame.to_server && !frame.is_response() {
            asked.insert((line.conn, frame.opaque), frame);
        } else if let (true, Some(request)) = (frame.is_response(), asked.get(&(line.conn, frame.opaque))) {
            found.push((*request, frame.as_ref()));
        }
    }
    found
}

fn create_topic(topic: &str, queues: &Value) -> Command {
    let number = |name: &str| queues[name].as_i64().unwrap_or_default();
    Command::request(RequestCode::UPDATE_AND_CREATE_TOPIC)
        .field("topic", topic)
        .field("defaultTopic", "TBW102")
        .field("readQueueNums", number("readQueueNums"))
        .field("writeQueueNums", number("writeQueueNums"))
        .field("perm", number("perm"))
        .field("topicFilterType", "SINGLE_TAG")
        .field("topicSysFlag", number("topicSysFlag"))
        .field("order", false)
}

fn filler(topic: &str, queue: &str, number: u64) -> Command {
    Command::request(RequestCode::SEND_MESSAGE)
        .field("producerGroup", "prepare")
        .field("topic", topic)
        .field("defaultTopic", "TBW102")
        .field("defaultTopicQueueNums", 4)
        .field("queueId", queue)
        .field("sysFlag", 0)
        .field("bornTimestamp", 0)
        .field("flag", 0)
        .field("properties", format!("UNIQ_KEY\u{1}prepare-{topic}-{queue}-{number}\u{2}"))
        .field("reconsumeTimes", 0)
        .body("filler")
}
