//! QUERY_SUBSCRIPTION_BY_CONSUMER (345): what a connected group wants of a topic.

use std::sync::Arc;

use remoting::body::heartbeat::GroupSubscription;
use remoting::header::QuerySubscriptionByConsumer;
use remoting::server::{Cx, Handler, Outcome};

use crate::clients::Consumers;
use crate::handlers::json;

/// Answers with a group's subscription, if it has one.
pub struct Subscription {
    consumers: Arc<Consumers>,
}

impl Subscription {
    /// The handler.
    pub fn new(consumers: Arc<Consumers>) -> Subscription {
        Subscription { consumers }
    }
}

impl Handler for Subscription {
    type Request<'a> = QuerySubscriptionByConsumer<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let topic = request.topic.as_deref();
        let found = topic.and_then(|topic| self.consumers.subscription(&request.group, topic));
        json(&GroupSubscription {
            group: Some(request.group.to_string()),
            subscription_data: found.map(|found| (*found).clone()),
            topic: topic.map(str::to_owned),
        })
        .into()
    }
}
