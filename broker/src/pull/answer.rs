//! How a pull ended, in Java's words and codes.

use remoting::{FieldSink, ResponseCode, WriteHeader};
use store::ReadStatus;

use crate::static_topics::{PulledItem, Seen};

/// What a read came to: those of the store, and an offset that an operator has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Found,
    NoMatchedMessage,
    MessageWasRemoving,
    OffsetFoundNull,
    OffsetOverflowBadly,
    OffsetOverflowOne,
    OffsetTooSmall,
    NoMatchedLogicQueue,
    NoMessageInQueue,
    OffsetReset,
}

impl Status {
    pub(super) fn of(status: ReadStatus) -> Status {
        match status {
            ReadStatus::Found => Status::Found,
            ReadStatus::NoMatchedMessage => Status::NoMatchedMessage,
            ReadStatus::MessageWasRemoving => Status::MessageWasRemoving,
            ReadStatus::OffsetFoundNull => Status::OffsetFoundNull,
            ReadStatus::OffsetOverflowBadly => Status::OffsetOverflowBadly,
            ReadStatus::OffsetOverflowOne => Status::OffsetOverflowOne,
            ReadStatus::OffsetTooSmall => Status::OffsetTooSmall,
            ReadStatus::NoMatchedLogicQueue => Status::NoMatchedLogicQueue,
            ReadStatus::NoMessageInQueue => Status::NoMessageInQueue,
        }
    }

    /// The remark of the answer.
    pub(super) fn name(self) -> &'static str {
        match self {
            Status::Found => "FOUND",
            Status::NoMatchedMessage => "NO_MATCHED_MESSAGE",
            Status::MessageWasRemoving => "MESSAGE_WAS_REMOVING",
            Status::OffsetFoundNull => "OFFSET_FOUND_NULL",
            Status::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
            Status::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
            Status::OffsetTooSmall => "OFFSET_TOO_SMALL",
            Status::NoMatchedLogicQueue => "NO_MATCHED_LOGIC_QUEUE",
            Status::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
            Status::OffsetReset => "OFFSET_RESET",
        }
    }

    /// The code of the answer to a pull at `offset`.
    pub(super) fn code(self, offset: i64) -> ResponseCode {
        match self {
            Status::Found => ResponseCode::SUCCESS,
            Status::MessageWasRemoving | Status::NoMatchedMessage => ResponseCode::PULL_RETRY_IMMEDIATELY,
            // The queue is empty: whoever wants anything but its beginning is sent there.
            Status::NoMatchedLogicQueue | Status::NoMessageInQueue if offset != 0 => ResponseCode::PULL_OFFSET_MOVED,
            Status::NoMatchedLogicQueue | Status::NoMessageInQueue => ResponseCode::PULL_NOT_FOUND,
            Status::OffsetFoundNull | Status::OffsetOverflowOne => ResponseCode::PULL_NOT_FOUND,
            Status::OffsetOverflowBadly | Status::OffsetTooSmall | Status::OffsetReset => {
                ResponseCode::PULL_OFFSET_MOVED
            }
        }
    }
}

/// The header of an answer, with its code and remark.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) status: Status,
    pub(super) code: ResponseCode,
    /// Where to pull next.
    pub(super) next: i64,
    /// Lowest offset of the queue.
    pub(super) min: i64,
    /// Highest offset of the queue + 1.
    pub(super) max: i64,
    /// The broker of the set to pull from next.
    pub(super) suggest: i64,
    pub(super) topic_sys_flag: i32,
    pub(super) group_sys_flag: i32,
    /// Of a logical queue: what has to be added to the offsets of the messages.
    pub(super) delta: Option<i64>,
}

impl Page {
    /// The remark of the answer: that of a logical queue without messages has none.
    pub(super) fn remark(&self) -> Option<&'static str> {
        (self.delta.is_none() || self.code == ResponseCode::SUCCESS).then(|| self.status.name())
    }

    /// Turns the page of an item's queue, read from `offset`, into that of the logical queue.
    pub(super) fn see(&mut self, item: &PulledItem, offset: i64) {
        let Page { code, next, min, max, .. } = *self;
        let seen = item.see(offset, Seen { code, next, min, max, delta: 0 });
        (self.code, self.next, self.min, self.max) = (seen.code, seen.next, seen.min, seen.max);
        self.delta = Some(seen.delta);
    }

    /// Makes it a page that only says: ask again, from there.
    pub(super) fn ask_again(&mut self, offset: i64) {
        self.code = ResponseCode::PULL_RETRY_IMMEDIATELY;
        (self.next, self.min, self.max, self.delta) = (offset, offset, offset, Some(0));
    }
}

impl WriteHeader for Page {
    fn write(&self, sink: &mut dyn FieldSink) {
        sink.number("suggestWhichBrokerId", self.suggest);
        sink.number("nextBeginOffset", self.next);
        sink.number("minOffset", self.min);
        sink.number("maxOffset", self.max);
        if let Some(delta) = self.delta {
            sink.number("offsetDelta", delta);
        }
        sink.number("topicSysFlag", i64::from(self.topic_sys_flag));
        sink.number("groupSysFlag", i64::from(self.group_sys_flag));
    }
}
