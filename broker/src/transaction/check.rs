//! One look at the open halves: who is ended, who waits, who is asked, who is given up.
//!
//! A pass goes from the group's position in the half topic to the end of the queue, as it is when the pass begins. A half
//! that stays open is appended anew at the end, so the position always moves on and nothing blocks what is behind it.
//! The op topic is read up to its end first: what it lists is ended.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{BrokerConfig, Live, MessageStoreConfig};
use remoting::body::topic::TopicConfig;
use remoting::header::CheckTransactionState;
use remoting::server::ConnHandle;
use store::record::{MessageId, NewRecord, RecordView, Version, sys_flag};
use store::{All, AppendError, Appended, NewMessage, Queue, ReadRequest, ReadResult, ReadStatus, Store};

use super::ended::State;
use super::rules::{Rules, Verdict};
use super::{Counts, GROUP, Half, Halves, OpLog, ops};
use crate::clients::Producers;
use crate::identity::Identity;
use crate::names;
use crate::offsets::Offsets;
use crate::push::check_transaction;
use crate::send::properties::{Known, Properties};
use crate::slave::Escape;
use crate::stats::{Stats, now_millis};
use crate::topics::{PERM_READ, PERM_WRITE, TopicTable};

/// Messages of one read.
const BATCH: i32 = 32;
/// A pass ends after this, wherever it is.
const LONGEST_PASS: Duration = Duration::from_secs(60);
/// Halves whose state is looked up at a time.
const LOOK_UP: i64 = 4096;
/// Bytes that may be on their way to a producer before it is asked further questions.
const UNREAD: usize = 1 << 20;
/// How long a producer has to read them.
const PATIENCE: Duration = Duration::from_secs(1);
/// Producers of a group that are tried when some do not read.
const TRIES: usize = 4;
/// Halves of a kind that are named in the log, a pass.
const LOGGED: u64 = 8;
/// How long the disk may take.
const LONGEST_FLUSH: Duration = Duration::from_secs(10);

/// What a [`Checker`] works with.
pub struct CheckerParts {
    /// Broker keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// Store keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Positions.
    pub offsets: Arc<Offsets>,
    /// Who is asked.
    pub producers: Arc<Producers>,
    /// The store.
    pub store: Arc<Store>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Names and addresses of the broker.
    pub identity: Arc<Identity>,
    /// Which halves have been ended.
    pub halves: Arc<Halves>,
    /// Where that is written down.
    pub ops: Arc<OpLog>,
    /// Open transactions.
    pub counts: Arc<Counts>,
    /// Where halves go on a slave that stands in for its master.
    pub escape: Option<Arc<Escape>>,
}

/// Looks at open halves, with memory that is reused.
pub struct Checker {
    parts: Arc<CheckerParts>,
    read: ReadResult,
    properties: Properties,
    /// Where the op topic is read on.
    next_op: i64,
}

/// What a pass met.
#[derive(Default)]
struct Notes {
    /// Connections of producers that do not read what they are asked.
    deaf: HashSet<u64>,
    /// Halves that nobody could be asked for.
    unasked: u64,
    given_up: u64,
    /// Halves that do not say where they go.
    aimless: u64,
}

impl Notes {
    fn log(&self) {
        let Notes { unasked, given_up, aimless, .. } = self;
        if *unasked > LOGGED || *given_up > LOGGED || *aimless > 0 {
            tracing::warn!(unasked, given_up, aimless, "open transactions in trouble");
        }
    }
}

impl Checker {
    /// Nothing has been read yet.
    pub fn new(parts: Arc<CheckerParts>) -> Checker {
        Checker { parts, read: ReadResult::default(), properties: Properties::default(), next_op: 0 }
    }

    /// Where the group stands in a queue: at its beginning when it never was there.
    pub fn position(offsets: &Offsets, queue: &Queue) -> i64 {
        let saved = offsets.query(GROUP, queue.topic(), queue.id());
        saved.unwrap_or(0).max(queue.min_offset()).min(queue.max_offset())
    }

    /// One pass. `stop` ends it early.
    pub fn pass(&mut self, stop: &dyn Fn() -> bool) {
        let rw = PERM_READ | PERM_WRITE;
        let topic = self.parts.topics.create_if_absent(TopicConfig::new(names::HALF_TOPIC, 1, rw));
        if topic.read_queue_nums <= 0 {
            return;
        }
        // What is still gathered would be asked for.
        if self.parts.ops.flush() {
            self.parts.store.dispatch();
        }
        let half_queue = self.parts.halves.queue();
        let op_queue = self.parts.store.queue_or_create(names::OP_HALF_TOPIC, 0);
        // In this order: what the op topic lists up to its end is before the end of the half topic. All that is listed
        // and lies behind is damage, which would end a later half.
        let op_end = op_queue.max_offset();
        let half_end = half_queue.max_offset();
        let first = Checker::position(&self.parts.offsets, &half_queue);
        let first_op = Checker::position(&self.parts.offsets, &op_queue);
        let room = self.parts.halves.move_to(first);
        let whole = self.read_ops(&op_queue, first_op..op_end, half_end, room);
        // Copies that this pass appends are looked at in the next one.
        let (position, appended) = self.look_at_halves(&half_queue, first..half_end.min(room), stop);
        // The old halves may only be passed by when the new ones are as safe.
        if !self.is_on_disk(appended) {
            tracing::warn!(position, "open transactions that were put back do not get to the disk");
            return;
        }
        let offsets = self.parts.offsets.clone();
        if position != first {
            offsets.commit(GROUP, names::HALF_TOPIC, 0, position);
        }
        let op_position = self.skip_done_ops(&op_queue, first_op..op_end, position..half_end);
        if op_position != first_op {
            offsets.commit(GROUP, names::OP_HALF_TOPIC, 0, op_position);
        }
        if !whole {
            self.next_op = op_position;
        }
        if appended > 0
            && let Err(error) = offsets.persist()
        {
            // Those that were asked are asked again after a crash.
            tracing::error!(%error, "cannot save the position in the open transactions");
        }
        tracing::debug!(from = first, to = position, ops = op_position, "looked at open transactions");
        self.read.records.clear();
    }

    /// Takes in what the op topic lists. False: some of it is too far ahead and must be read again.
    fn read_ops(&mut self, queue: &Queue, range: Range<i64>, half_end: i64, room: i64) -> bool {
        let mut at = if self.next_op > range.end { range.start } else { self.next_op.max(range.start) };
        let mut whole = true;
        while at < range.end && self.read_at(queue, at) {
            for record in &self.read.records {
                let Ok(view) = RecordView::parse(record) else { continue };
                if view.queue_offset() >= range.end {
                    break;
                }
                for offset in ops::offsets(&view).filter(|offset| *offset < half_end) {
                    whole &= offset < room;
                    self.parts.halves.end(offset);
                }
            }
            at = self.read.next_offset.max(at + 1);
        }
        self.next_op = at.min(range.end);
        whole
    }

    /// The first op record that lists one of the halves that have not been looked at.
    fn skip_done_ops(&mut self, queue: &Queue, range: Range<i64>, open: Range<i64>) -> i64 {
        let mut at = range.start;
        while at < range.end && self.read_at(queue, at) {
            for record in &self.read.records {
                let Ok(view) = RecordView::parse(record) else { continue };
                if view.queue_offset() >= range.end || ops::offsets(&view).any(|offset| open.contains(&offset)) {
                    return view.queue_offset().min(range.end);
                }
            }
            at = self.read.next_offset.max(at + 1);
        }
        at.min(range.end)
    }

    /// Reads from an offset; false at the end of the queue. `read.next_offset` is where to go on, also when nothing is
    /// left of what was there.
    fn read_at(&mut self, queue: &Queue, at: i64) -> bool {
        let request = ReadRequest { offset: at, max_messages: BATCH, max_bytes: i32::MAX };
        self.parts.store.read(queue, &request, &All, &mut self.read);
        match self.read.status {
            ReadStatus::OffsetOverflowOne
            | ReadStatus::OffsetOverflowBadly
            | ReadStatus::NoMatchedLogicQueue
            | ReadStatus::NoMessageInQueue => false,
            ReadStatus::Found => true,
            ReadStatus::NoMatchedMessage
            | ReadStatus::MessageWasRemoving
            | ReadStatus::OffsetFoundNull
            | ReadStatus::OffsetTooSmall => {
                self.read.next_offset = self.read.next_offset.max(at + 1);
                true
            }
        }
    }

    /// Whether the log is on disk up to there, or gets there soon.
    fn is_on_disk(&self, end: u64) -> bool {
        let flushed = self.parts.store.flushed();
        if flushed.get() >= end {
            return true;
        }
        self.parts.store.request_flush();
        let limit = Instant::now() + LONGEST_FLUSH;
        while flushed.get() < end {
            if Instant::now() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Looks at halves. Returns the first that has not been looked at, and where in the log the last record ends that was
    /// appended for one; 0 without any.
    fn look_at_halves(&mut self, queue: &Queue, range: Range<i64>, stop: &dyn Fn() -> bool) -> (i64, u64) {
        let begin = Instant::now();
        let config = self.parts.config.load();
        let rules = Rules {
            now: now_millis(),
            time_out: config.transaction_time_out,
            check_max: config.transaction_check_max,
            kept: i64::from(self.parts.store_config.load().file_reserved_time).saturating_mul(3_600_000),
        };
        let end = range.end;
        let mut notes = Notes::default();
        let mut at = range.start;
        let mut appended = 0;
        'pass: while at < end && begin.elapsed() < LONGEST_PASS && !stop() {
            let open = self.parts.halves.next_open(at, end.min(at + LOOK_UP));
            if open > at {
                at = open;
                continue;
            }
            if !self.read_at(queue, at) {
                break;
            }
            let next = self.read.next_offset.min(end);
            let records = std::mem::take(&mut self.read.records);
            for record in &records {
                let Ok(view) = RecordView::parse(record) else { continue };
                let offset = view.queue_offset();
                if offset >= end {
                    break;
                }
                if offset < at || self.is_ended(offset, &Half::of(&view)) {
                    continue;
                }
                // A slave asks nobody: the broker that gets the half does.
                let verdict = match self.parts.escape {
                    Some(_) => Verdict::Ask,
                    None => rules.judge(&Half::of(&view), view.born_timestamp()),
                };
                if verdict == Verdict::Wait {
                    at = offset;
                    break 'pass;
                }
                let Some(done) = self.carry_out(verdict, &view, &mut notes) else {
                    // The store takes nothing: the half stays where it is.
                    at = offset;
                    break 'pass;
                };
                appended = done.end;
                at = offset + 1;
                if begin.elapsed() >= LONGEST_PASS || stop() {
                    break 'pass;
                }
            }
            self.read.records = records;
            at = next.max(at);
            // Little by little: whoever dispatches next would find all of it.
            self.parts.store.dispatch();
        }
        if appended > 0 {
            self.parts.store.dispatch();
        }
        notes.log();
        (at, appended)
    }

    /// Whether a half, or the one that it is a copy of, has been ended.
    fn is_ended(&self, offset: i64, half: &Half<'_>) -> bool {
        let ended = |offset| self.parts.halves.state(offset) != State::Open;
        ended(offset) || half.prepared_offset.and_then(|of| of.parse().ok()).is_some_and(ended)
    }

    /// Appends what the verdict makes of a half; `None` when the store does not take it.
    fn carry_out(&mut self, verdict: Verdict, view: &RecordView<'_>, notes: &mut Notes) -> Option<Appended> {
        let half = Half::of(view);
        if let Some(escape) = self.parts.escape.clone() {
            return self.hand_over(&escape, view, &half);
        }
        self.properties.fill(&[], |out| out.extend_from_slice(view.property_bytes()));
        let mut number = itoa::Buffer::new();
        match verdict {
            Verdict::GiveUp => return self.give_up(view, &half, notes),
            Verdict::PutBack if half.prepared_offset.is_none() => {
                self.properties.put(Known::PreparedQueueOffset, number.format(view.queue_offset()).as_bytes());
            }
            Verdict::PutBack | Verdict::Wait => {}
            Verdict::Ask => {
                let times = half.times_checked().saturating_add(1);
                self.properties.put(Known::CheckTimes, number.format(times).as_bytes());
            }
        }
        let appended = match self.append(names::HALF_TOPIC, view) {
            Ok(appended) => appended,
            Err(error) => {
                tracing::warn!(offset = view.queue_offset(), %error, "cannot put back an open transaction");
                return None;
            }
        };
        if self.parts.halves.moved(view.queue_offset(), appended.queue_offset) != State::Open {
            self.parts.ops.add(0, appended.queue_offset);
        } else if verdict == Verdict::Ask {
            self.ask(view, &half, &appended, notes);
        }
        Some(appended)
    }

    /// Makes a half one of another broker's; `None`: try again later.
    fn hand_over(&mut self, escape: &Escape, view: &RecordView<'_>, half: &Half<'_>) -> Option<Appended> {
        let offset = view.queue_offset();
        let nowhere =
            Appended { phys_offset: 0, end: 0, queue_offset: offset, store_timestamp: view.store_timestamp() };
        let Some(topic) = half.topic else {
            tracing::error!(offset, "an open transaction does not say what topic it is for");
            return Some(nowhere);
        };
        self.properties.fill(&[Known::PreparedQueueOffset, Known::RealQueueId], |out| {
            out.extend_from_slice(view.property_bytes());
        });
        self.properties.put(Known::TransactionPrepared, b"true");
        let message = NewMessage {
            flag: view.flag(),
            sys_flag: view.sys_flag() | sys_flag::TRANSACTION_PREPARED,
            born_timestamp: view.born_timestamp(),
            born_host: view.born_host(),
            reconsume_times: view.reconsume_times(),
            prepared_transaction_offset: 0,
            properties: self.properties.as_bytes(),
            body: view.body(),
        };
        escape.put_or_wait("half", offset, topic, &message).then(|| {
            self.parts.halves.end(offset);
            nowhere
        })
    }

    fn give_up(&mut self, view: &RecordView<'_>, half: &Half<'_>, notes: &mut Notes) -> Option<Appended> {
        let topic = TopicConfig::new(names::TRANS_CHECK_MAX_TIME_TOPIC, 1, PERM_READ | PERM_WRITE);
        self.parts.topics.create_if_absent(topic);
        let appended = match self.append(names::TRANS_CHECK_MAX_TIME_TOPIC, view) {
            Ok(appended) => appended,
            Err(error) => {
                tracing::warn!(offset = view.queue_offset(), %error, "cannot put an open transaction aside");
                return None;
            }
        };
        notes.given_up += 1;
        if notes.given_up <= LOGGED {
            tracing::error!(
                topic = half.topic,
                group = half.group,
                unique_key = half.unique_key,
                times = half.times_checked(),
                "gave up an open transaction: it is in {}",
                names::TRANS_CHECK_MAX_TIME_TOPIC
            );
        }
        self.parts.halves.end(view.queue_offset());
        if let Some(topic) = half.topic {
            self.parts.counts.discarded(topic);
        }
        Some(appended)
    }

    /// Appends the half with the properties that have been prepared to queue 0 of a topic.
    fn append(&self, topic: &str, view: &RecordView<'_>) -> Result<Appended, AppendError> {
        let parts = &self.parts;
        let message = NewMessage {
            flag: view.flag(),
            sys_flag: view.sys_flag(),
            born_timestamp: view.born_timestamp(),
            born_host: view.born_host(),
            reconsume_times: view.reconsume_times(),
            prepared_transaction_offset: 0,
            properties: self.properties.as_bytes(),
            body: view.body(),
        };
        let appended = parts.store.append(&parts.store.queue_or_create(topic, 0), &message)?;
        if let Some(topic) = parts.topics.get(topic) {
            parts.stats.put(&topic.stats, 1, appended.end - appended.phys_offset, false);
        }
        Ok(appended)
    }

    /// Asks a producer of the group, if there is one: the question counts in any case.
    fn ask(&mut self, view: &RecordView<'_>, half: &Half<'_>, appended: &Appended, notes: &mut Notes) {
        let (Some((topic, queue_id)), Some(group)) = (half.destination(), half.group) else {
            notes.aimless += 1;
            return;
        };
        let hears = |producer: &ConnHandle| !notes.deaf.contains(&producer.id());
        let producers = &self.parts.producers;
        let Some(producer) = (0..TRIES).find_map(|_| producers.available(group).filter(hears)) else {
            notes.unasked += 1;
            if notes.unasked <= LOGGED {
                tracing::warn!(group, topic, "nobody of the group can be asked for an open transaction");
            }
            return;
        };
        // The client's copy does not wait for a flush.
        self.properties.put(Known::Wait, b"false");
        let record = NewRecord {
            version: Version::for_topic(topic.len()),
            body_crc: view.body_crc(),
            queue_id,
            flag: view.flag(),
            queue_offset: appended.queue_offset,
            phys_offset: appended.phys_offset as i64,
            sys_flag: view.sys_flag(),
            born_timestamp: view.born_timestamp(),
            born_host: view.born_host(),
            store_timestamp: view.store_timestamp(),
            store_host: view.store_host(),
            reconsume_times: view.reconsume_times(),
            prepared_transaction_offset: view.prepared_transaction_offset(),
            body: view.body(),
            topic,
            properties: self.properties.as_bytes(),
            crc_property: false,
        };
        let mut body = vec![0; record.encoded_len()];
        record.encode(&mut body);
        let id = MessageId { host: self.parts.identity.store_host, phys_offset: appended.phys_offset };
        let header = CheckTransactionState {
            bname: Some(self.parts.identity.name.as_str().into()),
            topic: Some(names::HALF_TOPIC.into()),
            tran_state_table_offset: appended.queue_offset,
            commit_log_offset: appended.phys_offset as i64,
            msg_id: half.unique_key.map(Into::into),
            transaction_id: half.unique_key.map(Into::into),
            offset_msg_id: Some(id.to_string().into()),
            ..CheckTransactionState::default()
        };
        check_transaction::push(&producer, &header, body);
        let limit = Instant::now() + PATIENCE;
        while producer.queued() > UNREAD && producer.is_open() {
            if Instant::now() > limit {
                tracing::warn!(group, peer = %producer.client(), "a producer does not read what it is asked");
                notes.deaf.insert(producer.id());
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
