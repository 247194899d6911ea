//! The server over real sockets, with raw bytes.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use remoting::client::Client;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Lane, Outcome, Router, Server, ServerOptions};
use remoting::{Command, Reply, RequestCode, ResponseCode, SerializeType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

remoting::header! {
    /// What the echo handler reads.
    pub struct EchoHeader<'a>: strict {
        "text" text: Cow<'a, str>,
        "times" times: i32 = 1,
    }
}

/// Answers with the body, repeated, and the text.
struct Echo;
impl Handler for Echo {
    type Request<'a> = EchoHeader<'a>;
    fn handle(&self, cx: &mut Cx<'_>, request: EchoHeader<'_>) -> Outcome {
        let body = cx.body();
        cx.write_with(ResponseCode::SUCCESS, Some(&request.text), &Empty, |out| {
            for _ in 0..request.times {
                out.extend_from_slice(body);
            }
        })
    }
}

/// Answers after a while, from elsewhere.
struct Slow;
impl Handler for Slow {
    type Request<'a> = Empty;
    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let body = Bytes::copy_from_slice(cx.body());
        Outcome::Later(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Reply::ok().body(body)
        }))
    }
}

/// Asks the client back before it answers.
struct AskBack;
impl Handler for AskBack {
    type Request<'a> = Empty;
    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let conn = cx.conn().clone();
        Outcome::Later(Box::pin(async move {
            match conn.call(Command::request(RequestCode::GET_CONSUMER_RUNNING_INFO), Duration::from_secs(5)).await {
                Ok(answer) => Reply::ok().body(answer.body),
                Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()),
            }
        }))
    }
}

/// Who the server thinks the client is.
struct WhoAmI;
impl Handler for WhoAmI {
    type Request<'a> = Empty;
    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let conn = cx.conn();
        Reply::ok().field("client", conn.client()).field("peer", conn.peer()).into()
    }
}

const ECHO: RequestCode = RequestCode::SEND_MESSAGE;
const ECHO_BLOCKING: RequestCode = RequestCode::QUERY_MESSAGE;
const SLOW: RequestCode = RequestCode::PULL_MESSAGE;
const ASK_BACK: RequestCode = RequestCode::HEART_BEAT;
const WHO_AM_I: RequestCode = RequestCode::POP_MESSAGE;

struct Running {
    addr: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    closed: Arc<AtomicUsize>,
}

fn start(adjust: impl FnOnce(&mut ServerOptions)) -> Running {
    let mut router = Router::new();
    router.on(ECHO, Lane::Inline, Arc::new(Echo));
    router.on(ECHO_BLOCKING, Lane::Blocking, Arc::new(Echo));
    router.on(SLOW, Lane::Inline, Arc::new(Slow));
    router.on(ASK_BACK, Lane::Inline, Arc::new(AskBack));
    router.on(WHO_AM_I, Lane::Inline, Arc::new(WhoAmI));
    let closed = Arc::new(AtomicUsize::new(0));
    let count = closed.clone();
    router.set_closed(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let mut options = ServerOptions { listen: ([127, 0, 0, 1], 0).into(), ..ServerOptions::default() };
    adjust(&mut options);
    let server = Server::bind(options, Arc::new(router)).unwrap();
    let (addr, stop) = (server.local_addr(), CancellationToken::new());
    let task = tokio::spawn(server.run(stop.clone()));
    Running { addr, stop, task, closed }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(10), self.task).await.expect("the server stops").unwrap();
    }
}

fn echo(opaque: i32, text: &str, body: &[u8]) -> Vec<u8> {
    request(ECHO, opaque, &[("text", text)], body)
}

fn request(code: RequestCode, opaque: i32, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut command = Command::request(code).body(body.to_vec());
    command.opaque = opaque;
    for (name, value) in fields {
        command = command.field(name, value);
    }
    let mut out = Vec::new();
    command.encode(SerializeType::Json, &mut out);
    out
}

async fn answer(socket: &mut TcpStream) -> Command {
    within(async {
        let mut word = [0; 8];
        socket.read_exact(&mut word).await.unwrap();
        let total = u32::from_be_bytes([word[0], word[1], word[2], word[3]]) as usize;
        let header = u32::from_be_bytes([0, word[5], word[6], word[7]]) as usize;
        let mut rest = vec![0; total - 4];
        socket.read_exact(&mut rest).await.unwrap();
        let body = Bytes::from(rest.split_off(header));
        Command::decode(SerializeType::Json, &rest, body).unwrap()
    })
    .await
}

/// Waits until the peer has closed; bytes before that are thrown away.
async fn closed(socket: &mut TcpStream) {
    within(async {
        let mut buffer = [0; 4096];
        while let Ok(1..) = socket.read(&mut buffer).await {}
    })
    .await;
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("within the limit")
}

async fn works(running: &Running) {
    let mut socket = running.connect().await;
    socket.write_all(&echo(1, "fine", b"x")).await.unwrap();
    assert_eq!(answer(&mut socket).await.remark.as_deref(), Some("fine"));
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_over_any_cut() {
    let running = start(|_| {});
    let mut socket = running.connect().await;
    let mut bytes = Vec::new();
    for opaque in 0..50 {
        bytes.extend(echo(opaque, &format!("n{opaque}"), &vec![7; opaque as usize * 13]));
    }
    for piece in bytes.chunks(97) {
        socket.write_all(piece).await.unwrap();
        tokio::task::yield_now().await;
    }
    for opaque in 0..50 {
        let got = answer(&mut socket).await;
        assert_eq!((got.opaque, got.code, got.flag & 1), (opaque, 0, 1));
        assert_eq!(got.body.len(), opaque as usize * 13);
        assert_eq!(got.remark, Some(format!("n{opaque}")));
    }
    drop(socket);
    running.stop().await;
}

/// Several requests are read before the first of them is handled, and those before a bad frame are handled all the same.
#[tokio::test]
async fn a_bad_frame_takes_nothing_from_those_before_it() {
    for good in [1, 7, 8, 9, 16, 21] {
        let running = start(|_| {});
        let mut socket = running.connect().await;
        let mut bytes: Vec<u8> = (0..good).flat_map(|opaque| echo(opaque, "good", b"x")).collect();
        let mut bad = echo(99, "bad", b"");
        bad[4] = 7;
        bytes.extend(bad);
        bytes.extend(echo(100, "behind it", b""));
        socket.write_all(&bytes).await.unwrap();
        for opaque in 0..good {
            assert_eq!(answer(&mut socket).await.opaque, opaque);
        }
        let mut rest = Vec::new();
        within(socket.read_to_end(&mut rest)).await.ok();
        assert!(rest.is_empty(), "{good}");
        running.stop().await;
    }
}

#[tokio::test]
async fn both_header_layouts_on_one_connection() {
    let running = start(|_| {});
    let mut socket = running.connect().await;
    let mut command = Command::request(ECHO).field("text", "binary");
    command.opaque = 5;
    let mut bytes = Vec::new();
    command.encode(SerializeType::RocketMq, &mut bytes);
    bytes.extend(echo(6, "json", b""));
    socket.write_all(&bytes).await.unwrap();
    assert_eq!(answer(&mut socket).await.remark.as_deref(), Some("binary"));
    assert_eq!(answer(&mut socket).await.remark.as_deref(), Some("json"));
    running.stop().await;
}

#[tokio::test]
async fn a_frame_larger_than_the_read_buffer() {
    let running = start(|_| {});
    let mut socket = running.connect().await;
    let body: Vec<u8> = (0..3_000_000u32).map(|at| at as u8).collect();
    socket.write_all(&echo(1, "large", &body)).await.unwrap();
    assert_eq!(answer(&mut socket).await.body, body);
    socket.write_all(&echo(2, "after", b"")).await.unwrap();
    assert_eq!(answer(&mut socket).await.opaque, 2);
    running.stop().await;
}

#[tokio::test]
async fn later_and_blocking_answers_come() {
    let running = start(|_| {});
    let mut socket = running.connect().await;
    socket.write_all(&request(SLOW, 1, &[], b"late")).await.unwrap();
    socket.write_all(&request(ECHO_BLOCKING, 2, &[("text", "b")], b"blocking")).await.unwrap();
    let mut got = [answer(&mut socket).await, answer(&mut socket).await];
    got.sort_by_key(|answer| answer.opaque);
    assert_eq!((&got[0].body[..], &got[1].body[..]), (&b"late"[..], &b"blocking"[..]));
    // A request under way is answered although the server stops.
    socket.write_all(&request(SLOW, 3, &[], b"last")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let stopping = tokio::spawn(running.stop());
    assert_eq!(&answer(&mut socket).await.body[..], b"last");
    closed(&mut socket).await;
    stopping.await.unwrap();
}

#[tokio::test]
async fn b_01_malformed_frames() {
    let running = start(|_| {});
    let whole = echo(1, "x", b"");
    let with_type_7 = {
        let mut frame = whole.clone();
        frame[4] = 7;
        frame
    };
    let binary = {
        let mut out = Vec::new();
        Command::request(ECHO).field("text", "x").encode(SerializeType::RocketMq, &mut out);
        // Three bytes less of header, with lengths that say so.
        out.truncate(out.len() - 3);
        let total = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&total.to_be_bytes());
        out[4..8].copy_from_slice(&((1 << 24) | (total - 4)).to_be_bytes());
        out
    };
    let json = |text: &str| {
        let mut frame = ((text.len() + 4) as u32).to_be_bytes().to_vec();
        frame.extend((text.len() as u32).to_be_bytes());
        frame.extend(text.as_bytes());
        frame
    };
    let inputs: Vec<Vec<u8>> = vec![
        vec![0, 0, 0, 0, 0, 0, 0, 0],
        vec![0, 0, 0, 3, 1, 2, 3],
        vec![0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0],
        vec![0, 0, 0, 8, 0, 0, 0, 100, b'{', b'}', 0, 0],
        json("{\"code\":30,"),
        json("{code:30,flag:0}"),
        binary,
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        with_type_7,
        vec![0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 10],
    ];
    let mut bystander = running.connect().await;
    for (at, input) in inputs.iter().enumerate() {
        let mut socket = running.connect().await;
        socket.write_all(input).await.unwrap();
        tokio::time::timeout(Duration::from_secs(5), closed(&mut socket))
            .await
            .unwrap_or_else(|_| panic!("input {at}"));
        bystander.write_all(&echo(at as i32, "still", b"")).await.unwrap();
        assert_eq!(answer(&mut bystander).await.opaque, at as i32);
    }
    works(&running).await;
    running.stop().await;
}

#[tokio::test]
async fn b_03_missing_and_wrong_fields() {
    let running = start(|_| {});
    let mut socket = running.connect().await;
    for (opaque, fields) in [(1, vec![]), (2, vec![("text", "x"), ("times", "abc")])] {
        socket.write_all(&request(ECHO, opaque, &fields, b"")).await.unwrap();
        let got = answer(&mut socket).await;
        assert_eq!((got.code, got.opaque), (1, opaque));
        assert!(got.remark.is_some_and(|remark| !remark.is_empty()));
    }
    socket.write_all(&echo(3, "fine", b"")).await.unwrap();
    assert_eq!(answer(&mut socket).await.code, 0);
    running.stop().await;
}

#[tokio::test]
async fn b_05_unknown_request_code() {
    let running = start(|_| {});
    let mut socket = running.connect().await;
    for code in [9999, -5] {
        socket.write_all(&request(RequestCode(code), 77, &[], b"")).await.unwrap();
        let got = answer(&mut socket).await;
        assert_eq!((got.code, got.opaque, got.flag & 1), (3, 77, 1));
        assert_eq!(got.remark, Some(format!(" request type {code} not supported")));
    }
    let send = |flag: i32, code: i32| {
        let mut command = Command::request(RequestCode(code)).field("text", "quiet");
        (command.flag, command.opaque) = (flag, 4711);
        let mut out = Vec::new();
        command.encode(SerializeType::Json, &mut out);
        out
    };
    socket.write_all(&send(2, 9999)).await.unwrap();
    socket.write_all(&send(1, 0)).await.unwrap();
    socket.write_all(&send(2, ECHO.0)).await.unwrap();
    // The next answer is that of the next request: the three got none.
    socket.write_all(&echo(8, "next", b"")).await.unwrap();
    assert_eq!(answer(&mut socket).await.opaque, 8);
    running.stop().await;
}

#[tokio::test]
async fn b_07_proxy_protocol() {
    let running = start(|_| {});
    let v1 = b"PROXY TCP4 1.2.3.4 5.6.7.8 1111 2222\r\n".to_vec();
    let mut v2 = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    v2.extend([0x21, 0x11, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 0x04, 0x57, 0x08, 0xAE]);
    for (head, cut) in [(&v1, 0), (&v2, 0), (&v2, 14)] {
        let mut socket = running.connect().await;
        socket.set_nodelay(true).unwrap();
        socket.write_all(&head[..cut]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
        socket.write_all(&head[cut..]).await.unwrap();
        socket.write_all(&request(WHO_AM_I, 1, &[], b"")).await.unwrap();
        let got = answer(&mut socket).await;
        assert_eq!(got.get("client"), Some("1.2.3.4:1111"));
        assert_eq!(got.get("peer"), Some(socket.local_addr().unwrap().to_string().as_str()));
    }
    running.stop().await;
}

#[tokio::test]
async fn b_09_idle_connection() {
    let running = start(|options| options.idle = Duration::from_secs(2));
    let mut quiet = running.connect().await;
    let mut talking = running.connect().await;
    quiet.write_all(&echo(1, "once", b"")).await.unwrap();
    answer(&mut quiet).await;
    let since = std::time::Instant::now();
    let talk = async {
        for opaque in 0..12 {
            talking.write_all(&echo(opaque, "again", b"")).await.unwrap();
            answer(&mut talking).await;
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    };
    let gone = async {
        closed(&mut quiet).await;
        since.elapsed()
    };
    let ((), gone) = tokio::join!(talk, gone);
    assert!(gone >= Duration::from_secs(2) && gone < Duration::from_secs(6), "{gone:?}");
    assert_eq!(running.closed.load(Ordering::SeqCst), 1);
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_held_back() {
    let running = start(|options| options.high_water = 64 * 1024);
    let mut deaf = running.connect().await;
    let one = request(ECHO, 1, &[("text", "x"), ("times", "20")], &[1; 10_000]);
    let writer = async {
        // 200 KB an answer: far fewer requests are handled than are sent while nobody reads.
        for _ in 0..2_000 {
            if deaf.write_all(&one).await.is_err() {
                return;
            }
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(2), writer).await.is_err(), "the server stops reading");
    works(&running).await;
    // It goes on as soon as the client reads.
    for _ in 0..20 {
        assert_eq!(answer(&mut deaf).await.body.len(), 200_000);
    }
    drop(deaf);
    running.stop().await;
}

#[tokio::test]
async fn the_server_calls_the_client() {
    struct Info;
    impl Handler for Info {
        type Request<'a> = Empty;
        fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
            Reply::ok().body("client's info").into()
        }
    }
    let running = start(|_| {});
    let mut router = Router::new();
    router.on(RequestCode::GET_CONSUMER_RUNNING_INFO, Lane::Inline, Arc::new(Info));
    let client = Client::new(Some(Arc::new(router)));
    let addr = running.addr.to_string();
    let got = client.call(&addr, Command::request(ASK_BACK), Duration::from_secs(5)).await.unwrap();
    assert_eq!(&got.body[..], b"client's info");
    client.close();
    running.stop().await;
}

#[tokio::test]
async fn a_call_fails_when_the_connection_breaks() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 64];
        let _ = socket.read(&mut buffer).await;
    });
    let client = Client::new(None);
    let error = client.call(&addr, Command::request(ECHO), Duration::from_secs(5)).await.unwrap_err();
    assert!(error.to_string().contains("broke"), "{error}");
    let error = client.call(&addr, Command::request(ECHO), Duration::from_secs(5)).await.unwrap_err();
    assert!(error.to_string().contains("cannot connect"), "{error}");
}
