//! DELETE_TOPIC_IN_NAMESRV and REGISTER_TOPIC_IN_NAMESRV.

use std::sync::Arc;

use remoting::body::fastjson;
use remoting::body::route::TopicRouteData;
use remoting::fields::FieldError;
use remoting::header;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::routes::Routes;

/// DELETE_TOPIC_IN_NAMESRV: on all brokers, or on those of a cluster.
pub struct Delete {
    pub routes: Arc<Routes>,
}

impl Handler for Delete {
    type Request<'a> = header::DeleteTopicFromNamesrv<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        match request.cluster_name.as_deref() {
            Some(cluster) if !cluster.is_empty() => self.routes.delete_topic_in_cluster(&request.topic, cluster),
            _ => self.routes.delete_topic(&request.topic),
        }
        Reply::ok().into()
    }

    fn bad_header(&self, _: FieldError) -> Reply {
        Reply::ok()
    }
}

/// REGISTER_TOPIC_IN_NAMESRV: a broker enters one new topic before its next registration.
pub struct Register {
    pub routes: Arc<Routes>,
}

impl Handler for Register {
    type Request<'a> = header::RegisterTopic<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        match fastjson::from_slice::<Option<TopicRouteData>>(cx.body()) {
            Ok(route) => {
                let queues = route.unwrap_or_default().queue_datas;
                if !queues.is_empty() {
                    self.routes.register_topic(&request.topic, queues);
                }
                Reply::ok().into()
            }
            Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()).into(),
        }
    }

    fn bad_header(&self, _: FieldError) -> Reply {
        Reply::ok()
    }
}
