//! Transactions: the Java scenarios that want a broker which asks often, crashes with open transactions, and stores with
//! open transactions that change hands.

use compat_tests::harness::{Broker, BrokerOptions, ClientVersion, Namesrv, Scenarios, Scratch, Servers, Whose};

const ASKING: &[(&str, &str)] =
    &[("transactionCheckInterval", "4000"), ("transactionTimeOut", "3000"), ("transactionCheckMax", "3")];

/// All that the broker asks for.
const ASKED: &str = "transaction-check,transaction-check-max,transaction-immunity,transaction-group";

fn asked(version: ClientVersion) {
    let servers = Servers::start(&BrokerOptions::new("broker-a").settings(ASKING));
    Scenarios::new(&servers.namesrv()).version(version).option("max", 3).run(ASKED);
    servers.stop();
}

#[test]
fn questions_to_the_5_5_0_client() {
    asked(ClientVersion::V5_5_0);
}

#[test]
fn questions_to_the_4_9_8_client() {
    asked(ClientVersion::V4_9_8);
}

/// A broker that never gives up, so that slow machines have the time.
fn patient(whose: Whose) -> BrokerOptions {
    BrokerOptions::new("broker-a").whose(whose).settings(ASKING).set("transactionCheckMax", "1000")
}

fn part(namesrv: &Namesrv, scratch: &Scratch, name: &str) -> Scenarios {
    Scenarios::new(&namesrv.address())
        .option("topic", "Opened")
        .option("group", format!("G-opened-{name}"))
        .option("prefix", name)
        .option("file", scratch.join(name).display())
}

/// Opens transactions in one's hands, and is asked for them in the other's.
fn hand_over(first: Whose, second: Whose, crash: bool) {
    let scratch = Scratch::new();
    let mut namesrv = Namesrv::start();
    let mut broker = Broker::start(&patient(first), &[&namesrv]);
    part(&namesrv, &scratch, "one").run("transaction-open");
    if crash {
        broker.kill();
    } else {
        broker.stop();
    }
    broker.start_again_as(second, &[&namesrv]);
    part(&namesrv, &scratch, "one").run("transaction-close");
    part(&namesrv, &scratch, "two").run("transaction-open");
    broker.stop();
    broker.start_again_as(first, &[&namesrv]);
    part(&namesrv, &scratch, "two").run("transaction-close");
    Scenarios::new(&namesrv.address()).run("transaction-commit,transaction-rollback,transaction-delay");
    broker.stop();
    namesrv.stop();
}

#[test]
fn open_transactions_outlive_a_crash() {
    hand_over(Whose::chosen(), Whose::chosen(), true);
}

#[test]
fn our_open_transactions_are_asked_for_by_java_and_the_reverse() {
    hand_over(Whose::chosen(), Whose::Java, false);
}

#[test]
fn open_transactions_of_java_are_asked_for_here_and_the_reverse() {
    hand_over(Whose::Java, Whose::chosen(), false);
}
