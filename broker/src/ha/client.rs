//! The slave's socket: connects to the master, appends what comes, reports.
//!
//! A connection that ends is made again, soon at first, then each five seconds as Java does; another address counts at
//! once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use store::replicate::Sink;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::flow::Flow;
use super::follower::{self, Close, Follower};
use super::{Ha, clock};
use crate::stats::now_millis;

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The first pause.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Bytes that one read takes.
const READ_SIZE: usize = 256 * 1024;
/// How often the settings are looked at again, at least.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Why a connection is over, or was not made.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Close(#[from] Close),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the master has closed the connection")]
    ByMaster,
    #[error("no answer")]
    TimedOut,
}

impl follower::Log for Sink {
    fn matches(&self, offset: u64, bytes: &[u8]) -> bool {
        Sink::matches(self, offset, bytes)
    }

    fn append(&mut self, offset: u64, records: &[u8]) -> Result<(), String> {
        Sink::append(self, offset, records).map_err(|error| error.to_string())
    }
}

/// Copies the master's log, whoever that is, until `stop`.
pub(super) async fn follow(ha: Arc<Ha>, stop: CancellationToken) {
    let mut address = ha.master.subscribe();
    let mut pause = FIRST_PAUSE;
    let mut last = String::new();
    loop {
        ha.in_line.store(false, Ordering::Release);
        let master = address.borrow_and_update().clone();
        let changed = async {
            // The sender lives as long as `ha`.
            let _ = address.changed().await;
        };
        let Some(master) = master else {
            tokio::select! {
                () = stop.cancelled() => return,
                () = changed => continue,
            }
        };
        let before = ha.parts.store.log_range().end;
        let work = async {
            let error = copy(&ha, &master).await;
            ha.in_line.store(false, Ordering::Release);
            if ha.parts.store.log_range().end > before {
                pause = FIRST_PAUSE;
                last.clear();
            }
            let text = error.to_string();
            if text == last {
                tracing::debug!(master, error = text, "still not connected to the master");
            } else if matches!(error, Ended::Close(_)) {
                tracing::error!(master, error = text, "the connection to the master is closed");
            } else {
                tracing::warn!(master, error = text, "no connection to the master");
            }
            last = text;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = changed => (),
            () = work => continue,
        }
        // What the connection that was let go of had appended last.
        ha.parts.store.dispatch();
        pause = FIRST_PAUSE;
    }
}

/// One connection, from its begin to its end.
async fn copy(ha: &Ha, master: &str) -> Ended {
    let connected = tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(master)).await;
    let stream = match connected {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return error.into(),
        Err(_) => return Ended::TimedOut,
    };
    let _ = stream.set_nodelay(true);
    let mut sink = ha.parts.store.sink();
    let follower = Follower::new(sink.range(), sink.tail(), sink.file_len(), clock::now());
    tracing::info!(master, from = follower.start(), end = sink.range().end, "connected to the master");
    ha.client.lock().last_read_timestamp = now_millis();
    let ended = run(ha, stream, follower, &mut sink).await;
    ha.client.lock().transferred_byte_in_second = 0;
    match ended {
        Ok(never) => match never {},
        Err(ended) => ended,
    }
}

async fn run(
    ha: &Ha,
    mut stream: TcpStream,
    mut follower: Follower,
    sink: &mut Sink,
) -> Result<std::convert::Infallible, Ended> {
    let mut buffer = vec![0; READ_SIZE];
    let mut flow = Flow::default();
    let mut warned = false;
    loop {
        let (heartbeat, housekeeping) = intervals(ha);
        let now = clock::now();
        if let Some(report) = follower.report(heartbeat, now) {
            // A master that reads nothing any more counts as one that says nothing.
            let written = tokio::time::timeout(Duration::from_millis(housekeeping), stream.write_all(&report)).await;
            written.map_err(|_| Close::Silent(housekeeping))??;
            ha.client.lock().last_write_timestamp = now_millis();
        }
        // After the report: nobody waits for the queues.
        sink.dispatch();
        follower.tick(housekeeping, now)?;
        let sleep = Duration::from_millis(follower.wakes_at(heartbeat, housekeeping).saturating_sub(now));
        tokio::select! {
            biased;
            ready = stream.readable() => ready?,
            () = tokio::time::sleep(sleep.min(LONGEST_SLEEP)) => {}
        }
        let len = match stream.try_read(&mut buffer) {
            Ok(0) => return Err(Ended::ByMaster),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        };
        let now = clock::now();
        flow.add(len as u64, now);
        {
            let mut client = ha.client.lock();
            client.last_read_timestamp = now_millis();
            client.transferred_byte_in_second = flow.per_second(now) as i64;
        }
        let received = follower.received(buffer.get(..len).unwrap_or_default(), sink, now);
        if received.is_err() {
            sink.dispatch();
        }
        received?;
        ha.in_line.store(follower.position() > 0, Ordering::Release);
        if follower.master_is_behind() && !warned {
            warned = true;
            tracing::warn!(
                end = sink.range().end,
                "the master's log is shorter than this slave's: it has lost messages that are here"
            );
        }
        if len == READ_SIZE {
            // Far behind: clients have their turn.
            tokio::task::yield_now().await;
        }
    }
}

/// `haSendHeartbeatInterval` and `haHousekeepingInterval` in milliseconds.
fn intervals(ha: &Ha) -> (u64, u64) {
    let config = ha.parts.store_config.load();
    let number = |value: i32| u64::try_from(value).unwrap_or(0);
    (number(config.ha_send_heartbeat_interval), number(config.ha_housekeeping_interval))
}
