//! Routes for clients that want to stay in their zone.

use std::collections::HashSet;

use remoting::body::route::TopicRouteData;

use super::brokers::MASTER_ID;

/// Leaves the brokers of a zone (upper and lower case are the same), and those without a master: these are read
/// from wherever they are.
pub fn in_zone(mut route: TopicRouteData, zone: &str) -> TopicRouteData {
    // As Java lowers and raises each character of both names.
    let fold = |name: &str| name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect::<String>();
    let wanted = fold(zone);
    let (kept, removed): (Vec<_>, Vec<_>) = std::mem::take(&mut route.broker_datas).into_iter().partition(|broker| {
        !broker.broker_addrs.contains_key(&MASTER_ID)
            || broker.zone_name.as_deref().is_some_and(|zone| fold(zone) == wanted)
    });
    let names: HashSet<_> = removed.iter().filter_map(|broker| broker.broker_name.as_deref()).collect();
    route.queue_datas.retain(|queue| !names.contains(queue.broker_name.as_str()));
    for addr in removed.iter().flat_map(|broker| broker.broker_addrs.values()) {
        route.filter_server_table.remove(addr);
    }
    route.broker_datas = kept;
    route
}

#[cfg(test)]
mod tests {
    use remoting::body::route::{BrokerData, QueueData};

    use super::*;

    #[test]
    fn other_zones_go_unless_they_lost_their_master() {
        let broker = |name: &str, id: i64, zone: Option<&str>| BrokerData {
            broker_addrs: [(id, format!("{name}:1"))].into(),
            broker_name: Some(name.into()),
            zone_name: zone.map(str::to_owned),
            ..BrokerData::default()
        };
        let names = ["a", "b", "c", "d"];
        let route = TopicRouteData {
            broker_datas: vec![
                broker("a", 0, Some("Z1")),
                broker("b", 0, Some("z2")),
                broker("c", 1, Some("z2")),
                broker("d", 0, None),
            ],
            queue_datas: names.map(|name| QueueData { broker_name: name.into(), ..QueueData::default() }).into(),
            filter_server_table: names.map(|name| (format!("{name}:1"), vec!["f".to_owned()])).into(),
            ..TopicRouteData::default()
        };
        let route = in_zone(route, "z1");
        let left: Vec<_> = route.broker_datas.iter().filter_map(|broker| broker.broker_name.as_deref()).collect();
        assert_eq!(left, ["a", "c"]);
        let queues: Vec<_> = route.queue_datas.iter().map(|queue| queue.broker_name.as_str()).collect();
        assert_eq!(queues, ["a", "c"]);
        assert_eq!(route.filter_server_table.keys().collect::<Vec<_>>(), ["a:1", "c:1"]);
    }
}
