//! A pull of a logical queue: which item it reads, and what its answer says of the whole.

use std::sync::Arc;

use remoting::ResponseCode;
use remoting::body::topic_queue_mapping::LogicQueueMappingItem as Item;

use super::items;
use super::mapping::{Led, Mapping};

/// The item that a pull reads.
#[derive(Clone, Debug)]
pub struct PulledItem {
    led: Led,
    at: usize,
}

/// Code and offsets of an answer: first those of the broker's queue, then those of the logical one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The code.
    pub code: ResponseCode,
    /// Where to pull next.
    pub next: i64,
    /// The first offset.
    pub min: i64,
    /// Behind the last offset.
    pub max: i64,
    /// What has to be added to the offsets of the messages.
    pub delta: i64,
}

impl PulledItem {
    /// The item that has a logical offset.
    ///
    /// # Errors
    /// This broker does not lead the queue, or no item of it has a place: code and remark of the answer.
    pub fn find(mapping: Arc<Mapping>, id: i32, offset: i64) -> Result<PulledItem, (ResponseCode, String)> {
        let led = mapping.led(id).map_err(|mapping| {
            let (topic, broker) = (mapping.topic(), mapping.broker());
            let remark = format!("{topic}-{id} cannot find mapping item in request process of current broker {broker}");
            (ResponseCode::NOT_LEADER_FOR_QUEUE, remark)
        })?;
        match items::holding(led.items(), offset) {
            Some(at) => Ok(PulledItem { led, at }),
            None => {
                Err((ResponseCode::SYSTEM_ERROR, format!("no item of {}-{id} has a place yet", led.mapping().topic())))
            }
        }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        self.led.mapping().topic()
    }

    /// The item.
    pub fn item(&self) -> &Item {
        &self.led.items()[self.at]
    }

    /// Whether it is a queue of this broker.
    pub fn is_ours(&self) -> bool {
        self.led.mapping().is_ours(self.item())
    }

    /// Whether two pulls read the same.
    pub fn is_same(&self, other: &PulledItem) -> bool {
        let (one, other) = (self.item(), other.item());
        (one.generation, one.queue_id, one.logic_offset) == (other.generation, other.queue_id, other.logic_offset)
            && one.bname == other.bname
    }

    /// How many messages may be read at most: not more than are in an item that is closed.
    pub fn most(&self, wanted: i32) -> i32 {
        let item = self.item();
        if !item.is_closed() {
            return wanted;
        }
        wanted.min(i32::try_from(item.end_offset.saturating_sub(item.start_offset)).unwrap_or(i32::MAX))
    }

    /// The offset in the item's queue that a commit of the logical queue means; `None`: it is not of this item.
    pub fn committed(&self, offset: i64) -> Option<i64> {
        (items::holding(self.led.items(), offset) == Some(self.at)).then(|| self.item().physical(offset))
    }

    /// What the answer about the item's queue means for the logical queue. `asked`: the offset that was read from, of the
    /// item's queue.
    pub fn see(&self, asked: i64, of_item: Seen) -> Seen {
        let items = self.led.items();
        let (mut item, mut seen) = (self.item(), of_item);
        if of_item.code != ResponseCode::SUCCESS
            && let Some(moved) = self.turn(asked, &mut seen)
        {
            item = moved;
        }
        if item.is_closed() {
            seen.next = seen.next.min(item.end_offset);
        }
        Seen {
            code: seen.code,
            next: item.logical(seen.next),
            min: item.logical(seen.min.max(item.start_offset)),
            max: item.logical(seen.max).max(items.last().map_or(-1, Item::known_end)),
            delta: item.delta(),
        }
    }

    /// Decides what an answer without messages means; returns the next item when the reader goes on there.
    ///
    /// An item is at the same time the first, one in the middle, or the last, or the first and the last.
    fn turn(&self, asked: i64, seen: &mut Seen) -> Option<&Item> {
        let items = self.led.items();
        let last = self.at + 1 == items.len();
        let first = items::holding(items, 0) == Some(self.at);
        let before = asked < seen.min;
        let original = seen.code;
        if last {
            if asked > seen.max {
                if original == ResponseCode::PULL_OFFSET_MOVED {
                    seen.next = seen.max;
                }
            } else if before {
                seen.next = seen.min;
                seen.code = ResponseCode::PULL_RETRY_IMMEDIATELY;
            }
            if !first {
                return None;
            }
        }
        if before {
            seen.next = seen.min;
            seen.code = match first {
                true => ResponseCode::PULL_OFFSET_MOVED,
                false => ResponseCode::PULL_RETRY_IMMEDIATELY,
            };
            return None;
        }
        if asked < seen.max {
            seen.code = original;
            return None;
        }
        let Some(next) = items::next(items, self.at) else {
            // Either nothing follows, or it has no place yet.
            seen.code = ResponseCode::PULL_NOT_FOUND;
            return None;
        };
        let start = next.start_offset;
        *seen = Seen { code: ResponseCode::PULL_RETRY_IMMEDIATELY, next: start, min: start, max: start, delta: 0 };
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use remoting::body::topic_queue_mapping::TopicQueueMappingDetail;

    use super::super::items::item;
    use super::*;

    const OK: ResponseCode = ResponseCode::SUCCESS;
    const NONE: ResponseCode = ResponseCode::PULL_NOT_FOUND;
    const RETRY: ResponseCode = ResponseCode::PULL_RETRY_IMMEDIATELY;
    const MOVED: ResponseCode = ResponseCode::PULL_OFFSET_MOVED;

    fn mapping(items: Vec<Item>) -> Arc<Mapping> {
        Arc::new(Mapping::new(TopicQueueMappingDetail {
            bname: Some("a".into()),
            topic: Some("T".into()),
            hosted_queues: [(0, items)].into(),
            ..TopicQueueMappingDetail::default()
        }))
    }

    /// An answer without its delta.
    fn seen(code: ResponseCode, next: i64, min: i64, max: i64) -> Seen {
        Seen { code, next, min, max, delta: 0 }
    }

    /// [`PulledItem::see`]: the answer, and its delta.
    fn see(pulled: &PulledItem, asked: i64, of_item: Seen) -> (Seen, i64) {
        let seen = pulled.see(asked, of_item);
        (Seen { delta: 0, ..seen }, seen.delta)
    }

    /// 50 messages on `c`, 30 on `b`, and this broker takes those from 2000 on.
    fn three() -> Arc<Mapping> {
        mapping(vec![item(0, "c", 1, 0), item(1, "b", 0, 1000), item(2, "a", 2, 2000)])
    }

    #[test]
    fn an_offset_belongs_to_an_item() {
        let at = |offset| PulledItem::find(three(), 0, offset).unwrap();
        assert_eq!([0, 999, 1000, 1999, 2000, 5000].map(|offset| at(offset).item().generation), [0, 0, 1, 1, 2, 2]);
        assert!(at(2000).is_ours() && !at(1000).is_ours());
        assert!(at(10).is_same(&at(20)) && !at(10).is_same(&at(1000)));
        assert_eq!((at(2005).committed(2003), at(2005).committed(1003)), (Some(3), None));
        let (code, remark) = PulledItem::find(three(), 1, 0).unwrap_err();
        assert_eq!(code, ResponseCode::NOT_LEADER_FOR_QUEUE);
        assert_eq!(remark, "T-1 cannot find mapping item in request process of current broker a");
        assert_eq!(
            PulledItem::find(mapping(vec![item(0, "a", 0, -1)]), 0, 0).unwrap_err().0,
            ResponseCode::SYSTEM_ERROR
        );
    }

    #[test]
    fn found_messages_are_shifted() {
        let leader = PulledItem::find(three(), 0, 2005).unwrap();
        assert_eq!(see(&leader, 5, seen(OK, 8, 0, 10)), (seen(OK, 2008, 2000, 2010), 2000));
        // Of an older item the end is not known; the mapping alone tells that the queue reaches to the last one.
        let first = PulledItem::find(three(), 0, 5).unwrap();
        assert_eq!(see(&first, 5, seen(OK, 8, 2, 50)), (seen(OK, 8, 2, 2000), 0));
    }

    #[test]
    fn an_item_that_is_closed_is_not_read_beyond_its_end() {
        let closed = Item { end_offset: 20, ..item(0, "b", 0, 0) };
        let pulled = PulledItem::find(mapping(vec![closed, item(1, "a", 0, 1000)]), 0, 15).unwrap();
        assert_eq!((pulled.most(32), pulled.most(4)), (20, 4));
        assert_eq!(see(&pulled, 15, seen(OK, 25, 0, 25)).0.next, 20);
    }

    #[test]
    fn the_end_of_an_item_leads_to_the_next() {
        let first = PulledItem::find(three(), 0, 50).unwrap();
        assert_eq!(see(&first, 50, seen(NONE, 50, 0, 50)), (seen(RETRY, 1000, 1000, 2000), 1000));
        let middle = PulledItem::find(three(), 0, 1030).unwrap();
        assert_eq!(see(&middle, 30, seen(NONE, 30, 0, 30)), (seen(RETRY, 2000, 2000, 2000), 2000));
        assert_eq!(see(&middle, 77, seen(MOVED, 30, 0, 30)), (seen(RETRY, 2000, 2000, 2000), 2000));
        // The next has no place yet: the reader waits.
        let waiting = mapping(vec![item(0, "b", 0, 0), item(1, "a", 0, -1)]);
        let pulled = PulledItem::find(waiting, 0, 50).unwrap();
        assert_eq!(see(&pulled, 50, seen(NONE, 50, 0, 50)), (seen(NONE, 50, 0, 50), 0));
    }

    #[test]
    fn what_was_deleted_is_passed_over() {
        let first = PulledItem::find(three(), 0, 5).unwrap();
        assert_eq!(see(&first, 5, seen(MOVED, 20, 20, 50)), (seen(MOVED, 20, 20, 2000), 0));
        // In the middle and at the end the reader comes from the item before, and just goes on.
        let middle = PulledItem::find(three(), 0, 1005).unwrap();
        assert_eq!(see(&middle, 5, seen(MOVED, 20, 20, 30)), (seen(RETRY, 1020, 1020, 2000), 1000));
        let leader = PulledItem::find(three(), 0, 2005).unwrap();
        assert_eq!(see(&leader, 5, seen(MOVED, 20, 20, 30)), (seen(RETRY, 2020, 2020, 2030), 2000));
    }

    #[test]
    fn the_leader_answers_as_an_ordinary_queue() {
        let leader = PulledItem::find(three(), 0, 2010).unwrap();
        assert_eq!(see(&leader, 10, seen(NONE, 10, 0, 10)), (seen(NONE, 2010, 2000, 2010), 2000));
        assert_eq!(see(&leader, 15, seen(MOVED, 9, 0, 10)), (seen(MOVED, 2010, 2000, 2010), 2000));
        assert_eq!(see(&leader, 5, seen(RETRY, 7, 0, 10)), (seen(RETRY, 2007, 2000, 2010), 2000));
        let only = PulledItem::find(mapping(vec![item(0, "a", 0, 0)]), 0, 10).unwrap();
        assert_eq!(see(&only, 10, seen(NONE, 10, 0, 10)), (seen(NONE, 10, 0, 10), 0));
        assert_eq!(see(&only, 3, seen(MOVED, 5, 5, 10)), (seen(MOVED, 5, 5, 10), 0));
        assert_eq!(see(&only, 3, seen(RETRY, 6, 0, 10)), (seen(RETRY, 6, 0, 10), 0));
    }
}
