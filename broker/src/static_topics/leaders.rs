//! Which broker takes the messages of each logical queue, as a route tells it.

use std::collections::BTreeMap;

use remoting::body::topic_queue_mapping::TopicQueueMappingInfo;

/// Broker names by logical queue, of the mappings of one scope. Where several brokers claim a queue, the newest claim counts.
pub(super) fn of_route<'i>(
    infos: impl IntoIterator<Item = &'i TopicQueueMappingInfo>,
    scope: Option<&str>,
) -> BTreeMap<i32, &'i str> {
    let mut claims: BTreeMap<i32, &TopicQueueMappingInfo> = BTreeMap::new();
    for info in infos.into_iter().filter(|info| info.scope.as_deref() == scope) {
        for id in info.curr_id_map.keys() {
            let claim = claims.entry(*id).or_insert(info);
            if claim.epoch <= info.epoch {
                *claim = info;
            }
        }
    }
    claims.into_iter().filter_map(|(id, info)| Some((id, info.bname.as_deref()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g_02_static_topic_epoch() {
        let claim = |broker: &str, epoch| TopicQueueMappingInfo {
            bname: Some(broker.into()),
            curr_id_map: [(0, 0)].into(),
            epoch,
            total_queues: 1,
            ..TopicQueueMappingInfo::default()
        };
        // The difference of the epochs, cut to 32 bits, is negative, or none at all.
        for newest in [i64::MAX, 1 << 31, 1 << 32, 3 << 32] {
            let (old, new) = (claim("old", 0), claim("new", newest));
            for order in [[&old, &new], [&new, &old]] {
                assert_eq!(of_route(order, Some("__global__")), [(0, "new")].into(), "{newest}");
            }
        }
        assert!(of_route([&claim("other", 1)], Some("scope")).is_empty());
    }
}
