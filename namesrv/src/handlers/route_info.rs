//! GET_ROUTEINFO_BY_TOPIC: what every client asks for every 30 seconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use remoting::body::fastjson;
use remoting::fields::FieldError;
use remoting::header::{self, Empty};
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use super::register_broker::ZONE_NAME;
use crate::routes::{RouteRules, Routes, in_zone};
use crate::settings::Settings;

/// The first version whose clients read standard JSON: Java's ordinal of V4_9_4.
const V4_9_4: i32 = 401;
/// The field with which a client asks for brokers of its zone only; not part of the header.
const ZONE_MODE: &str = "__ZONE_MODE";

/// The handler.
pub struct GetRouteInfo {
    pub routes: Arc<Routes>,
    pub settings: Arc<Settings>,
    pub started: Instant,
}

impl Handler for GetRouteInfo {
    type Request<'a> = header::GetRouteInfo<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let config = self.settings.namesrv.load();
        if config.need_wait_for_service {
            let wait = Duration::from_secs(u64::try_from(config.wait_seconds_for_service).unwrap_or(0));
            if self.started.elapsed() < wait {
                return cx.write(ResponseCode::SYSTEM_ERROR, Some("name server not ready"), &Empty, &[]);
            }
        }
        let rules = RouteRules { acting_master: config.support_acting_master, order: config.order_message_enable };
        if let Some(zone) = wanted_zone(cx) {
            let Some(route) = self.routes.route(&request.topic, rules) else { return no_route(&request.topic).into() };
            // Java filters the encoded answer and encodes it again, in the dialect whatever the client asked for.
            return match fastjson::to_vec(&in_zone(route, &zone)) {
                Ok(body) => cx.write(ResponseCode::SUCCESS, None, &Empty, &body),
                Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into(),
            };
        }
        let standard = cx.request().version >= V4_9_4 || request.accept_standard_json_only.unwrap_or(false);
        match self.routes.encoded_route(&request.topic, rules, standard) {
            Some(body) => cx.write(ResponseCode::SUCCESS, None, &Empty, &body),
            None => no_route(&request.topic).into(),
        }
    }

    fn bad_header(&self, _: FieldError) -> Reply {
        no_route("null")
    }
}

fn wanted_zone(cx: &Cx<'_>) -> Option<String> {
    let fields = &cx.request().fields;
    let on = fields.get(ZONE_MODE).is_some_and(|mode| mode.to_cow().eq_ignore_ascii_case("true"));
    let zone = fields.get(ZONE_NAME).filter(|_| on)?.to_cow().into_owned();
    (!zone.trim().is_empty()).then_some(zone)
}

fn no_route(topic: &str) -> Reply {
    let remark = format!(
        "No topic route info in name server for the topic: {topic}\n\
         See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
    );
    Reply::error(ResponseCode::TOPIC_NOT_EXIST, remark)
}
