//! A master with a slave as processes: Java clients read from the slave while the master is dead, and mqadmin shows both.

use std::path::Path;
use std::time::Duration;

use compat_tests::harness::{
    Admin, Broker, BrokerOptions, Connection, Frame, Namesrv, Output, Scenarios, Scratch, Whose, admin, until,
};
use compat_tests::mqadmin::{Mode, counted};

const GET_BROKER_RUNTIME_INFO: i32 = 28;
const GET_MAX_OFFSET: i32 = 30;
/// Java's slave copies its master's topics a minute after its start at the latest.
const COPIED: Duration = Duration::from_secs(100);

struct Group {
    namesrv: Namesrv,
    master: Broker,
    slave: Broker,
}

fn options(id: &str) -> BrokerOptions {
    BrokerOptions::new("broker-a").set("brokerId", id).set("slaveReadEnable", "true")
}

fn slave_options() -> BrokerOptions {
    options("1").set("brokerRole", "SLAVE")
}

impl Group {
    /// A master that `before` is done with before its slave starts.
    fn start(before: impl FnOnce(&Namesrv, &Broker)) -> Group {
        let namesrv = Namesrv::start();
        let master = Broker::start(&options("0"), &[&namesrv]);
        before(&namesrv, &master);
        let slave = Broker::start(&slave_options(), &[&namesrv]);
        Group { namesrv, master, slave }
    }

    /// Waits until the slave has everything that the master has of a topic.
    fn copied(&self, topic: &str) {
        let file = self.slave.store().join("config/topics.json");
        let name = format!("\"{topic}\"");
        until("the slave's topics", COPIED, || std::fs::read_to_string(&file).is_ok_and(|text| text.contains(&name)));
        until("the slave's messages", Duration::from_secs(30), || {
            ends(&self.slave, topic) == ends(&self.master, topic)
        });
    }

    fn stop(mut self) {
        self.slave.stop();
        self.master.stop();
        self.namesrv.stop();
    }
}

/// The ends of a topic's queues.
fn ends(broker: &Broker, topic: &str) -> Vec<String> {
    let mut connection = Connection::open(&broker.address());
    let mut end = |queue: i32| {
        let request = Frame::request(GET_MAX_OFFSET).field("topic", topic).field("queueId", queue);
        let answer = connection.call(&request);
        answer.fields.get("offset").cloned().unwrap_or_default()
    };
    (0..8).map(&mut end).collect()
}

/// H-05 as clients see it: what was confirmed is read from the slave when the master is dead, and from the master when it is back.
#[test]
fn consumers_go_to_the_slave_and_come_back() {
    let scratch = Scratch::new();
    let part = |namesrv: &Namesrv| {
        Scenarios::new(&namesrv.address())
            .option("topic", "Failover")
            .option("group", "G-failover")
            .option("file", scratch.join("acks").display())
    };
    let mut group = Group::start(|namesrv, _| {
        part(namesrv).option("prefix", "one").option("count", 200).run("produce");
    });
    group.copied("Failover");
    group.master.kill();
    // The master is the only one that takes messages; readers find the slave.
    part(&group.namesrv).run("consume");
    group.master.start_again(&[&group.namesrv]);
    part(&group.namesrv).option("prefix", "two").option("count", 50).run("produce");
    part(&group.namesrv).run("consume");
    group.copied("Failover");
    group.stop();
}

/// A consumer further behind than the master's memory reaches is sent to the slave, while the master is there.
#[test]
fn a_consumer_far_behind_reads_from_the_slave() {
    let scratch = Scratch::new();
    let part = |namesrv: &Namesrv| {
        Scenarios::new(&namesrv.address())
            .option("topic", "Behind")
            .option("group", "G-behind")
            .option("file", scratch.join("acks").display())
    };
    // Nothing counts as being in the master's memory.
    let far = |options: BrokerOptions| options.set("accessMessageInMemoryMaxRatio", "0");
    let namesrv = Namesrv::start();
    let master = Broker::start(&far(options("0")), &[&namesrv]);
    part(&namesrv).option("count", 400).run("produce");
    let slave = Broker::start(&far(slave_options()), &[&namesrv]);
    let group = Group { namesrv, master, slave };
    group.copied("Behind");
    part(&group.namesrv).run("consume");
    let read = |broker: &Broker| runtime(broker, "msgGetTotalTodayNow").parse::<i64>().unwrap();
    let (of_master, of_slave) = (read(&group.master), read(&group.slave));
    assert!(
        of_slave > 0 && of_master + of_slave >= 400,
        "{of_master} messages from the master, {of_slave} from the slave"
    );
    group.stop();
}

fn golden(name: &str) -> Vec<Output> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/cli/with-slave").join(format!("{name}.txt"));
    admin::parse(&std::fs::read_to_string(path).unwrap())
}

/// mqadmin of a group with a slave, beside what it printed of Java's.
#[test]
fn mqadmin_shows_master_and_slave() {
    let scratch = Scratch::new();
    let group = Group::start(|namesrv, _| {
        Scenarios::new(&namesrv.address())
            .option("topic", "Shown")
            .option("file", scratch.join("acks").display())
            .option("count", 20)
            .run("produce");
    });
    group.copied("Shown");
    let (master, slave) = (group.master.address(), group.slave.address());
    let commands: [&[&str]; 6] = [
        &["clusterList"],
        &["clusterList", "-m"],
        &["haStatus", "-b", &master],
        &["haStatus", "-c", "DefaultCluster"],
        &["brokerStatus", "-b", &slave],
        &["topicRoute", "-t", "Shown"],
    ];
    // Once a second has gone by, the slave has reported what it has.
    let mut live = Vec::new();
    until("the slave's report", Duration::from_secs(30), || {
        live = Admin::new(&group.namesrv.address()).run(&commands);
        let rows = live[2].rows();
        rows.last().is_some_and(|row| row.get(2) == Some(&"0") && row.get(4) == Some(&"OK"))
    });
    let recorded: Vec<Output> = [golden("clusterList"), golden("haStatus"), golden("brokerStatus")].concat();
    let numbers = Mode { numbers: true, ..Mode::default() };
    let keys = Mode { keys: true, ..Mode::default() };
    let store = group.slave.store().display().to_string();
    for (live, recorded) in live.iter().zip(&recorded) {
        let mode = if recorded.command.starts_with("brokerStatus") { keys } else { numbers };
        // The recording ends each part with an empty line.
        let trimmed = |output: &Output| Output {
            command: output.command.clone(),
            stdout: output.stdout.trim_end().replace(&store, "store"),
            stderr: output.stderr.trim_end().to_owned(),
        };
        assert_eq!(counted(mode, &trimmed(live)), counted(mode, &trimmed(recorded)), "{}", recorded.command);
    }
    let status = |key: &str| {
        let line = live[4].stdout.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.split(':').nth(1).unwrap_or_default().trim().to_owned()
    };
    assert_eq!(status("brokerActive"), "false");
    let route = &live[5].stdout;
    assert!(route.contains(&format!("0:\"{master}\"")) && route.contains(&format!("1:\"{slave}\"")), "{route}");
    group.stop();
}

/// One replica at a time: a group of Java's brokers becomes one of ours, and loses nothing.
#[test]
fn a_java_group_is_migrated() {
    let scratch = Scratch::new();
    let part = |namesrv: &Namesrv| {
        Scenarios::new(&namesrv.address())
            .option("topic", "Moved")
            .option("group", "G-moved")
            .option("file", scratch.join("acks").display())
    };
    let mut namesrv = Namesrv::start_with(Whose::Java, "JSON", &[]);
    let mut master = Broker::start(&options("0").whose(Whose::Java), &[&namesrv]);
    part(&namesrv).option("prefix", "java").option("count", 100).run("produce");
    // Our slave copies Java's master: messages, topics, groups and offsets.
    let mut slave = Broker::start(&slave_options().whose(Whose::Ours), &[&namesrv]);
    let file = slave.store().join("config/topics.json");
    until("the slave's topics", COPIED, || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("\"Moved\"")));
    until("the slave's messages", Duration::from_secs(30), || ends(&slave, "Moved") == ends(&master, "Moved"));
    part(&namesrv).run("consume");
    // The master becomes ours on its own store; the slave goes on.
    master.stop();
    master.start_again_as(Whose::Ours, &[&namesrv]);
    part(&namesrv).option("prefix", "ours").option("count", 100).run("produce");
    until("the slave's messages", Duration::from_secs(30), || ends(&slave, "Moved") == ends(&master, "Moved"));
    // The group goes on where it was.
    part(&namesrv).option("prefix", "ours").run("consume");
    slave.stop();
    master.stop();
    namesrv.stop();
}

/// Java's name server tells our slave that its master is gone, and that it is back.
#[test]
fn a_slave_stands_in_at_javas_name_server() {
    let acting = |options: BrokerOptions| options.whose(Whose::Ours).set("enableSlaveActingMaster", "true");
    let mut namesrv = Namesrv::start_with(Whose::Java, "JSON", &[]);
    let mut master = Broker::start(&acting(options("0")), &[&namesrv]);
    let mut slave = Broker::start(&acting(slave_options()), &[&namesrv]);
    until("the master to serve", Duration::from_secs(30), || is_active(&master) && !is_active(&slave));
    master.kill();
    until("the slave to stand in", Duration::from_secs(30), || is_active(&slave));
    master.start_again(&[&namesrv]);
    until("the slave to step back", Duration::from_secs(30), || is_active(&master) && !is_active(&slave));
    slave.stop();
    master.stop();
    namesrv.stop();
}

/// A group of two whose brokers make contact before they serve, Java's and ours in either part: the slave stands in, and the
/// master takes over from it when it comes back.
#[track_caller]
fn a_mixed_group_makes_contact(masters: Whose, slaves: Whose) {
    let member = |options: BrokerOptions, whose: Whose| {
        let together = [("enableSlaveActingMaster", "true"), ("totalReplicas", "2"), ("brokerIP2", "127.0.0.1")];
        options.whose(whose).settings(&together)
    };
    let mut namesrv = Namesrv::start_with(Whose::Ours, "JSON", &[]);
    let mut master = Broker::start(&member(options("0"), masters), &[&namesrv]);
    let mut slave = Broker::start(&member(slave_options(), slaves), &[&namesrv]);
    until("the master to serve", Duration::from_secs(60), || is_active(&master) && !is_active(&slave));
    master.kill();
    until("the slave to stand in", Duration::from_secs(60), || is_active(&slave));
    // The start waits until the master is known to the name server, which it is only after it has met the slave.
    master.start_again(&[&namesrv]);
    until("the slave to step back", Duration::from_secs(60), || is_active(&master) && !is_active(&slave));
    slave.stop();
    master.stop();
    namesrv.stop();
}

#[test]
fn our_slave_of_javas_master_makes_contact() {
    a_mixed_group_makes_contact(Whose::Java, Whose::Ours);
}

#[test]
fn javas_slave_of_our_master_makes_contact() {
    a_mixed_group_makes_contact(Whose::Ours, Whose::Java);
}

fn is_active(broker: &Broker) -> bool {
    runtime(broker, "brokerActive") == "true"
}

/// A value of the broker's run-time information.
fn runtime(broker: &Broker, key: &str) -> String {
    let answer = Connection::open(&broker.address()).call(&Frame::request(GET_BROKER_RUNTIME_INFO));
    // A Java broker that is just starting answers without a body.
    let info: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    info["table"][key].as_str().unwrap_or_default().to_owned()
}

/// The other way round: Java's slave copies our master's tables, and serves its readers.
#[test]
fn javas_slave_under_our_master() {
    let scratch = Scratch::new();
    let part = |namesrv: &Namesrv| {
        Scenarios::new(&namesrv.address())
            .option("topic", "Mixed")
            .option("group", "G-mixed")
            .option("file", scratch.join("acks").display())
    };
    let namesrv = Namesrv::start_with(Whose::Ours, "JSON", &[]);
    let master = Broker::start(&options("0").whose(Whose::Ours), &[&namesrv]);
    part(&namesrv).option("count", 100).run("produce");
    let slave = Broker::start(&slave_options().whose(Whose::Java), &[&namesrv]);
    let mut group = Group { namesrv, master, slave };
    group.copied("Mixed");
    group.master.kill();
    part(&group.namesrv).run("consume");
    group.slave.stop();
    group.namesrv.stop();
}
