//! QUERY_MESSAGE (12): messages of a topic by key and time of storing.

use std::sync::Arc;

use config::{Live, MessageStoreConfig};
use remoting::header::{self, QueryMessageResponse};
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::Store;

/// Set by clients that look for a unique key: as many messages as `defaultQueryMaxNum` says.
const UNIQUE_FLAG: &str = "_UNIQUE_KEY_QUERY";

/// Looks into the index.
pub struct QueryMessage {
    config: Arc<Live<MessageStoreConfig>>,
    store: Arc<Store>,
}

impl QueryMessage {
    /// The handler.
    pub fn new(config: Arc<Live<MessageStoreConfig>>, store: Arc<Store>) -> QueryMessage {
        QueryMessage { config, store }
    }
}

impl Handler for QueryMessage {
    type Request<'a> = header::QueryMessage<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let config = self.config.load();
        let unique = cx.request().fields.get(UNIQUE_FLAG);
        let unique = unique.is_some_and(|flag| flag.to_cow().eq_ignore_ascii_case("true"));
        let max = if unique { config.default_query_max_num } else { request.max_num };
        let max = usize::try_from(max.min(config.max_msgs_num_batch)).unwrap_or(0);
        let time = request.begin_timestamp..request.end_timestamp.saturating_add(1);
        self.store.catch_up();
        let found = self.store.query(&request.topic, &request.key, max, time);
        let header = QueryMessageResponse {
            index_last_update_timestamp: found.last_update_timestamp,
            index_last_update_phy_offset: found.last_update_phys_offset,
        };
        if found.records.is_empty() {
            let remark = "can not find message, maybe time range not correct";
            return Reply::error(ResponseCode::QUERY_NOT_FOUND, remark).header(&header).into();
        }
        let mut body = Vec::with_capacity(found.records.iter().map(|record| record.len()).sum());
        found.records.iter().for_each(|record| body.extend_from_slice(record));
        Reply::ok().header(&header).body(body).into()
    }
}
