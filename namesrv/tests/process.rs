//! `mqnamesrv` as a process: flags, the line that scripts wait for, signals.
#![allow(missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn mqnamesrv(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mqnamesrv"));
    command.env("HOME", home).env_remove("ROCKETMQ_SERIALIZE_TYPE").env("FERROMQ_LOG", "info");
    command
}

fn output(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Kills the process when a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn prints_help_and_all_items() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, _) = output(mqnamesrv(home.path()).arg("-h"));
    assert_eq!(code, 0);
    for flag in ["-c", "--configFile", "-n", "--namesrvAddr", "-p", "--printConfigItem", "-h"] {
        assert!(out.contains(flag), "{flag} in {out}");
    }
    let file = home.path().join("namesrv.conf");
    std::fs::write(&file, "listenPort = 9877\norderMessageEnable=true\n").unwrap();
    let (code, out, _) = output(mqnamesrv(home.path()).arg("-c").arg(&file).arg("-p"));
    assert_eq!(code, 0);
    assert!(out.contains(&format!("load config properties file OK, {}\n", file.display())), "{out}");
    assert!(out.contains("\nlistenPort=9877\n") && out.contains("\norderMessageEnable=true\n"), "{out}");
    assert!(out.contains("\nclientWorkerThreads="), "the client's items too: {out}");
    let (code, out, _) = output(mqnamesrv(home.path()).arg("-p"));
    assert!(code == 0 && out.contains("\nlistenPort=9876\n"), "{out}");
    assert_eq!(output(mqnamesrv(home.path()).arg("-z")).0, 1);
}

#[test]
fn a_malformed_value_stops_the_start() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("namesrv.conf");
    std::fs::write(&file, "\nlistenPort=many\n").unwrap();
    let (code, _, error) = output(mqnamesrv(home.path()).arg("-c").arg(&file));
    assert_eq!(code, 255);
    assert!(error.contains(&format!("{}:2: listenPort=many", file.display())), "{error}");
    let (code, _, error) = output(mqnamesrv(home.path()).arg("-c").arg(home.path().join("none")));
    assert!(code == 255 && error.contains("none"), "{error}");
}

#[test]
fn serves_and_stops_at_a_signal() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("namesrv.conf");
    std::fs::write(&file, "listenPort=0\nbindAddress=127.0.0.1\nuseless=1\n").unwrap();
    for signal in ["TERM", "INT"] {
        let mut command = mqnamesrv(home.path());
        command.arg("-c").arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running(command.spawn().unwrap());
        let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
        let boot =
            lines.find(|line| line.as_ref().unwrap().starts_with("The Name Server boot success.")).unwrap().unwrap();
        let port: u16 = boot.rsplit(':').next().unwrap().parse().unwrap();
        let expected = "The Name Server boot success. serializeType=JSON, address 127.0.0.1:";
        assert!(boot.starts_with(expected), "{boot}");

        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let header = br#"{"code":319,"flag":0,"language":"JAVA","opaque":1,"version":485}"#;
        stream.write_all(&(header.len() as u32 + 4).to_be_bytes()).unwrap();
        stream.write_all(&(header.len() as u32).to_be_bytes()).unwrap();
        stream.write_all(header).unwrap();
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut frame).unwrap();
        let text = String::from_utf8_lossy(&frame);
        assert!(
            text.contains("\nuseless=1\n") && text.contains(&format!("configStorePath={}", file.display())),
            "{text}"
        );

        let kill = Command::new("kill").arg(format!("-{signal}")).arg(running.0.id().to_string()).status().unwrap();
        assert!(kill.success());
        let start = Instant::now();
        let status = loop {
            if let Some(status) = running.0.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "still there after SIG{signal}");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}");
        let mut log = String::new();
        running.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(log.contains("unknown key useless"), "{log}");
    }
}
