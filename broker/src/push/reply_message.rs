//! PUSH_REPLY_MESSAGE_TO_CLIENT (326): the client that asked gets the reply on the connection of its producer.

use std::time::Duration;

use bytes::Bytes;
use remoting::header::ReplyMessage;
use remoting::server::{CallError, ConnHandle};
use remoting::{Command, RequestCode};

/// How long the client may take.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The request with a reply.
pub fn command(header: &ReplyMessage<'_>, body: Bytes) -> Command {
    Command::request(RequestCode::PUSH_REPLY_MESSAGE_TO_CLIENT).header(header).body(body)
}

/// Hands the reply over and returns the client's answer.
///
/// # Errors
/// The client is gone or does not answer in time.
pub async fn call(producer: &ConnHandle, command: Command) -> Result<Command, CallError> {
    producer.call(command, TIMEOUT).await
}
