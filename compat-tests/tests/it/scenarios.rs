//! The Java scenarios on running servers: different clients, layouts of headers, and servers that come and go.

use std::time::Duration;

use compat_tests::harness::{
    Broker, BrokerOptions, ClientVersion, Namesrv, Running, Scenarios, Scratch, Servers, until,
};

/// Scenarios that touch every hot request and take a few seconds together.
const SHORT: &str = "send-sync,send-batch,message-properties,push-cluster,order-consume,lite-assign,offset-restart,query-key,query-id,pull-status";

fn servers() -> Servers {
    Servers::start(&BrokerOptions::new("broker-a"))
}

#[test]
fn core_scenarios_with_the_5_5_0_client() {
    let servers = servers();
    let verdicts = Scenarios::new(&servers.namesrv()).run("core");
    assert!(verdicts.len() >= 40, "{} verdicts", verdicts.len());
    servers.stop();
}

#[test]
fn core_scenarios_with_the_5_3_3_client() {
    let servers = servers();
    Scenarios::new(&servers.namesrv()).version(ClientVersion::V5_3_3).run("core");
    servers.stop();
}

#[test]
fn core_scenarios_with_the_4_9_8_client() {
    let servers = servers();
    Scenarios::new(&servers.namesrv()).version(ClientVersion::V4_9_8).run("core");
    servers.stop();
}

#[test]
fn clients_with_binary_headers() {
    let servers = servers();
    for version in [ClientVersion::V5_5_0, ClientVersion::V5_3_3, ClientVersion::V4_9_8] {
        Scenarios::new(&servers.namesrv()).version(version).jvm("-Drocketmq.serialize.type=ROCKETMQ").run(SHORT);
    }
    servers.stop();
}

#[test]
fn servers_with_binary_headers() {
    let servers = Servers::start(&BrokerOptions::new("broker-a").serialize("ROCKETMQ"));
    Scenarios::new(&servers.namesrv()).run(SHORT);
    Scenarios::new(&servers.namesrv()).jvm("-Drocketmq.serialize.type=ROCKETMQ").run(SHORT);
    servers.stop();
}

/// Bodies compressed by each algorithm of the 5.x client: the broker keeps them as they are.
#[test]
fn compressed_bodies_of_every_kind() {
    let servers = servers();
    for kind in ["LZ4", "ZSTD"] {
        let option = format!("-Drocketmq.message.compressType={kind}");
        Scenarios::new(&servers.namesrv()).jvm(&option).run("message-compressed");
    }
    servers.stop();
}

#[test]
fn a_broker_restarted_between_produce_and_consume() {
    let mut servers = servers();
    let scratch = Scratch::new();
    let part = |namesrv: &str| {
        let file = scratch.join("acks");
        Scenarios::new(namesrv)
            .option("topic", "Restarted")
            .option("group", "G-restarted")
            .option("file", file.display())
    };
    let namesrv = servers.namesrv();
    part(&namesrv).option("prefix", "one").option("count", 500).run("produce");
    servers.restart();
    part(&namesrv).option("prefix", "one").option("exact", true).run("consume");
    part(&namesrv).option("prefix", "two").option("count", 300).run("produce");
    servers.restart();
    // The group's offsets survived as well: only the second lot comes.
    part(&namesrv).option("prefix", "two").option("exact", true).run("consume");
    part(&namesrv).run("verify");
    servers.stop();
}

#[test]
fn two_name_servers_and_the_loss_of_one() {
    let (mut first, mut second) = (Namesrv::start(), Namesrv::start());
    let options = BrokerOptions::new("broker-a").set("registerNameServerPeriod", "10000");
    let mut broker = Broker::start(&options, &[&first, &second]);
    let both = format!("{};{}", first.address(), second.address());
    let some = "send-sync,push-cluster,topics-many,lite-subscribe";
    Scenarios::new(&both).run(some);
    let load = Load::start(&both);
    load.more("messages with both name servers");
    first.kill();
    load.more("messages with one name server");
    // A 4.9 client that is told of both finds the one that lives. A 5.5 consumer fails to start when it happens to try the dead one
    // first, whatever the server: it is told of the living one.
    Scenarios::new(&both).version(ClientVersion::V4_9_8).run(some);
    Scenarios::new(&second.address()).run(some);
    first.start_again();
    until("the registration with the name server that came back", Duration::from_secs(40), || {
        first.knows(&broker.address())
    });
    second.kill();
    load.more("messages with the other name server");
    load.finish();
    Scenarios::new(&first.address()).run("send-sync,push-cluster");
    broker.stop();
    until("the broker's leave", Duration::from_secs(10), || !first.knows(&broker.address()));
    first.stop();
}

/// Two producers that send until they are told to stop, and a consumer that gets it all; no message may fail.
struct Load {
    scratch: Scratch,
    part: Scenarios,
    running: Running,
}

impl Load {
    fn start(namesrv: &str) -> Self {
        let scratch = Scratch::new();
        let part = Scenarios::new(namesrv).option("topic", "Loaded").option("file", scratch.join("acks").display());
        let running = part
            .clone()
            .option("stop", scratch.join("stop").display())
            .option("threads", 2)
            .option("pause", 1)
            .option("group", "G-loaded")
            .start("load,follow");
        until("the consumer's first message", Duration::from_secs(90), || running.log().contains("FOLLOWING"));
        Self { scratch, part, running }
    }

    fn lines(&self) -> usize {
        std::fs::read_to_string(self.scratch.join("acks")).map(|text| text.lines().count()).unwrap_or_default()
    }

    fn more(&self, what: &str) {
        let wanted = self.lines() + 300;
        until(what, Duration::from_secs(60), || self.lines() > wanted);
    }

    fn finish(self) {
        std::fs::write(self.scratch.join("stop"), "").expect("a stop file");
        self.running.finish();
        self.part.option("failures", "no").run("verify");
    }
}

/// Clients work on while the name server is away, and the broker registers again when it is back.
#[test]
fn a_name_server_restarted_under_load() {
    let mut namesrv = Namesrv::start();
    let options = BrokerOptions::new("broker-a").set("registerNameServerPeriod", "10000");
    let mut broker = Broker::start(&options, &[&namesrv]);
    let load = Load::start(&namesrv.address());
    load.more("messages before the restart");
    namesrv.stop();
    load.more("messages without a name server");
    namesrv.start_again();
    until("the broker's registration", Duration::from_secs(40), || namesrv.knows(&broker.address()));
    load.more("messages after the restart");
    load.finish();
    Scenarios::new(&namesrv.address()).run("send-sync,push-cluster");
    broker.stop();
    namesrv.stop();
}
