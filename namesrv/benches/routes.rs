//! 20,000 topics of 8 queues on 2 brokers: registrations that change nothing, one topic, everything; route queries, alone and
//! while registrations are applied.
#![allow(missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use namesrv::kv::KvStore;
use namesrv::routes::live::{self, Claim, Link, Print};
use namesrv::routes::{Registration, RouteRules, Routes};
use remoting::body::data_version::DataVersion;
use remoting::body::register::{self, RegisterBrokerBody};
use remoting::body::topic::TopicConfig;

const TOPICS: usize = 20_000;
const RULES: RouteRules = RouteRules { acting_master: false, order: false };

fn registration(name: &'static str, addr: &'static str) -> Registration<'static> {
    Registration {
        cluster: "DefaultCluster",
        addr,
        name,
        id: 0,
        ha_addr: "10.0.0.1:10912",
        zone: None,
        timeout_millis: None,
        acting_master: Some(false),
        link: Link::numbered(1),
    }
}

fn body(topics: impl Iterator<Item = usize>, counter: i64, queues: i32) -> (Vec<u8>, i32) {
    let mut body = RegisterBrokerBody { filter_server_list: Some(Vec::new()), ..RegisterBrokerBody::default() };
    let wrapper = &mut body.topic_config_serialize_wrapper;
    wrapper.data_version = DataVersion { counter, ..DataVersion::default() };
    for at in topics {
        let name = format!("some-department.some-service.topic-{at}");
        wrapper.topic_config_table.insert(name.clone(), TopicConfig::new(name, queues, 6));
    }
    let body = body.to_plain().expect("plain values");
    let checksum = live::checksum(crc32fast::hash(&body));
    (body, checksum)
}

/// What the handler does with a body, in place.
fn register(routes: &Routes, registration: &Registration<'_>, (body, checksum): &(Vec<u8>, i32)) {
    let checksum = *checksum;
    let peek = register::peek(body, false, 513).expect("our own layout");
    let claim = Claim::of(body, peek.volatile.clone(), checksum).expect("a checksum");
    if routes.refresh_claimed(registration, &peek.version, &claim).is_none() {
        let (print, crc) = Print::of(body, peek.volatile);
        assert_eq!(live::checksum(crc), checksum);
        let body = RegisterBrokerBody::read(body, false, 513).expect("our own body");
        routes.register(registration, body, print, false, false).expect("more than one topic");
    }
}

fn benches(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let kv = Arc::new(KvStore::load(&folder.path().join("kv")).expect("no file"));
    let routes = Routes::new(kv, |_| {});
    let (a, b) = (registration("broker-a", "10.0.0.1:10911"), registration("broker-b", "10.0.0.2:10911"));
    let full = body(0..TOPICS, 1, 8);
    register(&routes, &a, &full);
    register(&routes, &b, &full);
    println!("a full body has {} bytes", full.0.len());

    c.bench_function("registration_unchanged", |bench| bench.iter(|| register(&routes, &a, &full)));
    c.bench_function("registration_one_topic_changed", |bench| {
        let mut counter = 1;
        bench.iter_batched(
            || {
                counter += 1;
                body(7..8, counter, 8 + (counter % 2) as i32)
            },
            |one| register(&routes, &a, &one),
            BatchSize::SmallInput,
        );
    });
    c.bench_function("registration_full_with_one_topic_changed", |bench| {
        let mut counter = 1_000_000_000;
        bench.iter_batched(
            || {
                counter += 1;
                body(0..TOPICS, counter, 8)
            },
            |full| register(&routes, &a, &full),
            BatchSize::PerIteration,
        );
    });

    let names: Vec<String> = (0..TOPICS).map(|at| format!("some-department.some-service.topic-{at}")).collect();
    let mut at = 0;
    let mut query = || {
        at = (at + 7919) % TOPICS;
        routes.encoded_route(&names[at], RULES, true).expect("registered")
    };
    c.bench_function("route_query", |bench| bench.iter(&mut query));

    // The same while one broker registers its whole table under a new version again and again.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut counter = 2_000_000_000;
            while !done.load(Ordering::Relaxed) {
                counter += 1;
                register(&routes, &b, &body(0..TOPICS, counter, 8 + (counter % 2) as i32));
            }
        });
        c.bench_function("route_query_while_registering", |bench| bench.iter(&mut query));
        let mut times: Vec<_> = (0..200_000)
            .map(|_| {
                let start = Instant::now();
                black_box(query());
                start.elapsed()
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        times.sort_unstable();
        let of = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!(
            "route query while registering: p50 {:?}, p99 {:?}, p99.9 {:?}, max {:?}",
            of(0.5),
            of(0.99),
            of(0.999),
            of(1.0)
        );
    });
}

criterion_group!(routes, benches);
criterion_main!(routes);
