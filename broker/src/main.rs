//! `mqbroker`: the broker as a process, with Java's flags.

use std::process::ExitCode;

use broker::args::Args;
use config::BrokerSetup;
use remoting::SerializeType;
use structopt::StructOpt;
use structopt::clap::ErrorKind;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Exit code when the configuration or the start fails; Java's is -1, which a shell sees as this.
const FAILED: u8 = 255;
/// Exit code for wrong flags, as Java's.
const WRONG_FLAGS: u8 = 1;

fn main() -> ExitCode {
    let args = match Args::from_iter_safe(std::env::args_os()) {
        Ok(args) => args,
        Err(error) if matches!(error.kind, ErrorKind::HelpDisplayed | ErrorKind::VersionDisplayed) => {
            println!("{}", error.message);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{}", error.message);
            return ExitCode::from(WRONG_FLAGS);
        }
    };
    let filter =
        EnvFilter::try_from_env("FERROMQ_LOG").unwrap_or_else(|_| EnvFilter::new("warn,broker=info,store=info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(FAILED)
        }
    }
}

fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    let (mut setup, warnings) = BrokerSetup::read(args.config_file.as_deref())?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if args.print_config_item || args.print_important_config {
        print!("{}", setup.print(!args.print_config_item));
        return Ok(());
    }
    if let Some(addresses) = args.namesrv_addr {
        setup.broker.namesrv_addr = Some(addresses);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(setup))
}

async fn serve(setup: BrokerSetup) -> Result<(), Box<dyn std::error::Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let running = broker::start(setup).await?;
    println!("{}", boot_line(running.parts()));
    either(&mut terminate, &mut interrupt).await;
    tracing::info!("stopping");
    let hurry = CancellationToken::new();
    let stop = running.stop_or_hurry(hurry.clone());
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = either(&mut terminate, &mut interrupt), if !hurry.is_cancelled() => {
                tracing::warn!("stopping without draining connections");
                hurry.cancel();
            }
        }
    }
}

/// The line that scripts wait for.
fn boot_line(parts: &broker::wiring::Parts) -> String {
    let who = &parts.identity;
    let serialize = match who.serialize {
        SerializeType::Json => "JSON",
        SerializeType::RocketMq => "ROCKETMQ",
    };
    let mut line = format!("The broker[{}, {}] boot success. serializeType={serialize}", who.name, who.addr);
    if let Some(namesrv) = &parts.config.load().namesrv_addr {
        line = format!("{line} and name server is {namesrv}");
    }
    line
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
