//! One file per request, or per small group of them, and the one list of all.

mod broker_cluster_info;
mod broker_heartbeat;
mod broker_member_group;
mod kv_config;
mod namesrv_config;
mod query_data_version;
mod register_broker;
mod route_info;
mod topic;
mod topic_list;
mod unregister_broker;
mod write_perm;

use std::sync::Arc;
use std::time::Instant;

use remoting::body::fastjson;
use remoting::server::{Lane, Router};
use remoting::{Reply, RequestCode, ResponseCode};
use serde::Serialize;

use crate::kv::KvStore;
use crate::routes::Routes;
use crate::settings::Settings;

/// What the handlers work on.
#[derive(Clone)]
pub struct Services {
    /// The tables.
    pub routes: Arc<Routes>,
    /// The KV configuration.
    pub kv: Arc<KvStore>,
    /// The configuration.
    pub settings: Arc<Settings>,
    /// When the server started.
    pub started: Instant,
}

/// The table of all requests that a name server answers.
///
/// Inline is what clients wait for and what never waits itself; what takes the writer's lock, writes a file or walks over all
/// topics is on the blocking lane.
pub fn router(services: &Services) -> Router {
    use Lane::{Blocking, Inline};
    use topic_list::Which;

    let Services { routes, kv, settings, started } = services.clone();
    let list = |which| Arc::new(topic_list::ListTopics { routes: routes.clone(), settings: settings.clone(), which });
    let mut router = Router::new();
    router.on(
        RequestCode::PUT_KV_CONFIG,
        Blocking,
        Arc::new(kv_config::Put { kv: kv.clone(), routes: routes.clone() }),
    );
    router.on(RequestCode::GET_KV_CONFIG, Inline, Arc::new(kv_config::Get { kv: kv.clone() }));
    router.on(
        RequestCode::DELETE_KV_CONFIG,
        Blocking,
        Arc::new(kv_config::Delete { kv: kv.clone(), routes: routes.clone() }),
    );
    router.on(RequestCode::GET_KVLIST_BY_NAMESPACE, Inline, Arc::new(kv_config::List { kv: kv.clone() }));
    router.on(
        RequestCode::REGISTER_BROKER,
        Inline,
        Arc::new(register_broker::RegisterBroker::new(routes.clone(), kv, settings.clone())),
    );
    router.on(
        RequestCode::QUERY_DATA_VERSION,
        Inline,
        Arc::new(query_data_version::QueryDataVersion { routes: routes.clone() }),
    );
    router.on(
        RequestCode::UNREGISTER_BROKER,
        Blocking,
        Arc::new(unregister_broker::UnregisterBroker { routes: routes.clone(), settings: settings.clone() }),
    );
    router.on(
        RequestCode::BROKER_HEARTBEAT,
        Inline,
        Arc::new(broker_heartbeat::BrokerHeartbeat { routes: routes.clone() }),
    );
    router.on(
        RequestCode::GET_ROUTEINFO_BY_TOPIC,
        Inline,
        Arc::new(route_info::GetRouteInfo { routes: routes.clone(), settings: settings.clone(), started }),
    );
    router.on(
        RequestCode::GET_BROKER_CLUSTER_INFO,
        Inline,
        Arc::new(broker_cluster_info::GetBrokerClusterInfo { routes: routes.clone() }),
    );
    router.on(
        RequestCode::GET_BROKER_MEMBER_GROUP,
        Inline,
        Arc::new(broker_member_group::GetBrokerMemberGroup { routes: routes.clone() }),
    );
    router.on(RequestCode::WIPE_WRITE_PERM_OF_BROKER, Blocking, Arc::new(write_perm::Wipe { routes: routes.clone() }));
    router.on(RequestCode::ADD_WRITE_PERM_OF_BROKER, Blocking, Arc::new(write_perm::Add { routes: routes.clone() }));
    router.on(RequestCode::DELETE_TOPIC_IN_NAMESRV, Blocking, Arc::new(topic::Delete { routes: routes.clone() }));
    router.on(RequestCode::REGISTER_TOPIC_IN_NAMESRV, Blocking, Arc::new(topic::Register { routes: routes.clone() }));
    router.on(RequestCode::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Blocking, list(Which::All));
    router.on(RequestCode::GET_SYSTEM_TOPIC_LIST_FROM_NS, Blocking, list(Which::System));
    router.on(RequestCode::GET_UNIT_TOPIC_LIST, Blocking, list(Which::Unit));
    router.on(RequestCode::GET_HAS_UNIT_SUB_TOPIC_LIST, Blocking, list(Which::UnitSub));
    router.on(RequestCode::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, Blocking, list(Which::UnitSubUnunit));
    router.on(
        RequestCode::GET_TOPICS_BY_CLUSTER,
        Blocking,
        Arc::new(topic_list::GetTopicsByCluster { routes: routes.clone(), settings: settings.clone() }),
    );
    router.on(
        RequestCode::UPDATE_NAMESRV_CONFIG,
        Blocking,
        Arc::new(namesrv_config::Update { settings: settings.clone(), routes }),
    );
    router.on(RequestCode::GET_NAMESRV_CONFIG, Inline, Arc::new(namesrv_config::Get { settings }));
    router
}

/// A successful answer with a JSON body in fastjson's dialect.
fn json<T: Serialize>(body: &T) -> Reply {
    match fastjson::to_vec(body) {
        Ok(bytes) => Reply::ok().body(bytes),
        Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{NamesrvConfig, NettyServerConfig};

    #[test]
    fn the_codes_are_javas() {
        let folder = tempfile::tempdir().unwrap();
        let kv = Arc::new(KvStore::load(&folder.path().join("kv")).unwrap());
        let services = Services {
            routes: Arc::new(Routes::new(kv.clone(), |_| {})),
            kv,
            settings: Arc::new(Settings::new(
                NamesrvConfig::default(),
                NettyServerConfig::default(),
                Default::default(),
            )),
            started: Instant::now(),
        };
        let codes: Vec<i32> = router(&services).codes().into_iter().map(|code| code.0).collect();
        let java = [
            100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327,
            901, 904,
        ];
        assert_eq!(codes, java);
    }
}
