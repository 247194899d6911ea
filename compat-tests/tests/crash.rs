//! Brokers killed with SIGKILL under load: what was acknowledged is there afterwards, once, and in its place.

use std::time::Duration;

use compat_tests::harness::{BrokerOptions, Scenarios, Scratch, Servers, until};

/// Kills the broker `rounds` times while eight producers send, each time after some hundred more acknowledged messages.
fn kill_under_load(flush: &str, rounds: usize) {
    // A small log file and few queue entries a file: the kills meet rolls of both as well.
    let options = BrokerOptions::new("broker-a")
        .set("flushDiskType", flush)
        .set("mappedFileSizeCommitLog", "1048576")
        .set("mappedFileSizeConsumeQueue", "20000");
    let mut servers = Servers::start(&options);
    let scratch = Scratch::new();
    let (acks, stop) = (scratch.join("acks"), scratch.join("stop"));
    let part = Scenarios::new(&servers.namesrv())
        .option("topic", "Killed")
        .option("file", acks.display())
        .option("size", 400);
    let load = part.clone().option("stop", stop.display()).option("threads", 8).start("load");
    let acked = || {
        let text = std::fs::read_to_string(&acks).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"result\":\"acked\"")).count()
    };
    for round in 1..=rounds {
        let wanted = acked() + 500;
        until("acknowledged messages", Duration::from_secs(60), || acked() > wanted);
        servers.crash();
        println!("round {round}: {} acknowledged, back after {:?}", acked(), servers.broker.as_ref().map(|b| b.start_time()));
    }
    let wanted = acked() + 100;
    until("acknowledged messages after the last kill", Duration::from_secs(60), || acked() > wanted);
    std::fs::write(&stop, "").expect("a stop file");
    load.finish();
    part.run("verify");
    part.clone().option("group", "G-killed").run("consume");
    // The same after a clean restart: recovery left a store that is consistent in itself.
    servers.restart();
    part.run("verify");
    servers.stop();
}

#[test]
fn killed_under_load_with_sync_flush() {
    kill_under_load("SYNC_FLUSH", 4);
}

/// The end of a process loses nothing either: what was written is the system's.
#[test]
fn killed_under_load_with_async_flush() {
    kill_under_load("ASYNC_FLUSH", 4);
}
