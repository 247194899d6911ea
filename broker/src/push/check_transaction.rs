//! CHECK_TRANSACTION_STATE (39): a producer is asked how a transaction ended. It answers with END_TRANSACTION.

use remoting::header::CheckTransactionState;
use remoting::server::ConnHandle;
use remoting::{Command, RequestCode};

/// Asks a producer; `record` is the message as a pull would have it.
pub fn push(producer: &ConnHandle, header: &CheckTransactionState<'_>, record: Vec<u8>) {
    producer.push(&Command::request(RequestCode::CHECK_TRANSACTION_STATE).header(header).body(record));
}
