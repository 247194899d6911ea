//! A name server and a broker, ours or Java's, set up to be measured: default file sizes, an empty store beside the build, and for Java
//! the heap that its own scripts would give it and no log.

use std::fs;
use std::path::PathBuf;

use compat_tests::harness::binaries;
use compat_tests::harness::servers::{Broker, BrokerOptions, Namesrv, Whose};

type Error = Box<dyn std::error::Error>;

/// What the JVM of a Java name server gets.
pub const NAMESRV_JVM: [&str; 3] = ["-Xms1g", "-Xmx1g", NO_LOG];
/// What the JVM of a Java broker gets.
pub const BROKER_JVM: [&str; 3] = ["-Xms2g", "-Xmx2g", NO_LOG];
const NO_LOG: &str = "-Drmq.logback.configurationFile=/dev/null";

/// A running pair; dropping it kills both and removes the store.
pub struct Servers {
    broker: Broker,
    namesrv: Namesrv,
    store: Store,
}

/// A directory that is removed at the end. In the target directory: temporary directories may lie in memory.
struct Store(PathBuf);

impl Drop for Store {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Servers {
    /// Starts both and waits until the broker answers.
    ///
    /// # Errors
    /// The store's directory cannot be made.
    ///
    /// # Panics
    /// A program does not start.
    pub fn start(whose: Whose, settings: &[(&str, &str)]) -> Result<Servers, Error> {
        let store = Store(scratch().join("store"));
        let _ = fs::remove_dir_all(&store.0);
        fs::create_dir_all(&store.0)?;
        let namesrv = Namesrv::start_on(whose, &NAMESRV_JVM, "JSON", &[]);
        let options = BrokerOptions::new("bench")
            .whose(whose)
            .jvm(&BROKER_JVM)
            .store(&store.0)
            .set("mappedFileSizeCommitLog", "1073741824")
            .set("diskMaxUsedSpaceRatio", "95")
            .set("sendThreadPoolQueueCapacity", "100000")
            .set("enablePropertyFilter", "true")
            .settings(settings);
        let broker = Broker::start(&options, &[&namesrv]);
        Ok(Servers { broker, namesrv, store })
    }

    /// Address of the broker.
    pub fn address(&self) -> String {
        self.broker.address()
    }

    /// Milliseconds from the broker's start to its first answer.
    pub fn start_ms(&self) -> f64 {
        self.broker.start_time().as_secs_f64() * 1e3
    }

    /// Process id of the broker.
    pub fn broker_pid(&self) -> u32 {
        self.broker.pid()
    }

    /// Stops the broker in order and starts it again: milliseconds to its first answer.
    pub fn restart(&mut self) -> f64 {
        self.broker.stop();
        self.broker.start_again(&[&self.namesrv]);
        self.start_ms()
    }

    /// Stops both in order and removes the store.
    pub fn stop(mut self) {
        self.broker.stop();
        self.namesrv.stop();
        drop(self.store);
    }
}

/// Where big files of the measurements go.
pub fn scratch() -> PathBuf {
    binaries::target().join("bench-scratch")
}
