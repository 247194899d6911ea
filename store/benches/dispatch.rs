//! Dispatch of records that lie in the log already: consume queues and index, per message. Measured in CPU time of the
//! thread, the making of the files included, so that other load on the machine does not count.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use store::NewMessage;
use store::commitlog::{AppendLimits, CommitLog, NextOffset};
use store::dispatch::{DelayLevels, Dispatcher};
use store::index::{Geometry, Index};
use store::queue::{QueueTable, TableOptions};

const MESSAGES: usize = 600_000;
/// The part of the log that warms up: an index file has 5 million slots, and the first touch of each of their pages is
/// slow, which is nothing over the 20 million entries of a file but much over a short run.
const WARM: u64 = 4;
const TOPICS: usize = 4;
const QUEUES: usize = 8;

/// A log of messages with a body of 128 bytes and a unique key.
fn log(dir: &std::path::Path) -> CommitLog {
    let log = CommitLog::load(dir.join("commitlog"), 256 << 20).unwrap();
    let host = "127.0.0.1:10911".parse().unwrap();
    let limits = AppendLimits { max_body: 4 << 20, long_topics: true, crc_property: false, store_host: host };
    let queues = QueueTable::empty(&options(dir));
    for i in 0..MESSAGES {
        let queue = queues.get_or_create(&format!("BenchmarkTopic{}", i / 7 % TOPICS), (i % QUEUES) as i32);
        let properties = format!(
            "UNIQ_KEY\x017F0000010000{i:020X}\x02WAIT\x01true\x02TAGS\x01TagA\x02CLUSTER\x01DefaultCluster\x02"
        );
        let message = NewMessage {
            flag: 0,
            sys_flag: 0,
            born_timestamp: 1,
            born_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            properties: properties.as_bytes(),
            body: &[7; 128],
        };
        let next = NextOffset { topic: queue.topic(), queue_id: queue.id(), next: queue.next_offset() };
        log.append(next, &message, &limits).unwrap();
    }
    log
}

fn options(root: &std::path::Path) -> TableOptions {
    TableOptions {
        root: root.to_owned(),
        file_size: 6_000_000,
        batch_file_size: 13_800_000,
        ext_file_size: 1 << 20,
        ext: false,
    }
}

fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn dispatch(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    let mut group = c.benchmark_group("dispatch");
    group.throughput(Throughput::Elements((MESSAGES - MESSAGES / WARM as usize) as u64));
    group.sample_size(10);
    for (name, with_index) in [("queues", false), ("queues and index", true)] {
        group.bench_function(name, |b| {
            b.iter_custom(|iterations| {
                let mut used = Duration::ZERO;
                for _ in 0..iterations {
                    let fresh = tempfile::tempdir().unwrap();
                    let queues = Arc::new(QueueTable::empty(&options(fresh.path())));
                    let geometry = Geometry::new(5_000_000, 20_000_000);
                    let index =
                        with_index.then(|| Arc::new(Index::load(fresh.path().join("index"), geometry, None).unwrap()));
                    let dispatcher = Dispatcher::new(queues, index, None, DelayLevels::default());
                    while dispatcher.position() < log.wrote().get() / WARM {
                        dispatcher.drain(&log, || log.wrote().get(), 1 << 20).unwrap();
                    }
                    let start = cpu_time();
                    black_box(dispatcher.drain(&log, || log.wrote().get(), u64::MAX).unwrap());
                    used += cpu_time() - start;
                }
                used
            });
        });
    }
    group.finish();
}

criterion_group!(benches, dispatch);
criterion_main!(benches);
