//! Static topics: logical queues whose items are queues of several brokers.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::client::json;
use crate::common::{LIMIT, Peer, TestBroker, message, number, pull, records, separated, set};
use namesrv::NamesrvStartConfig;
use remoting::body::fastjson;
use remoting::body::topic_queue_mapping::{LogicQueueMappingItem, TopicQueueMappingDetail};
use remoting::{Command, RequestCode, ResponseCode};
use tempfile::TempDir;

const NOT_LEADER: i32 = ResponseCode::NOT_LEADER_FOR_QUEUE.0;
const EPOCH: i64 = 1_795_971_933_179;

fn item(generation: i32, broker: &str, queue_id: i32, logic_offset: i64) -> LogicQueueMappingItem {
    LogicQueueMappingItem { bname: Some(broker.into()), generation, queue_id, logic_offset, ..Default::default() }
}

fn mapping(broker: &str, total: i32, queues: &[(i32, Vec<LogicQueueMappingItem>)]) -> TopicQueueMappingDetail {
    TopicQueueMappingDetail {
        bname: Some(broker.into()),
        topic: Some("TST".into()),
        epoch: EPOCH,
        total_queues: total,
        hosted_queues: queues.iter().cloned().collect(),
        ..TopicQueueMappingDetail::default()
    }
}

/// UPDATE_AND_CREATE_STATIC_TOPIC.
fn create(queues: i32, mapping: &TopicQueueMappingDetail, force: bool) -> Command {
    Command::request(RequestCode::UPDATE_AND_CREATE_STATIC_TOPIC)
        .field("topic", "TST")
        .field("defaultTopic", "TBW102")
        .field("readQueueNums", queues)
        .field("writeQueueNums", queues)
        .field("perm", 6)
        .field("topicFilterType", "SINGLE_TAG")
        .field("topicSysFlag", 0)
        .field("order", false)
        .field("force", force)
        .body(fastjson::to_vec(mapping).unwrap())
}

async fn set_mapping(peer: &mut Peer, queues: i32, mapping: &TopicQueueMappingDetail) {
    let answer = peer.call(create(queues, mapping, false)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, Some("not set any response code")));
}

fn ask(code: RequestCode, queue_id: i32) -> Command {
    Command::request(code).field("topic", "TST").field("queueId", queue_id)
}

fn commit(queue_id: i32, offset: i64) -> Command {
    ask(RequestCode::UPDATE_CONSUMER_OFFSET, queue_id).field("consumerGroup", "GS").field("commitOffset", offset)
}

fn committed(queue_id: i32) -> Command {
    ask(RequestCode::QUERY_CONSUMER_OFFSET, queue_id).field("consumerGroup", "GS")
}

/// The broker's own view of its queues.
fn own(command: Command) -> Command {
    command.field("lo", false)
}

/// What a pull has found: bodies with their offsets in the logical queue.
fn found(answer: &Command) -> Vec<(i64, String)> {
    assert_eq!(answer.code, 0, "{answer:?}");
    let delta = number(answer, "offsetDelta");
    records(&answer.body).into_iter().map(|record| (record.queue_offset + delta, record.body)).collect()
}

fn bodies(from: i64, bodies: &[&str]) -> Vec<(i64, String)> {
    (from..).zip(bodies.iter().map(|body| (*body).to_owned())).collect()
}

/// A name server and brokers that know one another through it.
struct Cluster {
    names: namesrv::Running,
    brokers: Vec<TestBroker>,
    _dir: TempDir,
}

async fn name_server(dir: &Path) -> namesrv::Running {
    let mut config = NamesrvStartConfig::default();
    config.netty.listen_port = 0;
    config.netty.bind_address = "127.0.0.1".to_owned();
    config.namesrv.kv_config_path = dir.join("kv.json").display().to_string();
    config.namesrv.config_store_path = dir.join("namesrv.properties").display().to_string();
    namesrv::start(config).await.unwrap()
}

impl Cluster {
    /// Brokers `b0`, `b1` and so on.
    async fn start(brokers: usize) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let names = name_server(dir.path()).await;
        let mut cluster = Cluster { names, brokers: Vec::new(), _dir: dir };
        for at in 0..brokers {
            let adjust = cluster.settings(at);
            cluster.brokers.push(TestBroker::with(adjust).await);
        }
        cluster
    }

    fn settings(&self, at: usize) -> impl FnOnce(&mut config::BrokerSetup) + use<> {
        let addr = self.names.addr().to_string();
        move |setup| {
            setup.broker.broker_name = format!("b{at}");
            setup.broker.namesrv_addr = Some(addr);
        }
    }

    async fn stop(self) {
        for broker in self.brokers {
            broker.stop().await;
        }
        self.names.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g_01_static_topic() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    set_mapping(&mut peer, 2, &mapping("bk1", 2, &[(0, vec![item(0, "bk1", 0, 0)])])).await;
    for request in [
        message("TST", 1, "", "x"),
        pull("GS", "TST", 1, 0, "*"),
        ask(RequestCode::GET_MAX_OFFSET, 1),
        ask(RequestCode::GET_MIN_OFFSET, 1),
        ask(RequestCode::GET_EARLIEST_MSG_STORETIME, 1),
        ask(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP, 1).field("timestamp", 0),
        committed(1),
        commit(1, 0),
    ] {
        let answer = peer.call(request.clone()).await;
        let remark = answer.remark.unwrap_or_default();
        assert!(remark.contains("TST-1") && remark.contains("bk1"), "{request:?}: {remark}");
        assert_eq!(answer.code, NOT_LEADER, "{request:?}");
    }
    let sent = peer.put("TST", 0, "", "x").await;
    assert_eq!((sent.get("queueId"), sent.get("queueOffset")), (Some("0"), Some("0")));
    let answer = peer.call(pull("GS", "TST", 0, 0, "*")).await;
    assert_eq!((answer.get("offsetDelta"), found(&answer)), (Some("0"), bodies(0, &["x"])));
    // The broker's own queues are all there.
    let answer = peer.call(own(ask(RequestCode::GET_MAX_OFFSET, 1))).await;
    assert_eq!((answer.code, number(&answer, "offset")), (0, 0));
    broker.stop().await;
}

/// Whatever a producer's queue is called here, it sees its own number.
#[tokio::test(flavor = "multi_thread")]
async fn messages_go_to_the_brokers_queue_and_show_the_logical_one() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    let queues = [(3, vec![item(0, "other", 0, 0), item(1, "bk1", 1, 500)]), (7, vec![item(0, "bk1", 0, 0)])];
    set_mapping(&mut peer, 2, &mapping("bk1", 8, &queues)).await;
    let sent = peer.put("TST", 3, "", "one").await;
    assert_eq!((number(&sent, "queueId"), number(&sent, "queueOffset")), (3, 500));
    let sent = peer.call(crate::common::batch("TST", 3, "", &[("", "two"), ("", "three")])).await;
    assert_eq!((sent.code, number(&sent, "queueId"), number(&sent, "queueOffset")), (0, 3, 501));
    // No queue named: the first one that is held here.
    let sent = peer.put("TST", -1, "", "four").await;
    assert_eq!((number(&sent, "queueId"), number(&sent, "queueOffset")), (3, 503));
    let own_end = peer.call(own(ask(RequestCode::GET_MAX_OFFSET, 1))).await;
    assert_eq!(number(&own_end, "offset"), 4);
    // A request that says so is about the broker's queue.
    let sent = peer.call(own(message("TST", 0, "", "five"))).await;
    assert_eq!((number(&sent, "queueId"), number(&sent, "queueOffset")), (0, 0));
    let answer = peer.call(pull("GS", "TST", 3, 501, "*")).await;
    assert_eq!(found(&answer), bodies(501, &["two", "three", "four"]));
    let offsets = ["nextBeginOffset", "minOffset", "maxOffset", "offsetDelta"].map(|name| number(&answer, name));
    assert_eq!(offsets, [504, 500, 504, 500]);
    let answer = peer.call(pull("GS", "TST", 7, 0, "*")).await;
    assert_eq!(found(&answer), bodies(0, &["five"]));
    // An ordinary topic beside it is as ever.
    peer.create_topic("T", 1, 6).await;
    peer.put("T", 0, "", "x").await;
    assert_eq!(peer.call(pull("GS", "T", 0, 0, "*")).await.get("offsetDelta"), None);
    broker.stop().await;
}

/// A logical queue that has moved from b0 to b1, with messages on both.
async fn moved(cluster: &Cluster) -> (Peer, Peer) {
    let (mut old, mut new) = (cluster.brokers[0].connect().await, cluster.brokers[1].connect().await);
    for peer in [&mut old, &mut new] {
        peer.create_group("GS", "").await;
    }
    let first = |broker: &str| match broker {
        "b0" => mapping("b0", 1, &[(0, vec![item(0, "b0", 1, 0)])]),
        other => mapping(other, 1, &[]),
    };
    set_mapping(&mut old, 2, &first("b0")).await;
    set_mapping(&mut new, 1, &first("b1")).await;
    for at in 0..10 {
        let sent = old.put("TST", 0, "", &format!("old-{at}")).await;
        assert_eq!(number(&sent, "queueOffset"), at);
    }
    // As the tool does it: the new leader without its place, the old one, and then the place.
    let next = |broker: &str, place: i64| TopicQueueMappingDetail {
        epoch: EPOCH + 1,
        ..mapping(broker, 1, &[(0, vec![item(0, "b0", 1, 0), item(1, "b1", 0, place)])])
    };
    set_mapping(&mut new, 1, &next("b1", -1)).await;
    let sent = new.put("TST", 0, "", "new-0").await;
    assert_eq!(number(&sent, "queueOffset"), -1, "where it is in the logical queue is not decided");
    set_mapping(&mut old, 2, &next("b0", -1)).await;
    set_mapping(&mut new, 1, &next("b1", 100)).await;
    assert_eq!(old.call(message("TST", 0, "", "x")).await.code, NOT_LEADER);
    for at in 1..4 {
        let sent = new.put("TST", 0, "", &format!("new-{at}")).await;
        assert_eq!((number(&sent, "queueId"), number(&sent, "queueOffset")), (0, 100 + at));
    }
    (old, new)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_moved_is_read_through_its_new_leader() {
    let cluster = Cluster::start(2).await;
    let (mut old, mut new) = moved(&cluster).await;
    let (mut next, mut all) = (0, Vec::new());
    while all.len() < 14 {
        let answer = new.call(set(pull("GS", "TST", 0, next, "*"), "maxMsgNums", 4)).await;
        match ResponseCode(answer.code) {
            ResponseCode::SUCCESS => all.extend(found(&answer)),
            code => assert_eq!(code, ResponseCode::PULL_RETRY_IMMEDIATELY, "{answer:?}"),
        }
        assert!(number(&answer, "nextBeginOffset") > next);
        next = number(&answer, "nextBeginOffset");
    }
    let names: Vec<_> = (0..10).map(|at| format!("old-{at}")).chain((0..4).map(|at| format!("new-{at}"))).collect();
    let offsets: Vec<i64> = (0..10).chain(100..104).collect();
    assert_eq!(all, offsets.into_iter().zip(names).collect::<Vec<_>>());
    assert_eq!(next, 104);
    // Behind the old end, within the gap, before the beginning.
    for (offset, code, next) in [(10, 20, 100), (50, 20, 100), (104, 19, 104), (200, 21, 104), (-3, 21, 0)] {
        let answer = new.call(pull("GS", "TST", 0, offset, "*")).await;
        let number = |name| number(&answer, name);
        assert_eq!((offset, answer.code, number("nextBeginOffset")), (offset, code, next));
    }
    let offset = |answer: Command| (answer.code, number(&answer, "offset"));
    assert_eq!(offset(new.call(ask(RequestCode::GET_MIN_OFFSET, 0)).await), (0, 0));
    assert_eq!(offset(new.call(ask(RequestCode::GET_MAX_OFFSET, 0)).await), (0, 104));
    let earliest = new.call(ask(RequestCode::GET_EARLIEST_MSG_STORETIME, 0)).await;
    let theirs = old.call(own(ask(RequestCode::GET_EARLIEST_MSG_STORETIME, 1))).await;
    assert!(number(&theirs, "timestamp") > 0);
    assert_eq!(number(&earliest, "timestamp"), number(&theirs, "timestamp"));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_by_time_are_found_in_the_item_that_has_them() {
    let cluster = Cluster::start(2).await;
    let (mut old, mut new) = moved(&cluster).await;
    let theirs = old.call(own(pull("GS", "TST", 1, 0, "*"))).await;
    let ours = new.call(own(pull("GS", "TST", 0, 0, "*"))).await;
    let times =
        |answer: &Command| -> Vec<i64> { records(&answer.body).iter().map(|record| record.store_timestamp).collect() };
    let (theirs, ours) = (times(&theirs), times(&ours));
    let logical: Vec<(i64, i64)> = (0..).zip(theirs).chain((100..).zip(ours)).collect();
    let lower = |time: i64| logical.iter().find(|(_, at)| *at >= time).map_or(104, |(offset, _)| *offset);
    for time in [0, logical[0].1, logical[5].1, logical[9].1, logical[10].1, logical[13].1, logical[13].1 + 1000] {
        let search = ask(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP, 0).field("timestamp", time);
        let answer = new.call(search).await;
        assert_eq!((time, number(&answer, "offset")), (time, lower(time)), "{logical:?}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consumer_offsets_stay_with_the_item_that_they_are_of() {
    let cluster = Cluster::start(2).await;
    let (mut old, mut new) = moved(&cluster).await;
    let offset = |answer: Command| (answer.code, number(&answer, "offset"));
    let answer = new.call(committed(0)).await;
    let remark = "Not found, maybe this group consumer boot first";
    assert_eq!((answer.code, answer.remark.as_deref()), (22, Some(remark)));
    assert_eq!(new.call(commit(0, 7)).await.code, 0);
    assert_eq!(offset(old.call(own(committed(1))).await), (0, 7));
    assert_eq!(offset(new.call(committed(0)).await), (0, 7));
    assert_eq!(new.call(commit(0, 102)).await.code, 0);
    assert_eq!(offset(new.call(own(committed(0))).await), (0, 2));
    assert_eq!(offset(new.call(committed(0)).await), (0, 102));
    // A pull that commits means the logical offset, too.
    let commits = |offset: i64, committed: i64| {
        set(set(pull("GS", "TST", 0, offset, "*"), "sysFlag", 1 | 4), "commitOffset", committed)
    };
    assert_eq!(found(&new.call(commits(103, 103)).await).len(), 1);
    assert_eq!(offset(new.call(own(committed(0))).await), (0, 3));
    assert_eq!(found(&new.call(commits(103, 8)).await).len(), 1);
    assert_eq!(offset(new.call(committed(0)).await), (0, 103));
    // What a tool needs to tell a queue without an offset from one that stands at 0.
    let stats = Command::request(RequestCode::GET_CONSUME_STATS).field("consumerGroup", "GS").field("topic", "TST");
    let table = json(&old.call(stats).await)["offsetTable"].clone();
    let of = |queue: i32| {
        let key = table.as_object().unwrap().keys().find(|key| key.contains(&format!("\"queueId\":{queue}"))).unwrap();
        table[key]["consumerOffset"].as_i64().unwrap()
    };
    assert_eq!((of(0), of(1)), (-1, 7));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_waits_at_the_leader_and_is_told_when_the_queue_moves_on() {
    let cluster = Cluster::start(2).await;
    let (_, mut new) = moved(&cluster).await;
    let mut waiting = cluster.brokers[1].connect().await;
    let wait = |offset: i64, millis: i64| {
        let pull = set(pull("GS", "TST", 0, offset, "*"), "sysFlag", 2 | 4);
        set(pull, "suspendTimeoutMillis", millis)
    };
    let parked = waiting.send(wait(104, 15_000)).await;
    until_waiting(&cluster.brokers[1], 1).await;
    new.put("TST", 0, "", "late").await;
    let answer = waiting.answer(parked).await;
    assert_eq!(found(&answer), bodies(104, &["late"]));
    assert_eq!(number(&answer, "maxOffset"), 105);
    // One that waits when the queue moves on is told at the end of its time.
    let parked = waiting.send(wait(105, 1_500)).await;
    until_waiting(&cluster.brokers[1], 1).await;
    let items = vec![item(0, "b0", 1, 0), item(1, "b1", 0, 100), item(2, "b0", 0, -1)];
    let onward = TopicQueueMappingDetail { epoch: EPOCH + 2, ..mapping("b1", 1, &[(0, items)]) };
    set_mapping(&mut new, 1, &onward).await;
    let answer = waiting.answer(parked).await;
    assert_eq!(answer.code, NOT_LEADER, "{answer:?}");
    cluster.stop().await;
}

async fn until_waiting(broker: &TestBroker, count: usize) {
    let limit = Instant::now() + LIMIT;
    while broker.running().parts().puller.waiting() < count {
        assert!(Instant::now() < limit, "no pull waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mappings_are_shown_routed_kept_and_deleted() {
    let mut cluster = Cluster::start(2).await;
    let (mut old, _) = moved(&cluster).await;
    let settings =
        |logical: bool| Command::request(RequestCode::GET_TOPIC_CONFIG).field("topic", "TST").field("lo", logical);
    let shown = json(&old.call(settings(true)).await);
    assert_eq!(shown["mappingDetail"]["hostedQueues"]["0"][1]["logicOffset"], -1);
    assert_eq!(shown["mappingDetail"]["epoch"], EPOCH + 1);
    assert_eq!(json(&old.call(settings(false)).await).get("mappingDetail"), None);
    let all = json(&old.call(Command::request(RequestCode::GET_ALL_TOPIC_CONFIG)).await);
    assert_eq!(all["topicQueueMappingDetailMap"]["TST"]["bname"], "b0");
    assert!(all["mappingDataVersion"]["counter"].as_i64() >= Some(2));
    let route = Command::request(RequestCode::GET_ROUTEINFO_BY_TOPIC).field("topic", "TST");
    let mut names = Peer::connect(cluster.names.addr()).await;
    let by_broker = json(&names.call(route.clone()).await)["topicQueueMappingByBroker"].clone();
    assert_eq!(by_broker["b0"]["currIdMap"], serde_json::json!({}));
    assert_eq!(by_broker["b1"]["currIdMap"], serde_json::json!({"0": 0}));

    let adjust = cluster.settings(1);
    cluster.brokers[1].restart(adjust, |_| {}).await;
    let mut new = cluster.brokers[1].connect().await;
    assert_eq!(number(&new.call(ask(RequestCode::GET_MAX_OFFSET, 0)).await, "offset"), 104);
    let by_broker = json(&names.call(route).await)["topicQueueMappingByBroker"].clone();
    assert_eq!(by_broker["b1"]["currIdMap"], serde_json::json!({"0": 0}));

    let delete = Command::request(RequestCode::DELETE_TOPIC_IN_BROKER).field("topic", "TST");
    assert_eq!(new.call(delete).await.code, 0);
    let text = |root: &Path| std::fs::read_to_string(root.join("config/topicQueueMapping.json")).unwrap();
    let adjust = cluster.settings(1);
    let mut left = String::new();
    cluster.brokers[1].restart(adjust, |root| left = text(&root)).await;
    assert!(!left.contains("TST"), "{left}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_mappings_and_lost_brokers_are_refused() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    let held = vec![item(0, "nowhere", 0, 0), item(1, "bk1", 0, 100)];
    let good = mapping("bk1", 1, &[(0, held)]);
    set_mapping(&mut peer, 1, &good).await;
    let mut refused = async |mapping: TopicQueueMappingDetail, remark: &str| {
        let answer = peer.call(create(1, &mapping, false)).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (1, Some(remark)));
    };
    let older = TopicQueueMappingDetail { epoch: EPOCH - 1, ..good.clone() };
    refused(older.clone(), &format!("Can't accept data with small epoch {} < {EPOCH}", EPOCH - 1)).await;
    let negative = mapping("bk1", 1, &[(0, vec![item(-1, "bk1", 0, 0)])]);
    refused(negative, "The field is illegal, should not be negative").await;
    refused(TopicQueueMappingDetail { topic: None, ..good }, "the mapping has no topic").await;
    // By force also an older one.
    assert_eq!(peer.call(create(1, &older, true)).await.code, 0);
    for body in [&b"{"[..], b"[1]", b"\xff\xfe", br#"{"hostedQueues":{"x":1}}"#] {
        let answer = peer.call(create(1, &older, false).body(body.to_vec())).await;
        assert_eq!(answer.code, 1, "{body:?}");
    }
    assert_eq!(peer.call(create(1, &older, false).body(Vec::new())).await.code, 0);
    let bad = set(create(1, &older, false), "topic", "bad.topic!");
    assert_eq!(peer.call(bad).await.code, ResponseCode::INVALID_PARAMETER.0);
    // Nobody knows where the other item's broker is.
    for request in [
        pull("GS", "TST", 0, 5, "*"),
        ask(RequestCode::GET_MIN_OFFSET, 0),
        ask(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP, 0).field("timestamp", 0),
        committed(0),
        commit(0, 5),
    ] {
        let answer = peer.call(request.clone()).await;
        assert_eq!(answer.remark.as_deref(), Some("cannot find addr for broker nowhere"), "{request:?}");
        assert_eq!(answer.code, 1);
    }
    assert_eq!(number(&peer.call(ask(RequestCode::GET_MAX_OFFSET, 0)).await, "offset"), 100);
    let sent = peer.call(message("TST", 0, &separated("WAIT=true;"), "x")).await;
    assert_eq!(number(&sent, "queueOffset"), 100);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_needed_any_more_is_cleaned_away() {
    let cluster = Cluster::start(3).await;
    let mut peers = Vec::new();
    for broker in &cluster.brokers {
        peers.push(broker.connect().await);
    }
    // Queue 0 began empty on b0 and is on b2 now, by way of b1; queue 1 has a message on b0 and is on b1.
    let (empty, full) = (vec![item(0, "b0", 0, 0)], vec![item(0, "b0", 1, 0)]);
    set_mapping(&mut peers[0], 2, &mapping("b0", 2, &[(0, empty.clone()), (1, full.clone())])).await;
    peers[0].put("TST", 1, "", "x").await;
    let handed = |items: &[LogicQueueMappingItem], more: &[LogicQueueMappingItem]| [items, more].concat();
    let (to_b1, to_b2) = (item(1, "b1", 0, 100), item(2, "b2", 0, 200));
    let at = |broker: &str, queues: &[(i32, Vec<LogicQueueMappingItem>)]| TopicQueueMappingDetail {
        epoch: EPOCH + 1,
        ..mapping(broker, 2, queues)
    };
    let last = handed(&empty, &[to_b1.clone(), to_b2]);
    let kept = handed(&full, &[item(1, "b1", 1, 100)]);
    let known_to_b0 = [(0, handed(&empty, &[to_b1])), (1, kept.clone())];
    set_mapping(&mut peers[0], 2, &at("b0", &known_to_b0)).await;
    set_mapping(&mut peers[1], 2, &at("b1", &[(0, last.clone()), (1, kept.clone())])).await;
    set_mapping(&mut peers[2], 1, &at("b2", &[(0, last)])).await;
    let items = |broker: usize, queue: i32| {
        let mapping = cluster.brokers[broker].running().parts().static_topics.get("TST").unwrap();
        let items = mapping.detail().hosted_queues.get(&queue);
        items.map(|items| items.iter().map(|item| item.generation).collect::<Vec<_>>())
    };
    for broker in &cluster.brokers {
        broker.running().parts().static_cleaner.clean().await;
    }
    // b2 leads queue 0, whose first item is empty; b1 has handed it on, so b0 need not know of it.
    assert_eq!(items(2, 0), Some(vec![1, 2]));
    assert_eq!((items(0, 0), items(0, 1)), (None, Some(vec![0, 1])));
    assert_eq!((items(1, 0), items(1, 1)), (Some(vec![0, 1, 2]), Some(vec![0, 1])));
    cluster.stop().await;
}

/// A logical queue that wanders, and what it must hold.
struct Wanderer {
    cluster: Cluster,
    peers: Vec<Peer>,
    items: Vec<LogicQueueMappingItem>,
    epoch: i64,
    /// Queues of each broker that were used so far.
    used: Vec<i32>,
    leader: usize,
    sent: Vec<(i64, String)>,
    committed: Option<i64>,
    random: u64,
}

impl Wanderer {
    async fn start(seed: u64) -> Wanderer {
        let cluster = Cluster::start(3).await;
        let mut peers = Vec::new();
        for broker in &cluster.brokers {
            let mut peer = broker.connect().await;
            peer.create_group("GS", "").await;
            peers.push(peer);
        }
        let mut wanderer = Wanderer {
            cluster,
            peers,
            items: vec![item(0, "b0", 0, 0)],
            epoch: EPOCH,
            used: vec![1, 0, 0],
            leader: 0,
            sent: Vec::new(),
            committed: None,
            random: seed,
        };
        wanderer.tell(0).await;
        wanderer
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % limit
    }

    /// Asks the leader. A broker that has come back elsewhere is found a moment later.
    async fn ask(&mut self, command: Command) -> Command {
        let limit = Instant::now() + LIMIT;
        loop {
            let answer = self.peers[self.leader].call(command.clone()).await;
            if answer.code != 1 {
                return answer;
            }
            assert!(Instant::now() < limit, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn tell(&mut self, broker: usize) {
        let queues = [(0, self.items.clone())];
        let mapping = TopicQueueMappingDetail { epoch: self.epoch, ..mapping(&format!("b{broker}"), 1, &queues) };
        set_mapping(&mut self.peers[broker], self.used[broker], &mapping).await;
    }

    async fn send(&mut self) {
        for _ in 0..1 + self.below(12) {
            let body = format!("m{}", self.sent.len());
            let sent = self.peers[self.leader].put("TST", 0, "", &body).await;
            let item = self.items.last().unwrap();
            let offset = number(&sent, "queueOffset");
            let last = self.sent.last().map_or(-1, |(offset, _)| *offset);
            assert_eq!(offset, item.logic_offset.max(last + 1), "{:?}", self.items);
            self.sent.push((offset, body));
        }
    }

    async fn move_on(&mut self) {
        let old = self.leader;
        self.leader = (old + 1 + self.below(2)) % 3;
        let queue = self.used[self.leader];
        self.used[self.leader] += 1;
        self.epoch += 1;
        let generation = self.items.last().unwrap().generation + 1;
        self.items.push(item(generation, &format!("b{}", self.leader), queue, -1));
        self.tell(self.leader).await;
        self.tell(old).await;
        let end = self.sent.last().map_or(0, |(offset, _)| offset + 1);
        let begun = self.items[self.items.len() - 2].logic_offset;
        self.items.last_mut().unwrap().logic_offset = end.max(begun) + 50;
        self.tell(self.leader).await;
    }

    async fn read(&mut self) {
        let end = number(&self.ask(ask(RequestCode::GET_MAX_OFFSET, 0)).await, "offset");
        let begun = self.items.last().unwrap().logic_offset;
        assert_eq!(end, begun.max(self.sent.last().map_or(0, |(offset, _)| offset + 1)));
        let most = 1 + self.below(9);
        let (mut next, mut all) = (0, Vec::new());
        while next < end {
            let command = set(pull("GS", "TST", 0, next, "*"), "maxMsgNums", most);
            let answer = self.ask(command).await;
            match ResponseCode(answer.code) {
                ResponseCode::SUCCESS => all.extend(found(&answer)),
                code => assert_eq!(code, ResponseCode::PULL_RETRY_IMMEDIATELY, "{answer:?}"),
            }
            assert!(number(&answer, "nextBeginOffset") > next, "{answer:?}");
            next = number(&answer, "nextBeginOffset");
        }
        assert_eq!(all, self.sent, "{:?}", self.items);
    }

    async fn commit(&mut self) {
        let known = self.committed.unwrap_or(0);
        let later: Vec<i64> = self.sent.iter().map(|(offset, _)| *offset).filter(|offset| *offset >= known).collect();
        if later.is_empty() {
            return;
        }
        let at = self.below(later.len());
        assert_eq!(self.ask(commit(0, later[at])).await.code, 0);
        self.committed = Some(later[at]);
    }

    async fn query(&mut self) {
        let answer = self.ask(committed(0)).await;
        match self.committed {
            Some(offset) => assert_eq!((answer.code, number(&answer, "offset")), (0, offset), "{:?}", self.items),
            // While nothing has moved and the first message is at hand, an ordinary queue's answer.
            None if self.items.len() == 1 && !self.sent.is_empty() => assert_eq!(answer.code, 0),
            None => assert_eq!(answer.code, 22),
        }
    }

    async fn restart(&mut self) {
        let at = self.below(3);
        let adjust = self.cluster.settings(at);
        self.cluster.brokers[at].restart(adjust, |_| {}).await;
        self.peers[at] = self.cluster.brokers[at].connect().await;
    }
}

/// Sends, moves, commits and restarts in any order: what was sent is read, once and in its order, through whoever leads.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_wanders_keeps_its_messages_and_offsets() {
    for seed in [1, 7, 2026] {
        let mut wanderer = Wanderer::start(seed).await;
        for _ in 0..40 {
            match wanderer.below(10) {
                0..4 => wanderer.send().await,
                4 | 5 => wanderer.move_on().await,
                6 => wanderer.read().await,
                7 => wanderer.commit().await,
                8 => wanderer.query().await,
                _ => wanderer.restart().await,
            }
        }
        wanderer.read().await;
        wanderer.query().await;
        wanderer.cluster.stop().await;
    }
}
