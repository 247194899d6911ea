//! Handing out messages: PULL_MESSAGE, LITE_PULL_MESSAGE, and the pulls that wait.
//!
//! A pull that finds nothing and may wait becomes a `Waiter` in the [`Lot`]. It is served on the thread that dispatches
//! the message it waits for: the read and the write of the answer happen right there.

mod answer;
mod ask;
mod cold;
mod logical;
mod plan;
mod waiter;

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{BrokerConfig, BrokerRole, Live, MessageStoreConfig};
use remoting::header::PullMessage;
use remoting::server::{Cx, Outcome, ReplyTo};
use remoting::{Reply, ResponseCode};
use store::lmq::is_lmq;
use store::record::RecordView;
use store::{Arrival, ReadRequest, ReadResult, ReadStatus, RecordSlice, Store};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::clients::Consumers;
use crate::cold::ColdControl;
use crate::filter::ConsumerFilters;
use crate::groups::Groups;
use crate::names;
use crate::offsets::Offsets;
use crate::parking::Lot;
use crate::send::Refusal;
use crate::send::properties::Known;
use crate::slave::Members;
use crate::static_topics::{Peers, StaticTopics};
use crate::stats::Stats;
use crate::topics::TopicTable;
use answer::{Page, Status};
use ask::Ask;
use logical::Turned;
use plan::{Plan, Rejection};
use waiter::{Waiter, queue_key};

/// The most bytes of one answer; the store's own limits for one read are far below it.
const MAX_PULL_BYTES: i32 = 128 * 1024 * 1024;

/// What a [`Puller`] works with.
pub struct PullerParts {
    /// Broker keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Which of them are static.
    pub static_topics: Arc<StaticTopics>,
    /// The brokers that have other parts of these.
    pub peers: Arc<Peers>,
    /// Consumer groups.
    pub groups: Arc<Groups>,
    /// Consumer offsets.
    pub offsets: Arc<Offsets>,
    /// Connected consumers.
    pub consumers: Arc<Consumers>,
    /// Their expressions.
    pub filters: Arc<ConsumerFilters>,
    /// The store.
    pub store: Arc<Store>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Limits of cold reads.
    pub cold: Arc<ColdControl>,
    /// Store keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// The brokers of the group.
    pub members: Arc<Members>,
}

/// Serves pulls.
pub struct Puller {
    parts: PullerParts,
    /// `brokerRole=SLAVE`.
    on_slave: bool,
    lot: Lot<Waiter>,
    /// Places for pulls that wait because they read cold data.
    held: Arc<Semaphore>,
}

impl Puller {
    /// A puller.
    pub fn new(parts: PullerParts) -> Puller {
        let on_slave = parts.store_config.load().broker_role == BrokerRole::Slave;
        Puller { parts, on_slave, lot: Lot::new(), held: Arc::new(Semaphore::new(cold::MOST_HELD)) }
    }

    /// Handles a pull; `lite` for LITE_PULL_MESSAGE.
    pub fn pull(self: &Arc<Self>, cx: &mut Cx<'_>, header: &PullMessage<'_>, lite: bool) -> Outcome {
        let mut ask = Ask::of(header, lite);
        let mut logical = None;
        if let Some(mapping) = self.parts.static_topics.find(ask.topic, header.lo) {
            match self.turn(&mut ask, header, mapping) {
                Turned::Ours(wait) => logical = Some(Box::new(wait)),
                Turned::Done(outcome) => return outcome,
            }
        }
        let config = self.parts.config.load();
        if self.on_slave && !config.slave_read_enable {
            return Refusal::busy().into();
        }
        let plan = match self.plan(&config, cx.conn(), &ask, None) {
            Ok(plan) => plan,
            Err(Rejection { code, remark, header }) => return cx.write(code, Some(&remark), &header, &[]),
        };
        let limited = self.parts.cold.is_on();
        if limited && let Some(outcome) = self.put_off(cx, &ask, &plan, &mut logical) {
            return outcome;
        }
        if !ask.suspends() {
            // Nobody tells it of what comes later: it sees what was acknowledged before.
            self.parts.store.catch_up();
        }
        let mut read = Scratch::take();
        let mut page = self.read(&config, &plan, &ask, ask.offset, &mut read);
        if limited {
            self.count_cold(ask.group, &read);
        }
        self.commit(&ask, &plan, page.next, true);
        if let Some(logical) = &logical {
            page.see(logical.item(), ask.offset);
        }
        if page.code == ResponseCode::SUCCESS {
            return if read.suggest_slave { from_disk(&mut read, page) } else { write(cx, &read, &page) };
        }
        drop(read);
        if page.code == ResponseCode::PULL_NOT_FOUND
            && ask.suspends()
            && ask.lite_topic.is_none()
            && let Some(queue) = plan.queue
        {
            let wait = if config.long_polling_enable { ask.suspend_millis } else { config.short_polling_time_mills };
            self.park(Waiter {
                reply_to: cx.reply_to(),
                queue,
                group: plan.group,
                filter: plan.filter,
                offset: ask.offset,
                checked: ask.offset,
                sub_version: ask.sub_version,
                deadline: deadline(wait),
                max_messages: ask.max_messages,
                sys_flag: ask.sys_flag,
                lite,
                logical,
            });
            return Outcome::Parked;
        }
        cx.write(page.code, page.remark(), &page, &[])
    }

    /// Serves the waiters of a queue that has new messages. Called by the store on its dispatching thread.
    pub fn arrived(&self, arrival: &Arrival<'_>) {
        for waiter in self.lot.take_ready(queue_key(arrival.queue), arrival.max_offset) {
            self.resume(waiter);
        }
    }

    /// Answers waiters whose time is up, until `stop`.
    pub async fn expire(&self, stop: CancellationToken) {
        self.lot.run(stop, |waiter| self.give_up(waiter)).await;
    }

    /// Answers all waiters as they stand: the master is back, and they are sent there.
    pub fn release_all(&self) {
        for waiter in self.lot.take_all() {
            self.give_up(waiter);
        }
    }

    /// How many pulls wait.
    pub fn waiting(&self) -> usize {
        self.lot.len()
    }

    /// Parks a waiter, and serves it at once when its queue has moved in the meantime.
    fn park(&self, waiter: Waiter) {
        if let Some(back) = self.park_unless_moved(waiter) {
            self.resume(back);
        }
    }

    fn park_unless_moved(&self, waiter: Waiter) -> Option<Waiter> {
        let (queue, checked, deadline) = (Arc::clone(&waiter.queue), waiter.checked, waiter.deadline);
        let ticket = self.lot.park(waiter, deadline);
        if queue.max_offset() <= checked {
            return None;
        }
        self.lot.take(ticket)
    }

    /// Looks at what has come since the waiter looked last: answers when something matches, else parks it again.
    fn resume(&self, mut waiter: Waiter) {
        loop {
            if !waiter.reply_to.conn().is_open() {
                return;
            }
            let config = self.parts.config.load();
            let plan = match self.plan(&config, waiter.reply_to.conn(), &waiter.ask(), Some(&waiter)) {
                Ok(plan) => plan,
                Err(rejection) => return send_rejection(waiter.reply_to, &rejection),
            };
            if waiter.is_outdated(&plan.filter) {
                return self.send_away(&config, waiter, &plan);
            }
            let mut from = waiter.checked;
            loop {
                let mut read = Scratch::take();
                let page = self.read(&config, &plan, &waiter.ask(), from, &mut read);
                let moved = page.next > from;
                let passed_over = page.code == ResponseCode::PULL_RETRY_IMMEDIATELY && moved;
                if page.code != ResponseCode::PULL_NOT_FOUND && !passed_over {
                    self.commit(&waiter.ask(), &plan, page.next, false);
                    return self.send(waiter, &read, page);
                }
                from = from.max(page.next);
                if !passed_over || from >= page.max {
                    break;
                }
            }
            waiter.checked = from;
            match self.park_unless_moved(waiter) {
                Some(back) => waiter = back,
                None => return,
            }
        }
    }

    /// Answers a waiter whose time is up with what a pull without waiting would get.
    fn give_up(&self, waiter: Waiter) {
        let config = self.parts.config.load();
        let plan = match self.plan(&config, waiter.reply_to.conn(), &waiter.ask(), Some(&waiter)) {
            Ok(plan) => plan,
            Err(rejection) => return send_rejection(waiter.reply_to, &rejection),
        };
        if waiter.is_outdated(&plan.filter) {
            return self.send_away(&config, waiter, &plan);
        }
        let mut read = Scratch::take();
        let page = self.read(&config, &plan, &waiter.ask(), waiter.offset, &mut read);
        self.commit(&waiter.ask(), &plan, page.next, false);
        self.send(waiter, &read, page);
    }

    /// Lets a client ask again from the same offset: it would judge what it gets by the tags that it asked with, and drop what its new
    /// subscription wants. Java answers such a pull with messages, and they are lost.
    fn send_away(&self, config: &BrokerConfig, waiter: Waiter, plan: &Plan) {
        let mut page = Self::empty(plan);
        (page.status, page.next) = (Status::NoMatchedMessage, waiter.offset);
        page.code = page.status.code(waiter.offset);
        if let Some(queue) = &plan.queue {
            (page.min, page.max) = (queue.min_offset(), queue.max_offset());
        }
        if config.slave_read_enable {
            page.suggest = plan.group.broker_id;
        }
        self.send(waiter, &Scratch::take(), page);
    }

    /// An answer before anything was read.
    fn empty(plan: &Plan) -> Page {
        Page {
            status: Status::NoMatchedLogicQueue,
            code: ResponseCode::PULL_NOT_FOUND,
            next: 0,
            min: 0,
            max: 0,
            suggest: 0,
            topic_sys_flag: plan.topic.topic_sys_flag,
            group_sys_flag: plan.group.group_sys_flag,
            delta: None,
        }
    }

    /// Answers a waiter with what was read for it.
    fn send(&self, waiter: Waiter, read: &ReadResult, mut page: Page) {
        let moved = waiter.logical.as_deref().and_then(|logical| self.revisit(logical, waiter.offset, &mut page).err());
        match moved {
            Some(reply) => waiter.reply_to.send(&reply),
            None if page.code == ResponseCode::SUCCESS => send(waiter.reply_to, read, &page),
            None => waiter.reply_to.send_with(page.code, page.remark(), &page, |_| {}),
        }
    }

    /// Reads from an offset and says what the answer is.
    fn read(&self, config: &BrokerConfig, plan: &Plan, ask: &Ask<'_>, from: i64, read: &mut ReadResult) -> Page {
        let mut page = Self::empty(plan);
        let mut took = Duration::ZERO;
        let reset = self.parts.offsets.take_reset(ask.group, ask.topic, ask.queue_id);
        if let Some(offset) = reset.filter(|_| config.use_server_side_reset_offset) {
            page.status = Status::OffsetReset;
            page.next = offset;
            if let Some(queue) = &plan.queue {
                (page.min, page.max) = (queue.min_offset(), queue.max_offset());
            }
        } else if let Some(queue) = &plan.queue {
            let request = ReadRequest { offset: from, max_messages: ask.max_messages, max_bytes: MAX_PULL_BYTES };
            let start = Instant::now();
            self.parts.store.read(queue, &request, &plan.filter, read);
            took = start.elapsed();
            self.parts.stats.get_times.record(took, 1);
            page.status = Status::of(read.status);
            (page.next, page.min, page.max) = (read.next_offset, read.min_offset, read.max_offset);
        }
        page.code = page.status.code(ask.offset);
        if config.slave_read_enable {
            let slow = read.suggest_slave;
            page.suggest = if slow { plan.group.which_broker_when_consume_slowly } else { plan.group.broker_id };
        }
        if self.parts.members.own_id() != 0 {
            self.advise_on_slave(&mut page, plan, read);
        }
        self.count(&page, plan, ask, read, took);
        page
    }

    /// Sends readers back to the master as soon as they have caught up, if there is one; and lets it correct their offsets.
    #[cold]
    fn advise_on_slave(&self, page: &mut Page, plan: &Plan, read: &ReadResult) {
        if !read.suggest_slave && self.parts.members.least_id() == 0 {
            page.suggest = 0;
            if page.status != Status::Found {
                page.code = ResponseCode::PULL_RETRY_IMMEDIATELY;
            }
        }
        let corrects = !self.on_slave || self.parts.store_config.load().offset_check_in_slave;
        if page.code == ResponseCode::PULL_OFFSET_MOVED && !corrects {
            page.suggest = plan.group.broker_id;
            page.code = ResponseCode::PULL_RETRY_IMMEDIATELY;
        }
    }

    fn count(&self, page: &Page, plan: &Plan, ask: &Ask<'_>, read: &ReadResult, took: Duration) {
        if page.code != ResponseCode::SUCCESS {
            return self.parts.stats.missed();
        }
        // Light queues come and go: they are counted as one, unless each is asked for.
        let counted = |name| match is_lmq(name) && !self.parts.config.load().enable_lmq_stats {
            true => names::LMQ_PREFIX,
            false => name,
        };
        let reading = plan.reader.reading(|| self.parts.stats.reading(counted(ask.group), counted(ask.topic)));
        let user = !names::is_system_group(ask.group) && plan.topic.seats.user;
        let messages = match plan.queue.as_ref().is_some_and(|queue| queue.is_batch()) {
            true => read.records.iter().map(|record| inner_messages(record)).sum(),
            false => read.records.len() as u64,
        };
        let bytes = read.bytes as u64;
        self.parts.stats.got(reading, ask.queue_id, messages, bytes, took, user);
    }

    /// Notes how far the group has pulled, and what it says it has consumed (`first`: not when a waiter is served).
    fn commit(&self, ask: &Ask<'_>, plan: &Plan, next: i64, first: bool) {
        self.parts.offsets.commit_pull(&plan.reader.pulled, ask.queue_id, next);
        if first && ask.commits() {
            self.parts.offsets.commit(ask.group, ask.topic, ask.queue_id, ask.commit_offset);
        }
    }
}

/// The thread's [`ReadResult`], given back when it goes: reads of a thread share its memory.
struct Scratch(ReadResult);

impl Scratch {
    fn take() -> Scratch {
        Scratch(READ.replace(EMPTY))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The records keep files mapped.
        self.0.records.clear();
        READ.replace(std::mem::replace(&mut self.0, EMPTY));
    }
}

impl Deref for Scratch {
    type Target = ReadResult;
    fn deref(&self) -> &ReadResult {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut ReadResult {
        &mut self.0
    }
}

const EMPTY: ReadResult = ReadResult {
    status: ReadStatus::NoMessageInQueue,
    next_offset: 0,
    min_offset: 0,
    max_offset: 0,
    records: Vec::new(),
    bytes: 0,
    suggest_slave: false,
};

thread_local! {
    static READ: RefCell<ReadResult> = const { RefCell::new(EMPTY) };
}

fn write(cx: &mut Cx<'_>, read: &ReadResult, page: &Page) -> Outcome {
    cx.write_with(page.code, page.remark(), page, |out| append(read, out))
}

fn send(reply_to: ReplyTo, read: &ReadResult, page: &Page) {
    reply_to.send_with(page.code, page.remark(), page, |out| append(read, out));
}

fn append(read: &ReadResult, out: &mut Vec<u8>) {
    out.reserve(read.bytes);
    ask_for(&read.records);
    for record in &read.records {
        out.extend_from_slice(record);
    }
}

/// Records of one queue among very many lie far apart: all are asked for at once, instead of one after the other as they are copied.
fn ask_for(records: &[RecordSlice]) {
    /// Between records that a processor finds by itself, and in a record.
    const FAR: usize = 4096;
    const LINE: usize = 64;
    const MOST: usize = 1024;
    let at = |record: &RecordSlice| record.as_ptr() as usize;
    let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
    if at(first).abs_diff(at(last)) / records.len() < FAR {
        return;
    }
    let lines = records.iter().flat_map(|record| record.iter().take(MOST).step_by(LINE));
    std::hint::black_box(lines.fold(0, |all, byte| all ^ byte));
}

/// Messages in a record of a batch queue.
fn inner_messages(record: &[u8]) -> u64 {
    let record = RecordView::parse(record).ok();
    record.and_then(|record| record.properties().get(Known::InnerNum.name())?.parse().ok()).unwrap_or(1)
}

fn send_rejection(reply_to: ReplyTo, rejection: &Rejection) {
    reply_to.send_with(rejection.code, Some(&rejection.remark), &rejection.header, |_| {});
}

/// Messages that lie so far back that they must be read from the disk: copied where waiting for it hurts nobody.
fn from_disk(read: &mut ReadResult, page: Page) -> Outcome {
    let mut read = std::mem::replace(read, EMPTY);
    Outcome::Later(Box::pin(async move {
        let body = tokio::task::spawn_blocking(move || {
            let mut body = Vec::new();
            append(&read, &mut body);
            read.records.clear();
            body
        });
        match body.await {
            Ok(body) => Reply::code(page.code).remark(page.status.name()).header(&page).body(body),
            Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()),
        }
    }))
}

/// The deadline of a wait in milliseconds. A wait of years is as good as one without an end.
fn deadline(millis: i64) -> Instant {
    const YEAR: u64 = 365 * 24 * 3600 * 1000;
    Instant::now() + Duration::from_millis(u64::try_from(millis).unwrap_or(0).min(YEAR))
}
