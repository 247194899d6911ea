//! RESET_CONSUMER_CLIENT_OFFSET (220): consumers are told to go on from other offsets.

use remoting::body::fastjson;
use remoting::body::offset_table::{ResetOffsetList, ResetOffsets};
use remoting::header::ResetOffset;
use remoting::server::ConnHandle;
use remoting::{Command, RequestCode};

/// Tells a consumer; `as_list` for administrators that speak for C++ consumers.
pub fn push(consumer: &ConnHandle, header: &ResetOffset<'_>, offsets: &ResetOffsets, as_list: bool) {
    let body = if as_list { fastjson::to_vec(&ResetOffsetList::from(offsets)) } else { fastjson::to_vec(offsets) };
    // Tables of names and numbers always have a text.
    let body = body.unwrap_or_default();
    consumer.push(&Command::request(RequestCode::RESET_CONSUMER_CLIENT_OFFSET).header(header).body(body));
}
