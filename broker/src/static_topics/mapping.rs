//! The mapping of one static topic on this broker.

use std::sync::Arc;

use remoting::body::topic_queue_mapping::{
    LogicQueueMappingItem as Item, TopicQueueMappingDetail, TopicQueueMappingInfo,
};

/// A mapping that does not change: a newer one is another value.
#[derive(Debug)]
pub struct Mapping {
    detail: TopicQueueMappingDetail,
}

/// A logical queue that this broker leads.
#[derive(Clone, Debug)]
pub struct Led {
    mapping: Arc<Mapping>,
    id: i32,
}

/// Where a message to a logical queue goes, and how its offset is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The logical queue.
    pub id: i32,
    /// The broker's queue.
    pub queue_id: i32,
    start: i64,
    end: i64,
    logic: i64,
}

impl Place {
    /// The logical offset of an offset of the broker's queue; -1 while that is not decided.
    pub fn logical(&self, offset: i64) -> i64 {
        let item = Item { start_offset: self.start, end_offset: self.end, logic_offset: self.logic, ..Item::default() };
        item.logical_within(offset)
    }
}

impl Mapping {
    /// The mapping that a tool has set, or a file holds.
    pub fn new(detail: TopicQueueMappingDetail) -> Mapping {
        Mapping { detail }
    }

    /// All of it.
    pub fn detail(&self) -> &TopicQueueMappingDetail {
        &self.detail
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        self.detail.topic.as_deref().unwrap_or_default()
    }

    /// The broker that it says it is of: this one.
    pub fn broker(&self) -> &str {
        self.detail.bname.as_deref().unwrap_or_default()
    }

    /// Whether an item is a queue of this broker.
    pub fn is_ours(&self, item: &Item) -> bool {
        item.bname == self.detail.bname
    }

    /// Whether this broker takes the messages of the queue that has these items.
    pub fn leads(&self, items: &[Item]) -> bool {
        items.last().is_some_and(|leader| self.is_ours(leader))
    }

    /// A logical queue, when this broker leads it.
    pub fn led(self: Arc<Mapping>, id: i32) -> Result<Led, Arc<Mapping>> {
        match self.detail.hosted_queues.get(&id) {
            Some(items) if self.leads(items) => Ok(Led { mapping: self, id }),
            _ => Err(self),
        }
    }

    /// Where a message goes that names a logical queue, or none (a negative id).
    ///
    /// # Errors
    /// This broker does not lead it: the remark of the answer.
    pub fn place(&self, id: i32) -> Result<Place, String> {
        let queues = &self.detail.hosted_queues;
        let chosen = if id < 0 { queues.keys().next().copied().unwrap_or(id) } else { id };
        let items = queues.get(&chosen).filter(|items| self.leads(items));
        let leader = items.and_then(|items| items.last()).ok_or_else(|| self.not_led(id))?;
        let Item { queue_id, start_offset: start, end_offset: end, logic_offset: logic, .. } = *leader;
        Ok(Place { id: chosen, queue_id, start, end, logic })
    }

    /// The remark of an answer about a logical queue that this broker does not lead.
    pub fn not_led(&self, id: i32) -> String {
        format!("{}-{id} does not exit in request process of current broker {}", self.topic(), self.broker())
    }

    /// What routes show of it.
    pub fn info(&self) -> TopicQueueMappingInfo {
        let ours = |(id, items): (&i32, &Vec<Item>)| {
            items.last().filter(|leader| self.is_ours(leader)).map(|leader| (*id, leader.queue_id))
        };
        let TopicQueueMappingDetail { bname, epoch, topic, total_queues, hosted_queues, .. } = &self.detail;
        TopicQueueMappingInfo {
            bname: bname.clone(),
            curr_id_map: hosted_queues.iter().filter_map(ours).collect(),
            epoch: *epoch,
            topic: topic.clone(),
            total_queues: *total_queues,
            ..TopicQueueMappingInfo::default()
        }
    }
}

impl Led {
    /// The mapping that it is part of.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The id.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Its items, the oldest first.
    pub fn items(&self) -> &[Item] {
        self.mapping.detail.hosted_queues.get(&self.id).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::static_topics::items::item;

    fn mapping() -> Arc<Mapping> {
        let queues = [
            (0, vec![item(0, "b", 1, 0), item(1, "a", 3, 1000)]),
            (1, vec![item(0, "a", 0, 0), item(1, "b", 0, -1)]),
            (2, vec![]),
        ];
        Arc::new(Mapping::new(TopicQueueMappingDetail {
            bname: Some("a".into()),
            topic: Some("T".into()),
            epoch: 7,
            total_queues: 3,
            hosted_queues: queues.into(),
            ..TopicQueueMappingDetail::default()
        }))
    }

    #[test]
    fn only_led_queues_take_messages() {
        let mapping = mapping();
        let place = mapping.place(0).unwrap();
        assert_eq!((place.id, place.queue_id, place.logical(5)), (0, 3, 1005));
        // No queue named: the first one.
        assert_eq!(mapping.place(-1), Ok(place));
        let remark = |id| format!("T-{id} does not exit in request process of current broker a");
        for id in [1, 2, 3] {
            assert_eq!(mapping.place(id), Err(remark(id)));
            assert!(mapping.clone().led(id).is_err());
        }
        assert_eq!(mapping.clone().led(0).unwrap().items().len(), 2);
        assert!(mapping.led(-1).is_err());
    }

    #[test]
    fn a_route_shows_what_is_led() {
        let info = mapping().info();
        assert_eq!(info.curr_id_map, [(0, 3)].into());
        assert_eq!((info.epoch, info.total_queues, info.scope.as_deref()), (7, 3, Some("__global__")));
    }
}
