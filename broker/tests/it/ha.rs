//! Replication over real sockets, in one process: cases H-01, H-02, H-03, and what a slave does with what comes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::common::{LIMIT, Peer, TestBroker, batch, message, number, pull, records};
use broker::ha::wire::{HEADER_LEN, Header};
use config::{BrokerRole, BrokerSetup, FlushDiskType};
use remoting::body::ha::HaStatus;
use remoting::{Command, RequestCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const FLUSH_SLAVE_TIMEOUT: i32 = 12;

/// A slave that speaks the protocol as the test wants.
struct RawSlave(TcpStream);

impl RawSlave {
    async fn connect(master: &TestBroker) -> RawSlave {
        RawSlave(TcpStream::connect(ha_addr(master)).await.unwrap())
    }

    async fn report(&mut self, position: i64) {
        self.0.write_all(&position.to_be_bytes()).await.unwrap();
    }

    /// The next frame, when one comes in time.
    async fn frame(&mut self, limit: Duration) -> Option<(Header, Vec<u8>)> {
        tokio::time::timeout(limit, async {
            let mut head = [0; HEADER_LEN];
            self.0.read_exact(&mut head).await.ok()?;
            let header = Header::decode(&head).expect("a head of a frame");
            let mut body = vec![0; header.len as usize];
            self.0.read_exact(&mut body).await.ok()?;
            Some((header, body))
        })
        .await
        .ok()?
    }

    /// Waits until the master closes the connection.
    async fn is_closed(&mut self) {
        let mut buffer = [0; 4096];
        let closed = async { while let Ok(1..) = self.0.read(&mut buffer).await {} };
        tokio::time::timeout(LIMIT, closed).await.expect("the master keeps the connection");
    }
}

fn ha_addr(broker: &TestBroker) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], broker.running().parts().identity.ha_port))
}

fn end(broker: &TestBroker) -> i64 {
    broker.running().parts().store.log_range().end as i64
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < limit, "it does not come: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn two_copies(setup: &mut BrokerSetup) {
    setup.store.broker_role = BrokerRole::SyncMaster;
    setup.store.total_replicas = 2;
    setup.store.in_sync_replicas = 2;
    setup.store.slave_timeout = 700;
}

/// A master, and a slave that knows it.
async fn pair(master: impl FnOnce(&mut BrokerSetup), slave: impl FnOnce(&mut BrokerSetup)) -> (TestBroker, TestBroker) {
    let master = TestBroker::with(master).await;
    let slave = TestBroker::with(|setup| as_slave(setup, slave)).await;
    slave.running().parts().ha.set_master(Some(ha_addr(&master).to_string()));
    (master, slave)
}

fn as_slave(setup: &mut BrokerSetup, adjust: impl FnOnce(&mut BrokerSetup)) {
    setup.broker.broker_id = 1;
    setup.broker.slave_read_enable = true;
    setup.store.broker_role = BrokerRole::Slave;
    adjust(setup);
}

async fn in_step(master: &TestBroker, slave: &TestBroker) {
    until("the slave's copy", || end(slave) == end(master)).await;
    same_log(master, slave);
}

/// What the slave has is what the master has there.
fn same_log(master: &TestBroker, slave: &TestBroker) {
    let source = slave.running().parts().store.source();
    let sink = master.running().parts().store.sink();
    let range = source.range();
    let mut at = range.start;
    while let Some(slice) = source.slice(at) {
        assert!(sink.matches(at, &slice), "the logs differ behind {at}");
        at += slice.len() as u64;
    }
    assert_eq!(at, range.end);
}

#[tokio::test(flavor = "multi_thread")]
async fn h_01_slave_position_report() {
    let broker = TestBroker::with(two_copies).await;
    let mut peer = broker.connect().await;
    assert_eq!(peer.call(message("T", 0, "", "first")).await.code, FLUSH_SLAVE_TIMEOUT);
    let mut slave = RawSlave::connect(&broker).await;
    slave.report(end(&broker)).await;
    let reported = || {
        let links = broker.running().parts().ha.state().ha_connection_info;
        links.first().is_some_and(|link| link.slave_ack_offset > 0)
    };
    until("the report", reported).await;
    slave.report(end(&broker) + 1000).await;
    slave.is_closed().await;
    let begin = Instant::now();
    assert_eq!(peer.call(message("T", 0, "", "second")).await.code, FLUSH_SLAVE_TIMEOUT);
    assert!(begin.elapsed() >= Duration::from_millis(700));
    // The first report of all.
    let mut slave = RawSlave::connect(&broker).await;
    slave.report(end(&broker) + 5000).await;
    slave.is_closed().await;
    assert_eq!(peer.call(message("T", 0, "", "third")).await.code, FLUSH_SLAVE_TIMEOUT);
    until("the connection's end", || broker.running().parts().ha.state().ha_connection_info.is_empty()).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h_02_sync_master_status() {
    let alone = TestBroker::with(|setup| setup.store.broker_role = BrokerRole::SyncMaster).await;
    let mut peer = alone.connect().await;
    let begin = Instant::now();
    peer.put("T", 0, "", "m").await;
    assert!(begin.elapsed() < Duration::from_millis(600));
    alone.stop().await;

    let broker = TestBroker::with(two_copies).await;
    let mut peer = broker.connect().await;
    let begin = Instant::now();
    let late = peer.call(message("T", 0, "UNIQ_KEY=K1;", "no slave")).await;
    assert_eq!(late.code, FLUSH_SLAVE_TIMEOUT);
    assert!(begin.elapsed() >= Duration::from_millis(700));
    // It is stored all the same.
    assert!(late.get("msgId").is_some_and(|id| id.len() == 32));
    assert_eq!((number(&late, "queueOffset"), late.get("transactionId")), (0, Some("K1")));
    assert_eq!(records(&peer.call(pull("G", "T", 0, 0, "*")).await.body)[0].body, "no slave");
    let late = peer.call(batch("T", 0, "", &[("", "a"), ("", "b")])).await;
    assert_eq!((late.code, number(&late, "queueOffset")), (FLUSH_SLAVE_TIMEOUT, 1));
    let begin = Instant::now();
    assert_eq!(peer.call(message("T", 0, "WAIT=false;", "does not wait")).await.code, 0);
    assert!(begin.elapsed() < Duration::from_millis(600));

    let mut slave = RawSlave::connect(&broker).await;
    slave.report(0).await;
    assert_eq!(peer.call(message("T", 0, "", "no acknowledgement")).await.code, FLUSH_SLAVE_TIMEOUT);
    let acknowledging = tokio::spawn(async move {
        let mut got = 0;
        while let Some((header, _)) = slave.frame(LIMIT).await {
            got = header.offset as i64 + i64::from(header.len);
            slave.report(got).await;
        }
        got
    });
    for number in 0..5 {
        assert_eq!(peer.call(message("T", 0, "", &format!("copied {number}"))).await.code, 0);
    }
    let end = end(&broker);
    broker.stop().await;
    assert_eq!(acknowledging.await.unwrap(), end);
}

#[tokio::test(flavor = "multi_thread")]
async fn h_03_ha_idle_and_frames() {
    let broker = TestBroker::with(|setup| setup.store.ha_send_heartbeat_interval = 400).await;
    let mut peer = broker.connect().await;
    let body = "x".repeat(3000);
    for _ in 0..60 {
        peer.put("T", 0, "", &body).await;
    }
    let end = end(&broker);
    let mut first = RawSlave::connect(&broker).await;
    first.report(0).await;
    let mut at = 0;
    while at < end {
        let (header, body) = first.frame(LIMIT).await.unwrap();
        assert_eq!(header.offset as i64, at);
        assert!((1..=32_768).contains(&header.len));
        assert!(broker.running().parts().store.sink().matches(header.offset, &body));
        at += i64::from(header.len);
    }
    assert_eq!(at, end);
    // Signs of life, at the interval, and the link stays.
    let mut idle = RawSlave::connect(&broker).await;
    idle.report(end).await;
    let mut last = Instant::now();
    for beat in 0..4 {
        let (header, _) = idle.frame(LIMIT).await.unwrap();
        assert_eq!((header.offset as i64, header.len), (end, 0));
        assert!(beat == 0 || last.elapsed() > Duration::from_millis(300), "{:?}", last.elapsed());
        last = Instant::now();
        idle.report(end).await;
    }
    let mut third = RawSlave::connect(&broker).await;
    third.report(100).await;
    assert_eq!(third.frame(LIMIT).await.unwrap().0, Header { offset: 100, len: 32_768 });
    // A client that never reports, or reports -1, gets nothing.
    let mut silent = RawSlave::connect(&broker).await;
    let mut negative = RawSlave::connect(&broker).await;
    negative.report(-1).await;
    let limit = Duration::from_millis(900);
    let (nothing, none) = tokio::join!(silent.frame(limit), negative.frame(limit));
    assert!(nothing.is_none() && none.is_none());
    negative.report(end).await;
    assert_eq!(negative.frame(LIMIT).await.unwrap().0, Header { offset: end as u64, len: 0 });
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_slave_is_let_go() {
    let broker = TestBroker::with(|setup| setup.store.ha_housekeeping_interval = 300).await;
    let mut slave = RawSlave::connect(&broker).await;
    slave.report(0).await;
    slave.is_closed().await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_is_limited() {
    let broker = TestBroker::with(|setup| {
        setup.store.ha_flow_control_enable = true;
        setup.store.max_ha_transfer_byte_in_second = 20_000;
    })
    .await;
    let mut peer = broker.connect().await;
    let body = "x".repeat(50_000);
    peer.put("T", 0, "", &body).await;
    let mut slave = RawSlave::connect(&broker).await;
    let begin = Instant::now();
    slave.report(0).await;
    let mut got = 0;
    while got < end(&broker) {
        let (header, _) = slave.frame(LIMIT).await.unwrap();
        got += i64::from(header.len);
    }
    assert!(begin.elapsed() >= Duration::from_millis(1900), "{:?}", begin.elapsed());
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slave_copies_and_answers() {
    let (master, mut slave) = pair(two_copies, |_| ()).await;
    let mut peer = master.connect().await;
    until("the slave's connection", || master.running().parts().ha.state().in_sync_slave_nums == 1).await;
    for number in 0..50 {
        peer.put("T", number % 3, "KEYS=k;", &format!("{number}")).await;
    }
    in_step(&master, &slave).await;
    let mut reader = slave.connect().await;
    reader.wait_for_offset("T", 1, 17).await;
    // It goes on where it stopped; the master went on meanwhile.
    slave.restart(|setup| as_slave(setup, |_| ()), |_| ()).await;
    for number in 50..60 {
        assert_eq!(peer.call(message("T", 0, "WAIT=false;", &format!("{number}"))).await.code, 0);
    }
    slave.running().parts().ha.set_master(Some(ha_addr(&master).to_string()));
    in_step(&master, &slave).await;
    peer.put("T", 0, "", "on both").await;
    in_step(&master, &slave).await;
    let mut status = Vec::new();
    for broker in [&master, &slave] {
        let answer = broker.connect().await.call(Command::request(RequestCode::GET_BROKER_HA_STATUS)).await;
        status.push(serde_json::from_slice::<HaStatus>(&answer.body).unwrap());
    }
    let (end, link) = (end(&master), &status[0].ha_connection_info[0]);
    assert_eq!(
        (status[0].master, status[0].master_commit_log_max_offset, status[0].in_sync_slave_nums),
        (true, end, 1)
    );
    assert_eq!((link.slave_ack_offset, link.diff, link.in_sync, link.transfer_from_where), (end, 0, true, end));
    let client = &status[1].ha_client_runtime_info;
    assert_eq!((status[1].master, client.max_offset), (false, end));
    assert_eq!(client.master_addr.as_deref(), Some(&*ha_addr(&master).to_string()));
    assert!(client.last_read_timestamp > 0 && client.last_write_timestamp > 0);
    exchange(&master, &slave).await;
    master.stop().await;
    slave.stop().await;
}

/// Codes 906 and 908: what brokers tell each other of replication.
async fn exchange(master: &TestBroker, slave: &TestBroker) {
    let (mut to_master, mut to_slave) = (master.connect().await, slave.connect().await);
    let ask = || Command::request(RequestCode::EXCHANGE_BROKER_HA_INFO);
    let answer = to_master.call(ask()).await;
    assert_eq!(answer.get("masterHaAddress"), Some(&*ha_addr(master).to_string()));
    assert_eq!(answer.get("masterAddress"), Some(&*master.running().addr().to_string()));
    assert_eq!(number(&answer, "masterFlushOffset"), 0);
    let answer = to_slave.call(ask()).await;
    assert_eq!((answer.code, answer.get("masterHaAddress")), (0, None));
    // A slave that is told of a master takes it.
    let nobody = "127.0.0.1:1";
    let tell = ask().field("masterHaAddress", nobody).field("masterFlushOffset", 5).field("masterAddress", nobody);
    assert_eq!(to_slave.call(tell).await.code, 0);
    assert_eq!(slave.running().parts().ha.master().as_deref(), Some(nobody));
    for (peer, kept) in [(&mut to_master, 0), (&mut to_slave, 100)] {
        let reset = Command::request(RequestCode::RESET_MASTER_FLUSH_OFFSET).field("masterFlushOffset", 100);
        assert_eq!(peer.call(reset).await.code, 0);
        let status = peer.call(Command::request(RequestCode::GET_BROKER_HA_STATUS)).await;
        let status: HaStatus = serde_json::from_slice(&status.body).unwrap();
        assert_eq!(status.ha_client_runtime_info.master_flush_offset, kept);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_copies_need_two_slaves() {
    let three = |setup: &mut BrokerSetup| {
        two_copies(setup);
        setup.store.in_sync_replicas = 3;
        setup.store.flush_disk_type = FlushDiskType::Sync;
    };
    let (master, first) = pair(three, |setup| setup.store.flush_disk_type = FlushDiskType::Sync).await;
    let mut peer = master.connect().await;
    until("the first slave", || master.running().parts().ha.state().in_sync_slave_nums == 1).await;
    assert_eq!(peer.call(message("T", 0, "", "one slave")).await.code, FLUSH_SLAVE_TIMEOUT);
    let second = TestBroker::with(|setup| as_slave(setup, |setup| setup.broker.broker_id = 2)).await;
    second.running().parts().ha.set_master(Some(ha_addr(&master).to_string()));
    until("the second slave", || master.running().parts().ha.state().in_sync_slave_nums == 2).await;
    for number in 0..20 {
        peer.put("T", 0, "", &format!("{number}")).await;
        assert_eq!((end(&first), end(&second)), (end(&master), end(&master)));
    }
    for broker in [first, second, master] {
        broker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_replicas_refuse_a_message_with_acting_masters() {
    let acting = |setup: &mut BrokerSetup| {
        two_copies(setup);
        setup.broker.enable_slave_acting_master = true;
        setup.store.total_replicas = 1;
    };
    let broker = TestBroker::with(|setup| {
        acting(setup);
        // Alone from the start, it would stay isolated otherwise.
    })
    .await;
    let mut peer = broker.connect().await;
    let refused = peer.call(message("T", 0, "", "m")).await;
    assert_eq!((refused.code, refused.remark.as_deref()), (1, Some("in-sync replicas not enough")));
    assert_eq!(end(&broker), 0);
    assert_eq!(peer.call(message("T", 0, "WAIT=false;", "m")).await.code, 0);
    broker.stop().await;
    let broker = TestBroker::with(|setup| {
        acting(setup);
        setup.store.enable_auto_in_sync_replicas = true;
    })
    .await;
    broker.connect().await.put("T", 0, "", "m").await;
    broker.stop().await;
}

/// The slave has a message that the master does not have, and the other way round.
#[tokio::test(flavor = "multi_thread")]
async fn a_slave_with_another_log_copies_nothing() {
    let master = TestBroker::start().await;
    let other = TestBroker::start().await;
    for (broker, body) in [(&master, "same length A"), (&other, "same length B")] {
        broker.connect().await.put("T", 0, "UNIQ_KEY=K;", body).await;
    }
    let mut slave = other;
    slave.restart(|setup| as_slave(setup, |_| ()), |_| ()).await;
    let before = end(&slave);
    slave.running().parts().ha.set_master(Some(ha_addr(&master).to_string()));
    let mut peer = master.connect().await;
    // Each try ends with the comparison.
    for _ in 0..3 {
        let seen = slave.running().parts().ha.state().ha_client_runtime_info.last_read_timestamp;
        peer.put("T", 0, "", "more").await;
        until("another try", || slave.running().parts().ha.state().ha_client_runtime_info.last_read_timestamp > seen)
            .await;
        assert_eq!(end(&slave), before);
    }
    // It has more than the master: nothing counts as copied.
    master.stop().await;
    let shorter = TestBroker::with(two_copies).await;
    slave.running().parts().ha.set_master(Some(ha_addr(&shorter).to_string()));
    assert_eq!(shorter.connect().await.call(message("T", 0, "", "m")).await.code, FLUSH_SLAVE_TIMEOUT);
    assert_eq!(end(&slave), before);
    shorter.stop().await;
    slave.stop().await;
}

/// The network ends within records, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_cuts_within_records() {
    let master = TestBroker::start().await;
    let slave = TestBroker::with(|setup| as_slave(setup, |_| ())).await;
    let mut peer = master.connect().await;
    let body = "x".repeat(10_000);
    for number in 0..40 {
        peer.put("T", number % 2, "KEYS=k;", &body).await;
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let proxy = listener.local_addr().unwrap();
    let to = ha_addr(&master);
    let forward = tokio::spawn(async move {
        for cut in 0.. {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(to).await.unwrap();
            let (mut from_slave, mut to_slave) = client.split();
            let (mut from_master, mut to_master) = server.split();
            let down = async {
                // More each time, so that it ends.
                let _ = tokio::io::copy(&mut (&mut from_master).take(70_000 + cut * 20_011), &mut to_slave).await;
            };
            let up = async {
                let _ = tokio::io::copy(&mut from_slave, &mut to_master).await;
            };
            tokio::select! {
                () = down => {}
                () = up => {}
            }
        }
    });
    slave.running().parts().ha.set_master(Some(proxy.to_string()));
    in_step(&master, &slave).await;
    slave.connect().await.wait_for_offset("T", 1, 20).await;
    forward.abort();
    master.stop().await;
    slave.stop().await;
}

/// An empty slave begins with the newest file, as in Java.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_slave_gets_the_newest_file() {
    let small = |setup: &mut BrokerSetup| setup.store.mapped_file_size_commit_log = 65_536;
    let (master, slave) = pair(small, |_| ()).await;
    slave.stop().await;
    let mut peer = master.connect().await;
    let body = "x".repeat(5000);
    for _ in 0..30 {
        peer.put("T", 0, "", &body).await;
    }
    let slave = TestBroker::with(|setup| as_slave(setup, small)).await;
    slave.running().parts().ha.set_master(Some(ha_addr(&master).to_string()));
    in_step(&master, &slave).await;
    assert_eq!(slave.running().parts().store.log_range().start, 2 * 65_536);
    // Files of another size are refused.
    let other = TestBroker::with(|setup| {
        as_slave(setup, |setup| setup.store.mapped_file_size_commit_log = 3 * 65_536);
    })
    .await;
    other.running().parts().ha.set_master(Some(ha_addr(&master).to_string()));
    until("a try", || other.running().parts().ha.state().ha_client_runtime_info.last_read_timestamp > 0).await;
    peer.put("T", 0, "", "more").await;
    in_step(&master, &slave).await;
    assert_eq!(end(&other), 0);
    for broker in [slave, other, master] {
        broker.stop().await;
    }
}

/// The master has deleted what the slave needs next: the slave gets nothing, keeps what it has, and is set up anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_slave_that_was_away_too_long() {
    let small = |setup: &mut BrokerSetup| setup.store.mapped_file_size_commit_log = 65_536;
    let deletes = |setup: &mut BrokerSetup| {
        small(setup);
        setup.store.file_reserved_time = 0;
        setup.store.delete_commit_log_files_interval = 1;
        setup.store.ha_send_heartbeat_interval = 100;
    };
    let (master, mut slave) = pair(deletes, small).await;
    let mut peer = master.connect().await;
    peer.put("T", 0, "", "on both").await;
    in_step(&master, &slave).await;
    slave.restart(|setup| as_slave(setup, small), |_| ()).await;
    let body = "x".repeat(5000);
    for _ in 0..30 {
        peer.put("T", 0, "", &body).await;
    }
    let store = &master.running().parts().store;
    store.delete_expired_files();
    until("the deletion", || store.log_range().start >= 2 * 65_536).await;
    let before = end(&slave);
    slave.running().parts().ha.set_master(Some(ha_addr(&master).to_string()));
    let links = || master.running().parts().ha.state().ha_connection_info.len();
    until("the slave's question", || links() > 0).await;
    until("its giving up", || links() == 0).await;
    assert_eq!((end(&slave), slave.running().parts().ha.is_in_line()), (before, false));
    assert_eq!(slave.connect().await.max_offset("T", 0).await, 1);

    let remove = |dir: std::path::PathBuf| std::fs::remove_dir_all(dir).unwrap();
    slave.restart(|setup| as_slave(setup, small), remove).await;
    slave.running().parts().ha.set_master(Some(ha_addr(&master).to_string()));
    in_step(&master, &slave).await;
    until("its being in line", || slave.running().parts().ha.is_in_line()).await;
    slave.stop().await;
    master.stop().await;
}

/// A slave feeds nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_slave_of_a_slave_is_refused() {
    let slave = TestBroker::with(|setup| as_slave(setup, |_| ())).await;
    assert!(TcpStream::connect(ha_addr(&slave)).await.is_err());
    slave.stop().await;
}

/// Thousands of messages at a time, over connections in parallel: every one that is acknowledged is on both.
#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_is_copied() {
    let (master, slave) = pair(two_copies, |_| ()).await;
    until("the slave's connection", || master.running().parts().ha.state().in_sync_slave_nums == 1).await;
    let addr = master.running().addr();
    let senders = (0..4).map(|queue| {
        tokio::spawn(async move {
            let mut peer = Peer::connect(addr).await;
            for number in 0..20 {
                let mut opaques = Vec::new();
                for inner in 0..25 {
                    opaques.push(peer.send(message("T", queue, "", &format!("{number} {inner}"))).await);
                }
                for opaque in opaques {
                    assert_eq!(peer.answer(opaque).await.code, 0);
                }
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    assert_eq!(end(&slave), end(&master));
    same_log(&master, &slave);
    let mut reader = slave.connect().await;
    for queue in 0..4 {
        reader.wait_for_offset("T", queue, 500).await;
    }
    master.stop().await;
    slave.stop().await;
}
