//! GET_BROKER_MEMBER_GROUP: the addresses of one broker name.

use std::sync::Arc;

use remoting::Reply;
use remoting::body::broker_member::BrokerMemberGroupBody;
use remoting::fields::FieldError;
use remoting::header;
use remoting::server::{Cx, Handler, Outcome};

use super::json;
use crate::routes::Routes;

/// The handler.
pub struct GetBrokerMemberGroup {
    pub routes: Arc<Routes>,
}

impl Handler for GetBrokerMemberGroup {
    type Request<'a> = header::GetBrokerMemberGroup<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let group = self.routes.member_group(Some(&request.cluster_name), Some(&request.broker_name));
        json(&BrokerMemberGroupBody { broker_member_group: group }).into()
    }

    fn bad_header(&self, _: FieldError) -> Reply {
        json(&BrokerMemberGroupBody { broker_member_group: self.routes.member_group(None, None) })
    }
}
