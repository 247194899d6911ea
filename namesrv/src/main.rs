//! `mqnamesrv`: the name server as a process, with Java's flags.

use std::path::PathBuf;
use std::process::ExitCode;

use config::load::{self, Target};
use config::{Config, ControllerConfig, JraftConfig, NettyClientConfig};
use namesrv::NamesrvStartConfig;
use remoting::SerializeType;
use structopt::StructOpt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// The name server.
#[derive(StructOpt)]
#[structopt(name = "mqnamesrv")]
struct Flags {
    /// Name server config properties file
    #[structopt(short = "c", long = "configFile")]
    config_file: Option<PathBuf>,
    /// Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'
    #[structopt(short = "n", long = "namesrvAddr")]
    _namesrv_addr: Option<String>,
    /// Print all config items
    #[structopt(short = "p", long = "printConfigItem")]
    print_config_item: bool,
}

/// Exit code when the configuration or the start fails; Java's is -1, which a shell sees as this.
const FAILED: u8 = 255;
/// Exit code for wrong flags, as Java's.
const WRONG_FLAGS: u8 = 1;

fn main() -> ExitCode {
    let flags = match Flags::from_iter_safe(std::env::args_os()) {
        Ok(flags) => flags,
        Err(error)
            if matches!(
                error.kind,
                structopt::clap::ErrorKind::HelpDisplayed | structopt::clap::ErrorKind::VersionDisplayed
            ) =>
        {
            println!("{}", error.message);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{}", error.message);
            return ExitCode::from(WRONG_FLAGS);
        }
    };
    let filter = EnvFilter::try_from_env("FERROMQ_LOG").unwrap_or_else(|_| EnvFilter::new("warn,namesrv=info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    match run(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(FAILED)
        }
    }
}

fn run(flags: Flags) -> Result<(), Box<dyn std::error::Error>> {
    let mut start = NamesrvStartConfig { serialize: SerializeType::from_env()?, ..NamesrvStartConfig::default() };
    let mut client = NettyClientConfig::default();
    if let Some(file) = &flags.config_file {
        let (mut controller, mut jraft) = (ControllerConfig::default(), JraftConfig::default());
        let mut targets: [&mut dyn Target; 5] =
            [&mut start.namesrv, &mut start.netty, &mut client, &mut controller, &mut jraft];
        let (properties, warnings) = load::read(file, &mut targets)?;
        start.others = properties.entries().map(|entry| (entry.key.clone(), entry.value.clone())).collect();
        start.namesrv.config_store_path = file.display().to_string();
        println!("load config properties file OK, {}", file.display());
        for warning in warnings {
            tracing::warn!("{warning}");
        }
    }
    if flags.print_config_item {
        print!("{}{}{}", start.namesrv.print(false), start.netty.print(false), client.print(false));
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(start))
}

async fn serve(start: NamesrvStartConfig) -> Result<(), Box<dyn std::error::Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let serialize = match start.serialize {
        SerializeType::Json => "JSON",
        SerializeType::RocketMq => "ROCKETMQ",
    };
    let bind = start.netty.bind_address.clone();
    let running = namesrv::start(start).await?;
    // Scripts wait for this line.
    println!("The Name Server boot success. serializeType={serialize}, address {bind}:{}", running.addr().port());
    either(&mut terminate, &mut interrupt).await;
    tracing::info!("stopping");
    tokio::select! {
        () = running.stop() => {}
        () = either(&mut terminate, &mut interrupt) => tracing::warn!("stopped without draining connections"),
    }
    Ok(())
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
