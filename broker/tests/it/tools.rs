//! Requests of tools about cold reads, request modes, and what other set-ups of a broker would have.

use std::time::{Duration, Instant};

use crate::common::client::json;
use crate::common::{LIMIT, Peer, TestBroker, pull, records};
use remoting::{Command, RequestCode};
use serde_json::json;

async fn call(peer: &mut Peer, code: RequestCode, body: &str) -> Command {
    peer.call(Command::request(code).body(body.as_bytes().to_vec())).await
}

/// Makes the connection a member of a group that gets its messages in some way.
async fn join(peer: &mut Peer, group: &str, consume_type: &str) {
    let body = format!(
        r#"{{"clientID":"c1","consumerDataSet":[{{"groupName":"{group}","consumeType":"{consume_type}","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","unitMode":false,"subscriptionDataSet":[{{"topic":"T1","subString":"*","subVersion":1,"tagsSet":[],"codeSet":[]}}]}}],"producerDataSet":[]}}"#
    );
    assert_eq!(call(peer, RequestCode::HEART_BEAT, &body).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_cold_reads() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    let info = json(&call(&mut peer, RequestCode::GET_COLD_DATA_FLOW_CTR_INFO, "").await);
    let mut expected = json!({"runtimeTable": {}, "configTable": {}, "cgColdReadThreshold": 3_145_728,
        "globalColdReadThreshold": 104_857_600, "globalAcc": 0});
    assert_eq!(info, expected);
    let body = "CG_alive=1024\nCG_odd=many\n";
    assert_eq!(call(&mut peer, RequestCode::UPDATE_COLD_DATA_FLOW_CTR_CONFIG, body).await.code, 0);
    expected["configTable"] = json!({"CG_alive": 1024});
    assert_eq!(json(&call(&mut peer, RequestCode::GET_COLD_DATA_FLOW_CTR_INFO, "").await), expected);
    assert_eq!(call(&mut peer, RequestCode::REMOVE_COLD_DATA_FLOW_CTR_CONFIG, "CG_alive").await.code, 0);
    expected["configTable"] = json!({});
    assert_eq!(json(&call(&mut peer, RequestCode::GET_COLD_DATA_FLOW_CTR_INFO, "").await), expected);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_cold_data_are_put_off() {
    // Everything counts as cold, and the first byte uses the share up.
    let broker = TestBroker::with(|setup| {
        setup.store.cold_data_flow_control_enable = true;
        setup.store.access_message_in_memory_hot_ratio = 0;
        setup.broker.cg_cold_read_threshold = 1;
    })
    .await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, 6).await;
    for group in ["GP", "GA"] {
        peer.create_group(group, "").await;
    }
    for _ in 0..3 {
        peer.put("T1", 0, "", "hello").await;
    }
    join(&mut peer, "GP", "CONSUME_PASSIVELY").await;
    let limit = Instant::now() + LIMIT;
    let (mut served, mut busy) = (0, 0);
    // A period may end between two pulls.
    while busy == 0 {
        assert!(Instant::now() < limit);
        let answer = peer.call(pull("GP", "T1", 0, 0, "*")).await;
        match answer.code {
            0 => served += 1,
            2 => {
                let remark = "This consumer group is reading cold data. It has been flow control";
                assert_eq!(answer.remark.as_deref(), Some(remark));
                busy += 1;
            }
            code => panic!("{code}"),
        }
    }
    assert!(served > 0);
    join(&mut peer, "GA", "CONSUME_ACTIVELY").await;
    loop {
        assert!(Instant::now() < limit);
        let start = Instant::now();
        let answer = peer.call(pull("GA", "T1", 0, 0, "*")).await;
        assert_eq!(answer.code, 0);
        match records(&answer.body).len() {
            3 => {}
            count => {
                assert_eq!(count, 1);
                assert!(start.elapsed() >= Duration::from_secs(3));
                break;
            }
        }
    }
    // A group of the broker's own and tools are never put off.
    for _ in 0..3 {
        assert_eq!(peer.call(pull("TOOLS_CONSUMER", "T1", 0, 0, "*")).await.code, 0);
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_ahead() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    let mode = |mode: &str| Command::request(RequestCode::SET_COMMITLOG_READ_MODE).field("READ_AHEAD_MODE", mode);
    let is_on = || broker.running().parts().store_config.load().data_read_ahead_enable;
    let answer = peer.call(mode("1")).await;
    assert_eq!(answer.remark.as_deref(), Some("set commitlog readahead mode success, mode: 1"));
    assert!(answer.code == 0 && !is_on());
    assert_eq!(peer.call(mode("0")).await.code, 0);
    assert!(is_on());
    let answer = peer.call(mode("7")).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (29, Some("set commitlog readahead mode param value error")));
    let answer = peer.call(mode("x")).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("set commitlog readahead mode failed")));
    // As does the key.
    assert_eq!(call(&mut peer, RequestCode::UPDATE_BROKER_CONFIG, "dataReadAheadEnable=false").await.code, 0);
    assert!(!is_on());
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_modes() {
    let mut broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, 6).await;
    let set = |topic: &str, group: &str| {
        format!(r#"{{"consumerGroup":"{group}","mode":"POP","popShareQueueNum":2,"topic":"{topic}"}}"#)
    };
    for (topic, group, code, remark) in [
        ("%RETRY%G1", "G1", 16, Some("retry topic is not allowed to set mode")),
        ("T9", "G1", 17, Some("topic[T9] not exist")),
        ("T1", "bad.group", 26, Some("subscription group does not exist")),
        ("T1", "G1", 0, None),
    ] {
        let answer = call(&mut peer, RequestCode::SET_MESSAGE_REQUEST_MODE, &set(topic, group)).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (code, remark), "{topic} {group}");
    }
    drop(peer);
    broker.restart(|_| {}, |_| {}).await;
    let mut peer = broker.connect().await;
    let answer = call(&mut peer, RequestCode::GET_ALL_MESSAGE_REQUEST_MODE, "").await;
    let text = format!(r#"{{"messageRequestModeMap":{{"T1":{{"G1":{}}}}}}}"#, set("T1", "G1"));
    assert_eq!(String::from_utf8_lossy(&answer.body), text);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_this_broker_has_not() {
    let broker = TestBroker::start().await;
    let mut peer = broker.connect().await;
    peer.create_topic("T1", 1, 6).await;
    peer.put("T1", 0, "", "hello").await;
    let check = Command::request(RequestCode::CHECK_ROCKSDB_CQ_WRITE_PROGRESS).field("topic", "T1");
    assert_eq!(json(&peer.call(check).await), json!({"checkStatus": 2}));
    let export = |kinds: &str| Command::request(RequestCode::EXPORT_ROCKSDB_CONFIG_TO_JSON).field("configType", kinds);
    let answer = peer.call(export("topics;subscriptionGroups;")).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (0, Some("export done.")));
    assert_eq!(peer.call(export("users;")).await.code, 1);

    let engine = |kind: &str| Command::request(RequestCode::SWITCH_TIMER_ENGINE).field("E_T", kind);
    for (kind, code, remark) in [
        ("F", 0, "switch timer engine success"),
        ("R", 29, "timerRocksDBEnable must be configured true when broker start"),
        ("X", 29, "param error"),
    ] {
        let answer = peer.call(engine(kind)).await;
        assert_eq!((answer.code, answer.remark.as_deref()), (code, Some(remark)), "{kind}");
    }

    let end = broker.running().parts().store.log_range().end;
    let status = json(&peer.call(Command::request(RequestCode::GET_BROKER_HA_STATUS)).await);
    assert_eq!((&status["master"], &status["masterCommitLogMaxOffset"]), (&json!(true), &json!(end)));
    assert_eq!((&status["haConnectionInfo"], &status["inSyncSlaveNums"]), (&json!([]), &json!(0)));
    let reset = Command::request(RequestCode::RESET_MASTER_FLUSH_OFFSET).field("masterFlushOffset", 100);
    assert_eq!(peer.call(reset).await.code, 0);
    let answer = peer.call(Command::request(RequestCode::GET_BROKER_EPOCH_CACHE)).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("this request only for controllerMode ")));

    let delays = json(&peer.call(Command::request(RequestCode::GET_ALL_DELAY_OFFSET)).await);
    assert!(delays["offsetTable"].is_object() && delays["dataVersion"].is_object(), "{delays}");
    broker.stop().await;
}
