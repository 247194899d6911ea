//! UNREGISTER_CLIENT (35): a client leaves a group at its own wish.

use std::sync::Arc;

use remoting::Reply;
use remoting::header::UnregisterClient;
use remoting::server::{Cx, Handler, Outcome};

use crate::clients::Clients;
use crate::groups::Groups;

/// Takes the client out of the named groups.
pub struct Unregister {
    clients: Clients,
    groups: Arc<Groups>,
}

impl Unregister {
    /// The handler.
    pub fn new(clients: Clients, groups: Arc<Groups>) -> Unregister {
        Unregister { clients, groups }
    }
}

impl Handler for Unregister {
    type Request<'a> = UnregisterClient<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        if let Some(group) = request.producer_group {
            self.clients.producers.unregister(&group, cx.conn());
        }
        if let Some(group) = request.consumer_group {
            let settings = self.groups.get(&group);
            let notify = settings.is_none_or(|settings| settings.notify_consumer_ids_changed_enable);
            self.clients.consumers.unregister(&group, cx.conn(), notify);
        }
        Reply::ok().into()
    }
}
