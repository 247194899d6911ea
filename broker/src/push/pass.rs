//! Requests of administrators that are passed on to a consumer.

use std::sync::Arc;

use remoting::server::CallError;
use remoting::{Command, Reply, Request, ResponseCode};

use crate::clients::{Client, Consumers};

/// Java's ordinal of V3_1_8_SNAPSHOT: older consumers do not know these requests.
const OLDEST: i32 = 62;

/// Java's ordinal of V3_0_7_SNAPSHOT: older consumers neither tell how far they are nor can be moved.
const OLDEST_WITH_STATUS: i32 = 28;

/// Whether a consumer is new enough to tell its offsets and to be moved.
///
/// # Errors
/// The answer to the administrator when it is not.
pub fn check_knows_status(client: &Client) -> Result<(), Reply> {
    if client.version >= OLDEST_WITH_STATUS {
        return Ok(());
    }
    let remark = format!("the client does not support this feature. version={}", client.version);
    Err(Reply::error(ResponseCode::SYSTEM_ERROR, remark))
}

/// The fields of a request, to be sent again.
pub fn fields(request: &Request<'_>) -> Vec<(String, String)> {
    request.fields.iter().map(|field| (field.name.to_owned(), field.value.to_cow().into_owned())).collect()
}

/// The consumer that a request is for.
pub struct Target {
    /// The consumer.
    pub client: Client,
    group: String,
}

impl Target {
    /// The member of a group with that id.
    ///
    /// # Errors
    /// The answer to the administrator when there is none, or one that is too old.
    pub fn find(consumers: &Arc<Consumers>, group: &str, client_id: &str) -> Result<Target, Reply> {
        let Some(client) = consumers.client(group, client_id) else {
            let remark = format!("The Consumer <{group}> <{client_id}> not online");
            return Err(Reply::error(ResponseCode::SYSTEM_ERROR, remark));
        };
        if client.version < OLDEST {
            let remark = format!(
                "The Consumer <{client_id}> Version <{}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT",
                client.version
            );
            return Err(Reply::error(ResponseCode::SYSTEM_ERROR, remark));
        }
        Ok(Target { client, group: group.to_owned() })
    }

    /// The consumer's answer, or why there is none, as the answer to the administrator.
    pub fn reply(&self, answer: Result<Command, CallError>) -> Reply {
        let (group, client) = (&self.group, &self.client.id);
        match answer {
            Ok(answer) => Reply { code: answer.code, remark: answer.remark, fields: answer.fields, body: answer.body },
            Err(error @ CallError::Timeout(_)) => Reply::error(
                ResponseCode::CONSUME_MSG_TIMEOUT,
                format!("consumer <{group}> <{client}> Timeout: {error}"),
            ),
            Err(error @ CallError::Closed) => Reply::error(
                ResponseCode::SYSTEM_ERROR,
                format!("invoke consumer <{group}> <{client}> Exception: {error}"),
            ),
        }
    }
}
