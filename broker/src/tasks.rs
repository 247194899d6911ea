//! What a broker does by the clock.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics;
use crate::stats::{Stats, now_millis};
use crate::topics::TopicTable;
use crate::wiring::Parts;

/// How often silent clients are looked for.
const SCAN_PERIOD: Duration = Duration::from_secs(10);
/// How often changes of groups are told that were put off (`realTimeNotifyConsumerChange=false`).
const TELL_PERIOD: Duration = Duration::from_secs(15);
/// How often metrics are read from the counters.
const METRICS_PERIOD: Duration = Duration::from_secs(5);
/// Groups that were made by use are saved so often.
const GROUPS_PERIOD: Duration = Duration::from_secs(1);
/// The first save of consumer offsets after the start.
const FIRST_SAVE: Duration = Duration::from_secs(10);

/// Starts all periodic work; it ends when `stop` is cancelled.
pub fn spawn(parts: &Arc<Parts>, workers: &TaskTracker, stop: &CancellationToken) {
    let (link, token) = (parts.link.clone(), stop.clone());
    workers.spawn(async move { link.run(token).await });
    let (puller, token) = (parts.puller.clone(), stop.clone());
    workers.spawn(async move { puller.expire(token).await });

    let clients = parts.clients.clone();
    let scan = every(SCAN_PERIOD, SCAN_PERIOD, stop.clone(), move || clients.scan(now_millis()));
    workers.spawn(scan);
    let consumers = parts.clients.consumers.clone();
    workers.spawn(every(TELL_PERIOD, TELL_PERIOD, stop.clone(), move || consumers.tell_waiting()));

    let offsets = parts.offsets.clone();
    let millis = u64::try_from(parts.config.load().flush_consumer_offset_interval).unwrap_or(0).max(1);
    workers.spawn(every(FIRST_SAVE, Duration::from_millis(millis), stop.clone(), move || {
        crate::config_file::off_worker(|| {
            if let Err(error) = offsets.persist() {
                tracing::error!(%error, "cannot save the consumers' offsets");
            }
        });
    }));
    let groups = parts.groups.clone();
    workers.spawn(every(GROUPS_PERIOD, GROUPS_PERIOD, stop.clone(), move || groups.persist()));
    if metrics::is_on(parts) {
        let exported = parts.clone();
        workers.spawn(every(METRICS_PERIOD, METRICS_PERIOD, stop.clone(), move || metrics::publish(&exported)));
    }
    let mut clock = StatsClock { stats: parts.stats.clone(), topics: parts.topics.clone(), second: 0, day: today() };
    workers.spawn(every(Duration::from_secs(1), Duration::from_secs(1), stop.clone(), move || clock.tick()));
}

/// Runs `work` after `first` and then each `period`, until `stop`.
async fn every(first: Duration, period: Duration, stop: CancellationToken, mut work: impl FnMut()) {
    let mut timer = interval_at(Instant::now() + first, period);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = timer.tick() => work(),
        }
    }
}

/// Moves the statistics on.
struct StatsClock {
    stats: Arc<Stats>,
    topics: Arc<TopicTable>,
    second: u64,
    day: u64,
}

impl StatsClock {
    fn tick(&mut self) {
        self.second += 1;
        let topics = || self.topics.snapshot().iter().map(|topic| topic.stats.clone()).collect();
        self.stats.tick(self.second, topics);
        let day = today();
        if day != self.day {
            self.day = day;
            self.stats.midnight();
        }
    }
}

/// Days since the epoch, UTC. Java turns the day at local midnight; a service's clock is mostly UTC.
fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs() / 86_400)
}
