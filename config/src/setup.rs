//! All structs that a server starts with: defaults, then the file, then the command line, then what follows from these.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::load::{self, LoadError, Target, Warning};
use crate::properties::Properties;
use crate::registry::Config;
use crate::{
    AuthConfig, BrokerConfig, BrokerRole, ControllerConfig, JraftConfig, MessageStoreConfig, NamesrvConfig,
    NettyClientConfig, NettyServerConfig,
};

/// The port of a broker that does not set `listenPort`.
pub const BROKER_PORT: i32 = 10911;

/// The port of a name server that does not set `listenPort`.
pub const NAMESRV_PORT: i32 = 9876;

/// A combination of values that a server refuses to start with. The texts are those that operators know from Java.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SetupError {
    /// `brokerRole=SLAVE` with the id of a master.
    #[error("Slave's brokerId must be > 0")]
    SlaveId,
    /// Two ways of electing a master at once.
    #[error("The config enableControllerMode and enableDLegerCommitLog cannot both be true.")]
    TwoElections,
    /// A name server address that is not `host:port`.
    #[error("The Name Server Address[{0}] illegal, please set it as follows, \"127.0.0.1:9876;192.168.0.1:9876\"")]
    NamesrvAddress(String),
    /// A port outside 0 to 65535.
    #[error("listenPort={0}: expected a port from 0 to 65535")]
    Port(i32),
}

/// What a broker starts with.
#[derive(Clone, Debug)]
pub struct BrokerSetup {
    /// Identity, topics, requests.
    pub broker: BrokerConfig,
    /// The listening side.
    pub netty_server: NettyServerConfig,
    /// The connecting side.
    pub netty_client: NettyClientConfig,
    /// The message store.
    pub store: MessageStoreConfig,
    /// Authentication and authorization.
    pub auth: AuthConfig,
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// The file's content.
    pub properties: Properties,
}

impl Default for BrokerSetup {
    /// A broker's defaults: port 10911, and the HA port next to the listening port.
    fn default() -> Self {
        Self {
            broker: BrokerConfig::default(),
            netty_server: NettyServerConfig { listen_port: BROKER_PORT, ..Default::default() },
            netty_client: NettyClientConfig::default(),
            store: MessageStoreConfig { ha_listen_port: 0, ..Default::default() },
            auth: AuthConfig::default(),
            file: None,
            properties: Properties::default(),
        }
    }
}

impl BrokerSetup {
    /// The defaults, and over them the file at `path` if there is one. The caller logs the warnings, applies its
    /// command line, and then calls [`complete`](Self::complete).
    pub fn read(path: Option<&Path>) -> Result<(Self, Vec<Warning>), LoadError> {
        let mut setup = Self::default();
        let Some(path) = path else { return Ok((setup, Vec::new())) };
        let mut targets: [&mut dyn Target; 5] =
            [&mut setup.broker, &mut setup.netty_server, &mut setup.netty_client, &mut setup.store, &mut setup.auth];
        let (properties, warnings) = load::read(path, &mut targets)?;
        setup.properties = properties;
        setup.file = Some(path.to_owned());
        Ok((setup, warnings))
    }

    /// Sets what follows from other values, and refuses combinations that cannot work.
    pub fn complete(&mut self) -> Result<(), SetupError> {
        check_addresses(self.broker.namesrv_addr.as_deref())?;
        check_port(self.netty_server.listen_port)?;
        if !self.broker.enable_controller_mode {
            match self.store.broker_role {
                BrokerRole::AsyncMaster | BrokerRole::SyncMaster => self.broker.broker_id = 0,
                BrokerRole::Slave if self.broker.broker_id <= 0 => return Err(SetupError::SlaveId),
                BrokerRole::Slave => {}
            }
        }
        if self.store.enable_d_leger_commit_log {
            if self.broker.enable_controller_mode {
                return Err(SetupError::TwoElections);
            }
            self.broker.broker_id = -1;
        }
        if self.store.ha_listen_port <= 0 {
            self.store.ha_listen_port = self.netty_server.listen_port + 1;
        }
        if let Some(bits) = filter_bits(&self.broker) {
            self.store.bit_map_length_consume_queue_ext = bits;
        }
        self.broker.is_in_broker_container = false;
        self.auth.config_name = Some(self.broker.broker_name.clone());
        self.auth.cluster_name = Some(self.broker.broker_cluster_name.clone());
        self.auth.auth_config_path = Some(format!("{}/config", self.store.store_path_root_dir));
        Ok(())
    }

    /// What `-p` prints, or `-m` with only the important keys. Java leaves the store's keys out of both.
    pub fn print(&self, important_only: bool) -> String {
        [
            self.broker.print(important_only),
            self.netty_server.print(important_only),
            self.netty_client.print(important_only),
            self.auth.print(important_only),
        ]
        .concat()
    }
}

/// What a name server starts with.
#[derive(Clone, Debug)]
pub struct NamesrvSetup {
    /// The name server.
    pub namesrv: NamesrvConfig,
    /// The listening side.
    pub netty_server: NettyServerConfig,
    /// The connecting side.
    pub netty_client: NettyClientConfig,
    /// The controller, read when `enableControllerInNamesrv` is set.
    pub controller: ControllerConfig,
    /// The controller's JRaft group.
    pub jraft: JraftConfig,
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// The file's content.
    pub properties: Properties,
}

impl Default for NamesrvSetup {
    /// A name server's defaults: port 9876.
    fn default() -> Self {
        Self {
            namesrv: NamesrvConfig::default(),
            netty_server: NettyServerConfig { listen_port: NAMESRV_PORT, ..Default::default() },
            netty_client: NettyClientConfig::default(),
            controller: ControllerConfig::default(),
            jraft: JraftConfig::default(),
            file: None,
            properties: Properties::default(),
        }
    }
}

impl NamesrvSetup {
    /// The defaults, and over them the file at `path` if there is one, to which later changes go back
    /// (`configStorePath`).
    pub fn read(path: Option<&Path>) -> Result<(Self, Vec<Warning>), LoadError> {
        let mut setup = Self::default();
        let Some(path) = path else { return Ok((setup, Vec::new())) };
        let mut targets: [&mut dyn Target; 5] = [
            &mut setup.namesrv,
            &mut setup.netty_server,
            &mut setup.netty_client,
            &mut setup.controller,
            &mut setup.jraft,
        ];
        let (properties, warnings) = load::read(path, &mut targets)?;
        setup.properties = properties;
        setup.namesrv.config_store_path = path.to_string_lossy().into_owned();
        setup.file = Some(path.to_owned());
        Ok((setup, warnings))
    }

    /// Refuses values that cannot work.
    pub fn complete(&self) -> Result<(), SetupError> {
        check_port(self.netty_server.listen_port)
    }

    /// What `-p` prints.
    pub fn print(&self) -> String {
        let mut out =
            [self.namesrv.print(false), self.netty_server.print(false), self.netty_client.print(false)].concat();
        if self.namesrv.enable_controller_in_namesrv {
            out.push_str(&self.controller.print(false));
        }
        out
    }
}

/// The entries of a file as the start of the list that `mqadmin` shows; the structs' values go over them.
pub fn listed(properties: &Properties) -> BTreeMap<String, String> {
    properties.entries().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
}

/// Name server addresses as the `;` separated list has them. Empty parts do not count.
pub fn addresses(list: Option<&str>) -> impl Iterator<Item = &str> {
    list.unwrap_or_default().split(';').map(str::trim).filter(|address| !address.is_empty())
}

fn check_addresses(list: Option<&str>) -> Result<(), SetupError> {
    let good = |address: &str| {
        address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    };
    match list {
        Some(list) if !addresses(Some(list)).all(good) => Err(SetupError::NamesrvAddress(list.to_owned())),
        _ => Ok(()),
    }
}

/// Bits of a message's filter bit map: the size of a Bloom filter for `expectConsumerNumUseFilter` groups with
/// `maxErrorRateOfBloomFilter` percent of wrong hits, in whole bytes. `None` when no such filter exists.
fn filter_bits(broker: &BrokerConfig) -> Option<i32> {
    let (groups, percent) = (broker.expect_consumer_num_use_filter, broker.max_error_rate_of_bloom_filter);
    if groups < 1 || !(1..100).contains(&percent) {
        return None;
    }
    let bits = f64::from(groups) * (100.0 / f64::from(percent)).log2() * std::f64::consts::LOG2_E;
    let bytes = (bits.ceil() / 8.0).ceil();
    (bytes * 8.0 <= f64::from(i32::MAX)).then_some((bytes * 8.0) as i32)
}

fn check_port(port: i32) -> Result<(), SetupError> {
    if u16::try_from(port).is_ok() { Ok(()) } else { Err(SetupError::Port(port)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn broker(text: &str) -> (BrokerSetup, Result<(), SetupError>) {
        let file = file(text);
        let (mut setup, _) = BrokerSetup::read(Some(file.path())).unwrap();
        let result = setup.complete();
        (setup, result)
    }

    #[test]
    fn a_broker_without_a_file_has_javas_ports_and_the_masters_id() {
        let (mut setup, warnings) = BrokerSetup::read(None).unwrap();
        assert!(warnings.is_empty());
        setup.broker.broker_id = 7;
        setup.complete().unwrap();
        assert_eq!((setup.netty_server.listen_port, setup.store.ha_listen_port), (10911, 10912));
        assert_eq!(setup.broker.broker_id, 0);
        assert_eq!(setup.broker.listen_port, 6888);
    }

    #[test]
    fn derived_values_follow_the_file() {
        let (setup, result) = broker("listenPort=20911\nbrokerName=a\nstorePathRootDir=/s\n");
        result.unwrap();
        assert_eq!(setup.store.ha_listen_port, 20912);
        assert_eq!(setup.auth.config_name.as_deref(), Some("a"));
        assert_eq!(setup.auth.auth_config_path.as_deref(), Some("/s/config"));
        assert_eq!(broker("haListenPort=5\n").0.store.ha_listen_port, 5);
        assert_eq!(setup.store.bit_map_length_consume_queue_ext, 112);
        let odd = broker("maxErrorRateOfBloomFilter=100\nbitMapLengthConsumeQueueExt=8").0;
        assert_eq!(odd.store.bit_map_length_consume_queue_ext, 8);
        let (slave, result) = broker("brokerRole=SLAVE\nbrokerId=2");
        result.unwrap();
        assert_eq!(slave.broker.broker_id, 2);
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let refused = |text: &str| broker(text).1.unwrap_err().to_string();
        assert_eq!(refused("brokerRole=SLAVE"), "Slave's brokerId must be > 0");
        assert!(refused("enableControllerMode=true\nenableDLegerCommitLog=true").contains("cannot both be true"));
        assert_eq!(
            refused("namesrvAddr=127.0.0.1:9876;nowhere"),
            "The Name Server Address[127.0.0.1:9876;nowhere] illegal, please set it as follows, \"127.0.0.1:9876;192.168.0.1:9876\""
        );
        assert_eq!(refused("listenPort=70000"), "listenPort=70000: expected a port from 0 to 65535");
        assert!(broker("namesrvAddr=a:1; [::1]:2;").1.is_ok());
        assert_eq!(addresses(Some("a:1; b:2;")).collect::<Vec<_>>(), ["a:1", "b:2"]);
    }

    #[test]
    fn the_printed_lists_have_javas_order_and_gaps() {
        let (setup, _) = broker("namesrvAddr=a:1");
        let all = setup.print(false);
        assert!(all.starts_with("brokerConfigPath=\nrocketmqHome="), "{all}");
        assert!(all.contains("\nbindAddress=0.0.0.0\n") && all.contains("\nauthenticationEnabled=false\n"));
        assert!(!all.contains("storePathRootDir") && !all.contains("brokerName="));
        let important = setup.print(true);
        assert!(important.starts_with("namesrvAddr=a:1\nlistenPort="), "{important}");
        assert!(!important.contains("rocketmqHome"));
    }

    #[test]
    fn a_name_server_remembers_its_file() {
        let file = file("listenPort=1\norderMessageEnable=true\njRaftGroupId=x\n");
        let (setup, warnings) = NamesrvSetup::read(Some(file.path())).unwrap();
        assert_eq!(setup.netty_server.listen_port, 1);
        assert!(setup.namesrv.order_message_enable);
        assert_eq!(setup.namesrv.config_store_path, file.path().to_string_lossy());
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(setup.print().starts_with("rocketmqHome="));
        assert_eq!(NamesrvSetup::default().netty_server.listen_port, 9876);
    }
}
