//! What a consumer asks for, borrowed from its request or from a parked waiter.

use remoting::header::PullMessage;

/// Bit of the flags: `commitOffset` counts.
pub(super) const COMMIT: i32 = 1;
/// Bit of the flags: wait when there is nothing.
pub(super) const SUSPEND: i32 = 1 << 1;
/// Bit of the flags: the request carries its subscription.
const SUBSCRIPTION: i32 = 1 << 2;

/// A pull.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub(super) group: &'a str,
    pub(super) topic: &'a str,
    pub(super) lite_topic: Option<&'a str>,
    pub(super) queue_id: i32,
    pub(super) offset: i64,
    pub(super) max_messages: i32,
    pub(super) sys_flag: i32,
    pub(super) commit_offset: i64,
    pub(super) suspend_millis: i64,
    pub(super) expression: &'a str,
    pub(super) expression_type: Option<&'a str>,
    pub(super) sub_version: i64,
    /// LITE_PULL_MESSAGE.
    pub(super) lite: bool,
}

impl<'a> Ask<'a> {
    pub(super) fn of(header: &'a PullMessage<'_>, lite: bool) -> Ask<'a> {
        Ask {
            group: &header.consumer_group,
            topic: &header.topic,
            lite_topic: header.lite_topic.as_deref().filter(|topic| !topic.trim().is_empty()),
            queue_id: header.queue_id,
            offset: header.queue_offset,
            max_messages: header.max_msg_nums,
            sys_flag: header.sys_flag,
            commit_offset: header.commit_offset,
            suspend_millis: header.suspend_timeout_millis,
            expression: header.subscription.as_deref().unwrap_or_default(),
            expression_type: header.expression_type.as_deref(),
            sub_version: header.sub_version,
            lite,
        }
    }

    pub(super) fn commits(&self) -> bool {
        self.sys_flag & COMMIT != 0
    }

    pub(super) fn suspends(&self) -> bool {
        self.sys_flag & SUSPEND != 0
    }

    pub(super) fn carries_subscription(&self) -> bool {
        self.sys_flag & SUBSCRIPTION != 0
    }
}
