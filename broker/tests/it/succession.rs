//! Who serves when the master of a group goes and comes back, with `enableSlaveActingMaster`.

use std::path::Path;

use crate::common::client::until;
use crate::common::{Peer, TestBroker, number, pull, set};
use broker::Running;
use config::{BrokerRole, BrokerSetup};
use namesrv::NamesrvStartConfig;
use remoting::{Command, RequestCode, ResponseCode};
use tempfile::TempDir;

/// A name server, a master (`bk1`, id 0) and its slave (id 1), and the master of another group (`bk2`).
struct World {
    dir: TempDir,
    names: namesrv::Running,
    master: Option<Running>,
    slave: Running,
    other: Running,
}

fn member(dir: &Path, name: &str, id: i64, namesrv: &str, adjust: impl FnOnce(&mut BrokerSetup)) -> BrokerSetup {
    crate::common::setup(&dir.join(format!("store-{name}-{id}")), |setup| {
        setup.broker.broker_name = name.to_owned();
        setup.broker.broker_id = id;
        setup.broker.namesrv_addr = Some(namesrv.to_owned());
        setup.broker.enable_slave_acting_master = true;
        setup.broker.slave_read_enable = true;
        setup.broker.sync_broker_member_group_period = 200;
        setup.broker.transaction_check_interval = 200;
        setup.store.message_delay_level = "8s".to_owned();
        if id > 0 {
            setup.store.broker_role = BrokerRole::Slave;
        }
        adjust(setup);
    })
}

impl World {
    async fn start(adjust: impl Fn(&mut BrokerSetup)) -> World {
        let dir = tempfile::tempdir().unwrap();
        let mut config = NamesrvStartConfig::default();
        config.netty.listen_port = 0;
        config.netty.bind_address = "127.0.0.1".into();
        config.namesrv.kv_config_path = dir.path().join("kvConfig.json").display().to_string();
        config.namesrv.config_store_path = dir.path().join("namesrv.properties").display().to_string();
        let names = namesrv::start(config).await.unwrap();
        let addr = names.addr().to_string();
        let other = broker::start(member(dir.path(), "bk2", 0, &addr, |_| {})).await.unwrap();
        let master = broker::start(member(dir.path(), "bk1", 0, &addr, &adjust)).await.unwrap();
        let slave = broker::start(member(dir.path(), "bk1", 1, &addr, &adjust)).await.unwrap();
        World { dir, names, master: Some(master), slave, other }
    }

    fn master(&self) -> &Running {
        self.master.as_ref().unwrap()
    }

    /// Makes a topic in both groups, and waits until the slave knows it.
    async fn topic(&self, name: &str) -> Peer {
        for running in [&self.other, self.master()] {
            Peer::connect(running.addr()).await.create_topic(name, 1, 6).await;
        }
        assert!(self.slave.parts().slave.as_ref().unwrap().sync.copy_all().await);
        Peer::connect(self.master().addr()).await
    }

    /// Waits until the slave has what the master has.
    async fn copied(&self) {
        let end = self.master().parts().store.wrote().get();
        until(|| self.slave.parts().store.dispatched() == end).await;
    }

    async fn stop_master(&mut self) {
        self.master.take().unwrap().stop().await;
    }

    async fn start_master(&mut self, adjust: impl FnOnce(&mut BrokerSetup)) {
        let addr = self.names.addr().to_string();
        self.master = Some(broker::start(member(self.dir.path(), "bk1", 0, &addr, adjust)).await.unwrap());
    }

    async fn stop(self) {
        self.slave.stop().await;
        if let Some(master) = self.master {
            master.stop().await;
        }
        self.other.stop().await;
        self.names.stop().await;
    }
}

async fn is_active(running: &Running) -> bool {
    let mut peer = Peer::connect(running.addr()).await;
    let answer = peer.call(Command::request(RequestCode::GET_BROKER_RUNTIME_INFO)).await;
    crate::common::client::json(&answer)["table"]["brokerActive"] == "true"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slave_stands_in_for_its_master_until_that_is_back() {
    let mut world = World::start(|_| {}).await;
    let mut peer = world.topic("T1").await;
    peer.put("T1", 0, "", "one").await;
    world.copied().await;
    assert!(is_active(world.master()).await && !is_active(&world.slave).await);

    world.stop_master().await;
    let parts = world.slave.parts().clone();
    until(|| parts.duties.are_on()).await;
    assert!(is_active(&world.slave).await);
    assert_eq!(parts.members.least_id(), 1);
    let sync = parts.slave.as_ref().unwrap().sync.clone();
    until(|| sync.master().is_none() && parts.ha.master().is_none()).await;
    // It still takes nothing; but the refusal is the store's.
    let mut slave = Peer::connect(world.slave.addr()).await;
    let answer = slave.call(crate::common::message("T1", 0, "", "x")).await;
    assert_eq!(answer.code, ResponseCode::SERVICE_NOT_AVAILABLE.0);
    let back = Command::request(RequestCode::CONSUMER_SEND_MSG_BACK)
        .field("group", "G")
        .field("offset", 0)
        .field("delayLevel", 0)
        .field("unitMode", false);
    let answer = slave.call(back).await;
    assert_eq!((answer.code, answer.remark.as_deref()), (1, Some("no master available along with 127.0.0.1")));
    // Readers wait here now.
    let answer = slave.call(pull("G", "T1", 0, 0, "*")).await;
    assert_eq!((answer.code, number(&answer, "suggestWhichBrokerId")), (0, 0));
    let waits = set(set(pull("G", "T1", 0, 1, "*"), "sysFlag", 6), "suspendTimeoutMillis", 60_000);
    let waiting = slave.send(waits).await;
    until(|| parts.puller.waiting() == 1).await;

    world.start_master(|_| {}).await;
    let answer = slave.answer(waiting).await;
    assert_eq!(answer.code, ResponseCode::PULL_RETRY_IMMEDIATELY.0);
    assert_eq!(number(&answer, "suggestWhichBrokerId"), 0);
    until(|| !parts.duties.are_on()).await;
    let back = Some(world.master().addr().to_string());
    until(|| sync.master() == back && parts.ha.master().is_some()).await;
    assert!(is_active(world.master()).await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_while_the_master_is_away_goes_to_another_group() {
    let mut world = World::start(|setup| setup.broker.enable_remote_escape = true).await;
    let mut peer = world.topic("T1").await;
    let due = broker::stats::now_millis() + 8000;
    peer.put("T1", 0, "DELAY=1;K=v", "delayed").await;
    peer.put("T1", 0, &format!("TIMER_DELIVER_MS={due};UNIQ_KEY=k"), "timed").await;
    let half = set(crate::common::message("T1", 0, "TRAN_MSG=true;PGROUP=PG;UNIQ_KEY=t", "half"), "sysFlag", 4);
    assert_eq!(peer.call(half).await.code, 0);
    world.copied().await;
    // How far the master's timer has come is known here.
    until(|| world.master().parts().timer.as_ref().unwrap().untaken() == 0).await;
    world.slave.parts().slave.as_ref().unwrap().sync.copy_timer_marks().await.unwrap();
    world.stop_master().await;

    let mut other = Peer::connect(world.other.addr()).await;
    other.wait_for_offset("T1", 0, 2).await;
    let answer = other.call(pull("G", "T1", 0, 0, "*")).await;
    let mut records = crate::common::records(&answer.body);
    records.sort_by(|a, b| a.body.cmp(&b.body));
    assert_eq!(records.iter().map(|record| record.body.as_str()).collect::<Vec<_>>(), ["delayed", "timed"]);
    assert_eq!((records[0].property("K"), records[0].property("DELAY")), (Some("v"), None));
    // The half is one of the other broker now, which asks for its end.
    other.wait_for_offset("RMQ_SYS_TRANS_HALF_TOPIC", 0, 1).await;
    assert_eq!(other.max_offset("RMQ_SYS_TRANS_HALF_TOPIC", 0).await, 1, "once");

    // The master is back and does not deliver them again.
    world.start_master(|setup| setup.broker.enable_remote_escape = true).await;
    until(|| !world.slave.parts().duties.are_on()).await;
    assert_eq!(other.max_offset("T1", 0).await, 2);
    world.stop().await;
}

/// Brokers of a group of two make contact before they serve; a master that comes back goes on where its slave has come to.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_two_makes_contact_before_it_serves() {
    let adjust = |setup: &mut BrokerSetup| {
        setup.store.total_replicas = 2;
        setup.broker.sync_broker_member_group_period = 200;
    };
    let mut world = World::start(adjust).await;
    let members = |world: &World| world.names.routes().member_group(Some("C1"), Some("bk1")).broker_addrs.len();
    until(|| members(&world) == 2).await;
    let serves = |running: &Running| !running.parts().link.is_isolated();
    until(|| serves(world.master()) && world.master().parts().duties.are_on()).await;
    let mut peer = world.topic("T1").await;
    peer.create_group("G", "").await;
    peer.put("T1", 0, "", "one").await;
    peer.put("T1", 0, "DELAY=1", "delayed").await;
    world.copied().await;
    assert!(world.slave.parts().slave.as_ref().unwrap().sync.copy_all().await);

    world.stop_master().await;
    until(|| world.slave.parts().duties.are_on()).await;
    let mut slave = Peer::connect(world.slave.addr()).await;
    let commit = Command::request(RequestCode::UPDATE_CONSUMER_OFFSET)
        .field("consumerGroup", "G")
        .field("topic", "T1")
        .field("queueId", 0)
        .field("commitOffset", 1);
    assert_eq!(slave.call(commit).await.code, 0);

    world.start_master(adjust).await;
    until(|| serves(world.master()) && members(&world) == 2).await;
    assert_eq!(world.master().parts().offsets.query("G", "T1", 0), Some(1));
    until(|| !world.slave.parts().duties.are_on()).await;
    // What nobody could take while it was away is delivered now.
    let mut peer = Peer::connect(world.master().addr()).await;
    peer.wait_for_offset("T1", 0, 2).await;
    world.stop().await;
}

/// What a name server says, and what becomes of it at brokers of every kind.
#[tokio::test(flavor = "multi_thread")]
async fn news_of_the_least_id() {
    let news = |id: i64, addr: &str, offline: &str| {
        Command::request(RequestCode::NOTIFY_MIN_BROKER_ID_CHANGE)
            .field("minBrokerId", id)
            .field("minBrokerAddr", addr)
            .field("offlineBrokerAddr", offline)
            .field("haBrokerAddr", "127.0.0.1:2")
    };
    for (id, acting) in [(0, true), (1, false), (1, true)] {
        let broker = TestBroker::with(|setup| {
            setup.broker.broker_id = id;
            setup.broker.enable_slave_acting_master = acting;
            if id > 0 {
                setup.store.broker_role = BrokerRole::Slave;
            }
        })
        .await;
        let parts = broker.running().parts().clone();
        let mut peer = broker.connect().await;
        assert_eq!(peer.call(news(1, "127.0.0.1:3", "127.0.0.1:1")).await.code, 0);
        // A master stays one, and a slave that may not stand in does not.
        assert_eq!(parts.duties.are_on(), id == 0 || acting, "{id} {acting}");
        assert_eq!(parts.members.least_id(), i64::from(id > 0 && acting));
        assert_eq!(peer.call(news(2, "127.0.0.1:4", "127.0.0.1:3")).await.code, 0);
        assert_eq!(parts.duties.are_on(), id == 0, "{id} {acting}");
        assert_eq!(peer.call(news(0, "127.0.0.1:1", "")).await.code, 0);
        assert_eq!((parts.duties.are_on(), parts.members.least_id()), (id == 0, 0));
        if let Some(slave) = parts.slave.as_ref().filter(|_| acting) {
            assert_eq!(slave.sync.master().as_deref(), Some("127.0.0.1:1"));
            assert_eq!(parts.ha.master().as_deref(), Some("127.0.0.1:2"));
        }
        assert_eq!(peer.call(Command::request(RequestCode::NOTIFY_MIN_BROKER_ID_CHANGE)).await.code, 0);
        broker.stop().await;
    }
}
