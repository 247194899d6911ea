//! Brings a fresh broker to where the recorded one stood before a group of sessions: its topics, and how far groups
//! had consumed.

use std::collections::{BTreeMap, BTreeSet};

use remoting::body::fastjson;
use remoting::{Command, RequestCode};
use serde_json::Value;

use super::arrange::{Arranger, Queue};
use super::session::{Frame, Session};

/// One queue in an answer to GET_CONSUME_STATS.
#[derive(Debug)]
pub struct QueueStats {
    /// Which queue.
    pub queue: Queue,
    /// The offset of its next message.
    pub max: u64,
    /// The group's offset.
    pub committed: u64,
}

/// The queues in an answer to GET_CONSUME_STATS.
pub fn consume_stats(body: &[u8]) -> Vec<QueueStats> {
    let mut body: Value = fastjson::from_slice(body).unwrap_or_default();
    let Value::Object(queues) = body["offsetTable"].take() else { return Vec::new() };
    let stats = queues.into_iter().filter_map(|(queue, stats)| {
        let queue: Value = serde_json::from_str(&queue).ok()?;
        Some(QueueStats {
            queue: (queue["topic"].as_str()?.to_owned(), queue["queueId"].as_i64()?.try_into().ok()?),
            max: stats["brokerOffset"].as_u64()?,
            committed: stats["consumerOffset"].as_u64()?,
        })
    });
    stats.collect()
}

/// What must be there first.
#[derive(Debug, Default)]
pub struct Preparation {
    /// Topics whose first route query found them, with the answer's queue data.
    topics: BTreeMap<String, Value>,
    /// Offsets that a group's first query found.
    committed: BTreeMap<(String, Queue), u64>,
    /// Topics and groups for which the broker assigns queues to pop from.
    popped: BTreeSet<(String, String)>,
}

impl Preparation {
    /// Reads it off the sessions' answers.
    pub fn of(sessions: &[Session]) -> Preparation {
        let mut found = Preparation::default();
        let (mut routes, mut offsets) = (BTreeSet::new(), BTreeSet::new());
        // The tool that makes a static topic asks first whether it is there.
        let exchanges = || sessions.iter().flat_map(Session::exchanges);
        let is_static = |request: &Frame| RequestCode(request.code) == RequestCode::UPDATE_AND_CREATE_STATIC_TOPIC;
        routes.extend(
            exchanges().map(|(request, _)| request).filter(|request| is_static(request)).map(|r| r.field("topic")),
        );
        for (request, answer) in exchanges() {
            let topic = request.field("topic");
            match RequestCode(request.code) {
                RequestCode::GET_ROUTEINFO_BY_TOPIC if routes.insert(topic) && answer.code == 0 => {
                    let route: Option<Value> = fastjson::from_slice(&answer.body).ok();
                    if let Some(queues) = route.and_then(|mut route| Some(route["queueDatas"].get_mut(0)?.take())) {
                        found.topics.insert(topic.to_owned(), queues);
                    }
                }
                RequestCode::QUERY_CONSUMER_OFFSET if answer.code == 0 => {
                    let Ok(queue) = request.field("queueId").parse() else { continue };
                    let place = (request.field("consumerGroup").to_owned(), (topic.to_owned(), queue));
                    let offset = answer.field("offset").parse().unwrap_or_default();
                    // 0 is also what a group without an offset is told, but not of a topic of its own.
                    let committed = offset > 0 || topic.starts_with("%RETRY%");
                    if offsets.insert(place.clone()) && committed {
                        found.committed.insert(place, offset);
                    }
                }
                RequestCode::QUERY_ASSIGNMENT if String::from_utf8_lossy(&answer.body).contains("\"mode\":\"POP\"") => {
                    let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
                    let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
                    found.popped.insert((text("topic"), text("consumerGroup")));
                }
                RequestCode::GET_CONSUME_STATS => {
                    for stats in consume_stats(&answer.body) {
                        let place = (request.field("consumerGroup").to_owned(), stats.queue);
                        if offsets.insert(place.clone()) {
                            found.committed.insert(place, stats.committed);
                        }
                    }
                }
                RequestCode::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => {
                    let mut list: Value = fastjson::from_slice(&answer.body).unwrap_or_default();
                    let topics: Vec<String> = serde_json::from_value(list["topicList"].take()).unwrap_or_default();
                    for topic in topics.into_iter().filter(|topic| !routes.contains(topic.as_str())) {
                        found
                            .topics
                            .insert(topic, serde_json::json!({"readQueueNums": 4, "writeQueueNums": 4, "perm": 6}));
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Puts it into a broker.
    pub fn apply(&self, broker: &Arranger) {
        for (topic, queues) in self.topics.iter().filter(|(topic, _)| *topic != "TBW102") {
            broker.create_topic(topic, queues);
        }
        let groups: BTreeSet<_> = self.committed.keys().map(|(group, _)| group).collect();
        groups.into_iter().for_each(|group| broker.create_group(group));
        for ((group, queue), offset) in &self.committed {
            broker.commit(group, queue, *offset);
        }
        for (topic, group) in &self.popped {
            let mode =
                serde_json::json!({"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0});
            broker.call(Command::request(RequestCode::SET_MESSAGE_REQUEST_MODE).body(mode.to_string()));
        }
    }
}
