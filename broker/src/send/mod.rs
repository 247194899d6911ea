//! Taking messages: the checks, the properties, the append, the answer.
//!
//! One request runs to its end on the task of its connection: the message is in the log, in the order in which the
//! requests came, when [`Sender::send`] returns. Only the answer may come later (`SYNC_FLUSH`, `SYNC_MASTER`).
//!
//! In the steady state nothing is allocated: the topic and its queue are kept per thread (`targets`), the properties
//! are rewritten in a buffer of the thread, and body and properties are copied once, into the log.

mod answer;
mod batch;
mod delay;
mod durable;
mod half;
mod look_ahead;

pub mod properties;
mod put;
mod refusal;
mod reply;
mod retry;
mod targets;
mod unique_id;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use config::{BrokerConfig, BrokerRole, Live, MessageStoreConfig};
use remoting::header::SendRequest;
use remoting::server::{Cx, Outcome};
use remoting::{Reply, ResponseCode};
use store::Store;
use store::record::{MessageId, sys_flag};

pub use durable::{Durable, Need};
pub use put::{Message, Put};
pub use refusal::{FAQ, Refusal};
pub(crate) use retry::{DLQ_QUEUES, MAX_RECONSUME_VERSION};
pub use unique_id::UniqueIds;

use crate::clients::QueueLocks;
use crate::groups::Groups;
use crate::ha::Ha;
use crate::identity::Identity;
use crate::names;
use crate::schedule::DelayLevels;
use crate::static_topics::{Place, StaticTopics};
use crate::stats::{Stats, now_millis};
use crate::timer::{RecallHandle, Timer};
use crate::topics::{PERM_WRITE, TopicTable, perm_text};
use crate::transaction::Counts;
use answer::{IdText, Region, Stored};
use properties::{Known, Properties};
use targets::Targets;
pub(crate) use targets::is_batch;

/// Properties that the broker sets itself, whatever the producer sent.
const OWN: &[Known] = &[Known::Region, Known::TraceOn, Known::Cluster, Known::PopCheckPoint];

/// What a [`Sender`] works with.
pub struct SenderParts {
    /// Broker keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// Store keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Which of them are static.
    pub static_topics: Arc<StaticTopics>,
    /// Consumer groups.
    pub groups: Arc<Groups>,
    /// Queues that ordered consumers hold.
    pub locks: Arc<QueueLocks>,
    /// The store.
    pub store: Arc<Store>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Names and addresses of the broker.
    pub identity: Arc<Identity>,
    /// The delay levels.
    pub levels: Arc<DelayLevels>,
    /// Open transactions.
    pub transactions: Arc<Counts>,
    /// Messages for an arbitrary time; `None` when they are refused.
    pub timer: Option<Arc<Timer>>,
    /// Replicas.
    pub ha: Arc<Ha>,
}

/// Where a checked message goes.
#[derive(Clone, Copy)]
struct Seat {
    /// Where its topic stands in [`Targets`].
    at: usize,
    queue_id: i32,
    /// What the queue is to the producer of a static topic.
    place: Option<Place>,
}

impl Seat {
    /// Queue and offset as the producer sees them.
    fn seen(&self, queue_id: i32, offset: i64) -> (i32, i64) {
        match &self.place {
            None => (queue_id, offset),
            Some(place) => (place.id, place.logical(offset)),
        }
    }
}

/// Takes messages from producers and puts them into the store.
pub struct Sender {
    parts: SenderParts,
    ids: UniqueIds,
    /// The broker's own properties in the stored form: without and with traces.
    own: [Vec<u8>; 2],
    /// Tells the brokers of a process apart in what threads keep.
    owner: u64,
    /// A slave refuses whatever producers and consumers send, unless it may stand in for its master: then the store does.
    refuses: bool,
    /// Bytes of replies that clients have not confirmed yet.
    unconfirmed: Arc<AtomicUsize>,
}

/// What a thread keeps from message to message.
#[derive(Default)]
struct Local {
    targets: Targets,
    properties: Properties,
    id: Vec<u8>,
    ids: String,
}

thread_local! {
    static LOCAL: RefCell<Local> = RefCell::default();
}

/// Adds to the statistics what this thread has sent since the last call: at the end of each read batch.
pub fn flush_counts() {
    LOCAL.with_borrow_mut(|local| local.targets.flush());
}

impl Sender {
    /// A sender.
    pub fn new(parts: SenderParts) -> Sender {
        static OWNERS: AtomicU64 = AtomicU64::new(0);
        let own = [false, true].map(|trace_on| {
            let mut own = Properties::default();
            own.append(Known::Region, parts.identity.region.as_bytes());
            own.append(Known::TraceOn, if trace_on { b"true" } else { b"false" });
            own.append(Known::Cluster, parts.identity.cluster.as_bytes());
            own.as_bytes().to_vec()
        });
        Sender {
            ids: UniqueIds::new(parts.identity.store_host.ip()),
            own,
            refuses: parts.store_config.load().broker_role == BrokerRole::Slave
                && !parts.config.load().enable_slave_acting_master,
            owner: OWNERS.fetch_add(1, Ordering::Relaxed),
            unconfirmed: Arc::default(),
            parts,
        }
    }

    /// Handles a send of either kind.
    pub fn send(&self, cx: &mut Cx<'_>, incoming: &SendRequest<'_>) -> Outcome {
        if self.is_closed() {
            return Refusal::busy().into();
        }
        let config = self.parts.config.load();
        let outcome = LOCAL.with_borrow_mut(|local| self.take(cx, &config, local, incoming));
        outcome.unwrap_or_else(|refusal| {
            if refusal.code == ResponseCode::NOT_LEADER_FOR_QUEUE {
                return refusal.into();
            }
            self.parts.stats.put_failures.add([1]);
            cx.write(refusal.code, Some(&refusal.remark), &self.region(&config), &[])
        })
    }

    /// Whether every message is refused before it is looked at: on a slave, and while the store cannot keep up.
    pub(crate) fn is_closed(&self) -> bool {
        self.refuses || self.parts.store.page_cache_busy()
    }

    fn take(
        &self,
        cx: &mut Cx<'_>,
        config: &BrokerConfig,
        local: &mut Local,
        incoming: &SendRequest<'_>,
    ) -> Result<Outcome, Refusal> {
        let seat = self.check(&mut local.targets, config, cx, incoming)?;
        if incoming.batch {
            return self.take_batch(cx, config, local, incoming, seat);
        }
        self.take_one(cx, config, local, incoming, seat)
    }

    /// What is asked of every message before anything is done with it.
    fn check(
        &self,
        targets: &mut Targets,
        config: &BrokerConfig,
        cx: &Cx<'_>,
        incoming: &SendRequest<'_>,
    ) -> Result<Seat, Refusal> {
        if cx.body().is_empty() {
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, "the message has no body"));
        }
        let start = config.start_accept_send_request_time_stamp;
        if start > 0 && now_millis() < start {
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, format!("broker unable to service, until {start}")));
        }
        let at = self.target(targets, config, cx, incoming)?;
        let target = targets.get(at);
        let place = match &target.mapping {
            Some(mapping) if incoming.logical_queue != Some(false) => Some(
                mapping
                    .place(incoming.queue_id)
                    .map_err(|remark| Refusal::new(ResponseCode::NOT_LEADER_FOR_QUEUE, remark))?,
            ),
            _ => None,
        };
        let asked = place.map_or(incoming.queue_id, |place| place.queue_id);
        let topic = &target.topic;
        if config.broker_permission & PERM_WRITE == 0 && topic.order {
            return Err(sending_forbidden(config));
        }
        if asked >= topic.write_queue_nums.max(topic.read_queue_nums) {
            return Err(illegal_queue(asked, topic, cx));
        }
        let queue_id = match asked {
            id if id >= 0 => id,
            _ => random_queue(topic.write_queue_nums)?,
        };
        Ok(Seat { at, queue_id, place })
    }

    fn take_one(
        &self,
        cx: &mut Cx<'_>,
        config: &BrokerConfig,
        local: &mut Local,
        incoming: &SendRequest<'_>,
        seat: Seat,
    ) -> Result<Outcome, Refusal> {
        let Local { targets, properties, id, .. } = local;
        let target = targets.get(seat.at);
        properties.fill(OWN, |out| {
            if let Some(text) = incoming.properties {
                text.write_to(out);
            }
        });
        let dead_letter = if incoming.topic.starts_with(names::RETRY_PREFIX) {
            self.dead_letter_of(incoming, cx.request().version, properties)?
        } else {
            None
        };
        if properties.get(Known::UniqueKey).is_none() {
            id.clear();
            self.ids.write(now_millis(), id);
            properties.append(Known::UniqueKey, id);
        }
        if let Some(lite) = properties.text(Known::LiteTopic) {
            let queue = format!("{}${}${lite}", names::LMQ_PREFIX, incoming.topic);
            properties.put(Known::InnerMultiDispatch, queue.as_bytes());
        }
        let queue_id = by_priority(properties, seat.queue_id, target.topic.write_queue_nums);
        if target.topic.seats.compacted && properties.text(Known::Keys).is_none_or(|keys| keys.trim().is_empty()) {
            return Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, "Required message key is missing"));
        }
        properties.append_encoded(&self.own[usize::from(config.trace_on)]);
        let half = self.is_half(config, incoming, properties)?;
        let waits = properties.waits();
        let message = Message {
            flag: incoming.flag,
            sys_flag: incoming.sys_flag,
            born_timestamp: incoming.born_timestamp,
            born_host: cx.conn().peer(),
            reconsume_times: incoming.reconsume_times,
            body: cx.body(),
        };
        let need = self.need(waits)?;
        let put = match &dead_letter {
            _ if half => {
                let (topic, queue_id) = dead_letter.as_ref().map_or((&*incoming.topic, queue_id), |(t, q)| (t, *q));
                self.put_half(topic, queue_id, &message, properties)?
            }
            Some((topic, dead_queue)) => self.put(topic, *dead_queue, &message, properties)?,
            None => self.put_to(target, &incoming.topic, queue_id, &message, properties)?,
        };
        let message_id = IdText::of(self.message_id(put.appended.phys_offset));
        let recall_handle = put.due.and_then(|due| self.recall_handle(due, properties));
        let (queue_id, queue_offset) = seat.seen(queue_id, put.appended.queue_offset);
        let stored = Stored {
            region: self.region(config),
            message_id: message_id.as_str(),
            queue_id,
            queue_offset,
            transaction_id: properties.text(Known::UniqueKey),
            recall_handle: recall_handle.as_deref(),
            batch_id: None,
        };
        Ok(self.answer(cx, need, put.appended.end, &stored))
    }

    /// Answers at once, or when the message is where it has to be.
    fn answer(&self, cx: &mut Cx<'_>, need: Need, end: u64, stored: &Stored<'_>) -> Outcome {
        if need.is_nothing() {
            return cx.write(ResponseCode::SUCCESS, None, stored, &[]);
        }
        let durable = self.durable(need, end);
        if cx.request().is_oneway() {
            return Outcome::Done;
        }
        let reply = Reply::ok().header(stored);
        Outcome::Later(Box::pin(async move { Reply { code: durable.reached().await.0, ..reply } }))
    }

    /// The topic, made when it does not exist and may be made.
    fn target(
        &self,
        targets: &mut Targets,
        config: &BrokerConfig,
        cx: &Cx<'_>,
        incoming: &SendRequest<'_>,
    ) -> Result<usize, Refusal> {
        let topics = &self.parts.topics;
        let name = incoming.topic.as_ref();
        let generation = self.generation();
        if let Some(at) = targets.find(self.owner, generation, name) {
            return Ok(at);
        }
        if config.broker_permission & PERM_WRITE == 0 && topics.is_ordered(name) {
            return Err(sending_forbidden(config));
        }
        let topic = match topics.get(name).filter(|topic| topic.seats.sendable) {
            Some(topic) => topic,
            None => self.strange_topic(cx, incoming)?,
        };
        Ok(self.keep(targets, topic, generation))
    }

    /// Keeps a topic for this thread; `generation` was read before the topic was.
    fn keep(&self, targets: &mut Targets, topic: Arc<crate::topics::Topic>, generation: u64) -> usize {
        let at = targets.add(topic, &self.parts.stats, self.owner, generation);
        let target = targets.get(at);
        target.mapping = self.parts.static_topics.find(&target.topic.topic_name, None);
        at
    }

    /// Changes when a topic or a static topic does.
    fn generation(&self) -> u64 {
        // Both only grow: the sum stays the same while neither has.
        self.parts.topics.generation().wrapping_add(self.parts.static_topics.generation())
    }

    /// A topic that does not exist yet, or that nobody may send to.
    #[cold]
    fn strange_topic(&self, cx: &Cx<'_>, incoming: &SendRequest<'_>) -> Result<Arc<crate::topics::Topic>, Refusal> {
        let name = incoming.topic.as_ref();
        names::check_topic(name).map_err(|error| Refusal::new(ResponseCode::INVALID_PARAMETER, error.to_string()))?;
        if names::is_send_forbidden(name) {
            let remark = format!("Sending message to topic[{name}] is forbidden.");
            return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
        }
        match self.parts.topics.get(name) {
            Some(topic) => Ok(topic),
            None => self.create_topic(cx, incoming),
        }
    }

    fn create_topic(&self, cx: &Cx<'_>, incoming: &SendRequest<'_>) -> Result<Arc<crate::topics::Topic>, Refusal> {
        let name = incoming.topic.as_ref();
        let retry = name.starts_with(names::RETRY_PREFIX);
        let unit_flag = match (incoming.unit_mode, retry) {
            (false, _) => 0,
            (true, false) => remoting::body::topic::FLAG_UNIT,
            (true, true) => remoting::body::topic::FLAG_UNIT_SUB,
        };
        let wanted = incoming.default_topic_queue_nums;
        match self.parts.topics.create_for_send(name, &incoming.default_topic, wanted, unit_flag, &cx.conn().peer()) {
            Ok(topic) => Ok(topic),
            Err(_) if retry => {
                let perm = crate::topics::PERM_READ | PERM_WRITE;
                Ok(self.parts.topics.create_for_send_back(name, 1, perm, false, unit_flag))
            }
            Err(_) => Err(Refusal::new(
                ResponseCode::TOPIC_NOT_EXIST,
                format!("topic[{name}] not exist, apply first please!{FAQ}"),
            )),
        }
    }

    /// With what a producer recalls a message that is due in some tick; retries cannot be recalled.
    fn recall_handle(&self, due: i64, properties: &Properties) -> Option<String> {
        let topic = properties.text(Known::RealTopic).filter(|topic| !topic.starts_with(names::RETRY_PREFIX))?;
        // One more than the tick: the same tick when it is cut again.
        Some(RecallHandle::encode(topic, &self.parts.identity.name, due + 1, properties.text(Known::UniqueKey)?))
    }

    fn region<'s>(&'s self, config: &BrokerConfig) -> Region<'s> {
        Region { region: &self.parts.identity.region, trace_on: config.trace_on }
    }

    fn message_id(&self, phys_offset: u64) -> MessageId {
        MessageId { host: self.parts.identity.store_host, phys_offset }
    }
}

/// The queue of a message with a priority, when nothing else decides about its order or its time; of others the property
/// goes.
fn by_priority(properties: &mut Properties, queue_id: i32, write_queues: i32) -> i32 {
    let Some(priority) = properties.text(Known::Priority).and_then(|text| text.parse::<i32>().ok()) else {
        return queue_id;
    };
    if priority < 0 {
        return queue_id;
    }
    const OTHERS: [Known; 5] =
        [Known::Delay, Known::TimerDeliverMs, Known::TimerDelaySec, Known::TimerDelayMs, Known::ShardingKey];
    let other = OTHERS.iter().any(|known| properties.get(*known).is_some());
    if other || properties.is_true(Known::TransactionPrepared) {
        properties.remove(Known::Priority);
        return queue_id;
    }
    priority.min(write_queues - 1)
}

/// Any of the topic's queues.
pub(crate) fn random_queue(queues: i32) -> Result<i32, Refusal> {
    thread_local! {
        static STATE: std::cell::Cell<u64> = std::cell::Cell::new(now_millis() as u64 | 1);
    }
    if queues <= 0 {
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, "java.lang.ArithmeticException: / by zero"));
    }
    // xorshift64*: spreads, and nobody needs more.
    let random = STATE.with(|state| {
        let mut x = state.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33
    });
    Ok((random % queues as u64) as i32)
}

fn sending_forbidden(config: &BrokerConfig) -> Refusal {
    let remark = format!("the broker[{}] sending message is forbidden", config.broker_ip1);
    Refusal::new(ResponseCode::NO_PERMISSION, remark)
}

fn illegal_queue(queue_id: i32, topic: &crate::topics::Topic, cx: &Cx<'_>) -> Refusal {
    let attributes: Vec<String> = topic.attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let remark = format!(
        "request queueId[{queue_id}] is illegal, TopicConfig [topicName={}, readQueueNums={}, writeQueueNums={}, perm={}, \
         topicFilterType={}, topicSysFlag={}, order={}, attributes={{{}}}] Producer: {}",
        topic.topic_name,
        topic.read_queue_nums,
        topic.write_queue_nums,
        perm_text(topic.perm),
        topic.topic_filter_type.name(),
        topic.topic_sys_flag,
        topic.order,
        attributes.join(", "),
        cx.conn().client(),
    );
    Refusal::new(ResponseCode::INVALID_PARAMETER, remark)
}

/// Whether a message is neither prepared nor rolled back: only such messages are delayed.
fn may_be_delayed(flags: i32) -> bool {
    matches!(flags & sys_flag::TRANSACTION, 0 | sys_flag::TRANSACTION_COMMIT)
}
