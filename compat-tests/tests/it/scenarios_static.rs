//! Static topics made and moved by Java's mqadmin, between two brokers of ours, and between one of ours and one of Java's:
//! producers and consumers see one row of messages.

use std::time::Duration;

use compat_tests::harness::{Admin, Broker, BrokerOptions, Namesrv, Scenarios, Scratch, Whose, until};

const TOPIC: &str = "Static";
const QUEUES: usize = 4;

struct World {
    namesrv: Namesrv,
    brokers: [Broker; 2],
    scratch: Scratch,
}

impl World {
    /// `broker-a` and `broker-b`, whosever they are, at a name server.
    fn start(whose: [Whose; 2]) -> World {
        let namesrv = Namesrv::start();
        let start = |name: &str, whose| Broker::start(&BrokerOptions::new(name).whose(whose), &[&namesrv]);
        let brokers = [start("broker-a", whose[0]), start("broker-b", whose[1])];
        World { namesrv, brokers, scratch: Scratch::new() }
    }

    fn part(&self) -> Scenarios {
        Scenarios::new(&self.namesrv.address())
            .option("topic", TOPIC)
            .option("file", self.scratch.join("sent").display())
            .option("queues", QUEUES)
    }

    fn fill(&self, prefix: &str) {
        self.part().option("prefix", prefix).run("static-fill");
    }

    fn mqadmin(&self, words: &[&str]) -> String {
        let output = Admin::new(&self.namesrv.address()).run(&[words]).remove(0);
        assert!(!output.stderr.contains("Exception"), "{output:?}");
        output.stdout
    }

    fn remap(&self, broker: &str) {
        let stdout = self.mqadmin(&["remappingStaticTopic", "-t", TOPIC, "-b", broker]);
        assert_eq!(stdout.matches("mapping data is written").count(), 2, "{stdout}");
    }

    fn stop(mut self) {
        for mut broker in self.brokers {
            broker.stop();
        }
        self.namesrv.stop();
    }
}

/// Queues move to the other broker and back, under a consumer that goes on, and under one that comes later. `then`: whose the
/// brokers are when they start again with the same stores.
fn moved(whose: [Whose; 2], then: [Whose; 2]) {
    let mut world = World::start(whose);
    let queues = QUEUES.to_string();
    let stdout = world.mqadmin(&["updateStaticTopic", "-t", TOPIC, "-qn", &queues, "-b", "broker-a"]);
    assert_eq!(stdout.matches("mapping data is written").count(), 2, "{stdout}");
    world.fill("one");
    world.part().run("static-read");
    let ready = world.scratch.join("ready");
    let consuming = world
        .part()
        .option("group", "G-static")
        .option("count", 120)
        .option("first", 40)
        .option("ready", ready.display())
        .start("static-consume");
    until("the consumer has the first messages", Duration::from_secs(90), || ready.exists());
    world.remap("broker-b");
    world.fill("two");
    world.part().run("static-read");
    // The logical queues as tools show them: their parts and the gap between these.
    let status = world.mqadmin(&["topicStatus", "-t", TOPIC]);
    for queue in 0..QUEUES {
        let row = status.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|row| {
            row.first().is_some_and(|broker| broker.starts_with("__syslo__"))
                && row.get(1) == Some(&&*queue.to_string())
        });
        let row = row.unwrap_or_else(|| panic!("queue {queue} in {status}"));
        assert_eq!(row[2..4], ["0", "10010"], "{status}");
    }
    world.remap("broker-a");
    world.fill("three");
    world.part().run("static-read");
    consuming.finish();
    // What the group has stored is where it goes on, also when its brokers were away.
    for (broker, whose) in world.brokers.iter_mut().zip(then) {
        broker.stop();
        broker.start_again_as(whose, &[&world.namesrv]);
    }
    world.fill("four");
    world.part().run("static-read");
    world.part().option("group", "G-static").option("count", 40).option("skip", 30).run("static-consume");
    world.part().option("group", "G-late").option("count", 160).run("static-consume");
    world.stop();
}

#[test]
fn logical_queues_move_between_brokers() {
    moved([Whose::chosen(); 2], [Whose::chosen(); 2]);
}

#[test]
fn logical_queues_move_between_ours_and_javas() {
    moved([Whose::Ours, Whose::Java], [Whose::Java, Whose::Ours]);
}
