//! NOTIFY_CONSUMER_IDS_CHANGED (40): the members of a group are told to share out the queues anew.

use std::borrow::Cow;

use remoting::header::NotifyConsumerIdsChanged;
use remoting::server::ConnHandle;
use remoting::{Command, RequestCode};

/// Tells these members of a group; those that are gone miss nothing.
pub fn push<'c>(group: &str, members: impl IntoIterator<Item = &'c ConnHandle>) {
    let header = NotifyConsumerIdsChanged { consumer_group: Cow::Borrowed(group), ..Default::default() };
    let command = Command::request(RequestCode::NOTIFY_CONSUMER_IDS_CHANGED).header(&header);
    for member in members {
        member.push(&command);
    }
}
