//! The end of a transaction: a commit delivers the message, both ends note the half as ended.
//!
//! Runs on the task of the producer's connection. The message is in the log when [`Ending::end`] returns; as in Java
//! nobody waits for the disk: a commit that a crash loses is asked for again, because its half is still open then.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use config::{BrokerConfig, BrokerRole, Live, MessageStoreConfig};
use remoting::ResponseCode;
use remoting::header::EndTransaction;
use store::Store;
use store::record::{RecordView, sys_flag};

use super::ended::State;
use super::{Counts, Half, Halves, NO_REMARK, OpLog};
use crate::identity::Identity;
use crate::names;
use crate::send::properties::{Known, Properties};
use crate::send::{Message, Refusal, Sender};
use crate::stats::now_millis;

/// What an [`Ending`] works with.
pub struct EndingParts {
    /// Broker keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// Store keys.
    pub store_config: Arc<Live<MessageStoreConfig>>,
    /// The store.
    pub store: Arc<Store>,
    /// Puts messages where they belong.
    pub sender: Arc<Sender>,
    /// Names and addresses of the broker.
    pub identity: Arc<Identity>,
    /// Which halves have been ended.
    pub halves: Arc<Halves>,
    /// Writes that down.
    pub ops: Arc<OpLog>,
    /// Open transactions.
    pub counts: Arc<Counts>,
    /// Whether to time transactions for the exporter.
    pub timed: bool,
}

/// Ends transactions.
pub struct Ending {
    parts: EndingParts,
}

/// The answer to the end of a transaction: a code and a remark.
pub type Answer = (ResponseCode, Option<Cow<'static, str>>);

/// What is done with a half.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Commit,
    RollBack,
}

thread_local! {
    static PROPERTIES: RefCell<Properties> = RefCell::default();
}

impl Ending {
    /// Ends transactions with these parts.
    pub fn new(parts: EndingParts) -> Ending {
        Ending { parts }
    }

    /// Does what a producer wishes. `None`: Java does not answer.
    pub fn end(&self, request: &EndTransaction<'_>) -> Option<Answer> {
        let no_remark = |code| Some((code, Some(Cow::Borrowed(NO_REMARK))));
        let wish = match request.commit_or_rollback {
            sys_flag::TRANSACTION_COMMIT => Some(Wish::Commit),
            sys_flag::TRANSACTION_ROLLBACK => Some(Wish::RollBack),
            0 => None,
            _ => return Some(wrong("commitOrRollback field wrong")),
        };
        if self.parts.store_config.load().broker_role == BrokerRole::Slave {
            return no_remark(ResponseCode::SLAVE_NOT_AVAILABLE);
        }
        // Still unknown: the half waits for the next question.
        let wish = wish?;
        let record = u64::try_from(request.commit_log_offset).ok().and_then(|at| self.parts.store.record_at(at));
        let view = record.as_ref().and_then(|record| RecordView::parse(record).ok());
        let Some(view) = view.filter(|view| view.topic_bytes() == names::HALF_TOPIC.as_bytes()) else {
            return Some(wrong("Find prepared transaction message failed"));
        };
        let half = Half::of(&view);
        if !request.from_transaction_check && self.is_too_late(&view, &half) {
            return no_remark(ResponseCode::ILLEGAL_OPERATION);
        }
        if half.group != Some(&*request.producer_group) {
            return Some(wrong("The producer group wrong"));
        }
        if view.queue_offset() != request.tran_state_table_offset {
            return Some(wrong("The transaction state table offset wrong"));
        }
        match wish {
            Wish::Commit => match self.commit(&view, &half) {
                Ok(()) => Some((ResponseCode::SUCCESS, None)),
                Err(refusal) => Some((refusal.code, Some(refusal.remark))),
            },
            Wish::RollBack => {
                self.roll_back(&view, &half);
                no_remark(ResponseCode::SUCCESS)
            }
        }
    }

    /// A half that asks for an immunity of its own can be ended within it; after it only when its producer was asked.
    fn is_too_late(&self, view: &RecordView<'_>, half: &Half<'_>) -> bool {
        if half.immunity.is_none() {
            return false;
        }
        let limit = half.own_time_to_end(self.parts.config.load().transaction_time_out);
        limit.is_some_and(|limit| now_millis().saturating_sub(view.born_timestamp()) > limit)
    }

    fn commit(&self, view: &RecordView<'_>, half: &Half<'_>) -> Result<(), Refusal> {
        let parts = &self.parts;
        let Some((topic, queue_id)) = half.destination() else {
            let remark = "the half message does not say where it goes";
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        };
        let queue_id_of_half = view.queue_id();
        let (newest, before) = match queue_id_of_half {
            0 => parts.halves.begin_commit(view.queue_offset()),
            _ => (view.queue_offset(), State::Open),
        };
        if before == State::Committed {
            // Clients repeat what they have no answer to: the message is there.
            return Ok(());
        }
        let message = Message {
            flag: view.flag(),
            sys_flag: view.sys_flag() & !sys_flag::TRANSACTION | sys_flag::TRANSACTION_COMMIT,
            born_timestamp: view.born_timestamp(),
            born_host: view.born_host(),
            reconsume_times: view.reconsume_times(),
            body: view.body(),
        };
        let put = PROPERTIES.with_borrow_mut(|properties| {
            properties
                .fill(&[Known::RealTopic, Known::RealQueueId], |out| out.extend_from_slice(view.property_bytes()));
            parts.sender.put_committed(topic, queue_id, &message, view.phys_offset(), properties)
        });
        if let Err(refusal) = put {
            if queue_id_of_half == 0 {
                parts.halves.give_up_commit(newest, before);
            }
            return Err(in_javas_words(refusal));
        }
        if before == State::Open {
            parts.ops.add(queue_id_of_half, newest);
        }
        parts.counts.committed(topic, before == State::Open);
        self.record_time(view, topic);
        Ok(())
    }

    fn roll_back(&self, view: &RecordView<'_>, half: &Half<'_>) {
        let parts = &self.parts;
        let (newest, before) = match view.queue_id() {
            0 => parts.halves.end(view.queue_offset()),
            _ => (view.queue_offset(), State::Open),
        };
        if before != State::Open {
            return;
        }
        parts.ops.add(view.queue_id(), newest);
        if let Some(topic) = half.topic {
            parts.counts.rolled_back(topic);
        }
    }

    fn record_time(&self, view: &RecordView<'_>, topic: &str) {
        if !self.parts.timed {
            return;
        }
        let seconds = now_millis().saturating_sub(view.born_timestamp()) / 1000;
        let who = &self.parts.identity;
        let labels = [
            ("cluster", who.cluster.clone()),
            ("node_type", "broker".to_owned()),
            ("node_id", who.name.clone()),
            ("topic", topic.to_owned()),
        ];
        metrics::histogram!("rocketmq_finish_message_latency", &labels).record(seconds as f64);
    }
}

fn wrong(remark: &'static str) -> Answer {
    (ResponseCode::SYSTEM_ERROR, Some(Cow::Borrowed(remark)))
}

/// Java words some refusals of the store differently here than for a send.
fn in_javas_words(refusal: Refusal) -> Refusal {
    match refusal.code {
        ResponseCode::SYSTEM_BUSY => {
            Refusal::new(ResponseCode::SYSTEM_ERROR, "OS page cache busy, please try another machine")
        }
        ResponseCode::SERVICE_NOT_AVAILABLE => Refusal::new(refusal.code, "Service not available now."),
        ResponseCode::SYSTEM_ERROR if refusal.remark.starts_with("create mapped file failed") => {
            Refusal::new(refusal.code, "Create mapped file failed.")
        }
        _ => refusal,
    }
}
