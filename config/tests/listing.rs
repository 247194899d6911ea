//! The lists that `mqadmin getBrokerConfig` and `getNamesrvConfig` receive, against those of the Java servers.

use std::sync::Arc;

use config::{BrokerSetup, Live, LiveFile, NamesrvSetup};

/// The file of the recorded broker, with the values that Java took from two processors written out.
const BROKER: &str = "\
rocketmqHome=.
namesrvAddr=127.0.0.1:9976
brokerName=broker-a
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
listenPort=10711
storePathRootDir=store
fileReservedTime=720
bindAddress=127.0.0.2
enablePropertyFilter=true
recallMessageEnable=true
transactionCheckInterval=5000
transactionTimeOut=3000
traceTopicEnable=true
mappedFileSizeCommitLog=4194304
mappedFileSizeConsumeQueue=6000
maxHashSlotNum=1000
maxIndexNum=4000
sendMessageThreadPoolNums=2
putMessageFutureThreadPoolNums=2
pullMessageThreadPoolNums=20
litePullMessageThreadPoolNums=20
processReplyMessageThreadPoolNums=20
queryMessageThreadPoolNums=10
heartbeatThreadPoolNums=2
endTransactionThreadPoolNums=12
clientCallbackExecutorThreads=2
";

const NAMESRV: &str = "\
listenPort=9976
bindAddress=127.0.0.2
rocketmqHome=.
kvConfigPath=./namesrv/kvConfig.json
";

/// The lines that differ, each side's in the order of the lists.
fn difference(ours: &str, javas: &str) -> (Vec<String>, Vec<String>) {
    let only =
        |a: &str, b: &str| a.lines().filter(|line| !b.lines().any(|other| other == *line)).map(str::to_owned).collect();
    (only(ours, javas), only(javas, ours))
}

#[test]
fn the_brokers_list_is_javas() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broker.conf");
    std::fs::write(&path, BROKER).unwrap();
    let (mut setup, _) = BrokerSetup::read(Some(&path)).unwrap();
    setup.complete().unwrap();
    let list = LiveFile::new(setup.file, setup.properties)
        .with(Arc::new(Live::new(setup.broker)))
        .with(Arc::new(Live::new(setup.netty_server)))
        .with(Arc::new(Live::new(setup.netty_client)))
        .with(Arc::new(Live::new(setup.store)))
        .dump();
    let javas = include_str!("data/get_broker_config.txt");
    assert_eq!(difference(&list, javas), (vec![], vec![]));
    assert_eq!(list, javas);
}

#[test]
fn the_name_servers_list_is_javas() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("namesrv.conf");
    std::fs::write(&path, NAMESRV).unwrap();
    let (mut setup, warnings) = NamesrvSetup::read(Some(&path)).unwrap();
    assert_eq!(warnings.iter().map(|warning| warning.key.as_str()).collect::<Vec<_>>(), ["rocketmqHome"]);
    setup.namesrv.config_store_path = "namesrv.conf".into();
    let list = LiveFile::new(setup.file, setup.properties)
        .with(Arc::new(Live::new(setup.namesrv)))
        .with(Arc::new(Live::new(setup.netty_server)))
        .dump();
    let javas = include_str!("data/get_namesrv_config.txt");
    assert_eq!(difference(&list, javas), (vec![], vec![]));
    assert_eq!(list, javas);
}
