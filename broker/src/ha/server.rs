//! The master's sockets: accepts slaves and feeds each its log.
//!
//! Bytes go from the mapped files of the log to the socket; nothing is copied in between. Whoever appends also sends: the
//! store calls [`Slaves::push`] on the appending thread, once a read batch, and what fits into a slave's socket leaves
//! there and then. So a slave that keeps up costs no wake-up of another thread, and a frame has all messages of the batch.
//! The connection's task reads the reports, and sends what the socket did not take at once, and signs of life.
//!
//! A slave that is far behind is served by its task alone, a little at a time, and with pauses while messages come in. The pages are read in on the blocking pool
//! first: a worker of the runtime, which serves clients, never waits for the disk here.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::time::Duration;

use arc_swap::ArcSwap;
use config::{Live, MessageStoreConfig};
use parking_lot::Mutex;
use store::replicate::Source;
use store::segment::SegmentSlice;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::acks::{Acks, Slave};
use super::clock;
use super::feeder::{Close, Feeder, Frame, LogState, Settings};

/// Frames in one write.
const FRAMES: usize = 16;
/// What lies less than this before the end of the log was just written and is in memory.
const HOT: u64 = 8 << 20;
/// Older pages are read in so many bytes at a time.
const READ_IN: u64 = 4 << 20;
/// A slave gets at most so many bytes from its task before others have their turn.
const TURN: u64 = 2 << 20;
/// And so many from a thread that appends.
const PUSHED: u64 = 256 << 10;
/// A slave that is far behind gets its turns so far apart while messages come in: those who send them should not notice.
const PACE: Duration = Duration::from_millis(4);
/// How often the settings are looked at again, at least.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The slaves of a master.
pub struct Slaves {
    source: Source,
    config: Arc<Live<MessageStoreConfig>>,
    acks: Arc<Acks>,
    connections: ArcSwap<Vec<Arc<Connection>>>,
    /// How many there are.
    connected: Arc<AtomicUsize>,
}

/// One slave's connection.
struct Connection {
    slave: Arc<Slave>,
    stream: TcpStream,
    pump: Mutex<Pump>,
    /// The log may have grown since the holder of the pump last looked.
    asked: AtomicBool,
    /// Wakes the task for what only it does.
    task: Notify,
}

/// What goes out.
struct Pump {
    feeder: Feeder,
    /// Frames that are not wholly written.
    frames: VecDeque<(Frame, Option<SegmentSlice>)>,
    /// Bytes of the first of them that are.
    written: usize,
    /// The socket takes nothing at the moment.
    blocked: bool,
    /// Pages below this offset were read in.
    read_in: u64,
    failed: Option<io::Error>,
}

/// How a turn of the pump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// There is nothing to send now.
    Done,
    /// The socket is full.
    Blocked,
    /// There is more; others first.
    More,
    /// The pages at this offset have to be read in first.
    Cold(u64),
}

impl Slaves {
    /// The slaves of a master with that log.
    pub fn new(source: Source, config: Arc<Live<MessageStoreConfig>>, acks: Arc<Acks>) -> Slaves {
        Slaves { source, config, acks, connections: ArcSwap::default(), connected: Arc::default() }
    }

    /// How many slaves are connected.
    pub fn connected(&self) -> Arc<AtomicUsize> {
        self.connected.clone()
    }

    /// Accepts slaves until `stop`, and ends their connections then.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) {
        let tasks = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, addr)) => {
                    let (slaves, stop) = (self.clone(), stop.clone());
                    tasks.spawn(async move { slaves.feed(stream, addr, stop).await });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a slave");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        tasks.close();
        tasks.wait().await;
    }

    /// Sends what was appended, as far as the sockets take it. Any thread.
    pub fn push(&self) {
        self.connections.load().iter().for_each(|connection| connection.push(self));
    }

    async fn feed(&self, stream: TcpStream, addr: SocketAddr, stop: CancellationToken) {
        let _ = stream.set_nodelay(true);
        let connection = Arc::new(Connection {
            slave: Arc::new(Slave::new(addr)),
            stream,
            pump: Mutex::new(Pump {
                feeder: Feeder::new(clock::now()),
                frames: VecDeque::with_capacity(FRAMES),
                written: 0,
                blocked: false,
                read_in: 0,
                failed: None,
            }),
            asked: AtomicBool::new(false),
            task: Notify::new(),
        });
        tracing::info!(slave = %addr, "a slave has connected");
        self.acks.joined(connection.slave.clone());
        self.change(|list| list.push(connection.clone()));
        self.connected.fetch_add(1, Ordering::SeqCst);
        let result = tokio::select! {
            () = stop.cancelled() => Ok(()),
            result = connection.run(self) => result,
        };
        self.connected.fetch_sub(1, Ordering::SeqCst);
        self.change(|list| list.retain(|other| !Arc::ptr_eq(other, &connection)));
        self.acks.left(&connection.slave);
        match result {
            Ok(()) => tracing::info!(slave = %addr, "the slave's connection is closed"),
            Err(error) => tracing::warn!(slave = %addr, %error, "the slave's connection is closed"),
        }
    }

    fn change(&self, change: impl Fn(&mut Vec<Arc<Connection>>)) {
        self.connections.rcu(|list| {
            let mut list = Vec::clone(list);
            change(&mut list);
            list
        });
    }

    fn settings(&self) -> Settings {
        let config = self.config.load();
        let number = |value: i32| u64::try_from(value).unwrap_or(0);
        Settings {
            heartbeat: number(config.ha_send_heartbeat_interval),
            housekeeping: number(config.ha_housekeeping_interval),
            batch: u32::try_from(config.ha_transfer_batch_size).unwrap_or(0).clamp(1, super::wire::MAX_BODY),
            per_second: config
                .ha_flow_control_enable
                .then(|| u64::try_from(config.max_ha_transfer_byte_in_second).unwrap_or(0)),
        }
    }

    fn log(&self) -> LogState {
        let end = self.source.range().end;
        LogState { newest_file: self.source.newest_file(end), end }
    }
}

impl Connection {
    /// On the thread that appended.
    fn push(&self, slaves: &Slaves) {
        self.asked.store(true, Ordering::SeqCst);
        loop {
            // The note before the look at the lock here, the unlocking before the look at the note there.
            fence(Ordering::SeqCst);
            let Some(mut pump) = self.pump.try_lock() else { return };
            self.asked.store(false, Ordering::SeqCst);
            if pump.blocked {
                return;
            }
            if pump.is_far(slaves) {
                drop(pump);
                return self.task.notify_one();
            }
            let turn = pump.turn(&self.stream, slaves, PUSHED);
            self.note(&pump);
            drop(pump);
            if turn != Turn::Done {
                self.task.notify_one();
                return;
            }
            // Asked between the last look and the unlocking: nobody else would do it.
            fence(Ordering::SeqCst);
            if !self.asked.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// The connection's task; returns when the connection is over.
    async fn run(&self, slaves: &Slaves) -> Result<(), Ended> {
        let mut buffer = [0; 4096];
        let mut end = slaves.source.range().end;
        loop {
            let before = std::mem::replace(&mut end, slaves.source.range().end);
            let (turn, wakes_at) = self.turn(slaves)?;
            if turn != Turn::Done && end > before && self.pump.lock().is_far(slaves) {
                tokio::time::sleep(PACE).await;
            }
            if let Turn::Cold(offset) = turn {
                let source = slaves.source.clone();
                // Should it panic, the next turn meets the pages where they are.
                let _ = tokio::task::spawn_blocking(move || source.read_in(offset..offset + READ_IN)).await;
                self.pump.lock().read_in = offset + READ_IN;
                continue;
            }
            let sleep = Duration::from_millis(wakes_at.saturating_sub(clock::now())).min(LONGEST_SLEEP);
            tokio::select! {
                biased;
                ready = self.stream.readable() => {
                    ready?;
                    if !self.read(slaves, &mut buffer)? {
                        return Ok(());
                    }
                }
                ready = self.stream.writable(), if turn == Turn::Blocked => ready?,
                () = tokio::task::yield_now(), if turn == Turn::More => {}
                () = self.task.notified() => {}
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    /// Looks at the clock and sends, on the connection's task. Also says when to look again (ms). Whoever wanted to send
    /// meanwhile has left it to us, since the caller or this method held the pump.
    fn turn(&self, slaves: &Slaves) -> Result<(Turn, u64), Ended> {
        loop {
            let mut pump = self.pump.lock();
            self.asked.store(false, Ordering::SeqCst);
            if let Some(error) = pump.failed.take() {
                return Err(error.into());
            }
            pump.blocked = false;
            let (idle, settings) = (pump.frames.is_empty(), slaves.settings());
            if let Some(beat) = pump.feeder.tick(idle, &settings, clock::now())? {
                pump.frames.push_back((beat, None));
            }
            let turn = pump.turn(&self.stream, slaves, TURN);
            let wakes_at = pump.feeder.wakes_at(&settings);
            self.note(&pump);
            drop(pump);
            fence(Ordering::SeqCst);
            if turn != Turn::Done || !self.asked.load(Ordering::SeqCst) {
                return Ok((turn, wakes_at));
            }
        }
    }

    /// Takes reports. False: the slave has closed the connection.
    fn read(&self, slaves: &Slaves, buffer: &mut [u8]) -> Result<bool, Ended> {
        loop {
            let bytes = match self.stream.try_read(buffer) {
                Ok(0) => return Ok(false),
                Ok(len) => &buffer[..len],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error.into()),
            };
            let mut pump = self.pump.lock();
            let asked = pump.feeder.next();
            let reported = pump.feeder.received(bytes, slaves.log(), clock::now())?;
            let (acked, confirmed, next) = (pump.feeder.acked(), pump.feeder.confirmed(), pump.feeder.next());
            drop(pump);
            if asked.is_none()
                && let Some(from) = next
            {
                let range = slaves.source.range();
                tracing::info!(slave = %self.slave.addr, reported = acked, from, "the slave is sent the log");
                if from < range.start {
                    tracing::error!(
                        slave = %self.slave.addr, from, start = range.start,
                        "the slave asks for what is deleted here: it gets nothing until its store is set up anew"
                    );
                }
            }
            if reported {
                slaves.acks.reported(&self.slave, acked, confirmed);
            }
        }
    }

    fn note(&self, pump: &Pump) {
        let next = pump.feeder.next().and_then(|next| i64::try_from(next).ok());
        self.slave.next.store(next.unwrap_or(-1), Ordering::Relaxed);
        self.slave.per_second.store(pump.feeder.per_second(clock::now()), Ordering::Relaxed);
    }
}

impl Pump {
    /// Whether the slave is so far behind that only its task serves it. One that asks for what is deleted is not served.
    fn is_far(&self, slaves: &Slaves) -> bool {
        let range = slaves.source.range();
        self.feeder.next().is_some_and(|next| next >= range.start && range.end.saturating_sub(next) > HOT)
    }

    /// Sends until there is nothing to send, the socket is full, or `most` bytes are gone.
    fn turn(&mut self, stream: &TcpStream, slaves: &Slaves, most: u64) -> Turn {
        let settings = slaves.settings();
        let mut sent = 0;
        loop {
            let filled = self.fill(slaves, &settings);
            if self.frames.is_empty() {
                return filled;
            }
            match self.write(stream) {
                Ok(len) => sent += len as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Turn::Blocked;
                }
                Err(error) => {
                    self.failed = Some(error);
                    self.frames.clear();
                    self.blocked = true;
                    return Turn::More;
                }
            }
            if sent >= most {
                return Turn::More;
            }
        }
    }

    /// Puts as many frames in line as a write takes.
    fn fill(&mut self, slaves: &Slaves, settings: &Settings) -> Turn {
        let now = clock::now();
        while self.frames.len() < FRAMES {
            let Some(next) = self.feeder.next() else { return Turn::Done };
            let Some(mut slice) = slaves.source.slice(next) else { return Turn::Done };
            if self.is_far(slaves) && next >= self.read_in {
                return Turn::Cold(next);
            }
            while self.frames.len() < FRAMES {
                let Some(frame) = self.feeder.frame(slice.len() as u64, settings, now) else { break };
                let len = frame.len as usize;
                let (Some(body), Some(rest)) = (slice.narrow(0..len), slice.narrow(len..slice.len())) else { break };
                self.frames.push_back((frame, Some(body)));
                slice = rest;
            }
            if !slice.is_empty() {
                return Turn::Done;
            }
        }
        Turn::Done
    }

    fn write(&mut self, stream: &TcpStream) -> io::Result<usize> {
        let mut slices: [_; 2 * FRAMES] = std::array::from_fn(|_| IoSlice::new(&[]));
        let mut count = 0;
        let mut skip = self.written;
        for (frame, body) in &self.frames {
            for part in [&frame.header[..], body.as_deref().unwrap_or_default()] {
                let now = part.get(skip..).unwrap_or_default();
                skip = skip.saturating_sub(part.len());
                if !now.is_empty() && count < slices.len() {
                    slices[count] = IoSlice::new(now);
                    count += 1;
                }
            }
        }
        let len = stream.try_write_vectored(&slices[..count])?;
        if len == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.written += len;
        while let Some((frame, _)) = self.frames.front() {
            let whole = frame.header.len() + frame.len as usize;
            if self.written < whole {
                break;
            }
            self.written -= whole;
            self.frames.pop_front();
        }
        Ok(len)
    }
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Close(#[from] Close),
    #[error(transparent)]
    Io(#[from] io::Error),
}
