//! The lists of topics.

use std::sync::Arc;

use remoting::body::topic_list::TopicList;
use remoting::fields::FieldError;
use remoting::header::{self, Empty};
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use super::json;
use crate::routes::Routes;
use crate::settings::Settings;

/// Which topics are asked for.
#[derive(Clone, Copy)]
pub enum Which {
    /// GET_ALL_TOPIC_LIST_FROM_NAMESERVER.
    All,
    /// GET_SYSTEM_TOPIC_LIST_FROM_NS.
    System,
    /// GET_UNIT_TOPIC_LIST.
    Unit,
    /// GET_HAS_UNIT_SUB_TOPIC_LIST.
    UnitSub,
    /// GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST.
    UnitSubUnunit,
}

/// A list that needs no parameter.
pub struct ListTopics {
    pub routes: Arc<Routes>,
    pub settings: Arc<Settings>,
    pub which: Which,
}

impl Handler for ListTopics {
    type Request<'a> = Empty;

    fn handle(&self, _: &mut Cx<'_>, _: Empty) -> Outcome {
        let config = self.settings.namesrv.load();
        let enabled = match self.which {
            Which::All => config.enable_all_topic_list,
            Which::System => true,
            Which::Unit | Which::UnitSub | Which::UnitSubUnunit => config.enable_topic_list,
        };
        if !enabled {
            return disabled().into();
        }
        let list = match self.which {
            Which::All => self.routes.all_topics(),
            Which::System => self.routes.system_topics(),
            Which::Unit => self.routes.unit_topics(),
            Which::UnitSub => self.routes.unit_sub_topics(),
            Which::UnitSubUnunit => self.routes.unit_sub_ununit_topics(),
        };
        json(&list).into()
    }
}

/// GET_TOPICS_BY_CLUSTER.
pub struct GetTopicsByCluster {
    pub routes: Arc<Routes>,
    pub settings: Arc<Settings>,
}

impl Handler for GetTopicsByCluster {
    type Request<'a> = header::GetTopicsByCluster<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        if !self.settings.namesrv.load().enable_topic_list {
            return disabled().into();
        }
        json(&self.routes.topics_of_cluster(&request.cluster)).into()
    }

    fn bad_header(&self, _: FieldError) -> Reply {
        if self.settings.namesrv.load().enable_topic_list { json(&TopicList::default()) } else { disabled() }
    }
}

fn disabled() -> Reply {
    Reply::error(ResponseCode::SYSTEM_ERROR, "disable")
}
