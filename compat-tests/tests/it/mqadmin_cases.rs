//! Case E-01: what Java's mqadmin (5.5.0) says of things that are not there.

use compat_tests::harness::{Admin, BrokerOptions, Connection, Frame, Servers};

const SEND_MESSAGE: i32 = 10;
const HEART_BEAT: i32 = 34;

/// A consumer that comes and goes: the group and its retry topic are there then.
fn make_group(connection: &mut Connection, group: &str) {
    let heartbeat = format!(
        r#"{{"clientID":"c1","consumerDataSet":[{{"groupName":"{group}","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",
        "consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[],"unitMode":false}}],"producerDataSet":[]}}"#
    );
    assert_eq!(connection.call(&Frame::request(HEART_BEAT).body(heartbeat)).code, 0);
}

#[test]
fn e_01_mqadmin_errors() {
    let servers = Servers::start(&BrokerOptions::new("bk1").set("brokerClusterName", "C1"));
    let admin = Admin::new(&servers.namesrv());
    let made = admin.run(&[
        &["updateTopic", "-c", "C1", "-t", "T1", "-r", "1", "-w", "1"],
        &["updateSubGroup", "-c", "C1", "-g", "GRS"],
    ]);
    assert!(made.iter().all(|output| output.stdout.contains("success")), "{made:?}");
    let mut connection = Connection::open(&servers.broker());
    make_group(&mut connection, "GR");
    for _ in 0..11 {
        let send = Frame::request(SEND_MESSAGE)
            .field("producerGroup", "PG")
            .field("topic", "T1")
            .field("defaultTopic", "TBW102")
            .field("defaultTopicQueueNums", 4)
            .field("queueId", 0)
            .field("sysFlag", 0)
            .field("bornTimestamp", 1_700_000_000_000_i64)
            .field("flag", 0)
            .field("reconsumeTimes", 0)
            .body("hello");
        assert_eq!(connection.call(&send).code, 0);
    }
    drop(connection);
    let outputs = admin.run(&[
        &["topicStatus", "-t", "NoSuchT"],
        &["consumerProgress", "-g", "NoSuchG"],
        &["consumerProgress", "-g", "GR"],
        &["updateTopic", "-c", "C1", "-t", "bad.topic"],
        &["deleteTopic", "-c", "C1", "-t", "TNotThere"],
        &["resetOffsetByTime", "-g", "GRS", "-t", "T1", "-s", "now"],
    ]);
    servers.stop();
    let no_route = "No topic route info in name server for the topic:";
    for (output, texts) in outputs.iter().zip([
        &["CODE: 17", &format!("{no_route} NoSuchT")][..],
        &["CODE: 17", &format!("{no_route} %RETRY%NoSuchG")],
        &["CODE: 206", "return offset table is empty"],
        &["CODE: 29"],
    ]) {
        for text in texts {
            assert!(output.stderr.contains(text), "{text} in {output:?}");
        }
    }
    let deleted = &outputs[4];
    assert_eq!(deleted.stdout.matches("success").count(), 2, "{deleted:?}");
    // The row of queue 0: the max, not the offset of the last message.
    let reset = &outputs[5];
    let row = reset.rows().into_iter().find(|row| row.get(..2) == Some(&["bk1", "0"])).map(|row| row.join(" "));
    assert_eq!(row.as_deref(), Some("bk1 0 11"), "{reset:?}");
}
