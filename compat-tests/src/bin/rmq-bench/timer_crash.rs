//! Timed messages and a broker that is killed: while all of them wait, and once more while it delivers them. None may be lost, none
//! may come before its time, and from FerroMQ none twice.

use std::time::{Duration, Instant};

use compat_tests::harness::servers::{Broker, BrokerOptions, Namesrv, Whose};
use serde_json::{Value, json};
use structopt::StructOpt;
use tokio::runtime::Runtime;

use crate::load::connect;
use crate::servers::{BROKER_JVM, NAMESRV_JVM};
use crate::timer::{QUEUES, delivered, figure, fill, now, read, until_taken};

type Error = Box<dyn std::error::Error>;

/// How many messages, and when they are due.
#[derive(StructOpt)]
pub struct Options {
    /// Messages
    #[structopt(long, default_value = "1000000")]
    pending: u32,
    /// The first is due so many seconds after the start: enough to send all and to start the broker again
    #[structopt(long, default_value = "45")]
    ahead: u64,
    /// The last is due so many seconds after the first
    #[structopt(long, default_value = "60")]
    spread: u64,
    /// The Java broker instead of FerroMQ; it may deliver some twice
    #[structopt(long)]
    java: bool,
}

/// The last message may come so long after its time.
const LIMIT: Duration = Duration::from_secs(120);

/// When each message is due; they are numbered from 0.
#[derive(Clone, Copy)]
struct Plan {
    count: u64,
    first: u64,
    spread: u64,
}

impl Plan {
    fn due(self, number: u64) -> u64 {
        self.first + number * self.spread / self.count
    }
}

/// Runs it and prints one line of JSON.
///
/// # Errors
/// A message was lost, early or repeated; or no connection to the broker.
pub fn run(options: &Options) -> Result<(), Error> {
    let whose = if options.java { Whose::Java } else { Whose::Ours };
    let mut namesrv = Namesrv::start_on(whose, &NAMESRV_JVM, "JSON", &[]);
    let settings =
        BrokerOptions::new("bench").whose(whose).jvm(&BROKER_JVM).set("mappedFileSizeCommitLog", "268435456");
    let mut broker = Broker::start(&settings, &[&namesrv]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let share = options.pending / QUEUES;
    let plan =
        Plan { count: u64::from(share * QUEUES), first: now() + options.ahead * 1000, spread: options.spread * 1000 };
    send(&runtime, &broker.address(), share, plan)?;
    let start_waiting = kill(&mut broker, &namesrv);
    let waiting = runtime.block_on(waiting(&broker.address()))?;
    if now() >= plan.first {
        eprintln!("the first messages were due before the broker was there again: a longer --ahead says more");
    } else if waiting != i64::try_from(plan.count)? {
        return Err(format!("{waiting} of {} messages wait after the kill", plan.count).into());
    }
    runtime.block_on(until_delivered(&broker.address(), plan.count / 3, plan))?;
    let start_delivering = kill(&mut broker, &namesrv);
    let result = runtime.block_on(check(&broker.address(), plan))?;
    let figures = json!({
        "messages": plan.count, "waiting_after_the_first_kill": waiting, "lost": result.lost,
        "early": result.early, "repeated": result.repeated, "start_ms": start_waiting,
        "start_while_delivering_ms": start_delivering, "late_max_ms": result.late,
    });
    println!("{figures}");
    broker.stop();
    namesrv.stop();
    if result.lost > 0 || result.early > 0 || (whose == Whose::Ours && result.repeated > 0) {
        return Err("messages were lost, early or repeated".into());
    }
    Ok(())
}

fn send(runtime: &Runtime, broker: &str, share: u32, plan: Plan) -> Result<(), Error> {
    let work = async {
        let fills = (0..QUEUES).map(|queue| {
            let of = move |number: u32| {
                let number = u64::from(number * QUEUES + queue);
                (plan.due(number), number)
            };
            tokio::task::spawn_local(fill(broker.to_owned(), queue, share, of))
        });
        for fill in fills.collect::<Vec<_>>() {
            fill.await??;
        }
        until_taken(&mut connect(broker).await?).await?;
        Result::<(), Error>::Ok(())
    };
    tokio::task::LocalSet::new().block_on(runtime, work)
}

/// Kills the broker and starts it again: milliseconds to its first answer.
fn kill(broker: &mut Broker, namesrv: &Namesrv) -> Value {
    broker.kill();
    broker.start_again(&[namesrv]);
    json!((broker.start_time().as_secs_f64() * 1e3).round())
}

/// Messages that the broker knows to be waiting when it has taken all.
async fn waiting(broker: &str) -> Result<i64, Error> {
    let mut socket = connect(broker).await?;
    until_taken(&mut socket).await?;
    Ok(figure(&mut socket, "timerCongestNum").await?.unwrap_or_default())
}

async fn until_delivered(broker: &str, count: u64, plan: Plan) -> Result<(), Error> {
    let mut socket = connect(broker).await?;
    let left = (plan.first + plan.spread).saturating_sub(now());
    let end = Instant::now() + Duration::from_millis(left) + LIMIT;
    while delivered(&mut socket).await? < count {
        if Instant::now() > end {
            return Err(format!("{} of {count} messages were delivered", delivered(&mut socket).await?).into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

struct Checked {
    lost: usize,
    early: u64,
    repeated: u64,
    /// The worst, in milliseconds.
    late: u64,
}

/// Waits until nothing waits any more and looks for every message.
async fn check(broker: &str, plan: Plan) -> Result<Checked, Error> {
    // A lost one would never come: what counts then is what is there.
    if let Err(error) = until_delivered(broker, plan.count, plan).await {
        eprintln!("{error}");
    }
    let mut socket = connect(broker).await?;
    let end = Instant::now() + LIMIT;
    while figure(&mut socket, "timerCongestNum").await? != Some(0) && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut seen = vec![false; usize::try_from(plan.count)?];
    let (mut early, mut repeated, mut late, mut strange) = (0, 0, 0, 0);
    read(&mut socket, |stored, number| {
        let Some(seen) = seen.get_mut(number as usize) else {
            strange += 1;
            return;
        };
        repeated += u64::from(std::mem::replace(seen, true));
        early += u64::from(stored < plan.due(number));
        late = late.max(stored.saturating_sub(plan.due(number)));
    })
    .await?;
    if strange > 0 {
        return Err(format!("{strange} messages that nobody sent").into());
    }
    Ok(Checked { lost: seen.iter().filter(|seen| !**seen).count(), early, repeated, late })
}
