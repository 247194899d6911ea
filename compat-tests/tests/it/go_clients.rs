//! The Go scenarios on running servers.

use std::time::Duration;

use compat_tests::harness::{BrokerOptions, GoScenarios, Scratch, Servers, until};

#[test]
fn core_scenarios_with_the_go_client() {
    let servers = Servers::start(&BrokerOptions::new("broker-a"));
    let verdicts = GoScenarios::new(&servers).run("core");
    assert!(verdicts.len() >= 26, "{} verdicts", verdicts.len());
    servers.stop();
}

#[test]
fn transactions_of_the_go_client() {
    let settings = [("transactionTimeOut", "1000"), ("transactionCheckInterval", "1000")];
    let servers = Servers::start(&BrokerOptions::new("broker-a").settings(&settings));
    GoScenarios::new(&servers).run("transaction");
    servers.stop();
}

#[test]
fn sql_filters_of_the_go_client() {
    let servers = Servers::start(&BrokerOptions::new("broker-a").set("enablePropertyFilter", "true"));
    GoScenarios::new(&servers).run("filter-sql,filter-sql-pull");
    servers.stop();
}

#[test]
fn message_trace_of_the_go_client() {
    let servers = Servers::start(&BrokerOptions::new("broker-a").set("traceTopicEnable", "true"));
    GoScenarios::new(&servers).run("trace");
    servers.stop();
}

/// Messages and a group's offsets outlive a restart.
#[test]
fn a_broker_restarted_between_go_produce_and_go_consume() {
    let mut servers = Servers::start(&BrokerOptions::new("broker-a"));
    let part = |servers: &Servers, prefix: &str| {
        let part = GoScenarios::new(servers).option("topic", "GoRestarted").option("group", "G-go-restarted");
        part.option("prefix", prefix).option("count", 200)
    };
    part(&servers, "one").run("produce");
    servers.restart();
    part(&servers, "one").run("consume");
    part(&servers, "two").run("produce");
    servers.restart();
    // The second lot alone comes: the first is behind the group's offsets.
    part(&servers, "two").run("consume");
    servers.stop();
}

/// A producer and a consumer work on over a restart and a kill of the broker; no stored message is lost.
#[test]
fn go_clients_outlive_a_restart_and_a_kill() {
    let mut servers = Servers::start(&BrokerOptions::new("broker-a"));
    let scratch = Scratch::new();
    let running = GoScenarios::new(&servers)
        .option("topic", "GoSurvived")
        .option("file", scratch.join("stored").display())
        .option("stop", scratch.join("stop").display())
        .start("survive");
    let stored = || std::fs::read_to_string(scratch.join("stored")).map_or(0, |text| text.lines().count());
    let more = |what: &str| {
        let wanted = stored() + 200;
        until(what, Duration::from_secs(60), || stored() > wanted);
    };
    more("messages before the restart");
    servers.restart();
    more("messages after the restart");
    servers.crash();
    more("messages after the kill");
    std::fs::write(scratch.join("stop"), "").expect("a stop file");
    running.finish();
    servers.stop();
}
