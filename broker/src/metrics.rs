//! The Prometheus exporter (`metricsExporterType=PROM`), with the names and labels of Java's.
//!
//! The hot path counts in [`Stats`](crate::stats::Stats) only; what is exported is read from there every few seconds.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use config::{BrokerConfig, MetricsExporterType};
use metrics::{Label, counter, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

use crate::lifecycle::StartError;
use crate::names;
use crate::stats::{BYTES, MESSAGES};
use crate::timer::Timer;
use crate::wiring::Parts;

/// Bounds of the latency histogram in milliseconds: Java's.
const LATENCY_MILLIS: [f64; 9] = [1.0, 3.0, 5.0, 7.0, 10.0, 100.0, 1000.0, 2000.0, 3000.0];

/// Bounds of the histogram of transactions in seconds: Java's.
const TRANSACTION_SECONDS: [f64; 6] = [5.0, 60.0, 600.0, 3600.0, 43_200.0, 86_400.0];

/// Bounds of the histogram of timed messages in seconds: Java's.
const TIMER_SECONDS: [f64; 6] = [60.0, 600.0, 3600.0, 43_200.0, 86_400.0, 259_200.0];

/// Starts the exporter's port when it is configured. Must run before the router is made, whose counters belong to it.
/// One exporter a process: a second broker in the same process is exported through the first one's.
///
/// # Errors
/// A host that is no address, or a port that cannot be listened on.
pub fn install(config: &BrokerConfig) -> Result<(), StartError> {
    if config.metrics_exporter_type != MetricsExporterType::Prometheus {
        return Ok(());
    }
    let host = config.metrics_prom_exporter_host.trim();
    let ip = match host {
        "" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        host => host.parse().map_err(|_| StartError::Exporter(format!("metricsPromExporterHost={host}")))?,
    };
    let port = u16::try_from(config.metrics_prom_exporter_port)
        .map_err(|_| StartError::Exporter(format!("metricsPromExporterPort={}", config.metrics_prom_exporter_port)))?;
    let addr = SocketAddr::new(ip, port);
    let exporter = PrometheusBuilder::new()
        .with_http_listener(addr)
        .set_buckets_for_metric(Matcher::Full("rocketmq_rpc_latency".to_owned()), &LATENCY_MILLIS)
        .and_then(|exporter| {
            let name = Matcher::Full("rocketmq_finish_message_latency".to_owned());
            exporter.set_buckets_for_metric(name, &TRANSACTION_SECONDS)
        })
        .and_then(|exporter| {
            let name = Matcher::Full("rocketmq_delay_message_latency".to_owned());
            exporter.set_buckets_for_metric(name, &TIMER_SECONDS)
        })
        .map_err(|error| StartError::Exporter(error.to_string()))?;
    let (recorder, serve) = exporter.build().map_err(|error| StartError::Exporter(format!("{addr}: {error}")))?;
    if metrics::set_global_recorder(recorder).is_err() {
        tracing::warn!("metrics are exported by another broker of this process");
        return Ok(());
    }
    tokio::spawn(async move {
        if serve.await.is_err() {
            tracing::error!(%addr, "the metrics exporter has stopped");
        }
    });
    tracing::info!(%addr, "metrics are exported");
    Ok(())
}

/// Reads the counters into the exporter.
pub fn publish(parts: &Parts) {
    let who = &parts.identity;
    let node = [("cluster", who.cluster.clone()), ("node_type", "broker".to_owned()), ("node_id", who.name.clone())];
    let labels = |more: &[(&'static str, &str)]| -> Vec<Label> {
        let own = node.iter().map(|(name, value)| Label::new(*name, value.clone()));
        own.chain(more.iter().map(|(name, value)| Label::new(*name, (*value).to_owned()))).collect()
    };
    for topic in parts.topics.snapshot() {
        let (messages, bytes) = (topic.stats.put.sum(MESSAGES), topic.stats.put.sum(BYTES));
        if messages == 0 {
            continue;
        }
        let name = topic.topic_name.as_str();
        let kind = topic.attributes.get("message.type").map_or("NORMAL", String::as_str).to_ascii_lowercase();
        let system = text(parts.topics.system.contains(name));
        let own = labels(&[("topic", name), ("message_type", &kind), ("is_system", system)]);
        counter!("rocketmq_messages_in_total", own.clone()).absolute(messages);
        counter!("rocketmq_throughput_in_total", own).absolute(bytes);
    }
    for (group, topic, reading) in parts.stats.readings() {
        let retry = topic.starts_with(names::RETRY_PREFIX) || topic.starts_with(names::DLQ_PREFIX);
        let system = names::is_system_group(&group) || parts.topics.system.contains(&topic);
        let own = labels(&[
            ("topic", &topic),
            ("consumer_group", &group),
            ("is_system", text(system)),
            ("is_retry", text(retry)),
        ]);
        counter!("rocketmq_messages_out_total", own.clone()).absolute(reading.got.sum(MESSAGES));
        counter!("rocketmq_throughput_out_total", own).absolute(reading.got.sum(BYTES));
    }
    gauge!("rocketmq_broker_permission", labels(&[])).set(f64::from(parts.config.load().broker_permission));
    gauge!("rocketmq_topic_number", labels(&[])).set(parts.topics.len() as f64);
    gauge!("rocketmq_consumer_group_number", labels(&[])).set(parts.groups.names().len() as f64);
    for (group, members) in parts.clients.consumers.counts() {
        gauge!("rocketmq_consumer_connections", labels(&[("consumer_group", &group)])).set(members as f64);
    }
    let producers: usize = parts.clients.producers.all().values().map(Vec::len).sum();
    gauge!("rocketmq_producer_connections", labels(&[])).set(producers as f64);
    if parts.config.load().enable_transaction_metrics {
        for (topic, count) in parts.transactions.snapshot() {
            let own = labels(&[("topic", &topic)]);
            gauge!("rocketmq_half_messages", own.clone()).set(count.open() as f64);
            counter!("rocketmq_commit_messages_total", own.clone()).absolute(count.committed());
            counter!("rocketmq_rollback_messages_total", own).absolute(count.rolled_back());
        }
    }
    if let Some(timer) = &parts.timer {
        publish_timer(timer, &labels);
    }
    let log = parts.store.log_range();
    let local = labels(&[("storage_type", "local"), ("storage_medium", "disk")]);
    let behind = log.end.saturating_sub(parts.store.flushed().get());
    gauge!("rocketmq_storage_flush_behind_bytes", local.clone()).set(behind as f64);
    let undispatched = log.end.saturating_sub(parts.store.dispatched());
    gauge!("rocketmq_storage_dispatch_behind_bytes", local.clone()).set(undispatched as f64);
    let takes = parts.store.health().why_refused().is_none();
    gauge!("rocketmq_storage_takes_messages", local.clone()).set(f64::from(u8::from(takes)));
    gauge!("rocketmq_storage_size", local).set((log.end - log.start) as f64);
}

/// The broker's own labels and some more.
type Labels<'a> = dyn Fn(&[(&'static str, &str)]) -> Vec<Label> + 'a;

/// What waits for its time, and how well it is kept.
fn publish_timer(timer: &Timer, labels: &Labels<'_>) {
    gauge!("rocketmq_timer_enqueue_lag", labels(&[])).set(timer.untaken() as f64);
    gauge!("rocketmq_timer_enqueue_latency", labels(&[])).set(timer.untaken_millis() as f64);
    gauge!("rocketmq_timer_dequeue_lag", labels(&[])).set(timer.waiting() as f64);
    gauge!("rocketmq_timer_dequeue_latency", labels(&[])).set(timer.behind_millis() as f64);
    for (topic, count) in timer.counts().snapshot() {
        let own = labels(&[("topic", &topic)]);
        gauge!("rocketmq_timing_messages", own.clone()).set(count.waiting as f64);
        counter!("rocketmq_timer_enqueue_total", own.clone()).absolute(count.taken);
        counter!("rocketmq_timer_dequeue_total", own).absolute(count.delivered);
    }
    for (seconds, messages) in timer.spans() {
        let bound = seconds.to_string();
        gauge!("rocketmq_timer_message_snapshot", labels(&[("timer_bound_s", &bound)])).set(messages as f64);
    }
}

/// Whether [`publish`] has anybody to publish for.
pub fn is_on(parts: &Parts) -> bool {
    parts.config.load().metrics_exporter_type == MetricsExporterType::Prometheus
}

fn text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
