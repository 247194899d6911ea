//! A slave beside its master at a name server: what it refuses, what it leaves to the master, and the tables that it copies.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::client::until;
use crate::common::{Peer, TestBroker, message, number, pull};
use broker::Running;
use config::{BrokerRole, BrokerSetup};
use namesrv::NamesrvStartConfig;
use parking_lot::Mutex;
use remoting::body::topic::{DataVersion, TopicConfig};
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Lane, Outcome, Router, Server, ServerOptions};
use remoting::{Command, Reply, RequestCode, ResponseCode};
use store::Queue;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A name server on a free port.
async fn name_server(dir: &Path) -> namesrv::Running {
    let mut config = NamesrvStartConfig::default();
    config.netty.listen_port = 0;
    config.netty.bind_address = "127.0.0.1".into();
    config.namesrv.kv_config_path = dir.join("kvConfig.json").display().to_string();
    config.namesrv.config_store_path = dir.join("namesrv.properties").display().to_string();
    namesrv::start(config).await.unwrap()
}

/// A master (id 0) or slave of the group `bk1`.
fn member(dir: &Path, id: i64, namesrv: &str, adjust: impl FnOnce(&mut BrokerSetup)) -> BrokerSetup {
    crate::common::setup(&dir.join(format!("store-{id}")), |setup| {
        setup.broker.broker_id = id;
        setup.broker.namesrv_addr = Some(namesrv.to_owned());
        if id > 0 {
            setup.store.broker_role = BrokerRole::Slave;
            setup.broker.slave_read_enable = true;
        }
        adjust(setup);
    })
}

/// A master and its slave.
struct Group {
    dir: TempDir,
    names: namesrv::Running,
    master: Running,
    slave: Running,
}

impl Group {
    async fn start(adjust: impl Fn(&mut BrokerSetup)) -> Group {
        let dir = tempfile::tempdir().unwrap();
        let names = name_server(dir.path()).await;
        let addr = names.addr().to_string();
        let master = broker::start(member(dir.path(), 0, &addr, &adjust)).await.unwrap();
        let slave = broker::start(member(dir.path(), 1, &addr, &adjust)).await.unwrap();
        Group { dir, names, master, slave }
    }

    async fn peers(&self) -> (Peer, Peer) {
        (Peer::connect(self.master.addr()).await, Peer::connect(self.slave.addr()).await)
    }

    /// Copies all tables now.
    async fn copy(&self) {
        assert!(self.slave.parts().slave.as_ref().unwrap().sync.copy_all().await);
    }

    async fn stop(self) {
        self.slave.stop().await;
        self.master.stop().await;
        self.names.stop().await;
        drop(self.dir);
    }
}

fn commit(group: &str, topic: &str, offset: i64) -> Command {
    Command::request(RequestCode::UPDATE_CONSUMER_OFFSET)
        .field("consumerGroup", group)
        .field("topic", topic)
        .field("queueId", 0)
        .field("commitOffset", offset)
}

fn committed(group: &str, topic: &str) -> Command {
    Command::request(RequestCode::QUERY_CONSUMER_OFFSET)
        .field("consumerGroup", group)
        .field("topic", topic)
        .field("queueId", 0)
        .field("setZeroIfNotFound", false)
}

async fn runtime(peer: &mut Peer, key: &str) -> String {
    let answer = peer.call(Command::request(RequestCode::GET_BROKER_RUNTIME_INFO)).await;
    crate::common::client::json(&answer)["table"][key].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn h_05_a_slave_takes_no_messages_and_knows_what_its_master_knows() {
    let group = Group::start(|_| {}).await;
    let (mut master, mut slave) = group.peers().await;
    master.create_topic("Old", 2, 6).await;
    master.create_group("G-old", ",\"retryMaxTimes\":3").await;
    group.copy().await;

    let answer = slave.call(message("Old", 0, "", "x")).await;
    assert_eq!(answer.code, ResponseCode::SYSTEM_BUSY.0);
    assert_eq!(answer.remark.as_deref(), Some("[REJECTREQUEST]system busy, start flow control for a while"));
    assert_eq!(slave.call(crate::common::batch("Old", 0, "", &[("", "x")])).await.code, ResponseCode::SYSTEM_BUSY.0);

    master.create_topic("New", 3, 6).await;
    assert_eq!(master.call(commit("G-old", "Old", 4)).await.code, 0);
    group.copy().await;
    let parts = group.slave.parts();
    for topic in ["Old", "New", "TBW102", "SCHEDULE_TOPIC_XXXX"] {
        assert!(parts.topics.contains(topic), "{topic}");
    }
    assert_eq!(parts.topics.data_version(), group.master.parts().topics.data_version());
    assert_eq!(parts.topics.get("New").unwrap().read_queue_nums, 3);
    assert_eq!(parts.groups.get("G-old").unwrap().retry_max_times, 3);
    assert_eq!(number(&slave.call(committed("G-old", "Old")).await, "offset"), 4);
    // All of it is on disk, too.
    for (file, text) in
        [("topics.json", "\"New\""), ("subscriptionGroup.json", "\"G-old\""), ("consumerOffset.json", "Old@G-old")]
    {
        let path = group.dir.path().join("store-1/config").join(file);
        assert!(std::fs::read_to_string(&path).unwrap().contains(text), "{file}");
    }
    group.stop().await;
}

/// What the master has taken is read from the slave, also when the master is gone.
#[tokio::test(flavor = "multi_thread")]
async fn h_05_readers_of_a_slave() {
    let group = Group::start(|_| {}).await;
    let (mut master, mut slave) = group.peers().await;
    master.create_topic("T1", 1, 6).await;
    for i in 0..5 {
        master.put("T1", 0, "", &format!("m{i}")).await;
    }
    group.copy().await;
    let end = group.master.parts().store.wrote().get();
    until(|| group.slave.parts().store.dispatched() == end).await;
    let answer = slave.call(pull("G", "T1", 0, 0, "*")).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    let bodies: Vec<_> = crate::common::records(&answer.body).into_iter().map(|record| record.body).collect();
    assert_eq!(bodies, ["m0", "m1", "m2", "m3", "m4"]);
    assert_eq!(number(&answer, "suggestWhichBrokerId"), 0, "a reader that keeps up is the master's");
    // What was copied counts as stored.
    let puts = |running: &Running| (running.parts().stats.puts.sum(0), running.parts().stats.puts.sum(1));
    until(|| puts(&group.slave) == puts(&group.master)).await;
    assert_eq!(slave.call(pull("G", "T1", 0, 5, "*")).await.code, ResponseCode::PULL_RETRY_IMMEDIATELY.0);

    group.master.stop().await;
    let answer = slave.call(pull("G", "T1", 0, 4, "*")).await;
    assert_eq!((answer.code, crate::common::records(&answer.body).len()), (0, 1));
    group.slave.stop().await;
    group.names.stop().await;
}

/// An operator makes the slave the master: it goes on where the old one was, and delivers nothing twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_slave_becomes_the_master() {
    let adjust = |setup: &mut BrokerSetup| setup.store.message_delay_level = "1s 9s".to_owned();
    let group = Group::start(adjust).await;
    let (mut master, _) = group.peers().await;
    master.create_topic("T1", 1, 6).await;
    // The slave's marks of the timer are from before the first delivery.
    group.copy().await;
    group.slave.parts().slave.as_ref().unwrap().sync.copy_timer_marks().await.unwrap();
    let now = broker::stats::now_millis();
    master.put("T1", 0, "DELAY=1;UNIQ_KEY=a", "delayed, delivered").await;
    master.put("T1", 0, &format!("TIMER_DELIVER_MS={};UNIQ_KEY=b", now + 1500), "timed, delivered").await;
    master.put("T1", 0, "DELAY=2;UNIQ_KEY=c", "delayed").await;
    master.put("T1", 0, &format!("TIMER_DELIVER_MS={};UNIQ_KEY=d", now + 9000), "timed").await;
    master.wait_for_offset("T1", 0, 2).await;
    let of_master = group.master.parts();
    until(|| of_master.schedule.progress().iter().any(|(level, offset, _)| (*level, *offset) == (1, 1))).await;
    // Delay offsets are copied; the timer's progress is not, but stands in the log.
    group.copy().await;
    let end = of_master.store.wrote().get();
    until(|| group.slave.parts().store.dispatched() == end).await;
    group.slave.stop().await;
    group.master.stop().await;

    let addr = group.names.addr().to_string();
    let promoted = broker::start(member(group.dir.path(), 1, &addr, |setup| {
        adjust(setup);
        setup.store.broker_role = BrokerRole::AsyncMaster;
    }))
    .await
    .unwrap();
    assert_eq!(promoted.parts().identity.id, 0);
    let mut peer = Peer::connect(promoted.addr()).await;
    peer.wait_for_offset("T1", 0, 4).await;
    peer.put("T1", 0, "", "new").await;
    let answer = peer.call(pull("G", "T1", 0, 0, "*")).await;
    let mut bodies: Vec<_> = crate::common::records(&answer.body).into_iter().map(|record| record.body).collect();
    bodies.sort();
    assert_eq!(bodies, ["delayed", "delayed, delivered", "new", "timed", "timed, delivered"]);
    until(|| promoted.parts().timer.as_ref().unwrap().waiting() == 0).await;
    assert_eq!(peer.max_offset("T1", 0).await, 5);
    promoted.stop().await;
    group.names.stop().await;
}

/// The topics come before the log: what their attributes ask for holds for the first message.
#[tokio::test(flavor = "multi_thread")]
async fn attributes_of_topics_hold_from_the_first_message() {
    let dir = tempfile::tempdir().unwrap();
    let names = name_server(dir.path()).await;
    let addr = names.addr().to_string();
    let master = broker::start(member(dir.path(), 0, &addr, |_| {})).await.unwrap();
    let mut peer = Peer::connect(master.addr()).await;
    let mut batches = TopicConfig::new("Batches", 1, 6);
    batches.attributes.insert("+queue.type".to_owned(), "BatchCQ".to_owned());
    let mut compacted = TopicConfig::new("Compacted", 1, 6);
    compacted.attributes.insert("+cleanup.policy".to_owned(), "COMPACTION".to_owned());
    master.parts().topics.update(vec![batches, compacted]).unwrap();
    peer.put("Batches", 0, "", "one").await;
    peer.put("Compacted", 0, "KEYS=k", "two").await;

    let slave = broker::start(member(dir.path(), 1, &addr, |_| {})).await.unwrap();
    let (of_master, of_slave) = (&master.parts().store, &slave.parts().store);
    let end = of_master.wrote().get();
    until(|| of_slave.dispatched() == end).await;
    assert!(of_slave.queue("Batches", 0).unwrap().is_batch());
    until(|| dir.path().join("store-1/compaction/compactionLog/Compacted/0").is_dir()).await;

    // One that is made later is known soon, because of its messages.
    peer.create_topic("Later", 1, 6).await;
    peer.put("Later", 0, "", "three").await;
    until(|| slave.parts().topics.contains("Later")).await;
    slave.stop().await;
    master.stop().await;
    names.stop().await;
}

fn delete(topic: &str) -> Command {
    Command::request(RequestCode::DELETE_TOPIC_IN_BROKER).field("topic", topic)
}

impl Group {
    /// Waits until the slave has dispatched all that the master has.
    async fn caught_up(&self) {
        let end = self.master.parts().store.wrote().get();
        until(|| self.slave.parts().store.dispatched() == end).await;
    }

    /// Copies all tables, and looks for queues that the master has not.
    async fn compare(&self) {
        let sync = &self.slave.parts().slave.as_ref().unwrap().sync;
        until(|| self.slave.parts().ha.is_in_line()).await;
        for _ in 0..2 {
            sync.compare_queues().await.unwrap();
            assert!(sync.copy_all().await);
        }
    }

    /// The queues of a topic are the same on both.
    fn same_queues(&self, topic: &str) {
        let queues = |running: &Running| {
            let store = &running.parts().store;
            let queue = |queue: Arc<Queue>| {
                let entries: Vec<_> = queue.entries(queue.min_offset()).into_iter().flatten().collect();
                (queue.id(), queue.min_offset(), queue.max_offset(), queue.is_batch(), queue.is_compacted(), entries)
            };
            store.queues_of(topic).into_iter().map(queue).filter(|queue| queue.2 > 0).collect::<Vec<_>>()
        };
        assert_eq!(queues(&self.slave), queues(&self.master), "{topic}");
    }
}

/// A topic is deleted on the master, which tells nobody, and made again: the slave has what the master has.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_made_again() {
    let group = Group::start(|_| {}).await;
    let (mut master, mut slave) = group.peers().await;
    master.create_group("G", "").await;
    for topic in ["T1", "Other"] {
        master.create_topic(topic, 2, 6).await;
        for i in 0..6 {
            master.put(topic, i % 2, "KEYS=k", &format!("old {i}")).await;
        }
        assert_eq!(master.call(commit("G", topic, 2)).await.code, 0);
    }
    group.caught_up().await;
    group.copy().await;
    assert_eq!(number(&slave.call(committed("G", "T1")).await, "offset"), 2);

    // With fewer messages than before, and with more; one of its queues gets none.
    for count in [2, 9] {
        assert_eq!(master.call(delete("T1")).await.code, 0);
        master.create_topic("T1", 2, 6).await;
        for i in 0..count {
            master.put("T1", 0, "", &format!("new {i}")).await;
        }
        group.caught_up().await;
        let answer = slave.call(pull("G", "T1", 0, 0, "*")).await;
        let bodies: Vec<_> = crate::common::records(&answer.body).into_iter().map(|record| record.body).collect();
        assert_eq!(bodies, (0..count).map(|i| format!("new {i}")).collect::<Vec<_>>());
        assert_eq!(slave.max_offset("T1", 0).await, count);
        group.compare().await;
        group.same_queues("T1");
        assert_eq!(slave.max_offset("T1", 1).await, 0);
        // What consumers had committed went with the topic.
        let answers = [master.call(committed("G", "T1")).await, slave.call(committed("G", "T1")).await];
        assert_eq!(answers.map(|answer| answer.code), [ResponseCode::QUERY_NOT_FOUND.0; 2]);
        master.put("T1", 1, "", "in the other queue").await;
        assert_eq!(master.call(commit("G", "T1", 1)).await.code, 0);
        group.copy().await;
        assert_eq!(number(&slave.call(committed("G", "T1")).await, "offset"), 1);
    }
    group.caught_up().await;
    for topic in ["T1", "Other"] {
        group.same_queues(topic);
    }

    // Without a successor, and with one that gets no message.
    assert_eq!(master.call(delete("T1")).await.code, 0);
    assert_eq!(master.call(delete("Other")).await.code, 0);
    master.create_topic("Other", 2, 6).await;
    group.compare().await;
    assert!(group.slave.parts().store.queues_of("T1").is_empty());
    assert!(!group.dir.path().join("store-1/consumequeue/T1").exists());
    // Nothing tells of that one; it has its turn.
    let sync = &group.slave.parts().slave.as_ref().unwrap().sync;
    for _ in 0..3 {
        sync.suspect_some();
        sync.compare_queues().await.unwrap();
    }
    assert!(group.slave.parts().store.queues_of("Other").is_empty());
    group.stop().await;
}

/// Messages come before the attributes of their topic: what they ask for holds all the same, also for another topic of the
/// same name.
#[tokio::test(flavor = "multi_thread")]
async fn attributes_of_topics_that_come_late() {
    let group = Group::start(|_| {}).await;
    let (mut master, _) = group.peers().await;
    until(|| group.slave.parts().ha.is_in_line() || group.slave.parts().ha.master().is_some()).await;
    let batches = ("+queue.type", "BatchCQ");
    let compacted = ("+cleanup.policy", "COMPACTION");
    for attribute in [None, Some(batches), None, Some(compacted), None, Some(batches), Some(compacted)] {
        let mut topic = TopicConfig::new("T1", 2, 6);
        topic.attributes.extend(attribute.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(master.call(delete("T1")).await.code, 0);
        group.master.parts().topics.update(vec![topic]).unwrap();
        for i in 0..5 {
            master.put("T1", 0, "KEYS=k", &format!("single {i}")).await;
            master.put("T1", 1, "KEYS=k", &format!("single {i}")).await;
            if attribute == Some(batches) {
                let batch = crate::common::batch("T1", 0, "UNIQ_KEY=U", &[("", "a"), ("", "b")]);
                assert_eq!(master.call(batch).await.code, 0);
            }
        }
        group.caught_up().await;
        group.compare().await;
        group.same_queues("T1");
        let queue = group.slave.parts().store.queue("T1", 0).unwrap();
        assert_eq!(
            (queue.is_batch(), queue.is_compacted()),
            (attribute == Some(batches), attribute == Some(compacted))
        );
        // And it goes on so.
        master.put("T1", 0, "KEYS=k", "later").await;
        group.caught_up().await;
        group.same_queues("T1");
    }
    group.stop().await;
}

/// A reader that is further behind than the memory reaches goes to the slave, and stays there as long as it is.
#[tokio::test(flavor = "multi_thread")]
async fn readers_far_behind() {
    let group = Group::start(|setup| {
        setup.broker.slave_read_enable = true;
        setup.store.access_message_in_memory_max_ratio = 0;
    })
    .await;
    let (mut master, mut slave) = group.peers().await;
    master.create_topic("T1", 1, 6).await;
    master.create_group("G2", ",\"whichBrokerWhenConsumeSlowly\":2").await;
    for i in 0..3 {
        master.put("T1", 0, "", &format!("m{i}")).await;
    }
    group.copy().await;
    let end = group.master.parts().store.wrote().get();
    until(|| group.slave.parts().store.dispatched() == end).await;
    for peer in [&mut master, &mut slave] {
        let answer = peer.call(pull("G", "T1", 0, 0, "*")).await;
        assert_eq!((answer.code, number(&answer, "suggestWhichBrokerId")), (0, 1));
        let answer = peer.call(pull("G2", "T1", 0, 0, "*")).await;
        assert_eq!((answer.code, number(&answer, "suggestWhichBrokerId")), (0, 2));
    }
    group.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_slave_refuses_and_what_it_does() {
    let group = Group::start(|_| {}).await;
    let (mut master, mut slave) = group.peers().await;
    master.create_topic("T1", 1, 6).await;
    group.copy().await;

    let end = Command::request(RequestCode::END_TRANSACTION)
        .field("producerGroup", "PG")
        .field("tranStateTableOffset", 0)
        .field("commitLogOffset", 0)
        .field("commitOrRollback", 8)
        .field("fromTransactionCheck", false)
        .field("msgId", "x");
    assert_eq!(slave.call(end).await.code, ResponseCode::SLAVE_NOT_AVAILABLE.0);
    let back = Command::request(RequestCode::CONSUMER_SEND_MSG_BACK)
        .field("group", "G")
        .field("offset", 0)
        .field("delayLevel", 0)
        .field("originMsgId", "x")
        .field("originTopic", "T1")
        .field("unitMode", false)
        .field("maxReconsumeTimes", 16);
    assert_eq!(slave.call(back).await.code, ResponseCode::SYSTEM_BUSY.0);
    let reset = Command::request(RequestCode::INVOKE_BROKER_TO_RESET_OFFSET)
        .field("topic", "T1")
        .field("group", "G")
        .field("timestamp", -1)
        .field("isForce", true);
    let answer = slave.call(reset).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("Can not reset offset in slave broker")));

    // Only the master delivers and asks.
    assert_eq!(
        (runtime(&mut master, "brokerActive").await, runtime(&mut slave, "brokerActive").await),
        ("true".into(), "false".into())
    );
    assert!(group.master.parts().duties.are_on() && !group.slave.parts().duties.are_on());

    // A topic that an administrator makes on a slave is one until the master's are copied again.
    slave.create_topic("SlaveMade", 8, 6).await;
    assert!(group.slave.parts().topics.contains("SlaveMade"));
    group.copy().await;
    assert!(!group.slave.parts().topics.contains("SlaveMade") && group.slave.parts().topics.contains("T1"));

    // Readers commit where they read.
    slave.create_group("G", "").await;
    assert_eq!(slave.call(commit("G", "T1", 9)).await.code, 0);
    assert_eq!(number(&slave.call(committed("G", "T1")).await, "offset"), 9);
    group.copy().await;
    assert_eq!(number(&slave.call(committed("G", "T1")).await, "offset"), 9, "the master does not know the group");
    group.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slave_that_does_not_serve_readers() {
    let group = Group::start(|setup| setup.broker.slave_read_enable = false).await;
    let (mut master, mut slave) = group.peers().await;
    master.create_topic("T1", 1, 6).await;
    group.copy().await;
    let answer = slave.call(pull("G", "T1", 0, 0, "*")).await;
    assert_eq!(answer.code, ResponseCode::SYSTEM_BUSY.0);
    assert_eq!(answer.remark.as_deref(), Some("[REJECTREQUEST]system busy, start flow control for a while"));
    group.stop().await;
}

/// While there is a master, whoever has caught up is sent there, at once.
#[tokio::test(flavor = "multi_thread")]
async fn readers_are_sent_back_to_the_master() {
    let group = Group::start(|_| {}).await;
    let (mut master, mut slave) = group.peers().await;
    master.create_topic("T1", 1, 6).await;
    group.copy().await;
    let waits = crate::common::set(
        crate::common::set(pull("G", "T1", 0, 0, "*"), "sysFlag", 6),
        "suspendTimeoutMillis",
        15_000,
    );
    let answer = slave.call(waits.clone()).await;
    assert_eq!(answer.code, ResponseCode::PULL_RETRY_IMMEDIATELY.0);
    assert_eq!(number(&answer, "suggestWhichBrokerId"), 0);
    // A slave corrects nobody's offset: it may only be behind.
    let answer = slave.call(crate::common::set(waits, "queueOffset", 7)).await;
    assert_eq!(answer.code, ResponseCode::PULL_RETRY_IMMEDIATELY.0);
    assert_eq!(number(&answer, "nextBeginOffset"), 7);
    group.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_in_pages_and_all_others() {
    let group = Group::start(|setup| setup.broker.split_metadata_size = 3).await;
    let (mut master, _) = group.peers().await;
    for i in 0..20 {
        master.create_topic(&format!("Topic-{i}"), 1, 6).await;
        master.create_group(&format!("Group-{i}"), "").await;
    }
    let mode = r#"{"topic":"Topic-1","consumerGroup":"Group-1","mode":"POP","popShareQueueNum":2}"#;
    let answer = master.call(Command::request(RequestCode::SET_MESSAGE_REQUEST_MODE).body(mode)).await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    group.master.parts().groups.set_forbidden("Group-1", "Topic-1", 0, true);
    master.put("Topic-1", 0, "DELAY=1", "later").await;
    until(|| group.master.parts().schedule.progress().iter().any(|(level, offset, _)| (*level, *offset) == (1, 1)))
        .await;

    group.copy().await;
    let (of_master, of_slave) = (group.master.parts(), group.slave.parts());
    let names = |running: &Running| -> Vec<TopicConfig> {
        running.parts().topics.snapshot().iter().map(|topic| topic.config().clone()).collect()
    };
    assert_eq!(names(&group.slave), names(&group.master));
    assert_eq!(of_slave.groups.names(), of_master.groups.names());
    assert!(of_slave.groups.is_forbidden("Group-1", "Topic-1", 0));
    assert_eq!(of_slave.request_modes.encode(), of_master.request_modes.encode());
    let saved = std::fs::read_to_string(group.dir.path().join("store-1/config/delayOffset.json")).unwrap();
    assert!(saved.contains("1:1"), "{saved}");
    group.stop().await;
}

/// A master that answers what a test wants.
struct Odd {
    bodies: Arc<Mutex<Vec<(i32, Reply)>>>,
}

impl Handler for Odd {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let bodies = self.bodies.lock();
        let found = bodies.iter().find(|(code, _)| *code == cx.request().code);
        found.map_or_else(|| Reply::error(ResponseCode::SYSTEM_ERROR, "no"), |(_, reply)| reply.clone()).into()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_answers_change_nothing() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let mut router = Router::new();
    for code in [21, 43, 45, 60, 61, 201, 402] {
        router.on(RequestCode(code), Lane::Inline, Arc::new(Odd { bodies: bodies.clone() }));
    }
    let listen = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(ServerOptions { listen, ..ServerOptions::default() }, Arc::new(router)).unwrap();
    let (addr, stop) = (server.local_addr(), CancellationToken::new());
    let task = tokio::spawn(server.run(stop.clone()));

    let slave = TestBroker::with(|setup| {
        setup.store.broker_role = BrokerRole::Slave;
        setup.broker.broker_id = 1;
    })
    .await;
    let parts = slave.running().parts();
    parts.topics.update(vec![TopicConfig::new("Kept", 2, 6)]).unwrap();
    parts.groups.find_or_create("G-kept").unwrap();
    parts.offsets.commit("G-kept", "Kept", 0, 5);
    let sync = &parts.slave.as_ref().unwrap().sync;
    sync.set_master(Some(&addr.to_string()));
    let state = || {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let groups = format!("{:?}", parts.groups.snapshot());
        let timer = text(parts.timer.as_ref().unwrap().counts().encode());
        (
            text(parts.topics.encode(false)),
            groups,
            text(parts.offsets.encode(false)),
            text(parts.schedule.encode(false)),
            text(parts.request_modes.encode()),
            timer,
        )
    };
    let before = state();
    let version = remoting::body::fastjson::to_vec(&DataVersion::new()).unwrap();
    let version = String::from_utf8(version).unwrap();
    let topic = r#"{"topicName":"A","perm":6}"#;
    let cases: Vec<(i32, Reply)> = vec![
        (21, Reply::ok().body("").field("totalTopicNum", 0)),
        (21, Reply::ok().body("null")),
        (21, Reply::ok().body("{").field("totalTopicNum", 1)),
        (21, Reply::ok().body(format!(r#"{{"dataVersion":{version},"topicConfigTable":{{}}}}"#))),
        // One of two, and then nothing any more.
        (
            21,
            Reply::ok()
                .body(format!(r#"{{"dataVersion":{version},"topicConfigTable":{{}}}}"#))
                .field("totalTopicNum", 2),
        ),
        (21, Reply::ok().body(format!(r#"{{"topicConfigTable":{{"A":{topic}}}, "dataVersion":7}}"#))),
        (201, Reply::ok().body("[]").field("totalGroupNum", 1)),
        (201, Reply::ok().body("{}")),
        (201, Reply::ok().body(&b"\xff\xfe"[..])),
        (43, Reply::ok().body(r#"{"offsetTable":{"T@G":{0:"x"}}}"#)),
        (43, Reply::ok().body("")),
        (43, Reply::ok().body(r#"{"offsetTable":{"T@G":{0:1}}"#)),
        (45, Reply::ok().body(r#"{"offsetTable":{1:}}"#)),
        (45, Reply::ok().body("null")),
        (402, Reply::ok().body(r#"{"messageRequestModeMap":7}"#)),
        (61, Reply::ok().body("x")),
        (60, Reply::ok().body(vec![0xff; 31])),
        (60, Reply::ok().body(vec![0xff; 56])),
        (60, Reply::ok().body(vec![0x7f; 56])),
    ];
    for (code, reply) in cases {
        let text = format!("{code} {reply:?}");
        *bodies.lock() = vec![(code, reply)];
        sync.copy_all().await;
        let _ = sync.copy_timer_marks().await;
        assert_eq!(state(), before, "{text}");
    }
    stop.cancel();
    task.await.unwrap();
    // A master that is gone changes nothing either, and does not hold the slave up.
    let gone = tokio::time::timeout(Duration::from_secs(10), sync.copy_all()).await.unwrap();
    assert!(!gone);
    assert_eq!(state(), before);
    slave.stop().await;
}

/// The slave's way through the name server: known under its id, told where the master is, gone after the stop.
#[tokio::test(flavor = "multi_thread")]
async fn a_slave_at_the_name_server() {
    let dir = tempfile::tempdir().unwrap();
    let names = name_server(dir.path()).await;
    let addr = names.addr().to_string();
    let members = || names.routes().member_group(Some("C1"), Some("bk1")).broker_addrs;
    let slave = broker::start(member(dir.path(), 1, &addr, |_| {})).await.unwrap();
    assert_eq!(members().into_iter().collect::<Vec<_>>(), [(1, slave.addr().to_string())]);
    let sync = slave.parts().slave.as_ref().unwrap().sync.clone();
    assert_eq!(sync.master(), None);

    let master = broker::start(member(dir.path(), 0, &addr, |_| {})).await.unwrap();
    assert_eq!(members().len(), 2);
    slave.parts().link.register_all(true).await;
    assert_eq!(sync.master(), Some(master.addr().to_string()));
    let ha = format!("127.0.0.1:{}", master.addr().port() + 1);
    until(|| slave.parts().ha.master() == Some(ha.clone())).await;

    // The master leaves: its tables cannot be copied, its log may be.
    master.stop().await;
    slave.parts().link.register_all(true).await;
    assert_eq!((sync.master(), slave.parts().ha.master()), (None, Some(ha)));
    slave.stop().await;
    assert!(members().is_empty());
    names.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slave_needs_an_id() {
    let dir = tempfile::tempdir().unwrap();
    let error =
        broker::start(member(dir.path(), 1, "127.0.0.1:1", |setup| setup.broker.broker_id = 0)).await.err().unwrap();
    assert_eq!(error.to_string(), "Slave's brokerId must be > 0");
}
