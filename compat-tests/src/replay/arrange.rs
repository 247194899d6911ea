//! A connection of the harness itself, to put into a server what the recording presupposes.

use std::time::Duration;

use remoting::client::Client;
use remoting::{Command, RequestCode};
use serde_json::Value;
use tokio::runtime::Runtime;

const LIMIT: Duration = Duration::from_secs(10);

/// One queue of a topic.
pub type Queue = (String, i32);

/// Calls to one server, one after the other, over one connection that stays open.
pub struct Arranger {
    runtime: Runtime,
    client: Client,
    addr: String,
}

impl Arranger {
    /// For the server at `addr`, which need not be there yet.
    ///
    /// # Panics
    /// When no runtime can be made.
    pub fn new(addr: &str) -> Arranger {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = runtime.block_on(async { Client::new(None) });
        Arranger { runtime, client, addr: addr.to_owned() }
    }

    /// A request and its answer, whatever its code: the comparison will tell what a refusal breaks.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn call(&self, command: Command) -> Command {
        self.runtime.block_on(self.client.call(&self.addr, command, LIMIT)).expect("an answer")
    }

    /// The offset of the next message of a queue.
    pub fn max_offset(&self, (topic, queue): &Queue) -> u64 {
        let ask = Command::request(RequestCode::GET_MAX_OFFSET).field("topic", topic).field("queueId", queue);
        self.call(ask).get("offset").and_then(|offset| offset.parse().ok()).unwrap_or_default()
    }

    /// Makes a topic as the queue data of a route describe it.
    pub fn create_topic(&self, topic: &str, queues: &Value) {
        let number = |name: &str| queues[name].as_i64().unwrap_or_default();
        let create = Command::request(RequestCode::UPDATE_AND_CREATE_TOPIC)
            .field("topic", topic)
            .field("defaultTopic", "TBW102")
            .field("readQueueNums", number("readQueueNums"))
            .field("writeQueueNums", number("writeQueueNums"))
            .field("perm", number("perm"))
            .field("topicFilterType", "SINGLE_TAG")
            .field("topicSysFlag", number("topicSysFlag"))
            .field("order", false);
        self.call(create);
    }

    /// Makes a group known: a client of it comes and goes.
    pub fn create_group(&self, group: &str) {
        let heartbeat = format!(
            "{{\"clientID\":\"arranger\",\"consumerDataSet\":[{{\"groupName\":\"{group}\",\"consumeType\":\
             \"CONSUME_PASSIVELY\",\"messageModel\":\"CLUSTERING\",\"consumeFromWhere\":\
             \"CONSUME_FROM_FIRST_OFFSET\",\"subscriptionDataSet\":[],\"unitMode\":false}}],\"producerDataSet\":[]}}"
        );
        self.call(Command::request(RequestCode::HEART_BEAT).body(heartbeat));
        let leave = Command::request(RequestCode::UNREGISTER_CLIENT);
        self.call(leave.field("clientID", "arranger").field("consumerGroup", group));
    }

    /// Commits an offset.
    pub fn commit(&self, group: &str, (topic, queue): &Queue, offset: u64) {
        let commit = Command::request(RequestCode::UPDATE_CONSUMER_OFFSET)
            .field("consumerGroup", group)
            .field("topic", topic)
            .field("queueId", queue)
            .field("commitOffset", offset);
        self.call(commit);
    }
}

impl Drop for Arranger {
    fn drop(&mut self) {
        let _runtime = self.runtime.enter();
        self.client.close();
    }
}
