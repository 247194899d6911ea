//! SQL92 filters, resets and message traces with the Java clients.

use compat_tests::harness::{BrokerOptions, ClientVersion, Scenarios, Servers};

const VERSIONS: [ClientVersion; 2] = [ClientVersion::V5_5_0, ClientVersion::V4_9_8];

#[test]
fn filters_by_expression() {
    let servers = Servers::start(&BrokerOptions::new("broker-a").set("enablePropertyFilter", "true"));
    for version in VERSIONS {
        let scenarios = Scenarios::new(&servers.namesrv()).version(version);
        scenarios.run("sql-push,sql-pull,sql-lite,sql-change,sql-retry,sql-bad");
    }
    servers.stop();
}

/// The same with bits of the expressions in the extension of the consume queues, and with filtered retries.
#[test]
fn filters_by_expression_with_filter_bits() {
    let options = BrokerOptions::new("broker-a").settings(&[
        ("enablePropertyFilter", "true"),
        ("enableConsumeQueueExt", "true"),
        ("enableCalcFilterBitMap", "true"),
        ("filterSupportRetry", "true"),
    ]);
    let servers = Servers::start(&options);
    for version in VERSIONS {
        let scenarios = Scenarios::new(&servers.namesrv()).version(version);
        scenarios.run("sql-push,sql-pull,sql-lite,sql-change,sql-retry");
    }
    servers.stop();
}

#[test]
fn filters_by_expression_are_off_by_default() {
    let servers = Servers::start(&BrokerOptions::new("broker-a"));
    for version in VERSIONS {
        Scenarios::new(&servers.namesrv()).version(version).run("sql-off");
    }
    servers.stop();
}

/// Without `useServerSideResetOffset` the members of a group move themselves.
#[test]
fn resets_by_the_clients() {
    let servers = Servers::start(&BrokerOptions::new("broker-a").set("useServerSideResetOffset", "false"));
    for version in VERSIONS {
        Scenarios::new(&servers.namesrv()).version(version).run("reset-by-clients");
    }
    servers.stop();
}

#[test]
fn traces_of_messages() {
    let servers = Servers::start(&BrokerOptions::new("broker-a").set("traceTopicEnable", "true"));
    for version in VERSIONS {
        Scenarios::new(&servers.namesrv()).version(version).run("trace");
    }
    servers.stop();
}
