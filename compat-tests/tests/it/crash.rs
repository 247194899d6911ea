//! Brokers killed with SIGKILL, or stopped, under load: what was acknowledged is there afterwards, once, and in its place.

use std::process::Command;
use std::time::Duration;

use compat_tests::harness::{BrokerOptions, Scenarios, Scratch, Servers, Whose, binaries, until};

/// Interrupts the broker `rounds` times while eight producers send and a consumer reads, each time after 1,000 more acknowledged messages.
fn interrupt_under_load(flush: &str, rounds: usize, interrupt: fn(&mut Servers)) {
    // A small log file and few queue entries a file: the kills meet rolls of both as well.
    let options = BrokerOptions::new("broker-a")
        .set("flushDiskType", flush)
        .set("mappedFileSizeCommitLog", "1048576")
        .set("mappedFileSizeConsumeQueue", "20000");
    let mut servers = Servers::start(&options);
    let scratch = Scratch::new();
    let (acks, stop) = (scratch.join("acks"), scratch.join("stop"));
    let part =
        Scenarios::new(&servers.namesrv()).option("topic", "Killed").option("file", acks.display()).option("size", 400);
    let load = part
        .clone()
        .option("stop", stop.display())
        .option("threads", 8)
        .option("pause", 1)
        .option("group", "G-follow")
        .start("load,follow");
    let acked = || {
        let text = std::fs::read_to_string(&acks).unwrap_or_default();
        text.lines().filter(|line| line.contains("\"result\":\"acked\"")).count()
    };
    until("the consumer's first message", Duration::from_secs(90), || load.log().contains("FOLLOWING"));
    for round in 1..=rounds {
        let wanted = acked() + 1000;
        until("acknowledged messages", Duration::from_secs(60), || acked() > wanted);
        interrupt(&mut servers);
        println!(
            "round {round}: {} acknowledged, back after {:?}",
            acked(),
            servers.broker.as_ref().map(|b| b.start_time())
        );
    }
    let wanted = acked() + 100;
    until("acknowledged messages after the last interruption", Duration::from_secs(60), || acked() > wanted);
    std::fs::write(&stop, "").expect("a stop file");
    load.finish();
    part.run("verify");
    part.clone().option("group", "G-killed").run("consume");
    // The same after a clean restart: recovery left a store that is consistent in itself.
    servers.restart();
    part.run("verify");
    let broker = servers.broker.as_mut().expect("a broker was started");
    broker.stop();
    check_store(broker.store());
    servers.namesrv.stop();
}

/// Log, queues and index fit together.
fn check_store(store: &std::path::Path) {
    if Whose::chosen() == Whose::Java {
        return;
    }
    let conf = store.with_file_name("broker.conf");
    let output = Command::new(binaries::binary("store-ctl")).arg("--conf").arg(conf).arg("check").arg(store).output();
    let output = output.expect("store-ctl runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    println!("{}", text.trim_end());
}

#[test]
fn killed_under_load_with_sync_flush() {
    interrupt_under_load("SYNC_FLUSH", 6, Servers::crash);
}

/// The end of a process loses nothing either: what was written is the system's.
#[test]
fn killed_under_load_with_async_flush() {
    interrupt_under_load("ASYNC_FLUSH", 6, Servers::crash);
}

#[test]
fn stopped_under_load() {
    interrupt_under_load("ASYNC_FLUSH", 4, Servers::restart);
}
