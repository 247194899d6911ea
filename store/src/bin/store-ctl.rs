//! Looks at store directories: what is in them, whether it fits together, how two differ. Changes nothing.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use store::ctl::{self, CtlError, DumpFilter, StoreDir, What};
use structopt::StructOpt;

/// Looks at the store directories of a broker, Java's included. Nothing in them is changed.
#[derive(Debug, StructOpt)]
#[structopt(name = "store-ctl")]
struct Options {
    /// The broker's configuration file: the sizes of the index are taken from it [default: broker.conf beside the store]
    #[structopt(long, global = true, parse(from_os_str))]
    conf: Option<PathBuf>,
    #[structopt(subcommand)]
    command: Command,
}

#[derive(Debug, StructOpt)]
enum Command {
    /// Prints what is in a store, one record, unit or entry a line
    Dump {
        /// The store's directory (the one with `commitlog` in it)
        #[structopt(parse(from_os_str))]
        dir: PathBuf,
        /// commitlog, consumequeue, index, checkpoint or config [default: all]
        #[structopt(long)]
        what: Option<What>,
        /// Records and units of this topic only
        #[structopt(long)]
        topic: Option<String>,
        /// Records and units of this queue only
        #[structopt(long)]
        queue: Option<i32>,
    },
    /// Checks that log, consume queues and index fit together; exit code 1 when they do not
    Check {
        /// The store's directory
        #[structopt(parse(from_os_str))]
        dir: PathBuf,
    },
    /// Compares two stores; exit code 1 when they differ
    Diff {
        /// The one
        #[structopt(parse(from_os_str))]
        a: PathBuf,
        /// The other
        #[structopt(parse(from_os_str))]
        b: PathBuf,
    },
}

fn main() -> ExitCode {
    let options = Options::from_args();
    let mut out = BufWriter::new(io::stdout().lock());
    match run(&options, &mut out).and_then(|same| Ok(out.flush().map(|()| same)?)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        // `store-ctl dump | head` is no failure.
        Err(CtlError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = out.flush();
            eprintln!("store-ctl: {error}");
            ExitCode::from(2)
        }
    }
}

/// False when something does not fit or differs.
fn run(options: &Options, out: &mut dyn Write) -> Result<bool, CtlError> {
    let open = |dir: &PathBuf| StoreDir::open(dir, options.conf.as_deref());
    match &options.command {
        Command::Dump { dir, what, topic, queue } => {
            let filter = DumpFilter { topic: topic.clone(), queue: *queue };
            ctl::dump(&open(dir)?, *what, &filter, out).map(|()| true)
        }
        Command::Check { dir } => ctl::check(&open(dir)?, out).map(|found| found.errors == 0),
        Command::Diff { a, b } => ctl::diff(&open(a)?, &open(b)?, out).map(|differences| differences == 0),
    }
}
