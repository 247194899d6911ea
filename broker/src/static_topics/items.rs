//! Which item of a logical queue an offset belongs to. Items that have no place yet are passed over.

use remoting::body::topic_queue_mapping::LogicQueueMappingItem as Item;

/// Where the item with a logical offset is: the last one that begins at it or before. What lies before all of them belongs
/// to the first.
pub(super) fn holding(items: &[Item], offset: i64) -> Option<usize> {
    let placed = |item: &Item| item.is_placed();
    items.iter().rposition(|item| placed(item) && offset >= item.logic_offset).or_else(|| items.iter().position(placed))
}

/// The first item.
pub(super) fn first(items: &[Item]) -> Option<&Item> {
    items.get(holding(items, 0)?)
}

/// The last item that has a place.
pub(super) fn last(items: &[Item]) -> Option<&Item> {
    items.get(holding(items, i64::MAX)?)
}

/// The item behind another, when it has a place.
pub(super) fn next(items: &[Item], at: usize) -> Option<&Item> {
    items.get(at + 1).filter(|item| item.is_placed())
}

#[cfg(test)]
pub(super) fn item(generation: i32, broker: &str, queue_id: i32, logic_offset: i64) -> Item {
    Item { bname: Some(broker.to_owned()), generation, queue_id, logic_offset, ..Item::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_item_of_an_offset() {
        let items = [item(0, "a", 0, 0), item(1, "b", 0, 100), item(2, "c", 0, -1)];
        assert_eq!([-5, 0, 99, 100, i64::MAX].map(|offset| holding(&items, offset)), [0, 0, 0, 1, 1].map(Some));
        assert_eq!((first(&items), last(&items)), (Some(&items[0]), Some(&items[1])));
        assert_eq!((next(&items, 0), next(&items, 1), next(&items, 2)), (Some(&items[1]), None, None));
        // The first was cleaned away: what was in it belongs to the one that is there.
        assert_eq!(holding(&items[1..], 5), Some(0));
        assert_eq!(holding(&items[2..], 5), None);
        assert_eq!(holding(&[], 0), None);
    }
}
