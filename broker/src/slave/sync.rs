//! Copies what is not in the log from the master: topics, groups, offsets, and how far delivery has come.
//!
//! Everything once when a master is found and each [`ALL_PERIOD`] afterwards; topics and groups besides when a message comes of
//! a topic that is not known or was made anew; the timer's progress each [`PERIOD`], since what the timer holds at hand depends on it. Each table is taken over whole or not at all, and what cannot be had does not keep
//! back the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use config::{Live, MessageStoreConfig};
use parking_lot::Mutex;
use remoting::body::topic::DataVersion;
use store::{Store, TopicPolicy};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fetch::{Fetch, SyncError};
use super::queues::Suspects;
use crate::groups::Groups;
use crate::ha::Ha;
use crate::identity::Identity;
use crate::offsets::Offsets;
use crate::request_modes::RequestModes;
use crate::schedule::Schedule;
use crate::send::is_batch;
use crate::static_topics::StaticTopics;
use crate::timer::Timer;
use crate::topics::TopicTable;

/// How often the timer's progress is asked for; also the pause after a failure.
const PERIOD: Duration = Duration::from_secs(3);
/// How often all tables are.
const ALL_PERIOD: Duration = Duration::from_secs(60);

/// What a [`MetadataSync`] works with.
pub struct SyncParts {
    /// Names and addresses.
    pub identity: Arc<Identity>,
    /// Store keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// Messages.
    pub store: Arc<Store>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Which of them are static.
    pub static_topics: Arc<StaticTopics>,
    /// Set when there is a message of a topic that is not known: the topics are copied soon then.
    pub strange: Arc<AtomicBool>,
    /// Consumer groups.
    pub groups: Arc<Groups>,
    /// Consumers' offsets.
    pub offsets: Arc<Offsets>,
    /// How groups take messages.
    pub request_modes: Arc<RequestModes>,
    /// Delayed messages.
    pub schedule: Arc<Schedule>,
    /// Messages for an arbitrary time.
    pub timer: Option<Arc<Timer>>,
    /// Replication of the log.
    pub ha: Arc<Ha>,
}

/// Copies the master's tables.
pub struct MetadataSync {
    pub(super) parts: SyncParts,
    pub(super) fetch: Fetch,
    master: Mutex<Option<String>>,
    /// The master has changed.
    found: Notify,
    /// Whether the last attempt failed, so that each streak is logged once.
    failing: AtomicBool,
    /// What may be here and is not the master's any more.
    pub(super) suspects: Mutex<Suspects>,
}

impl MetadataSync {
    /// Nothing is asked before [`MetadataSync::set_master`].
    pub fn new(parts: SyncParts) -> MetadataSync {
        let fetch = Fetch::new(&parts.identity);
        MetadataSync {
            parts,
            fetch,
            master: Mutex::new(None),
            found: Notify::new(),
            failing: AtomicBool::new(false),
            suspects: Mutex::default(),
        }
    }

    /// Sets the address of the master that is copied; `None`: none is there, nothing is asked.
    pub fn set_master(&self, addr: Option<&str>) {
        let mut master = self.master.lock();
        // A name server may know us as the master still, from before our role was changed.
        let addr = addr.filter(|addr| *addr != self.parts.identity.addr).map(str::to_owned);
        if *master == addr {
            return;
        }
        tracing::info!(from = ?*master, to = ?addr, "the master has changed");
        if addr.is_none() {
            self.fetch.close();
        }
        *master = addr;
        self.found.notify_one();
    }

    /// The master that is copied.
    pub fn master(&self) -> Option<String> {
        self.master.lock().clone()
    }

    /// Asks other brokers.
    pub fn fetch(&self) -> &Fetch {
        &self.fetch
    }

    /// Copies until `stop`; calls `known` once the topics of a new master have been copied, or cannot be had soon.
    pub async fn run(&self, stop: CancellationToken, known: impl Fn()) {
        let mut all_at: Option<Instant> = None;
        loop {
            let changed = tokio::select! {
                () = stop.cancelled() => return,
                () = self.found.notified() => true,
                () = tokio::time::sleep(PERIOD) => false,
            };
            if self.master().is_none() {
                continue;
            }
            let work = async {
                if changed {
                    if let Ok(topics) = tokio::time::timeout(PERIOD, self.copy_topics()).await {
                        self.report(topics);
                    }
                    known();
                }
                let anew = self.note_begun_anew();
                if changed || all_at.is_none_or(|at| Instant::now() >= at) {
                    self.suspect_some();
                    all_at = self.copy_all().await.then(|| Instant::now() + ALL_PERIOD);
                } else if self.parts.strange.swap(false, Ordering::Relaxed) || anew {
                    self.copy_new().await;
                }
                let compared = self.compare_queues().await;
                self.report(compared);
                self.copy_timer_marks().await
            };
            tokio::select! {
                () = stop.cancelled() => return,
                result = work => self.report(result),
            }
        }
    }

    /// Copies topics and groups, and the offsets of topics that were made anew.
    async fn copy_new(&self) {
        let Some(master) = self.master() else { return };
        let (topics, groups) = (self.copy_topics().await, self.copy_groups(&master).await);
        self.report(topics);
        self.report(groups);
        if self.suspects.lock().has_offsets() {
            let offsets = self.copy_offsets(&master).await;
            self.report(offsets);
        }
    }

    /// Copies all tables; false: one of them could not be had. Without a master there is nothing to copy.
    pub async fn copy_all(&self) -> bool {
        let Some(master) = self.master() else { return true };
        let mut whole = true;
        for result in [
            self.copy_topics().await,
            self.copy_offsets(&master).await,
            self.copy_delay_offsets(&master).await,
            self.copy_groups(&master).await,
            self.copy_request_modes(&master).await,
            self.copy_timer_counts(&master).await,
        ] {
            // An old broker does not know every code: what it refuses is not tried again at once.
            whole &= matches!(result, Ok(()) | Err(SyncError::Refused { .. }));
            self.report(result);
        }
        if whole && self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("the tables of the master are copied again");
        }
        whole
    }

    /// Copies how far the master's timer has come.
    ///
    /// # Errors
    /// See [`SyncError`].
    pub async fn copy_timer_marks(&self) -> Result<(), SyncError> {
        let (Some(master), Some(timer)) = (self.master(), &self.parts.timer) else { return Ok(()) };
        if timer.delivers() {
            return Ok(());
        }
        // Before it is asked: what it delivers from now on stands behind.
        let log_end = self.parts.store.wrote().get();
        let marks = self.fetch.timer_marks(&master).await?;
        timer.follow(&marks, Some(log_end));
        Ok(())
    }

    async fn copy_topics(&self) -> Result<(), SyncError> {
        let Some(master) = self.master() else { return Ok(()) };
        let of_master = self.fetch.topics(&master).await?;
        let gone = self.parts.topics.take_over(of_master.topic_config_table, of_master.data_version);
        self.suspects.lock().add(&gone);
        crate::config_file::off_worker(|| self.follow_kinds(&gone));
        // Old brokers have none.
        if of_master.mapping_data_version != DataVersion::default() {
            let mappings = of_master.topic_queue_mapping_detail_map;
            self.parts.static_topics.take_over(mappings, of_master.mapping_data_version);
        }
        Ok(())
    }

    /// Messages may come before their topic: what was made of them before it was known is made right.
    fn follow_kinds(&self, gone: &[String]) {
        let store = &self.parts.store;
        for topic in self.parts.topics.snapshot() {
            match store.set_queue_kind(&topic.topic_name, is_batch(&topic)) {
                Ok(0) => {}
                Ok(queues) => {
                    let batch = is_batch(&topic);
                    tracing::info!(
                        topic = topic.topic_name,
                        queues,
                        batch,
                        "queues are made anew as the topic wants them"
                    );
                }
                Err(error) => tracing::error!(topic = topic.topic_name, %error, "queues are not what the topic wants"),
            }
        }
        for topic in gone {
            if let Err(error) = store.set_topic_policy(topic, TopicPolicy::default()) {
                tracing::error!(topic, %error, "not all of the compacted log of a topic that is gone is removed");
            }
        }
    }

    async fn copy_offsets(&self, master: &str) -> Result<(), SyncError> {
        let of_master = self.fetch.offsets(master).await?;
        // What is here of a topic that was deleted would stay: the master's is added to it.
        let anew = self.suspects.lock().take_offsets();
        for topic in anew {
            self.parts.offsets.remove_topic(&topic);
        }
        Ok(self.parts.offsets.take_over(of_master)?)
    }

    async fn copy_delay_offsets(&self, master: &str) -> Result<(), SyncError> {
        let of_master = self.fetch.delay_offsets(master).await?;
        crate::config_file::off_worker(|| self.parts.schedule.take_over(&of_master));
        Ok(())
    }

    async fn copy_groups(&self, master: &str) -> Result<(), SyncError> {
        self.parts.groups.take_over(self.fetch.groups(master).await?);
        Ok(())
    }

    async fn copy_request_modes(&self, master: &str) -> Result<(), SyncError> {
        Ok(self.parts.request_modes.take_over(self.fetch.request_modes(master).await?)?)
    }

    async fn copy_timer_counts(&self, master: &str) -> Result<(), SyncError> {
        let Some(timer) = self.parts.timer.as_ref().filter(|timer| !timer.delivers()) else { return Ok(()) };
        let of_master = self.fetch.timer_counts(master).await?;
        crate::config_file::off_worker(|| timer.counts().take_over(&of_master));
        Ok(())
    }

    /// Logs a failure, the first of a streak aloud.
    fn report(&self, result: Result<(), SyncError>) {
        match result {
            Ok(()) => {}
            Err(error) if self.failing.swap(true, Ordering::Relaxed) => {
                tracing::debug!(%error, "cannot copy a table of the master");
            }
            Err(error) => tracing::warn!(%error, "cannot copy a table of the master, trying again"),
        }
    }
}
