//! Request handlers, one file a request code, and the one list that says which code goes where.

pub mod admin;
mod check_client_config;
mod consumer_list;
mod heartbeat;
mod lock;
mod messages;
mod unlock;
mod unregister_client;

use std::sync::Arc;

use remoting::body::fastjson::{self, JsonError};
use remoting::server::{AnyHandler, Lane, Router};
use remoting::{Reply, RequestCode, ResponseCode};
use serde::Serialize;

use crate::metrics;
use crate::wiring::Parts;

/// The remark of an answer that Java forgets to give one.
pub(crate) const NOT_SET: &str = "not set any response code";

/// One row of the list.
type Row = (RequestCode, Lane, Arc<dyn AnyHandler>);

/// All handlers, made of the parts of one broker.
pub fn router(parts: &Parts) -> Router {
    let mut router = Router::new();
    // Two looks at the clock a request, for those who look at the histogram.
    router.set_timed(metrics::is_on(parts));
    for (code, lane, handler) in clients(parts).into_iter().chain(messages::list(parts)).chain(admin::list(parts)) {
        router.on(code, lane, handler);
    }
    router
}

/// What clients send to stay in their groups.
fn clients(parts: &Parts) -> Vec<Row> {
    let (config, clients) = (&parts.config, &parts.clients);
    let heartbeat = heartbeat::Heartbeat::new(
        config.clone(),
        clients.clone(),
        parts.groups.clone(),
        parts.topics.clone(),
        parts.stats.clone(),
    );
    vec![
        (RequestCode::HEART_BEAT, Lane::Inline, Arc::new(heartbeat)),
        (
            RequestCode::UNREGISTER_CLIENT,
            Lane::Inline,
            Arc::new(unregister_client::Unregister::new(clients.clone(), parts.groups.clone())),
        ),
        (
            RequestCode::GET_CONSUMER_LIST_BY_GROUP,
            Lane::Inline,
            Arc::new(consumer_list::ListConsumers::new(clients.consumers.clone())),
        ),
        (
            RequestCode::CHECK_CLIENT_CONFIG,
            Lane::Inline,
            Arc::new(check_client_config::CheckClientConfig::new(config.clone())),
        ),
        (RequestCode::LOCK_BATCH_MQ, Lane::Inline, Arc::new(lock::Lock::new(clients.locks.clone()))),
        (RequestCode::UNLOCK_BATCH_MQ, Lane::Inline, Arc::new(unlock::Unlock::new(clients.locks.clone()))),
    ]
}

/// SUCCESS with a JSON body.
pub(crate) fn json<T: Serialize>(body: &T) -> Reply {
    match fastjson::to_vec(body) {
        Ok(body) => Reply::ok().body(body),
        Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()),
    }
}

/// The answer to a body that cannot be read.
pub(crate) fn bad_body(error: &JsonError) -> Reply {
    Reply::error(ResponseCode::SYSTEM_ERROR, format!("the body cannot be read: {error}"))
}
