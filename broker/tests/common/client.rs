//! Administrators and members of groups: clients that share the crate's own connection code, and take the broker's requests.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::Running;
use config::BrokerSetup;
use parking_lot::Mutex;
use remoting::client::Client;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Lane, Outcome, Router};
use remoting::{Command, RequestCode};
use serde_json::Value;

use super::LIMIT;

/// A broker as the cases want it, its store in `dir/store`, with files so small that they roll.
pub fn setup(dir: &Path) -> BrokerSetup {
    super::setup(&dir.join("store"), |setup| {
        setup.broker.enable_property_filter = true;
        setup.store.mapped_file_size_commit_log = 1024 * 1024;
        setup.store.mapped_file_size_consume_queue = 6000;
    })
}

/// Starts a broker in `dir`.
pub async fn start(dir: &Path) -> Running {
    broker::start(setup(dir)).await.expect("the broker starts")
}

/// One client with one connection to a broker.
pub struct Peer {
    client: Client,
    addr: String,
    /// Groups of the notices (code 40) that came.
    notices: Arc<Mutex<Vec<String>>>,
}

struct Notices(Arc<Mutex<Vec<String>>>);

impl Handler for Notices {
    type Request<'a> = Empty;
    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let group = cx.request().fields.get("consumerGroup").map(|text| text.to_cow().into_owned());
        self.0.lock().push(group.unwrap_or_default());
        Outcome::Done
    }
}

impl Peer {
    /// A client of the broker's main port.
    pub fn of(running: &Running) -> Peer {
        Peer::at(running.addr().to_string())
    }

    /// A client of any address.
    pub fn at(addr: String) -> Peer {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let mut router = Router::new();
        let handler = Arc::new(Notices(notices.clone()));
        router.on(RequestCode::NOTIFY_CONSUMER_IDS_CHANGED, Lane::Inline, handler);
        Peer { client: Client::new(Some(Arc::new(router))), addr, notices }
    }

    /// Sends a request and returns the answer.
    pub async fn call(&self, code: RequestCode, fields: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Command {
        let mut command = Command::request(code).body(body.into());
        for (name, value) in fields {
            command = command.field(name, value);
        }
        self.client.call(&self.addr, command, LIMIT).await.expect("an answer")
    }

    /// Makes a topic.
    pub async fn create_topic(&self, topic: &str, queues: i32) -> Command {
        let queues = queues.to_string();
        let fields = [
            ("topic", topic),
            ("defaultTopic", "TBW102"),
            ("readQueueNums", &queues),
            ("writeQueueNums", &queues),
            ("perm", "6"),
            ("topicFilterType", "SINGLE_TAG"),
            ("topicSysFlag", "0"),
            ("order", "false"),
        ];
        self.call(RequestCode::UPDATE_AND_CREATE_TOPIC, &fields, "").await
    }

    /// Makes a group.
    pub async fn create_group(&self, group: &str) {
        let body = format!(r#"{{"groupName":"{group}"}}"#);
        let answer = self.call(RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &[], body).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
    }

    /// Sends one message.
    pub async fn send(&self, topic: &str, queue: i32, body: &str) -> Command {
        let queue = queue.to_string();
        let fields = [
            ("producerGroup", "PG"),
            ("topic", topic),
            ("defaultTopic", "TBW102"),
            ("defaultTopicQueueNums", "1"),
            ("queueId", &queue),
            ("sysFlag", "0"),
            ("bornTimestamp", "1795970000000"),
            ("flag", "0"),
            ("properties", ""),
            ("reconsumeTimes", "0"),
            ("unitMode", "false"),
            ("batch", "false"),
        ];
        self.call(RequestCode::SEND_MESSAGE, &fields, body).await
    }

    /// A heartbeat of one consumer group with subscriptions `*` to topics.
    pub async fn heartbeat(&self, client_id: &str, group: &str, topics: &[&str]) -> Command {
        let subscription = |topic: &&str| {
            format!(
                r#"{{"topic":"{topic}","subString":"*","subVersion":100,"expressionType":"TAG","tagsSet":[],"codeSet":[]}}"#
            )
        };
        let subscriptions: Vec<_> = topics.iter().map(subscription).collect();
        let body = format!(
            r#"{{"clientID":"{client_id}","consumerDataSet":[{{"groupName":"{group}","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","unitMode":false,"subscriptionDataSet":[{}]}}],"producerDataSet":[]}}"#,
            subscriptions.join(",")
        );
        let answer = self.call(RequestCode::HEART_BEAT, &[], body).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        answer
    }

    /// Ids of a group's members, sorted, or the error's remark.
    pub async fn members(&self, group: &str) -> Result<Vec<String>, String> {
        let answer = self.call(RequestCode::GET_CONSUMER_LIST_BY_GROUP, &[("consumerGroup", group)], "").await;
        if answer.code != 0 {
            return Err(answer.remark.unwrap_or_default());
        }
        let mut ids: Vec<String> = serde_json::from_value(json(&answer)["consumerIdList"].clone()).unwrap();
        ids.sort();
        Ok(ids)
    }

    /// The notices that have come since the last look, once there are `count` of them.
    pub async fn take_notices(&self, count: usize) -> Vec<String> {
        until(|| self.notices.lock().len() >= count).await;
        std::mem::take(&mut *self.notices.lock())
    }

    /// Closes the connection.
    pub fn close(&self) {
        self.client.close();
    }
}

/// The body as JSON.
pub fn json(answer: &Command) -> Value {
    remoting::body::fastjson::from_slice(&answer.body).expect("a JSON body")
}

/// Waits until something is true, at most [`LIMIT`].
pub async fn until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
