//! GET_CONSUMER_RUNNING_INFO (307): a consumer describes itself, for an administrator.

use std::time::Duration;

use remoting::server::{CallError, ConnHandle};
use remoting::{Command, RequestCode};

/// How long the consumer may take.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Passes an administrator's request on to the consumer and returns its answer.
///
/// # Errors
/// The consumer is gone or does not answer in time.
pub async fn call(consumer: &ConnHandle, fields: Vec<(String, String)>) -> Result<Command, CallError> {
    let mut command = Command::request(RequestCode::GET_CONSUMER_RUNNING_INFO);
    command.fields = fields;
    consumer.call(command, TIMEOUT).await
}
