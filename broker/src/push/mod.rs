//! What the broker sends to clients on its own account: one file a request code.

pub mod consume_directly;
pub mod ids_changed;
pub mod pass;
pub mod reply_message;
pub mod running_info;
