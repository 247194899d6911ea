//! The Prometheus exporter. Alone in its file: a process has one exporter.

mod common;

use std::time::{Duration, Instant};

use common::LIMIT;
use common::client::{Peer, setup};
use config::MetricsExporterType;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_exported_with_javas_names() {
    let dir = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut config = setup(dir.path());
    config.broker.metrics_exporter_type = MetricsExporterType::Prometheus;
    config.broker.metrics_prom_exporter_host = "127.0.0.1".into();
    config.broker.metrics_prom_exporter_port = i32::from(port);
    let running = broker::start(config).await.unwrap();
    assert_eq!(Peer::of(&running).send("T1", 0, "hello").await.code, 0);
    let mut peer = common::Peer::connect(running.addr()).await;
    peer.put("T1", 0, "TIMER_DELAY_SEC=1000;", "timed").await;
    let wanted = [
        r#"rocketmq_messages_in_total{cluster="C1",node_type="broker",node_id="bk1",topic="T1",message_type="normal",is_system="false"} 1"#,
        r#"rocketmq_broker_permission{cluster="C1",node_type="broker",node_id="bk1"} 6"#,
        r#"rocketmq_timing_messages{cluster="C1",node_type="broker",node_id="bk1",topic="T1"} 1"#,
        r#"rocketmq_timer_enqueue_total{cluster="C1",node_type="broker",node_id="bk1",topic="T1"} 1"#,
        r#"rocketmq_timer_dequeue_lag{cluster="C1",node_type="broker",node_id="bk1"} 1"#,
        r#"rocketmq_timer_message_snapshot{cluster="C1",node_type="broker",node_id="bk1",timer_bound_s="3600"} 1"#,
        r#"rocketmq_delay_message_latency_count{cluster="C1",node_type="broker",node_id="bk1",topic="T1"} 1"#,
    ];
    let deadline = Instant::now() + LIMIT;
    loop {
        let text = scrape(port).await;
        if wanted.iter().all(|line| text.contains(line)) {
            break;
        }
        assert!(Instant::now() < deadline, "{text}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    running.stop().await;
}

async fn scrape(port: u16) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    text
}
