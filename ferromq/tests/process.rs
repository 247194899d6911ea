//! The real process: its banner, its two servers, its stop.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The running program; killed when a test fails before it stops it.
struct Ferromq {
    child: Child,
    banner: String,
}

impl Ferromq {
    /// Starts on free ports and waits for the banner.
    fn start(dir: &Path) -> Ferromq {
        Ferromq::run(ferromq(dir))
    }

    fn run(mut command: Command) -> Ferromq {
        let mut child = command
            .args(["--namesrv-port", "0", "--listen-port", "0", "--bind", "127.0.0.1"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut running = Ferromq { child, banner: String::new() };
        // The end of the output ends this as well: then the program has failed.
        while !running.banner.contains("Ctrl-C") {
            assert!(lines.read_line(&mut running.banner).unwrap() > 0, "no banner: {}", running.banner);
        }
        // Kept open, so that the program can go on printing.
        std::thread::spawn(move || lines.read_to_string(&mut String::new()));
        running
    }

    /// What the banner says behind a word.
    fn says(&self, word: &str) -> &str {
        let line = self.banner.lines().find_map(|line| line.trim().strip_prefix(word)).unwrap();
        line.split_whitespace().next().unwrap()
    }

    /// Sends a signal and waits for the end.
    fn stop(mut self, signal: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("still running after {signal}");
    }
}

impl Drop for Ferromq {
    fn drop(&mut self) {
        // Fails when it has ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ferromq(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferromq"));
    command.current_dir(dir).env_remove("NAMESRV_ADDR").env_remove("FERROMQ_LOG").env_remove("ROCKETMQ_SERIALIZE_TYPE");
    command
}

fn output(arguments: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    ferromq(dir.path()).args(arguments).output().unwrap()
}

/// Sends a request with JSON headers; returns the answer's frame behind its length.
fn exchange(addr: &str, code: i32) -> Vec<u8> {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let header = format!(
        r#"{{"code":{code},"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":505}}"#
    );
    let mut frame = u32::try_from(4 + header.len()).unwrap().to_be_bytes().to_vec();
    frame.extend(u32::try_from(header.len()).unwrap().to_be_bytes());
    frame.extend(header.as_bytes());
    stream.write_all(&frame).unwrap();

    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut rest = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut rest).unwrap();
    rest
}

/// Sends a request; returns the code and the body of a JSON answer.
fn call(addr: &str, code: i32) -> (i64, String) {
    let rest = exchange(addr, code);
    let header = usize::from(rest[1]) << 16 | usize::from(rest[2]) << 8 | usize::from(rest[3]);
    let answer: serde_json::Value = serde_json::from_slice(&rest[4..4 + header]).unwrap();
    (answer["code"].as_i64().unwrap(), String::from_utf8_lossy(&rest[4 + header..]).into_owned())
}

/// GET_BROKER_CLUSTER_INFO
const CLUSTER_INFO: i32 = 106;
/// GET_BROKER_CONFIG
const BROKER_CONFIG: i32 = 26;

#[test]
fn it_serves_says_so_and_stops_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    for signal in ["-TERM", "-INT"] {
        let ferromq = Ferromq::start(dir.path());
        let (namesrv, broker) = (ferromq.says("name server"), ferromq.says("broker"));
        let store = dir.path().join("ferromq-data").canonicalize().unwrap();
        assert_eq!(ferromq.says("store"), store.to_str().unwrap());

        let (code, cluster) = call(namesrv, CLUSTER_INFO);
        assert_eq!(code, 0);
        assert!(cluster.contains(broker), "{broker} is registered: {cluster}");
        let (code, config) = call(broker, BROKER_CONFIG);
        assert_eq!(code, 0);
        assert!(config.contains("\nautoCreateTopicEnable=true\n"), "{config}");
        assert!(config.contains(&format!("\nnamesrvAddr={namesrv}\n")), "{config}");
        assert!(store.join("abort").exists());

        assert_eq!(ferromq.stop(signal), Some(0), "{signal}");
        assert!(!store.join("abort").exists(), "a clean stop after {signal}");
    }
}

#[test]
fn a_port_in_use_is_an_error_that_names_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let output = output(&["--namesrv-port", &addr.port().to_string(), "--listen-port", "0", "--bind", "127.0.0.1"]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains(&addr.to_string()), "{complaint}");
}

#[test]
fn wrong_flags_and_values_stop_the_start() {
    let wrong = output(&["--no-such-flag"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("--no-such-flag"));
    let bad = output(&["--set", "maxMessageSize=big"]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&bad.stderr).contains("maxMessageSize=big: expected a whole number"));
    let help = output(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let text = String::from_utf8_lossy(&help.stdout);
    for flag in ["--config", "--namesrv-port", "--listen-port", "--store", "--set"] {
        assert!(text.contains(flag), "{flag} in {text}");
    }
}

#[test]
fn both_servers_lay_out_headers_as_the_environment_says() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = ferromq(dir.path());
    command.env("ROCKETMQ_SERIALIZE_TYPE", "ROCKETMQ");
    let ferromq = Ferromq::run(command);
    for (server, code) in [("name server", CLUSTER_INFO), ("broker", BROKER_CONFIG)] {
        // The first byte of a header's length: 1 is the binary layout.
        assert_eq!(exchange(ferromq.says(server), code)[0], 1, "{server}");
    }
    assert_eq!(ferromq.stop("-TERM"), Some(0));

    let mut command = self::ferromq(dir.path());
    let output = command.env("ROCKETMQ_SERIALIZE_TYPE", "XML").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("ROCKETMQ_SERIALIZE_TYPE=XML: expected JSON or ROCKETMQ"), "{complaint}");
}
