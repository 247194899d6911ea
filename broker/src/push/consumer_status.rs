//! GET_CONSUMER_STATUS_FROM_CLIENT (221): a consumer tells how far it is in each queue of a topic.

use std::time::Duration;

use remoting::body::fastjson;
use remoting::body::offset_table::{ConsumerStatus, QueueTable};
use remoting::header::GetConsumerStatus;
use remoting::server::ConnHandle;
use remoting::{Command, RequestCode, ResponseCode};

/// How long the consumer may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The request.
pub fn command(group: &str, topic: &str) -> Command {
    let header = GetConsumerStatus { group: group.into(), topic: topic.into(), ..Default::default() };
    Command::request(RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT).header(&header)
}

/// Asks a consumer; `None` when it does not answer in time, or with an error.
pub async fn call(consumer: &ConnHandle, command: Command) -> Option<QueueTable> {
    let answer = consumer.call(command, TIMEOUT).await.ok()?;
    if answer.code != ResponseCode::SUCCESS.0 || answer.body.is_empty() {
        return None;
    }
    let status: ConsumerStatus = fastjson::from_slice(&answer.body).ok()?;
    Some(status.message_queue_table)
}
