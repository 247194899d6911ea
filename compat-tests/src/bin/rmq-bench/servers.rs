//! Starts and stops a name server and a broker, ours or Java's, on free ports and an empty store.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error>;

/// Whose servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The release binaries of this workspace.
    Ours,
    /// The Java reference.
    Java,
}

/// Where things are.
pub struct Places {
    /// Directory of our binaries.
    pub binaries: PathBuf,
    /// Directory of the Java reference's jars.
    pub jars: PathBuf,
    /// Scratch directory; the store is made in it.
    pub scratch: PathBuf,
}

/// A running pair; dropping it kills what has not ended.
pub struct Servers {
    children: Vec<Child>,
    /// Address of the broker.
    pub broker: String,
    /// Milliseconds from the broker's start to its first answer.
    pub start_ms: f64,
    store: PathBuf,
}

impl Servers {
    /// Starts both and waits until the broker answers.
    ///
    /// # Errors
    /// A program that does not start, or no answer within a minute.
    pub fn start(whose: Whose, places: &Places, flush: &str) -> Result<Servers, Error> {
        let store = places.scratch.join("store");
        let _ = fs::remove_dir_all(&store);
        fs::create_dir_all(places.scratch.join("conf"))?;
        let (names, broker) = (free_port()?, free_port_pair()?);
        let scratch = places.scratch.display();
        let (names_file, broker_file) = (places.scratch.join("namesrv.conf"), places.scratch.join("broker.conf"));
        fs::write(
            &names_file,
            format!("listenPort={names}\nkvConfigPath={scratch}/kv.json\nconfigStorePath={scratch}/ns.properties\n"),
        )?;
        fs::write(
            &broker_file,
            format!(
                "brokerClusterName=bench\nbrokerName=bench\nbrokerId=0\nbrokerIP1=127.0.0.1\nlistenPort={broker}\n\
                 haListenPort={}\nnamesrvAddr=127.0.0.1:{names}\nstorePathRootDir={scratch}/store\n\
                 storePathCommitLog={scratch}/store/commitlog\nflushDiskType={flush}\nautoCreateTopicEnable=true\n\
                 diskMaxUsedSpaceRatio=95\nwaitTimeMillsInSendQueue=5000\nsendThreadPoolQueueCapacity=100000\n",
                broker + 1
            ),
        )?;
        let mut servers = Servers { children: Vec::new(), broker: format!("127.0.0.1:{broker}"), start_ms: 0.0, store };
        servers.spawn(program(whose, places, true), &names_file, places, whose)?;
        wait_for(names)?;
        let started = Instant::now();
        servers.spawn(program(whose, places, false), &broker_file, places, whose)?;
        wait_for(broker)?;
        servers.start_ms = started.elapsed().as_secs_f64() * 1e3;
        Ok(servers)
    }

    fn spawn(&mut self, mut command: Command, file: &Path, places: &Places, whose: Whose) -> Result<(), Error> {
        let log = fs::File::create(places.scratch.join(format!("{whose:?}-{}.log", self.children.len())))?;
        command.arg("-c").arg(file).env("ROCKETMQ_HOME", &places.scratch).current_dir(&places.scratch);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
        self.children.push(child);
        Ok(())
    }

    /// Process id of the broker.
    pub fn broker_pid(&self) -> u32 {
        self.children.last().map(Child::id).unwrap_or_default()
    }

    /// Stops both in order and removes the store.
    pub fn stop(mut self) {
        for child in self.children.iter_mut().rev() {
            if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            let limit = Instant::now() + Duration::from_secs(60);
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < limit {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.store);
    }
}

fn program(whose: Whose, places: &Places, names: bool) -> Command {
    match whose {
        Whose::Ours => Command::new(places.binaries.join(if names { "mqnamesrv" } else { "mqbroker" })),
        Whose::Java => {
            let (heap, main) = if names {
                ("256m", "org.apache.rocketmq.namesrv.NamesrvStartup")
            } else {
                ("2g", "org.apache.rocketmq.broker.BrokerStartup")
            };
            let mut command = Command::new("java");
            command.args([&format!("-Xms{heap}"), &format!("-Xmx{heap}")]);
            command
                .args(["-Drmq.logback.configurationFile=/dev/null", "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED"]);
            command.arg(format!("-Duser.home={}", places.scratch.display()));
            command.arg("-cp").arg(format!("{}/*", places.jars.display())).arg(main);
            command
        }
    }
}

/// A port that is free now.
///
/// # Errors
/// What the system says.
pub fn free_port() -> Result<u16, Error> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A port whose neighbours for the VIP and the HA listener are free as well.
fn free_port_pair() -> Result<u16, Error> {
    for _ in 0..50 {
        let port = free_port()?;
        let free = |port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
        if port > 2000 && port < 65_000 && free(port - 2) && free(port + 1) {
            return Ok(port);
        }
    }
    Err("no free ports".into())
}

/// Waits until somebody listens on a port.
///
/// # Errors
/// Nobody within a minute.
pub fn wait_for(port: u16) -> Result<(), Error> {
    let limit = Instant::now() + Duration::from_secs(60);
    while Instant::now() < limit {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(format!("nobody listens on port {port}").into())
}

/// Brings the Java reference's jars through Maven, once.
///
/// # Errors
/// No Maven, or no way to Maven Central.
pub fn java_reference(target: &Path) -> Result<PathBuf, Error> {
    let directory = target.join("java-reference-5.5.0");
    let complete = directory.join(".complete");
    if !complete.exists() {
        fs::create_dir_all(&directory)?;
        let pom = directory.join("pom.xml");
        fs::write(&pom, include_str!("reference-pom.xml"))?;
        println!("bringing the Java reference from Maven Central");
        let status = Command::new("mvn")
            .args(["-q", "-B", "-f"])
            .arg(&pom)
            .arg("dependency:copy-dependencies")
            .arg(format!("-DoutputDirectory={}", directory.display()))
            .status()
            .map_err(|error| format!("mvn: {error}"))?;
        if !status.success() {
            return Err("Maven could not bring the Java reference".into());
        }
        fs::write(complete, "")?;
    }
    Ok(directory)
}
