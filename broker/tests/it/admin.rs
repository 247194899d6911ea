//! What tools ask of a broker: cases M-01, B-08, E-03.

use crate::common::client::{Peer, json, setup, start};
use remoting::RequestCode;

#[tokio::test(flavor = "multi_thread")]
async fn m_01_illegal_topic_names() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let peer = Peer::of(&running);
    let long = "x".repeat(128);
    for (name, remark) in [
        ("a b", "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("a/b", "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("a.b", "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("\u{4e2d}\u{6587}", "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        (&long, "is longer than topic max length: 127"),
        ("", "The specified topic is blank"),
    ] {
        for answer in [peer.create_topic(name, 1).await, peer.send(name, 0, "x").await] {
            assert_eq!(answer.code, 29, "{name:?}: {:?}", answer.remark);
            assert!(answer.remark.as_deref().unwrap().contains(remark), "{name:?}: {:?}", answer.remark);
        }
        assert!(!running.parts().topics.contains(name));
    }
    assert_eq!(peer.create_topic(&"x".repeat(127), 1).await.code, 0);
    let answer = peer.create_topic("TBW102", 1).await;
    assert_eq!(answer.code, 29);
    assert_eq!(answer.remark.as_deref(), Some("The topic[TBW102] is conflict with system topic."));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b_08_the_second_port_serves_no_pulls() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let mut addr = running.addr();
    addr.set_port(addr.port() - 2);
    let vip = Peer::at(addr.to_string());
    assert_eq!(vip.create_topic("T1", 1).await.code, 0);
    vip.create_group("G1").await;
    assert_eq!(vip.send("T1", 0, "hello").await.code, 0);
    let queue = [("consumerGroup", "G1"), ("topic", "T1"), ("queueId", "0")];
    let commit = [queue[0], queue[1], queue[2], ("commitOffset", "1")];
    assert_eq!(vip.call(RequestCode::UPDATE_CONSUMER_OFFSET, &commit, "").await.code, 0);
    let answer = vip.call(RequestCode::QUERY_CONSUMER_OFFSET, &queue, "").await;
    assert_eq!((answer.code, answer.get("offset")), (0, Some("1")));
    assert_eq!(vip.call(RequestCode::GET_BROKER_RUNTIME_INFO, &[], "").await.code, 0);
    let answer = vip.call(RequestCode::GET_MAX_OFFSET, &queue[1..], "").await;
    assert_eq!((answer.code, answer.get("offset")), (0, Some("1")));
    for code in [RequestCode::PULL_MESSAGE, RequestCode::LITE_PULL_MESSAGE, RequestCode::POP_MESSAGE] {
        let answer = vip.call(code, &queue, "").await;
        assert_eq!(answer.code, 3);
        assert_eq!(answer.remark, Some(format!(" request type {} not supported", code.0)));
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e_03_runtime_info() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let peer = Peer::of(&running);
    assert_eq!(peer.create_topic("T1", 1).await.code, 0);
    for _ in 0..12 {
        assert_eq!(peer.send("T1", 0, "hello").await.code, 0);
    }
    let answer = peer.call(RequestCode::GET_BROKER_RUNTIME_INFO, &[], "").await;
    let body = json(&answer);
    let table = body["table"].as_object().unwrap();
    let get = |key: &str| table.get(key).unwrap_or_else(|| panic!("no {key}")).as_str().expect("a string").to_owned();
    for key in [
        "bootTimestamp",
        "brokerActive",
        "putMessageEntireTimeMax",
        "putMessageTimesTotal",
        "putMessageAverageSize",
        "putMessageFailedTimes",
        "putLatency99",
        "putLatency999",
        "getMessageEntireTimeMax",
        "commitLogDiskRatio",
        "consumeQueueDiskRatio",
        "remainHowManyDataToFlush",
        "remainTransientStoreBufferNumbs",
        "pageCacheLockTimeMills",
        "dispatchMaxBuffer",
        "startAcceptSendRequestTimeStamp",
        "timerReadBehind",
        "timerOffsetBehind",
        "timerCongestNum",
        "timerEnqueueTps",
        "timerDequeueTps",
        "EndTransactionQueueSize",
        "EndTransactionThreadPoolQueueCapacity",
        "msgGetTotalTodayNow",
        "msgGetTotalTodayMorning",
        "msgGetTotalYesterdayMorning",
        "msgPutTotalTodayMorning",
        "msgPutTotalYesterdayMorning",
    ] {
        get(key);
    }
    for queue in ["send", "pull", "litePull", "query", "ack"] {
        for part in ["Size", "Capacity", "HeadWaitTimeMills"] {
            get(&format!("{queue}ThreadPoolQueue{part}"));
        }
    }
    for key in ["putTps", "getTotalTps", "getFoundTps", "getMissTps", "getTransferredTps"] {
        let numbers = get(key);
        let read: Result<Vec<f64>, _> = numbers.split(' ').map(str::parse).collect();
        assert_eq!(read.map(|read| read.len()), Ok(3), "{key}={numbers}");
    }
    assert_eq!(get("brokerVersionDesc"), "V5_5_0");
    assert_eq!(get("msgPutTotalTodayNow"), "12");
    assert_eq!(get("putMessageTimesTotal"), "12");
    let log = running.parts().store.log_range();
    assert_eq!(get("commitLogMaxOffset"), log.end.to_string());
    assert_eq!(get("commitLogMinOffset"), "0");
    assert_eq!(get("putMessageSizeTotal"), log.end.to_string());
    assert_eq!(get("dispatchBehindBytes"), "0");
    assert!(get("earliestMessageTimeStamp").parse::<i64>().unwrap() > 1_700_000_000_000);
    assert!(get("putMessageDistributeTime").starts_with("[<=0ms]:0 [0~10ms]:0 "));
    assert!(get("commitLogDirCapacity").starts_with("Total : "));
    assert!(get("runtime").starts_with("[ 0 days, 0 hours, 0 minutes, "));
    let path = setup(dir.path()).store.store_path_root_dir + "/commitlog";
    assert!(get(&format!("commitLogDiskRatio_{path}")).parse::<f64>().unwrap() > 0.0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_and_groups_are_listed_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let peer = Peer::of(&running);
    let all = peer.call(RequestCode::GET_ALL_TOPIC_CONFIG, &[], "").await;
    let total = json(&all)["topicConfigTable"].as_object().unwrap().len();
    assert_eq!(all.get("totalTopicNum"), Some(total.to_string().as_str()));
    let part = [("topicSeq", "0"), ("maxTopicNum", "3"), ("dataVersion", "")];
    let part = json(&peer.call(RequestCode::GET_ALL_TOPIC_CONFIG, &part, "").await);
    assert_eq!(part["topicConfigTable"].as_object().unwrap().len(), 3);
    let version = part["dataVersion"].to_string();
    let rest = [("topicSeq", "3"), ("maxTopicNum", "2000"), ("dataVersion", version.as_str())];
    let rest = json(&peer.call(RequestCode::GET_ALL_TOPIC_CONFIG, &rest, "").await);
    assert_eq!(rest["topicConfigTable"].as_object().unwrap().len(), total - 3);
    let groups = json(&peer.call(RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, &[], "").await);
    assert!(groups["subscriptionGroupTable"].as_object().unwrap().contains_key("TOOLS_CONSUMER"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_is_read_and_changed() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let peer = Peer::of(&running);
    let answer = peer.call(RequestCode::UPDATE_BROKER_CONFIG, &[], "maxMessageSize=65536\nnoSuchKey=x\n").await;
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
    assert_eq!(running.parts().store_config.load().max_message_size, 65536);
    let answer = peer.call(RequestCode::UPDATE_BROKER_CONFIG, &[], "brokerConfigPath=x\n").await;
    assert_eq!((answer.code, answer.remark.as_deref()), (16, Some("Can not update config in black list.")));
    let answer = peer.call(RequestCode::GET_BROKER_CONFIG, &[], "").await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(text.contains("\nmaxMessageSize=65536\n") && text.contains("\nbrokerName=bk1\n"));
    assert!(answer.get("version").unwrap().starts_with(r#"{"counter":1,"stateVersion":0,"timestamp":"#));

    let version = running.parts().topics.data_version();
    let answer = peer.call(RequestCode::UPDATE_BROKER_CONFIG, &[], "brokerPermission=4\n").await;
    assert_eq!(answer.code, 0);
    assert_ne!(running.parts().topics.data_version(), version);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_of_a_group_and_deletion() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path()).await;
    let peer = Peer::of(&running);
    peer.create_topic("T1", 2).await;
    peer.create_group("G1").await;
    for _ in 0..3 {
        peer.send("T1", 0, "hello").await;
    }
    let commit = [("consumerGroup", "G1"), ("topic", "T1"), ("queueId", "0"), ("commitOffset", "2")];
    peer.call(RequestCode::UPDATE_CONSUMER_OFFSET, &commit, "").await;

    let stats = peer.call(RequestCode::GET_TOPIC_STATS_INFO, &[("topic", "T1")], "").await;
    let text = String::from_utf8(stats.body.to_vec()).unwrap();
    let head = r#"{"offsetTable":{{"brokerName":"bk1","queueId":0,"topic":"T1"}:{"lastUpdateTimestamp":"#;
    let tail = r#","maxOffset":3,"minOffset":0},{"brokerName":"bk1","queueId":1,"topic":"T1"}:{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}},"topicPutTps":"#;
    assert!(text.starts_with(head) && text.contains(tail), "{text}");

    let stats = peer.call(RequestCode::GET_CONSUME_STATS, &[("consumerGroup", "G1")], "").await;
    let text = String::from_utf8(stats.body.to_vec()).unwrap();
    let queue =
        r#"{"brokerName":"bk1","queueId":0,"topic":"T1"}:{"brokerOffset":3,"consumerOffset":2,"lastTimestamp":"#;
    assert!(text.starts_with(r#"{"consumeTps":0.0,"offsetTable":{"#) && text.contains(queue), "{text}");

    let groups = json(&peer.call(RequestCode::QUERY_TOPIC_CONSUME_BY_WHO, &[("topic", "T1")], "").await);
    assert_eq!(groups.to_string(), r#"{"groupList":["G1"]}"#);
    let topics = json(&peer.call(RequestCode::QUERY_TOPICS_BY_CONSUMER, &[("group", "G1")], "").await);
    assert_eq!(topics["topicList"][0], "T1");

    let answer = peer.call(RequestCode::GET_CONSUMER_CONNECTION_LIST, &[("consumerGroup", "G1")], "").await;
    assert_eq!((answer.code, answer.remark.as_deref()), (206, Some("the consumer group[G1] not online")));

    assert_eq!(peer.call(RequestCode::DELETE_TOPIC_IN_BROKER, &[("topic", "T1")], "").await.code, 0);
    assert_eq!(peer.call(RequestCode::DELETE_TOPIC_IN_BROKER, &[("topic", "TNotThere")], "").await.code, 0);
    assert_eq!(peer.call(RequestCode::GET_TOPIC_STATS_INFO, &[("topic", "T1")], "").await.code, 17);
    assert_eq!(running.parts().offsets.queues("G1", "T1"), None);
    let fields = [("groupName", "G1"), ("cleanOffset", "true")];
    assert_eq!(peer.call(RequestCode::DELETE_SUBSCRIPTIONGROUP, &fields, "").await.code, 0);
    assert!(!running.parts().groups.contains("G1"));
    running.stop().await;
}
