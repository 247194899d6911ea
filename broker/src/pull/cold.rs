//! Groups that read too much cold data: see [`ColdControl`](crate::cold::ColdControl).
//!
//! A push consumer is told that the broker is busy, and comes again later by itself. One that pulls when it likes is kept
//! waiting and then gets a single message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use remoting::body::heartbeat::ConsumeType;
use remoting::server::{Cx, Outcome};
use remoting::{Reply, ResponseCode};
use store::ReadResult;
use store::record::RecordView;

use super::Puller;
use super::ask::Ask;
use super::logical::LogicalWait;
use super::plan::Plan;
use super::waiter::Waiter;
use crate::stats::now_millis;

/// How long a pull is kept waiting.
const HELD: Duration = Duration::from_secs(3);
/// Pulls that wait for this at the same time; further ones are told that the broker is busy.
pub(super) const MOST_HELD: usize = 10_000;

impl Puller {
    /// Puts a pull off when its group has used up its share of cold data and wants more.
    pub(super) fn put_off(
        self: &Arc<Self>,
        cx: &mut Cx<'_>,
        ask: &Ask<'_>,
        plan: &Plan,
        logical: &mut Option<Box<LogicalWait>>,
    ) -> Option<Outcome> {
        let queue = plan.queue.as_ref().filter(|_| self.parts.cold.is_used_up(ask.group))?;
        let entry = queue.entry(ask.offset)?;
        if !self.is_cold(entry.unit.phys) {
            return None;
        }
        let busy = || {
            let remark = "This consumer group is reading cold data. It has been flow control";
            Some(Reply::error(ResponseCode::SYSTEM_BUSY, remark).into())
        };
        match self.parts.consumers.membership(ask.group)?.consume_type {
            Some(ConsumeType::Passively) => busy(),
            Some(ConsumeType::Actively) => {
                let Ok(place) = self.held.clone().try_acquire_owned() else { return busy() };
                let waiter = Waiter {
                    reply_to: cx.reply_to(),
                    queue: queue.clone(),
                    group: plan.group.clone(),
                    filter: plan.filter.clone(),
                    offset: ask.offset,
                    checked: ask.offset,
                    sub_version: ask.sub_version,
                    deadline: Instant::now() + HELD,
                    max_messages: 1,
                    sys_flag: ask.sys_flag,
                    lite: ask.lite,
                    logical: logical.take(),
                };
                let puller = self.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(HELD).await;
                    puller.give_up(waiter);
                    drop(place);
                });
                Some(Outcome::Parked)
            }
            _ => None,
        }
    }

    /// Counts the cold messages of a read.
    pub(super) fn count_cold(&self, group: &str, read: &ReadResult) {
        let records = read.records.iter().filter_map(|record| RecordView::parse(record).ok());
        let cold: usize = records.filter(|record| self.is_cold(record.phys_offset())).map(|record| record.size()).sum();
        self.parts.cold.count(group, i64::try_from(cold).unwrap_or(i64::MAX), now_millis());
    }

    fn is_cold(&self, phys: i64) -> bool {
        let behind = self.parts.store.log_range().end.saturating_sub(u64::try_from(phys).unwrap_or(0));
        behind > self.parts.store.hot_bytes()
    }
}
