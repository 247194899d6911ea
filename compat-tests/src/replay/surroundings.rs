//! What else the recorded name server knew while a broker talked to it: other brokers, and the queues of ordered
//! topics, which an administrator changed meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use remoting::body::fastjson;
use remoting::{Command, RequestCode};
use serde_json::Value;

use super::arrange::Arranger;
use super::session::{Frame, Session};

const ORDERED_TOPICS: &str = "ORDER_TOPIC_CONFIG";

/// Keeps a name server in step with the recorded one.
pub struct Surroundings {
    namesrv: Arranger,
    ordered: BTreeMap<String, String>,
}

impl Surroundings {
    /// Registers the brokers that answers show and that the session itself does not register. They stay as long as
    /// this lives.
    pub fn of(session: &Session, namesrv: &str) -> Surroundings {
        let namesrv = Arranger::new(namesrv);
        let exchanges = session.exchanges();
        let own: BTreeSet<&str> = exchanges.iter().map(|(request, _)| request.field("brokerName")).collect();
        let mut others = BTreeMap::new();
        for (request, answer) in &exchanges {
            if RequestCode(request.code) == RequestCode::GET_BROKER_CLUSTER_INFO {
                let mut info: Value = fastjson::from_slice(&answer.body).unwrap_or_default();
                if let Value::Object(brokers) = info["brokerAddrTable"].take() {
                    others.extend(brokers.into_iter().filter(|(name, _)| !own.contains(name.as_str())));
                }
            }
        }
        for (name, broker) in &others {
            namesrv.call(registration(name, broker));
        }
        Surroundings { namesrv, ordered: BTreeMap::new() }
    }

    /// Makes the name server know what the recorded answer shows, before the request goes out.
    pub fn before(&mut self, request: &Frame, answer: &Frame) {
        if RequestCode(request.code) != RequestCode::REGISTER_BROKER || answer.code != 0 {
            return;
        }
        let body: Value = fastjson::from_slice(&answer.body).unwrap_or_default();
        let wanted: BTreeMap<String, String> = serde_json::from_value(body["table"].clone()).unwrap_or_default();
        for topic in self.ordered.keys().filter(|topic| !wanted.contains_key(*topic)) {
            self.namesrv.call(key(RequestCode::DELETE_KV_CONFIG, topic));
        }
        for (topic, queues) in wanted.iter().filter(|(topic, queues)| self.ordered.get(*topic) != Some(queues)) {
            self.namesrv.call(key(RequestCode::PUT_KV_CONFIG, topic).field("value", queues));
        }
        self.ordered = wanted;
    }
}

fn key(code: RequestCode, topic: &str) -> Command {
    Command::request(code).field("namespace", ORDERED_TOPICS).field("key", topic)
}

fn registration(name: &str, broker: &Value) -> Command {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Command::request(RequestCode::REGISTER_BROKER)
        .field("brokerName", name)
        .field("brokerAddr", text(&broker["brokerAddrs"]["0"]))
        .field("clusterName", text(&broker["cluster"]))
        .field("haServerAddr", "")
        .field("brokerId", 0)
        .field("compressed", false)
        .field("bodyCrc32", 0)
        .body(
            "{\"topicConfigSerializeWrapper\":{\"topicConfigTable\":{},\"dataVersion\":{\"counter\":1,\
             \"stateVersion\":0,\"timestamp\":1}},\"filterServerList\":[]}",
        )
}
