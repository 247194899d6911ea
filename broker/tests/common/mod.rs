//! A broker in this process on free ports with a directory of its own, and a client that speaks frames.
#![allow(dead_code)]

pub mod client;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use broker::{Running, start};
use bytes::Bytes;
use config::BrokerSetup;
use remoting::frame::{self, DEFAULT_MAX_FRAME, Split};
use remoting::{Command, RequestCode, SerializeType};
use store::record::RecordView;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// The longest that any answer may take.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A running broker. Its directory goes when it is dropped.
pub struct TestBroker {
    running: Option<Running>,
    dir: TempDir,
}

impl TestBroker {
    /// A broker with small files and defaults for the rest.
    pub async fn start() -> TestBroker {
        TestBroker::with(|_| {}).await
    }

    /// A broker whose settings are adjusted.
    pub async fn with(adjust: impl FnOnce(&mut BrokerSetup)) -> TestBroker {
        let dir = tempfile::tempdir().unwrap();
        let running = start(setup(dir.path(), adjust)).await.unwrap();
        TestBroker { running: Some(running), dir }
    }

    /// Stops the broker, lets `between` see the directory, and starts a broker on it again.
    pub async fn restart(&mut self, adjust: impl FnOnce(&mut BrokerSetup), between: impl FnOnce(PathBuf)) {
        self.running.take().unwrap().stop().await;
        between(self.dir.path().to_owned());
        self.running = Some(start(setup(self.dir.path(), adjust)).await.unwrap());
    }

    /// Stops the broker.
    pub async fn stop(mut self) {
        self.running.take().unwrap().stop().await;
    }

    /// A connection to the broker.
    pub async fn connect(&self) -> Peer {
        Peer::connect(self.running().addr()).await
    }

    /// The broker.
    pub fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }
}

/// A broker of the cases (name `bk1`, cluster `C1`) on a free port, with its store in `root`, small files, and no name server.
pub fn setup(root: &Path, adjust: impl FnOnce(&mut BrokerSetup)) -> BrokerSetup {
    let mut setup = BrokerSetup::default();
    setup.broker.broker_name = "bk1".into();
    setup.broker.broker_cluster_name = "C1".into();
    setup.broker.broker_ip1 = "127.0.0.1".into();
    setup.broker.broker_ip2 = "127.0.0.1".into();
    setup.broker.namesrv_addr = None;
    setup.netty_server.bind_address = "127.0.0.1".into();
    setup.netty_server.listen_port = 0;
    setup.store.store_path_root_dir = root.to_str().unwrap().into();
    setup.store.mapped_file_size_commit_log = 8 * 1024 * 1024;
    setup.store.mapped_file_size_consume_queue = 60_000;
    setup.store.max_hash_slot_num = 1000;
    setup.store.max_index_num = 4000;
    adjust(&mut setup);
    setup
}

/// One connection to a broker.
pub struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
    arrived: VecDeque<Command>,
    opaque: i32,
}

impl Peer {
    /// Connects.
    pub async fn connect(addr: SocketAddr) -> Peer {
        Peer::over(TcpStream::connect(addr).await.unwrap())
    }

    /// Connects with a small receive buffer: a long answer stays with the broker until it is read here.
    pub async fn connect_slow(addr: SocketAddr) -> Peer {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 * 1024).unwrap();
        Peer::over(socket.connect(addr).await.unwrap())
    }

    fn over(stream: TcpStream) -> Peer {
        Peer { stream, buffer: Vec::new(), arrived: VecDeque::new(), opaque: 100 }
    }

    /// Our end of the connection.
    pub fn local(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// Sends a request and returns its opaque.
    pub async fn send(&mut self, mut command: Command) -> i32 {
        self.opaque += 1;
        command.opaque = self.opaque;
        let mut bytes = Vec::new();
        command.encode(SerializeType::Json, &mut bytes);
        self.stream.write_all(&bytes).await.unwrap();
        self.opaque
    }

    /// Waits for the first bytes of something, and leaves them where they are.
    pub async fn wait_readable(&self) {
        tokio::time::timeout(LIMIT, self.stream.readable()).await.expect("nothing came in time").unwrap();
    }

    /// Sends raw bytes.
    pub async fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The answer to a request; other frames wait their turn.
    pub async fn answer(&mut self, opaque: i32) -> Command {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.arrived.iter().position(|command| command.is_response() && command.opaque == opaque)
            {
                return self.arrived.remove(at).unwrap();
            }
            let rest = deadline.saturating_duration_since(Instant::now());
            let frame = self.read_frame(rest).await.expect("no answer in time");
            self.arrived.push_back(frame);
        }
    }

    /// The next frame of any kind, or `None` when none comes within `limit`.
    pub async fn next(&mut self, limit: Duration) -> Option<Command> {
        match self.arrived.pop_front() {
            Some(command) => Some(command),
            None => self.read_frame(limit).await,
        }
    }

    /// Sends a request and waits for its answer.
    pub async fn call(&mut self, command: Command) -> Command {
        let opaque = self.send(command).await;
        self.answer(opaque).await
    }

    async fn read_frame(&mut self, limit: Duration) -> Option<Command> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            if let Split::Frame { total, header, serialize, body } =
                frame::split(&self.buffer, DEFAULT_MAX_FRAME).unwrap()
            {
                let command = Command::decode(serialize, header, Bytes::copy_from_slice(body)).unwrap();
                self.buffer.drain(..total);
                return Some(command);
            }
            let read = tokio::time::timeout_at(deadline, self.stream.read_buf(&mut self.buffer)).await;
            match read {
                Ok(read) => assert_ne!(read.unwrap(), 0, "the broker closed the connection"),
                Err(_) => return None,
            }
        }
    }

    /// Makes a topic with so many queues.
    pub async fn create_topic(&mut self, name: &str, queues: i32, perm: i32) {
        let command = Command::request(RequestCode::UPDATE_AND_CREATE_TOPIC)
            .field("topic", name)
            .field("defaultTopic", "TBW102")
            .field("readQueueNums", queues)
            .field("writeQueueNums", queues)
            .field("perm", perm)
            .field("topicFilterType", "SINGLE_TAG")
            .field("topicSysFlag", 0)
            .field("order", false);
        let answer = self.call(command).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
    }

    /// Makes a consumer group; `extra` are fields of its JSON.
    pub async fn create_group(&mut self, name: &str, extra: &str) {
        let body = format!("{{\"groupName\":\"{name}\"{extra}}}");
        let command = Command::request(RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).body(body.into_bytes());
        let answer = self.call(command).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
    }

    /// Sends a message that must be taken.
    pub async fn put(&mut self, topic: &str, queue_id: i32, properties: &str, body: &str) -> Command {
        let answer = self.call(message(topic, queue_id, properties, body)).await;
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        answer
    }

    /// The highest offset of a queue.
    pub async fn max_offset(&mut self, topic: &str, queue_id: i32) -> i64 {
        let command = Command::request(RequestCode::GET_MAX_OFFSET).field("topic", topic).field("queueId", queue_id);
        number(&self.call(command).await, "offset")
    }

    /// Waits until a queue has at least so many messages.
    pub async fn wait_for_offset(&mut self, topic: &str, queue_id: i32, offset: i64) {
        let limit = Instant::now() + LIMIT;
        while self.max_offset(topic, queue_id).await < offset {
            assert!(Instant::now() < limit, "{topic}/{queue_id} does not reach {offset}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// SEND_MESSAGE. In `properties`, `=` and `;` stand for the separators.
pub fn message(topic: &str, queue_id: i32, properties: &str, body: &str) -> Command {
    Command::request(RequestCode::SEND_MESSAGE)
        .field("producerGroup", "PG")
        .field("topic", topic)
        .field("defaultTopic", "TBW102")
        .field("defaultTopicQueueNums", 4)
        .field("queueId", queue_id)
        .field("sysFlag", 0)
        .field("bornTimestamp", 1_700_000_000_000i64)
        .field("flag", 0)
        .field("properties", separated(properties))
        .field("reconsumeTimes", 0)
        .body(body.as_bytes().to_vec())
}

/// A property string from its readable form.
pub fn separated(properties: &str) -> String {
    properties.replace('=', "\x01").replace(';', "\x02")
}

/// Replaces a field of a request.
pub fn set(mut command: Command, name: &str, value: impl ToString) -> Command {
    command.fields.retain(|(key, _)| key != name);
    command.field(name, value)
}

/// Drops a field of a request.
pub fn without(mut command: Command, name: &str) -> Command {
    command.fields.retain(|(key, _)| key != name);
    command
}

/// SEND_BATCH_MESSAGE of messages with properties and bodies.
pub fn batch(topic: &str, queue_id: i32, properties: &str, inner: &[(&str, &str)]) -> Command {
    let mut body = Vec::new();
    for (properties, text) in inner {
        let properties = separated(properties);
        let size = 4 + 4 + 4 + 4 + 4 + text.len() + 2 + properties.len();
        body.extend_from_slice(&(size as u32).to_be_bytes());
        body.extend_from_slice(&[0; 12]);
        body.extend_from_slice(&(text.len() as u32).to_be_bytes());
        body.extend_from_slice(text.as_bytes());
        body.extend_from_slice(&(properties.len() as u16).to_be_bytes());
        body.extend_from_slice(properties.as_bytes());
    }
    Command::request(RequestCode::SEND_BATCH_MESSAGE)
        .field("a", "PG")
        .field("b", topic)
        .field("c", "TBW102")
        .field("d", 4)
        .field("e", queue_id)
        .field("f", 0)
        .field("g", 1_700_000_000_000i64)
        .field("h", 0)
        .field("i", separated(properties))
        .field("m", true)
        .body(body)
}

/// PULL_MESSAGE with its subscription in the request and without waiting.
pub fn pull(group: &str, topic: &str, queue_id: i32, offset: i64, expression: &str) -> Command {
    Command::request(RequestCode::PULL_MESSAGE)
        .field("consumerGroup", group)
        .field("topic", topic)
        .field("queueId", queue_id)
        .field("queueOffset", offset)
        .field("maxMsgNums", 32)
        .field("sysFlag", 4)
        .field("commitOffset", 0)
        .field("suspendTimeoutMillis", 0)
        .field("subscription", expression)
        .field("subVersion", 0)
        .field("expressionType", "TAG")
}

/// A numeric field of an answer.
pub fn number(answer: &Command, field: &str) -> i64 {
    let text = answer.get(field).unwrap_or_else(|| panic!("no {field} in {answer:?}"));
    text.parse().unwrap()
}

/// A stored message.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub topic: String,
    pub queue_offset: i64,
    pub phys_offset: i64,
    pub store_timestamp: i64,
    pub store_host: SocketAddr,
    pub born_host: SocketAddr,
    pub reconsume_times: i32,
    pub body: String,
    pub properties: Vec<(String, String)>,
}

impl Stored {
    /// The value of a property.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The records of a body.
pub fn records(mut body: &[u8]) -> Vec<Stored> {
    let mut records = Vec::new();
    while !body.is_empty() {
        let view = RecordView::parse(body).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        records.push(Stored {
            topic: view.topic().to_owned(),
            queue_offset: view.queue_offset(),
            phys_offset: view.phys_offset(),
            store_timestamp: view.store_timestamp(),
            store_host: view.store_host(),
            born_host: view.born_host(),
            reconsume_times: view.reconsume_times(),
            body: text(view.body()),
            properties: view.properties().map(|(name, value)| (text(name), text(value))).collect(),
        });
        body = &body[view.size()..];
    }
    records
}
