//! What the broker counts: for mqadmin's numbers, the exporter and GET_BROKER_RUNTIME_INFO.
//!
//! The hot path adds to atomics that it reaches through what it holds anyway (a topic, a group's reading of a topic); no
//! name is built per message. Everything derived is computed by [`Stats::tick`] or when asked for.

mod item;
mod put_times;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};

pub use item::{Item, Rate, Window};
pub use put_times::PutTimes;

/// What is counted of one topic.
#[derive(Debug, Default)]
pub struct TopicStats {
    /// Messages put, one addition a request.
    pub put_messages: Item,
    /// Bytes of messages put.
    pub put_bytes: Item,
}

/// What is counted of one group's reading of one topic.
#[derive(Debug, Default)]
pub struct ReadStats {
    /// Messages got, one addition a request.
    pub got_messages: Item,
    /// Bytes got.
    pub got_bytes: Item,
    /// Messages that came back for a retry.
    pub sent_back: Item,
}

/// Readings by topic, of one group.
type Readings = HashMap<String, Arc<ReadStats>>;

/// The counters of a broker.
#[derive(Debug)]
pub struct Stats {
    /// When the broker started (ms since the epoch).
    pub boot_millis: i64,
    /// Messages put into the store, whatever the topic.
    pub puts: Item,
    /// Bytes put into the store.
    pub put_bytes: Item,
    /// Puts that failed.
    pub put_failures: Item,
    /// Messages put by clients into topics of users.
    pub user_puts: Item,
    /// Messages got by groups of users from topics of users.
    pub user_gets: Item,
    /// Reads that found messages.
    pub reads_found: Item,
    /// Reads that found nothing.
    pub reads_missed: Item,
    /// Messages that reads found.
    pub transferred: Item,
    /// How long appends took.
    pub put_times: PutTimes,
    /// How long reads took.
    pub get_times: PutTimes,
    readings: RwLock<HashMap<String, Readings>>,
    seconds: Mutex<VecDeque<Second>>,
    mornings: Mutex<Mornings>,
}

/// Sums at one second, for rates over 10, 60 and 600 s.
#[derive(Clone, Copy, Debug)]
struct Second {
    at: i64,
    puts: u64,
    found: u64,
    missed: u64,
    transferred: u64,
}

/// Sums at the last two midnights.
#[derive(Clone, Copy, Debug, Default)]
struct Mornings {
    puts_yesterday: u64,
    puts_today: u64,
    gets_yesterday: u64,
    gets_today: u64,
}

/// Totals of days, as GET_BROKER_RUNTIME_INFO names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DayTotals {
    pub yesterday_morning: u64,
    pub today_morning: u64,
    pub today_now: u64,
}

/// Kinds of requests whose rate is reported.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Traffic {
    Put,
    GetFound,
    GetMiss,
    GetTotal,
    GetTransferred,
}

/// Seconds of samples that are kept.
const KEPT_SECONDS: usize = 601;

impl Default for Stats {
    fn default() -> Self {
        Stats {
            boot_millis: now_millis(),
            puts: Item::default(),
            put_bytes: Item::default(),
            put_failures: Item::default(),
            user_puts: Item::default(),
            user_gets: Item::default(),
            reads_found: Item::default(),
            reads_missed: Item::default(),
            transferred: Item::default(),
            put_times: PutTimes::default(),
            get_times: PutTimes::default(),
            readings: RwLock::default(),
            seconds: Mutex::default(),
            mornings: Mutex::default(),
        }
    }
}

impl Stats {
    /// Counts messages that were put into a topic by one request. `user`: neither a system topic nor an inner copy.
    pub fn put(&self, topic: &TopicStats, messages: u64, bytes: u64, user: bool) {
        topic.put_messages.add(messages);
        topic.put_bytes.add(bytes);
        self.puts.add(messages);
        self.put_bytes.add(bytes);
        if user {
            self.user_puts.add(messages);
        }
    }

    /// Counts messages that one request read. `user`: neither a system topic nor a group of the broker or a tool.
    pub fn got(&self, reading: &ReadStats, messages: u64, bytes: u64, user: bool) {
        reading.got_messages.add(messages);
        reading.got_bytes.add(bytes);
        self.reads_found.add(1);
        self.transferred.add(messages);
        if user {
            self.user_gets.add(messages);
        }
    }

    /// Counts a read that found nothing.
    pub fn missed(&self) {
        self.reads_missed.add(1);
    }

    /// The counters of a group's reading of a topic, made when they are not there. Cheap; better kept.
    pub fn reading(&self, group: &str, topic: &str) -> Arc<ReadStats> {
        if let Some(reading) = self.readings.read().get(group).and_then(|topics| topics.get(topic)) {
            return reading.clone();
        }
        let mut readings = self.readings.write();
        readings.entry(group.to_owned()).or_default().entry(topic.to_owned()).or_default().clone()
    }

    /// Messages a second that a group got from a topic in the last minute.
    pub fn group_rate(&self, group: &str, topic: &str) -> f64 {
        let readings = self.readings.read();
        let reading = readings.get(group).and_then(|topics| topics.get(topic));
        reading.map_or(0.0, |reading| reading.got_messages.rate(Window::Minute).per_second)
    }

    /// Forgets a group.
    pub fn remove_group(&self, group: &str) {
        self.readings.write().remove(group);
    }

    /// Forgets a topic in every group.
    pub fn remove_topic(&self, topic: &str) {
        self.readings.write().retain(|_, topics| {
            topics.remove(topic);
            !topics.is_empty()
        });
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
        self.sample_second(now);
        if second.is_multiple_of(60) {
            self.put_times.roll();
        }
        let due: Vec<Window> = [(10, Window::Minute), (600, Window::Hour), (3600, Window::Day)]
            .into_iter()
            .filter_map(|(every, window)| second.is_multiple_of(every).then_some(window))
            .collect();
        if due.is_empty() {
            return;
        }
        let (topics, readings) = (topics(), self.readings());
        for window in due {
            for topic in &topics {
                topic.put_messages.sample(window, now);
                topic.put_bytes.sample(window, now);
            }
            for (_, _, reading) in &readings {
                reading.got_messages.sample(window, now);
                reading.got_bytes.sample(window, now);
                reading.sent_back.sample(window, now);
            }
            for item in [&self.puts, &self.put_bytes, &self.user_puts, &self.user_gets] {
                item.sample(window, now);
            }
        }
    }

    /// Remembers the totals at midnight.
    pub fn midnight(&self) {
        let mut mornings = self.mornings.lock();
        *mornings = Mornings {
            puts_yesterday: mornings.puts_today,
            puts_today: self.user_puts.sum(),
            gets_yesterday: mornings.gets_today,
            gets_today: self.user_gets.sum(),
        };
    }

    /// Messages put by clients, by day.
    pub fn day_puts(&self) -> DayTotals {
        let mornings = *self.mornings.lock();
        DayTotals {
            yesterday_morning: mornings.puts_yesterday,
            today_morning: mornings.puts_today,
            today_now: self.user_puts.sum(),
        }
    }

    /// Messages got by clients, by day.
    pub fn day_gets(&self) -> DayTotals {
        let mornings = *self.mornings.lock();
        DayTotals {
            yesterday_morning: mornings.gets_yesterday,
            today_morning: mornings.gets_today,
            today_now: self.user_gets.sum(),
        }
    }

    /// Rates over the last 10, 60 and 600 seconds; 0 for a span that the broker has not run yet.
    pub fn rates(&self, traffic: Traffic) -> [f64; 3] {
        let seconds = self.seconds.lock();
        [10, 60, 600].map(|span| {
            let Some(last) = seconds.back() else { return 0.0 };
            let Some(first) = seconds.len().checked_sub(span + 1).and_then(|at| seconds.get(at)) else { return 0.0 };
            let sum = |second: &Second| match traffic {
                Traffic::Put => second.puts,
                Traffic::GetFound => second.found,
                Traffic::GetMiss => second.missed,
                Traffic::GetTotal => second.found + second.missed,
                Traffic::GetTransferred => second.transferred,
            };
            let millis = (last.at - first.at).max(1);
            (sum(last) - sum(first)) as f64 * 1000.0 / millis as f64
        })
    }

    fn sample_second(&self, now: i64) {
        let mut seconds = self.seconds.lock();
        seconds.push_back(Second {
            at: now,
            puts: self.puts.sum(),
            found: self.reads_found.sum(),
            missed: self.reads_missed.sum(),
            transferred: self.transferred.sum(),
        });
        while seconds.len() > KEPT_SECONDS {
            seconds.pop_front();
        }
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

    /// Case E-04: inner copies and reads by tools are no traffic of the day.
    #[test]
    fn e_04_today_counts_users_only() {
        let stats = Stats::default();
        let (topic, system) = (TopicStats::default(), TopicStats::default());
        stats.put(&topic, 12, 1200, true);
        stats.put(&system, 3, 300, false);
        stats.got(&stats.reading("TOOLS_CONSUMER", "T"), 5, 50, false);
        assert_eq!(stats.day_puts(), DayTotals { yesterday_morning: 0, today_morning: 0, today_now: 12 });
        assert_eq!((stats.puts.sum(), stats.day_gets().today_now), (15, 0));
        stats.midnight();
        stats.put(&topic, 1, 1, true);
        assert_eq!(stats.day_puts(), DayTotals { yesterday_morning: 0, today_morning: 12, today_now: 13 });
    }

    #[test]
    fn rates_need_their_span() {
        let stats = Stats::default();
        let topic = TopicStats::default();
        for second in 0..11 {
            stats.put(&topic, 100, 1, true);
            stats.sample_second(second * 1000);
        }
        assert_eq!(stats.rates(Traffic::Put), [100.0, 0.0, 0.0]);
    }
}
