//! Cases of the wire protocol that need a running server: broken frames, unknown codes, the PROXY protocol, idle connections.

use std::time::{Duration, Instant};

use compat_tests::harness::frame::{ONEWAY, RESPONSE, encode};
use compat_tests::harness::{BrokerOptions, Connection, Frame, Servers, until};

const SEND_MESSAGE: i32 = 10;
const GET_MAX_OFFSET: i32 = 30;
const VIEW_MESSAGE_BY_ID: i32 = 33;
const HEART_BEAT: i32 = 34;
const GET_CONSUMER_LIST_BY_GROUP: i32 = 38;
const NOTIFY_CONSUMER_IDS_CHANGED: i32 = 40;
const GET_BROKER_CLUSTER_INFO: i32 = 106;
const SHORT: Duration = Duration::from_secs(5);

fn servers() -> Servers {
    Servers::start(&BrokerOptions::new("bk1").set("brokerClusterName", "C1"))
}

fn max_offset() -> Frame {
    Frame::request(GET_MAX_OFFSET).field("topic", "TBW102").field("queueId", 0)
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the state of a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|size| size.parse().ok()).expect("a size")
}

/// Each kind of broken frame. Java looks at the first 12 bytes of a connection (a PROXY header?) before it reads any frame: short ones are
/// padded, so that both servers see enough.
fn broken_frames() -> Vec<(&'static str, Vec<u8>)> {
    let binary = {
        // code, language, version, opaque, flag, no remark, no fields: whole it has 21 bytes.
        let mut header = vec![0, 30, 0, 2, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        header.truncate(18);
        header
    };
    vec![
        ("total length 0", vec![0; 16]),
        ("total length 3", [&[0, 0, 0, 3, 1, 2, 3][..], &[0; 9]].concat()),
        ("total length -1", vec![0xFF; 16]),
        ("total length 2 GiB - 1", [&[0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 10][..], &[0; 8]].concat()),
        ("header length 100 in a frame of 8 bytes", vec![0, 0, 0, 8, 0, 0, 0, 100, 1, 2, 3, 4]),
        ("a JSON header that is cut", encode(b"{\"code\":30,", 0, b"")),
        ("a header with unquoted keys", encode(b"{code:30,opaque:x y}", 0, b"")),
        ("a binary header that is cut", encode(&binary, 1, b"")),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
    ]
}

fn close_on_broken_frames(address: &str, pid: u32, normal: &Frame) {
    let mut bystander = Connection::open(address);
    bystander.call(normal);
    let before = resident_kib(pid);
    for (what, bytes) in broken_frames() {
        let mut connection = Connection::open(address);
        connection.write(&bytes);
        assert!(connection.closes_within(SHORT), "{what}: the connection stays open");
        bystander.call(&Frame { opaque: Frame::request(0).opaque, ..normal.clone() });
        Connection::open(address).call(normal);
    }
    // No such type of header: no answer; closing the connection is fine, keeping it is what Java does.
    let mut connection = Connection::open(address);
    connection.write(&encode(b"{\"code\":30}", 7, b""));
    assert!(connection.receive(Duration::from_millis(300)).is_none(), "a header of type 7 was answered");
    Connection::open(address).call(normal);
    let grown = resident_kib(pid).saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB more memory");
}

#[test]
fn b_01_malformed_frames_close_the_connection() {
    let servers = servers();
    let broker = servers.broker.as_ref().expect("a broker");
    close_on_broken_frames(&broker.address(), broker.pid(), &max_offset());
    close_on_broken_frames(&servers.namesrv(), servers.namesrv.pid(), &Frame::request(GET_BROKER_CLUSTER_INFO));
    servers.stop();
}

/// A long run of noise, frame after frame: the server lives, and answers at once.
#[test]
fn b_01_noise_leaves_the_servers_serving() {
    let servers = servers();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let good = max_offset().encode();
    for address in [servers.broker(), servers.namesrv()] {
        for _ in 0..300 {
            let mut connection = Connection::open(&address);
            let mut bytes = good.clone();
            for _ in 0..1 + random() % 6 {
                let at = (random() % bytes.len() as u64) as usize;
                bytes[at] = random() as u8;
            }
            connection.write(&bytes);
            connection.write(&bytes);
        }
        Connection::open(&address).call(&Frame::request(GET_BROKER_CLUSTER_INFO));
    }
    Connection::open(&servers.broker()).call(&max_offset());
    servers.stop();
}

#[test]
fn b_05_unknown_codes_are_answered_with_3() {
    let servers = servers();
    for (address, codes) in [(servers.broker(), [9999, -5]), (servers.namesrv(), [10, 34])] {
        let mut connection = Connection::open(&address);
        for code in codes {
            let request = Frame::request(code).field("topic", "T");
            let answer = connection.call(&request);
            assert_eq!((answer.code, answer.flag), (3, RESPONSE), "{answer:?}");
            let remark = answer.remark.as_deref().unwrap_or_default();
            assert!(remark.contains(&format!(" request type {code} not supported")), "{remark:?}");
        }
        connection.write(&Frame::request(9999).flag(ONEWAY).encode());
        connection.write(&Frame { opaque: 1_000_000, ..Frame::request(0) }.flag(RESPONSE).encode());
        connection.write(&max_offset().flag(ONEWAY).encode());
        // The next answer is the one to the next request: nothing came for the three before.
        connection.call(&Frame::request(9999));
        assert!(connection.receive(Duration::from_millis(300)).is_none(), "a one-way request was answered");
    }
    servers.stop();
}

/// What a proxy writes in front: version 1 is a line, version 2 is binary.
fn proxy_v2() -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C".to_vec();
    bytes.extend([1, 2, 3, 4, 5, 6, 7, 8]);
    bytes.extend(1111_u16.to_be_bytes());
    bytes.extend(2222_u16.to_be_bytes());
    bytes
}

#[test]
fn b_07_connections_through_a_proxy() {
    let servers = servers();
    let send = |number: i32| {
        Frame::request(SEND_MESSAGE)
            .field("producerGroup", "PG")
            .field("topic", "Proxied")
            .field("defaultTopic", "TBW102")
            .field("defaultTopicQueueNums", 1)
            .field("queueId", 0)
            .field("sysFlag", 0)
            .field("bornTimestamp", 1_700_000_000_000_i64)
            .field("flag", 0)
            .field("properties", "")
            .body(format!("message {number}"))
    };
    let v1 = b"PROXY TCP4 1.2.3.4 5.6.7.8 1111 2222\r\n".to_vec();
    let v2 = proxy_v2();
    let (one, two) = v2.split_at(9);
    let openings: [&[&[u8]]; 3] = [&[&v1], &[&v2], &[one, two]];
    for (number, parts) in openings.into_iter().enumerate() {
        let mut connection = Connection::open(&servers.broker());
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                // Two packets, not two parts of one: there is nothing to wait for but time.
                std::thread::sleep(Duration::from_millis(100));
            }
            connection.write(part);
        }
        let answer = connection.call(&send(number as i32));
        assert_eq!(answer.code, 0, "{answer:?}");
        let id = &answer.fields["msgId"];
        let offset = u64::from_str_radix(&id[16..], 16).expect("an offset");
        let record = connection.call(&Frame::request(VIEW_MESSAGE_BY_ID).field("offset", offset)).body;
        // The born host of a record: behind five numbers of 4, two of 8, one of 4 and one of 8 bytes.
        let born = &record[48..56];
        assert_eq!(born[..4], [127, 0, 0, 1], "the peer's address is stored, not the proxy's client");
        assert_eq!(u32::from_be_bytes(born[4..].try_into().expect("4 bytes")), u32::from(connection.local().port()));
    }
    servers.stop();
}

fn heartbeat(client: &str, group: &str) -> Frame {
    Frame::request(HEART_BEAT).body(format!(
        r#"{{"clientID":"{client}","consumerDataSet":[{{"groupName":"{group}","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",
        "consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{{"classFilterMode":false,"topic":"TBW102","subString":"*",
        "tagsSet":[],"codeSet":[],"subVersion":1,"expressionType":"TAG"}}],"unitMode":false}}],"producerDataSet":[]}}"#
    ))
}

fn members(connection: &mut Connection, group: &str) -> String {
    let answer = connection.call(&Frame::request(GET_CONSUMER_LIST_BY_GROUP).field("consumerGroup", group));
    if answer.code == 0 { String::from_utf8_lossy(&answer.body).into_owned() } else { String::new() }
}

/// A connection that is idle is closed after `seconds`, its client leaves its group, and the group's other member is told.
fn idle_connection(servers: Servers, seconds: u64) {
    let broker = servers.broker();
    let mut other = Connection::open(&broker);
    other.call(&heartbeat("other", "GIDLE"));
    let mut idle = Connection::open(&broker);
    idle.call(&heartbeat("idle", "GIDLE"));
    let begin = Instant::now();
    let mut closed = None;
    let mut told = false;
    while closed.is_none() {
        assert!(begin.elapsed() < Duration::from_secs(seconds + 10), "still open after {:?}", begin.elapsed());
        // The other member stays busy, so that it is not idle itself.
        assert!(members(&mut other, "GIDLE").contains("other"));
        if idle.closes_within(Duration::from_millis(500)) {
            closed = Some(begin.elapsed());
        }
    }
    let closed = closed.unwrap_or_default();
    assert!(closed > Duration::from_millis(seconds * 1000 - 500), "closed after {closed:?} already");
    assert!(closed < Duration::from_secs(seconds + 6), "closed after {closed:?} only");
    other.write(&heartbeat("other", "GIDLE").encode());
    while let Some(frame) = other.receive(Duration::from_secs(2)) {
        told |= frame.code == NOTIFY_CONSUMER_IDS_CHANGED && frame.flag & RESPONSE == 0;
    }
    let mut asker = Connection::open(&broker);
    until("the idle member's leave", SHORT, || members(&mut asker, "GIDLE") == r#"{"consumerIdList":["other"]}"#);
    println!("closed after {closed:?}, other member told: {told}");
    servers.stop();
}

#[test]
fn b_09_an_idle_connection_is_closed() {
    let options = BrokerOptions::new("bk1").set("serverChannelMaxIdleTimeSeconds", "4");
    idle_connection(Servers::start(&options), 4);
}

#[test]
#[ignore = "takes two minutes: the default idle time"]
fn b_09_an_idle_connection_is_closed_after_120_seconds() {
    idle_connection(servers(), 120);
}

/// A client whose heartbeats stop is dropped although it keeps its connection busy.
#[test]
fn k_03_a_client_without_heartbeats_expires() {
    let servers = Servers::start(&BrokerOptions::new("bk1").set("channelExpiredTimeout", "6000"));
    let mut silent = Connection::open(&servers.broker());
    silent.call(&heartbeat("silent", "GEXP"));
    let begin = Instant::now();
    let mut asker = Connection::open(&servers.broker());
    assert!(members(&mut asker, "GEXP").contains("silent"));
    until("the expiry", Duration::from_secs(25), || !members(&mut asker, "GEXP").contains("silent"));
    let gone = begin.elapsed();
    assert!(gone > Duration::from_millis(5500), "gone after {gone:?} already");
    assert!(silent.closes_within(SHORT), "the silent connection stays open");
    println!("gone after {gone:?}");
    servers.stop();
}
