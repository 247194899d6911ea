//! What a broker asks another one of its group for: the tables that are not in the log.
//!
//! Topics and groups come in pages of [`PAGE`] entries; a table that changes between two pages is read from its beginning. A
//! table is handed over whole or not at all.

use std::time::{Duration, Instant};

use remoting::body::fastjson::{self, JsonError};
use remoting::body::kv::KvTable;
use remoting::body::request_mode::MessageRequestModes;
use remoting::body::subscription_group::SubscriptionGroupTable;
use remoting::body::topic::{DataVersion, TopicConfigAndMapping};
use remoting::client::{Client, ClientError};
use remoting::header::{ExchangeHAInfo, GetAllSubscriptionGroup, GetAllTopicConfig};
use remoting::{Command, RequestCode, ResponseCode};
use serde::de::DeserializeOwned;
use store::timer::Marks;
use thiserror::Error;

use crate::identity::{Identity, VIP_DISTANCE};
use crate::offsets::OffsetTables;
use crate::schedule::DelayOffsets;
use crate::timer::TimerCounts;

/// Entries of a page.
const PAGE: i32 = 2000;
/// How long a page may take.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long all pages of a table may take.
const TABLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long other answers may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Why another broker's table was not taken over. Nothing was changed.
#[derive(Debug, Error)]
pub enum SyncError {
    /// No answer.
    #[error(transparent)]
    Call(#[from] ClientError),
    /// Another code than success.
    #[error("code {code}: {remark}")]
    Refused {
        /// The code.
        code: i32,
        /// What the other says.
        remark: String,
    },
    /// A body that is none.
    #[error("the answer cannot be read: {0}")]
    Body(#[from] JsonError),
    /// An answer that cannot be the whole table.
    #[error("the answer is not whole")]
    Partial,
    /// Taken over, but not saved: the next time tries again.
    #[error(transparent)]
    Disk(#[from] store::StoreError),
}

/// Where a broker is reached for replication, and what it had when it started (906).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaInfo {
    /// The address for replicas.
    pub ha_addr: Option<String>,
    /// Its end of the log at its start.
    pub flush_offset: Option<i64>,
    /// The address for clients.
    pub addr: Option<String>,
}

/// A table that comes in pages.
trait Paged: DeserializeOwned + Default {
    /// The field of an answer that says how many entries the table has.
    const TOTAL: &'static str;
    /// Whether it is asked for at the second port, as Java does.
    const SECOND_PORT: bool;

    /// Asks for the page that begins at an entry, of the table of a version; empty: of whatever version.
    fn request(from: i32, version: &str) -> Command;

    fn version(&self) -> DataVersion;

    /// How many of the entries there are that pages are counted in.
    fn entries(&self) -> usize;

    fn add(&mut self, page: Self);
}

impl Paged for TopicConfigAndMapping {
    const TOTAL: &'static str = "totalTopicNum";
    const SECOND_PORT: bool = true;

    fn request(from: i32, version: &str) -> Command {
        let header =
            GetAllTopicConfig { topic_seq: from, max_topic_num: Some(PAGE), data_version: Some(version.into()) };
        Command::request(RequestCode::GET_ALL_TOPIC_CONFIG).header(&header)
    }

    fn version(&self) -> DataVersion {
        self.data_version
    }

    fn entries(&self) -> usize {
        self.topic_config_table.len()
    }

    fn add(&mut self, page: Self) {
        (self.data_version, self.mapping_data_version) = (page.data_version, page.mapping_data_version);
        self.topic_queue_mapping_detail_map.extend(page.topic_queue_mapping_detail_map);
        self.topic_config_table.extend(page.topic_config_table);
    }
}

impl Paged for SubscriptionGroupTable {
    const TOTAL: &'static str = "totalGroupNum";
    const SECOND_PORT: bool = false;

    fn request(from: i32, version: &str) -> Command {
        let header =
            GetAllSubscriptionGroup { group_seq: from, max_group_num: Some(PAGE), data_version: Some(version.into()) };
        Command::request(RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG).header(&header)
    }

    fn version(&self) -> DataVersion {
        self.data_version
    }

    fn entries(&self) -> usize {
        self.subscription_group_table.len()
    }

    fn add(&mut self, page: Self) {
        self.data_version = page.data_version;
        self.forbidden_table.extend(page.forbidden_table);
        self.subscription_group_table.extend(page.subscription_group_table);
    }
}

/// Asks other brokers.
pub struct Fetch {
    client: Client,
}

impl Fetch {
    /// A client that speaks as this broker does.
    pub fn new(who: &Identity) -> Fetch {
        Fetch { client: Client::with_serialize(None, who.serialize) }
    }

    /// Closes all connections; the next question opens new ones.
    pub fn close(&self) {
        self.client.close();
    }

    /// All topics (21).
    ///
    /// # Errors
    /// See [`SyncError`].
    pub async fn topics(&self, addr: &str) -> Result<TopicConfigAndMapping, SyncError> {
        self.pages(addr).await
    }

    /// All groups (201).
    ///
    /// # Errors
    /// See [`SyncError`].
    pub async fn groups(&self, addr: &str) -> Result<SubscriptionGroupTable, SyncError> {
        self.pages(addr).await
    }

    async fn pages<T: Paged>(&self, addr: &str) -> Result<T, SyncError> {
        let deadline = Instant::now() + TABLE_TIMEOUT;
        let mut whole = T::default();
        let mut known: Option<DataVersion> = None;
        let mut got = 0;
        loop {
            let text = known.as_ref().map(version_text).unwrap_or_default();
            let answer = self.ask(addr, T::SECOND_PORT, T::request(got, &text), PAGE_TIMEOUT).await?;
            let page: T = fastjson::from_slice(&answer.body)?;
            let total = answer.get(T::TOTAL).and_then(|total| total.parse::<i32>().ok());
            if known.is_some_and(|known| known != page.version()) {
                (whole, known, got) = (T::default(), None, 0);
            } else {
                let entries = page.entries();
                got = got.saturating_add(i32::try_from(entries).unwrap_or(i32::MAX));
                known = Some(page.version());
                whole.add(page);
                match total {
                    Some(total) if got < total && entries == 0 => return Err(SyncError::Partial),
                    Some(total) if got < total => {}
                    // A broker always has topics and groups of its own.
                    _ if whole.entries() == 0 => return Err(SyncError::Partial),
                    _ => return Ok(whole),
                }
            }
            if Instant::now() > deadline {
                return Err(SyncError::Partial);
            }
        }
    }

    /// Consumers' offsets (43).
    ///
    /// # Errors
    /// See [`SyncError`].
    pub async fn offsets(&self, addr: &str) -> Result<OffsetTables, SyncError> {
        self.table(addr, RequestCode::GET_ALL_CONSUMER_OFFSET, false).await
    }

    /// How far delayed messages are delivered (45).
    ///
    /// # Errors
    /// See [`SyncError`].
    pub async fn delay_offsets(&self, addr: &str) -> Result<DelayOffsets, SyncError> {
        self.table(addr, RequestCode::GET_ALL_DELAY_OFFSET, false).await
    }

    /// How groups take messages (402).
    ///
    /// # Errors
    /// See [`SyncError`].
    pub async fn request_modes(&self, addr: &str) -> Result<MessageRequestModes, SyncError> {
        self.table(addr, RequestCode::GET_ALL_MESSAGE_REQUEST_MODE, false).await
    }

    /// How many timed messages wait (61).
    ///
    /// # Errors
    /// See [`SyncError`].
    pub async fn timer_counts(&self, addr: &str) -> Result<TimerCounts, SyncError> {
        self.table(addr, RequestCode::GET_TIMER_METRICS, true).await
    }

    /// How far timed messages are taken and delivered (60).
    ///
    /// # Errors
    /// See [`SyncError`].
    pub async fn timer_marks(&self, addr: &str) -> Result<Marks, SyncError> {
        let answer = self.ask(addr, true, Command::request(RequestCode::GET_TIMER_CHECK_POINT), TIMEOUT).await?;
        Marks::decode(&answer.body).ok_or(SyncError::Partial)
    }

    /// Tells a broker where we are reached, or asks a master where it is (906).
    ///
    /// # Errors
    /// See [`SyncError`].
    pub async fn exchange_ha_info(&self, addr: &str, ours: &HaInfo) -> Result<HaInfo, SyncError> {
        let header = ExchangeHAInfo {
            master_ha_address: ours.ha_addr.as_deref().map(Into::into),
            master_flush_offset: ours.flush_offset,
            master_address: ours.addr.as_deref().map(Into::into),
        };
        let request = Command::request(RequestCode::EXCHANGE_BROKER_HA_INFO).header(&header);
        let answer = self.call(addr, request, TIMEOUT).await?;
        let field = |name| answer.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
        Ok(HaInfo {
            ha_addr: field("masterHaAddress"),
            flush_offset: answer.get("masterFlushOffset").and_then(|offset| offset.parse().ok()),
            addr: field("masterAddress"),
        })
    }

    /// The offset behind the last message of a queue (30); 0 when there is no such queue.
    ///
    /// # Errors
    /// See [`SyncError`].
    pub async fn max_offset(&self, addr: &str, topic: &str, queue_id: i32) -> Result<i64, SyncError> {
        let request = Command::request(RequestCode::GET_MAX_OFFSET)
            .field("topic", topic)
            .field("queueId", queue_id)
            .field("lo", false);
        let answer = self.call(addr, request, TIMEOUT).await?;
        answer.get("offset").and_then(|offset| offset.parse().ok()).ok_or(SyncError::Partial)
    }

    /// Up to where in its log a broker's queues have all messages (from 28).
    ///
    /// # Errors
    /// See [`SyncError`].
    pub async fn dispatched(&self, addr: &str) -> Result<u64, SyncError> {
        let figures: KvTable = self.table(addr, RequestCode::GET_BROKER_RUNTIME_INFO, false).await?;
        let figure =
            |name| figures.table.get(name).and_then(|value| value.parse::<u64>().ok()).ok_or(SyncError::Partial);
        Ok(figure("commitLogMaxOffset")?.saturating_sub(figure("dispatchBehindBytes")?))
    }

    async fn table<T: DeserializeOwned>(&self, addr: &str, code: RequestCode, second: bool) -> Result<T, SyncError> {
        let answer = self.ask(addr, second, Command::request(code), TIMEOUT).await?;
        // Nothing, and the word for it, are no table.
        fastjson::from_slice::<Option<T>>(&answer.body)?.ok_or(SyncError::Partial)
    }

    /// Asks at the main port, or at the second one unless nobody listens there.
    async fn ask(&self, addr: &str, second: bool, request: Command, timeout: Duration) -> Result<Command, SyncError> {
        let Some(second) = vip_addr(addr).filter(|_| second) else { return self.call(addr, request, timeout).await };
        match self.call(&second, request.clone(), timeout).await {
            Err(SyncError::Call(ClientError::Connect { .. })) => self.call(addr, request, timeout).await,
            answered => answered,
        }
    }

    async fn call(&self, addr: &str, request: Command, timeout: Duration) -> Result<Command, SyncError> {
        let answer = self.client.call(addr, request, timeout).await?;
        if answer.code != ResponseCode::SUCCESS.0 {
            return Err(SyncError::Refused { code: answer.code, remark: answer.remark.unwrap_or_default() });
        }
        Ok(answer)
    }
}

fn version_text(version: &DataVersion) -> String {
    String::from_utf8(fastjson::to_vec(version).unwrap_or_default()).unwrap_or_default()
}

/// The address of a broker's second port.
fn vip_addr(addr: &str) -> Option<String> {
    let (host, port) = addr.rsplit_once(':')?;
    let port = port.parse::<u16>().ok()?.checked_sub(VIP_DISTANCE).filter(|port| *port > 0)?;
    Some(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_port_is_two_below() {
        assert_eq!(vip_addr("10.0.0.1:10911").as_deref(), Some("10.0.0.1:10909"));
        assert_eq!(vip_addr("[::1]:3").as_deref(), Some("[::1]:1"));
        for none in ["10.0.0.1:2", "10.0.0.1", "10.0.0.1:x", ""] {
            assert_eq!(vip_addr(none), None);
        }
    }
}
