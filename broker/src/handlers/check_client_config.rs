//! CHECK_CLIENT_CONFIG (46): a consumer asks whether its subscription is one that this broker can serve.

use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::body::fastjson;
use remoting::body::heartbeat::CheckClient;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use super::bad_body;
use crate::filter::SQL92;
use crate::filter::sql::Expression;

/// What Java answers for a language that it has no filter of.
const NO_SUCH_FILTER: &str = "Cannot invoke \"org.apache.rocketmq.filter.FilterSpi.compile(String)\" because the return \
     value of \"org.apache.rocketmq.filter.FilterFactory.get(String)\" is null";

/// Accepts subscriptions by tag; those by expression depend on `enablePropertyFilter`.
pub struct CheckClientConfig {
    config: Arc<Live<BrokerConfig>>,
}

impl CheckClientConfig {
    /// The handler.
    pub fn new(config: Arc<Live<BrokerConfig>>) -> CheckClientConfig {
        CheckClientConfig { config }
    }
}

impl Handler for CheckClientConfig {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let body: Option<CheckClient> = match fastjson::from_slice(cx.body()) {
            Ok(body) => body,
            Err(error) => return bad_body(&error).into(),
        };
        let Some(subscription) = body.and_then(|body| body.subscription_data) else { return Reply::ok().into() };
        if subscription.is_tag_type() {
            return Reply::ok().into();
        }
        let kind = subscription.expression_type.unwrap_or_default();
        if !self.config.load().enable_property_filter {
            let remark = format!("The broker does not support consumer to filter message by {kind}");
            return Reply::error(ResponseCode::SYSTEM_ERROR, remark).into();
        }
        let failed = Reply::code(ResponseCode::SUBSCRIPTION_PARSE_FAILED);
        let Some(expression) = subscription.sub_string else { return failed.into() };
        if kind != SQL92 {
            return failed.remark(NO_SUCH_FILTER).into();
        }
        match Expression::compile(&expression) {
            Ok(_) => Reply::ok().into(),
            Err(error) => failed.remark(error.to_string()).into(),
        }
    }
}
