//! The timer as the rest of the broker sees it: opened and stopped with the broker, woken by arrivals, asked for numbers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use config::{Live, MessageStoreConfig};
use parking_lot::{Condvar, Mutex};
use remoting::body::topic::DataVersion;
use store::record::RecordView;
use store::timer::{CHECKPOINT_LEN, Found, Held, Marks, TimerFiles, TimerOptions, roll_window};
use store::{Queue, Store, StoreError};

use super::counts::Counts;
use super::saver::{Followed, Progress, Saver};
use super::worker::Worker;
use crate::identity::Identity;
use crate::names;
use crate::slave::Escape;
use crate::stats::{Stats, now_millis};
use crate::topics::TopicTable;

/// Spans over which messages are counted by when they are due, in seconds: each up to, and from the one before.
pub(crate) const SPANS: [i64; 8] = [5, 60, 300, 900, 3600, 14_400, 28_800, 86_400];

/// A master whose timer is further ahead of our clock (ms) is not believed.
const FAR_AHEAD: i64 = 3_600_000;

/// What a [`Timer`] works with.
pub struct TimerParts {
    /// Store keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// The store.
    pub store: Arc<Store>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Names in exported metrics; `None`: nothing is exported.
    pub exported: Option<Arc<Identity>>,
    /// Where messages go on a slave that stands in for its master.
    pub escape: Option<Arc<Escape>>,
}

/// The delivery of messages for an arbitrary time.
pub struct Timer {
    pub(super) parts: TimerParts,
    pub(super) files: TimerFiles,
    pub(super) queue: Arc<Queue>,
    pub(super) counts: Counts,
    /// Slots that the wheel looks ahead.
    pub(super) window: i32,
    pub(super) progress: Mutex<Progress>,
    lead: Mutex<Lead>,
    pub(super) taken: AtomicU64,
    pub(super) delivered: AtomicU64,
    rates: Mutex<Rates>,
    pub(super) found: Mutex<Option<Found>>,
    pub(super) sleep: Mutex<Sleep>,
    pub(super) wake: Condvar,
    pub(super) saver: Saver,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Who delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// This broker.
    Ours,
    /// This broker from now on; until now another one, which had come so far.
    TakenUp(Followed),
    /// Another broker, which has come so far.
    Others(Followed),
}

/// Why the worker would wake up.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    pub(super) stop: bool,
    /// Messages have arrived since it last looked.
    pub(super) arrived: bool,
    /// It sleeps until something arrives or is due.
    pub(super) waits: bool,
}

/// The timer's topic as the files are checked against.
struct Messages<'s>(&'s Store);

impl Held for Messages<'_> {
    fn end(&self) -> u64 {
        self.0.log_range().end
    }

    fn queue_offset(&self, phys: u64) -> Option<i64> {
        let record = self.0.record_at(phys)?;
        let view = RecordView::parse(&record).ok()?;
        (view.topic() == names::TIMER_TOPIC).then(|| view.queue_offset())
    }
}

impl Timer {
    /// Opens the timer's files; `dir` is `config/` of the store.
    ///
    /// # Errors
    /// Files that do not fit the configuration, or the disk.
    pub fn load(dir: &Path, parts: TimerParts) -> Result<Timer, StoreError> {
        let config = parts.store_config.load_full();
        let root = config.root_dir();
        let (files, mut found) = TimerFiles::open(&TimerOptions {
            root: &root,
            log_file_len: usize::try_from(config.mapped_file_size_timer_log).unwrap_or(0),
            precision: i64::from(config.timer_precision_ms),
            snapshots: config.timer_wheel_snapshot_flush,
            held: &Messages(&parts.store),
        })?;
        let counts = Counts::load(dir)?;
        let queue = parts.store.queue_or_create(names::TIMER_TOPIC, 0);
        if found.marks.read_time == 0 {
            found.marks.read_time = files.wheel.floor(now_millis());
        }
        found.resume = found.resume.max(queue.min_offset()).min(queue.max_offset());
        found.handled = found.handled.min(queue.max_offset());
        let timer = Timer {
            window: roll_window(config.timer_roll_window_slot),
            progress: Mutex::new(Progress::of(&found, &parts.store)),
            lead: Mutex::new(Lead::Ours),
            taken: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            rates: Mutex::default(),
            sleep: Mutex::default(),
            wake: Condvar::new(),
            saver: Saver::new(found.marks),
            threads: Mutex::default(),
            files,
            queue,
            counts,
            parts,
            found: Mutex::new(None),
        };
        if !found.stopped {
            timer.count_anew(&found);
        }
        *timer.found.lock() = Some(found);
        Ok(timer)
    }

    /// Corrects the counters by what is in the wheel: those on disk may be a second old.
    fn count_anew(&self, found: &Found) {
        let counted = self.files.count_by_topic(found.marks.read_time, found.delivered);
        let topics = self.parts.topics.snapshot();
        let known = self.counts.snapshot();
        let names = topics.iter().map(|topic| topic.topic_name.as_str()).chain(known.keys().map(String::as_str));
        let mut left = counted;
        let by_topic = names.filter_map(|topic| Some((topic.to_owned(), left.remove(&topic_hash(topic))?))).collect();
        self.counts.correct(&by_topic);
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no thread, or the checkpoint cannot be written.
    pub fn start(self: &Arc<Timer>) -> Result<(), StoreError> {
        let Some(found) = self.found.lock().take() else { return Ok(()) };
        // From here on the last stop was not in order.
        self.saver.write(self, false)?;
        // The store tells of arrivals only while somebody waits: we always do.
        self.queue.waiters().fetch_add(1, Ordering::SeqCst);
        let (worker, saver) = (Arc::clone(self), Arc::clone(self));
        self.spawn("timer", move || Worker::new(&worker, found).run())?;
        self.spawn("timer-flush", move || saver.saver.run(&saver))
    }

    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(body);
        let path = self.parts.store_config.load().root_dir();
        self.threads.lock().push(thread.map_err(|source| StoreError::Io { path, source })?);
        Ok(())
    }

    /// Stops the threads and saves how far they have come. The store must still be open.
    pub fn stop(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        if threads.is_empty() {
            return;
        }
        self.sleep.lock().stop = true;
        self.wake.notify_all();
        for thread in threads {
            // The worker first: what it did last is then saved.
            if thread.join().is_err() {
                tracing::error!("a thread of the timer has panicked");
            }
            self.saver.stop();
        }
        self.queue.waiters().fetch_sub(1, Ordering::SeqCst);
        self.saver.finish(self);
    }

    /// Whether this broker delivers, as it does from the start, or keeps up with the one that does: then it takes the
    /// messages that the other has taken, and lets go of those that the other has delivered.
    pub fn set_delivering(&self, on: bool) {
        {
            let marks = self.marks();
            let mut lead = self.lead.lock();
            *lead = match (*lead, on) {
                // The worker knows what the files say.
                (Lead::Others(_), true) if self.found.lock().is_some() => Lead::Ours,
                (Lead::Others(last), true) => Lead::TakenUp(last),
                (Lead::Ours | Lead::TakenUp(_), true) => return,
                (Lead::Others(_), false) => return,
                (Lead::Ours | Lead::TakenUp(_), false) => {
                    let progress = *self.progress.lock();
                    let of_files = self.found.lock().as_ref().map(|found| found.marks);
                    Lead::Others(Followed {
                        read_time: progress.read_time,
                        queue_offset: of_files.map_or(progress.queue_offset, |marks| marks.master_queue_offset),
                        version: of_files.unwrap_or(marks).version,
                        phys: progress.phys,
                    })
                }
            };
        }
        self.wake_up();
    }

    /// Whether this broker delivers.
    pub fn delivers(&self) -> bool {
        !matches!(*self.lead.lock(), Lead::Others(_))
    }

    /// How far the other broker has come, as its checkpoint says. `log_end`: the end of our log before that was asked for, when
    /// what the other delivers comes into our log. False: nothing was done, since this broker delivers or the checkpoint is none
    /// of a running timer.
    pub fn follow(&self, marks: &Marks, log_end: Option<u64>) -> bool {
        if marks.read_time <= 0 || marks.queue_offset < 0 || marks.read_time > now_millis().saturating_add(FAR_AHEAD) {
            return false;
        }
        let mut lead = self.lead.lock();
        let Lead::Others(last) = *lead else { return false };
        *lead = Lead::Others(Followed {
            read_time: marks.read_time,
            queue_offset: marks.master_queue_offset.max(0),
            version: marks.version,
            phys: log_end.unwrap_or(last.phys),
        });
        drop(lead);
        self.wake_up();
        true
    }

    /// The version of what [`Timer::checkpoint`] says.
    pub fn version(&self) -> DataVersion {
        let [state_version, timestamp, counter] = self.marks().version;
        DataVersion { counter, state_version, timestamp }
    }

    /// Who delivers. That this broker has taken it up is said once.
    pub(super) fn lead(&self) -> Lead {
        let mut lead = self.lead.lock();
        let said = *lead;
        if let Lead::TakenUp(_) = said {
            *lead = Lead::Ours;
        }
        said
    }

    fn wake_up(&self) {
        let mut sleep = self.sleep.lock();
        sleep.arrived = true;
        sleep.waits = false;
        self.wake.notify_all();
    }

    /// The timer's topic has new messages. Called by the store on its dispatching thread.
    pub fn arrived(&self) {
        let mut sleep = self.sleep.lock();
        sleep.arrived = true;
        if sleep.waits {
            sleep.waits = false;
            self.wake.notify_all();
        }
    }

    /// The tick at whose end a message is delivered that is for a time (ms since the epoch): the last one that begins before
    /// it.
    pub fn tick_before(&self, time: i64) -> i64 {
        self.files.wheel.floor(time - 1)
    }

    /// Whether one more message is too much for the slot of a time: `timerCongestNumEachSlot` is passed, by chance up to
    /// twice as many, as Java decides.
    pub fn refuses(&self, due: i64, most: i32, random: impl FnOnce() -> i64) -> bool {
        let number = i64::from(self.files.wheel.number(due));
        let most = i64::from(most);
        if number <= most {
            return false;
        }
        number >= 2 * most || random() as f64 > (1000 * (number - most)) as f64 / (most as f64 + 0.1)
    }

    /// Records how far ahead of its time a message was sent.
    pub(super) fn record_ahead(&self, topic: &str, millis: i64) {
        let Some(who) = &self.parts.exported else { return };
        let labels = [
            ("cluster", who.cluster.clone()),
            ("node_type", "broker".to_owned()),
            ("node_id", who.name.clone()),
            ("topic", topic.to_owned()),
        ];
        metrics::histogram!("rocketmq_delay_message_latency", &labels).record((millis / 1000) as f64);
    }

    /// What waits, by topic.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Messages that wait in slots that are not delivered.
    pub fn waiting(&self) -> i64 {
        self.files.wheel.total()
    }

    /// Messages that are in the topic and not taken yet.
    pub fn untaken(&self) -> i64 {
        (self.queue.max_offset() - self.progress.lock().queue_offset).max(0)
    }

    /// How long the oldest message has waited that is not taken yet, in milliseconds.
    pub fn untaken_millis(&self) -> i64 {
        let offset = self.progress.lock().queue_offset;
        if offset >= self.queue.max_offset() {
            return 0;
        }
        let stored = self.parts.store.store_time(&self.queue, offset);
        if stored > 0 { (now_millis() - stored).max(0) } else { 0 }
    }

    /// How far delivery is behind, in milliseconds: up to a tick when nothing waits.
    pub fn behind_millis(&self) -> i64 {
        (now_millis() - self.marks().read_time).max(0)
    }

    /// Messages taken and delivered a second, over the last ten seconds or so.
    pub fn rates(&self) -> (f64, f64) {
        self.rates.lock().read(self.taken.load(Ordering::Relaxed), self.delivered.load(Ordering::Relaxed))
    }

    /// Messages that wait by the time until they are due: the end of each span in seconds, and how many.
    pub fn spans(&self) -> Vec<(i64, i64)> {
        let (wheel, now) = (&self.files.wheel, now_millis());
        let mut from = wheel.floor(now);
        SPANS
            .iter()
            .map(|seconds| {
                let to = wheel.floor(now) + seconds * 1000;
                let times = (from..to).step_by(usize::try_from(wheel.precision()).unwrap_or(1).max(1));
                let sum = times.map(|time| i64::from(wheel.number(time))).sum();
                from = to;
                (*seconds, sum)
            })
            .collect()
    }

    /// How far the timer has come: the answer to GET_TIMER_CHECK_POINT.
    pub fn checkpoint(&self) -> [u8; CHECKPOINT_LEN] {
        self.marks().encode()
    }

    /// Something was done that is to be saved.
    pub(super) fn note(&self) {
        self.saver.note();
    }

    fn marks(&self) -> Marks {
        self.saver.marks(&self.progress.lock().now(self))
    }
}

/// Java's hash of a topic's name.
pub(super) fn topic_hash(topic: &str) -> i32 {
    store::index::KeyHash::new().push(topic.as_bytes()).value()
}

/// Samples of two sums, from which rates are read.
#[derive(Debug, Default)]
struct Rates {
    before: Option<(Instant, u64, u64)>,
    last: Option<(Instant, u64, u64)>,
}

impl Rates {
    const PERIOD: Duration = Duration::from_secs(10);

    fn read(&mut self, taken: u64, delivered: u64) -> (f64, f64) {
        let now = Instant::now();
        if self.last.is_none_or(|(at, ..)| now - at > Self::PERIOD) {
            self.before = self.last.replace((now, taken, delivered));
        }
        let Some((at, taken_then, delivered_then)) = self.before.or(self.last) else { return (0.0, 0.0) };
        let seconds = (now - at).as_secs_f64();
        if seconds < 0.1 {
            return (0.0, 0.0);
        }
        ((taken - taken_then) as f64 / seconds, (delivered - delivered_then) as f64 / seconds)
    }
}
