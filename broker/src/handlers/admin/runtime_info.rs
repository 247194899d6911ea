//! GET_BROKER_RUNTIME_INFO (28): what the broker counts, as a table of strings.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::{BrokerConfig, Live, MessageStoreConfig};
use remoting::body::fastjson;
use remoting::body::kv::KvTable;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use store::Store;
use store::record::RecordView;

use crate::duties::Duties;
use crate::handlers::json;
use crate::schedule::Schedule;
use crate::stats::{BYTES, DayTotals, MESSAGES, Stats, Traffic, now_millis};
use crate::timer::Timer;

/// Answers with everything that exporters and mqadmin read.
pub struct RuntimeInfo {
    /// The broker's keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// The store's keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Messages.
    pub store: Arc<Store>,
    /// Delayed messages.
    pub schedule: Arc<Schedule>,
    /// Messages for an arbitrary time.
    pub timer: Option<Arc<Timer>>,
    /// What only one broker of a group does.
    pub duties: Arc<Duties>,
}

impl Handler for RuntimeInfo {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        let mut table = Table::default();
        self.traffic(&mut table);
        self.files(&mut table);
        self.delays(&mut table);
        self.queues(&mut table);
        json(&KvTable { table: table.0 }).into()
    }
}

impl RuntimeInfo {
    fn traffic(&self, table: &mut Table) {
        let stats = &self.stats;
        let up = (now_millis() - stats.boot_millis).max(0) / 1000;
        let (days, hours, minutes, seconds) = (up / 86_400, up / 3600 % 24, up / 60 % 60, up % 60);
        table.add("bootTimestamp", stats.boot_millis);
        table.add("runtime", format!("[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"));
        table.add("brokerActive", self.duties.are_on());
        table.add("brokerVersionDesc", "V5_5_0");
        table.add("startAcceptSendRequestTimeStamp", self.config.load().start_accept_send_request_time_stamp);
        // Java divides by this total, so it is never 0.
        let puts = stats.puts.sum(MESSAGES).max(1);
        table.add("putMessageTimesTotal", puts);
        table.add("putMessageSizeTotal", stats.puts.sum(BYTES));
        table.add("putMessageAverageSize", double(stats.puts.sum(BYTES) as f64 / puts as f64));
        table.add("putMessageFailedTimes", stats.put_failures.sum(0));
        table.add("putMessageEntireTimeMax", stats.put_times.max_millis());
        table.add("putMessageDistributeTime", stats.put_times.distribution());
        table.add("putLatency99", format!("{:.2}", stats.put_times.percentile(0.99)));
        table.add("putLatency999", format!("{:.2}", stats.put_times.percentile(0.999)));
        table.add("getMessageEntireTimeMax", stats.get_times.max_millis());
        for (key, traffic) in [
            ("putTps", Traffic::Put),
            ("getFoundTps", Traffic::GetFound),
            ("getMissTps", Traffic::GetMiss),
            ("getTotalTps", Traffic::GetTotal),
            ("getTransferredTps", Traffic::GetTransferred),
        ] {
            table.add(key, stats.rates(traffic).map(double).join(" "));
        }
        for (name, day) in [("msgPut", stats.day_puts()), ("msgGet", stats.day_gets())] {
            let DayTotals { yesterday_morning, today_morning, today_now } = day;
            table.add(&format!("{name}TotalYesterdayMorning"), yesterday_morning);
            table.add(&format!("{name}TotalTodayMorning"), today_morning);
            table.add(&format!("{name}TotalTodayNow"), today_now);
        }
    }

    fn files(&self, table: &mut Table) {
        let config = self.store_config.load();
        let log = self.store.log_range();
        table.add("commitLogMinOffset", log.start);
        table.add("commitLogMaxOffset", log.end);
        // Not in Java, which does not know.
        if let Some(why) = self.store.health().why_refused() {
            table.add("storeRefusesMessages", why);
        }
        table.add("remainHowManyDataToFlush", human(log.end.saturating_sub(self.store.flushed().get())));
        table.add("dispatchBehindBytes", log.end.saturating_sub(self.store.dispatched()));
        table.add("earliestMessageTimeStamp", self.earliest(log.start));
        let mut least = f64::MAX;
        for path in config.commit_log_dir().to_string_lossy().trim().split(',') {
            let ratio = Disk::of(path).map_or(-1.0, |disk| disk.ratio());
            table.add(&format!("commitLogDiskRatio_{path}"), double(ratio));
            least = least.min(ratio);
        }
        table.add("commitLogDiskRatio", double(least));
        let queues = format!("{}/consumequeue", config.store_path_root_dir);
        table.add("consumeQueueDiskRatio", double(Disk::of(&queues).map_or(-1.0, |disk| disk.ratio())));
        if let Some(disk) = Disk::of(&config.store_path_root_dir) {
            let capacity = format!("Total : {}, Free : {}.", human(disk.total), human(disk.free));
            table.add("commitLogDirCapacity", capacity);
        }
    }

    /// Store time of the first message in the log, -1 when there is none.
    fn earliest(&self, start: u64) -> i64 {
        let record = self.store.record_at(start);
        let view = record.as_deref().and_then(|record| RecordView::parse(record).ok());
        view.map_or(-1, |view| view.store_timestamp())
    }

    /// Level by level what is delivered and what there is.
    fn delays(&self, table: &mut Table) {
        for (level, offset, end) in self.schedule.progress() {
            table.add(&format!("scheduleMessageOffset_{level}"), format!("{offset},{end}"));
        }
    }

    /// Requests are served where they arrive, so nothing waits in queues; the capacities are those that are configured.
    fn queues(&self, table: &mut Table) {
        let config = self.config.load();
        for (name, capacity) in [
            ("send", config.send_thread_pool_queue_capacity),
            ("pull", config.pull_thread_pool_queue_capacity),
            ("litePull", config.lite_pull_thread_pool_queue_capacity),
            ("query", config.query_thread_pool_queue_capacity),
            ("ack", config.ack_thread_pool_queue_capacity),
        ] {
            table.add(&format!("{name}ThreadPoolQueueSize"), 0);
            table.add(&format!("{name}ThreadPoolQueueCapacity"), capacity);
            table.add(&format!("{name}ThreadPoolQueueHeadWaitTimeMills"), 0);
        }
        table.add("EndTransactionQueueSize", 0);
        table.add("EndTransactionThreadPoolQueueCapacity", config.end_transaction_pool_queue_capacity);
        table.add("dispatchMaxBuffer", 0);
        table.add("pageCacheLockTimeMills", 0);
        // Java's answer without a transient store pool is the largest number.
        let pool = self.store.pool_remaining();
        table.add("remainTransientStoreBufferNumbs", pool.unwrap_or(i32::MAX as usize));
        if pool.is_some() {
            table.add("remainHowManyDataToCommit", human(self.store.uncommitted()));
        }
        let timer = self.timer.as_ref();
        let number = |of: fn(&Timer) -> i64| timer.map_or(0, |timer| of(timer));
        table.add("timerReadBehind", number(|timer| timer.behind_millis() / 1000));
        table.add("timerOffsetBehind", number(Timer::untaken));
        table.add("timerCongestNum", number(Timer::waiting));
        let (taken, delivered) = timer.map_or((0.0, 0.0), |timer| timer.rates());
        table.add("timerEnqueueTps", double(taken));
        table.add("timerDequeueTps", double(delivered));
    }
}

#[derive(Default)]
struct Table(BTreeMap<String, String>);

impl Table {
    fn add(&mut self, key: &str, value: impl ToString) {
        self.0.insert(key.to_owned(), value.to_string());
    }
}

/// Space of the file system that a path is on, in bytes.
struct Disk {
    total: u64,
    free: u64,
    usable: u64,
}

impl Disk {
    fn of(path: &str) -> Option<Disk> {
        let stat = rustix::fs::statvfs(path).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Some(Disk { total: bytes(stat.f_blocks), free: bytes(stat.f_bfree), usable: bytes(stat.f_bavail) })
    }

    /// The used share in hundredths, rounded up, as Java computes it.
    fn ratio(&self) -> f64 {
        let used = self.total.saturating_sub(self.free);
        let entire = u128::from(used + self.usable).max(1);
        (u128::from(used) * 100).div_ceil(entire) as f64 / 100.0
    }
}

/// A number as Java's `Double.toString` prints it.
fn double(value: f64) -> String {
    String::from_utf8(fastjson::to_vec(&value).unwrap_or_default()).unwrap_or_default()
}

/// A size for people: `236.3 GiB`.
fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 1024.0 && unit < 5 {
        value /= 1024.0;
        unit += 1;
    }
    let letter = char::from(b"KMGTPE"[unit]);
    format!("{value:.1} {letter}iB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_java_prints_them() {
        assert_eq!(human(0), "0 B");
        assert_eq!(human(1536), "1.5 KiB");
        assert_eq!(human(270_582_939_648), "252.0 GiB");
        assert_eq!(double(0.0), "0.0");
        assert_eq!(double(304.769_230_769_230_8), "304.7692307692308");
        assert_eq!(Disk { total: 100, free: 82, usable: 82 }.ratio(), 0.18);
        assert_eq!(Disk { total: 1000, free: 829, usable: 829 }.ratio(), 0.18);
    }
}
