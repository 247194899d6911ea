//! What an append costs without its dispatch: checks, crc, lock, clock, encoding into the mapped file.
//!
//! The log is deleted from the front while it runs, so that the disk does not fill up.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use criterion::{Bencher, Criterion, Throughput, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};
use store::commitlog::{AppendLimits, Batch, CommitLog, NextOffset};
use store::{Inner, NewMessage};

const FILE_LEN: usize = 1 << 30;
const PROPERTIES: &[u8] = b"UNIQ_KEY\x017F0000010A2B18B4AAC24B5E7F2A0000\x02WAIT\x01true\x02TAGS\x01TagA\x02";

fn appends(c: &mut Criterion) {
    let limits = AppendLimits {
        max_body: 4 << 20,
        long_topics: true,
        crc_property: false,
        store_host: "127.0.0.1:10911".parse().expect("an address"),
    };
    let born_host: SocketAddr = "127.0.0.1:45678".parse().expect("an address");
    let mut group = c.benchmark_group("append");
    for size in [128, 1024] {
        let dir = tempfile::tempdir().expect("a directory");
        let log = Arc::new(CommitLog::load(dir.path().join("commitlog"), FILE_LEN).expect("an empty log"));
        let prepare = {
            let log = Arc::clone(&log);
            std::thread::spawn(move || log.prepare())
        };
        let next = AtomicI64::new(0);
        let queue = NextOffset { topic: "BenchmarkTest", queue_id: 0, next: &next };
        let body = vec![b'x'; size];
        let message = NewMessage {
            flag: 0,
            sys_flag: 0,
            born_timestamp: 1_700_000_000_000,
            born_host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            properties: PROPERTIES,
            body: &body,
        };
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("one of {size} B"), |bencher| {
            cpu_time(bencher, || {
                let appended = log.append(queue, black_box(&message), &limits).expect("an append");
                if appended.phys_offset % (FILE_LEN as u64) < 4096 {
                    log.segments().delete_before(appended.phys_offset).expect("a deletion");
                }
            });
        });
        let inner = [Inner { flag: 0, properties: PROPERTIES, body: &body }; 32];
        let common = NewMessage { body: &[], ..message };
        group.throughput(Throughput::Elements(32));
        group.bench_function(format!("batch of 32 of {size} B"), |bencher| {
            cpu_time(bencher, || {
                let batch = Batch { common: &common, inner: black_box(&inner) };
                let appended = log.append_batch(queue, &batch, &limits, &mut |_| ()).expect("an append");
                if appended.phys_offset % (FILE_LEN as u64) < 65_536 {
                    log.segments().delete_before(appended.phys_offset).expect("a deletion");
                }
            });
        });
        log.refuse("over");
        log.stop_preparing().expect("the end");
        prepare.join().expect("the thread");
    }
    group.finish();
}

/// Measures CPU time of the thread (user and system), which other load on the machine does not change.
fn cpu_time(bencher: &mut Bencher<'_>, mut run: impl FnMut()) {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    bencher.iter_custom(|times| {
        let start = now();
        (0..times).for_each(|_| run());
        now() - start
    });
}

criterion_group! {
    name = benches;
    // Short: it writes some GB a second.
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = appends
}
criterion_main!(benches);
