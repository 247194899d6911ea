//! Offsets of logical queues: where they begin and end, what lies at a time, and how far a group has come. Each is a
//! question to the item that knows it, which may be a queue of another broker.

use std::sync::Arc;

use remoting::body::topic_queue_mapping::LogicQueueMappingItem as Item;
use remoting::header::{
    GetEarliestMsgStoretimeResponse, GetMaxOffsetResponse, GetMinOffsetResponse, QueryConsumerOffset,
    QueryConsumerOffsetResponse, SearchOffset, SearchOffsetResponse, WriteHeader,
};
use remoting::server::Outcome;
use remoting::{BoundaryType, Command, Reply, RequestCode, ResponseCode};
use store::Store;

use super::mapping::{Led, Mapping};
use super::peers::{PeerError, Peers, number};
use super::{StaticTopics, items};
use crate::offsets::Offsets;

/// Answers questions about the offsets of logical queues.
pub struct LogicalOffsets {
    /// Which topics are static.
    pub topics: Arc<StaticTopics>,
    /// The other brokers.
    pub peers: Arc<Peers>,
    /// Our own queues.
    pub store: Arc<Store>,
    /// Our groups' offsets.
    pub offsets: Arc<Offsets>,
}

/// What a commit of a logical queue comes to.
pub enum Commit {
    /// A commit of a queue of this broker.
    Here {
        /// The queue.
        queue_id: i32,
        /// The offset in it.
        offset: i64,
    },
    /// It was another broker's, or none.
    Done(Outcome),
}

impl LogicalOffsets {
    /// The end of a logical queue.
    pub fn max(&self, mapping: Arc<Mapping>, id: i32) -> Outcome {
        let led = match led(mapping, id) {
            Ok(led) => led,
            Err(outcome) => return outcome,
        };
        let Some(item) = items::last(led.items()) else { return no_place(&led) };
        self.one(&led, item.clone(), Asked::Max, |item, offset| GetMaxOffsetResponse { offset: item.logical(offset) })
    }

    /// The beginning of a logical queue.
    pub fn min(&self, mapping: Arc<Mapping>, id: i32) -> Outcome {
        let led = match mapping.led(id) {
            Ok(led) => led,
            Err(mapping) => {
                let (topic, broker) = (mapping.topic(), mapping.broker());
                let code = RequestCode::GET_MIN_OFFSET.0;
                let remark = format!("{topic}-{id} is not leader in broker {broker}, request code {code}");
                return Reply::error(ResponseCode::NOT_LEADER_FOR_QUEUE, remark).into();
            }
        };
        let Some(item) = items::first(led.items()) else { return no_place(&led) };
        self.one(&led, item.clone(), Asked::Min, |item, offset| GetMinOffsetResponse {
            offset: item.logical_within(offset),
        })
    }

    /// When the first message of a logical queue was stored.
    pub fn earliest(&self, mapping: Arc<Mapping>, id: i32) -> Outcome {
        let led = match led(mapping, id) {
            Ok(led) => led,
            Err(outcome) => return outcome,
        };
        let Some(item) = items::first(led.items()) else { return no_place(&led) };
        self.one(&led, item.clone(), Asked::Earliest, |_, timestamp| GetEarliestMsgStoretimeResponse { timestamp })
    }

    /// Asks the one item that knows.
    fn one<H: WriteHeader>(
        &self,
        led: &Led,
        item: Item,
        asked: Asked,
        answer: impl FnOnce(&Item, i64) -> H + Send + 'static,
    ) -> Outcome {
        let topic = led.mapping().topic();
        if led.mapping().is_ours(&item) {
            let found = asked.here(&self.store, topic, item.queue_id);
            return Reply::ok().header(&answer(&item, found)).into();
        }
        let command = of_item(asked.code(), topic, &item);
        let peers = self.peers.clone();
        later(async move {
            let found = peers.number(broker_of(&item), command, asked.field()).await?;
            Ok(Reply::ok().header(&answer(&item, found)))
        })
    }

    /// The logical offset at a time: in the first item that has a message of that time or later.
    pub fn search(&self, mapping: Arc<Mapping>, request: &SearchOffset<'_>) -> Outcome {
        let led = match led(mapping, request.queue_id) {
            Ok(led) => led,
            Err(outcome) => return outcome,
        };
        let (timestamp, upper) = (request.timestamp, request.boundary_type == Some(BoundaryType::Upper));
        let (peers, store) = (self.peers.clone(), self.store.clone());
        later(async move {
            let topic = led.mapping().topic().to_owned();
            let mut found = -1;
            for item in led.items().iter().filter(|item| item.is_placed()) {
                // The end of what it has: an answer that is not below it says that everything is older.
                let (offset, end) = if led.mapping().is_ours(item) {
                    let (store, topic, queue_id) = (store.clone(), topic.clone(), item.queue_id);
                    let search = move || {
                        let queue = store.queue(&topic, queue_id);
                        queue.map_or((0, 0), |queue| {
                            (store.offset_by_time(&queue, timestamp, upper), queue.max_offset())
                        })
                    };
                    tokio::task::spawn_blocking(search).await.unwrap_or((-1, 0))
                } else {
                    let mut command =
                        of_item(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP, &topic, item).field("timestamp", timestamp);
                    if upper {
                        command = command.field("boundaryType", "UPPER");
                    }
                    let offset = peers.number(broker_of(item), command, "offset").await?;
                    let end = of_item(RequestCode::GET_MAX_OFFSET, &topic, item);
                    (offset, peers.number(broker_of(item), end, "offset").await?)
                };
                if offset < 0 {
                    continue;
                }
                found = item.logical(offset);
                let end = if item.is_closed() { end.min(item.end_offset) } else { end };
                // The last message that is not newer may be followed by others in the next item.
                if offset.saturating_add(i64::from(upper)) < end {
                    break;
                }
            }
            Ok(Reply::ok().header(&SearchOffsetResponse { offset: found }))
        })
    }

    /// How far a group has come in a logical queue. `Err`: a queue that never moved, of which our own queue of the id that is
    /// returned tells all.
    pub fn query(&self, mapping: Arc<Mapping>, request: &QueryConsumerOffset<'_>) -> Result<Outcome, i32> {
        let led = match led(mapping, request.queue_id) {
            Ok(led) => led,
            Err(outcome) => return Ok(outcome),
        };
        if let [only] = led.items()
            && only.logic_offset == 0
        {
            return Err(only.queue_id);
        }
        let group = request.consumer_group.clone().into_owned();
        let (peers, offsets) = (self.peers.clone(), self.offsets.clone());
        Ok(later(async move {
            let topic = led.mapping().topic();
            for item in led.items().iter().rev() {
                let offset = if led.mapping().is_ours(item) {
                    offsets.query(&group, topic, item.queue_id).filter(|offset| *offset >= 0)
                } else {
                    let command = of_item(RequestCode::QUERY_CONSUMER_OFFSET, topic, item)
                        .field("consumerGroup", &group)
                        .field("setZeroIfNotFound", false);
                    let answer = peers.call(broker_of(item), command).await?;
                    match ResponseCode(answer.code) {
                        ResponseCode::SUCCESS => Some(number(broker_of(item), &answer, "offset")?),
                        ResponseCode::QUERY_NOT_FOUND => None,
                        code => return Err(PeerError::Code(code.0)),
                    }
                };
                if let Some(offset) = offset {
                    return Ok(Reply::ok().header(&QueryConsumerOffsetResponse { offset: item.logical(offset) }));
                }
            }
            Ok(Reply::error(ResponseCode::QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first"))
        }))
    }

    /// Takes a commit of a logical queue to the item that it belongs to.
    pub fn commit(&self, mapping: Arc<Mapping>, id: i32, offset: i64, group: &str) -> Commit {
        let led = match led(mapping, id) {
            Ok(led) => led,
            Err(outcome) => return Commit::Done(outcome),
        };
        let Some(item) = items::holding(led.items(), offset).and_then(|at| led.items().get(at)) else {
            return Commit::Done(no_place(&led));
        };
        let offset = item.physical(offset);
        if led.mapping().is_ours(item) {
            return Commit::Here { queue_id: item.queue_id, offset };
        }
        let command = of_item(RequestCode::UPDATE_CONSUMER_OFFSET, led.mapping().topic(), item)
            .field("consumerGroup", group)
            .field("commitOffset", offset);
        let (peers, broker) = (self.peers.clone(), broker_of(item).to_owned());
        Commit::Done(later(async move {
            peers.ask(&broker, command).await?;
            Ok(Reply::ok().remark(""))
        }))
    }
}

/// A question that one number answers.
#[derive(Clone, Copy)]
enum Asked {
    Max,
    Min,
    Earliest,
}

impl Asked {
    fn code(self) -> RequestCode {
        match self {
            Asked::Max => RequestCode::GET_MAX_OFFSET,
            Asked::Min => RequestCode::GET_MIN_OFFSET,
            Asked::Earliest => RequestCode::GET_EARLIEST_MSG_STORETIME,
        }
    }

    fn field(self) -> &'static str {
        match self {
            Asked::Max | Asked::Min => "offset",
            Asked::Earliest => "timestamp",
        }
    }

    fn here(self, store: &Store, topic: &str, queue_id: i32) -> i64 {
        let queue = store.queue(topic, queue_id);
        match self {
            Asked::Max => queue.map_or(0, |queue| queue.max_offset()),
            Asked::Min => queue.map_or(0, |queue| queue.min_offset()),
            Asked::Earliest => queue.map_or(-1, |queue| store.store_time(&queue, queue.min_offset())),
        }
    }
}

fn led(mapping: Arc<Mapping>, id: i32) -> Result<Led, Outcome> {
    mapping.led(id).map_err(|mapping| Reply::error(ResponseCode::NOT_LEADER_FOR_QUEUE, mapping.not_led(id)).into())
}

fn no_place(led: &Led) -> Outcome {
    let remark = format!("no item of {}-{} has a place yet", led.mapping().topic(), led.id());
    Reply::error(ResponseCode::SYSTEM_ERROR, remark).into()
}

fn broker_of(item: &Item) -> &str {
    item.bname.as_deref().unwrap_or_default()
}

/// A request about the queue of an item, as any broker's queue.
pub(super) fn of_item(code: RequestCode, topic: &str, item: &Item) -> Command {
    Command::request(code)
        .field("lo", false)
        .field("bname", broker_of(item))
        .field("topic", topic)
        .field("queueId", item.queue_id)
}

fn later(answer: impl Future<Output = Result<Reply, PeerError>> + Send + 'static) -> Outcome {
    Outcome::Later(Box::pin(async move {
        answer.await.unwrap_or_else(|error| Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()))
    }))
}
