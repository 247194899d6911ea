//! A pull that waits for messages: what its answer needs, and nothing that can be looked up again.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use remoting::body::subscription_group::SubscriptionGroupConfig;
use remoting::server::ReplyTo;
use store::Queue;

use super::ask::Ask;
use super::logical::LogicalWait;
use crate::filter::Filter;
use crate::parking::Waiting;

/// A parked pull, about 150 bytes.
pub(super) struct Waiter {
    pub(super) reply_to: ReplyTo,
    pub(super) queue: Arc<Queue>,
    /// Kept for its name.
    pub(super) group: Arc<SubscriptionGroupConfig>,
    pub(super) filter: Filter,
    /// The offset that the client asked for.
    pub(super) offset: i64,
    /// Everything before this offset is known not to match.
    pub(super) checked: i64,
    pub(super) sub_version: i64,
    pub(super) deadline: Instant,
    pub(super) max_messages: i32,
    pub(super) sys_flag: i32,
    pub(super) lite: bool,
    /// Of a static topic.
    pub(super) logical: Option<Box<LogicalWait>>,
}

impl Waiter {
    /// The pull that it stands for.
    pub(super) fn ask(&self) -> Ask<'_> {
        Ask {
            group: self.group.name(),
            topic: self.queue.topic(),
            lite_topic: None,
            queue_id: self.queue.id(),
            offset: self.offset,
            max_messages: self.max_messages,
            sys_flag: self.sys_flag,
            commit_offset: 0,
            suspend_millis: 0,
            expression: "",
            expression_type: None,
            sub_version: self.sub_version,
            lite: self.lite,
        }
    }

    /// Whether the group's tags are others now than when it asked.
    pub(super) fn is_outdated(&self, now: &Filter) -> bool {
        match (&self.filter, now) {
            (Filter::Tags(asked), Filter::Tags(now)) => !asked.is_all() && asked != now,
            (Filter::Tags(asked), _) => !asked.is_all(),
            // Clients do not look at what comes by an expression.
            _ => false,
        }
    }
}

/// The lot's name of a queue.
pub(super) fn queue_key(queue: &Arc<Queue>) -> usize {
    Arc::as_ptr(queue) as usize
}

impl Waiting for Waiter {
    fn queue(&self) -> usize {
        queue_key(&self.queue)
    }
    fn count(&self) -> &AtomicUsize {
        self.queue.waiters()
    }
    fn behind(&self) -> i64 {
        self.checked
    }
    fn is_wanted(&self) -> bool {
        self.reply_to.conn().is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_is_small() {
        assert!(size_of::<Waiter>() <= 160, "{}", size_of::<Waiter>());
    }
}
