//! What the broker sends to clients on its own account: one file a request code.

pub mod check_transaction;
pub mod consume_directly;
pub mod consumer_status;
pub mod ids_changed;
pub mod pass;
pub mod reply_message;
pub mod reset_offset;
pub mod running_info;
