//! Questions to the brokers that hold other items of a logical queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use config::{BrokerConfig, Live};
use remoting::body::cluster::ClusterInfo;
use remoting::body::fastjson;
use remoting::body::route::TopicRouteData;
use remoting::client::{Client, ClientError};
use remoting::{Command, RequestCode, ResponseCode};
use thiserror::Error;
use tokio::time::Instant;

use crate::identity::Identity;
use crate::namesrv_link::NamesrvLink;

/// How long the masters' addresses are taken for true. As in Java.
const FRESH: Duration = Duration::from_secs(5);
/// How long they are when that does not help: requests to a broker that is gone do not all ask the name servers.
const RECENT: Duration = Duration::from_millis(500);
/// The id of a master.
const MASTER: i64 = 0;

/// Why another broker gave no answer. The texts of the first two are Java's.
#[derive(Debug, Error)]
pub enum PeerError {
    /// No name server knows a master of the name.
    #[error("cannot find addr for broker {0}")]
    NoAddress(String),
    /// It refused.
    #[error("unknown remote error")]
    Code(i32),
    /// An answer that cannot be read.
    #[error("the answer of broker {0} cannot be read")]
    Unreadable(String),
    /// It cannot be reached.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The masters of other brokers.
pub struct Peers {
    client: Client,
    link: Arc<NamesrvLink>,
    config: Arc<Live<BrokerConfig>>,
    masters: tokio::sync::Mutex<Masters>,
}

#[derive(Default)]
struct Masters {
    asked: Option<Instant>,
    addresses: HashMap<String, String>,
}

impl Peers {
    /// The brokers that the name servers of `link` know. Nothing is sent before the first question.
    pub fn new(who: &Identity, config: Arc<Live<BrokerConfig>>, link: Arc<NamesrvLink>) -> Peers {
        let client = Client::with_serialize(None, who.serialize);
        Peers { client, link, config, masters: tokio::sync::Mutex::default() }
    }

    /// Asks the master of a broker name, at most for `forwardTimeout`, and returns its answer of whatever code.
    ///
    /// # Errors
    /// It is not known or cannot be reached.
    pub async fn call(&self, broker: &str, command: Command) -> Result<Command, PeerError> {
        let address = self.address(broker, FRESH).await?;
        let timeout = Duration::from_millis(u64::try_from(self.config.load().forward_timeout).unwrap_or(0));
        match self.client.call(&address, command.clone(), timeout).await {
            Err(error @ (ClientError::Connect { .. } | ClientError::Broken(_))) => {
                // It may be at another address since the name servers were asked. What we ask may be asked twice.
                let now = self.address(broker, RECENT).await?;
                if now == address { Err(error.into()) } else { Ok(self.client.call(&now, command, timeout).await?) }
            }
            answer => Ok(answer?),
        }
    }

    /// As [`Peers::call`] for what is of no use without success.
    ///
    /// # Errors
    /// Also another code than SUCCESS.
    pub async fn ask(&self, broker: &str, command: Command) -> Result<Command, PeerError> {
        let answer = self.call(broker, command).await?;
        if answer.code != ResponseCode::SUCCESS.0 {
            return Err(PeerError::Code(answer.code));
        }
        Ok(answer)
    }

    /// As [`Peers::ask`], for one number of the answer's header.
    ///
    /// # Errors
    /// Also an answer without it.
    pub async fn number(&self, broker: &str, command: Command, field: &str) -> Result<i64, PeerError> {
        number(broker, &self.ask(broker, command).await?, field)
    }

    /// The route of a topic.
    pub async fn route(&self, topic: &str) -> Option<TopicRouteData> {
        let command = Command::request(RequestCode::GET_ROUTEINFO_BY_TOPIC).field("topic", topic);
        fastjson::from_slice(&self.namesrv(&command).await?.body).ok()
    }

    /// Where a master is, as the name servers said it not longer than `trusted` ago.
    async fn address(&self, broker: &str, trusted: Duration) -> Result<String, PeerError> {
        let mut masters = self.masters.lock().await;
        let trusted = if masters.addresses.contains_key(broker) { trusted } else { RECENT };
        if masters.asked.is_none_or(|asked| asked.elapsed() > trusted) {
            let command = Command::request(RequestCode::GET_BROKER_CLUSTER_INFO);
            let answer = self.namesrv(&command).await;
            let info = answer.and_then(|answer| fastjson::from_slice::<ClusterInfo>(&answer.body).ok());
            // Without a name server the brokers are where they were.
            if let Some(info) = info {
                let brokers = info.broker_addr_table.into_iter();
                masters.addresses =
                    brokers.filter_map(|(name, mut data)| Some((name, data.broker_addrs.remove(&MASTER)?))).collect();
            }
            masters.asked = Some(Instant::now());
        }
        masters.addresses.get(broker).cloned().ok_or_else(|| PeerError::NoAddress(broker.to_owned()))
    }

    async fn namesrv(&self, command: &Command) -> Option<Command> {
        match self.link.ask(command).await {
            Ok(answer) => Some(answer).filter(|answer| answer.code == ResponseCode::SUCCESS.0),
            Err(error) => {
                tracing::warn!(%error, "no name server tells about the other brokers");
                None
            }
        }
    }
}

/// A number of an answer's header.
pub(super) fn number(broker: &str, answer: &Command, field: &str) -> Result<i64, PeerError> {
    let value = answer.get(field).and_then(|text| text.parse().ok());
    value.ok_or_else(|| PeerError::Unreadable(broker.to_owned()))
}
