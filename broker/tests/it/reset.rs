//! Consumers moved and looked at by administrators: case Z-01, offsets that are cloned or corrected, permissions of groups.

use std::time::Duration;

use crate::common::{LIMIT, Peer, TestBroker, number, pull, set};
use remoting::{Command, RequestCode};
use serde_json::{Value, json};

const RW: i32 = 6;
/// The version of a 5.5.0 client, by Java's ordinal.
const VERSION: i32 = 515;

fn reset(topic: &str, group: &str, timestamp: i64, force: bool) -> Command {
    Command::request(RequestCode::INVOKE_BROKER_TO_RESET_OFFSET)
        .field("topic", topic)
        .field("group", group)
        .field("timestamp", timestamp)
        .field("isForce", force)
}

async fn commit(peer: &mut Peer, group: &str, topic: &str, queue: i32, offset: i64) {
    let command = Command::request(RequestCode::UPDATE_CONSUMER_OFFSET)
        .field("consumerGroup", group)
        .field("topic", topic)
        .field("queueId", queue)
        .field("commitOffset", offset);
    assert_eq!(peer.call(command).await.code, 0);
}

async fn committed(peer: &mut Peer, group: &str, topic: &str, queue: i32) -> Option<i64> {
    let command = Command::request(RequestCode::QUERY_CONSUMER_OFFSET)
        .field("consumerGroup", group)
        .field("topic", topic)
        .field("queueId", queue)
        .field("setZeroIfNotFound", false);
    let answer = peer.call(command).await;
    (answer.code == 0).then(|| number(&answer, "offset"))
}

async fn join(peer: &mut Peer, client: &str, group: &str, topic: &str) {
    let body = json!({"clientID": client, "producerDataSet": [], "consumerDataSet": [{
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "unitMode": false, "subscriptionDataSet": [{
            "topic": topic, "subString": "*", "expressionType": "TAG", "subVersion": 1,
            "tagsSet": [], "codeSet": [], "classFilterMode": false}]}]});
    let mut command = Command::request(RequestCode::HEART_BEAT).body(body.to_string().into_bytes());
    command.version = VERSION;
    assert_eq!(peer.call(command).await.code, 0);
}

/// The next request that the broker sends to a client, but for notices of changes in its group.
async fn request_of(peer: &mut Peer, within: Duration) -> Option<Command> {
    loop {
        let command = peer.next(within).await?;
        if command.code != RequestCode::NOTIFY_CONSUMER_IDS_CHANGED.0 && !command.is_response() {
            return Some(command);
        }
    }
}

fn body(answer: &Command) -> String {
    String::from_utf8(answer.body.to_vec()).unwrap()
}

fn table(entries: &[(i32, i64)]) -> String {
    let entry =
        |(id, offset): &(i32, i64)| format!("{{\"brokerName\":\"bk1\",\"queueId\":{id},\"topic\":\"TZ\"}}:{offset}");
    format!("{{\"offsetTable\":{{{}}}}}", entries.iter().map(entry).collect::<Vec<_>>().join(","))
}

/// Topic TZ with ten messages in its first queue of `queues`, and group GZ.
async fn fill(peer: &mut Peer, queues: i32) {
    peer.create_topic("TZ", queues, RW).await;
    peer.create_group("GZ", "").await;
    for number in 0..10 {
        peer.put("TZ", 0, "", &format!("m{number}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn z_01_reset_on_the_server() {
    let broker = TestBroker::start().await;
    let (mut admin, mut member) = (broker.connect().await, broker.connect().await);
    fill(&mut admin, 1).await;
    for online in [false, true] {
        if online {
            join(&mut member, "cid", "GZ", "TZ").await;
        }
        for (timestamp, offset) in [(0, 0), (-1, 10)] {
            commit(&mut admin, "GZ", "TZ", 0, 8).await;
            let answer = admin.call(reset("TZ", "GZ", timestamp, false)).await;
            assert_eq!((answer.code, body(&answer)), (0, table(&[(0, offset)])), "{online}");
            assert_eq!(committed(&mut admin, "GZ", "TZ", 0).await, Some(offset));
            // The running consumer writes its old position back, and changes nothing.
            commit(&mut admin, "GZ", "TZ", 0, 8).await;
            assert_eq!(committed(&mut admin, "GZ", "TZ", 0).await, Some(offset));
            let moved = admin.call(pull("GZ", "TZ", 0, 8, "*")).await;
            assert_eq!((moved.code, moved.remark.as_deref()), (21, Some("OFFSET_RESET")));
            assert_eq!(number(&moved, "nextBeginOffset"), offset);
            let normal = admin.call(pull("GZ", "TZ", 0, 8, "*")).await;
            assert_eq!((normal.code, number(&normal, "nextBeginOffset")), (0, 10));
        }
    }
    assert!(request_of(&mut member, Duration::from_millis(200)).await.is_none(), "a member was told");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_queue_is_reset_to_an_offset_or_a_time() {
    let broker = TestBroker::start().await;
    let mut admin = broker.connect().await;
    fill(&mut admin, 2).await;
    let one = |queue: i32, offset: i64| {
        let command = reset("TZ", "GZ", 0, false).field("queueId", queue);
        if offset == i64::MIN { command } else { command.field("offset", offset) }
    };
    for (queue, offset, expected) in [(0, 4, 4), (0, 10, 10), (0, 11, 11), (0, -1, 0), (0, i64::MIN, 0), (1, 1, 1)] {
        let answer = admin.call(one(queue, offset)).await;
        assert_eq!((answer.code, body(&answer)), (0, table(&[(queue, expected)])), "{queue} {offset}");
        assert_eq!(committed(&mut admin, "GZ", "TZ", queue).await, Some(expected));
    }
    for (queue, offset, range) in [(0, 12, "0-10"), (0, -2, "0-10"), (1, 2, "0-0"), (7, 5, "0-0")] {
        let answer = admin.call(one(queue, offset)).await;
        let remark = format!("Target offset {offset} not in consume queue range [{range}]");
        assert_eq!((answer.code, answer.remark.as_deref()), (1, Some(remark.as_str())));
    }
    // All queues, by time: an offset in the request does not count then.
    let answer = admin.call(reset("TZ", "GZ", -1, true).field("offset", 3)).await;
    assert_eq!(body(&answer), table(&[(0, 10), (1, 0)]));
    let answer = admin.call(reset("Tnone", "GZ", 0, true)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (17, Some("Topic Tnone does not exist")));
    let answer = admin.call(reset("TZ", "Gnone", 0, true)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (26, Some("Group Gnone does not exist")));
    broker.stop().await;
}

/// With `useServerSideResetOffset=false` the members move themselves.
#[tokio::test(flavor = "multi_thread")]
async fn members_are_told_where_to_go_on() {
    let broker = TestBroker::with(|setup| setup.broker.use_server_side_reset_offset = false).await;
    let (mut admin, mut member) = (broker.connect().await, broker.connect().await);
    fill(&mut admin, 2).await;
    let unknown = admin.call(reset("TZ", "GZ", 0, true)).await;
    assert_eq!((unknown.code, unknown.remark.as_deref()), (1, Some("THe consumer group <GZ> not exist")));
    commit(&mut admin, "GZ", "TZ", 0, 8).await;
    commit(&mut admin, "GZ", "TZ", 1, 0).await;
    let offline = admin.call(reset("TZ", "GZ", 0, true)).await;
    let remark = "Consumer not online, so can not reset offset, Group: GZ Topic: TZ Timestamp: 0";
    assert_eq!((offline.code, offline.remark.as_deref()), (206, Some(remark)));
    let none = admin.call(reset("Tnone", "GZ", 0, true)).await;
    let remark = "[reset-offset] reset offset failed, no topic in this broker. topic=Tnone";
    assert_eq!((none.code, none.remark.as_deref()), (17, Some(remark)));
    join(&mut member, "cid", "GZ", "TZ").await;
    // Without force nobody is moved forward.
    for (timestamp, force, offset) in [(0, false, 0), (-1, false, 8), (-1, true, 10)] {
        let answer = admin.call(reset("TZ", "GZ", timestamp, force)).await;
        let expected = table(&[(0, offset), (1, 0)]);
        assert_eq!((answer.code, body(&answer)), (0, expected.clone()));
        assert_eq!(answer.remark.as_deref(), Some("not set any response code"));
        let told = request_of(&mut member, LIMIT).await.expect("the member is told");
        assert_eq!(told.code, RequestCode::RESET_CONSUMER_CLIENT_OFFSET.0);
        assert_eq!((told.get("group"), told.get("topic")), (Some("GZ"), Some("TZ")));
        assert_eq!((told.get("timestamp"), told.get("isForce")), (Some(timestamp.to_string().as_str()), Some("false")));
        assert_eq!(body(&told), expected);
        assert_eq!(committed(&mut admin, "GZ", "TZ", 0).await, Some(8), "the member commits, not the broker");
    }
    let mut for_cpp = reset("TZ", "GZ", 0, true);
    for_cpp.language = remoting::Language::CPP;
    assert_eq!(admin.call(for_cpp).await.code, 0);
    let told = request_of(&mut member, LIMIT).await.expect("the member is told");
    let list = json!({"offsetTable": [
        {"brokerName": "bk1", "offset": 0, "queueId": 0, "topic": "TZ"}, {"brokerName": "bk1", "offset": 0, "queueId": 1, "topic": "TZ"}]});
    assert_eq!(serde_json::from_slice::<Value>(&told.body).unwrap(), list);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_tell_how_far_they_are() {
    let broker = TestBroker::start().await;
    let (mut admin, mut a, mut b) = (broker.connect().await, broker.connect().await, broker.connect().await);
    fill(&mut admin, 1).await;
    let ask = |client: &str| {
        Command::request(RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
            .field("topic", "TZ")
            .field("group", "GZ")
            .field("clientAddr", client)
    };
    let offline = admin.call(ask("")).await;
    assert_eq!(offline.code, 1);
    assert_eq!(offline.remark.as_deref(), Some("No Any Consumer online in the consumer group: [GZ]"));
    join(&mut a, "cidA", "GZ", "TZ").await;
    join(&mut b, "cidB", "GZ", "TZ").await;
    let own = |offset: i64| {
        format!(
            "{{\"messageQueueTable\":{{{{\"brokerName\":\"bk1\",\"queueId\":0,\"topic\":\"TZ\"}}:{offset}}},\"consumerTable\":{{}}}}"
        )
    };
    async fn tell(peer: &mut Peer, body: String) {
        let asked = request_of(peer, LIMIT).await.expect("the member is asked");
        assert_eq!(asked.code, RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT.0);
        assert_eq!((asked.get("group"), asked.get("topic")), (Some("GZ"), Some("TZ")));
        let mut answer = Command::request(RequestCode(0)).body(body.into_bytes());
        (answer.opaque, answer.flag) = (asked.opaque, 1);
        let mut bytes = Vec::new();
        answer.encode(remoting::SerializeType::Json, &mut bytes);
        peer.send_raw(&bytes).await;
    }
    let opaque = admin.send(ask("")).await;
    tell(&mut a, own(3)).await;
    tell(&mut b, own(7)).await;
    let answer = admin.answer(opaque).await;
    let row = |offset: i64| format!("{{{{\"brokerName\":\"bk1\",\"queueId\":0,\"topic\":\"TZ\"}}:{offset}}}");
    let expected =
        format!("{{\"consumerTable\":{{\"cidA\":{},\"cidB\":{}}},\"messageQueueTable\":{{}}}}", row(3), row(7));
    assert_eq!((answer.code, body(&answer)), (0, expected));
    assert_eq!(answer.remark.as_deref(), Some("not set any response code"));
    // One of them only, and one that answers nonsense.
    let opaque = admin.send(ask("cidB")).await;
    tell(&mut b, "nonsense".to_owned()).await;
    let answer = admin.answer(opaque).await;
    assert_eq!((answer.code, body(&answer).as_str()), (0, "{\"consumerTable\":{},\"messageQueueTable\":{}}"));
    assert!(request_of(&mut a, Duration::from_millis(100)).await.is_none());
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_are_cloned() {
    let broker = TestBroker::start().await;
    let (mut admin, mut member) = (broker.connect().await, broker.connect().await);
    fill(&mut admin, 2).await;
    commit(&mut admin, "GZ", "TZ", 0, 8).await;
    commit(&mut admin, "GZ", "TZ", 1, 1).await;
    let clone = |to: &str, topic: &str, offline: bool| {
        Command::request(RequestCode::CLONE_GROUP_OFFSET)
            .field("srcGroup", "GZ")
            .field("destGroup", to)
            .field("topic", topic)
            .field("offline", offline)
    };
    assert_eq!(admin.call(clone("GC1", "TZ", false)).await.code, 0);
    assert_eq!(committed(&mut admin, "GC1", "TZ", 0).await, Some(8));
    assert_eq!(committed(&mut admin, "GC1", "TZ", 1).await, Some(1));
    // A group that is connected, but to another topic, is not at those offsets any more.
    join(&mut member, "cid", "GZ", "Tother").await;
    assert_eq!(admin.call(clone("GC2", "TZ", false)).await.code, 0);
    assert_eq!(committed(&mut admin, "GC2", "TZ", 0).await, None);
    assert_eq!(admin.call(clone("GC2", "TZ", true)).await.code, 0);
    assert_eq!(committed(&mut admin, "GC2", "TZ", 0).await, Some(8));
    assert_eq!(admin.call(clone("GC3", "Tnone", true)).await.code, 0);
    assert_eq!(admin.call(clone("GC3", "", true)).await.code, 0);
    assert_eq!(committed(&mut admin, "GC3", "TZ", 0).await, None);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_to_correct_a_group_by() {
    let broker = TestBroker::start().await;
    let mut admin = broker.connect().await;
    fill(&mut admin, 2).await;
    for group in ["G1", "G2", "GX", "GC"] {
        admin.create_group(group, "").await;
    }
    for (group, queue, offset) in [("G1", 0, 8), ("G2", 0, 5), ("G1", 1, 2), ("GX", 0, 1), ("GC", 0, 6), ("GC", 1, 1)] {
        commit(&mut admin, group, "TZ", queue, offset).await;
    }
    let ask = |left_out: &str, compared: &str| {
        Command::request(RequestCode::QUERY_CORRECTION_OFFSET)
            .field("topic", "TZ")
            .field("filterGroups", left_out)
            .field("compareGroup", compared)
    };
    let answer = admin.call(ask("GX", "Gnone")).await;
    assert_eq!((answer.code, body(&answer).as_str()), (0, "{\"correctionOffsets\":{0:5,1:1}}"));
    let answer = admin.call(ask("GX,GC,G2", "GC")).await;
    assert_eq!(body(&answer), format!("{{\"correctionOffsets\":{{0:{0},1:{0}}}}}", i64::MAX));
    assert_eq!(committed(&mut admin, "GX", "TZ", 0).await, Some(1), "nothing is lost by asking");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_may_be_forbidden_a_topic() {
    let mut broker = TestBroker::start().await;
    let (mut admin, mut member) = (broker.connect().await, broker.connect().await);
    fill(&mut admin, 1).await;
    join(&mut member, "cid", "GZ", "TZ").await;
    let forbidden = |readable: Option<bool>| {
        let command =
            Command::request(RequestCode::UPDATE_AND_GET_GROUP_FORBIDDEN).field("group", "GZ").field("topic", "TZ");
        readable.into_iter().fold(command, |command, readable| command.field("readable", readable))
    };
    let state = |readable: bool| format!("{{\"group\":\"GZ\",\"readable\":{readable},\"topic\":\"TZ\"}}");
    let as_subscribed = set(set(pull("GZ", "TZ", 0, 0, ""), "sysFlag", 0), "subVersion", 1);
    for (request, readable) in
        [(None, true), (Some(false), false), (None, false), (Some(true), true), (Some(false), false)]
    {
        let answer = admin.call(forbidden(request)).await;
        assert_eq!((answer.code, answer.remark.as_deref(), body(&answer)), (0, Some(""), state(readable)));
        let answer = member.call(as_subscribed.clone()).await;
        let expected = if readable { (0, None) } else { (16, Some("5")) };
        assert_eq!((answer.code, answer.get("forbiddenType")), expected);
    }
    broker.restart(|_| {}, |_| {}).await;
    let mut admin = broker.connect().await;
    assert_eq!(body(&admin.call(forbidden(None)).await), state(false));
    broker.stop().await;
}

/// `whichBrokerWhenConsumeSlowly` and `brokerId` of a group say where to pull next, when slaves may be read.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_group_is_sent_elsewhere() {
    for (ratio, expected) in [(0, "7"), (40, "3")] {
        let broker = TestBroker::with(|setup| {
            setup.broker.slave_read_enable = true;
            setup.store.access_message_in_memory_max_ratio = ratio;
        })
        .await;
        let mut peer = broker.connect().await;
        fill(&mut peer, 1).await;
        peer.create_group("GS", ",\"brokerId\":3,\"whichBrokerWhenConsumeSlowly\":7").await;
        let answer = peer.call(pull("GS", "TZ", 0, 0, "*")).await;
        assert_eq!((answer.code, answer.get("suggestWhichBrokerId")), (0, Some(expected)));
        broker.stop().await;
    }
}
