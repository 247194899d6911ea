//! `ferromq`: a name server and a broker in one process, to try things out or for a site with a single server.

mod banner;
mod options;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use config::setup::listed;
use namesrv::NamesrvStartConfig;
use remoting::SerializeType;
use structopt::StructOpt;
use structopt::clap::ErrorKind;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use banner::Banner;
use options::{Options, Setups, reachable};

/// Exit code for wrong flags.
const WRONG_FLAGS: u8 = 2;

fn main() -> ExitCode {
    let options = match Options::from_iter_safe(std::env::args_os()) {
        Ok(options) => options,
        Err(error) if matches!(error.kind, ErrorKind::HelpDisplayed | ErrorKind::VersionDisplayed) => {
            println!("{}", error.message);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{}", error.message);
            return ExitCode::from(WRONG_FLAGS);
        }
    };
    // Quiet unless asked: the banner is what an operator should see.
    let filter = EnvFilter::try_from_env("FERROMQ_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let setups = options.setups()?;
    for warning in &setups.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(setups))
}

async fn serve(mut setups: Setups) -> Result<(), Box<dyn Error>> {
    // Before anything runs, so that a signal during recovery is not lost.
    let mut signals = Signals::new()?;
    let namesrv = namesrv::start(NamesrvStartConfig {
        namesrv: setups.namesrv.namesrv.clone(),
        netty: setups.namesrv.netty_server.clone(),
        others: listed(&setups.namesrv.properties),
        serialize: SerializeType::from_env()?,
        ..NamesrvStartConfig::default()
    })
    .await?;
    setups.link(namesrv.addr());
    let store = setups.broker.store.root_dir();
    let broker = match broker::start(setups.broker).await {
        Ok(broker) => broker,
        Err(error) => {
            namesrv.stop().await;
            return Err(error.into());
        }
    };

    let identity = &broker.parts().identity;
    let banner = Banner {
        namesrv: &reachable(namesrv.addr()),
        broker: &identity.addr,
        name: &identity.name,
        cluster: &identity.cluster,
        store: &absolute(&store),
    };
    print!("{banner}");
    signals.next().await;

    println!("Stopping; once more to stop without waiting for clients.");
    let hurry = CancellationToken::new();
    // The broker first: it tells the name server that it goes.
    let stop = async {
        broker.stop_or_hurry(hurry.clone()).await;
        if !hurry.is_cancelled() {
            namesrv.stop().await;
        }
    };
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = signals.next(), if !hurry.is_cancelled() => hurry.cancel(),
        }
    }
}

fn absolute(path: &Path) -> std::path::PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
