//! Where a slave that stands in for its master puts what it would append: it takes no messages itself, so they go to the masters
//! of other groups that have the topic (`enableRemoteEscape`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use config::{BrokerConfig, Live};
use parking_lot::Mutex;
use remoting::body::fastjson::{self, JsonError};
use remoting::body::route::TopicRouteData;
use remoting::body::topic::PERM_WRITE;
use remoting::client::{Client, ClientError};
use remoting::header::SendMessageV2;
use remoting::{Command, RequestCode, ResponseCode, Text};
use store::NewMessage;
use store::record::Properties;
use store::record::properties::{name, push};
use thiserror::Error;
use tokio::runtime::Handle;

use crate::identity::Identity;
use crate::names;
use crate::namesrv_link::NamesrvLink;

/// How long a send may take.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How long a route is used; also that of a topic without one.
const ROUTE_AGE: Duration = Duration::from_secs(30);
/// After a failure the route is asked for again.
const RETRY_AGE: Duration = Duration::from_secs(1);
/// Properties with which the other broker would let a message wait once more, and those of a record.
const DROPPED: [&str; 5] = ["DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", name::CRC32];
/// What topics made on the way have.
const DEFAULT_QUEUES: i32 = 8;

/// Why a message did not get to another broker. It stays where it is.
#[derive(Debug, Error)]
pub enum EscapeError {
    /// Not configured (`enableSlaveActingMaster`, `enableRemoteEscape`).
    #[error("messages may not go to other brokers")]
    Off,
    /// No other master has the topic.
    #[error("no other master has the topic {0}")]
    NoRoute(String),
    /// No answer.
    #[error(transparent)]
    Call(#[from] ClientError),
    /// A route that is none.
    #[error("the route cannot be read: {0}")]
    Route(#[from] JsonError),
    /// The other broker does not take it.
    #[error("the broker {broker} answers {code}: {remark}")]
    Refused {
        /// Its address.
        broker: String,
        /// The code.
        code: i32,
        /// What it says.
        remark: String,
    },
}

/// Sends messages to other groups' masters.
pub struct Escape {
    identity: Arc<Identity>,
    config: Arc<Live<BrokerConfig>>,
    link: Arc<NamesrvLink>,
    client: Client,
    /// For threads that are not the runtime's.
    runtime: Handle,
    routes: Mutex<HashMap<String, Route>>,
    turn: AtomicUsize,
}

/// The queues of a topic on other masters.
#[derive(Clone)]
struct Route {
    queues: Arc<Vec<(String, i32)>>,
    until: Instant,
}

impl Escape {
    /// Must be called in a runtime, which sends.
    pub fn new(identity: Arc<Identity>, config: Arc<Live<BrokerConfig>>, link: Arc<NamesrvLink>) -> Escape {
        Escape {
            client: Client::with_serialize(None, identity.serialize),
            identity,
            config,
            link,
            runtime: Handle::current(),
            routes: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Puts a message into any queue of a topic on another master, where it waits for nothing. Blocks: not for a worker of the runtime.
    ///
    /// # Errors
    /// See [`EscapeError`]; after a lost answer the message may be there nevertheless.
    pub fn put(&self, topic: &str, message: &NewMessage<'_>) -> Result<(), EscapeError> {
        let config = self.config.load();
        if !config.enable_slave_acting_master || !config.enable_remote_escape {
            return Err(EscapeError::Off);
        }
        self.runtime.block_on(self.send(topic, message)).inspect_err(|_| {
            if let Some(route) = self.routes.lock().get_mut(topic) {
                route.until = route.until.min(Instant::now() + RETRY_AGE);
            }
        })
    }

    /// As [`Escape::put`]; false: the message stays where it is. `kind` and `offset` tell in the log which it was.
    pub fn put_or_wait(&self, kind: &str, offset: i64, topic: &str, message: &NewMessage<'_>) -> bool {
        match self.put(topic, message) {
            Ok(()) => true,
            // What may not go elsewhere waits for the master: nothing to tell again and again.
            Err(EscapeError::Off) => false,
            Err(error) => {
                tracing::warn!(kind, offset, topic, %error, "a message did not get to another broker, trying again");
                false
            }
        }
    }

    async fn send(&self, topic: &str, message: &NewMessage<'_>) -> Result<(), EscapeError> {
        let queues = self.route(topic).await?;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let Some((broker, queue_id)) = queues.get(turn % queues.len().max(1)) else {
            return Err(EscapeError::NoRoute(topic.to_owned()));
        };
        let properties = Properties::new(message.properties);
        let own = format!("InnerProducerGroup_{}_{}", self.identity.name, self.identity.id);
        let group = properties.get("PGROUP").filter(|group| !group.is_empty()).unwrap_or(&own);
        let mut kept = Vec::with_capacity(message.properties.len());
        for (key, value) in properties {
            if let Ok(key) = std::str::from_utf8(key)
                && !DROPPED.contains(&key)
            {
                push(&mut kept, key, value);
            }
        }
        let text = String::from_utf8_lossy(&kept);
        let header = SendMessageV2 {
            producer_group: group.into(),
            topic: topic.into(),
            default_topic: names::AUTO_CREATE_TOPIC.into(),
            default_topic_queue_nums: DEFAULT_QUEUES,
            queue_id: *queue_id,
            sys_flag: message.sys_flag,
            born_timestamp: message.born_timestamp,
            flag: message.flag,
            properties: Some(Text::plain(&text)),
            reconsume_times: Some(message.reconsume_times),
            unit_mode: Some(false),
            batch: Some(false),
            ..SendMessageV2::default()
        };
        let request = Command::request(RequestCode::SEND_MESSAGE_V2).header(&header).body(message.body.to_vec());
        let answer = self.client.call(broker, request, TIMEOUT).await?;
        // Stored, and perhaps not on every disk yet.
        const TAKEN: [ResponseCode; 4] = [
            ResponseCode::SUCCESS,
            ResponseCode::FLUSH_DISK_TIMEOUT,
            ResponseCode::FLUSH_SLAVE_TIMEOUT,
            ResponseCode::SLAVE_NOT_AVAILABLE,
        ];
        match TAKEN.iter().any(|code| code.0 == answer.code) {
            true => Ok(()),
            false => Err(EscapeError::Refused {
                broker: broker.clone(),
                code: answer.code,
                remark: answer.remark.unwrap_or_default(),
            }),
        }
    }

    async fn route(&self, topic: &str) -> Result<Arc<Vec<(String, i32)>>, EscapeError> {
        let now = Instant::now();
        if let Some(route) = self.routes.lock().get(topic).filter(|route| route.until > now) {
            return Ok(route.queues.clone());
        }
        let request = Command::request(RequestCode::GET_ROUTEINFO_BY_TOPIC).field("topic", topic);
        let answer = self.link.ask(&request).await?;
        let route: TopicRouteData = match answer.code == ResponseCode::SUCCESS.0 {
            true => fastjson::from_slice::<Option<_>>(&answer.body)?.unwrap_or_default(),
            false => TopicRouteData::default(),
        };
        let queues = Arc::new(queues_of(&route, &self.identity.name));
        let mut routes = self.routes.lock();
        routes.retain(|_, route| route.until > now);
        routes.insert(topic.to_owned(), Route { queues: queues.clone(), until: now + ROUTE_AGE });
        Ok(queues)
    }
}

/// Queues that take messages, on masters of other groups than `own`.
fn queues_of(route: &TopicRouteData, own: &str) -> Vec<(String, i32)> {
    let mut queues = Vec::new();
    for of_broker in route.queue_datas.iter().filter(|of| of.broker_name != own && of.perm & PERM_WRITE != 0) {
        let named = |broker: &&remoting::body::route::BrokerData| {
            broker.broker_name.as_deref() == Some(of_broker.broker_name.as_str())
        };
        let master = route.broker_datas.iter().find(named).and_then(|broker| broker.broker_addrs.get(&0));
        if let Some(addr) = master {
            // A route may claim any number.
            queues.extend((0..of_broker.write_queue_nums.min(1 << 12)).map(|id| (addr.clone(), id)));
        }
    }
    queues
}

#[cfg(test)]
mod tests {
    use remoting::body::route::{BrokerData, QueueData};

    use super::*;

    #[test]
    fn only_other_masters_that_take_messages() {
        let broker = |name: &str, id: i64| BrokerData {
            broker_addrs: [(id, format!("{name}:1"))].into(),
            broker_name: Some(name.to_owned()),
            ..BrokerData::default()
        };
        let queue = |name: &str, perm: i32| QueueData {
            broker_name: name.to_owned(),
            perm,
            write_queue_nums: 2,
            read_queue_nums: 2,
            ..QueueData::default()
        };
        let route = TopicRouteData {
            broker_datas: vec![broker("own", 0), broker("other", 0), broker("slave", 1), broker("full", 0)],
            queue_datas: vec![
                queue("own", 6),
                queue("other", 6),
                queue("slave", 6),
                queue("full", 4),
                queue("gone", 6),
            ],
            ..TopicRouteData::default()
        };
        let expected = [("other:1".to_owned(), 0), ("other:1".to_owned(), 1)];
        assert_eq!(queues_of(&route, "own"), expected);
    }
}
