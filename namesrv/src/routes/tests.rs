//! The tables without sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use remoting::body::data_version::DataVersion;
use remoting::body::register::RegisterBrokerBody;
use remoting::body::route::{QueueData, TopicRouteData};
use remoting::body::topic::TopicConfig;
use remoting::body::topic_queue_mapping::TopicQueueMappingInfo;

use super::brokers::Instance;
use super::live::{Link, Print};
use super::{MinIdChange, Refused, Registered, Registration, RouteRules, Routes};
use crate::kv::{KvStore, ORDER_TOPIC_CONFIG};

const PLAIN: RouteRules = RouteRules { acting_master: false, order: false };
const ACTING: RouteRules = RouteRules { acting_master: true, order: false };

struct World {
    routes: Routes,
    kv: Arc<KvStore>,
    news: Arc<Mutex<Vec<MinIdChange>>>,
    _folder: tempfile::TempDir,
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let kv = Arc::new(KvStore::load(&folder.path().join("kvConfig.json")).unwrap());
    let news = Arc::new(Mutex::new(Vec::new()));
    let sink = news.clone();
    World { routes: Routes::new(kv.clone(), move |change| sink.lock().push(change)), kv, news, _folder: folder }
}

fn registration(name: &str, id: i64, addr: &'static str) -> Registration<'static> {
    Registration {
        cluster: "c",
        addr,
        name: String::leak(name.to_owned()),
        id,
        ha_addr: "ha:1",
        zone: None,
        timeout_millis: None,
        acting_master: Some(false),
        link: Link::numbered(1),
    }
}

fn body(topics: &[(&str, i32)], counter: i64) -> RegisterBrokerBody {
    let mut body = RegisterBrokerBody { filter_server_list: Some(Vec::new()), ..RegisterBrokerBody::default() };
    let wrapper = &mut body.topic_config_serialize_wrapper;
    wrapper.data_version = DataVersion { counter, ..DataVersion::default() };
    for (name, perm) in topics {
        wrapper.topic_config_table.insert((*name).to_owned(), TopicConfig::new(*name, 8, *perm));
    }
    body
}

fn print(body: &RegisterBrokerBody) -> Print {
    Print::of(&body.to_plain().unwrap(), 0..0).0
}

impl World {
    fn register(&self, registration: &Registration<'_>, body: RegisterBrokerBody) -> Result<Registered, Refused> {
        let print = print(&body);
        self.routes.register(registration, body, print, false, true)
    }

    fn refresh(&self, registration: &Registration<'_>, body: &RegisterBrokerBody) -> Option<Registered> {
        self.routes.refresh(registration, &body.topic_config_serialize_wrapper.data_version, print(body))
    }

    fn perm(&self, topic: &str) -> Option<i32> {
        Some(self.routes.route(topic, PLAIN)?.queue_datas[0].perm)
    }

    fn addrs(&self, topic: &str, rules: RouteRules) -> Vec<(i64, String)> {
        let route = self.routes.route(topic, rules).unwrap_or_default();
        route.broker_datas.into_iter().flat_map(|broker| broker.broker_addrs).collect()
    }
}

#[test]
fn an_unchanged_registration_is_recognized_without_reading_it() {
    let world = world();
    let mut master = registration("b", 0, "a:1");
    let full = body(&[("T1", 6), ("T2", 6)], 1);
    assert_eq!(world.refresh(&master, &full), None, "not known yet");
    world.register(&master, full.clone()).unwrap();
    assert_eq!(world.refresh(&master, &full), Some(Registered::default()));
    assert_eq!(world.refresh(&master, &body(&[("T1", 6)], 1)), None, "another body of the same version");
    assert_eq!(world.refresh(&master, &body(&[("T1", 6), ("T2", 6)], 2)), None, "another version");

    // One more topic, in a registration of its own; then the full table of that version, twice.
    world.register(&master, body(&[("T3", 6)], 2)).unwrap();
    let full = body(&[("T1", 6), ("T2", 6), ("T3", 6)], 2);
    assert_eq!(world.refresh(&master, &full), None);
    world.register(&master, full.clone()).unwrap();
    assert!(world.refresh(&master, &full).is_some());
    assert!(world.refresh(&master, &body(&[("T3", 6)], 2)).is_some(), "both bodies are known");

    master.zone = Some("z");
    assert_eq!(world.refresh(&master, &full), None, "the header says something new");
    world.register(&master, full.clone()).unwrap();
    assert!(world.refresh(&master, &full).is_some());
    master.link = Link::numbered(2);
    assert_eq!(world.refresh(&master, &full), None, "another connection");
}

#[test]
fn a_topic_deleted_here_comes_back_with_the_next_registration() {
    let world = world();
    let master = registration("b", 0, "a:1");
    let full = body(&[("T1", 6), ("T2", 6)], 1);
    for delete in [(|world| world.routes.delete_topic("T1")) as fn(&World), |world| {
        world.routes.delete_topic_in_cluster("T1", "c")
    }] {
        world.register(&master, full.clone()).unwrap();
        assert!(world.refresh(&master, &full).is_some());
        delete(&world);
        assert_eq!(world.perm("T1"), None);
        assert_eq!(world.perm("T2"), Some(6));
        assert_eq!(world.refresh(&master, &full), None, "has to be read again");
        world.register(&master, full.clone()).unwrap();
        assert_eq!(world.perm("T1"), Some(6));
    }
    world.routes.delete_topic_in_cluster("T1", "other");
    assert_eq!(world.perm("T1"), Some(6));
}

#[test]
fn topics_that_a_registration_lacks_go_when_so_configured() {
    let world = world();
    let master = registration("b", 0, "a:1");
    let full = body(&[("T1", 6), ("T2", 6)], 1);
    world.register(&master, full.clone()).unwrap();
    world.routes.register_topic("T3", vec![QueueData { broker_name: "b".into(), ..QueueData::default() }]);
    assert!(world.perm("T3").is_some());
    assert_eq!(world.refresh(&master, &full), None, "T3 has to be looked at");
    world.routes.register(&master, full.clone(), print(&full), true, false).unwrap();
    assert_eq!(world.perm("T3"), None);
    assert_eq!(world.routes.all_topics().topic_list, ["T1", "T2"]);
    assert!(world.refresh(&master, &full).is_some());
}

#[test]
fn a_slave_brings_no_topics_unless_it_stands_in_for_the_master() {
    let world = world();
    let mut slave = registration("b", 1, "s:1");
    slave.acting_master = None;
    world.register(&slave, body(&[("T1", 6), ("T2", 6)], 1)).unwrap();
    assert!(world.routes.topics().is_empty(), "an old slave");
    slave.acting_master = Some(true);
    world.register(&slave, body(&[("T1", 6), ("T2", 6)], 1)).unwrap();
    assert_eq!(world.perm("T1"), Some(4), "nobody takes messages");
    assert_eq!(world.addrs("T1", PLAIN), [(1, "s:1".into())]);
    assert_eq!(world.addrs("T1", ACTING), [(0, "s:1".into())]);

    let mut master = registration("b", 0, "m:1");
    master.acting_master = Some(true);
    let registered = world.register(&slave, body(&[], 1)).unwrap();
    assert_eq!(registered, Registered::default(), "no master yet");
    world.register(&master, body(&[("T1", 6), ("T2", 6)], 1)).unwrap();
    let registered = world.register(&slave, body(&[], 1)).unwrap();
    assert_eq!(registered, Registered { ha_addr: Some("ha:1".into()), master_addr: Some("m:1".into()) });
    assert_eq!(world.refresh(&slave, &body(&[], 1)), Some(registered));
    assert_eq!(world.perm("T1"), Some(6));
    assert_eq!(world.addrs("T1", ACTING), [(0, "m:1".into()), (1, "s:1".into())]);
    let change = MinIdChange {
        addrs: [(0, "m:1".to_owned()), (1, "s:1".to_owned())].into(),
        offline_addr: None,
        ha_addr: Some("ha:1".into()),
    };
    assert_eq!(std::mem::take(&mut *world.news.lock()), [change]);

    // The master leaves: nobody takes messages, the slave is shown as master to those who accept that.
    world.routes.unregister(&Instance::new("c", "m:1"), "b", 0, true);
    assert_eq!(world.perm("T1"), Some(4));
    assert_eq!(world.addrs("T1", ACTING), [(0, "s:1".into())]);
    assert_eq!(world.addrs("T1", PLAIN), [(1, "s:1".into())]);
    let change = MinIdChange { addrs: [(1, "s:1".to_owned())].into(), offline_addr: Some("m:1".into()), ha_addr: None };
    assert_eq!(std::mem::take(&mut *world.news.lock()), [change]);
    // Now the slave stands in: its unchanged registration has to be read, its topics count.
    assert_eq!(world.refresh(&slave, &body(&[], 1)), None);
    world.register(&slave, body(&[("T3", 6), ("T4", 6)], 1)).unwrap();
    assert_eq!(world.perm("T3"), Some(4));
}

#[test]
fn members_of_a_sync_topic_are_shown_as_they_are() {
    let world = world();
    let mut slave = registration("b", 1, "s:1");
    slave.acting_master = Some(true);
    let topic = "rmq_sys_SYNC_BROKER_MEMBER_b";
    world.register(&slave, body(&[(topic, 1), ("T", 6)], 1)).unwrap();
    assert_eq!(world.addrs(topic, ACTING), [(1, "s:1".into())]);
    assert_eq!(world.addrs("T", ACTING), [(0, "s:1".into())]);
}

#[test]
fn an_instance_that_changes_its_role_is_there_once() {
    let world = world();
    world.register(&registration("b", 1, "a:1"), body(&[("T", 6), ("U", 6)], 1)).unwrap();
    world.register(&registration("b", 0, "a:1"), body(&[("T", 6), ("U", 6)], 1)).unwrap();
    assert_eq!(world.addrs("T", PLAIN), [(0, "a:1".into())]);
}

#[test]
fn an_older_state_version_does_not_take_an_id_over() {
    let world = world();
    let versioned = |state_version| {
        let mut body = body(&[("T", 6), ("U", 6)], 1);
        body.topic_config_serialize_wrapper.data_version.state_version = state_version;
        body
    };
    world.register(&registration("b", 0, "a:1"), versioned(2)).unwrap();
    world.register(&registration("b", 0, "b:1"), versioned(1)).unwrap();
    assert_eq!(world.addrs("T", PLAIN), [(0, "a:1".into())]);
    assert!(world.routes.version_of(&Instance::new("c", "b:1")).is_none());
    world.register(&registration("b", 0, "b:1"), versioned(2)).unwrap();
    assert_eq!(world.addrs("T", PLAIN), [(0, "b:1".into())]);
}

#[test]
fn n_03_a_registration_on_a_new_connection_survives_the_old_ones_end() {
    let world = world();
    let mut master = registration("b", 0, "a:1");
    let full = body(&[("T1", 6), ("T2", 6)], 1);
    world.register(&master, full.clone()).unwrap();
    assert!(world.routes.has_registered(1));
    master.link = Link::numbered(2);
    world.register(&master, full).unwrap();
    world.routes.connection_closed(1, false);
    assert_eq!(world.perm("T1"), Some(6));
    world.routes.connection_closed(2, false);
    assert_eq!(world.perm("T1"), None);
    assert!(world.routes.topics().is_empty());
    assert!(world.routes.brokers().by_name.is_empty() && world.routes.brokers().clusters.is_empty());
}

#[test]
fn silent_brokers_go_the_others_stay() {
    let world = world();
    let mut silent = registration("b", 0, "a:1");
    silent.timeout_millis = Some(-1);
    world.register(&silent, body(&[("T1", 6), ("T2", 6)], 1)).unwrap();
    let mut other = registration("d", 0, "d:1");
    other.link = Link::numbered(2);
    world.register(&other, body(&[("T1", 6), ("T2", 6)], 1)).unwrap();
    world.routes.expire(false);
    assert_eq!(world.addrs("T1", PLAIN), [(0, "d:1".into())]);
}

#[test]
fn a_topic_is_entered_only_for_known_brokers() {
    let world = world();
    world.register(&registration("b", 0, "a:1"), body(&[("T1", 6), ("T2", 6)], 1)).unwrap();
    let queue = |broker: &str| QueueData { broker_name: broker.into(), perm: 6, ..QueueData::default() };
    world.routes.register_topic("T3", vec![queue("b"), queue("x")]);
    assert_eq!(world.perm("T3"), None);
    world.routes.register_topic("T3", vec![queue("b")]);
    assert_eq!(world.perm("T3"), Some(6));
    world.routes.unregister(&Instance::new("c", "a:1"), "b", 0, false);
    assert!(world.routes.topics().is_empty(), "it goes with its broker");
}

#[test]
fn lists() {
    let world = world();
    world.register(&registration("b", 0, "a:1"), body(&[("T1", 6), ("T2", 6)], 1)).unwrap();
    let queue = |flag| QueueData { broker_name: "b".into(), topic_sys_flag: flag, ..QueueData::default() };
    for (topic, flag) in [("unit", 1), ("sub", 2), ("both", 3)] {
        world.routes.register_topic(topic, vec![queue(flag)]);
    }
    assert_eq!(world.routes.all_topics().topic_list, ["T1", "T2", "both", "sub", "unit"]);
    assert_eq!(world.routes.topics_of_cluster("c").topic_list.len(), 5);
    assert_eq!(world.routes.topics_of_cluster("x").topic_list.len(), 0);
    assert_eq!(world.routes.unit_topics().topic_list, ["both", "unit"]);
    assert_eq!(world.routes.unit_sub_topics().topic_list, ["both", "sub"]);
    assert_eq!(world.routes.unit_sub_ununit_topics().topic_list, ["sub"]);
    let system = world.routes.system_topics();
    assert_eq!((system.topic_list, system.broker_addr), (vec!["b".into(), "c".into()], Some("a:1".into())));
    assert_eq!(world.routes.member_group(Some("c"), Some("b")).broker_addrs, [(0, "a:1".into())].into());
    assert!(world.routes.member_group(Some("c"), Some("x")).broker_addrs.is_empty());
}

#[test]
fn cached_answers_follow_every_change() {
    let world = world();
    let order = RouteRules { acting_master: false, order: true };
    let read = |rules, standard| {
        let bytes = world.routes.encoded_route("T1", rules, standard)?;
        Some(remoting::body::fastjson::from_slice::<TopicRouteData>(&bytes).unwrap())
    };
    assert_eq!(read(PLAIN, false), None);
    world.register(&registration("b", 0, "a:1"), body(&[("T1", 6), ("T2", 6)], 1)).unwrap();
    let mut steps = Vec::new();
    let mut check = |what: &str| {
        for rules in [PLAIN, ACTING, order] {
            let route = world.routes.route("T1", rules);
            assert_eq!(read(rules, false), route, "{what}");
            assert_eq!(read(rules, true), route, "{what}");
            assert_eq!(read(rules, true), route, "{what}, from the cache");
        }
        let now = world.routes.route("T1", order);
        assert!(!steps.contains(&now), "{what} must show");
        steps.push(now);
    };
    check("registered");
    world.register(&registration("b", 1, "s:1"), body(&[], 1)).unwrap();
    check("a slave came");
    world.kv.put(ORDER_TOPIC_CONFIG, "T1", "b:8");
    world.routes.invalidate();
    check("order configuration");
    world.routes.wipe_write_perm("b");
    check("permission");
    let mut filters = body(&[("T1", 6), ("T2", 6)], 1);
    filters.filter_server_list = Some(vec!["f:1".into()]);
    world.register(&registration("b", 0, "a:1"), filters).unwrap();
    check("a filter server");
    let mut mapped = body(&[("T1", 6), ("T2", 6)], 2);
    let info = TopicQueueMappingInfo { bname: Some("b".into()), topic: Some("T1".into()), ..Default::default() };
    mapped.topic_config_serialize_wrapper.topic_queue_mapping_info_map.insert("T1".into(), info);
    world.register(&registration("b", 0, "a:1"), mapped).unwrap();
    check("a mapping");
    world.routes.unregister(&Instance::new("c", "s:1"), "b", 1, false);
    check("the slave left");
    world.routes.unregister(&Instance::new("c", "a:1"), "b", 0, false);
    check("all left");
}

/// Registrations, deletions and route queries at once: a route is whole or not there, and the end state is right.
#[test]
fn readers_see_whole_routes_while_brokers_come_and_go() {
    let world = world();
    let names: Vec<String> = (0..50).map(|at| format!("T{at}")).collect();
    let topics: Vec<(&str, i32)> = names.iter().map(|name| (name.as_str(), 6)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for broker in ["b", "d"] {
            let (world, topics) = (&world, &topics);
            let addr: &'static str = if broker == "b" { "b:1" } else { "d:1" };
            let done = &done;
            scope.spawn(move || {
                for round in 0..60 {
                    let master = registration(broker, 0, addr);
                    let full = body(topics, round);
                    world.register(&master, full.clone()).unwrap();
                    if round % 3 == 0 {
                        world.routes.unregister(&Instance::new("c", addr), broker, 0, false);
                        world.register(&master, full).unwrap();
                    }
                }
                done.store(true, Ordering::SeqCst);
            });
        }
        let (world, names, done) = (&world, &names, &done);
        scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                for name in names {
                    if let Some(bytes) = world.routes.encoded_route(name, PLAIN, true) {
                        let route: TopicRouteData = remoting::body::fastjson::from_slice(&bytes).unwrap();
                        assert!(!route.broker_datas.is_empty() && !route.queue_datas.is_empty());
                        assert!(route.broker_datas.iter().all(|broker| broker.broker_addrs.len() == 1));
                    }
                }
            }
        });
    });
    for name in &names {
        let bytes = world.routes.encoded_route(name, PLAIN, true).unwrap();
        let route: TopicRouteData = remoting::body::fastjson::from_slice(&bytes).unwrap();
        assert_eq!(route.broker_datas.len(), 2);
    }
}

/// Two of the registrations that a Java 5.5.0 broker sent every 30 seconds: they differ in the time inside the mapping version.
#[test]
fn a_java_brokers_repeated_registration_is_recognized() {
    let world = world();
    let master = registration("broker-a", 0, "127.0.0.1:10711");
    let [first, second] = [
        &include_bytes!("testdata/java-registration-1.json")[..],
        &include_bytes!("testdata/java-registration-2.json")[..],
    ];
    assert_ne!(first, second);
    let print = |body: &[u8]| {
        let peek = remoting::body::register::peek(body, false, 513).unwrap();
        (peek.version, Print::of(body, peek.volatile).0)
    };
    let (version, printed) = print(first);
    assert_eq!(world.routes.refresh(&master, &version, printed), None);
    let body = RegisterBrokerBody::read(first, false, 513).unwrap();
    let topics = body.topic_config_serialize_wrapper.topic_config_table.len();
    world.routes.register(&master, body, printed, false, false).unwrap();
    assert_eq!(world.routes.topics().len(), topics);
    let (version, printed) = print(second);
    assert_eq!(world.routes.refresh(&master, &version, printed), Some(Registered::default()));
}

/// No body makes the reader panic, and what it takes, the tables take.
#[test]
fn damaged_registrations_are_harmless() {
    let world = world();
    let master = registration("broker-a", 0, "127.0.0.1:10711");
    let plain = include_bytes!("testdata/java-registration-1.json");
    let compressed = RegisterBrokerBody::read(plain, false, 513).unwrap().to_compressed().unwrap();
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let (mut taken, mut refused) = (0, 0);
    for round in 0..3000 {
        let (source, is_compressed): (&[u8], bool) = if round % 2 == 0 { (plain, false) } else { (&compressed, true) };
        let mut body = source.to_vec();
        for _ in 0..=random(3) {
            let at = random(body.len());
            body[at] = random(256) as u8;
        }
        body.truncate(1 + random(2 * source.len()));
        let version = [30, 401, 513][random(3)];
        let volatile = remoting::body::register::peek(&body, is_compressed, version).map_or(0..0, |peek| peek.volatile);
        let printed = Print::of(&body, volatile).0;
        match RegisterBrokerBody::read(&body, is_compressed, version) {
            Ok(body) => {
                taken += 1;
                let _ = world.routes.register(&master, body, printed, round % 3 == 0, true);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
}
