//! The command line, and what it makes of the configuration.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use config::load::{LoadError, Warning};
use config::setup::addresses;
use config::{BadValue, BrokerSetup, Config, NamesrvSetup};
use structopt::StructOpt;
use thiserror::Error;

/// Directory of the store when neither a flag nor the file names one.
const STORE: &str = "./ferromq-data";

/// A RocketMQ name server and broker in one process.
#[derive(Debug, StructOpt)]
#[structopt(name = "ferromq")]
pub(crate) struct Options {
    /// Broker configuration, a Java broker.conf; flags go over it
    #[structopt(short = "c", long = "config", value_name = "FILE", parse(from_os_str))]
    config: Option<PathBuf>,

    /// Name server configuration, a Java namesrv.conf
    #[structopt(long, value_name = "FILE", parse(from_os_str))]
    namesrv_config: Option<PathBuf>,

    /// Port of the name server [default: 9876]
    #[structopt(long, value_name = "PORT")]
    namesrv_port: Option<u16>,

    /// Port of the broker [default: 10911]
    #[structopt(long, value_name = "PORT")]
    listen_port: Option<u16>,

    /// Directory of the store [default: ./ferromq-data]
    #[structopt(long, value_name = "DIR")]
    store: Option<String>,

    /// Address to listen on [default: 0.0.0.0]
    #[structopt(long, value_name = "ADDRESS")]
    bind: Option<String>,

    /// Address that clients reach the broker at [default: this machine's]
    #[structopt(long, value_name = "ADDRESS")]
    advertise: Option<String>,

    /// Any key of the broker configuration; may be given several times
    #[structopt(long, value_name = "KEY=VALUE", number_of_values = 1)]
    set: Vec<String>,
}

/// Why the configuration cannot be used.
#[derive(Debug, Error)]
pub(crate) enum OptionsError {
    /// A file.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A value of `--set`.
    #[error("--set {0}")]
    Value(#[from] BadValue),
    /// A `--set` that is no `KEY=VALUE` of a known key.
    #[error("--set {0}: expected KEY=VALUE with a key of the broker configuration")]
    Set(String),
}

/// What both servers start with.
#[derive(Debug)]
pub(crate) struct Setups {
    pub(crate) namesrv: NamesrvSetup,
    pub(crate) broker: BrokerSetup,
    pub(crate) warnings: Vec<Warning>,
}

impl Options {
    /// Defaults, then the files, then the flags.
    pub(crate) fn setups(&self) -> Result<Setups, OptionsError> {
        let (mut broker, mut warnings) = BrokerSetup::read(self.config.as_deref())?;
        let (mut namesrv, more) = NamesrvSetup::read(self.namesrv_config.as_deref())?;
        warnings.extend(more);

        if broker.properties.get("storePathRootDir").is_none() {
            broker.store.store_path_root_dir = STORE.to_owned();
        }
        for pair in &self.set {
            set(&mut broker, pair)?;
        }
        if let Some(store) = &self.store {
            broker.store.store_path_root_dir.clone_from(store);
        }
        if let Some(port) = self.listen_port {
            broker.netty_server.listen_port = port.into();
            broker.broker.listen_port = port.into();
        }
        if let Some(port) = self.namesrv_port {
            namesrv.netty_server.listen_port = port.into();
        }
        if let Some(address) = &self.bind {
            broker.netty_server.bind_address.clone_from(address);
            namesrv.netty_server.bind_address.clone_from(address);
            // Listening there only, the broker cannot be reached elsewhere.
            let any = address.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
            if !any && broker.properties.get("brokerIP1").is_none() {
                broker.broker.broker_ip1.clone_from(address);
            }
        }
        if let Some(address) = &self.advertise {
            broker.broker.broker_ip1.clone_from(address);
            broker.broker.broker_ip2.clone_from(address);
        }

        let own = Path::new(&broker.store.store_path_root_dir).join("namesrv");
        if namesrv.properties.get("kvConfigPath").is_none() {
            namesrv.namesrv.kv_config_path = own.join("kvConfig.json").to_string_lossy().into_owned();
        }
        if namesrv.file.is_none() {
            namesrv.namesrv.config_store_path = own.join("namesrv.properties").to_string_lossy().into_owned();
        }
        Ok(Setups { namesrv, broker, warnings })
    }
}

impl Setups {
    /// Tells the broker where its name server listens. Name servers that the file names stay: the broker is then part of
    /// a larger cluster. The variable NAMESRV_ADDR does not count here, it mostly stands for this very name server.
    pub(crate) fn link(&mut self, namesrv: SocketAddr) {
        let own = reachable(namesrv);
        let others: Vec<&str> =
            addresses(self.broker.properties.get("namesrvAddr")).filter(|address| *address != own).collect();
        let all: Vec<&str> = std::iter::once(own.as_str()).chain(others).collect();
        self.broker.broker.namesrv_addr = Some(all.join(";"));
    }
}

/// The address under which this machine reaches a port that it listens on.
pub(crate) fn reachable(listening: SocketAddr) -> String {
    if listening.ip().is_unspecified() {
        return format!("127.0.0.1:{}", listening.port());
    }
    listening.to_string()
}

fn set(broker: &mut BrokerSetup, pair: &str) -> Result<(), OptionsError> {
    let (key, value) = pair.split_once('=').ok_or_else(|| OptionsError::Set(pair.to_owned()))?;
    let key = key.trim();
    let known = [
        broker.broker.set(key, value),
        broker.netty_server.set(key, value),
        broker.netty_client.set(key, value),
        broker.store.set(key, value),
        broker.auth.set(key, value),
    ];
    let mut found = false;
    for result in known {
        found |= result?;
    }
    if found { Ok(()) } else { Err(OptionsError::Set(pair.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setups(flags: &[&str]) -> Result<Setups, String> {
        let options = Options::from_iter_safe(std::iter::once(&"ferromq").chain(flags)).map_err(|e| e.to_string())?;
        options.setups().map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_both_servers_have_their_usual_ports() {
        let setups = setups(&[]).unwrap();
        assert_eq!(setups.namesrv.netty_server.listen_port, 9876);
        assert_eq!(setups.broker.netty_server.listen_port, 10911);
        assert_eq!(setups.broker.store.store_path_root_dir, "./ferromq-data");
        assert!(setups.broker.broker.auto_create_topic_enable);
        assert_eq!(setups.namesrv.namesrv.kv_config_path, "./ferromq-data/namesrv/kvConfig.json");
        assert_eq!(setups.namesrv.namesrv.config_store_path, "./ferromq-data/namesrv/namesrv.properties");
    }

    #[test]
    fn flags_go_over_the_file_and_the_file_over_the_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("broker.conf");
        std::fs::write(
            &conf,
            "storePathRootDir=/from/file\nlistenPort=1\nbrokerName=b\nnamesrvAddr=other:1;127.0.0.1:5\n",
        )
        .unwrap();
        let conf = conf.to_str().unwrap();
        let mut one = setups(&["-c", conf, "--listen-port", "20911", "--set", "maxMessageSize=5"]).unwrap();
        assert_eq!(one.broker.store.store_path_root_dir, "/from/file");
        assert_eq!((one.broker.netty_server.listen_port, one.broker.broker.listen_port), (20911, 20911));
        assert_eq!((one.broker.broker.broker_name.as_str(), one.broker.store.max_message_size), ("b", 5));
        one.link("0.0.0.0:5".parse().unwrap());
        assert_eq!(one.broker.broker.namesrv_addr.as_deref(), Some("127.0.0.1:5;other:1"));
        let two = setups(&["-c", conf, "--store", "/s", "--bind", "127.0.0.1", "--advertise", "10.0.0.9"]).unwrap();
        assert_eq!(two.broker.store.store_path_root_dir, "/s");
        assert_eq!(two.namesrv.netty_server.bind_address, "127.0.0.1");
        assert_eq!(two.broker.broker.broker_ip1, "10.0.0.9");
        assert_eq!(setups(&["--bind", "127.0.0.1"]).unwrap().broker.broker.broker_ip1, "127.0.0.1");
        let any = setups(&["--bind", "0.0.0.0"]).unwrap();
        assert_eq!(any.broker.broker.broker_ip1, setups(&[]).unwrap().broker.broker.broker_ip1);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert_eq!(
            setups(&["--set", "maxMessageSize=big"]).unwrap_err(),
            "--set maxMessageSize=big: expected a whole number from -2147483648 to 2147483647"
        );
        assert!(setups(&["--set", "nonsense=1"]).unwrap_err().contains("KEY=VALUE"));
        assert!(setups(&["--listen-port", "70000"]).is_err());
        assert!(setups(&["-c", "/no/such/file"]).unwrap_err().starts_with("/no/such/file: "));
    }

    #[test]
    fn a_name_server_is_reached_at_the_address_it_listens_on() {
        assert_eq!(reachable("10.1.2.3:9876".parse().unwrap()), "10.1.2.3:9876");
        assert_eq!(reachable("[::]:9876".parse().unwrap()), "127.0.0.1:9876");
    }
}
