//! GET_CONSUMER_CONNECTION_LIST (203), GET_PRODUCER_CONNECTION_LIST (204), GET_ALL_PRODUCER_INFO (328): who is connected.

use std::sync::Arc;

use remoting::body::connections::{Connection, ConsumerConnection, ProducerConnection, ProducerInfo, ProducerTable};
use remoting::header::{GetAllProducerInfo, GetConsumerConnectionList, GetProducerConnectionList};
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};

use crate::clients::{Consumers, Member, Producers};
use crate::handlers::json;

/// Answers with the members and subscriptions of a consumer group.
pub struct ConsumerConnections {
    consumers: Arc<Consumers>,
}

/// Answers with the members of a producer group.
pub struct ProducerConnections {
    producers: Arc<Producers>,
}

/// Answers with the members of all producer groups.
pub struct AllProducers {
    producers: Arc<Producers>,
}

impl ConsumerConnections {
    /// The handler.
    pub fn new(consumers: Arc<Consumers>) -> ConsumerConnections {
        ConsumerConnections { consumers }
    }
}

impl ProducerConnections {
    /// The handler.
    pub fn new(producers: Arc<Producers>) -> ProducerConnections {
        ProducerConnections { producers }
    }
}

impl AllProducers {
    /// The handler.
    pub fn new(producers: Arc<Producers>) -> AllProducers {
        AllProducers { producers }
    }
}

impl Handler for ConsumerConnections {
    type Request<'a> = GetConsumerConnectionList<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let Some(group) = self.consumers.membership(&request.consumer_group) else {
            let remark = format!("the consumer group[{}] not online", request.consumer_group);
            return Reply::error(ResponseCode::CONSUMER_NOT_ONLINE, remark).into();
        };
        let subscriptions = group.subscriptions.into_iter().map(|(topic, data)| (topic, (*data).clone()));
        json(&ConsumerConnection {
            connection_set: group.members.iter().map(connection).collect(),
            consume_from_where: group.from_where.map(|value| value.name().to_owned()),
            consume_type: group.consume_type.map(|value| value.name().to_owned()),
            message_model: group.message_model.map(|value| value.name().to_owned()),
            subscription_table: subscriptions.collect(),
        })
        .into()
    }
}

impl Handler for ProducerConnections {
    type Request<'a> = GetProducerConnectionList<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        match self.producers.members(&request.producer_group) {
            Some(members) => {
                json(&ProducerConnection { connection_set: members.iter().map(connection).collect() }).into()
            }
            None => {
                let remark = format!("the producer group[{}] not exist", request.producer_group);
                Reply::error(ResponseCode::SYSTEM_ERROR, remark).into()
            }
        }
    }
}

impl Handler for AllProducers {
    type Request<'a> = GetAllProducerInfo;

    fn handle(&self, _: &mut Cx<'_>, _: Self::Request<'_>) -> Outcome {
        let info = |member: &Member| ProducerInfo {
            client_id: member.client.id.clone(),
            language: member.client.language.name().to_owned(),
            last_update_timestamp: member.seen,
            remote_ip: format!("/{}", member.client.conn.client()),
            version: member.client.version,
        };
        let groups = self.producers.all().into_iter();
        json(&ProducerTable {
            data: groups.map(|(name, members)| (name, members.iter().map(info).collect())).collect(),
        })
        .into()
    }
}

fn connection(member: &Member) -> Connection {
    Connection {
        client_addr: member.client.conn.client().to_string(),
        client_id: member.client.id.clone(),
        language: member.client.language.name().to_owned(),
        version: member.client.version,
    }
}
