//! A sync of the log fails: the broker takes no more messages, says so wherever one looks, and goes on serving reads.
//! Alone in its file: the failure is for the whole process, and a process has one exporter.

mod common;

use std::time::Instant;

use common::{LIMIT, TestBroker, message, number, pull, records};
use config::{FlushDiskType, MetricsExporterType};
use remoting::{Command, RequestCode};
use store::failpoint::{self, Action, Plan, Point};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const EIO: i32 = 5;
const FLUSH_DISK_TIMEOUT: i32 = 10;
const SERVICE_NOT_AVAILABLE: i32 = 14;

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_is_final_and_shown() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut broker = TestBroker::with(|setup| {
        setup.store.flush_disk_type = FlushDiskType::Sync;
        setup.store.sync_flush_timeout = 300;
        setup.broker.metrics_exporter_type = MetricsExporterType::Prometheus;
        setup.broker.metrics_prom_exporter_host = "127.0.0.1".into();
        setup.broker.metrics_prom_exporter_port = i32::from(port);
    })
    .await;
    let mut peer = broker.connect().await;
    peer.create_topic("T", 1, 6).await;
    assert_eq!(peer.put("T", 0, "", "before").await.code, 0);
    let refusal = |table: &serde_json::Value| table["table"]["storeRefusesMessages"].as_str().map(str::to_owned);
    let info = |answer: Command| serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap();
    let status = info(peer.call(Command::request(RequestCode::GET_BROKER_RUNTIME_INFO)).await);
    assert_eq!(refusal(&status), None);
    wait_for_metric(port, 1).await;

    // Only once: no later success may count.
    failpoint::arm(Some(Plan { point: Point::FlushPages, action: Action::Fail(EIO), after: 0, times: 1 }));
    assert_eq!(peer.call(message("T", 0, "", "during")).await.code, FLUSH_DISK_TIMEOUT);
    for _ in 0..3 {
        let answer = peer.call(message("T", 0, "", "after")).await;
        assert_eq!(answer.code, SERVICE_NOT_AVAILABLE, "{answer:?}");
    }
    let status = info(peer.call(Command::request(RequestCode::GET_BROKER_RUNTIME_INFO)).await);
    assert_eq!(refusal(&status).as_deref(), Some("a flush failed"));
    wait_for_metric(port, 0).await;
    let answer = peer.call(pull("G", "T", 0, 0, "*")).await;
    let bodies: Vec<_> = records(&answer.body).into_iter().map(|record| record.body).collect();
    assert_eq!((answer.code, bodies), (0, vec!["before".to_owned()]), "what was on the device is served, nothing else");

    // A restart looks at what is there, and takes messages again.
    failpoint::arm(None);
    broker.restart(|setup| setup.store.flush_disk_type = FlushDiskType::Sync, |_| ()).await;
    let mut peer = broker.connect().await;
    let answer = peer.put("T", 0, "", "again").await;
    assert_eq!(answer.code, 0);
    assert!(number(&answer, "queueOffset") >= 1);
    broker.stop().await;
}

async fn wait_for_metric(port: u16, value: u8) {
    let line = format!(
        "rocketmq_storage_takes_messages{{cluster=\"C1\",node_type=\"broker\",node_id=\"bk1\",storage_type=\"local\",\
         storage_medium=\"disk\"}} {value}"
    );
    let deadline = Instant::now() + LIMIT;
    loop {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).await.unwrap();
        if text.contains(&line) {
            return;
        }
        assert!(Instant::now() < deadline, "{line} is not in {text}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
