//! Name servers and brokers, ours or Java's.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use super::frame::{Connection, Frame};
use super::process::Process;
use super::scratch::Scratch;
use super::{binaries, maven, ports, until};

/// How long a start may take, unless another limit is asked for.
const START_LIMIT: Duration = Duration::from_secs(60);
const GET_BROKER_CLUSTER_INFO: i32 = 106;
const GET_BROKER_RUNTIME_INFO: i32 = 28;
const GET_NAMESRV_CONFIG: i32 = 319;
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// The JVM of Java's servers, unless others are asked for: tests write little and run side by side. Without TLS a server
/// makes no certificate for itself, which is more than half of its start.
const SMALL_JVM: [&str; 5] =
    ["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dtls.server.mode=disabled"];

/// Whose servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The release programs of this workspace.
    Ours,
    /// Apache RocketMQ 5.5.0.
    Java,
}

impl Whose {
    /// Ours, unless `COMPAT_SERVER=java`.
    pub fn chosen() -> Self {
        match std::env::var("COMPAT_SERVER") {
            Ok(value) if value == "java" => Self::Java,
            _ => Self::Ours,
        }
    }

    fn command(self, server: &str, home: &Path, serialize: &str, jvm: &[String]) -> Command {
        let mut command = match self {
            Self::Ours => Command::new(binaries::binary(server)),
            Self::Java => {
                let main = if server == "mqnamesrv" { "namesrv.NamesrvStartup" } else { "broker.BrokerStartup" };
                let mut command = Command::new("java");
                command.args(jvm).arg("--add-exports=java.base/sun.nio.ch=ALL-UNNAMED");
                command.arg(format!("-Duser.home={}", home.display())).args(["-cp", &maven::reference()]);
                command.arg(format!("org.apache.rocketmq.{main}"));
                command
            }
        };
        command.env("ROCKETMQ_HOME", home).env("ROCKETMQ_SERIALIZE_TYPE", serialize).current_dir(home);
        command
    }

    /// Checks how a server ended after SIGTERM: the JVM reports the signal even after a clean end.
    #[track_caller]
    fn check_stopped(self, what: &str, status: ExitStatus) {
        let expected = if self == Self::Java { 143 } else { 0 };
        assert_eq!(status.code(), Some(expected), "{what} after SIGTERM");
    }
}

/// How a broker is set up.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    name: String,
    whose: Whose,
    serialize: String,
    settings: Vec<(String, String)>,
    store: Option<PathBuf>,
    jvm: Vec<String>,
    start_limit: Duration,
}

impl BrokerOptions {
    /// A master with this name in the cluster `DefaultCluster`, topics and groups created by use.
    pub fn new(name: &str) -> Self {
        let settings = [
            ("brokerClusterName", "DefaultCluster"),
            ("brokerId", "0"),
            ("brokerIP1", "127.0.0.1"),
            ("autoCreateTopicEnable", "true"),
            ("autoCreateSubscriptionGroup", "true"),
            // A test writes little: 1 GiB of reserved disk for each broker would be waste.
            ("mappedFileSizeCommitLog", "67108864"),
            // On a loaded machine the Java broker refuses (or, one-way, drops) sends that waited 200 ms, which says nothing about either.
            ("waitTimeMillsInSendQueue", "5000"),
            ("deleteWhen", "04"),
            ("fileReservedTime", "7200"),
        ];
        Self {
            name: name.to_owned(),
            whose: Whose::chosen(),
            serialize: "JSON".to_owned(),
            settings: settings.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
            store: None,
            jvm: owned(&SMALL_JVM),
            start_limit: START_LIMIT,
        }
    }

    /// How long a start may take: a long recovery takes longer than usual.
    pub fn start_limit(mut self, limit: Duration) -> Self {
        self.start_limit = limit;
        self
    }

    /// Whose broker.
    pub fn whose(mut self, whose: Whose) -> Self {
        self.whose = whose;
        self
    }

    /// The layout of the headers that the server writes: `JSON` or `ROCKETMQ`.
    pub fn serialize(mut self, layout: &str) -> Self {
        layout.clone_into(&mut self.serialize);
        self
    }

    /// A key of the configuration file.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.retain(|(known, _)| known != key);
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Several keys of the configuration file.
    pub fn settings(mut self, settings: &[(&str, &str)]) -> Self {
        for (key, value) in settings {
            self = self.set(key, value);
        }
        self
    }

    /// What the JVM of a Java broker is started with.
    pub fn jvm(mut self, arguments: &[&str]) -> Self {
        self.jvm = owned(arguments);
        self
    }

    /// An existing store directory; else a new one is made.
    pub fn store(mut self, directory: &Path) -> Self {
        self.store = Some(directory.to_owned());
        self
    }
}

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|argument| (*argument).to_owned()).collect()
}

/// A name server.
pub struct Namesrv {
    process: Process,
    whose: Whose,
    serialize: String,
    jvm: Vec<String>,
    port: u16,
    scratch: Scratch,
}

impl Namesrv {
    /// Starts one on a free port and waits until it answers.
    pub fn start() -> Self {
        Self::start_with(Whose::chosen(), "JSON", &[])
    }

    /// As [`Namesrv::start`], with a layout of headers and keys of the configuration file.
    pub fn start_with(whose: Whose, serialize: &str, settings: &[(&str, &str)]) -> Self {
        Self::start_on(whose, &SMALL_JVM, serialize, settings)
    }

    /// As [`Namesrv::start_with`]; Java's with these arguments of the JVM.
    pub fn start_on(whose: Whose, jvm: &[&str], serialize: &str, settings: &[(&str, &str)]) -> Self {
        let scratch = Scratch::new();
        let port = ports::broker_port();
        let home = scratch.path().display();
        let mut file =
            format!("listenPort={port}\nkvConfigPath={home}/kvConfig.json\nconfigStorePath={home}/stored.conf\n");
        for (key, value) in settings {
            file.push_str(&format!("{key}={value}\n"));
        }
        std::fs::write(scratch.join("namesrv.conf"), file).expect("a configuration file");
        let jvm = owned(jvm);
        let process = Self::spawn(whose, serialize, &jvm, &scratch);
        let mut server = Self { process, whose, serialize: serialize.to_owned(), jvm, port, scratch };
        server.wait();
        server
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Stops it with SIGTERM; its exit code must be that of a clean end.
    #[track_caller]
    pub fn stop(&mut self) {
        let status = self.process.terminate(STOP_LIMIT);
        self.whose.check_stopped("the name server", status);
    }

    /// Kills it.
    #[track_caller]
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again on the same port and files.
    pub fn start_again(&mut self) {
        self.process = Self::spawn(self.whose, &self.serialize, &self.jvm, &self.scratch);
        self.wait();
    }

    /// Whether `broker` is registered here now.
    pub fn knows(&self, broker: &str) -> bool {
        let Some(answer) = ask(&self.address(), &Frame::request(GET_BROKER_CLUSTER_INFO)) else { return false };
        String::from_utf8_lossy(&answer.body).contains(&format!("\"{broker}\""))
    }

    fn spawn(whose: Whose, serialize: &str, jvm: &[String], scratch: &Scratch) -> Process {
        let mut command = whose.command("mqnamesrv", scratch.path(), serialize, jvm);
        command.arg("-c").arg(scratch.join("namesrv.conf"));
        Process::start("mqnamesrv", command, &scratch.join("namesrv.log"))
    }

    fn wait(&mut self) {
        let address = self.address();
        wait_for_answer("the name server", &mut self.process, &address, GET_NAMESRV_CONFIG, START_LIMIT);
    }
}

/// A broker.
pub struct Broker {
    process: Process,
    whose: Whose,
    serialize: String,
    jvm: Vec<String>,
    port: u16,
    store: PathBuf,
    start: Duration,
    start_limit: Duration,
    scratch: Scratch,
}

impl Broker {
    /// Starts one on free ports and waits until it answers and every one of `namesrvs` knows it.
    pub fn start(options: &BrokerOptions, namesrvs: &[&Namesrv]) -> Self {
        let scratch = Scratch::new();
        let port = ports::broker_port();
        let store = options.store.clone().unwrap_or_else(|| scratch.join("store"));
        let addresses: Vec<String> = namesrvs.iter().map(|server| server.address()).collect();
        let mut lines: Vec<(String, String)> = vec![
            ("brokerName".into(), options.name.clone()),
            ("listenPort".into(), port.to_string()),
            ("haListenPort".into(), (port + 1).to_string()),
            ("namesrvAddr".into(), addresses.join(";")),
            ("storePathRootDir".into(), store.display().to_string()),
            ("storePathCommitLog".into(), store.join("commitlog").display().to_string()),
        ];
        for (key, value) in &options.settings {
            lines.retain(|(known, _)| known != key);
            lines.push((key.clone(), value.clone()));
        }
        let file: String = lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        std::fs::write(scratch.join("broker.conf"), file).expect("a configuration file");
        let process = Self::spawn(options.whose, &options.serialize, &options.jvm, &scratch);
        let (whose, serialize, jvm) = (options.whose, options.serialize.clone(), options.jvm.clone());
        let (start, start_limit) = (Duration::ZERO, options.start_limit);
        let mut broker = Self { process, whose, serialize, jvm, port, store, start, start_limit, scratch };
        broker.wait(namesrvs);
        broker
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Whose it is.
    pub fn whose(&self) -> Whose {
        self.whose
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its store directory.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// How long the last start took, to the first answer.
    pub fn start_time(&self) -> Duration {
        self.start
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Stops it with SIGTERM; its exit code must be that of a clean end, and no `abort` file may stay.
    #[track_caller]
    pub fn stop(&mut self) {
        let status = self.process.terminate(STOP_LIMIT);
        self.whose.check_stopped("the broker", status);
        assert!(!self.store.join("abort").exists(), "a clean stop removes the abort file");
    }

    /// Kills it.
    #[track_caller]
    pub fn kill(&mut self) {
        self.process.kill();
        assert!(self.store.join("abort").exists(), "a killed broker leaves the abort file");
    }

    /// Starts it again on the same ports and store.
    pub fn start_again(&mut self, namesrvs: &[&Namesrv]) {
        self.process = Self::spawn(self.whose, &self.serialize, &self.jvm, &self.scratch);
        self.wait(namesrvs);
    }

    /// Starts it again and kills it after a time, wherever it is then.
    pub fn start_and_kill(&mut self, after: Duration) {
        self.process = Self::spawn(self.whose, &self.serialize, &self.jvm, &self.scratch);
        std::thread::sleep(after);
        self.process.kill();
    }

    /// Starts another broker on the store while this one has it, on other ports. It must give up; returns what it wrote.
    #[track_caller]
    pub fn start_beside(&self, whose: Whose) -> String {
        let scratch = Scratch::new();
        let port = ports::broker_port();
        let conf = std::fs::read_to_string(self.scratch.join("broker.conf")).expect("a configuration file");
        let conf = format!("{conf}listenPort={port}\nhaListenPort={}\n", port + 1);
        std::fs::write(scratch.join("broker.conf"), conf).expect("a configuration file");
        let mut process = Self::spawn(whose, &self.serialize, &self.jvm, &scratch);
        let status = process.wait(self.start_limit);
        assert!(!status.success(), "two brokers on one store: {}", process.log());
        process.log()
    }

    /// Starts another server's broker on the same ports and store.
    pub fn start_again_as(&mut self, whose: Whose, namesrvs: &[&Namesrv]) {
        self.whose = whose;
        self.start_again(namesrvs);
    }

    fn spawn(whose: Whose, serialize: &str, jvm: &[String], scratch: &Scratch) -> Process {
        let mut command = whose.command("mqbroker", scratch.path(), serialize, jvm);
        command.arg("-c").arg(scratch.join("broker.conf"));
        Process::start("mqbroker", command, &scratch.join("broker.log"))
    }

    fn wait(&mut self, namesrvs: &[&Namesrv]) {
        let begin = Instant::now();
        let address = self.address();
        wait_for_answer("the broker", &mut self.process, &address, GET_BROKER_RUNTIME_INFO, self.start_limit);
        self.start = begin.elapsed();
        for namesrv in namesrvs {
            until("the broker's registration", Duration::from_secs(60), || namesrv.knows(&address));
        }
    }
}

/// A name server and a broker, the usual pair.
pub struct Servers {
    /// The broker; none after [`Servers::start_namesrv`].
    pub broker: Option<Broker>,
    /// The name server.
    pub namesrv: Namesrv,
}

impl Servers {
    /// Starts both.
    pub fn start(options: &BrokerOptions) -> Self {
        let namesrv = Namesrv::start_with(options.whose, &options.serialize, &[]);
        let broker = Broker::start(options, &[&namesrv]);
        Self { broker: Some(broker), namesrv }
    }

    /// Starts a name server alone.
    pub fn start_namesrv(serialize: &str, settings: &[(&str, &str)]) -> Self {
        Self { broker: None, namesrv: Namesrv::start_with(Whose::chosen(), serialize, settings) }
    }

    /// Address of the name server.
    pub fn namesrv(&self) -> String {
        self.namesrv.address()
    }

    /// Address of the broker.
    ///
    /// # Panics
    /// When there is none.
    pub fn broker(&self) -> String {
        self.broker.as_ref().expect("a broker was started").address()
    }

    /// Kills the broker and starts it again.
    pub fn crash(&mut self) {
        let broker = self.broker.as_mut().expect("a broker was started");
        broker.kill();
        broker.start_again(&[&self.namesrv]);
    }

    /// Stops the broker cleanly and starts it again.
    pub fn restart(&mut self) {
        let broker = self.broker.as_mut().expect("a broker was started");
        broker.stop();
        broker.start_again(&[&self.namesrv]);
    }

    /// Stops both with SIGTERM; both must end cleanly.
    #[track_caller]
    pub fn stop(mut self) {
        if let Some(broker) = &mut self.broker {
            broker.stop();
        }
        self.namesrv.stop();
    }
}

/// A request over a connection of its own; nothing when the server does not answer.
fn ask(address: &str, request: &Frame) -> Option<Frame> {
    let mut connection = Connection::try_open(address).ok()?;
    connection.write(&request.encode());
    connection.receive(Duration::from_secs(5))
}

fn wait_for_answer(what: &str, process: &mut Process, address: &str, code: i32, limit: Duration) {
    let end = Instant::now() + limit;
    loop {
        if ask(address, &Frame::request(code)).is_some() {
            return;
        }
        if let Some(status) = process.ended() {
            panic!("{what} ended while it was starting: {status}\n{}", process.log());
        }
        assert!(Instant::now() < end, "{what} does not answer on {address}\n{}", process.log());
        std::thread::sleep(Duration::from_millis(1));
    }
}
