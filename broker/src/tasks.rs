//! What a broker does by the clock.

use std::sync::Arc;
use std::time::Duration;

use chrono::{Local, NaiveDate};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cold;
use crate::metrics;
use crate::slave::Tally;
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
/// What a slave has copied is counted so often.
const TALLY_PERIOD: Duration = Duration::from_secs(1);
/// A pause is looked at so often whether it was set anew.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The timer's counters of topics that are gone are dropped so often.
const TIMER_COUNTS_PERIOD: Duration = Duration::from_secs(180);
/// Changes of consumers' expressions are saved so often.
const FILTERS_PERIOD: Duration = Duration::from_secs(10);
/// The first save of consumer offsets after the start.
const FIRST_SAVE: Duration = Duration::from_secs(10);

/// Starts all periodic work; it ends when `stop` is cancelled.
pub fn spawn(parts: &Arc<Parts>, workers: &TaskTracker, stop: &CancellationToken) {
    let (link, token) = (parts.link.clone(), stop.clone());
    workers.spawn(async move { link.run(token).await });
    let (puller, token) = (parts.puller.clone(), stop.clone());
    workers.spawn(async move { puller.expire(token).await });

    let (succession, token) = (parts.succession.clone(), stop.clone());
    workers.spawn(async move { succession.run(token).await });
    if let Some(slave) = parts.slave.clone() {
        let (ha, token) = (parts.ha.clone(), stop.clone());
        workers.spawn(async move { ha.follow(token).await });
        let token = stop.clone();
        workers.spawn(async move { slave.run(token).await });
        let mut tally = Tally::new(parts.store.clone(), parts.stats.clone());
        let count = move || crate::config_file::off_worker(|| tally.count());
        workers.spawn(every(TALLY_PERIOD, TALLY_PERIOD, stop.clone(), count));
    }

    let (cleaner, token) = (parts.static_cleaner.clone(), stop.clone());
    workers.spawn(async move { cleaner.run(token).await });

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
    let filters = parts.filters.clone();
    workers.spawn(every(FILTERS_PERIOD, FILTERS_PERIOD, stop.clone(), move || {
        crate::config_file::off_worker(|| {
            if let Err(error) = filters.persist() {
                tracing::error!(%error, "cannot save the consumers' expressions");
            }
        });
    }));
    let cold = parts.cold.clone();
    workers.spawn(every(cold::PERIOD, cold::PERIOD, stop.clone(), move || cold.end_period(now_millis())));
    let groups = parts.groups.clone();
    workers.spawn(every(GROUPS_PERIOD, GROUPS_PERIOD, stop.clone(), move || groups.persist()));
    if let Some(timer) = parts.timer.clone() {
        let topics = parts.topics.clone();
        let forget = move || timer.counts().retain(|topic| topics.contains(topic));
        workers.spawn(every(TIMER_COUNTS_PERIOD, TIMER_COUNTS_PERIOD, stop.clone(), forget));
    }
    let config = parts.config.clone();
    let (ops, store) = (parts.ops.clone(), parts.store.clone());
    let interval = move || pause_of(i64::from(config.load().transaction_op_batch_interval));
    workers.spawn(every_as_set(interval, stop.clone(), move || {
        if ops.flush() {
            store.dispatch();
        }
    }));
    let (config, transactions) = (parts.config.clone(), parts.transactions.clone());
    let interval = move || pause_of(config.load().transaction_metric_flush_interval);
    workers.spawn(every_as_set(interval, stop.clone(), move || {
        crate::config_file::off_worker(|| transactions.persist());
    }));
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

/// Runs `work` again and again, with a pause that may be set anew meanwhile, until `stop`.
async fn every_as_set(pause: impl Fn() -> Duration, stop: CancellationToken, mut work: impl FnMut()) {
    loop {
        let mut left = pause();
        while !left.is_zero() {
            let part = left.min(LONGEST_PAUSE);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(part) => {}
            }
            // A shorter pause acts at once, a longer one from the next time on.
            left = (left - part).min(pause());
        }
        work();
    }
}

/// A pause in milliseconds as it is configured.
fn pause_of(configured: i64) -> Duration {
    Duration::from_millis(u64::try_from(configured).unwrap_or(0).max(10))
}

/// Moves the statistics on.
struct StatsClock {
    stats: Arc<Stats>,
    topics: Arc<TopicTable>,
    second: u64,
    day: NaiveDate,
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

/// The local date: the day turns at local midnight.
fn today() -> NaiveDate {
    Local::now().date_naive()
}
