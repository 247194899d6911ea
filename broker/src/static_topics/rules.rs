//! What a mapping must be like, by itself and as the successor of another one.
//!
//! The texts are Java's: tools show them.

use remoting::body::topic_queue_mapping::{LogicQueueMappingItem as Item, TopicQueueMappingDetail};
use thiserror::Error;

/// Why a mapping is not taken. The tool's fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MappingError {
    /// Without a topic it belongs nowhere.
    #[error("the mapping has no topic")]
    NoTopic,
    /// A number of an item is below zero.
    #[error("The field is illegal, should not be negative")]
    Negative,
    /// Only the last item of a queue may have no place yet.
    #[error("The non-latest item has negative logic offset")]
    Unplaced,
    /// Items in the wrong order.
    #[error("The gen does not increase monotonically")]
    Generations,
    /// An item that ends before it begins.
    #[error("The endOffset is smaller than the start offset")]
    Ends,
    /// Items that begin before the one in front of them.
    #[error("The base logic offset does not increase monotonically")]
    Begins,
    /// Items that overlap.
    #[error("The max logic offset does not increase monotonically")]
    Overlaps,
    /// Older than what is known.
    #[error("Can't accept data with small epoch {new} < {old}")]
    Epoch {
        /// Its epoch.
        new: i64,
        /// The known one's.
        old: i64,
    },
    /// Of another scope.
    #[error("Can't accept data with unmatched scope {new} != {old}")]
    Scope {
        /// Its scope.
        new: String,
        /// The known one's.
        old: String,
    },
    /// A queue is missing, though nothing is newer.
    #[error("Cannot accept equal epoch with null data")]
    Missing,
    /// A queue that had items has none.
    #[error("The new item list is null or empty")]
    Empty,
    /// A queue has moved, though nothing is newer.
    #[error("The new leader is different but epoch equal")]
    Leader,
}

/// Checks the items of one logical queue.
pub(super) fn check_items(items: &[Item]) -> Result<(), MappingError> {
    let mut later: Option<&Item> = None;
    for (at, item) in items.iter().enumerate().rev() {
        if item.start_offset < 0 || item.generation < 0 || item.queue_id < 0 {
            return Err(MappingError::Negative);
        }
        if at + 1 < items.len() && item.logic_offset < 0 {
            return Err(MappingError::Unplaced);
        }
        if later.is_some_and(|later| item.generation >= later.generation) {
            return Err(MappingError::Generations);
        }
        if item.end_offset != -1 && item.end_offset < item.start_offset {
            return Err(MappingError::Ends);
        }
        if let Some(later) = later.filter(|later| later.logic_offset != -1 && item.logic_offset != -1) {
            if item.logic_offset >= later.logic_offset {
                return Err(MappingError::Begins);
            }
            if item.known_end() >= later.logic_offset {
                return Err(MappingError::Overlaps);
            }
        }
        later = Some(item);
    }
    Ok(())
}

/// What a mapping becomes in place of another one: queues that it does not speak of stay as they were. `force`: without a
/// look at what was there.
pub(super) fn succeed(
    old: &TopicQueueMappingDetail,
    mut new: TopicQueueMappingDetail,
    force: bool,
) -> Result<TopicQueueMappingDetail, MappingError> {
    if !force {
        if new.epoch < old.epoch {
            return Err(MappingError::Epoch { new: new.epoch, old: old.epoch });
        }
        if new.scope != old.scope {
            let text = |scope: &Option<String>| scope.clone().unwrap_or_else(|| "null".to_owned());
            return Err(MappingError::Scope { new: text(&new.scope), old: text(&old.scope) });
        }
        let equal = new.epoch == old.epoch;
        for (id, items) in &old.hosted_queues {
            match new.hosted_queues.get(id) {
                None if equal => return Err(MappingError::Missing),
                None => {}
                Some(_) if items.is_empty() => {}
                Some(new) => check_successor(items, new, equal)?,
            }
        }
    }
    for (id, items) in &old.hosted_queues {
        new.hosted_queues.entry(*id).or_insert_with(|| items.clone());
    }
    Ok(new)
}

fn check_successor(old: &[Item], new: &[Item], equal: bool) -> Result<(), MappingError> {
    let key = |item: &Item| (item.generation, item.bname.clone(), item.queue_id, item.start_offset);
    match (old.last(), new.last()) {
        (_, None) => Err(MappingError::Empty),
        (Some(old), Some(new)) if equal && key(old) != key(new) => Err(MappingError::Leader),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::static_topics::items::item;

    fn mapping(epoch: i64, queues: &[(i32, Vec<Item>)]) -> TopicQueueMappingDetail {
        TopicQueueMappingDetail { epoch, hosted_queues: queues.iter().cloned().collect(), ..Default::default() }
    }

    #[test]
    fn items_follow_one_another() {
        assert_eq!(check_items(&[]), Ok(()));
        assert_eq!(check_items(&[item(0, "a", 0, 0), item(1, "b", 0, 100), item(3, "a", 1, -1)]), Ok(()));
        assert_eq!(check_items(&[item(0, "a", -1, 0)]), Err(MappingError::Negative));
        assert_eq!(check_items(&[item(0, "a", 0, -1), item(1, "b", 0, 5)]), Err(MappingError::Unplaced));
        assert_eq!(check_items(&[item(1, "a", 0, 0), item(1, "b", 0, 5)]), Err(MappingError::Generations));
        assert_eq!(check_items(&[item(0, "a", 0, 5), item(1, "b", 0, 5)]), Err(MappingError::Begins));
        let closed = |end_offset| Item { end_offset, start_offset: 2, ..item(0, "a", 0, 0) };
        assert_eq!(check_items(&[closed(1)]), Err(MappingError::Ends));
        assert_eq!(check_items(&[closed(7), item(1, "b", 0, 5)]), Err(MappingError::Overlaps));
        assert_eq!(check_items(&[closed(7), item(1, "b", 0, 6)]), Ok(()));
    }

    #[test]
    fn a_successor_is_newer_or_the_same() {
        let items = vec![item(0, "a", 0, 0)];
        let old = mapping(5, &[(0, items.clone()), (1, items.clone())]);
        assert_eq!(succeed(&old, mapping(4, &[]), false), Err(MappingError::Epoch { new: 4, old: 5 }));
        let scoped = TopicQueueMappingDetail { scope: Some("s".into()), ..mapping(6, &[]) };
        let scopes = MappingError::Scope { new: "s".into(), old: "__global__".into() };
        assert_eq!(succeed(&old, scoped, false), Err(scopes));
        assert_eq!(succeed(&old, mapping(5, &[(0, items.clone())]), false), Err(MappingError::Missing));
        assert_eq!(succeed(&old, mapping(6, &[(0, vec![])]), false), Err(MappingError::Empty));
        let moved = vec![item(0, "a", 0, 0), item(1, "b", 0, -1)];
        let both = mapping(5, &[(0, moved.clone()), (1, items.clone())]);
        assert_eq!(succeed(&old, both.clone(), false), Err(MappingError::Leader));
        // A newer one may move queues, and keeps those that it does not speak of.
        let newer = succeed(&old, mapping(6, &[(0, moved.clone())]), false).unwrap();
        assert_eq!(newer, mapping(6, &[(0, moved.clone()), (1, items.clone())]));
        // The place of the last item is decided under the same epoch.
        let placed = vec![item(0, "a", 0, 0), item(1, "b", 0, 100)];
        let placed = succeed(&newer, mapping(6, &[(0, placed.clone()), (1, items)]), false).unwrap();
        assert_eq!(placed.hosted_queues[&0][1].logic_offset, 100);
        // By force anything goes.
        assert_eq!(succeed(&old, mapping(1, &[(0, moved)]), true).unwrap().hosted_queues.len(), 2);
    }
}
