//! The flags of `mqbroker`: those of Java's BrokerStartup.

use std::path::PathBuf;

use structopt::StructOpt;

/// The message broker.
#[derive(Debug, StructOpt)]
#[structopt(name = "mqbroker")]
pub struct Args {
    /// Broker config properties file
    #[structopt(short = "c", long = "configFile")]
    pub config_file: Option<PathBuf>,
    /// Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'
    #[structopt(short = "n", long = "namesrvAddr")]
    pub namesrv_addr: Option<String>,
    /// Print all config item
    #[structopt(short = "p", long = "printConfigItem")]
    pub print_config_item: bool,
    /// Print important config item
    #[structopt(short = "m", long = "printImportantConfig")]
    pub print_important_config: bool,
}
