//! Members of groups: cases K-01, K-03, L-01, and what surrounds them.

use crate::common::client::{Peer, start, until};
use broker::stats::now_millis;
use remoting::RequestCode;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn k_01_members_are_told_of_changes_only() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let (a, b, admin) = (Peer::of(&running), Peer::of(&running), Peer::of(&running));
    let (group, told) = ("GN", vec!["GN".to_owned()]);
    assert_eq!(admin.members(group).await.unwrap_err(), "no consumer for this group, GN");

    a.heartbeat("cidA", group, &["T1"]).await;
    assert_eq!(a.take_notices(1).await, told, "A joined");
    assert_eq!(admin.members(group).await.unwrap(), ["cidA"]);

    b.heartbeat("cidB", group, &["T1"]).await;
    assert_eq!((a.take_notices(1).await, b.take_notices(1).await), (told.clone(), told.clone()), "B joined");
    assert_eq!(admin.members(group).await.unwrap(), ["cidA", "cidB"]);

    a.heartbeat("cidA", group, &["T1"]).await;
    a.heartbeat("cidA", group, &["T1", "T2"]).await;
    // Had the unchanged heartbeat been told, there would be two.
    assert_eq!((a.take_notices(1).await, b.take_notices(1).await), (told.clone(), told.clone()), "A's topics changed");

    let fields = [("clientID", "cidB"), ("consumerGroup", group)];
    assert_eq!(b.call(RequestCode::UNREGISTER_CLIENT, &fields, "").await.code, 0);
    assert_eq!(a.take_notices(1).await, told, "B left");
    assert_eq!(admin.members(group).await.unwrap(), ["cidA"]);
    assert_eq!(b.take_notices(0).await, Vec::<String>::new());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k_01_a_closed_connection_leaves_its_groups() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let (a, b) = (Peer::of(&running), Peer::of(&running));
    a.heartbeat("cidA", "GN", &["T1"]).await;
    b.heartbeat("cidB", "GN", &["T1"]).await;
    a.take_notices(2).await;
    b.close();
    assert_eq!(a.take_notices(1).await, ["GN"]);
    assert_eq!(a.members("GN").await.unwrap(), ["cidA"]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k_01_a_heartbeat_makes_the_group_and_its_retry_topic() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let peer = Peer::of(&running);
    let answer = peer.heartbeat("cid", "GNEW", &["T1"]).await;
    assert_eq!((answer.get("IS_SUPPORT_HEART_BEAT_V2"), answer.get("IS_SUB_CHANGE")), (Some("true"), Some("true")));
    let group = peer.call(RequestCode::GET_SUBSCRIPTIONGROUP_CONFIG, &[("group", "GNEW")], "").await;
    assert_eq!(crate::common::client::json(&group)["retryMaxTimes"], 16);
    let topic = peer.call(RequestCode::GET_TOPIC_CONFIG, &[("topic", "%RETRY%GNEW")], "").await;
    assert_eq!((topic.code, &crate::common::client::json(&topic)["readQueueNums"]), (0, &json!(1)));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_of_the_second_version() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let peer = Peer::of(&running);
    let beat = async |fingerprint: i32, without_sub: bool| {
        let subscriptions = if without_sub { "" } else { r#"{"topic":"T1","subString":"*","subVersion":1}"# };
        let body = format!(
            r#"{{"clientID":"c","heartbeatFingerprint":{fingerprint},"withoutSub":{without_sub},"consumerDataSet":[{{"groupName":"GV2","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionDataSet":[{subscriptions}]}}],"producerDataSet":[{{"groupName":"PGV2"}}]}}"#
        );
        let answer = peer.call(RequestCode::HEART_BEAT, &[], body).await;
        answer.get("IS_SUB_CHANGE").unwrap().to_owned()
    };
    // A broker that knows no subscriptions must not be content with "unchanged".
    assert_eq!(beat(7, true).await, "true");
    assert_eq!(beat(7, false).await, "false");
    assert_eq!(beat(7, true).await, "false");
    assert!(running.parts().clients.consumers.subscription("GV2", "T1").is_some());
    assert_eq!(beat(8, true).await, "true");
    let producers = peer.call(RequestCode::GET_PRODUCER_CONNECTION_LIST, &[("producerGroup", "PGV2")], "").await;
    assert_eq!(crate::common::client::json(&producers)["connectionSet"][0]["clientId"], "c");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k_03_silent_members_go() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let (silent, admin) = (Peer::of(&running), Peer::of(&running));
    silent.heartbeat("cid", "GEXP", &["T1"]).await;
    silent.heartbeat("cid", "GKEEP", &["T1"]).await;
    let clients = &running.parts().clients;
    let conn = clients.consumers.client("GEXP", "cid").unwrap().conn;

    clients.scan(now_millis() + 119_000);
    assert_eq!(admin.members("GEXP").await.unwrap(), ["cid"]);

    // One group is heard of at 60 s, the other is not: only that one ends, and the connection stays.
    let data = remoting::body::heartbeat::ConsumerData { group_name: "GKEEP".into(), ..Default::default() };
    let client = clients.consumers.client("GKEEP", "cid").unwrap();
    clients.consumers.register(&client, &data, broker::clients::Subscriptions::Unchanged, true, now_millis() + 60_000);
    clients.scan(now_millis() + 121_000);
    assert!(admin.members("GEXP").await.is_err());
    assert_eq!(admin.members("GKEEP").await.unwrap(), ["cid"]);
    assert!(conn.is_open());

    clients.scan(now_millis() + 181_000);
    assert!(admin.members("GKEEP").await.is_err());
    until(|| !conn.is_open()).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l_01_queue_locks() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let peer = Peer::of(&running);
    let body = |client: &str, queues: &[i32]| {
        let queues: Vec<_> =
            queues.iter().map(|id| json!({"topic": "T", "brokerName": "bk1", "queueId": id})).collect();
        json!({"consumerGroup": "GL", "clientId": client, "mqSet": queues}).to_string()
    };
    let lock = async |client: &str, queues: &[i32]| {
        let answer = peer.call(RequestCode::LOCK_BATCH_MQ, &[], body(client, queues)).await;
        let held = crate::common::client::json(&answer)["lockOKMQSet"].clone();
        held.as_array().unwrap().iter().map(|queue| queue["queueId"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    let unlock = async |client: &str, queues: &[i32]| {
        peer.call(RequestCode::UNLOCK_BATCH_MQ, &[], body(client, queues)).await.code
    };
    assert_eq!(lock("A", &[0, 1]).await, [0, 1]);
    assert_eq!(lock("B", &[1, 2]).await, [2]);
    assert_eq!(unlock("B", &[0]).await, 0);
    assert_eq!(lock("B", &[0]).await, [0i64; 0]);
    assert_eq!(unlock("A", &[0]).await, 0);
    assert_eq!(lock("B", &[0]).await, [0]);

    // C took them once, some time ago, and never again.
    let took = |id: i32, ago: i64| {
        let queue = remoting::body::message_queue::MessageQueue::new("T", "bk1", id);
        let held = running.parts().clients.locks.lock("GL", "C", [queue].into(), now_millis() - ago);
        assert_eq!(held.len(), 1);
    };
    took(6, 0);
    took(7, 61_000);
    took(8, 30_000);
    assert_eq!(lock("D", &[6, 7, 8]).await, [7]);
    // D's lock is a fresh one.
    assert_eq!(lock("C", &[7, 8]).await, [8]);
    running.stop().await;
}

/// Two clients that give themselves the same id are two members: each connection is one, and each may leave.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_id_registered_twice() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let (a, b, admin) = (Peer::of(&running), Peer::of(&running), Peer::of(&running));
    a.heartbeat("cid", "GTWO", &["T1"]).await;
    assert_eq!(a.take_notices(1).await, ["GTWO"]);
    b.heartbeat("cid", "GTWO", &["T1"]).await;
    assert_eq!((a.take_notices(1).await, b.take_notices(1).await), (vec!["GTWO".to_owned()], vec!["GTWO".to_owned()]));
    assert_eq!(admin.members("GTWO").await.unwrap(), ["cid", "cid"]);
    // The id leaves with the connection that says so, not with the other one.
    let fields = [("clientID", "cid"), ("consumerGroup", "GTWO")];
    assert_eq!(a.call(RequestCode::UNREGISTER_CLIENT, &fields, "").await.code, 0);
    assert_eq!(b.take_notices(1).await, ["GTWO"]);
    assert_eq!(admin.members("GTWO").await.unwrap(), ["cid"]);
    assert!(running.parts().clients.consumers.client("GTWO", "cid").is_some_and(|client| client.conn.is_open()));
    // A connection that calls itself otherwise from now on stays one member.
    b.heartbeat("other", "GTWO", &["T1"]).await;
    assert_eq!(admin.members("GTWO").await.unwrap(), ["other"]);
    assert_eq!(b.take_notices(0).await, Vec::<String>::new());
    b.close();
    until(|| running.parts().clients.consumers.client_ids("GTWO").is_none()).await;
    running.stop().await;
}

/// A member that joins is told so before its heartbeat is answered: the client starts to share out queues at once.
#[tokio::test(flavor = "multi_thread")]
async fn k_01_the_notice_comes_before_the_answer() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let mut socket = tokio::net::TcpStream::connect(running.addr()).await.unwrap();
    let header = br#"{"code":34,"language":"JAVA","version":513,"opaque":7,"flag":0,"serializeTypeCurrentRPC":"JSON"}"#;
    let body = br#"{"clientID":"c","consumerDataSet":[{"groupName":"GN","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionDataSet":[]}],"producerDataSet":[]}"#;
    let mut frame = Vec::new();
    frame.extend_from_slice(&(4 + header.len() as u32 + body.len() as u32).to_be_bytes());
    frame.extend_from_slice(&(header.len() as u32).to_be_bytes());
    frame.extend_from_slice(header);
    frame.extend_from_slice(body);
    socket.write_all(&frame).await.unwrap();
    let mut headers = Vec::new();
    for _ in 0..2 {
        let mut frame = vec![0; socket.read_u32().await.unwrap() as usize];
        socket.read_exact(&mut frame).await.unwrap();
        let length = u32::from_be_bytes(frame[..4].try_into().unwrap()) & 0x00FF_FFFF;
        headers.push(serde_json::from_slice::<serde_json::Value>(&frame[4..4 + length as usize]).unwrap());
    }
    assert_eq!((&headers[0]["code"], &headers[0]["flag"]), (&json!(40), &json!(2)));
    assert_eq!(headers[0]["extFields"], json!({"consumerGroup": "GN"}));
    assert_eq!((&headers[1]["code"], &headers[1]["opaque"], &headers[1]["flag"]), (&json!(0), &json!(7), &json!(1)));
    running.stop().await;
}
