//! The files of `config/` after accidents: cases F-01, F-03, F-04.

use std::fs;

use crate::common::client::{Peer, start};
use remoting::RequestCode;

#[tokio::test(flavor = "multi_thread")]
async fn f_01_an_empty_topic_file_is_restored_from_its_backup() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("store/config/topics.json");
    let running = start(dir.path()).await;
    let peer = Peer::of(&running);
    assert_eq!(peer.create_topic("FT1", 2).await.code, 0);
    assert_eq!(peer.create_topic("FT2", 2).await.code, 0);
    running.stop().await;
    let backup = fs::read_to_string(dir.path().join("store/config/topics.json.bak")).unwrap();
    assert!(backup.contains("FT1"));
    fs::write(&file, "").unwrap();

    let running = start(dir.path()).await;
    let peer = Peer::of(&running);
    assert_eq!(peer.call(RequestCode::GET_TOPIC_CONFIG, &[("topic", "FT1")], "").await.code, 0);
    assert_eq!(peer.create_topic("FT3", 1).await.code, 0);
    running.stop().await;
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("FT1") && text.contains("FT3") && text.starts_with("{\n\t\"dataVersion\":{"), "{text}");
    assert!(!fs::read_to_string(dir.path().join("store/config/topics.json.bak")).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn f_03_trailing_bytes_mean_the_backup() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("store/config");
    fs::create_dir_all(&config).unwrap();
    let table = |offset: i64| {
        format!(
            r#"{{"dataVersion":{{"counter":1,"stateVersion":0,"timestamp":1}},"offsetTable":{{"RB@GRB":{{0:{offset}}}}}}}"#
        )
    };
    fs::write(config.join("consumerOffset.json"), table(5) + "junk}").unwrap();
    fs::write(config.join("consumerOffset.json.bak"), table(77)).unwrap();
    let running = start(dir.path()).await;
    let fields = [("consumerGroup", "GRB"), ("topic", "RB"), ("queueId", "0")];
    let answer = Peer::of(&running).call(RequestCode::QUERY_CONSUMER_OFFSET, &fields, "").await;
    assert_eq!((answer.code, answer.get("offset")), (0, Some("77")));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f_04_a_file_of_zero_bytes_is_an_empty_table() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("store/config");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("consumerOffset.json"), [0; 40]).unwrap();
    let running = start(dir.path()).await;
    let peer = Peer::of(&running);
    assert_eq!(peer.create_topic("RB", 1).await.code, 0);
    let fields = [("consumerGroup", "GRB"), ("topic", "RB"), ("queueId", "0"), ("setZeroIfNotFound", "false")];
    let answer = peer.call(RequestCode::QUERY_CONSUMER_OFFSET, &fields, "").await;
    assert_eq!((answer.code, answer.get("offset")), (22, None));
    running.stop().await;
}

/// No whole table of topics or groups: the broker does not start, and says which file it is.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_tables_without_a_backup_stop_the_start() {
    for name in ["topics.json", "subscriptionGroup.json"] {
        for (text, backup) in [("", None), ("{\"dataVersion\":{", None), ("\0\0\0\0", Some("")), ("", Some("{\"x"))] {
            let dir = tempfile::tempdir().unwrap();
            let config = dir.path().join("store/config");
            fs::create_dir_all(&config).unwrap();
            fs::write(config.join(name), text).unwrap();
            if let Some(backup) = backup {
                fs::write(config.join(format!("{name}.bak")), backup).unwrap();
            }
            let error =
                broker::start(crate::common::client::setup(dir.path())).await.map(drop).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            assert_eq!(fs::read_to_string(config.join(name)).unwrap(), text);
        }
    }
}

/// A Java broker's own files (5.5.0) come back entry by entry, and are written as Java writes them.
#[tokio::test(flavor = "multi_thread")]
async fn java_files_survive_a_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("store/config");
    fs::create_dir_all(&config).unwrap();
    let java = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/java-config");
    let files = ["topics.json", "subscriptionGroup.json", "consumerOffset.json"];
    for file in files {
        fs::copy(java.join(file), config.join(file)).unwrap();
    }
    let running = start(dir.path()).await;
    let offsets = &running.parts().offsets;
    assert_eq!(offsets.query("CG_tag", "TopicAuto", 3), Some(50));
    offsets.commit("CG_tag", "TopicAuto", 3, 51);
    running.parts().topics.touch();
    running.stop().await;

    let read = |path: std::path::PathBuf| -> serde_json::Value {
        remoting::body::fastjson::from_slice(&fs::read(path).unwrap()).unwrap()
    };
    let (mut before, mut after) = (read(java.join("topics.json")), read(config.join("topics.json")));
    for (name, topic) in before["topicConfigTable"].take().as_object().unwrap() {
        assert_eq!(topic, &after["topicConfigTable"][name], "topic {name}");
    }
    assert_eq!(after["dataVersion"].take()["counter"], before["dataVersion"]["counter"].as_i64().unwrap() + 1);
    let groups = |value: &serde_json::Value| value["subscriptionGroupTable"].clone();
    assert_eq!(
        groups(&read(java.join("subscriptionGroup.json"))),
        groups(&read(config.join("subscriptionGroup.json")))
    );
    let mut expected = read(java.join("consumerOffset.json"))["offsetTable"].take();
    expected["TopicAuto@CG_tag"]["3"] = 51.into();
    assert_eq!(expected, read(config.join("consumerOffset.json"))["offsetTable"]);
    let text = fs::read_to_string(config.join("consumerOffset.json")).unwrap();
    assert!(
        text.contains("\n\t\t\"TopicAuto@CG_tag\":{\n\t\t\t0:65,\n\t\t\t1:65,\n\t\t\t2:65,\n\t\t\t3:51\n\t\t}"),
        "{text}"
    );
}

/// Committed offsets are in the file within seconds, and at the stop; the backup has what was in the file before.
#[tokio::test(flavor = "multi_thread")]
async fn offsets_are_saved_in_time_and_at_the_stop() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("store/config");
    let mut setup = crate::common::client::setup(dir.path());
    setup.broker.flush_consumer_offset_interval = 50;
    let running = broker::start(setup).await.unwrap();
    let peer = Peer::of(&running);
    assert_eq!(peer.create_topic("RB", 1).await.code, 0);
    peer.create_group("GRB").await;
    let commit = async |offset: &str| {
        let fields = [("consumerGroup", "GRB"), ("topic", "RB"), ("queueId", "0"), ("commitOffset", offset)];
        assert_eq!(peer.call(RequestCode::UPDATE_CONSUMER_OFFSET, &fields, "").await.code, 0);
    };
    let saved = |name: &str| {
        let bytes = fs::read(config.join(name)).ok()?;
        let table: serde_json::Value = remoting::body::fastjson::from_slice(&bytes).ok()?;
        table["offsetTable"]["RB@GRB"]["0"].as_i64()
    };
    commit("3").await;
    // The first save is ten seconds after the start.
    crate::common::client::until(|| saved("consumerOffset.json") == Some(3)).await;
    commit("4").await;
    crate::common::client::until(|| saved("consumerOffset.json") == Some(4)).await;
    assert_eq!(saved("consumerOffset.json.bak"), Some(3));
    commit("5").await;
    running.stop().await;
    assert_eq!(saved("consumerOffset.json"), Some(5));
    assert_eq!(saved("consumerOffset.json.bak"), Some(4));
}
