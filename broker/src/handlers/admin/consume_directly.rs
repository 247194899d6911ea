//! CONSUME_MESSAGE_DIRECTLY (309): an administrator wants a consumer to consume one message now.

use std::sync::Arc;

use bytes::Bytes;
use remoting::header::ConsumeMessageDirectlyResult;
use remoting::server::{Cx, Handler, Outcome};
use remoting::{Reply, ResponseCode};
use store::Store;

use crate::clients::Consumers;
use crate::groups::Groups;
use crate::identity::Identity;
use crate::push;
use crate::topics::TopicTable;

/// Hands the message to the consumer, and its answer back.
pub struct ConsumeDirectly {
    /// Names.
    pub identity: Arc<Identity>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Consumer groups.
    pub groups: Arc<Groups>,
    /// Connected consumers.
    pub consumers: Arc<Consumers>,
    /// Messages.
    pub store: Arc<Store>,
}

impl Handler for ConsumeDirectly {
    type Request<'a> = ConsumeMessageDirectlyResult<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let group = request.consumer_group.as_ref();
        let mut fields = push::pass::fields(cx.request());
        fields.retain(|(name, _)| !["brokerName", "topicSysFlag", "groupSysFlag"].contains(&name.as_str()));
        fields.push(("brokerName".to_owned(), self.identity.name.clone()));
        if let Some(topic) = request.topic.as_deref().and_then(|topic| self.topics.get(topic)) {
            fields.push(("topicSysFlag".to_owned(), topic.topic_sys_flag.to_string()));
        }
        if let Some(settings) = self.groups.find_or_create(group) {
            fields.push(("groupSysFlag".to_owned(), settings.group_sys_flag.to_string()));
        }
        let id = request.msg_id.as_deref().unwrap_or_default();
        let Some(record) = physical_offset(id).and_then(|offset| self.store.record_at(offset)) else {
            return Reply::error(ResponseCode::SYSTEM_ERROR, format!("there is no message {id}")).into();
        };
        let record = Bytes::copy_from_slice(&record);
        let client_id = request.client_id.as_deref().unwrap_or_default();
        let target = match push::pass::Target::find(&self.consumers, group, client_id) {
            Ok(target) => target,
            Err(refusal) => return refusal.into(),
        };
        Outcome::Later(Box::pin(async move {
            let answer = push::consume_directly::call(&target.client.conn, fields, record).await;
            target.reply(answer)
        }))
    }
}

/// The commitlog offset in a broker's message id: the last 16 of its hexadecimal digits.
fn physical_offset(id: &str) -> Option<u64> {
    let digits = id.len().checked_sub(16).filter(|rest| matches!(rest, 16 | 40)).and_then(|start| id.get(start..))?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_in_ids() {
        assert_eq!(physical_offset("7F00000100002A9F00000000000000F6"), Some(0xF6));
        assert_eq!(physical_offset("00000000000000F6"), None);
        assert_eq!(physical_offset("7F00000100002A9F00000000000000Gx"), None);
        assert_eq!(physical_offset("\u{e9}\u{e9}7F00000100002A9F000000000000F"), None);
    }
}
