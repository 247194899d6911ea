//! What the broker counts: for mqadmin's numbers, the exporter and GET_BROKER_RUNTIME_INFO.
//!
//! The hot path adds to atomics that it reaches through what it holds anyway (a topic, a group's reading of a topic); no
//! name is built per message. Everything derived is computed by [`Stats::tick`] or when asked for.

mod counter;
mod days;
mod figures;
mod put_times;
mod queues;
mod seconds;
mod window;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::RwLock;

pub use counter::{Counter, Rate};
pub use days::DayTotals;
pub use figures::Figure;
pub use put_times::PutTimes;
pub use queues::QueueCounters;
pub use seconds::Traffic;
pub use window::Window;

use crate::names;
use days::Mornings;
use seconds::{Second, Seconds};
use window::Ticks;

/// The sum of messages in counters of traffic.
pub const MESSAGES: usize = 0;
/// The sum of bytes in counters of traffic.
pub const BYTES: usize = 1;

/// What is counted of one topic.
#[derive(Debug, Default)]
pub struct TopicStats {
    /// Messages put, their bytes, and requests.
    pub put: Counter<3>,
    /// Milliseconds that sends took, and requests, by the queue that was asked for.
    pub latency: QueueCounters<2>,
}

/// What is counted of one group's reading of one topic.
#[derive(Debug, Default)]
pub struct ReadStats {
    /// Messages got, their bytes, and requests.
    pub got: Counter<3>,
    /// Messages that came back for a retry.
    pub sent_back: Counter<1>,
    /// Messages of those that came back too often.
    pub dead: Counter<1>,
    /// Milliseconds that reads took, and requests, by queue.
    pub latency: QueueCounters<2>,
}

/// Readings by topic, of one group.
type Readings = HashMap<String, Arc<ReadStats>>;

/// The counters of a broker.
#[derive(Debug)]
pub struct Stats {
    /// When the broker started (ms since the epoch).
    pub boot_millis: i64,
    /// Messages put into the store, whatever the topic, and their bytes.
    pub puts: Counter<2>,
    /// Puts that failed.
    pub put_failures: Counter<1>,
    /// Messages put by clients into topics of users.
    pub user_puts: Counter<1>,
    /// Messages that reads found.
    pub gets: Counter<1>,
    /// Messages got by groups of users from topics of users.
    pub user_gets: Counter<1>,
    /// Reads that found messages.
    pub reads_found: Counter<1>,
    /// Reads that found nothing.
    pub reads_missed: Counter<1>,
    /// How long appends took.
    pub put_times: PutTimes,
    /// How long reads took.
    pub get_times: PutTimes,
    /// Milliseconds that heartbeats of consumers took, and their number.
    pub consumer_registrations: Counter<2>,
    /// The same of producers.
    pub producer_registrations: Counter<2>,
    /// Connections that were made.
    pub connects: Counter<1>,
    /// Connections that ended.
    pub closes: Counter<1>,
    /// The cluster: the key of figures of the whole broker.
    cluster: String,
    /// Whether single queues are counted (`enableDetailStat`).
    detailed: bool,
    /// By queue of the schedule topic: messages that came to wait, their bytes, and their number.
    delayed: QueueCounters<3>,
    /// By queue of the schedule topic: messages that went on, their bytes, and their number.
    delivered: QueueCounters<3>,
    readings: RwLock<HashMap<String, Readings>>,
    /// Counts what has gone from there.
    gone: AtomicU64,
    ticks: Ticks,
    seconds: Seconds,
    mornings: Mornings,
}

impl Default for Stats {
    fn default() -> Self {
        Stats::new("DefaultCluster", true)
    }
}

impl Stats {
    /// The counters of a broker of a cluster. `detailed`: single queues are counted, too.
    pub fn new(cluster: &str, detailed: bool) -> Stats {
        Stats {
            boot_millis: now_millis(),
            puts: Counter::default(),
            put_failures: Counter::default(),
            user_puts: Counter::default(),
            gets: Counter::default(),
            user_gets: Counter::default(),
            reads_found: Counter::default(),
            reads_missed: Counter::default(),
            put_times: PutTimes::default(),
            get_times: PutTimes::default(),
            consumer_registrations: Counter::default(),
            producer_registrations: Counter::default(),
            connects: Counter::default(),
            closes: Counter::default(),
            cluster: cluster.to_owned(),
            detailed,
            delayed: QueueCounters::default(),
            delivered: QueueCounters::default(),
            readings: RwLock::default(),
            gone: AtomicU64::new(0),
            ticks: Ticks::default(),
            seconds: Seconds::default(),
            mornings: Mornings::default(),
        }
    }

    /// Counts messages that were put into a topic by one request. `user`: neither a system topic nor an inner copy.
    pub fn put(&self, topic: &TopicStats, messages: u64, bytes: u64, user: bool) {
        topic.put.add([messages, bytes, 1]);
        self.put_all(messages, bytes, if user { messages } else { 0 });
    }

    /// Counts messages that were put into any topics, and are counted there; `user` of them by clients into topics of users.
    pub fn put_all(&self, messages: u64, bytes: u64, user: u64) {
        self.puts.add([messages, bytes]);
        if user > 0 {
            self.user_puts.add([user]);
        }
    }

    /// Counts a message that waits in a queue of the schedule topic.
    pub fn put_delayed(&self, schedule: &TopicStats, queue_id: i32, bytes: u64) {
        self.put(schedule, 1, bytes, false);
        if self.detailed {
            self.delayed.add(queue_id, [1, bytes, 1]);
        }
    }

    /// Counts a message that has left a queue of the schedule topic.
    pub fn delivered(&self, queue_id: i32, bytes: u64) {
        if self.detailed {
            self.delivered.add(queue_id, [1, bytes, 1]);
        }
        self.reading(names::SCHEDULE_GROUP, names::SCHEDULE_TOPIC).got.add([1, bytes, 1]);
    }

    /// Counts messages that one request read from a queue in some time. `user`: neither a system topic nor a group of the
    /// broker or a tool.
    pub fn got(&self, reading: &ReadStats, queue_id: i32, messages: u64, bytes: u64, took: Duration, user: bool) {
        reading.got.add([messages, bytes, 1]);
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        reading.latency.add(if self.detailed { queue_id } else { 0 }, [millis, 1]);
        self.reads_found.add([1]);
        self.gets.add([messages]);
        if user {
            self.user_gets.add([messages]);
        }
    }

    /// Counts a read that found nothing.
    pub fn missed(&self) {
        self.reads_missed.add([1]);
    }

    /// The counters of a group's reading of a topic, made when they are not there. Cheap; better kept.
    pub fn reading(&self, group: &str, topic: &str) -> Arc<ReadStats> {
        if let Some(reading) = self.find_reading(group, topic) {
            return reading;
        }
        let mut readings = self.readings.write();
        readings.entry(group.to_owned()).or_default().entry(topic.to_owned()).or_default().clone()
    }

    fn find_reading(&self, group: &str, topic: &str) -> Option<Arc<ReadStats>> {
        self.readings.read().get(group).and_then(|topics| topics.get(topic)).cloned()
    }

    /// Forgets a group.
    pub fn remove_group(&self, group: &str) {
        self.readings.write().remove(group);
        self.gone.fetch_add(1, Ordering::SeqCst);
    }

    /// Forgets a topic in every group.
    pub fn remove_topic(&self, topic: &str) {
        self.readings.write().retain(|_, topics| {
            topics.remove(topic);
            !topics.is_empty()
        });
        self.gone.fetch_add(1, Ordering::SeqCst);
    }

    /// The counters of a group's reading of a topic are the same as long as this is.
    pub fn generation(&self) -> u64 {
        self.gone.load(Ordering::SeqCst)
    }

    /// All readings: group, topic, counters.
    pub fn readings(&self) -> Vec<(String, String, Arc<ReadStats>)> {
        let readings = self.readings.read();
        let all = readings.iter().flat_map(|(group, topics)| {
            topics.iter().map(move |(topic, reading)| (group.clone(), topic.clone(), reading.clone()))
        });
        all.collect()
    }

    /// Takes the samples that are due; called once a second with the number of the second since the start.
    pub fn tick(&self, second: u64, topics: impl FnOnce() -> Vec<Arc<TopicStats>>) {
        let now = now_millis();
        self.seconds.add(Second {
            at: now,
            puts: self.puts.sum(MESSAGES),
            found: self.reads_found.sum(0),
            missed: self.reads_missed.sum(0),
            transferred: self.gets.sum(0),
        });
        if second.is_multiple_of(60) {
            self.put_times.roll();
        }
        let due: Vec<Window> =
            Window::ALL.into_iter().filter(|window| second.is_multiple_of(window.period())).collect();
        if due.is_empty() {
            return;
        }
        let (topics, readings) = (topics(), self.readings());
        for window in due {
            let tick = self.ticks.advance(window, now);
            for topic in &topics {
                topic.put.sample(window, tick);
                topic.latency.each(|counter| counter.sample(window, tick));
            }
            for (_, _, reading) in &readings {
                reading.got.sample(window, tick);
                reading.sent_back.sample(window, tick);
                reading.dead.sample(window, tick);
                reading.latency.each(|counter| counter.sample(window, tick));
            }
            for counters in [&self.delayed, &self.delivered] {
                counters.each(|counter| counter.sample(window, tick));
            }
            self.puts.sample(window, tick);
            for counter in [&self.user_puts, &self.gets, &self.user_gets, &self.connects, &self.closes] {
                counter.sample(window, tick);
            }
            for counter in [&self.consumer_registrations, &self.producer_registrations] {
                counter.sample(window, tick);
            }
        }
    }

    /// Remembers the totals at midnight.
    pub fn midnight(&self) {
        self.mornings.turn([self.user_puts.sum(0), self.user_gets.sum(0)]);
    }

    /// Messages put by clients, by day.
    pub fn day_puts(&self) -> DayTotals {
        self.mornings.totals(0, self.user_puts.sum(0))
    }

    /// Messages got by clients, by day.
    pub fn day_gets(&self) -> DayTotals {
        self.mornings.totals(1, self.user_gets.sum(0))
    }

    /// Rates over the last 10, 60 and 600 seconds; 0 for a span that the broker has not run yet.
    pub fn rates(&self, traffic: Traffic) -> [f64; 3] {
        self.seconds.rates(traffic)
    }
}

/// Milliseconds since the epoch.
pub fn now_millis() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn got(stats: &Stats, group: &str, messages: u64, user: bool) {
        stats.got(&stats.reading(group, "T"), 3, messages, 10 * messages, Duration::from_millis(4), user);
    }

    /// Case E-04: inner copies and reads by tools are no traffic of the day.
    #[test]
    fn e_04_today_counts_users_only() {
        let stats = Stats::default();
        let (topic, system) = (TopicStats::default(), TopicStats::default());
        stats.put(&topic, 12, 1200, true);
        stats.put(&system, 3, 300, false);
        got(&stats, "TOOLS_CONSUMER", 5, false);
        assert_eq!(stats.day_puts(), DayTotals { yesterday_morning: 0, today_morning: 0, today_now: 12 });
        assert_eq!((stats.puts.sum(MESSAGES), stats.day_gets().today_now), (15, 0));
        stats.midnight();
        stats.put(&topic, 1, 1, true);
        assert_eq!(stats.day_puts(), DayTotals { yesterday_morning: 0, today_morning: 12, today_now: 13 });
    }

    /// Every name that 5.5.0 counts, by its key; before and after a deletion.
    #[test]
    fn figures_have_javas_names() {
        let stats = Stats::new("C1", true);
        let topic = Arc::new(TopicStats::default());
        let schedule = TopicStats::default();
        let figure = |name: &str, key: &str| {
            let rate = stats.figure(name, key, |name| (name == "T").then(|| topic.clone()))?.rate(Window::Minute);
            Some((rate.sum, rate.times))
        };
        assert_eq!(figure("TOPIC_PUT_NUMS", "T"), None);
        stats.put(&topic, 4, 400, true);
        topic.latency.of(2).add([7, 1]);
        stats.put_delayed(&schedule, 1, 90);
        stats.delivered(1, 80);
        got(&stats, "G", 5, true);
        stats.reading("G", "T").sent_back.add([1]);
        stats.reading("G", "T").dead.add([1]);
        stats.consumer_registrations.add([0, 1]);
        // Counted, but no sample has been taken.
        assert_eq!(figure("TOPIC_PUT_NUMS", "T"), Some((0, 0)));
        stats.tick(10, || vec![topic.clone()]);
        for (name, key, sum, times) in [
            ("TOPIC_PUT_NUMS", "T", 4, 1),
            ("TOPIC_PUT_SIZE", "T", 400, 1),
            ("TOPIC_PUT_LATENCY", "2@T", 7, 1),
            ("GROUP_GET_NUMS", "T@G", 5, 1),
            ("GROUP_GET_SIZE", "T@G", 50, 1),
            ("GROUP_GET_LATENCY", "3@T@G", 4, 1),
            ("SNDBCK_PUT_NUMS", "T@G", 1, 1),
            ("SNDBCK2DLQ_TIMES", "null@T@G@SEND_BACK_TO_DLQ", 1, 1),
            ("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@1", 1, 1),
            ("QUEUE_PUT_SIZE", "SCHEDULE_TOPIC_XXXX@1", 90, 1),
            ("QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@1@SCHEDULE_CONSUMER", 1, 1),
            ("QUEUE_GET_SIZE", "SCHEDULE_TOPIC_XXXX@1@SCHEDULE_CONSUMER", 80, 1),
            ("GROUP_GET_NUMS", "SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER", 1, 1),
            ("BROKER_PUT_NUMS", "C1", 5, 0),
            ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "C1", 4, 0),
            ("BROKER_GET_NUMS", "C1", 5, 0),
            ("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "C1", 5, 0),
            ("CONSUMER_REGISTER_TIME", "C1", 0, 1),
        ] {
            assert_eq!(figure(name, key), Some((sum, times)), "{name} {key}");
        }
        for (name, key) in [
            ("TOPIC_PUT_NUMS", "U"),
            ("TOPIC_PUT_LATENCY", "x@T"),
            ("GROUP_GET_NUMS", "T"),
            ("QUEUE_PUT_NUMS", "T@1"),
            ("BROKER_PUT_NUMS", "C2"),
            ("COMMERCIAL_SEND_TIMES", "T"),
            ("CHANNEL_ACTIVITY", "CONNECT"),
            ("", ""),
        ] {
            assert_eq!(figure(name, key), None, "{name} {key}");
        }
        stats.remove_topic("T");
        assert_eq!(figure("GROUP_GET_NUMS", "T@G"), None);
    }

    #[test]
    fn without_detail_no_queue_is_counted() {
        let stats = Stats::new("C1", false);
        stats.put_delayed(&TopicStats::default(), 1, 90);
        got(&stats, "G", 5, true);
        let exists = |name: &str, key: &str| stats.figure(name, key, |_| None).is_some();
        assert!(exists("GROUP_GET_LATENCY", "T@G"));
        assert!(!exists("GROUP_GET_LATENCY", "3@T@G"));
        assert!(!exists("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@1"));
    }
}
