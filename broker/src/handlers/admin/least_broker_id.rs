//! NOTIFY_MIN_BROKER_ID_CHANGE (905): a name server tells who of our group has the least id now.

use std::sync::Arc;

use remoting::Reply;
use remoting::header::NotifyMinBrokerIdChange;
use remoting::server::{Cx, Handler, Outcome};

use crate::slave::{LeastChanged, Succession};

/// Takes on or lays down what only one broker of a group does. A master, and a broker without `enableSlaveActingMaster`, only
/// says that it has heard.
pub struct LeastBrokerId(pub Arc<Succession>);

impl Handler for LeastBrokerId {
    type Request<'a> = NotifyMinBrokerIdChange<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let owned = |text: &Option<std::borrow::Cow<'_, str>>| {
            text.as_deref().filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let Some(id) = request.min_broker_id else { return Reply::ok().into() };
        let change = LeastChanged {
            id,
            addr: owned(&request.min_broker_addr),
            offline_addr: owned(&request.offline_broker_addr),
            ha_addr: owned(&request.ha_broker_addr),
        };
        let succession = self.0.clone();
        Outcome::Later(Box::pin(async move {
            succession.least_changed(change).await;
            Reply::ok()
        }))
    }
}
