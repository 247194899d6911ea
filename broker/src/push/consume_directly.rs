//! CONSUME_MESSAGE_DIRECTLY (309): a consumer consumes one message now, for an administrator.

use std::time::Duration;

use bytes::Bytes;
use remoting::server::{CallError, ConnHandle};
use remoting::{Command, RequestCode};

/// How long the consumer may take.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Hands the message (its record, as a pull would) to the consumer and returns its answer.
///
/// # Errors
/// The consumer is gone or does not answer in time.
pub async fn call(consumer: &ConnHandle, fields: Vec<(String, String)>, record: Bytes) -> Result<Command, CallError> {
    let mut command = Command::request(RequestCode::CONSUME_MESSAGE_DIRECTLY).body(record);
    command.fields = fields;
    consumer.call(command, TIMEOUT).await
}
